//! The program as a user runs it: a process of its own, because it measures itself.
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::TcpListener,
    process::{Command, Output, Stdio},
};

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
    // Four policies.
    assert_eq!(rows.len(), 4 * 3);
    let lru: Vec<_> = rows.iter().filter(|row| row["policy"] == "lru").collect();
    let cells: Vec<_> = lru.iter().map(|row| (row["capacity"].as_u64(), row["hits"].as_u64())).collect();
    // 150 of 250 requests return; half the room leaves LRU the last 50 of them only.
    assert_eq!(cells, [(Some(100), Some(150)), (Some(200), Some(150)), (Some(50), Some(50))]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for arguments in [&["fleet", "--nodes", "3"][..], &["data", "--keys", "100000"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_larder-bench"));
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the program starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("the program ends");
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
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
    assert!(complaint(&["run", "--url", "localhost"]).contains("scheme"));
    assert!(complaint(&["run", "--url", "redis://127.0.0.1:1", "--op", "gett"]).contains("mget"));
    assert!(complaint(&["run", "--url", "redis://127.0.0.1:1", "--threads", "2"]).contains("--connections 1"));
    assert!(complaint(&["replay", "/nowhere/a.ops", "--url", "redis://127.0.0.1:1"]).contains("/nowhere/a.ops"));
}

#[test]
fn a_run_without_an_answer_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    for (scheme, protocol) in [("http", "HTTP"), ("redis", "the Redis protocol")] {
        let output = larder_bench(&["run", "--url", &format!("{scheme}://{address}"), "--duration", "100ms"]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(&format!("no request was answered: does the server speak {protocol} on")), "{errors}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("closed"), "the table is there");
    }
}

/// A server of the Redis protocol that answers every request with OK; lives as long as the test.
fn ok_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let mut input = [0; 65536];
                while let Ok(count @ 1..) = stream.read(&mut input) {
                    let requests = input[..count].iter().filter(|&&byte| byte == b'*').count();
                    if stream.write_all(&b"+OK\r\n".repeat(requests)).is_err() {
                        break;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn a_run_ends_with_one_object_that_pages_are_made_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    let (url, saved, page, log) = (ok_server(), path("a.json"), path("a.html"), path("a.hlog"));
    let options = "--op mix:get=90,set=10 --keys 100 --key key:{n} --dist zipf:0.99 --value-size 64 --rate 2000 --connections 2 \
                   --pipeline 4 --duration 500ms --json";
    let mut arguments = vec!["run", "--url", &url, "--save", &saved, "--report", &page, "--hdr-log", &log];
    arguments.extend(options.split_ascii_whitespace());
    let rows = rows(&larder_bench(&arguments));
    let result = rows.last().expect("one line");
    assert_eq!((&result["requests"], &result["target_rate"]), (&1000.into(), &2000.0.into()));
    for kind in ["connect", "timeout", "closed", "protocol", "server", "http_4xx", "http_5xx"] {
        assert_eq!(result["errors"][kind], 0, "{kind}");
    }
    for times in ["latency_ms", "service_ms"] {
        for name in ["p50", "p90", "p99", "p999", "p9999", "max", "mean"] {
            assert!(result[times][name].as_f64().expect(name) > 0.0, "{times} {name}");
        }
    }
    assert!(result["client_saturated"].is_boolean());
    let seconds = result["duration_s"].as_f64().expect("a number");
    assert!((0.5..1.0).contains(&seconds), "{seconds}");
    let both = path("both.html");
    assert!(larder_bench(&["report", &saved, &saved, "--out", &both]).status.success());
    let read = |path: &str| std::fs::read_to_string(path).expect("written");
    // Two charts more compare the runs. They have one name, so they share a heat map.
    assert_eq!((read(&page).matches("<svg").count(), read(&both).matches("<svg").count()), (3, 5));
    assert!(read(&log).contains("Tag=latency"));
    let table = larder_bench(&["run", "--url", &url, "--requests", "100"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(table.contains("closed loop") && table.contains("p99.999") && table.contains("queue"), "{table}");
}

#[test]
fn a_file_of_keys_is_what_a_run_asks_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys");
    let file = file.to_str().expect("a plain path");
    let rows = rows(&larder_bench(&["data", "--keys", "10000", "--out", file]));
    assert_eq!((&rows[0]["keys"], &rows[0]["bytes"]), (&10_000.into(), &370_000.into()));
    let printed = larder_bench(&["data", "--keys", "10000"]).stdout;
    assert_eq!(printed, std::fs::read(file).expect("written"));
    let key = format!("@{file}");
    let asked = larder_bench(&["run", "--url", &ok_server(), "--key", &key, "--requests", "10", "--json"]);
    assert_eq!(self::rows(&asked)[0]["requests"], 10);
}

/// The bar is for a person at a terminal: script(1) makes one.
#[test]
fn a_terminal_shows_progress_unless_it_is_not_wanted() {
    let url = ok_server();
    let shown = |more: &str| {
        let program = env!("CARGO_BIN_EXE_larder-bench");
        let command = format!("{program} run --url {url} --rate 500 --duration 1500ms {more}");
        let output = Command::new("script").args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).output();
        let output = output.expect("script(1) is part of util-linux");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let terminal = shown("");
    assert!(terminal.contains("##") && terminal.contains("left"), "{terminal}");
    for more in ["--json", "--quiet"] {
        let quiet = shown(more);
        assert!(!quiet.contains('\x1b') && !quiet.contains("##"), "{more}: {quiet}");
    }
    let output = larder_bench(&["run", "--url", &url, "--requests", "100"]);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_table_and_the_summary_of_latencies_are_printed() {
    let options = ["--requests", "1000", "--latency", "--summary", "--server-pid"];
    let pid = std::process::id().to_string();
    let output = larder_bench(&[&["run", "--url", &ok_server()], &options[..], &[&pid]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    for part in
        ["1/(1-Percentile)", "inf", "Total count    =         1000]", "fastest", "[simple string] 1000", "bottleneck: "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = rows(&larder_bench(&["run", "--url", &ok_server(), "--requests", "1000", "--json"])).remove(0);
    let last = json["percentiles"].as_array().expect("rows").last().expect("a row").clone();
    assert_eq!((&last["count"], &last["percentile"]), (&1000.into(), &1.0.into()));
    assert_eq!(json["replies"]["simple string"], 1000);
    let command = json["command"].as_str().expect("text");
    assert!(command.starts_with("larder-bench run --url redis://127.0.0.1:"), "{command}");
    assert!(json["host"]["cores"].as_u64() > Some(0) && json["host"]["kernel"].as_str() != Some(""), "{json}");
}

#[test]
fn a_ramp_shows_its_steps() {
    let url = ok_server();
    let ramp = ["--ramp", "connections:1..4", "--slo", "10s", "--duration", "100ms", "--json"];
    let rows = rows(&larder_bench(&[&["run", "--url", &url], &ramp[..]].concat()));
    let steps = rows[0]["ramp"]["steps"].as_array().expect("steps");
    assert_eq!(steps.iter().map(|step| step["connections"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2), Some(4)]);
    assert_eq!(rows[0]["ramp"]["knee"]["throughput"], rows[0]["throughput"]);
}

#[test]
fn a_trace_is_played_on_two_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("t.ops");
    // get 0, 1 ms later set 1 (5 bytes), 1 ms later del 0.
    std::fs::write(&trace, b"LARDOPS1\x00\x00\x00\x01\xe8\x07\x01\x05\x02\xe8\x07\x00").expect("written");
    let trace = trace.to_str().expect("a plain path");
    let (first, second) = (ok_server(), ok_server());
    let rows = rows(&larder_bench(&["replay", trace, "--url", &first, "--against", &second, "--json"]));
    assert_eq!((&rows[0]["requests"], &rows[0]["against"]["requests"]), (&3.into(), &3.into()));
    assert_eq!((&rows[0]["url"], &rows[0]["against"]["url"]), (&first.into(), &second.into()));
}

#[test]
fn rivals_are_compared_on_a_page_that_can_be_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.md");
    let out = page.to_str().expect("a plain path");
    let servers = "redis,memcached,nginx-static,nginx-cache,varnish";
    let output = larder_bench(&["rivals", "--quick", "--seconds", "0.02", "--server", servers, "--out", out]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = || std::fs::read_to_string(&page).expect("written");
    let first = read();
    // Every server of Debian gave the right answers, in every cell.
    assert!(!first.contains("failed: ") && !first.contains("| *failed*"), "{first}");
    for server in ["redis-server", "memcached", "nginx static", "nginx proxy_cache", "varnish"] {
        assert!(first.contains(&format!("| {server} |")), "{server}");
    }
    for chart in ["get-1", "set-1", "mget-1", "p99-get", "memory"] {
        assert!(folder.path().join(format!("page/{chart}.svg")).is_file(), "{chart}");
    }
    std::fs::remove_file(&page).expect("it was there");
    assert!(larder_bench(&["rivals", "--render", "--out", out]).status.success());
    assert_eq!(read(), first);
}

/// Ctrl-C as timeout(1) sends it, twice: the result of what was measured comes all the same.
#[test]
fn an_interrupted_run_prints_its_result() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    let arguments = ["run", "--url", &url, "--op", "set", "--rate", "1000", "--duration", "1h", "--json"];
    let program = Command::new(env!("CARGO_BIN_EXE_larder-bench")).args(arguments).stdout(Stdio::piped()).spawn();
    let program = program.expect("the program starts");
    let (mut stream, _) = listener.accept().expect("it connects");
    let mut input = [0; 65536];
    for request in 0.. {
        let count = stream.read(&mut input).expect("requests");
        if count == 0 {
            break;
        }
        let replies = input[..count].iter().filter(|&&byte| byte == b'*').count();
        stream.write_all(&b"+OK\r\n".repeat(replies)).expect("it listens");
        if request == 20 {
            for signal in ["-INT", "-TERM"] {
                Command::new("kill").args([signal, &program.id().to_string()]).status().expect("kill(1)");
            }
        }
    }
    let rows = rows(&program.wait_with_output().expect("it ends"));
    let row = rows.last().expect("a result");
    assert_eq!((&row["interrupted"], &row["errors"]["closed"]), (&true.into(), &0.into()), "{row}");
    assert!(row["requests"].as_u64() > Some(15) && row["duration_s"].as_f64() < Some(60.0), "{row}");
}
