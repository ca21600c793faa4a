//! `/v1/connections`: the clients of the Redis protocol, and the end of one of them (CLIENT LIST,
//! CLIENT KILL).
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::BodyWriter,
        response_writer,
    },
    routing::route_request::{RouteRequest, decode_key},
};
use larder_base::buffers::BufferKind;
use larder_core::{
    app::Worker,
    clients::{About, Client},
};
use larder_engine::Millis;
use larder_proto::http::{target, text::Sink};
use serde_json::{Value, json};
use std::{cmp::Reverse, sync::atomic::Ordering::Relaxed};

/// Connections that are listed if the client names no `count`.
const USUAL_COUNT: usize = 1000;
const MOST_COUNT: usize = 10_000;

/// What the list is sorted by: the name in the query, and the value.
type SortKey = fn(&Client, &Worker) -> SortValue;
const SORTS: [(&str, SortKey); 8] = [
    ("id", |client, _| SortValue::Number(client.id)),
    ("address", |client, _| SortValue::Text(client.peer.to_string())),
    ("name", |client, _| SortValue::Text(client.about.lock().name.to_string())),
    ("user", |client, _| SortValue::Text(client.about.lock().user.to_string())),
    ("library", |client, _| SortValue::Text(library(&client.about.lock()))),
    ("age", |client, _| SortValue::Number(u64::MAX - client.connected)),
    ("idle", |client, _| SortValue::Number(u64::MAX - client.active())),
    ("command", |client, worker| SortValue::Text(command(client, worker).unwrap_or_default())),
];

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SortValue {
    Number(u64),
    Text(String),
}

/// `GET /v1/connections?count=&sort=&match=`:
/// `{"open":{"all":N,"redis":N},"matching":N,"connections":[…]}`, those that were opened first come
/// first unless `sort` names another order.
pub(crate) fn connections(request: &RouteRequest<'_>) -> Answer {
    let count = request.count(USUAL_COUNT, 0..=MOST_COUNT)?;
    let (sort, is_falling) = order(request.query)?;
    let wanted = wanted(request.query)?;
    let worker = request.worker;
    let clients = worker.app.clients.list();
    let redis = clients.len();
    let mut matching: Vec<_> = clients.into_iter().filter(|client| has(client, worker, &wanted)).collect();
    match (sort, is_falling) {
        (None, _) => {}
        (Some(key), false) => matching.sort_by_cached_key(|client| key(client, worker)),
        (Some(key), true) => matching.sort_by_cached_key(|client| Reverse(key(client, worker))),
    }
    let buffers = &worker.app.buffers;
    let (mut body, mut charge) = (BodyWriter::with_capacity(1024), buffers.charge(BufferKind::HttpOutput));
    let open = json!({"all": worker.app.clients.open(), "redis": redis});
    body.put(format!("{{\"open\":{open},\"matching\":{},\"connections\":[", matching.len()).as_bytes());
    for (index, client) in matching.iter().take(count).enumerate() {
        if index > 0 {
            body.put(b",");
        }
        body.put(described(client, worker, request.now).to_string().as_bytes());
        if !body.charge_all(&mut charge) {
            return Err(Problem::buffers_full("the list does not fit", buffers.limit()));
        }
    }
    body.put(b"]}");
    Ok(response_writer::json(body.finish_charged(charge)))
}

/// `sort=idle`, or `sort=-idle` for the largest first. `None`: in the order in which they connected.
fn order(query: &[u8]) -> Result<(Option<SortKey>, bool), Problem> {
    let name = match target::parameter(query, "sort") {
        None | Some(b"") => return Ok((None, false)),
        Some(name) => name,
    };
    let (name, is_falling) = name.strip_prefix(b"-").map_or((name, false), |name| (name, true));
    let found = SORTS.iter().find(|(known, _)| known.as_bytes() == name);
    let (_, key) = found.ok_or_else(|| {
        let names = SORTS.map(|(name, _)| name).join(", ");
        Problem::of(ProblemKind::BadParameter, format!("`sort` must be one of {names}, with or without a `-`"))
    })?;
    Ok((Some(*key), is_falling))
}

/// The text that a listed connection has, in lower case.
fn wanted(query: &[u8]) -> Result<String, Problem> {
    let raw = target::parameter(query, "match").unwrap_or_default();
    Ok(String::from_utf8_lossy(&decode_key(raw, target::decode_query)?).to_lowercase())
}

/// Does one of the client's texts have `wanted` in it?
fn has(client: &Client, worker: &Worker, wanted: &str) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let is_in = |text: &str| text.to_lowercase().contains(wanted);
    let about = client.about.lock();
    if is_in(&about.name) || is_in(&about.user) || is_in(&library(&about)) {
        return true;
    }
    drop(about);
    is_in(&client.peer.to_string()) || command(client, worker).is_some_and(|command| is_in(&command))
}

fn command(client: &Client, worker: &Worker) -> Option<String> {
    larder_redis::last_command(client, worker.groups.default())
}

fn library(about: &About) -> String {
    format!("{} {}", about.lib_name, about.lib_version).trim().to_owned()
}

fn described(client: &Client, worker: &Worker, now: Millis) -> Value {
    let about = client.about.lock().clone();
    json!({
        "id": client.id,
        "address": client.peer.to_string(),
        "local_address": client.local.to_string(),
        "name": &*about.name,
        "user": &*about.user,
        "library": library(&about),
        "database": about.database,
        "protocol": about.protocol,
        "worker": client.worker,
        "age_ms": now.saturating_sub(client.connected),
        "idle_ms": now.saturating_sub(client.active()),
        "command": command(client, worker),
        "subscriptions": about.subscriptions.iter().sum::<usize>(),
        "tracking": about.tracking.is_some(),
        "in_transaction": about.queued.is_some(),
        "blocked": client.blocked.load(Relaxed),
        "replica": client.is_replica.load(Relaxed),
    })
}

/// `DELETE /v1/connections/{id}`: ends it. 204, or 404 if there is none.
pub(crate) fn kill(request: &RouteRequest<'_>) -> Answer {
    let id = std::str::from_utf8(request.key).ok().and_then(|id| id.parse().ok());
    let client = id.and_then(|id| request.worker.app.clients.get(id));
    let client = client.ok_or_else(|| Problem::new(ProblemKind::NoSuchConnection))?;
    client.close();
    Ok(response_writer::no_content())
}
