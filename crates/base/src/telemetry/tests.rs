use super::*;
use larder_engine::{MissCauses, Stats, WhatIfSample};
use larder_store::disk::StoreStats;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

fn snapshot(telemetry: &Telemetry) -> Snapshot {
    let mut seconds = Distribution::default();
    let histogram = Histogram::default();
    histogram.record(Duration::from_millis(1));
    seconds.add(&histogram);
    let stats = CommandStats::new(1, [("get", CommandClass::Read), ("config|get", CommandClass::Other)]);
    stats.called(0, 0, 7, 0);
    stats.called(0, 1, 1, 0);
    stats.failed(0, 1);
    let snapshot = telemetry.snapshot(
        vec![
            GroupSnapshot {
                name: "default".to_string(),
                cache: Stats { hits: 7, entries: 3, ..Stats::default() },
                source: SourceSnapshot { up: true, fetches: 2, seconds, ..SourceSnapshot::default() },
                source_error: None,
                inspection: InspectionSnapshot { older: 5, ..InspectionSnapshot::default() },
                modes: ModeSnapshot { observed_hits: 6, ..ModeSnapshot::default() },
                shared: Some(SharedGroupSnapshot { hot_copies: 3, ..SharedGroupSnapshot::default() }),
                what_if: Some(WhatIfSample { share: 0.5, keys: 4, bytes: 10 }),
                store: Some(StoreStats { bytes: 9, ..StoreStats::default() }),
                driver: Some(DriverSnapshot {
                    nodes: [("10.0.0.1:9042".to_owned(), true), ("10.0.0.2:9042".to_owned(), false)].into(),
                    retries: 9,
                    ..DriverSnapshot::default()
                }),
                mirror: Some(MirrorSnapshot {
                    states: ["a", "b", "c", "d"].map(|state| (state, state == "c")),
                    copied: 8,
                    ..MirrorSnapshot::default()
                }),
            },
            GroupSnapshot { name: "a\"b\\c\nd".to_string(), ..GroupSnapshot::default() },
        ],
        PushSnapshot { subscribed: [4, 5, 6], ..PushSnapshot::default() },
        BuffersSnapshot { bytes: vec![("lent", 8)], cut: vec![("redis", 1)], ..BuffersSnapshot::default() },
    );
    Snapshot { commands: stats.sums(), ..snapshot }
}

/// The samples of a text by name and labels; checks the format's rules on the way.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut typed: Option<(String, String)> = None;
    let mut seen = BTreeSet::new();
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            assert!(help.split_once(' ').unwrap().1.ends_with('.'), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(seen.insert(name.to_string()), "{name} stands twice");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            typed = Some((name.to_string(), kind.to_string()));
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (family, kind) = typed.as_ref().unwrap();
            let name = series.split('{').next().unwrap();
            let suffix = name.strip_prefix(family.as_str()).expect("samples follow their TYPE");
            match kind.as_str() {
                "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&suffix), "{line}"),
                _ => assert_eq!(suffix, "", "{line}"),
            }
            let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(samples.insert(series.to_string(), value).is_none(), "{series} stands twice");
        }
    }
    samples
}

