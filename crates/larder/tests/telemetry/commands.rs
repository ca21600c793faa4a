//! What the process counts of each Redis command: in the metrics, in INFO, and beside the forms of a
//! real Redis.
use crate::{common, larder};
use common::{Client, RedisServer, Reply};
use larder::{Larder, encode, skip_until};
use std::{collections::BTreeMap, io::Write};

fn info(client: &mut Client, sections: &[&str]) -> String {
    let Reply::Bulk(Some(text)) = client.command(&[&["INFO"], sections].concat()) else { panic!("INFO has no text") };
    String::from_utf8(text).unwrap()
}

/// The fields of a line of INFO: `name:field=value,…`.
fn fields(info: &str, name: &str) -> Vec<(String, f64)> {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let line = line.unwrap_or_else(|| panic!("no {name} in\n{info}"));
    let field = |text: &str| {
        let (name, value) = text.split_once('=').unwrap();
        (name.to_owned(), value.parse().unwrap())
    };
    line.split(',').map(field).collect()
}

fn numbers(info: &str, name: &str) -> BTreeMap<String, f64> {
    fields(info, name).into_iter().collect()
}

#[test]
fn commands_are_counted_by_name_and_errors_by_kind() {
    let mut source = RedisServer::start();
    let larder = Larder::start(&["--source", &source.url()]);
    let mut client = larder.client();
    source.command(&["SET", "k", "v"]);
    for _ in 0..3 {
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    }
    assert_eq!(client.command(&["HSET", "h", "a", "1"]), Reply::Int(1));
    assert_eq!(client.command(&["hGet", "h", "a"]), Reply::bulk("1"));
    assert!(client.command(&["HGET", "k", "a"]).error().starts_with("WRONGTYPE "));
    assert!(client.command(&["APPEND", "h", "x"]).error().starts_with("WRONGTYPE "));
    client.command(&["GET"]).error();
    client.command(&["NO.SUCH", "x"]).error();
    client.command(&["NOSUCH2"]).error();
    client.command(&["MULTI"]);
    client.command(&["SET", "k", "w"]);
    client.command(&["HGET", "h", "a"]);
    assert_eq!(client.command(&["EXEC"]), Reply::Array(Some(vec![Reply::ok(), Reply::bulk("1")])));
    client.command(&["CLIENT", "ID"]);
    let calls = |name: &str| larder.metric(&format!("larder_redis_commands_total{{command=\"{name}\"}}"));
    for (name, expected) in [
        ("get", 3.0),
        ("hset", 1.0),
        ("hget", 3.0),
        ("append", 1.0),
        ("set", 1.0),
        ("multi", 1.0),
        ("exec", 1.0),
        ("client|id", 1.0),
        ("other", 2.0),
    ] {
        assert_eq!(calls(name), expected, "{name}");
    }
    let results = |name: &str, result: &str| {
        larder.metric(&format!("larder_redis_command_errors_total{{command=\"{name}\",result=\"{result}\"}}"))
    };
    assert_eq!((results("hget", "failed"), results("append", "failed")), (1.0, 1.0));
    assert_eq!(results("get", "rejected"), 1.0);
    let errors = |kind: &str| larder.metric(&format!("larder_redis_errors_total{{kind=\"{kind}\"}}"));
    assert_eq!((errors("WRONGTYPE"), errors("ERR"), errors("source")), (2.0, 3.0, 0.0));
    source.kill();
    client.command(&["HSET", "h", "a", "2"]).error();
    client.command(&["GET", "other"]).error();
    assert_eq!(errors("source"), 2.0);
    assert_eq!((results("hset", "failed"), results("get", "failed")), (1.0, 1.0));
}

