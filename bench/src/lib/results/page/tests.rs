use super::*;

/// A result as `--save` writes it.
pub(crate) fn example() -> RunSummary {
    let times = serde_json::json!({"p50": 0.1, "p90": 0.2, "p99": 0.5, "p999": 1.0, "p9999": 2.0, "p99999": 2.0, "max": 2.5, "mean": 0.12});
    let moment = |second: u32| serde_json::json!({"t": second, "requests": 1000, "errors": 0, "p50": 0.1, "p99": 0.5, "max": 2.0, "heat": [[26, 900], [40, 100]]});
    let value = serde_json::json!({
        "program": "run", "name": "example", "version": "0", "started_unix_s": 0, "url": "redis://127.0.0.1:1", "connections": 1, "threads": 1,
        "pipeline": 1, "requests": 3000, "errors": {"connect": 0}, "duration_s": 3.0, "target_rate": 1000.0, "throughput": 1000.0,
        "latency_ms": times, "service_ms": times, "client_saturated": false,
        "client": {"cpu_s": 0.1, "requests_per_cpu_s": 30000.0, "busy": 0.1, "lag_ms": times},
        "found": 3000, "missing": 0, "bytes_in": 1, "bytes_out": 1, "phases_ms": {},
        "curve": [[0.0, 0.05, 0.05], [0.5, 0.1, 0.1], [0.99, 0.5, 0.4], [0.999, 2.0, 1.0]], "interval_s": 1.0,
        "series": [moment(0), moment(1), moment(2)],
    });
    serde_json::from_value(value).expect("complete")
}

#[test]
fn a_page_holds_every_run_and_nothing_from_elsewhere() {
    let second = RunSummary { name: "<b>second</b>".into(), client_saturated: true, ..example() };
    let page = html(&[example(), second]);
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(page.matches("<polyline").count(), 8);
    assert_eq!(page.matches("class=\"heat\"").count(), 12);
    assert!(page.contains("generator was the bottleneck"));
    assert!(page.contains("&lt;b&gt;second") && !page.contains("<b>second"));
    for outside in ["http://", "https://", "<script", "src=", "href="] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn saved_results_are_read_back() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let line = serde_json::to_string(&example()).expect("JSON");
    std::fs::write(file.path(), format!("something else\n{line}\n")).expect("written");
    assert_eq!(read(file.path()).expect("a result").requests, 3000);
    std::fs::write(file.path(), "{}").expect("written");
    assert!(format!("{:#}", read(file.path()).expect_err("no result")).contains("no result of a run"));
}

#[test]
fn a_run_without_requests_has_a_page() {
    let empty = RunSummary { curve: vec![], series: vec![], requests: 0, duration_s: 0.0, ..example() };
    let page = html(&[empty]);
    assert!(page.ends_with("</html>\n") && !page.contains("NaN") && !page.contains("inf"), "{page}");
}
