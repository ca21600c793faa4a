//! Samples of made-up snapshots, and what the history says of them.
use super::*;
use crate::telemetry::{
    BuffersSnapshot, CommandClass, CommandStats, DriverSnapshot, GroupSnapshot, NodeSnapshot, PeersSnapshot,
    PushSnapshot, SourceSnapshot, Telemetry,
};
use larder_engine::Stats;
use serde_json::{Value, json};
use std::sync::OnceLock;

const NOW: Duration = Duration::from_secs(1_000_000);

fn group(name: &str, hits: u64, up: bool) -> GroupSnapshot {
    GroupSnapshot {
        name: name.to_owned(),
        cache: Stats { hits, entries: 9, ..Stats::default() },
        source: SourceSnapshot { up, ..SourceSnapshot::default() },
        ..GroupSnapshot::default()
    }
}

fn snapshot(groups: Vec<GroupSnapshot>) -> Snapshot {
    Telemetry::default().snapshot(groups, PushSnapshot::default(), BuffersSnapshot::default())
}

fn history(groups: &[&str]) -> History {
    History::new(groups.iter().map(|name| (*name).to_owned()), NOW)
}

fn at(second: u64) -> Duration {
    NOW + Duration::from_secs(second)
}

/// The same second by the clock that is never set.
fn reached(second: u64) -> Instant {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    *BEGIN.get_or_init(Instant::now) + Duration::from_secs(second)
}

/// A sample at a second, by both clocks.
fn sample(history: &History, second: u64, snapshot: &Snapshot) {
    history.sample(at(second), reached(second), snapshot);
}

fn texts(history: &History) -> Vec<String> {
    history.events.list().iter().map(|event| format!("{}: {}", event.what.kind.name(), event.what.text)).collect()
}

fn column(page: &Value, name: &str, group: Option<&str>) -> Value {
    let columns = page["columns"].as_array().expect("columns");
    let is_it = |column: &Value| column["name"] == name && column["group"].as_str() == group;
    let index = columns.iter().position(is_it).expect("the column");
    page["rows"].as_array().expect("rows").iter().map(|row| row[index + 1].clone()).collect()
}

