//! One core's handle on an HTTP origin, as a [`Source`].
use super::{
    address_choice::{AddressChoice, Tried},
    exchange::answer,
    origin_settings::OriginSettings,
    pass_through::pass_through,
    request_deadline::RequestDeadline,
    write_exchange::write,
};
use crate::{
    admission::FetchEnd,
    fetch::Fetch,
    fetch_gate::FetchGate,
    fill_policy::FillPolicy,
    local_future::LocalFuture,
    source_error::SourceError,
    source_health::SourceHealth,
    source_limits::SourceLimits,
    source_setup::SourceSetup,
    source_trait::{Source, SourceKind, ValueWrites},
    value_stream::ValueStream,
};
use bytes::Bytes;
use larder_base::buffers::Buffers;
use larder_config::OriginUrl;
use larder_engine::Millis;
use larder_store::clock;
use std::{rc::Rc, sync::Arc};
use tokio::{task::JoinHandle, time::Instant};

/// Reads the files that the URL names; connects to nothing yet.
///
/// # Errors
/// A text that names the file or host at fault.
pub(crate) fn setup(
    url: &OriginUrl,
    limits: SourceLimits,
    health: SourceHealth,
    buffers: Arc<Buffers>,
) -> Result<SourceSetup, String> {
    let settings = Arc::new(OriginSettings::new(url, limits, health, buffers)?);
    Ok(SourceSetup::of(settings.health.clone(), move |_, _| Rc::new(OriginSource::new(settings.clone()))))
}

/// One core's handle.
struct OriginSource {
    gate: FetchGate,
    origin: Rc<AddressChoice>,
    /// One for each address.
    watches: Vec<JoinHandle<()>>,
}
impl OriginSource {
    fn new(settings: Arc<OriginSettings>) -> OriginSource {
        let origin = Rc::new(AddressChoice::new(settings));
        let watches = (0..origin.count()).map(|index| {
            let origin = origin.clone();
            tokio::task::spawn_local(async move { origin.watch(index).await })
        });
        let watches = watches.collect();
        let me = Rc::downgrade(&origin);
        let send = move |batch: &mut Vec<Fetch>| me.upgrade().iter().for_each(|origin| send_all(origin, batch));
        OriginSource { gate: FetchGate::new(origin.settings.health.clone(), send), watches, origin }
    }
    fn check_writable(&self) -> Result<(), SourceError> {
        match self.origin.settings.url.options.takes_writes {
            true => Ok(()),
            false => Err(self.kind().read_only()),
        }
    }
    fn deadline(&self) -> RequestDeadline {
        RequestDeadline::after(self.origin.settings.limits.timeout)
    }
}
impl Drop for OriginSource {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

impl Source for OriginSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Values(match self.origin.settings.url.options.takes_writes {
            true => ValueWrites::Changed,
            false => ValueWrites::Refused("an HTTP API"),
        })
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let large_keys = &self.origin.settings.large_keys;
        if !large_keys.is_empty() {
            refuse_large(&self.origin, batch);
        }
        self.gate.fetch(batch);
    }
    fn stream<'a>(
        &'a self,
        key: &'a [u8],
        policy: &FillPolicy,
    ) -> Option<LocalFuture<'a, Result<Option<ValueStream>, SourceError>>> {
        let timeout = policy.source_timeout(key, self.origin.settings.limits.timeout);
        Some(Box::pin(async move {
            let admitted = self.gate.admit().await?;
            let answer = pass_through(self.origin.clone(), key, RequestDeadline::after(timeout)).await;
            admitted.finish(&answer);
            answer
        }))
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        let send = || -> LocalFuture<'a, _> {
            Box::pin(async move {
                self.check_writable()?;
                if expiry.is_some() {
                    return Err(self.origin.settings.refused("a value that is written through takes no lifetime"));
                }
                write(&self.origin, key, Some(Bytes::copy_from_slice(value)), self.deadline()).await
            })
        };
        self.origin.settings.health.with_faults(1, send)
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        self.origin.settings.health.with_faults(1, || {
            Box::pin(async move {
                self.check_writable()?;
                write(&self.origin, key, None, self.deadline()).await
            })
        })
    }
    fn expire<'a>(&'a self, _key: &'a [u8], _expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            self.check_writable()?;
            Err(self.origin.settings.refused("a lifetime cannot be written through"))
        })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let mut tried = Tried::default();
            let mut answer = Ok(());
            // One that is reached is enough. Whether it asked to be left alone does not matter here.
            while let Some(pool) = self.origin.choose(&mut tried, Millis::MAX) {
                if let Some(stream) = pool.take_idle_stream() {
                    pool.give_back_stream(stream);
                    return Ok(());
                }
                if let Some(connection) = pool.take_open().await {
                    pool.give_back(connection);
                    return Ok(());
                }
                match self.origin.reach(pool, self.deadline()).await {
                    Ok(()) => return Ok(()),
                    Err(error) => answer = Err(error),
                }
            }
            answer
        })
    }
}

/// Ends the fetches of keys whose values were too large a moment ago: nothing is fetched only to be
/// discarded.
#[cold]
fn refuse_large(origin: &AddressChoice, batch: &mut Vec<Fetch>) {
    let (settings, now) = (&origin.settings, clock::now());
    for fetch in std::mem::take(batch) {
        match settings.large_keys.until(fetch.key(), now) {
            Some(_) => fetch.finish_copy(Err(settings.known_only_streamed()), now),
            None => batch.push(fetch),
        }
    }
}

/// Starts a task for each admitted fetch.
fn send_all(origin: &Rc<AddressChoice>, batch: &mut Vec<Fetch>) {
    for mut fetch in batch.drain(..) {
        let deadline = RequestDeadline::after(fetch.timeout(origin.settings.limits.timeout));
        let origin = origin.clone();
        tokio::task::spawn_local(async move {
            let begun = Instant::now();
            let validators = fetch.validators();
            let answer = answer(&origin, fetch.key(), validators, fetch.trace().cloned(), deadline).await;
            let health = &origin.settings.health;
            if let Some(reason) = answer.as_ref().err().and_then(SourceError::reason) {
                health.note_error(reason);
            }
            if let Err(SourceError::OnlyStreamed(_)) = &answer {
                origin.settings.note_large(fetch.key(), clock::now());
            }
            health.finished(FetchEnd::of(&answer), begun.elapsed() + fetch.held_back());
            fetch.finish_copy(answer, clock::now());
        });
    }
}
