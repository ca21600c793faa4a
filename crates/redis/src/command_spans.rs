//! Spans of a sample of the commands (`otlp-endpoint`), by OpenTelemetry's conventions for Redis:
//! <https://opentelemetry.io/docs/specs/semconv/database/redis/>.
//!
//! The Redis protocol has no place for a client's trace, so each span is a trace of its own.
use larder_base::telemetry::{Span, SpanKind};
use larder_core::{app::Worker, clients::Client};
use std::time::{Duration, Instant, SystemTime};

/// Commands of one row that have just ended, one after the other.
pub(super) struct EndedCommands {
    pub(super) row: u16,
    pub(super) commands: u32,
    /// When the last of them ended.
    pub(super) ended: Instant,
    /// How long they took together.
    pub(super) took: Duration,
    /// They waited for an answer, and it is an error.
    pub(super) has_failed: bool,
}

/// Keeps the spans of those that are sampled. Each of them took its equal part of the time.
#[cold]
pub(super) fn keep(worker: &Worker, client: &Client, ended: EndedCommands) {
    let EndedCommands { row, commands, ended, took, has_failed } = ended;
    let tracer = &worker.app.telemetry.tracer;
    let each = took / commands.max(1);
    // The kernel may have taken the core since they ended: then the next command began before now.
    let begun = SystemTime::now() - ended.elapsed() - took;
    for at in 0..commands {
        let Some(ids) = tracer.sample(None) else { continue };
        let name: Box<str> = operation(worker.app.commands.name(row)).into();
        tracer.add(Span {
            trace: ids.trace,
            id: ids.request,
            parent: None,
            kind: SpanKind::Server,
            name: name.clone(),
            begun: begun + each * at,
            took: each,
            has_failed,
            texts: vec![
                ("db.system.name", "redis".into()),
                ("db.operation.name", name),
                ("db.namespace", client.about.lock().database.to_string().into()),
                ("client.address", client.peer.ip().to_string().into()),
            ],
            numbers: vec![("client.port", client.peer.port().into())],
        });
    }
}

/// A command's name in the form in which clients write it: `config|get` is `CONFIG GET`.
fn operation(row: &str) -> String {
    row.replace('|', " ").to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_clients_write() {
        assert_eq!((operation("get"), operation("config|get")), ("GET".into(), "CONFIG GET".into()));
    }
}
