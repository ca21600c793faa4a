use super::*;
use crate::lib::trace::TraceFile;

/// A little-endian u64 trace of these keys.
fn with_trace<T>(keys: impl IntoIterator<Item = u64>, test: impl FnOnce(&TraceFile) -> T) -> T {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("made.u64");
    let bytes: Vec<u8> = keys.into_iter().flat_map(u64::to_le_bytes).collect();
    std::fs::write(&path, bytes).expect("write the trace");
    test(&TraceFile::new(&path, None).expect("the name tells the format"))
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
        let names = ["larder", "moka", "quick_cache", "lru"];
        assert_eq!(policies, [names, names].concat());
        for row in &rows[..4] {
            assert_eq!((&row["mode"], &row["capacity"]), (&"entries".into(), &2000.into()));
            assert_eq!((&row["hits"], &row["hit_ratio"]), (&1000.into(), &0.5.into()), "{row}");
            assert_eq!(row["percent"], 200.0);
            assert!(row.get("bytes_budget").is_none());
        }
        assert_eq!(rows[4]["capacity"], 4 << 20);
        assert_eq!(rows[6]["capacity"], (4 << 20) / 200);
        assert_eq!(rows[6]["bytes_measured"], 200_000);
        // Less than one entry fits.
        assert_eq!((&rows[7]["capacity"], &rows[7]["hits"]), (&0.into(), &0.into()));
    });
}
