//! Spans of a sample of the requests and fetches, until the exporter (`otlp-endpoint`) takes them.
//!
//! Off, it costs a request one read of a number that does not change.
use super::span_ids::SpanIds;
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

/// A share is counted in millionths.
const WHOLE: u32 = 1_000_000;
/// Spans that wait for the exporter; more are counted and lost. About 4 MiB.
const MOST: usize = 8192;

/// What a span is about, as OpenTelemetry has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// A request of a client.
    Server,
    /// A request to a source.
    Client,
}

/// One span that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its trace, 16 bytes.
    pub trace: [u8; 16],
    /// Itself.
    pub id: [u8; 8],
    /// The span that caused it.
    pub parent: Option<[u8; 8]>,
    /// What it is about.
    pub kind: SpanKind,
    /// What it is called; few different names.
    pub name: Box<str>,
    /// When it began.
    pub begun: SystemTime,
    /// How long it lasted.
    pub took: Duration,
    /// It ended with an error of the server.
    pub has_failed: bool,
    /// Texts by OpenTelemetry's names, or Larder's.
    pub texts: Vec<(&'static str, Box<str>)>,
    /// Numbers likewise.
    pub numbers: Vec<(&'static str, i64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Tracer {
    /// Share of the requests that are traced without a parent; `None`: no request is traced.
    share: Option<u32>,
    spans: Mutex<Vec<Span>>,
    lost: AtomicU64,
}

impl Tracer {
    /// Traces this share of the requests, in millionths, and those whose parents are traced.
    pub fn new(share: Option<u32>) -> Tracer {
        Tracer { share, ..Tracer::default() }
    }

    /// Whether any request may be traced. Without the feature this is known to the compiler, and
    /// costs nothing at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        cfg!(feature = "otlp") && self.share.is_some()
    }

    /// The spans of a request with this `traceparent`, if it is traced: as its parent is, or by
    /// chance.
    pub fn sample(&self, traceparent: Option<&[u8]>) -> Option<SpanIds> {
        let share = self.share?;
        match traceparent.and_then(SpanIds::below) {
            Some((ids, is_sampled)) => is_sampled.then_some(ids),
            None => (share > 0 && fastrand::u32(..WHOLE) < share).then(SpanIds::of_root),
        }
    }

    /// Keeps a span for the exporter.
    pub fn add(&self, span: Span) {
        let mut spans = self.spans.lock();
        match spans.len() < MOST {
            true => spans.push(span),
            false => _ = self.lost.fetch_add(1, Relaxed),
        }
    }

    /// The spans since the last time, and how many there were no room for.
    pub fn take(&self) -> (Vec<Span>, u64) {
        (std::mem::take(&mut *self.spans.lock()), self.lost.swap(0, Relaxed))
    }

    /// Gives spans back that could not be sent.
    pub fn put_back(&self, spans: Vec<Span>) {
        spans.into_iter().for_each(|span| self.add(span));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span() -> Span {
        let ids = SpanIds::of_root();
        Span {
            trace: ids.trace,
            id: ids.request,
            parent: None,
            kind: SpanKind::Server,
            name: "GET".into(),
            begun: SystemTime::UNIX_EPOCH,
            took: Duration::ZERO,
            has_failed: false,
            texts: Vec::new(),
            numbers: Vec::new(),
        }
    }

    #[test]
    fn a_request_is_traced_as_its_parent_is_or_by_chance() {
        let (off, none, all) = (Tracer::default(), Tracer::new(Some(0)), Tracer::new(Some(WHOLE)));
        let parent = |flags: &str| format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        for flags in ["01", "00"] {
            let parent = parent(flags);
            assert!(off.sample(Some(parent.as_bytes())).is_none());
            for tracer in [&none, &all] {
                let sampled = tracer.sample(Some(parent.as_bytes()));
                assert_eq!(sampled.is_some(), flags == "01", "{flags}");
                assert!(sampled.is_none_or(|ids| ids.parent == Some([0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31])));
            }
        }
        assert!(off.sample(None).is_none() && none.sample(None).is_none());
        assert!(all.sample(Some(b"nonsense")).is_some_and(|ids| ids.parent.is_none()));
        let some = Tracer::new(Some(WHOLE / 10));
        let sampled = (0..10_000).filter(|_| some.sample(None).is_some()).count();
        assert!((700..1300).contains(&sampled), "{sampled}");
    }

    #[test]
    fn spans_wait_up_to_a_bound() {
        let tracer = Tracer::new(Some(1));
        (0..MOST + 3).for_each(|_| tracer.add(span()));
        let (spans, lost) = tracer.take();
        assert_eq!((spans.len(), lost), (MOST, 3));
        tracer.add(span());
        tracer.put_back(spans);
        assert_eq!((tracer.take().0.len(), tracer.take()), (MOST, (Vec::new(), 0)));
    }
}
