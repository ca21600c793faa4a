//! The log of requests: each one at level `debug`; at level `info` a sample (`access-log`), and those
//! that took long or failed (`access-log-slower-than`). Who asked, who answered, and how long it took.
//!
//! Off, it costs a request nothing but a read of two numbers that do not change.
use crate::{app::App, peer::ASKING_NODE, source::RequestTrace};
use larder_proto::http::forwarded::ClientAddress;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// A share is counted in millionths.
const WHOLE: u32 = 1_000_000;

/// A request that is logged when it has been answered.
pub(super) struct LoggedRequest {
    pub(super) trace: Arc<RequestTrace>,
    client: ClientAddress,
    method: Box<str>,
    target: Box<str>,
    /// The node that asks.
    node: Option<Box<str>>,
    is_sampled: bool,
    /// Requests that take this long are logged like those of the sample.
    slower_than: Option<Duration>,
    /// Whether it reads a key: then the tier or a source answers it.
    pub(super) is_read: bool,
    begun: Instant,
}

/// Whether any request may be logged.
#[inline]
pub(super) fn is_on(app: &App) -> bool {
    app.live.access_log() > 0 || app.live.access_log_slower_than().is_some() || app.telemetry.logs.is_debug()
}

impl LoggedRequest {
    /// If the request must be logged. `field` finds header fields.
    pub(super) fn begin<'h>(
        app: &App,
        client: ClientAddress,
        (method, target): (&str, &str),
        field: impl Fn(&str) -> Option<&'h [u8]>,
    ) -> Option<LoggedRequest> {
        if !is_on(app) {
            return None;
        }
        // What another node logs is logged here, too, so that both halves of a request are seen.
        let node = field(ASKING_NODE.as_str()).map(|name| String::from_utf8_lossy(name).into());
        let is_drawn = |share| node.is_some() || fastrand::u32(..WHOLE) < share;
        let share = app.live.access_log();
        let is_sampled = share > 0 && is_drawn(share);
        let slower_than = app.live.access_log_slower_than();
        (is_sampled || slower_than.is_some() || app.telemetry.logs.is_debug()).then(|| LoggedRequest {
            trace: Arc::new(RequestTrace::new(field("x-request-id"), field("traceparent"), true)),
            client,
            method: method.into(),
            target: target.into(),
            node,
            is_sampled,
            slower_than,
            is_read: false,
            begun: Instant::now(),
        })
    }

    /// Writes the line.
    pub(super) fn answered(&self, status: u16) {
        let answered_by = self.is_read.then(|| self.trace.answered_by());
        let outcome = self.is_read.then(|| self.trace.outcome());
        let took = self.begun.elapsed();
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
                    method = &*self.method,
                    target = &*self.target,
                    status,
                    outcome,
                    answered_by,
                    fetch_micros = self.trace.fetch_micros(),
                    queue_micros = phases.map(|(queue, _)| queue),
                    source_micros = phases.map(|(_, source)| source),
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

/// What goes with a request that is not logged, if its client sent something.
pub(super) fn trace_of<'h>(field: impl Fn(&str) -> Option<&'h [u8]>) -> Option<Arc<RequestTrace>> {
    let (request_id, traceparent) = (field("x-request-id"), field("traceparent"));
    (request_id.is_some() || traceparent.is_some()).then(|| Arc::new(RequestTrace::new(request_id, traceparent, false)))
}

/// A field of a head that is not parsed yet.
pub(super) fn field_of<'h>(head: &'h [u8], name: &str) -> Option<&'h [u8]> {
    fields_of(head, name).next()
}

/// All fields of a name.
pub(super) fn fields_of<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
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