/// The bytes of commands are what a client writes and reads, without the frame around each command.
#[test]
fn bytes_are_counted_by_command() {
    let folder = tempfile::tempdir().unwrap();
    let disk = format!("disk:{}", folder.path().join("store").display());
    let source = RedisServer::start();
    for args in [&[][..], &["--source", &source.url()], &["--source", &disk]] {
        let larder = Larder::start(args);
        let mut client = larder.client();
        let bytes = |name: &str, direction: &str| {
            larder.metric(&format!("larder_redis_command_bytes_total{{command=\"{name}\",direction=\"{direction}\"}}"))
                as usize
        };
        let (value, key) = ("v".repeat(20_000), "key");
        client.command(&["SET", key, &value]);
        // "SET\r\n$3\r\nkey\r\n$20000\r\n" and the value; "+OK\r\n".
        assert_eq!((bytes("set", "received"), bytes("set", "sent")), (22 + 20_000, 5), "{args:?}");
        // A miss or a hit, hits in a pipeline, one with another case, and one of a missing key.
        for _ in 0..2 {
            client.command(&["GET", key]);
        }
        client.send(&["GET", key]).unwrap();
        client.send(&["get", key]).unwrap();
        client.send(&["GET", "no"]).unwrap();
        let replies: Vec<Reply> = (0..3).map(|_| client.read().unwrap()).collect();
        assert_eq!(replies[0], Reply::bulk(&value));
        // "GET\r\n$3\r\nkey"; "$20000\r\n", the value, "\r\n"; "$-1\r\n".
        assert_eq!((bytes("get", "received"), bytes("get", "sent")), (4 * 12 + 11, 4 * 20_010 + 5), "{args:?}");
        client.command(&["INCR", "n"]);
        assert_eq!((bytes("incr", "received"), bytes("incr", "sent")), (11, 4), "{args:?}");
        // The replies of the commands of a transaction are in that of EXEC.
        client.command(&["MULTI"]);
        client.command(&["STRLEN", key]);
        client.command(&["EXEC"]);
        assert_eq!((bytes("strlen", "received") > 0, bytes("exec", "sent")), (true, 4 + 8), "{args:?}");
    }
    let larder = Larder::start(&["--source", &source.url()]);
    let mut client = larder.client();
    client.command(&["HSET", "h", "a", "1"]);
    client.command(&["HGET", "h", "a"]);
    client.command(&["BLPOP", "none", "0.01"]);
    for (name, sent) in [("hset", 4.0), ("hget", 7.0), ("blpop", 5.0)] {
        let metric = format!("larder_redis_command_bytes_total{{command=\"{name}\",direction=\"sent\"}}");
        assert_eq!(larder.metric(&metric), sent, "{name}");
    }
}

#[test]
fn info_has_the_times_of_every_command_in_the_form_of_redis() {
    let source = RedisServer::start();
    let larder = Larder::start(&["--source", &source.url()]);
    let (mut client, mut direct) = (larder.client(), source.client());
    let commands: [&[&str]; 7] = [
        &["SET", "k", "v"],
        &["GET", "k"],
        &["GET", "k"],
        &["HSET", "h", "a", "1"],
        &["HGET", "h", "a"],
        &["CONFIG", "GET", "maxmemory"],
        &["GET", "h"],
    ];
    direct.command(&["CONFIG", "RESETSTAT"]);
    for command in commands {
        direct.command(command);
    }
    let theirs = info(&mut direct, &["commandstats", "latencystats"]);
    for command in commands {
        client.command(command);
    }
    let ours = info(&mut client, &["commandstats", "latencystats"]);
    for name in ["get", "set", "hset", "hget", "config|get"] {
        for start in ["cmdstat_", "latency_percentiles_usec_"] {
            let name = format!("{start}{name}");
            let names = |info: &str| fields(info, &name).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
            assert_eq!(names(&ours), names(&theirs), "{name}");
        }
        let (ours, theirs) = (format!("cmdstat_{name}"), numbers(&theirs, &format!("cmdstat_{name}")));
        let ours = numbers(&info(&mut client, &["commandstats"]), &ours);
        for field in ["calls", "failed_calls", "rejected_calls"] {
            assert_eq!(ours[field], theirs[field], "{name}: {field}");
        }
        assert!(ours["usec"] > 0.0 && ours["usec_per_call"] > 0.0, "{name}: {ours:?}");
        let mean = ours["usec"] / ours["calls"];
        assert!((ours["usec_per_call"] - mean).abs() <= 1.0, "{name}: {ours:?}");
    }
    let page: serde_json::Value = serde_json::from_str(&larder.get("/v1/commands")).unwrap();
    let listed = page["commands"].as_array().unwrap();
    let get = listed.iter().find(|of| of["name"] == "get").unwrap();
    assert_eq!((&get["class"], &get["calls"], &get["failed"]), (&"read".into(), &3.into(), &1.into()), "{page}");
    assert!(get["p50"].as_f64() > Some(0.0) && get["p999"].as_f64() >= get["p50"].as_f64(), "{page}");
    assert!(listed.iter().any(|of| of["name"] == "hget" && of["class"] == "forwarded"), "{page}");
    let get: serde_json::Value = serde_json::from_str(&larder.get("/v1/commands/GET")).unwrap();
    let durations = get["durations"].as_array().unwrap();
    let timed: u64 = durations.iter().map(|bucket| bucket["calls"].as_u64().unwrap()).sum();
    let ends = durations.iter().map(|bucket| bucket["up_to"].as_f64().unwrap());
    assert!(get["name"] == "get" && get["calls"] == 3 && timed == 3, "{get}");
    assert!(ends.is_sorted(), "{get}");
    let unknown = "GET /v1/commands/nonsense HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let (status, _, problem) = larder.admin(unknown);
    assert_eq!(status, 404, "{}", String::from_utf8_lossy(&problem));
    let times = numbers(&ours, "latency_percentiles_usec_hget");
    assert!(times["p50"] >= 1.0 && times["p50"] <= times["p99"] && times["p99"] <= times["p99.9"], "{times:?}");
    assert!(ours.contains("# Commandstats\r\n") && ours.contains("# Latencystats\r\n"), "{ours}");
    // The whole INFO has the sections once, and the rest is Redis's.
    let all = info(&mut client, &["all"]);
    assert_eq!(all.matches("# Commandstats\r\n").count(), 1, "{all}");
    assert_eq!(all.matches("# Larder\r\n").count(), 1);
    assert!(all.contains("redis_version:") && numbers(&all, "cmdstat_hset")["calls"] == 1.0, "{all}");
    assert!(!all.contains("\r\n\r\n\r\n"), "{all}");
    let default = info(&mut client, &[]);
    assert!(!default.contains("# Commandstats") && default.contains("# Larder\r\n"), "{default}");
    // Without a source, and after a reset.
    let alone = Larder::start(&[]);
    let mut client = alone.client();
    client.command(&["SET", "k", "v"]);
    client.command(&["LPUSH", "k", "v"]).error();
    client.command(&["INCR", "k"]).error();
    let ours = info(&mut client, &["everything"]);
    assert_eq!(numbers(&ours, "cmdstat_incr")["failed_calls"], 1.0);
    assert_eq!(numbers(&ours, "errorstat_ERR")["count"], 2.0);
    assert!(numbers(&ours, "latency_percentiles_usec_set")["p99"] > 0.0);
    assert_eq!(client.command(&["CONFIG", "RESETSTAT"]), Reply::ok());
    let ours = info(&mut client, &["everything"]);
    assert!(!ours.contains("cmdstat_incr") && !ours.contains("errorstat_"), "{ours}");
    assert_eq!(alone.metric("larder_redis_commands_total{command=\"incr\"}"), 1.0, "metrics go on");
}

