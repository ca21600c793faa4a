use super::*;
use crate::lib::results::server_use::ServerUse;

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
    assert_eq!(page.matches("<svg").count(), 6);
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

#[test]
fn a_page_says_how_it_was_measured() {
    let run = RunSummary {
        command: "larder-bench run --url redis://127.0.0.1:1 --op '<b>'".into(),
        started_unix_s: 1_795_467_661,
        host: Host { cpu: "A CPU".into(), cores: 2, kernel: "6.1".into(), memory_gib: 3.0 },
        server_version: Some("larder 9.8.7".into()),
        cache_hits: 1,
        cache_misses: 3,
        server: Some(ServerUse { cpu_s: 1.0, cpu_us_per_request: 2.0, busy: 0.99 }),
        ..example()
    };
    let page = html(&[run]);
    for part in [
        "larder-bench run --url redis://127.0.0.1:1 --op '&lt;b&gt;'",
        "2026-11-23 21:01 UTC",
        "A CPU, 2 cores, 3.0 GiB, Linux 6.1",
        "larder 9.8.7",
        "<td>25.00 %<td>100.00 %<td>latency",
        ">server; busy: generator 10 %, server 99 %<",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn each_run_is_a_point_in_the_column_of_its_name() {
    let runs = [1000.0, 1200.0, 900.0].map(|throughput| RunSummary { throughput, ..example() });
    let other = RunSummary { name: "other".into(), ..example() };
    let chart = each_run("Throughput", "per second", &[&runs[..], &[other]].concat(), |run| run.throughput);
    assert_eq!(chart.matches("<circle").count(), 4);
    assert_eq!(chart.matches(">example</text>").count(), 1);
    // A range and a median for each name.
    assert_eq!(chart.matches("class=\"range\"").count(), 4);
}

#[test]
fn runs_of_one_name_share_a_colour_and_a_heat_map() {
    let run = |name: &str, throughput| RunSummary { name: name.into(), throughput, ..example() };
    // In turn, as `classic` measures them. The colours of the first and the ninth run would be the same.
    let runs = [run("hit", 900.0), run("miss", 500.0), run("hit", 1200.0), run("miss", 400.0), run("hit", 1000.0)];
    assert_eq!(name_numbers(&runs), [0, 1, 0, 1, 0]);
    let typical: Vec<_> = typical(&runs).into_iter().map(|(run, of)| (run.throughput, of)).collect();
    assert_eq!(typical, [(1000.0, 3), (400.0, 2)]);
    let page = html(&runs);
    assert_eq!(page.matches("Latency over time: ").count(), 2);
    assert!(page.contains("The run with the median throughput, of 3 runs."));
    let legends: Vec<&str> = page.split("<p class=\"legend\">").skip(1).collect();
    for legend in legends.iter().map(|rest| rest.split("</p>").next().expect("an end")) {
        assert_eq!((legend.matches(">hit<").count(), legend.matches(">miss<").count()), (1, 1), "{legend}");
    }
    assert_eq!(legends.len(), 2);
    assert!(!page.contains(&colour(2)), "two names, two colours");
}
