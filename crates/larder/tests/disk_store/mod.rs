//! A disk store as its applications see it: the real server, many connections, real clients,
//! restarts.

mod load;

use crate::{common, larder};

use common::{Reply, wait_until};
use larder::{Larder, connect, encode};
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};
use tempfile::TempDir;

struct Server {
    larder: Larder,
    dir: TempDir,
}
impl Server {
    fn start(args: &[&str]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        Server { larder: start(dir.path(), args), dir }
    }
    fn restart(&mut self, args: &[&str]) {
        self.larder.signal(Signal::TERM);
        let (status, _) = self.larder.wait();
        assert!(status.success(), "{status}");
        self.larder = start(self.dir.path(), args);
    }
}
fn start(dir: &Path, args: &[&str]) -> Larder {
    let source = format!("disk:{}", dir.display());
    Larder::start(&[&["--source", &source, "--threads", "4"], args].concat())
}

fn ask(larder: &Larder, words: &str) -> Reply {
    larder.client().command(&words.split(' ').collect::<Vec<_>>())
}

#[test]
fn counters_are_exact_from_many_connections() {
    const CLIENTS: usize = 16;
    const TIMES: usize = 100;
    let mut server = Server::start(&[]);
    let larder = &server.larder;
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = larder.client();
                let own = format!("own:{number}");
                for time in 0..TIMES {
                    // A pipeline, a transaction and a single command, which meet at the same keys.
                    let pipeline: [&[&str]; 3] = [&["INCR", "hits"], &["INCR", &own], &["APPEND", "log", "x"]];
                    pipeline.iter().for_each(|command| client.send(command).unwrap());
                    pipeline.iter().for_each(|_| assert!(client.read().unwrap().int() > 0));
                    let (from, to) = if (time + number) % 2 == 0 { ("a", "b") } else { ("b", "a") };
                    client.command(&["MULTI"]);
                    client.command(&["DECR", from]);
                    client.command(&["INCR", to]);
                    client.command(&["EXEC"]);
                    client.command(&["INCR", "hits"]);
                }
            });
        }
    });
    let check = |larder: &Larder| {
        let mut client = larder.client();
        assert_eq!(client.command(&["GET", "hits"]), Reply::bulk((2 * CLIENTS * TIMES).to_string()));
        assert_eq!(client.command(&["STRLEN", "log"]).int(), (CLIENTS * TIMES) as i64);
        for number in 0..CLIENTS {
            assert_eq!(client.command(&["GET", &format!("own:{number}")]), Reply::bulk(TIMES.to_string()));
        }
        assert_eq!(client.command(&["INCRBY", "a", "0"]).int(), -client.command(&["INCRBY", "b", "0"]).int());
    };
    check(larder);
    server.restart(&[]);
    check(&server.larder);
}

#[test]
fn a_restart_keeps_values_and_lifetimes() {
    let mut server = Server::start(&[]);
    {
        let mut client = server.larder.client();
        for words in
            ["SET plain 1", "SET brief 1 PX 300", "SET long 1 EX 1000", "MSET m1 1 m2 2", "INCR plain", "DEL m1"]
        {
            client.command(&words.split(' ').collect::<Vec<_>>());
        }
        client.command(&["SET", "large", &"x".repeat(5 << 20)]);
        client.command(&[&b"SET"[..], b"\xff\x00\r\n", b"\x00\xff"]);
    }
    server.restart(&[]);
    let larder = &server.larder;
    assert_eq!(ask(larder, "GET plain"), Reply::bulk("2"));
    assert_eq!(ask(larder, "TTL plain").int(), -1);
    assert!((900..=1000).contains(&ask(larder, "TTL long").int()));
    assert_eq!(ask(larder, "STRLEN large").int(), 5 << 20);
    assert_eq!(larder.client().command(&[&b"GET"[..], b"\xff\x00\r\n"]), Reply::bulk(b"\x00\xff"));
    wait_until("the brief one to expire", || ask(larder, "EXISTS brief").int() == 0);
    let keys: [&[u8]; 5] = [b"large", b"long", b"m2", b"plain", b"\xff\x00\r\n"];
    let keys = keys.map(Reply::bulk).to_vec();
    assert_eq!(larder.client().command(&["KEYS", "*"]), Reply::Array(Some(keys)), "in their order");
    assert_eq!(ask(larder, "DBSIZE").int(), 5);
    assert_eq!(ask(larder, "FLUSHALL"), Reply::ok());
    server.restart(&[]);
    assert_eq!(ask(&server.larder, "DBSIZE").int(), 0);
    assert_eq!(ask(&server.larder, "GET plain"), Reply::nil());
}

#[test]
fn a_pipeline_sees_its_own_writes_in_order() {
    let server = Server::start(&[]);
    let mut stream = connect(server.larder.redis);
    let (mut sent, mut expected) = (Vec::new(), Vec::new());
    for number in 0..2000 {
        let value = number.to_string();
        sent.extend(encode(&[b"SET", b"k", value.as_bytes()]));
        expected.extend_from_slice(b"+OK\r\n");
        match number % 4 {
            0 => {
                sent.extend(encode(&[b"GET", b"k"]));
                expected.extend(format!("${}\r\n{value}\r\n", value.len()).into_bytes());
            }
            1 => {
                sent.extend(encode(&[b"INCR", b"k"]));
                sent.extend(encode(&[b"PING"]));
                expected.extend(format!(":{}\r\n+PONG\r\n", number + 1).into_bytes());
            }
            2 => {
                sent.extend(encode(&[b"DEL", b"k"]));
                sent.extend(encode(&[b"MGET", b"k", b"none"]));
                sent.extend(encode(&[b"DBSIZE"]));
                expected.extend_from_slice(b":1\r\n*2\r\n$-1\r\n$-1\r\n:0\r\n");
            }
            _ => {
                sent.extend(encode(&[b"CLIENT", b"REPLY", b"SKIP"]));
                sent.extend(encode(&[b"APPEND", b"k", b"!"]));
                sent.extend(encode(&[b"STRLEN", b"k"]));
                expected.extend(format!(":{}\r\n", value.len() + 1).into_bytes());
            }
        }
    }
    let mut writer = stream.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&sent).unwrap());
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got == expected, "{}", got.escape_ascii());
}

