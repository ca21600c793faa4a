//! `GET /v1/commands`: what each Redis command did, and how long it took.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use larder_base::telemetry::CommandNumbers;
use serde_json::{Value, json};

/// `{"commands": [{"name", "class", "calls", "failed", "rejected", "received_bytes",
/// "sent_bytes", "seconds", "p50", "p99", "p999"}]}` since the start or the latest `CONFIG RESETSTAT`. `seconds` is the sum of all calls.
/// The quantiles are in seconds, and `null` before the first call has ended.
pub(crate) fn commands(request: &RouteRequest<'_>) -> Answer {
    let commands: Vec<Value> = request.worker.app.commands.sums_since_reset().iter().map(described).collect();
    response_writer::json_value(&json!({ "commands": commands }))
}

/// `GET /v1/commands/{name}`: `{"name", "calls", "durations": [{"up_to", "calls"}]}` since the
/// start, whatever `CONFIG RESETSTAT` did. A duration is in the first bucket that ends at or after
/// it (`up_to`, seconds); the last bucket also has the longer ones. 404 for an unknown command.
pub(crate) fn command(request: &RouteRequest<'_>) -> Answer {
    let of = request.worker.app.commands.of_name(&request.key()?.to_ascii_lowercase());
    let of = of.ok_or_else(|| Problem::of(ProblemKind::NoSuchRoute, "Larder counts no command of this name"))?;
    let times = of.times.unwrap_or_default();
    let mut before = 0;
    let durations = times.powers().map(|(end, below)| {
        let calls = below - std::mem::replace(&mut before, below);
        json!({ "up_to": end.as_secs_f64(), "calls": calls })
    });
    let durations: Vec<Value> = durations.collect();
    let page = json!({ "name": of.name, "calls": of.calls, "durations": durations });
    response_writer::json_value(&page)
}

fn described(of: &CommandNumbers) -> Value {
    let quantile = |share| of.times.as_ref()?.quantile(share).map(|took| took.as_secs_f64());
    json!({
        "name": of.name,
        "class": of.class.name(),
        "calls": of.calls,
        "failed": of.failed,
        "rejected": of.rejected,
        "received_bytes": of.received,
        "sent_bytes": of.sent,
        "seconds": of.nanos as f64 / 1e9,
        "p50": quantile(0.5),
        "p99": quantile(0.99),
        "p999": quantile(0.999),
    })
}
