//! Health, statistics, the description of the API, and control of the log.
use super::{
    Context,
    problem::{Kind, Problem},
    read_answer,
    response_body::Body,
};
use crate::{
    app::App,
    config::LogLevel,
    read::Group,
    source::Reloaded,
    telemetry::{self, BuffersSnapshot, GroupSnapshot, Snapshot, SourceSnapshot, UnaskedSnapshot},
};
use http::{HeaderValue, Response, StatusCode, header};
use larder_proto::http::target;
use larder_store::disk::Store;

/// `GET /healthz`: the process answers.
pub(super) fn healthy() -> Response<Body> {
    read_answer::text(StatusCode::OK, "ok\n")
}

/// `GET /readyz`: 200 once every source has been reached, until the drain begins, and while any group can be read. A source that is
/// lost does not make the server unready where copies outlive it: hits are still answered, which no other server could do better.
pub(super) fn ready(context: &Context) -> Result<Response<Body>, Problem> {
    let app = &context.worker.app;
    if app.drain.begun() {
        return Err(Problem::of(Kind::NotReady, "the server is shutting down"));
    }
    let (mut readable, mut lost) = (false, None);
    for (group, source) in context.worker.groups.iter().zip(&app.sources) {
        let health = source.health();
        let reason = || health.last_error().unwrap_or_else(|| "connecting".into());
        if !health.was_up() {
            let detail = format!("the source of group `{}` has not been reached yet: {}", group.name, reason());
            return Err(Problem::of(Kind::NotReady, detail));
        }
        let is_lost = health.is_lost();
        readable |= !is_lost || group.policy.outlives_source();
        if is_lost {
            lost.get_or_insert_with(|| format!("the source of group `{}` is lost: {}", group.name, reason()));
        }
    }
    match lost {
        Some(lost) if !readable => Err(Problem::of(Kind::NotReady, lost)),
        Some(lost) => Ok(read_answer::text(StatusCode::OK, &format!("degraded: {lost}\n"))),
        None => Ok(read_answer::text(StatusCode::OK, "ready\n")),
    }
}

/// `GET /metrics`: Prometheus text.
pub(super) fn metrics(context: &Context) -> Response<Body> {
    let text = telemetry::text(&snapshot(&context.worker.app));
    let mut response = Response::new(Body::full(text));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// `GET /v1/stats`: the same numbers as JSON.
pub(super) fn stats(context: &Context) -> Response<Body> {
    let json = telemetry::json(&snapshot(&context.worker.app));
    read_answer::json(Body::full(json.to_string()))
}

fn snapshot(app: &App) -> Snapshot {
    let groups = app.settings.groups.iter().zip(&app.caches).zip(&app.sources);
    let groups = groups.map(|((settings, cache), source)| {
        let health = source.health();
        GroupSnapshot {
            name: settings.name.clone(),
            cache: cache.stats(),
            source: SourceSnapshot {
                up: health.is_up(),
                in_flight: health.in_flight() as u64,
                fetches: health.fetches(),
                errors: health.errors(),
                reconnects: health.reconnects(),
                tracking: health.tracking() as u64,
                untracked: health.untracked() as u64,
                invalidations: health.invalidations(),
                tracking_losses: health.tracking_losses(),
                seconds: health.seconds(),
                table: source.table_counts(),
            },
            store: source.store().map(Store::stats),
        }
    });
    let unasked = UnaskedSnapshot {
        tracking_clients: app.clients.tracking() as u64,
        tracked_keys: app.tracking.totals().keys as u64,
        subscribed: app.pubsub.totals().map(|n| n as u64),
        cut_off: app.backlog.cut_off(),
    };
    let buffers = BuffersSnapshot {
        max_bytes: app.buffers.limit() as u64,
        bytes: app.buffers.by_kind().collect(),
        cut: app.buffers.cut().collect(),
        refused: app.buffers.refused(),
    };
    app.telemetry.snapshot(groups.collect(), unasked, buffers)
}

/// `GET /openapi.json`
pub(super) fn openapi() -> Response<Body> {
    read_answer::json(Body::full(OPENAPI))
}

/// The description of every route (OpenAPI 3.1), written by hand.
const OPENAPI: &str = include_str!("openapi.json");

/// `GET /v1/log-level`: `{"level":"info"}`
pub(super) fn log_level(context: &Context) -> Response<Body> {
    let level = context.worker.app.telemetry.logs.level();
    read_answer::json(Body::full(format!("{{\"level\":\"{}\"}}", level.name())))
}

/// `PUT /v1/log-level` with the level's name as the body, bare or as `{"level":"debug"}`. Holds until the next start.
pub(super) fn set_log_level(context: &Context, body: &[u8]) -> Result<Response<Body>, Problem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        level: String,
    }
    let name = match serde_json::from_slice::<Wanted>(body) {
        Ok(wanted) => wanted.level,
        Err(_) => String::from_utf8_lossy(body).trim().to_owned(),
    };
    let level = LogLevel::from_name(&name).ok_or_else(|| {
        Problem::of(Kind::BadBody, format!("expected a log level, one of {}", LogLevel::NAMES.join(", ")))
    })?;
    context.worker.app.telemetry.logs.set_level(level);
    Ok(log_level(context))
}