#[test]
fn patterns_and_names_of_config_get_agree() {
    let source = RedisServer::with(&["--maxmemory", "123456789"]);
    for larder in [Larder::start(&["--source", &source.url()]), Larder::start(&["--max-memory", "64MiB"])] {
        let mut client = larder.client();
        let mut pairs = |pattern: &str| {
            let Reply::Array(Some(found)) = client.command(&["CONFIG", "GET", pattern]) else { panic!("no array") };
            found.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect::<Vec<_>>()
        };
        let by_name = pairs("maxmemory");
        assert_eq!(by_name.len(), 1, "{by_name:?}");
        for pattern in ["max*", "MAX*", "maxm?mory", "*"] {
            let by_pattern: Vec<_> = pairs(pattern).into_iter().filter(|pair| pair.0 == by_name[0].0).collect();
            assert_eq!(by_pattern, by_name, "{pattern}");
        }
    }
}

#[test]
fn every_call_of_a_pipeline_is_timed_once() {
    let larder = Larder::start(&["--threads", "1"]);
    let mut stream = larder.stream();
    let commands: [&[&[u8]]; 5] = [
        &[b"SET", b"k", b"v"],
        &[b"GET", b"k"],
        &[b"INCR", b"n"],
        &[b"STRLEN", b"k"],
        &[b"GETRANGE", b"k", b"0", b"1"],
    ];
    let mut calls = [0; 5];
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..30 {
        // One write to the socket for some runs, shorter and longer than those that are timed together.
        let mut pipeline = Vec::new();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..commands.len());
            let run = random.usize(1..40);
            calls[at] += run;
            pipeline.extend(encode(commands[at]).repeat(run));
        }
        pipeline.extend(encode(&[b"PING"]));
        stream.write_all(&pipeline).unwrap();
        skip_until(&mut stream, b"+PONG\r\n");
    }
    let mut client = larder.client();
    for (command, calls) in commands.iter().zip(calls) {
        let name = String::from_utf8(command[0].to_ascii_lowercase()).unwrap();
        let Reply::Array(Some(reply)) = client.command(&["LATENCY", "HISTOGRAM", &name]) else { panic!("{name}") };
        let Reply::Array(Some(of_name)) = &reply[1] else { panic!("{reply:?}") };
        assert_eq!(of_name[1], Reply::Int(calls as i64), "{name}: {reply:?}");
        assert!(numbers(&info(&mut client, &["everything"]), &format!("cmdstat_{name}"))["usec"] > 0.0);
    }
}