fn page(history: &History, resolution: Resolution, since: u64) -> Value {
    let text = history.rows(resolution, since).json();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn counters_are_shown_as_what_was_added_and_levels_as_they_are() {
    let history = history(&["default", "users"]);
    for (second, hits) in [(0, 100), (1, 103), (2, 103), (4, 110)] {
        sample(&history, second, &snapshot(vec![group("default", hits, true), group("users", 0, false)]));
    }
    let page = page(&history, Resolution::Second, 0);
    assert_eq!(column(&page, "hits", Some("default")), json!([3, 0, null, 7]));
    assert_eq!(column(&page, "entries", Some("users")), json!([9, 9, null, 9]));
    assert_eq!(column(&page, "source_up", Some("users")), json!([0, 0, null, 0]));
    assert_eq!(page["rows"][0][0], 1_000_001);
    let rows = page["rows"].as_array().expect("rows");
    let width = page["columns"].as_array().expect("columns").len() + 1;
    assert!(rows.iter().all(|row| row.as_array().expect("a row").len() == width));
    // The buckets of a histogram say where they end.
    let buckets = page["columns"].as_array().expect("columns").iter().filter(|column| column["name"] == "http_seconds");
    assert!(buckets.clone().count() > 20 && buckets.clone().all(|column| column["up_to"].is_f64()));
    assert_eq!(history.rows(Resolution::Second, 1_000_003).json().matches("[1000004,").count(), 1);
}

#[test]
fn memcached_has_columns_of_its_own() {
    let history = history(&[]);
    let mut one = snapshot(Vec::new());
    one.sums.memcached_gets = 7;
    sample(&history, 0, &one);
    one.sums.memcached_gets = 10;
    one.sums.memcached_flushes = 1;
    one.sums.memcached_errors = 2;
    one.sums.memcached_connections_opened = 5;
    one.sums.memcached_connections_closed = 1;
    sample(&history, 1, &one);
    let page = page(&history, Resolution::Second, 0);
    for (name, value) in [("memcached_commands", 4), ("memcached_errors", 2), ("memcached_connections", 4)] {
        assert_eq!(column(&page, name, None), json!([value]), "{name}");
    }
}

#[test]
fn the_durations_of_commands_are_kept_by_class() {
    let history = history(&[]);
    let rows = [("get", CommandClass::Read), ("hget", CommandClass::Forwarded), ("set", CommandClass::Write)];
    let stats = CommandStats::new(1, rows);
    let sample = |second| {
        let mut one = snapshot(Vec::new());
        one.commands = stats.sums();
        sample(&history, second, &one);
    };
    let took = |row, calls, took| {
        stats.called(0, row, calls, 0);
        stats.took(0, row, calls, took);
    };
    took(0, 5, Duration::from_millis(1));
    sample(0);
    took(0, 3, Duration::from_nanos(900));
    took(1, 1, Duration::from_micros(3));
    took(2, 1, Duration::from_secs(60));
    sample(1);
    let page = page(&history, Resolution::Second, 0);
    let columns = page["columns"].as_array().expect("columns").iter();
    // Name and end in microseconds of the columns that counted something.
    let counted: Vec<_> = columns
        .zip(page["rows"][0].as_array().expect("a row").iter().skip(1))
        .filter(|(column, count)| {
            column["name"].as_str().is_some_and(|name| name.starts_with("redis_") && name.ends_with("_seconds"))
                && count.as_u64() != Some(0)
        })
        .map(|(column, count)| {
            (column["name"].as_str(), (column["up_to"].as_f64().expect("an end") * 1e6) as u64, count.as_u64())
        })
        .collect();
    assert_eq!(
        counted,
        [
            (Some("redis_read_seconds"), 1, Some(3)),
            (Some("redis_write_seconds"), 8_589_934, Some(1)),
            (Some("redis_forwarded_seconds"), 4, Some(1)),
        ]
    );
}

#[test]
fn the_rings_take_a_few_mib() {
    let one = history(&["default"]);
    assert!(one.ring_bytes() < 3 << 20, "{}", one.ring_bytes());
    let names: Vec<String> = (0..100).map(|number| format!("g{number}")).collect();
    let many = History::new(names.into_iter(), NOW);
    assert!(many.ring_bytes() < 6 << 20, "{}", many.ring_bytes());
}

#[test]
fn a_source_that_comes_and_goes_is_in_the_events() {
    let history = history(&["default"]);
    for (second, up) in [(0, true), (1, false), (2, false), (3, true)] {
        let mut group = group("default", 0, up);
        group.source_error = (!up).then(|| "connection refused".into());
        sample(&history, second, &snapshot(vec![group]));
    }
    let texts = texts(&history);
    assert!(texts[0].starts_with("start: Larder "), "{texts:?}");
    let wanted = [
        "source-lost: the source of group default is lost: connection refused",
        "source-back: the source of group default answers",
    ];
    assert_eq!(texts[1..], wanted);
    assert_eq!(history.events.list()[1].at, at(1));
}

#[test]
fn nodes_of_the_source_that_come_and_go_are_in_the_events() {
    let history = history(&["default"]);
    let nodes: [&[(&str, bool)]; 4] =
        [&[], &[("a:1", true), ("b:1", true)], &[("a:1", true), ("b:1", false)], &[("a:1", true)]];
    for (second, nodes) in (0..).zip(nodes) {
        let nodes = nodes.iter().map(|(node, is_up)| ((*node).to_owned(), *is_up)).collect();
        let driver = Some(DriverSnapshot { nodes, ..DriverSnapshot::default() });
        sample(&history, second, &snapshot(vec![GroupSnapshot { driver, ..group("default", 0, true) }]));
    }
    let wanted = [
        "source-node: node b:1 of the source of group default is away",
        "source-node: node b:1 of the source of group default has left",
    ];
    assert_eq!(texts(&history)[1..], wanted);
    let severities: Vec<_> = history.events.list().iter().map(|event| event.what.is_warning).collect();
    assert_eq!(severities[1..], [true, false]);
}

#[test]
fn evictions_that_rise_are_told_once() {
    let history = history(&["default"]);
    let mut evictions = 0;
    for second in 0..400 {
        // As usual for a while, then ten times as many.
        evictions += if second < 200 { 100 } else { 1000 };
        let mut group = group("default", 0, true);
        group.cache.evictions = evictions;
        sample(&history, second, &snapshot(vec![group]));
    }
    let told: Vec<_> = texts(&history).into_iter().filter(|text| text.starts_with("evictions")).collect();
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn refusals_panics_peers_and_roles() {
    let history = history(&["default"]);
    let mut one = snapshot(vec![group("default", 0, true)]);
    let node = |name: &str, reachable| NodeSnapshot { name: name.to_owned(), reachable, ..NodeSnapshot::default() };
    one.peers = PeersSnapshot::new(vec![node("a", 1), node("b", 1)]);
    one.replication.role = "replica";
    sample(&history, 0, &one);
    one.sums.redis_throttled = 5;
    one.sums.panics = 1;
    one.peers = PeersSnapshot::new(vec![node("a", 0)]);
    one.replication.role = "primary";
    one.faults.active = vec![("source", 2), ("disk", 0)];
    sample(&history, 1, &one);
    one.sums.redis_throttled = 9;
    one.faults.active = vec![("source", 0), ("disk", 0)];
    sample(&history, 2, &one);
    let wanted = [
        "panic: a connection ended with a panic: see the log",
        "refusals: requests are refused: 5 by the throttle",
        "peers: peer a cannot be reached",
        "peers: peer b has left",
        "role: the role is primary (before: replica)",
        "faults: faults at source were ordered, to rehearse an outage: 2 in force",
        "faults: faults at source have ended: 0 in force",
    ];
    assert_eq!(texts(&history)[1..], wanted);
}

#[test]
fn those_who_follow_share_the_bytes() {
    let history = history(&["default"]);
    let (mut one, mut two) = (history.follow(), history.follow());
    sample(&history, 0, &snapshot(vec![group("default", 0, true)]));
    sample(&history, 1, &snapshot(vec![group("default", 5, true)]));
    history.add_event(at(1), NewEvent::info(EventKind::Reload, None, "read again"));
    let mut names = Vec::new();
    while let (Ok(one), Ok(two)) = (one.try_recv(), two.try_recv()) {
        assert_eq!(one.as_ptr(), two.as_ptr());
        let text = std::str::from_utf8(&one).expect("text");
        let (name, data) = text.split_once('\n').expect("two lines");
        let data = data.strip_prefix("data: ").and_then(|data| data.strip_suffix("\n\n")).expect("a message");
        assert!(!data.contains('\n'));
        serde_json::from_str::<Value>(data).expect("JSON");
        names.push(name.to_owned());
    }
    assert_eq!(names, ["event: stats", "event: sample", "event: event"]);
}

#[test]
fn a_clock_that_is_set_is_an_event_and_no_row_is_of_the_future() {
    let history = history(&["default"]);
    let hits = |hits| snapshot(vec![group("default", hits, true)]);
    for (second, total) in [(0, 0), (1, 10), (2, 20)] {
        sample(&history, second, &hits(total));
    }
    // Set back by an hour, and forward again later.
    for (second, total) in [(3, 30), (4, 45)] {
        history.sample(at(second) - Duration::from_secs(3600), reached(second), &hits(total));
    }
    let page = page(&history, Resolution::Second, 0);
    assert_eq!(column(&page, "hits", Some("default")), json!([10, 15]));
    assert_eq!(page["rows"][0][0], NOW.as_secs() - 3597);
    let clock: Vec<_> = texts(&history).into_iter().filter(|text| text.starts_with("clock")).collect();
    assert_eq!(clock, ["clock: the clock was set back by 3600 s: the charts begin again"]);
    sample(&history, 5, &hits(50));
    assert!(texts(&history).last().is_some_and(|text| text.starts_with("clock: the clock was set forward by 3600 s")));
}
