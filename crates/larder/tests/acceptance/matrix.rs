//! The matrix: released clients with their default settings go through one script
//! (`tests/clients`), against a redis-server and against Larder in front of one. The run against
//! the redis-server shows that the script asks for Redis's own behaviour.
//!
//! A program prints `restart` or `crash` when it wants its server gone and back on the same port,
//! and goes on at the answer.
use crate::{
    common::{RedisServer, Reply},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
};

/// A program that goes through the script.
struct Program {
    /// What `tests/install_tools` leaves in `.deps` once it is installed.
    installed: &'static str,
    /// Its command line in `.deps`.
    command: &'static str,
}
impl Program {
    const fn new(installed: &'static str, command: &'static str) -> Program {
        Program { installed, command }
    }
}

const REDIS_PY: Program = Program::new("python.stamp", "python/bin/python ../tests/clients/python/matrix.py");
const REDIS_PY_HIREDIS: Program =
    Program::new("python-hiredis.stamp", "python-hiredis/bin/python ../tests/clients/python/matrix.py");
const GO_REDIS: Program = Program::new("go.stamp", "go-matrix/go-redis");
const RUEIDIS: Program = Program::new("go.stamp", "go-matrix/rueidis");
const IOREDIS: Program = Program::new("node.stamp", "node node/matrix-ioredis.js");
const NODE_REDIS: Program = Program::new("node.stamp", "node node/matrix-node-redis.js");
const JEDIS: Program = Program::new("java.stamp", "java -cp java/jedis:java/jedis/* JedisMatrix");
const LETTUCE: Program = Program::new("java.stamp", "java -cp java/lettuce:java/lettuce/* LettuceMatrix");
const REDIS_RS: Program = Program::new("rust.stamp", "./rust-matrix");
const REDIS_CLI: Program = Program::new("python.stamp", "python/bin/python ../tests/clients/python/redis_cli.py");

/// All checks of the script, each named once in a program's report.
const CHECKS: [&str; 10] = [
    "connect",
    "strings",
    "expiry",
    "pipeline",
    "transaction",
    "pubsub",
    "blocking_pop",
    "hash",
    "script",
    "reconnect",
];

/// What a program talks to.
enum Server {
    Redis(RedisServer),
    Larder(Larder, RedisServer),
}
impl Server {
    fn redis() -> Server {
        Server::Redis(RedisServer::start())
    }
    fn larder() -> Server {
        let redis = RedisServer::start();
        Server::Larder(Larder::start(&["--threads", "2", "--source", &redis.url()]), redis)
    }
    fn port(&self) -> u16 {
        match self {
            Server::Redis(redis) => redis.port(),
            Server::Larder(larder, _) => larder.redis,
        }
    }
    /// Ends it in good order, or in the middle of everything, and has it back on the same port.
    fn back_after(&mut self, how: &str) {
        match self {
            Server::Redis(redis) => {
                if how == "restart" {
                    // It closes the connection instead of an answer.
                    assert!(redis.client().try_command(&["SHUTDOWN", "NOSAVE"]).is_err());
                }
                redis.restart();
            }
            Server::Larder(larder, redis) => {
                larder.signal(if how == "restart" { Signal::TERM } else { Signal::KILL });
                let (status, _) = larder.wait();
                assert_eq!(status.success(), how == "restart", "{}", larder.stderr());
                larder.start_again(&["--threads", "2", "--source", &redis.url()]);
            }
        }
    }
}

fn run(program: &Program, mut server: Server) {
    let deps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps").canonicalize().unwrap_or_default();
    assert!(deps.join(program.installed).exists(), "{} is not installed. Type: make tools", program.command);
    let address = format!("127.0.0.1:{}", server.port());
    let mut words = program.command.split(' ');
    let name = words.next().unwrap();
    // In .deps, or in PATH.
    let path = if name.contains('/') { deps.join(name) } else { name.into() };
    let mut child = Command::new(path)
        .args(words)
        .args([&address, "m"])
        .current_dir(&deps)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut answer = child.stdin.take().unwrap();
    let mut report = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if matches!(line.as_str(), "restart" | "crash") {
            server.back_after(&line);
            // A program that has given up meanwhile says why in its report.
            let _ = answer.write_all(b"done\n");
        } else {
            report += &line;
            report.push('\n');
        }
    }
    let status = child.wait().unwrap();
    let errors = errors.join().unwrap();
    assert!(status.success(), "{report}{errors}");
    for check in CHECKS {
        let passed = report.lines().filter(|line| *line == format!("ok {check}")).count();
        assert_eq!(passed, 1, "{check}\n{report}");
    }
    // Shown with --nocapture: which versions these were.
    println!("{}", report.lines().last().unwrap());
}

macro_rules! matrix {
    ($($name:ident: $program:ident;)*) => {
        mod redis_itself {
            use super::*;
            $(#[test] fn $name() { run(&$program, Server::redis()); })*
        }
        mod through_larder {
            use super::*;
            $(#[test] fn $name() { run(&$program, Server::larder()); })*
        }
    };
}
matrix! {
    redis_py: REDIS_PY;
    redis_py_with_hiredis: REDIS_PY_HIREDIS;
    go_redis: GO_REDIS;
    rueidis: RUEIDIS;
    ioredis: IOREDIS;
    node_redis: NODE_REDIS;
    jedis: JEDIS;
    lettuce: LETTUCE;
    redis_rs: REDIS_RS;
    redis_cli: REDIS_CLI;
}

/// All of its own tests, which end it at the first error; in both protocols, with and without
/// pipelines.
fn benchmark(server: &Server) {
    let port = server.port().to_string();
    for options in [&["-c", "10"][..], &["-c", "10", "-P", "16", "-3"]] {
        let mut command = Command::new("redis-benchmark");
        let output = command.args(["-p", &port, "-n", "800", "--csv"]).args(options).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !errors.contains("rror"), "{options:?}\n{text}{errors}");
        let tests: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split([' ', '"']).nth(1)).collect();
        let expected = [
            "PING_INLINE",
            "PING_MBULK",
            "SET",
            "GET",
            "INCR",
            "LPUSH",
            "RPUSH",
            "LPOP",
            "RPOP",
            "SADD",
            "HSET",
            "SPOP",
            "ZADD",
            "ZPOPMIN",
            "LPUSH",
            "LRANGE_100",
            "LRANGE_300",
            "LRANGE_500",
            "LRANGE_600",
            "MSET",
        ];
        assert_eq!(tests, expected, "{options:?}\n{text}{errors}");
    }
}

#[test]
fn redis_benchmark_with_redis_itself() {
    benchmark(&Server::redis());
}
#[test]
fn redis_benchmark_through_larder() {
    let server = Server::larder();
    benchmark(&server);
    let Server::Larder(_, redis) = &server else { unreachable!() };
    // What it asked for has been done there.
    assert_eq!(redis.command(&["GET", "counter:__rand_int__"]), Reply::bulk("1600"));
}