/// `POST /v1/record?sample=0.1`: the operations of this share of the keys since the last such request, as [`Recorder`](telemetry::Tap) writes them.
pub(super) fn record(context: &Context, query: &[u8]) -> Result<Response<Body>, Problem> {
    let text = target::parameter(query, "sample").map_or("1".into(), String::from_utf8_lossy);
    let sample = text.parse().ok().filter(|sample| *sample > 0.0 && *sample <= 1.0);
    let sample = sample.ok_or_else(|| {
        Problem::of(Kind::BadParameter, format!("`sample`: {text:?} is no share above 0 and up to 1"))
    })?;
    let mut response = Response::new(Body::full(context.worker.app.telemetry.tap.take(sample)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}

/// `POST /v1/groups/{group}/reload`: the group's table is read anew. `{"entries":N,"changed":N}`, when all that changed has been announced; `changed` is null if
/// nobody could have copies.
pub(super) async fn reload(context: &Context, group: &Group) -> Result<Response<Body>, Problem> {
    let app = &context.worker.app;
    let source = app.settings.groups.iter().zip(&app.sources).find(|(settings, _)| *settings.name == *group.name);
    let no_table = || Problem::of(Kind::NotATable, format!("the source of group `{}` is no table", group.name));
    let (_, source) = source.ok_or_else(no_table)?;
    match source.reload().await.ok_or_else(no_table)? {
        Ok(Reloaded { entries, changed }) => {
            let changed = changed.map_or("null".into(), |changed| changed.to_string());
            Ok(read_answer::json(Body::full(format!("{{\"entries\":{entries},\"changed\":{changed}}}"))))
        }
        Err(why) => Err(Problem::of(Kind::TableRefused, &*why)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::router::ROUTES;
    use std::collections::BTreeSet;

    #[test]
    fn the_description_and_the_table_have_the_same_routes() {
        let document: serde_json::Value = serde_json::from_str(super::OPENAPI).expect("valid JSON");
        let paths = document["paths"].as_object().expect("paths");
        let described: BTreeSet<_> = paths
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().expect("a path item").keys();
                methods.filter(|key| *key != "parameters").map(move |method| (path.clone(), method.to_uppercase()))
            })
            .collect();
        let mut table = BTreeSet::new();
        for route in &ROUTES {
            // HEAD goes with GET everywhere; the introduction says so once.
            table.insert((route.pattern.to_owned(), route.method.to_string()));
        }
        assert_eq!(described, table);
    }

    #[test]
    fn every_reference_in_the_description_leads_somewhere() {
        let document: serde_json::Value = serde_json::from_str(super::OPENAPI).expect("valid JSON");
        fn check(root: &serde_json::Value, node: &serde_json::Value) {
            match node {
                serde_json::Value::Object(map) => {
                    if let Some(target) = map.get("$ref").and_then(|target| target.as_str()) {
                        let pointer = target.strip_prefix('#').expect("a local reference");
                        assert!(root.pointer(pointer).is_some(), "{target}");
                    }
                    map.values().for_each(|node| check(root, node));
                }
                serde_json::Value::Array(list) => list.iter().for_each(|node| check(root, node)),
                _ => {}
            }
        }
        check(&document, &document);
    }
}
