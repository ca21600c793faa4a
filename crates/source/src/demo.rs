//! `demo:`: a source that makes up its answers, with a delay and faults: to see what Larder does
//! without a server behind it.
use super::{
    admission::FetchEnd,
    fetch::Fetch,
    fetch_gate::FetchGate,
    local_future::LocalFuture,
    source_error::SourceError,
    source_health::SourceHealth,
    source_limits::SourceLimits,
    source_setup::SourceSetup,
    source_trait::{Source, SourceKind, ValueWrites},
};
use foldhash::quality::FixedState;
use larder_config::DemoUrl;
use larder_store::{StoredValue, clock};
use std::{future::ready, hash::BuildHasher, rc::Rc, sync::Arc, time::Duration};
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime, SystemTime},
};

/// The settings of each core's source.
#[derive(Clone)]
struct DemoSettings {
    url: DemoUrl,
    limits: SourceLimits,
    health: Arc<SourceHealth>,
}

pub(super) fn setup(url: DemoUrl, limits: SourceLimits, health: SourceHealth) -> SourceSetup {
    let health = Arc::new(health.and_up());
    let settings = DemoSettings { url, limits, health: health.clone() };
    SourceSetup::of(health, move |_, _| {
        let settings = settings.clone();
        let health = settings.health.clone();
        let send = move |batch: &mut Vec<Fetch>| answer_all(&settings, batch);
        Rc::new(DemoSource(FetchGate::new(health, send)))
    })
}

/// One core's handle.
struct DemoSource(FetchGate);

impl Source for DemoSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Values(ValueWrites::Refused("demo:"))
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.0.fetch(batch);
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(ready(Ok(())))
    }
}

fn answer_all(settings: &DemoSettings, batch: &mut Vec<Fetch>) {
    let DemoSettings { url, limits, health } = settings;
    let url = *url;
    for fetch in batch.drain(..) {
        let timeout = fetch.timeout(limits.timeout);
        if url.delay.is_zero() {
            finish(fetch, &url, timeout, health);
            continue;
        }
        let health = health.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(url.delay.min(timeout)).await;
            finish(fetch, &url, timeout, &health);
        });
    }
}

/// Why this fetch gets no answer, if it gets none.
fn fault(url: &DemoUrl, timeout: Duration) -> Option<SourceError> {
    let reason = if url.delay > timeout {
        format!("demo: timed out after {timeout:?} (source-timeout)")
    } else if url.fail.includes(fastrand::u64(..)) {
        format!("demo: a fault on purpose (fail={})", url.fail)
    } else {
        return None;
    };
    Some(SourceError::Unavailable(reason.into()))
}

fn finish(fetch: Fetch, url: &DemoUrl, timeout: Duration, health: &SourceHealth) {
    // The same keys are absent at each fetch, on each core and after a restart.
    let absent = url.absent.includes(FixedState::with_seed(0).hash_one(fetch.key()));
    let answer = match fault(url, timeout) {
        Some(fault) => Err(fault),
        None if absent => Ok(None),
        None => Ok(Some(StoredValue::string(entity(fetch.key()), None))),
    };
    if let Err(SourceError::Unavailable(reason)) = &answer {
        health.note_error(reason);
    }
    health.finished(FetchEnd::of(&answer), url.delay.min(timeout) + fetch.held_back());
    fetch.finish(answer, clock::now());
}

/// `{"guid":"KEY","date_created":"…"}`: the time is that of the fetch.
fn entity(key: &[u8]) -> String {
    let guid = serde_json::Value::from(String::from_utf8_lossy(key));
    let mut created = String::new();
    // The logs' own format: RFC 3339 in UTC. Writing to a String cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut created));
    format!(r#"{{"guid":{guid},"date_created":"{created}"}}"#)
}

#[cfg(test)]
mod tests {
    use super::entity;

    #[test]
    fn an_entity_is_json_whatever_the_key() {
        for (key, guid) in [(&b"a"[..], "a"), (b"a\"\\\n\x00", "a\"\\\n\x00"), (b"a\xff", "a\u{fffd}"), (b"", "")] {
            let entity: serde_json::Value = serde_json::from_str(&entity(key)).expect("JSON");
            assert_eq!(entity["guid"], guid);
            let created = entity["date_created"].as_str().expect("a time");
            assert!(created.starts_with("20") && created.ends_with('Z') && created.as_bytes()[10] == b'T', "{created}");
            assert_eq!(entity.as_object().map(serde_json::Map::len), Some(2));
        }
    }
}
