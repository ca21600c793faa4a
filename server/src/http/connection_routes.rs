//! `/v1/connections`: the clients of the Redis protocol, and the end of one of them (CLIENT LIST,
//! CLIENT KILL).
use super::{
    problem_json::{Problem, ProblemKind},
    response_body::ResponseBody,
    response_writer,
    route_request::RouteRequest,
};
use crate::{app::Worker, clients::Client, redis};
use http::Response;
use larder_engine::Millis;
use serde_json::{Value, json};
use std::sync::atomic::Ordering::Relaxed;

/// Connections that are listed if the client names no `count`.
const USUAL_COUNT: usize = 1000;
const MOST_COUNT: usize = 10_000;

/// `GET /v1/connections?count=`: `{"open":{"all":N,"redis":N},"connections":[…]}`, those that were
/// opened first come first.
pub(super) fn connections(request: &RouteRequest<'_>) -> Result<Response<ResponseBody>, Problem> {
    let count = request.count(USUAL_COUNT, 0..=MOST_COUNT)?;
    let worker = request.worker;
    let clients = worker.app.clients.list();
    let listed = clients.iter().take(count);
    let listed: Vec<Value> = listed.map(|client| described(client, worker, request.now)).collect();
    let answer = json!({
        "open": {"all": worker.app.clients.open(), "redis": clients.len()},
        "connections": listed,
    });
    Ok(response_writer::json(ResponseBody::full(answer.to_string())))
}

fn described(client: &Client, worker: &Worker, now: Millis) -> Value {
    let about = client.about.lock().clone();
    let library = format!("{} {}", about.lib_name, about.lib_version);
    json!({
        "id": client.id,
        "address": client.peer.to_string(),
        "local_address": client.local.to_string(),
        "name": &*about.name,
        "user": &*about.user,
        "library": library.trim(),
        "database": about.database,
        "protocol": about.protocol,
        "worker": client.worker,
        "age_ms": now.saturating_sub(client.connected),
        "idle_ms": now.saturating_sub(client.active()),
        "command": redis::last_command(client, &worker.groups[0]),
        "subscriptions": about.subscriptions.iter().sum::<usize>(),
        "tracking": about.tracking.is_some(),
        "in_transaction": about.queued.is_some(),
        "blocked": client.blocked.load(Relaxed),
        "replica": client.is_replica.load(Relaxed),
    })
}

/// `DELETE /v1/connections/{id}`: ends it. 204, or 404 if there is none.
pub(super) fn kill(request: &RouteRequest<'_>) -> Result<Response<ResponseBody>, Problem> {
    let id = std::str::from_utf8(request.key).ok().and_then(|id| id.parse().ok());
    let client = id.and_then(|id| request.worker.app.clients.get(id));
    let client = client.ok_or_else(|| Problem::new(ProblemKind::NoSuchConnection))?;
    client.close();
    Ok(response_writer::no_content())
}
