//! What goes with a request to the nodes and sources that are asked for its sake: its id, its
//! trace, and who has answered it.
use larder_base::telemetry::SpanIds;
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};
use std::time::{Duration, Instant};

/// The longest id or trace that is taken from a client.
const LONGEST: usize = 128;

/// The fetch was not sent.
const NOT_SENT: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub struct RequestTrace {
    /// What names the request in the logs of all nodes (`x-request-id`).
    pub request_id: Box<str>,
    /// W3C's `traceparent`: as the client sent it, or that of the fetch if the request is traced.
    pub traceparent: Option<Box<str>>,
    /// If the request is traced.
    pub span: Option<SpanIds>,
    /// The nodes that are asked shall log it, too.
    pub is_logged: bool,
    /// When the fetch was begun for the request.
    began_fetch: OnceLock<Instant>,
    fetch_failed: AtomicBool,
    answered_by: OnceLock<Box<str>>,
    is_stale: AtomicBool,
    /// How long the fetch took that was begun for the request, microseconds.
    fetch_micros: AtomicU64,
    /// How long that fetch waited before it was sent to the source, microseconds; or [`NOT_SENT`].
    queue_micros: AtomicU64,
}

impl RequestTrace {
    /// With what the client sent, as far as it can be used; an id is made if there is none.
    pub fn new(request_id: Option<&[u8]>, traceparent: Option<&[u8]>, is_logged: bool) -> RequestTrace {
        RequestTrace {
            request_id: usable(request_id).unwrap_or_else(|| format!("{:016x}", fastrand::u64(..)).into()),
            traceparent: usable(traceparent),
            span: None,
            is_logged,
            began_fetch: OnceLock::new(),
            fetch_failed: AtomicBool::new(false),
            answered_by: OnceLock::new(),
            is_stale: AtomicBool::new(false),
            fetch_micros: AtomicU64::new(0),
            queue_micros: AtomicU64::new(NOT_SENT),
        }
    }

    /// This trace, for a request that is traced.
    pub fn traced(self, span: Option<SpanIds>) -> RequestTrace {
        let traceparent = span.map(|span| span.traceparent().into()).or(self.traceparent);
        RequestTrace { span, traceparent, ..self }
    }

    /// A fetch was begun for the request at this moment.
    pub fn begins_fetch(&self, at: Instant) {
        self.began_fetch.get_or_init(|| at);
    }
    /// When.
    pub fn began_fetch(&self) -> Option<Instant> {
        self.began_fetch.get().copied()
    }
    pub fn has_failed(&self) -> bool {
        self.fetch_failed.load(Relaxed)
    }

    /// That fetch is sent to the source, so long after it began.
    pub fn sends_fetch(&self, waited: Duration) {
        self.queue_micros.store(waited.as_micros() as u64, Relaxed);
    }

    pub fn ends_fetch(&self, took: Duration, has_failed: bool) {
        self.fetch_failed.store(has_failed, Relaxed);
        self.fetch_micros.store(took.as_micros() as u64, Relaxed);
    }
    /// How long it took, microseconds; `None`: there was none, or it goes on.
    pub fn fetch_micros(&self) -> Option<u64> {
        Some(self.fetch_micros.load(Relaxed)).filter(|micros| *micros > 0)
    }

    /// How long it waited for a slot, and how long the source took, microseconds. `None` also for a
    /// fetch that needed no slot, or got none.
    pub fn fetch_phases(&self) -> Option<(u64, u64)> {
        let queue = Some(self.queue_micros.load(Relaxed)).filter(|queue| *queue != NOT_SENT)?;
        let fetch = self.fetch_micros()?;
        Some((queue.min(fetch), fetch.saturating_sub(queue)))
    }

    /// The copy that answered is out of date.
    pub fn is_answered_stale(&self) {
        self.is_stale.store(true, Relaxed);
    }

    /// What became of a read: `hit`, `stale`, `hot-copy`, `peer`, `origin`, or `shared` for the
    /// fetch of another request.
    pub fn outcome(&self) -> &'static str {
        match self.answered_by.get().map(|who| &**who) {
            Some("hit" | "hot copy") if self.is_stale.load(Relaxed) => "stale",
            Some("hit") => "hit",
            Some("hot copy") => "hot-copy",
            Some(_) => "peer",
            None if self.began_fetch.get().is_some() => "origin",
            None => "shared",
        }
    }

    /// The first that is named counts.
    pub fn is_answered_by(&self, who: impl FnOnce() -> Box<str>) {
        self.answered_by.get_or_init(who);
    }

    /// Who answered: what was named, else the source if a fetch was begun, else a fetch that
    /// another request began.
    pub fn answered_by(&self) -> &str {
        match self.answered_by.get() {
            Some(who) => who,
            None if self.began_fetch.get().is_some() => "source",
            None => "the fetch of another request",
        }
    }
}

fn usable(text: Option<&[u8]>) -> Option<Box<str>> {
    let text = std::str::from_utf8(text?.trim_ascii()).ok()?;
    ((1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_taken_or_made() {
        let trace = RequestTrace::new(Some(b" abc "), Some(b"00-1-2-01"), true);
        assert_eq!((&*trace.request_id, trace.traceparent.as_deref()), ("abc", Some("00-1-2-01")));
        for odd in [None, Some(&b""[..]), Some(b"a b"), Some(b"\xff"), Some(&[b'a'; 129])] {
            let trace = RequestTrace::new(odd, odd, true);
            assert_eq!((trace.request_id.len(), &trace.traceparent), (16, &None));
        }
    }

    #[test]
    fn who_answered() {
        let trace = RequestTrace::new(None, None, true);
        assert_eq!(trace.answered_by(), "the fetch of another request");
        trace.begins_fetch(Instant::now());
        assert_eq!(trace.answered_by(), "source");
        trace.is_answered_by(|| "peer a".into());
        trace.is_answered_by(|| "peer b".into());
        assert_eq!(trace.answered_by(), "peer a");
    }

    #[test]
    fn outcomes() {
        let trace = || RequestTrace::new(None, None, true);
        assert_eq!((trace().outcome(), trace().fetch_micros()), ("shared", None));
        let fetched = trace();
        fetched.begins_fetch(Instant::now());
        fetched.ends_fetch(Duration::from_micros(7), false);
        assert_eq!((fetched.outcome(), fetched.fetch_micros()), ("origin", Some(7)));
        assert_eq!(fetched.fetch_phases(), None, "it was not sent");
        fetched.sends_fetch(Duration::from_micros(3));
        assert_eq!((fetched.fetch_phases(), trace().fetch_phases()), (Some((3, 4)), None));
        for (who, outcome) in [("hit", "hit"), ("hot copy", "hot-copy"), ("peer a", "peer")] {
            let trace = trace();
            trace.is_answered_by(|| who.into());
            assert_eq!(trace.outcome(), outcome);
            trace.is_answered_stale();
            assert_eq!(trace.outcome(), if outcome == "peer" { "peer" } else { "stale" });
        }
    }
}
