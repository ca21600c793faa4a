use super::*;
use crate::lib::trace::{Requests, TraceFile};

/// A little-endian u64 trace of these keys.
fn with_trace<T>(keys: impl IntoIterator<Item = u64>, test: impl FnOnce(&Requests) -> T) -> T {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.u64");
    let bytes: Vec<u8> = keys.into_iter().flat_map(u64::to_le_bytes).collect();
    std::fs::write(&path, bytes).expect("write the trace");
    test(&Requests::File(TraceFile::new(&path, None).expect("the name tells the format")))
}

#[test]
fn lru_hits_what_theory_says() {
    // A loop of 10 keys: LRU of 10 hits all but the first round, LRU of 9 nothing.
    with_trace((0..100).map(|i| i % 10), |trace| {
        assert_eq!(policies::lru(10, trace).expect("replays"), 90);
        assert_eq!(policies::lru(9, trace).expect("replays"), 0);
    });
    // 1 2 3 1 4 2: with 3 entries the 1 hits, 4 evicts 2, 2 misses.
    with_trace([1, 2, 3, 1, 4, 2], |trace| {
        assert_eq!(policies::lru(3, trace).expect("replays"), 1);
    });
}

#[test]
fn everyone_hits_every_return_when_all_fits() {
    with_trace((0..3000).map(|i| i % 300), |trace| {
        let expected = 2700;
        assert_eq!(policies::LarderPolicy::at_entries(3000).replay(trace).expect("replays"), expected);
        assert_eq!(policies::moka(3000, trace).expect("replays"), expected);
        assert_eq!(policies::quick_cache(3000, trace).expect("replays"), expected);
        assert_eq!(policies::lru(3000, trace).expect("replays"), expected);
    });
}

#[test]
fn larder_at_bytes_stays_within_its_budget() {
    let shape = Dataset { key_size: 36, value_size: 64..=64 };
    with_trace(0..100_000, |trace| {
        let mut larder = policies::LarderPolicy::at_bytes(4 << 20, &shape);
        assert_eq!(larder.replay(trace).expect("replays"), 0);
        let stats = larder.stats();
        assert!(stats.used_bytes <= 4 << 20, "{stats:?}");
        assert!(stats.entries > 20_000, "{stats:?}");
    });
}

#[test]
fn rows_come_for_each_capacity_and_policy() {
    with_trace((0..2000).map(|i| i % 1000), |trace| {
        let replay = Replay {
            summary: trace.summary().expect("well-formed"),
            name: trace.name(),
            trace: trace.clone(),
            dataset: Dataset::uuid(),
        };
        let mut out = Vec::new();
        let footprints = Footprints { moka: 400.0, quick_cache: 200.0, lru: 1e9 };
        replay.at_entries(2000, &mut out).expect("replays");
        replay.at_bytes(4 << 20, footprints, &mut out).expect("replays");
        let rows: Vec<serde_json::Value> = String::from_utf8(out)
            .expect("JSON is UTF-8")
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is an object"))
            .collect();
        let policies: Vec<&str> = rows.iter().map(|r| r["policy"].as_str().expect("text")).collect();
        assert_eq!(policies, ["larder", "moka", "quick_cache", "lru"].repeat(2));
        let (at_entries, rows) = rows.split_at(4);
        for row in at_entries {
            assert_eq!((&row["mode"], &row["capacity"]), (&"entries".into(), &2000.into()));
            assert_eq!((&row["hits"], &row["hit_ratio"]), (&1000.into(), &0.5.into()), "{row}");
            assert_eq!(row["percent"], 200.0);
            assert!(row.get("bytes_budget").is_none());
        }
        assert_eq!(rows[0]["capacity"], 4 << 20);
        assert_eq!(rows[2]["capacity"], (4 << 20) / 200);
        assert_eq!(rows[2]["bytes_measured"], 200_000);
        // Less than one entry fits.
        assert_eq!((&rows[3]["capacity"], &rows[3]["hits"]), (&0.into(), &0.into()));
    });
}

#[test]
fn made_traces_are_what_their_names_say() {
    use crate::lib::trace::MadeTrace;
    use clap::ValueEnum;
    let made = |kind, requests| Requests::Made { kind, keys: 1000, requests };
    let hits = |kind, entries| policies::lru(entries, &made(kind, 20_000)).expect("replays");
    for kind in MadeTrace::value_variants() {
        let trace = made(*kind, 20_000);
        assert_eq!(trace.summary().expect("it is made").requests, 20_000);
        let keys = || trace.keys().expect("it is made").map(|key| key.expect("made")).collect::<Vec<_>>();
        assert_eq!(keys(), keys(), "{kind:?} is the same each time");
    }
    // A loop: nothing with one entry less than keys, all with as many.
    assert_eq!((hits(MadeTrace::Loop, 999), hits(MadeTrace::Loop, 1000)), (0, 19_000));
    // Each key comes back after 51 requests, once.
    assert_eq!(hits(MadeTrace::Returns, 20), 0);
    assert!((9_970..=10_000).contains(&hits(MadeTrace::Returns, 60)));
    let summary = made(MadeTrace::Returns, 20_000).summary().expect("it is made");
    assert!((10_000..10_100).contains(&summary.distinct), "{summary:?}");
    // The short one of three loops fits.
    assert!(hits(MadeTrace::Loops, 400) > 6_000);
    // Up and down: what was read last comes back first.
    assert!((9_000..11_000).contains(&hits(MadeTrace::Zigzag, 500)));
}
