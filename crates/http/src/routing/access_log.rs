//! The log of requests: each one at level `debug`; at level `info` a sample (`access-log`), and those
//! that took long or failed (`access-log-slower-than`). Who asked, who answered, and how long it took
//! until the last byte of the response was handed to the socket. And the spans of traced requests
//! (`otlp-endpoint`).
//!
//! Off, it costs a request nothing but a read of the worker's word ([`gate`](larder_core::gate)).
use http::Method;
use larder_base::{
    special::{Special, bits},
    telemetry::{Span, SpanIds, SpanKind, Tracer},
};
use larder_core::{
    app::{App, Worker},
    gate::Door,
};
use larder_proto::http::forwarded::ClientAddress;
use larder_ring::peer::ASKING_NODE;
use larder_source::RequestTrace;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// A share is counted in millionths.
const WHOLE: u32 = 1_000_000;
/// What has requests logged or traced.
pub(crate) const IN_LOG: u32 = bits([Special::AccessLog, Special::DebugLog, Special::Tracer]);

/// A request that is logged when its response has been sent: when this is dropped. A request
/// without a response has no line.
pub(crate) struct LoggedRequest {
    pub(crate) trace: Arc<RequestTrace>,
    client: ClientAddress,
    method: Method,
    target: Box<str>,
    /// The node that asks.
    node: Option<Box<str>>,
    is_sampled: bool,
    /// Requests that take this long are logged like those of the sample.
    slower_than: Option<Duration>,
    /// Whether it reads a key: then the tier or a source answers it.
    pub(crate) is_read: bool,
    begun: Instant,
    /// The status of the response, and when it was ready to be sent.
    answer: Option<(u16, Instant)>,
    /// If it is traced: where its spans go.
    tracer: Option<Arc<Tracer>>,
}

/// Whether any request may be logged or traced.
#[inline]
pub(crate) fn is_on(worker: &Worker) -> bool {
    worker.special(Door::Http) & IN_LOG != 0
}

impl LoggedRequest {
    /// If the request must be logged or traced. `field` finds header fields.
    pub(crate) fn begin<'h>(
        app: &App,
        client: ClientAddress,
        (method, target): (Method, &str),
        field: impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Option<LoggedRequest> {
        // What another node logs is logged here, too, so that both halves of a request are seen.
        let node = field(ASKING_NODE.as_str()).map(|name| String::from_utf8_lossy(name).into());
        let is_drawn = |share| node.is_some() || fastrand::u32(..WHOLE) < share;
        let share = app.live.access_log();
        let is_sampled = share > 0 && is_drawn(share);
        let slower_than = app.live.access_log_slower_than();
        let is_logged = is_sampled || slower_than.is_some() || app.telemetry.logs.is_debug();
        let span = app.telemetry.tracer.sample(field("traceparent"));
        let trace = || RequestTrace::new(field("x-request-id"), field("traceparent"), is_logged).traced(span);
        (is_logged || span.is_some()).then(|| LoggedRequest {
            trace: Arc::new(trace()),
            client,
            method,
            target: target.into(),
            node,
            is_sampled,
            slower_than,
            is_read: false,
            begun: Instant::now(),
            answer: None,
            tracer: span.map(|_| app.telemetry.tracer.clone()),
        })
    }

    pub(crate) fn answered(&mut self, status: u16) {
        self.answer = Some((status, Instant::now()));
    }

