//! `redis+sentinel://`: which server is the master, Sentinels say (<https://redis.io/docs/latest/develop/reference/sentinel-clients/>).
//!
//! They are asked every second, and as soon as a connection is lost; most voices count. A connection is made to the master that
//! they name and only if that says so itself (`ROLE`); when they name another, every connection ends and is made anew.
use super::{Settings, connection::UpstreamConnection};
use crate::{
    buffers::Buffers,
    config::{Deployment, RedisAddress, RedisUrl, SentinelUrl},
    source::{Limits, SourceHealth},
};
use larder_proto::resp::{View, encode, parse_i64, view};
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

/// How often they are asked, at most and at least.
const PERIOD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What all cores know of the Sentinels.
pub(super) struct Sentinels {
    service: String,
    /// For connections to each.
    each: Vec<Arc<Settings>>,
    master: watch::Sender<Option<RedisAddress>>,
    doubted: Notify,
    is_watched: AtomicBool,
}

/// The master of the moment, and when it is another.
pub(super) type Master = watch::Receiver<Option<RedisAddress>>;

impl Sentinels {
    /// Those that the URL names, if it does.
    ///
    /// # Errors
    /// See [`Settings::new`].
    pub(super) fn new(
        url: &RedisUrl,
        limits: Limits,
        buffers: &Arc<Buffers>,
    ) -> Result<Option<Arc<Sentinels>>, String> {
        let Deployment::Sentinel(sentinels) = &url.deployment else { return Ok(None) };
        let SentinelUrl { others, service, user, password, password_file } = &**sentinels;
        let settings = |address: &RedisAddress| {
            let url = RedisUrl {
                address: address.clone(),
                user: user.clone(),
                password: password.clone(),
                password_file: password_file.clone(),
                database: 0,
                deployment: Deployment::Single,
                ..url.clone()
            };
            Settings::new(&url, limits, Arc::new(SourceHealth::default()), buffers.clone()).map(Arc::new)
        };
        let each = [&url.address].into_iter().chain(others).map(settings).collect::<Result<_, _>>()?;
        Ok(Some(Arc::new(Sentinels {
            service: service.clone(),
            each,
            master: watch::Sender::new(None),
            doubted: Notify::new(),
            is_watched: AtomicBool::new(false),
        })))
    }

    pub(super) fn master(&self) -> Master {
        self.master.subscribe()
    }
    /// The server that they name may not be the master any more.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Waits for the master's address.
    pub(super) async fn named(&self, master: &mut Master, limit: Duration) -> io::Result<RedisAddress> {
        let named = timeout(limit, master.wait_for(Option::is_some)).await;
        let address = named.ok().and_then(Result::ok).and_then(|address| address.clone());
        address.ok_or_else(|| io::Error::other(format!("no Sentinel names a master for `{}`", self.service)))
    }

    /// Has this core ask them, unless another does.
    pub(super) fn watch(self: &Arc<Sentinels>) {
        if !self.is_watched.swap(true, Relaxed) {
            tokio::task::spawn_local(self.clone().keep());
        }
    }
    async fn keep(self: Arc<Sentinels>) {
        let links: Vec<UpstreamConnection> =
            self.each.iter().map(|settings| UpstreamConnection::shared(settings.clone(), false)).collect();
        loop {
            self.ask(&links).await;
            let known = self.master.borrow().is_some();
            sleep(PERIOD.0).await;
            if known {
                // Doubts that came up meanwhile are not lost.
                let _ = timeout(PERIOD.1, self.doubted.notified()).await;
            }
        }
    }
    async fn ask(&self, links: &[UpstreamConnection]) {
        let command = encode(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self.service.as_bytes()]);
        // All at once: they are queued as the futures are made.
        let asked: Vec<_> = links.iter().map(|link| link.relay(command.clone().into(), 1)).collect();
        let mut voices: Vec<(RedisAddress, usize)> = Vec::new();
        for answer in asked {
            let Ok(answer) = answer.await else { continue };
            let Some(address) = address(&answer.last()) else { continue };
            match voices.iter_mut().find(|(other, _)| *other == address) {
                Some((_, count)) => *count += 1,
                None => voices.push((address, 1)),
            }
        }
        let present = self.master.borrow().clone();
        let most = voices.into_iter().max_by_key(|(address, count)| (*count, Some(address) == present.as_ref()));
        if let Some((address, _)) = most
            && Some(&address) != present.as_ref()
        {
            tracing::info!(service = %self.service, master = %address, "the Sentinels name the master");
            self.master.send_replace(Some(address));
        }
    }
}

/// Two strings: host and port. Null where the service is not known.
fn address(reply: &[u8]) -> Option<RedisAddress> {
    let View::Array(mut parts) = view(reply).ok()? else { return None };
    let (Some(View::Bulk(host)), Some(View::Bulk(port))) = (parts.next(), parts.next()) else { return None };
    let host = String::from_utf8(host.to_vec()).ok()?;
    let port = parse_i64(port).and_then(|port| u16::try_from(port).ok())?;
    Some(RedisAddress::Tcp { host, port })
}
