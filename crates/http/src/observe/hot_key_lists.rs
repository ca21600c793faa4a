//! `GET /v1/hot-keys`: the keys and prefixes that take the most.
use crate::{
    messages::{problem_json::Answer, response_body::ResponseBody, response_writer},
    routing::route_request::RouteRequest,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use larder_base::telemetry::{HotKey, HotKeyReport, Measure};
use serde_json::{Map, Value, json};

/// Rows of each list if the client names no `count`.
const USUAL_ROWS: usize = 50;
const MOST_ROWS: usize = 500;
/// Lists with more rows than this take milliseconds, and stand for a second.
const FEW_ROWS: usize = 200;

/// `GET /v1/hot-keys?count=`: `{"seconds", "reads", "bytes", "misses", "source_seconds",
/// "by_reads": [{"group", "key", "reads", "share"}], "by_bytes", "by_misses", "by_source_time",
/// "prefixes": {"by_reads": [{"group", "prefix", "reads", "share"}], …}}`.
pub(crate) fn hot_keys(request: &RouteRequest<'_>) -> Answer {
    let rows = request.count(USUAL_ROWS, 1..=MOST_ROWS)?;
    let app = &request.worker.app;
    let lists = || {
        let report = app.telemetry.hot_keys.report(rows, request.now);
        let groups: Vec<&str> = app.settings.groups.iter().map(|group| &*group.name).collect();
        document(&report, &groups).to_string()
    };
    Ok(match rows > FEW_ROWS {
        true => request.context.http.hot_keys.or_make((rows, 0), request.now, lists),
        false => response_writer::json(ResponseBody::full(lists())),
    })
}

fn names(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::Reads => ("by_reads", "reads"),
        Measure::Bytes => ("by_bytes", "bytes"),
        Measure::Misses => ("by_misses", "misses"),
        Measure::SourceTime => ("by_source_time", "source_seconds"),
    }
}

fn number(measure: Measure, count: u64) -> Value {
    match measure {
        Measure::SourceTime => json!(count as f64 / 1e6),
        Measure::Reads | Measure::Bytes | Measure::Misses => json!(count),
    }
}

fn document(report: &HotKeyReport, groups: &[&str]) -> Value {
    let mut document = Map::from_iter([("seconds".to_owned(), json!(report.span as f64 / 1e3))]);
    let (mut keys, mut prefixes) = (Map::new(), Map::new());
    for (at, measure) in Measure::ALL.into_iter().enumerate() {
        let (list, name) = names(measure);
        let total = report.totals[at];
        document.insert(name.into(), number(measure, total));
        let rows = |of: &str, list: &[HotKey]| -> Value {
            let row = |key: &HotKey| {
                let share = (key.count as f64 / total.max(1) as f64 * 1e4).round() / 1e4;
                let group = groups.get(key.group).copied().unwrap_or_default();
                json!({"group": group, of: name_text(&key.name), name: number(measure, key.count), "share": share.min(1.0)})
            };
            list.iter().map(row).collect()
        };
        keys.insert(list.into(), rows("key", &report.keys[at]));
        prefixes.insert(list.into(), rows("prefix", &report.prefixes[at]));
    }
    document.append(&mut keys);
    document.insert("prefixes".into(), prefixes.into());
    document.into()
}

/// A string if it is UTF-8, otherwise `{"base64":"…"}`.
pub(crate) fn name_text(name: &[u8]) -> Value {
    match std::str::from_utf8(name) {
        Ok(text) => text.into(),
        Err(_) => json!({"base64": BASE64_STANDARD.encode(name)}),
    }
}