    /// Writes the line, and keeps the spans. The response was sent from this moment until now.
    fn sent(&self, status: u16, from: Instant) {
        let answered_by = self.is_read.then(|| self.trace.answered_by());
        let outcome = self.is_read.then(|| self.trace.outcome());
        let now = Instant::now();
        let took = now.saturating_duration_since(self.begun);
        let write = now.saturating_duration_since(from);
        if let (Some(tracer), Some(ids)) = (&self.tracer, self.trace.span) {
            self.keep_spans(tracer, ids, (took, write), status);
        }
        if !self.trace.is_logged {
            return;
        }
        let phases = self.trace.fetch_phases();
        // A failure is as remarkable as a slow answer.
        let is_remarkable = self.slower_than.is_some_and(|limit| took >= limit || status >= 500);
        macro_rules! line {
            ($level:ident) => {
                tracing::$level!(
                    target: "larder::access",
                    request_id = &*self.trace.request_id,
                    traceparent = self.trace.traceparent.as_deref(),
                    client = %self.client,
                    node = self.node.as_deref(),
                    method = self.method.as_str(),
                    // Each line has a `target`: the part of Larder that writes it.
                    uri = &*self.target,
                    status,
                    outcome,
                    answered_by,
                    fetch_micros = self.trace.fetch_micros(),
                    queue_micros = phases.map(|(queue, _)| queue),
                    source_micros = phases.map(|(_, source)| source),
                    write_micros = write.as_micros() as u64,
                    micros = took.as_micros() as u64,
                    "request"
                )
            };
        }
        match self.is_sampled || is_remarkable {
            true => line!(info),
            false => line!(debug),
        }
    }
}

impl Drop for LoggedRequest {
    fn drop(&mut self) {
        if let Some((status, from)) = self.answer {
            self.sent(status, from);
        }
    }
}

impl LoggedRequest {
    /// The span of the request, and that of the fetch that was begun for it, unless that goes on.
    fn keep_spans(&self, tracer: &Tracer, ids: SpanIds, (took, write): (Duration, Duration), status: u16) {
        let begun = SystemTime::now() - took;
        let path = self.target.split('?').next().unwrap_or_default();
        let mut texts = vec![
            ("http.request.method", self.method.as_str().into()),
            ("url.path", path.into()),
            ("client.address", self.client.ip.to_string().into()),
            ("larder.request_id", self.trace.request_id.clone()),
        ];
        if self.is_read {
            texts.push(("larder.outcome", self.trace.outcome().into()));
            texts.push(("larder.answered_by", self.trace.answered_by().into()));
        }
        tracer.add(Span {
            trace: ids.trace,
            id: ids.request,
            parent: ids.parent,
            kind: SpanKind::Server,
            name: self.method.as_str().into(),
            begun,
            took,
            has_failed: status >= 500,
            texts,
            numbers: vec![
                ("http.response.status_code", status.into()),
                ("larder.write_micros", write.as_micros() as i64),
            ],
        });
        let Some((fetch_begun, micros)) = self.trace.began_fetch().zip(self.trace.fetch_micros()) else { return };
        let phases = self.trace.fetch_phases();
        tracer.add(Span {
            trace: ids.trace,
            id: ids.fetch,
            parent: Some(ids.request),
            kind: SpanKind::Client,
            name: "fetch".into(),
            begun: begun + fetch_begun.saturating_duration_since(self.begun),
            took: Duration::from_micros(micros),
            has_failed: self.trace.has_failed(),
            texts: Vec::new(),
            numbers: phases.map(|(queue, _)| ("larder.queue_micros", queue as i64)).into_iter().collect(),
        });
    }
}

/// What goes with a request that is not logged, if its client sent something.
pub(crate) fn trace_of<'h>(field: impl Fn(&str) -> Option<&'h [u8]>) -> Option<Arc<RequestTrace>> {
    let (request_id, traceparent) = (field("x-request-id"), field("traceparent"));
    (request_id.is_some() || traceparent.is_some()).then(|| Arc::new(RequestTrace::new(request_id, traceparent, false)))
}

/// A field of a head that is not parsed yet.
pub(crate) fn field_of<'h>(head: &'h [u8], name: &str) -> Option<&'h [u8]> {
    fields_of(head, name).next()
}

pub(crate) fn fields_of<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(move |line| {
        let (start, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        start.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_a_head() {
        let head =
            b"GET /x-request-id:1 HTTP/1.1\r\nHost: h\r\nX-Request-ID:  a b \r\nx-request-idle: 1\r\nEmpty:\r\n\r\n";
        assert_eq!(field_of(head, "x-request-id"), Some(&b"a b"[..]));
        assert_eq!(field_of(head, "empty"), Some(&b""[..]));
        assert_eq!(field_of(head, "traceparent"), None);
        assert!(trace_of(|name| field_of(head, name)).is_some() && trace_of(|_| None).is_none());
    }
}
