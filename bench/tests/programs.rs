//! The program as a user runs it: a process of its own, because it measures itself.
use serde_json::Value;
use std::process::{Command, Output};

fn larder_bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
    command.args(arguments).output().expect("the program starts")
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect()
}

#[test]
fn a_cache_costs_more_than_its_data() {
    for name in ["larder", "moka", "quick_cache", "lru"] {
        let rows = rows(&larder_bench(&["memory", "--in-process", name, "--entries", "100000"]));
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!(row["contender"], name);
        assert!(row["entries"].as_u64() > Some(98_000), "{row}");
        let ratio = row["ratio_to_raw"].as_f64().expect("a number");
        assert!(ratio > 1.0 && ratio < 20.0, "{row}");
    }
}

#[test]
fn a_trace_is_replayed_at_every_capacity() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("loop.lis");
    std::fs::write(&path, "0 100 0 0\n0 100 0 0\n50 50 0 0\n").expect("write the trace");
    let path = path.to_str().expect("a plain path");
    let arguments = ["hit-ratio", "--trace", path, "--mode", "entries", "--entries", "100,200", "--percent", "50"];
    let rows = rows(&larder_bench(&arguments));
    assert_eq!(rows.len(), 12);
    let lru: Vec<_> = rows.iter().filter(|row| row["policy"] == "lru").collect();
    let cells: Vec<_> = lru.iter().map(|row| (row["capacity"].as_u64(), row["hits"].as_u64())).collect();
    // 150 of 250 requests return; half the room leaves LRU the last 50 of them only.
    assert_eq!(cells, [(Some(100), Some(150)), (Some(200), Some(150)), (Some(50), Some(50))]);
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let complaint = |arguments: &[&str]| {
        let output = larder_bench(arguments);
        assert!(!output.status.success());
        assert!(output.stdout.is_empty());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(complaint(&["hit-ratio", "--trace", "a.bin"]).contains("--format"));
    assert!(complaint(&["hit-ratio", "--trace", "/nowhere/a.lis"]).contains("/nowhere/a.lis"));
    assert!(complaint(&["memory", "--key-size", "3"]).contains("--key-size 3 is below 16"));
    assert!(complaint(&["memory", "--in-process", "nope"]).contains("quick_cache"));
    assert!(complaint(&["engine", "--threads", "1000000"]).contains("--threads"));
}