#[test]
fn the_text_follows_the_format() {
    let mut telemetry = Telemetry::default();
    telemetry.build = Build { commit: "abc", profile: "fast" };
    let samples = samples(&prometheus_text(&snapshot(&telemetry), MetricsFormat::Prometheus));
    assert_eq!(samples["larder_cache_hits_total{group=\"default\"}"], 7.0);
    assert_eq!(samples["larder_cache_hits_total{group=\"a\\\"b\\\\c\\nd\"}"], 0.0);
    assert_eq!(samples["larder_source_up{group=\"default\"}"], 1.0);
    let node_up = |address| samples[&format!("larder_source_node_up{{group=\"default\",address=\"{address}\"}}")];
    assert_eq!((node_up("10.0.0.1:9042"), node_up("10.0.0.2:9042")), (1.0, 0.0));
    assert_eq!(samples["larder_pubsub_subscribed{kind=\"pattern\"}"], 5.0);
    assert_eq!(samples["larder_store_written_bytes_total{group=\"default\"}"], 9.0);
    assert_eq!(samples["larder_mirror_copied_total{group=\"default\"}"], 8.0);
    assert_eq!(samples["larder_mirror_state{group=\"default\",state=\"c\"}"], 1.0);
    assert!(!samples.keys().any(|name| name.starts_with("larder_store") && name.contains("a\\\"b")), "without a store");
    let version = env!("CARGO_PKG_VERSION");
    let build_info = format!("larder_build_info{{version=\"{version}\",commit=\"abc\",profile=\"fast\"}}");
    assert_eq!(samples[&build_info], 1.0);
    let fetch = "larder_source_fetch_duration_seconds";
    assert_eq!(samples[&format!("{fetch}_bucket{{group=\"default\",le=\"0.000512\"}}")], 0.0);
    assert_eq!(samples[&format!("{fetch}_bucket{{group=\"default\",le=\"0.001024\"}}")], 1.0);
    assert_eq!(samples[&format!("{fetch}_bucket{{group=\"default\",le=\"+Inf\"}}")], 1.0);
    assert_eq!(samples[&format!("{fetch}_sum{{group=\"default\"}}")], 0.001);
    assert_eq!(samples[&format!("{fetch}_count{{group=\"default\"}}")], 1.0);
    // Zero where there is no `/proc`.
    assert_eq!(samples["process_resident_memory_bytes"] > 1e6, cfg!(target_os = "linux"));
}

#[test]
fn openmetrics_has_the_same_samples_under_its_own_names_of_families() {
    let snapshot = snapshot(&Telemetry::default());
    let (text, open) =
        (prometheus_text(&snapshot, MetricsFormat::Prometheus), prometheus_text(&snapshot, MetricsFormat::OpenMetrics));
    let of = |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(of(&text), of(&open));
    assert!(open.ends_with("\n# EOF\n") && open.matches("# EOF").count() == 1);
    for line in [
        "# TYPE larder_redis_commands counter",
        "# TYPE larder_build info",
        "# TYPE larder_connections gauge",
        "# TYPE larder_http_request_duration_seconds histogram",
        "# TYPE process_cpu_seconds counter",
    ] {
        assert!(open.lines().any(|of_open| of_open == line), "{line}");
    }
    assert!(!open.lines().any(|line| line.starts_with("# ") && line.contains("_total ")));
}

#[test]
fn every_counter_has_a_metric() {
    let telemetry = Telemetry::new(2, Logs::default());
    let filled = telemetry.worker(1).fill();
    let samples = samples(&prometheus_text(&snapshot(&telemetry), MetricsFormat::Prometheus));
    for (name, n) in filled {
        assert!(samples.values().any(|value| *value == n as f64), "{name} is counted but not shown");
    }
}

#[test]
fn every_number_of_the_engine_has_a_metric() {
    // Without `..`: a number that the engine adds does not compile here until it is shown.
    let cache = Stats {
        entries: 2001,
        negative_entries: 2002,
        expiring_entries: 2019,
        used_bytes: 2003,
        live_bytes: 2004,
        max_bytes: 2005,
        shrink_bytes: 2035,
        segment_bytes: 2006,
        large_bytes: 2007,
        index_bytes: 2008,
        ghost_bytes: 2009,
        wheel_bytes: 2010,
        flights: 2011,
        hits: 2012,
        misses: 2013,
        miss_causes: MissCauses {
            unknown: 2027,
            expired: 2028,
            evicted: 2029,
            invalidated: 2030,
            too_large: 2031,
            not_kept: 2032,
            in_flight: 2033,
            reply: 2034,
        },
        negative_hits: 2014,
        derived_hits: 2020,
        stale_hits: 2021,
        stale_fetches: 2025,
        insertions: 2015,
        evictions: 2016,
        expirations: 2017,
        fenced_fills: 2018,
        tags: 2022,
        tag_bytes: 2023,
        tag_clears: 2024,
        changes: 2026,
    };
    let group = GroupSnapshot { name: "g".to_string(), cache, ..GroupSnapshot::default() };
    let snapshot = Telemetry::default().snapshot(vec![group], PushSnapshot::default(), BuffersSnapshot::default());
    let samples = samples(&prometheus_text(&snapshot, MetricsFormat::Prometheus));
    for n in 2001..=2034 {
        let shown = |(series, value): (&String, &f64)| series.contains("{group=\"g\"") && *value == f64::from(n);
        assert!(samples.iter().any(shown), "{n} is not shown");
    }
}