/// Written faster than flushes and compactions can follow, at each of which fjall would stop all
/// writers.
#[test]
fn writers_are_slowed_and_never_stopped() {
    const WRITERS: u64 = 16;
    const PIPELINE: u64 = 8;
    let server = Server::start(&["--store-block-cache=1MiB", "--durability=os"]);
    let larder = &server.larder;
    let metric = |name: &str| larder.metric(&format!("larder_store_{name}{{group=\"default\"}}"));
    let stop = AtomicBool::new(false);
    let write = &|writer: u64| {
        let (mut client, mut written) = (larder.client(), 0);
        while !stop.load(Relaxed) {
            for number in written..written + PIPELINE {
                // Another for each, and all over the keys, so that every table overlaps with every other.
                let key = (number * WRITERS + writer).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
                client.send(&[&b"SET"[..], &key, &[b'v'; 10_000]]).unwrap();
            }
            (0..PIPELINE).for_each(|_| assert_eq!(client.read().unwrap(), Reply::ok()));
            written += PIPELINE;
        }
        written
    };
    // How often in a row it was looked without a write since: what makes writers slow on a busy machine
    // makes looking slow as well.
    let watch = || {
        let (mut taken, mut idle) = (0.0, 0);
        wait_until("the writers to be slowed", || {
            let (runs, sealed, now) = (metric("level0_runs"), metric("sealed_memtables"), metric("writes_total"));
            assert!(runs < 30.0 && sealed < 4.0, "fjall stops all writers: {runs} runs, {sealed} memtables");
            // Four times the buffer, and what comes in until the next look. Unslowed it grows on and on.
            let memory = metric("memtable_bytes");
            assert!(memory < 128e6, "{memory} bytes wait to be flushed");
            idle = if now == taken { idle + 1 } else { 0 };
            taken = now;
            assert!(idle < 200, "nothing was written for {idle} looks");
            metric("stalls_total") >= 50.0
        });
    };
    let written: u64 = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
        let watched = scope.spawn(watch).join();
        stop.store(true, Relaxed);
        watched.unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert!(metric("stalled_seconds_total") > 0.0);
    assert_eq!(ask(larder, "DBSIZE").int(), written as i64);
}

/// Chunks of an answer, one by one.
struct Chunks(BufReader<std::net::TcpStream>);
impl Chunks {
    fn of(port: u16, target: &str) -> Chunks {
        let mut stream = connect(port);
        write!(stream, "GET {target} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut chunks = Chunks(BufReader::with_capacity(16 * 1024, stream));
        assert_eq!(chunks.line(), "HTTP/1.1 200 OK");
        while !chunks.line().is_empty() {}
        chunks
    }
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}
impl Iterator for Chunks {
    type Item = Vec<u8>;
    fn next(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line(), 16).unwrap();
        let mut chunk = vec![0; size];
        self.0.read_exact(&mut chunk).unwrap();
        assert_eq!(self.line(), "");
        (size > 0).then_some(chunk)
    }
}

#[test]
fn a_range_for_a_slow_client_takes_no_memory() {
    const ENTRIES: usize = 50_000;
    let server = Server::start(&["--max-memory", "16MiB", "--store-block-cache", "8MiB"]);
    let larder = &server.larder;
    let mut client = larder.client();
    for first in (0..ENTRIES).step_by(1000) {
        let mut command = vec!["MSET".to_owned()];
        for number in first..first + 1000 {
            command.extend([format!("{number:08}"), "v".repeat(1000)]);
        }
        assert_eq!(client.command(&command), Reply::ok());
    }
    let before = larder.resident();
    let mut chunks = Chunks::of(larder.http, "/v0/entities?start=0");
    let mut most = 0;
    for number in 0..ENTRIES {
        let chunk = chunks.next().unwrap();
        assert!(chunk.len() == 1009 && chunk.starts_with(format!("{number:08}\nv").as_bytes()));
        if number % 5000 == 0 {
            most = most.max(larder.resident());
        }
    }
    assert_eq!(chunks.next(), None);
    let grown = most.saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes more for 50 MB that are under way");
    let (status, _, body) =
        larder.http("GET /v1/range?reverse=true&limit=2 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let text = String::from_utf8(body).unwrap();
    assert!(status == 200 && text.contains("{\"key\":\"00049999\",\"value\":\"vvv"), "{status}");
}

#[test]
fn redis_cli_finds_a_database() {
    let server = Server::start(&[]);
    let port = server.larder.redis.to_string();
    let cli = |args: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port]).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut client = server.larder.client();
    for number in 0..300 {
        client.command(&["SET", &format!("key:{number}"), "v"]);
    }
    client.command(&["SET", "other", "v"]);
    let mut found: Vec<String> = cli(&["--scan", "--pattern", "key:*"]).lines().map(str::to_owned).collect();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 300);
    assert_eq!(cli(&["dbsize"]).trim(), "301");
    assert!(cli(&["--bigkeys"]).contains("301 keys"), "it samples all");
}

#[test]
#[ignore = "make test-clients"]
fn redis_py_finds_a_database() {
    let server = Server::start(&[]);
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/python/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disk_store/client.py");
    let output = Command::new(python).arg(script).arg(server.larder.redis.to_string()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
