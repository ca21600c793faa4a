//! Client-side caches of released clients (`tests/clients`): with redis-server itself, which shows
//! that the checks ask for its behaviour, with Larder in front of one, and with Larder alone.
use crate::{common::RedisServer, larder::Larder};
use std::{path::Path, process::Command};

const CHECKS: [&str; 5] = ["local", "change", "expiry", "many", "flush"];

const REDIS_PY: &str = "python/bin/python ../tests/clients/python/caching.py";
const GO_REDIS: &str = "go-matrix/caching-go-redis";
const RUEIDIS: &str = "go-matrix/caching-rueidis";

/// Runs a program of `.deps`.
fn run(command: &str, port: u16) {
    let deps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps").canonicalize().unwrap_or_default();
    let mut words = command.split(' ');
    let program = deps.join(words.next().unwrap());
    assert!(program.exists(), "{command} is not installed. Type: make tools");
    let output =
        Command::new(program).args(words).args([&format!("127.0.0.1:{port}"), "c"]).current_dir(&deps).output();
    let output = output.unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}{}", String::from_utf8_lossy(&output.stderr));
    for check in CHECKS {
        assert_eq!(report.lines().filter(|line| *line == format!("ok {check}")).count(), 1, "{check}\n{report}");
    }
    // Shown with --nocapture: which versions these were.
    println!("{}", report.lines().last().unwrap());
}

fn at_all_doors(command: &str) {
    run(command, RedisServer::start().port());
    let redis = RedisServer::start();
    run(command, Larder::start(&["--threads", "2", "--source", &redis.url()]).redis);
    run(command, Larder::start(&["--threads", "2"]).redis);
}

#[test]
fn redis_py() {
    // With a server that is older than 7.4, as Debian's is, it uses no cache, nor with a Larder in
    // front of one.
    run(REDIS_PY, Larder::start(&["--threads", "2"]).redis);
}
#[test]
fn go_redis() {
    at_all_doors(GO_REDIS);
}
#[test]
fn rueidis() {
    at_all_doors(RUEIDIS);
}
