use super::{cells::*, page::RivalsPage, record::*};
use crate::lib::figures::Spread;
use serde_json::{Value, json};

fn record(value: Value) -> RawRecord {
    serde_json::from_value(value).expect("a record")
}

fn setting() -> RawRecord {
    record(json!({
        "record": "setting", "date": "2026-01-02T03:04:05Z", "commit": "abc", "command": "larder-bench rivals", "cpu": "a <cpu>", "kernel": "6.1",
        "cores": 2, "memory_gib": 4.0, "server_core": 0, "client_core": 1, "client": "larder-bench 0", "seconds": 1.0,
        "runs": 3, "http_keys": 10, "command_keys": 10, "value_size": 64, "quick": false
    }))
}

fn sample(section: &str, load: &str, server: &str, connections: u64, run: u64, cpu_us: f64, per_second: f64) -> Value {
    let times = json!({"p50": 0.1, "p90": 0.2, "p99": cpu_us, "p999": 1.0, "p9999": 2.0, "p99999": 2.0, "max": 2.5, "mean": 0.12});
    json!({
        "record": "sample", "section": section, "load": load, "server": server, "connections": connections, "pipeline": 1, "run": run,
        "seconds": 1.0, "requests": 1000, "errors": {}, "rate": null, "per_second": per_second, "cpu_us": cpu_us,
        "client_saturated": false, "latency_ms": times
    })
}

fn with(mut sample: Value, field: &str, value: Value) -> Value {
    sample[field] = value;
    sample
}

/// Raw data with one of everything.
fn raw() -> Vec<RawRecord> {
    let mut values = Vec::new();
    for (run, cpu) in [4.0, 5.0, 4.5].into_iter().enumerate() {
        let run = run as u64;
        for connections in [1, 64] {
            values.push(sample("commands", "get", "larder", connections, run, cpu, 1000.0));
            values.push(sample("commands", "get", "slower", connections, run, 2.0 * cpu, 500.0));
            values.push(with(
                sample("commands", "get", "faster", connections, run, 1.0, 1500.0),
                "client_saturated",
                json!(run == 1),
            ));
        }
        let by_16 = with(sample("commands", "get", "larder", 64, run, cpu / 8.0, 8000.0), "pipeline", json!(16));
        values.push(by_16.clone());
        values.push(with(with(by_16, "cpu_us", json!(cpu / 9.0)), "batches", json!(true)));
        let miss = sample("commands", "miss", "larder", 50, run, 2.0 * cpu, 1000.0);
        values.push(with(miss, "source_cpu_us", json!(2.0)));
        values.push(sample("commands", "miss", "redis-server", 50, run, 4.0, 1000.0));
        values.push(sample("http", "http-hit", "larder", 50, run, cpu, 1000.0));
        values.push(with(sample("http", "http-hit", "wrong", 50, run, 1.0, 9e9), "errors", json!({"http_4xx": run})));
        for (server, p99) in [("larder", cpu), ("calmer", 1.0)] {
            for rate in [50.0, 500.0] {
                values.push(with(sample("latency", "http-hit", server, 50, run, p99, rate), "rate", json!(rate)));
            }
        }
    }
    for (server, peak) in [("larder", 2000.0), ("calmer", 1000.0)] {
        values.push(sample("latency", "http-hit", server, 50, 0, 1.0, peak));
    }
    for connections in [1, 2] {
        for load in ["bad-request", "lookup-miss", "lookup-hit"] {
            values.push(sample("lookup", load, "larder", connections, 0, 4.0, 1000.0));
        }
    }
    values.push(sample("item", "item-unique", "gcache", 30, 0, 4.0, 1000.0));
    for (server, growth) in [("larder", 1000), ("bigger", 1500)] {
        for value_size in [64, 1024] {
            values.push(json!({"record": "memory", "server": server, "value_size": value_size, "key_size": 36, "entries": 10, "growth": growth}));
        }
    }
    values.push(json!({"record": "skipped", "server": "absent", "reason": "not given"}));
    values.push(json!({"record": "failed", "section": "memory", "server": "broken", "reason": "it ended"}));
    values.push(json!({"record": "server", "server": "larder", "version": "1", "part": "hits", "command": "larder serve", "configuration": null}));
    values.push(json!({"record": "end", "seconds": 9.0, "others": 0.25}));
    [vec![setting()], values.into_iter().map(record).collect()].concat()
}

#[test]
fn figures_are_medians_with_their_range() {
    let cells = Cells::of(&raw());
    let key = CellKey::lone(PageSection::Commands, RivalLoad::Get, 64);
    assert_eq!(
        cells.cell(key, "larder").expect("measured").figure(Figure::Cpu),
        Spread { median: 4.5, low: 4.0, high: 5.0 }
    );
    assert!(cells.cell(key, "faster").expect("measured").saturated);
    assert_eq!(cells.at(key).iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["larder", "slower", "faster"]);
}