#[test]
fn json_holds_what_the_text_holds() {
    let telemetry = Telemetry::new(1, Logs::default());
    telemetry.worker(0).fill();
    telemetry.worker(0).http_times[HttpRoute::Kv].record(Duration::from_micros(20));
    let snapshot = snapshot(&telemetry);
    let json = stats_json(&snapshot);
    assert_eq!(json["redis_commands"], serde_json::json!({"get": 7, "config|get": 1}));
    assert_eq!(json["connections_opened"]["http"], telemetry.sums().http_connections_opened);
    let memcached = json["memcached_commands"].as_object().unwrap().values();
    let memcached: u64 = memcached.filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(memcached, telemetry.sums().memcached_commands());
    assert_eq!(json["groups"]["default"]["cache_hits"], 7);
    assert_eq!(json["groups"]["a\"b\\c\nd"]["cache_hits"], 0);
    assert_eq!(json["build_info"]["version"], env!("CARGO_PKG_VERSION"));
    let fetch = &json["groups"]["default"]["source_fetch_duration_seconds"];
    assert_eq!((&fetch["count"], &fetch["sum"]), (&1.into(), &0.001.into()));
    let median = fetch["p50"].as_f64().unwrap();
    assert!(median > 0.000512 && median < 0.001024, "{median}");
    assert_eq!(json["redis_command_duration_seconds"]["write"]["p99"], serde_json::Value::Null);
    assert_eq!(json["http_request_duration_seconds"]["/v1/kv"]["count"], 1);
    assert_eq!(json["groups"]["default"]["cache_hit_ratio"], 1.0);
    assert_eq!(fetch["buckets"]["0.001024"], 1);

    /// Numbers in a tree, an info's label counting as the 1 that it is in the text.
    fn leaves(value: &serde_json::Value, out: &mut Vec<f64>) {
        match value {
            serde_json::Value::Object(map) => {
                let is_computed =
                    |name: &str| ["cache_hit_ratio", "p50", "p99", "p99.9", "commit", "profile"].contains(&name);
                map.iter().filter(|(name, _)| !is_computed(name)).for_each(|(_, value)| leaves(value, out));
            }
            serde_json::Value::String(_) => out.push(1.0),
            other => out.push(other.as_f64().unwrap()),
        }
    }
    let (mut of_json, mut of_text) = (Vec::new(), Vec::new());
    leaves(&json, &mut of_json);
    let samples = samples(&prometheus_text(&snapshot, MetricsFormat::Prometheus));
    of_text.extend(samples.iter().filter(|(name, _)| !name.contains("+Inf")).map(|(_, value)| *value));
    of_json.sort_by(f64::total_cmp);
    of_text.sort_by(f64::total_cmp);
    assert_eq!(of_json, of_text);
}

#[test]
fn counts_of_all_threads_and_since_a_reset() {
    let telemetry = Telemetry::new(2, Logs::default());
    telemetry.worker(0).redis_throttled.add(2);
    telemetry.worker(1).redis_throttled.add(3);
    telemetry.control().connections_refused.add(1);
    assert_eq!((telemetry.sums().redis_throttled, telemetry.sums().connections_refused), (5, 1));
    telemetry.reset();
    telemetry.worker(1).redis_throttled.add(4);
    assert_eq!(telemetry.sums_since_reset(), CounterSums { redis_throttled: 4, ..CounterSums::default() });
    assert_eq!(telemetry.sums().redis_throttled, 9);
}

#[test]
fn connections_of_a_worker_are_those_of_all_protocols() {
    let telemetry = Telemetry::new(2, Logs::default());
    let counters = telemetry.worker(1);
    counters.http_connections_opened.add(1);
    counters.redis_connections_opened.add(2);
    counters.memcached_connections_opened.add(4);
    counters.memcached_connections_closed.add(1);
    assert_eq!(snapshot(&telemetry).worker_connections, [0, 6]);
}

#[test]
#[should_panic(expected = "worker 2 was not announced")]
fn the_control_threads_counters_are_no_workers() {
    Telemetry::new(2, Logs::default()).worker(2);
}

#[test]
fn names_are_unique_and_well_formed() {
    let mut names = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for family in all_metrics() {
        assert!(names.insert(family.name) && keys.insert(family.key()), "{}", family.name);
        assert!(family.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
        assert!(family.key() != "groups");
    }
}
