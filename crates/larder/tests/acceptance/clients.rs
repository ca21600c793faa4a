//! Real client libraries with their default settings (`tests/clients`), against Larder alone,
//! against Larder before a Redis, and against that Redis itself, which shows that the checks are
//! Redis's own behaviour.
use crate::{
    common::{RedisServer, Reply},
    larder::Larder,
};
use std::{
    path::Path,
    process::{Command, Output},
};

/// Program and arguments, relative to `.deps`.
type Library = (&'static str, &'static [&'static str]);
const REDIS_PY: Library = ("python/bin/python", &["../tests/clients/python/client.py"]);
const REDIS_PY_HIREDIS: Library = ("python-hiredis/bin/python", &["../tests/clients/python/client.py"]);
const GO_REDIS: Library = ("go-client", &[]);
const IOREDIS: Library = ("node", &["node/client.js"]);
const REDIS_PY_CLUSTER: Library = ("python/bin/python", &["../tests/clients/python/cluster.py"]);
const IOREDIS_CLUSTER: Library = ("node", &["node/cluster.js"]);
const GLIDE_CLUSTER: Library = ("python-glide/bin/python", &["../tests/clients/python/glide_cluster.py"]);
const GO_REDIS_CLUSTER: Library = ("go-matrix/cluster", &[]);
const JEDIS_CLUSTER: Library = ("java", &["-cp", "java/jedis:java/jedis/*", "JedisClusters"]);
const LETTUCE_CLUSTER: Library = ("java", &["-cp", "java/lettuce:java/lettuce/*", "LettuceClusters"]);
const UPSTASH: Library = ("node", &["node/upstash.js"]);

fn run(library: Library, port: u16, prefix: &str) {
    run_checks(library, port, &[prefix], 12);
}

/// `args`: the prefix of keys, and more.
fn run_checks(library: Library, port: u16, args: &[&str], checks: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let deps = root.join(".deps");
    let (program, script) = library;
    let installed = deps.join(program.split('/').next().unwrap());
    assert!(installed.exists(), "{program} is not installed. Type: make tools");
    // A program of PATH, or one in .deps.
    let program = if matches!(program, "node" | "java") { program.into() } else { deps.join(program) };
    let Output { status, stdout, stderr } = Command::new(program)
        .args(script)
        .arg(format!("127.0.0.1:{port}"))
        .args(args)
        .current_dir(&deps)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&stdout);
    assert!(status.success(), "{text}{}", String::from_utf8_lossy(&stderr));
    // Shown with --nocapture: which versions these were.
    println!("{}", text.lines().last().unwrap());
    assert!(text.trim_end().ends_with(&format!(" {checks} passed, 0 failed")), "{text}");
}

fn alone(library: Library) {
    run(library, Larder::start(&["--threads", "2"]).redis, "c");
}

fn before_redis(library: Library) {
    let redis = RedisServer::start();
    run(library, redis.port(), "direct");
    let larder = Larder::start(&["--threads", "2", "--source", &redis.url()]);
    run(library, larder.redis, "through");
    // Written through: what the program left behind is the same at both doors.
    for key in ["many49", "counter", "parallel", "parallel15:49", "pipe499", "balance"] {
        let direct = redis.command(&["GET", &format!("direct:{key}")]);
        assert_ne!(direct, Reply::nil(), "{key}");
        assert_eq!(redis.command(&["GET", &format!("through:{key}")]), direct, "{key}");
    }
}

/// Classes for a cluster, with a Larder that emulates one, alone and before a Redis that is none.
fn of_a_cluster(library: Library) {
    run_checks(library, Larder::start(&["--threads", "2", "--cluster", "emulated"]).redis, &["alone"], 6);
    let redis = RedisServer::start();
    let before = Larder::start(&["--threads", "2", "--cluster", "emulated", "--source", &redis.url()]);
    run_checks(library, before.redis, &["before"], 6);
}

#[test]
fn redis_py() {
    alone(REDIS_PY);
}
#[test]
fn redis_py_before_redis() {
    before_redis(REDIS_PY);
}
#[test]
fn redis_py_with_hiredis() {
    alone(REDIS_PY_HIREDIS);
}
#[test]
fn redis_py_with_hiredis_before_redis() {
    before_redis(REDIS_PY_HIREDIS);
}
#[test]
fn go_redis() {
    alone(GO_REDIS);
}
#[test]
fn go_redis_before_redis() {
    before_redis(GO_REDIS);
}
#[test]
fn ioredis() {
    alone(IOREDIS);
}
#[test]
fn ioredis_before_redis() {
    before_redis(IOREDIS);
}
#[test]
fn redis_py_for_a_cluster() {
    of_a_cluster(REDIS_PY_CLUSTER);
}
#[test]
fn ioredis_for_a_cluster() {
    of_a_cluster(IOREDIS_CLUSTER);
}
#[test]
fn valkey_glide_for_a_cluster() {
    of_a_cluster(GLIDE_CLUSTER);
}
#[test]
fn go_redis_for_a_cluster() {
    of_a_cluster(GO_REDIS_CLUSTER);
}
#[test]
fn jedis_for_a_cluster() {
    of_a_cluster(JEDIS_CLUSTER);
}
#[test]
fn lettuce_for_a_cluster() {
    of_a_cluster(LETTUCE_CLUSTER);
}

/// Redis over HTTP.
#[test]
fn upstash() {
    let larder = Larder::start(&["--threads", "2", "--password=secret"]);
    run_checks(UPSTASH, larder.http, &["c"], 12);
}
#[test]
fn upstash_before_redis() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--threads", "2", "--password=secret", "--source", &redis.url()]);
    run_checks(UPSTASH, larder.http, &["c", "redis"], 12);
}
