//! The matrix: released clients with their default settings through one script (`tests/clients`), against a redis-server and against
//! Larder in front of one. The run against the redis-server shows that the script asks for Redis's own behaviour.
//!
//! A program prints `restart` or `crash` when it wants its server gone and back on the same port, and goes on at the answer.
use crate::{
    common::{PATIENCE, RedisServer},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
};

/// A program that goes through the script, relative to `.deps`; its arguments there.
#[derive(Clone, Copy)]
struct Program(&'static str, &'static [&'static str]);

/// What a program talks to.
enum Server {
    Redis(RedisServer),
    Larder(Larder, RedisServer),
}
impl Server {
    fn port(&self) -> u16 {
        match self {
            Server::Redis(redis) => redis.port(),
            Server::Larder(larder, _) => larder.redis,
        }
    }
    /// Away in good order, and back on the same port.
    fn restart(&mut self) {
        match self {
            Server::Redis(redis) => {
                // A client's last answer, and then nothing: it may not have one.
                let _ = redis.client().try_command(&["SHUTDOWN", "NOSAVE"]);
                redis.restart();
            }
            Server::Larder(larder, redis) => {
                larder.signal(Signal::TERM);
                assert!(larder.wait().0.success(), "{}", larder.stderr());
                larder.restart(&arguments(redis));
            }
        }
    }
    /// Away in the middle of everything, and back on the same port.
    fn crash(&mut self) {
        match self {
            Server::Redis(redis) => redis.restart(),
            Server::Larder(larder, redis) => {
                larder.signal(Signal::KILL);
                larder.wait();
                larder.restart(&arguments(redis));
            }
        }
    }
}

fn arguments(redis: &RedisServer) -> [String; 4] {
    ["--threads", "2", "--source", &redis.url()].map(str::to_owned)
}

fn larder() -> Server {
    let redis = RedisServer::start();
    let arguments = arguments(&redis);
    Server::Larder(Larder::start(&arguments.each_ref().map(String::as_str)), redis)
}

fn redis() -> Server {
    Server::Redis(RedisServer::start())
}

/// All checks of the script, each named once in the program's report.
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

fn run(Program(program, args): Program, mut server: Server) {
    let deps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps");
    assert!(deps.join(program).exists(), "{program} is not installed. Type: make tools");
    let address = format!("127.0.0.1:{}", server.port());
    let mut child = Command::new(deps.join(program))
        .args(args)
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
        match line.as_str() {
            "restart" => server.restart(),
            "crash" => server.crash(),
            _ => {
                report += &line;
                report.push('\n');
                continue;
            }
        }
        // A program that has given up meanwhile says why in its report.
        let _ = answer.write_all(b"done\n");
    }
    let status = child.wait().unwrap();
    let errors = errors.join().unwrap();
    assert!(status.success(), "{report}{errors}");
    for check in CHECKS {
        assert!(report.lines().any(|line| line == format!("ok {check}")), "{check} was not run\n{report}");
    }
    // Shown with --nocapture: which versions these were.
    println!("{}", report.lines().last().unwrap());
}