#[test]
fn a_page_shows_ratios_losses_failures_and_gaps() {
    let raw = raw();
    let page = RivalsPage::of(&raw, "pictures").expect("a page").text;
    let has = |text: &str| assert!(page.contains(text), "{text:?} is missing in\n{page}");
    has("| slower | 2.00 | 2.00 | 0.50 | 0.50 |");
    has("| slower | 9.00 (8.00–10.00) |");
    has("| faster | 0.22 | 0.22 | 1.50† | 1.50† |");
    has("| GET, one at a time | slower 2.00 (2.00–2.00), faster 0.22 (0.20–0.25) |");
    has("| memory per entry, values of 64 B | bigger 1.50 |");
    // Lines are wrapped.
    let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
    let miss = "CPU of a miss: Larder 9.00 µs; redis-server asked directly 4.00 and a hit of Larder (64 connections) 4.50, together 8.50: **1.06** of that.";
    assert!(words.contains(miss), "{words}");
    let with_source = "The redis-server behind Larder takes 2.00 µs for a miss: with it 1.29.";
    assert!(words.contains(with_source), "{words}");
    // Beaten beyond the spread.
    has("### GET, 16 at a time\n");
    has("| larder | 0.56 (0.50–0.62) |");
    has("### GET, in batches of 16\n");
    has("| larder | 0.50 (0.44–0.56) |");
    has("- get, 64 connections: CPU: faster (0.22)\n");
    has("- get, 64 connections: throughput: faster (1.50)\n");
    has("- http-hit, at 500/s: p99: calmer (0.22)\n");
    has("Highest rates, requests per second: larder 2000, calmer 1000.\n");
    has("| at 50/s | p99 | p50, ms | p99, ms | p99.9, ms | max, ms |");
    assert!(!page.contains("CPU: slower") && !page.contains("CPU: wrong"));
    has("| wrong | *failed* | *failed* | *failed* | *failed* |");
    has("- wrong, http-hit, 50 connections: failed: 3 × http_4xx\n");
    has("| bigger | 1.50 | 1.50 |");
    has("- absent: not measured: not given\n");
    has("- broken, memory: failed: it ended\n");
    has("| 2 | 1000 | 1000 | 1000 | 2.000 | 2.000 | 2.000 |");
    has("Larder has no figures here");
    has("other processes took 25 % of its cores' time");
    has("2026-01-02T03:04:05Z");
    has("](pictures/raw.jsonl)");
    for chart in ["get-1", "p99-http-hit", "memory", "lookup"] {
        has(&format!("](pictures/{chart}.svg)"));
    }
}

#[test]
fn a_page_of_a_part_says_so() {
    let mut raw = raw();
    raw.pop();
    assert!(RivalsPage::of(&raw, "p").expect("a page").text.contains("interrupted"));
}

#[test]
fn raw_data_without_a_setting_are_none() {
    let error = RivalsPage::of(&raw()[1..], "p").err().expect("no setting");
    assert!(error.to_string().contains("do not say"), "{error}");
}

#[test]
fn charts_are_well_formed() {
    let raw = raw();
    let page = RivalsPage::of(&raw, "p").expect("a page");
    assert_eq!(page.charts.len(), 4);
    for (name, chart) in &page.charts {
        assert!(chart.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{name}");
        well_formed(chart).unwrap_or_else(|at| panic!("{name}: {at}"));
        assert!(chart.matches("<polyline").count() >= 2 && !chart.contains("NaN"), "{name}: {chart}");
        assert!(chart.contains(">2026-01-02T03:04:05Z, commit abc; "), "{name}: {chart}");
        // A bar for each point that is a median of runs; memory is measured once.
        let bars = if name == "memory.svg" { 0 } else { chart.matches("<circle").count() };
        assert_eq!(chart.matches("stroke-opacity=\"0.6\"").count(), bars, "{name}: {chart}");
        let how = if name == "memory.svg" { "; measured once<" } else { "; points: medians of " };
        assert!(chart.contains(how), "{name}: {chart}");
    }
    well_formed("<a><b></a>").expect_err("a tag is not closed");
    well_formed("<a x=\"1></a>").expect_err("a quote is not closed");
    well_formed("<a>&nbsp;</a>").expect_err("an entity of HTML");
}

/// The part of XML's well-formedness that can go wrong here: elements nest, attributes are quoted,
/// `&` and `<` are escaped.
fn well_formed(text: &str) -> Result<(), String> {
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        check_entities(before)?;
        let mut quoted = false;
        let end = tag.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let end = end.ok_or_else(|| format!("endless tag {tag:.60}"))?;
        let inside = &tag[1..end];
        check_entities(inside)?;
        match (inside.strip_prefix('/'), inside.ends_with('/')) {
            (Some(name), _) if open.pop() != Some(name) => return Err(format!("</{name}> closes another")),
            (Some(_), _) | (None, true) => {}
            (None, false) => open.push(inside.split(' ').next().unwrap_or_default()),
        }
        rest = &tag[end + 1..];
    }
    if open.is_empty() { Ok(()) } else { Err(format!("not closed: {open:?}")) }
}

fn check_entities(text: &str) -> Result<(), String> {
    let known = |rest: &str| ["amp;", "lt;", "gt;", "quot;"].iter().any(|name| rest.starts_with(name));
    match text.split('&').skip(1).find(|rest| !known(rest)) {
        None => Ok(()),
        Some(rest) => Err(format!("&{rest:.20}")),
    }
}

#[test]
fn published_commands_have_no_paths_of_the_machine() {
    for (command, published) in [
        (
            "/opt/x/valkey-server --bind 127.0.0.1 --save '' --port 1",
            "valkey-server --bind 127.0.0.1 --save '' --port 1",
        ),
        ("/usr/sbin/nginx -p /tmp/.tmpA1 -c nginx.conf", "nginx -p DIR -c nginx.conf"),
        ("x -f /dev/shm/.tmpB2/default.vcl,y", "x -f DIR/default.vcl,y"),
        ("larder serve --http 127.0.0.1:0", "larder serve --http 127.0.0.1:0"),
    ] {
        assert_eq!(without_paths(command), published);
    }
}
