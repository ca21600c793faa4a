//! Runs the programs of `tests/clients`.
//!
//! A program prints `restart` or `crash` when it wants its server gone and back on the same port,
//! and goes on at the answer. Its last line names the library and counts the checks.
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

/// What a program said.
pub(super) struct Report {
    text: String,
    /// What follows the library's name.
    pub(super) version: String,
}
impl Report {
    /// These checks have passed, each once. Their number.
    pub(super) fn demands(&self, checks: &[&str]) -> usize {
        for check in checks {
            let passed = self.text.lines().filter(|line| *line == format!("ok {check}")).count();
            assert_eq!(passed, 1, "{check}\n{}", self.text);
        }
        self.demands_number(checks.len())
    }
    /// So many checks have passed, and none has failed.
    pub(super) fn demands_number(&self, checks: usize) -> usize {
        assert!(self.text.trim_end().ends_with(&format!(": {checks} passed, 0 failed")), "{}", self.text);
        checks
    }
}

/// A cell for a number of passed checks.
pub(super) fn passed(checks: usize) -> String {
    if checks == 0 { "–".to_owned() } else { format!("{checks} of {checks}") }
}

/// A current Valkey, which `make tools` installs.
pub(super) fn valkey() -> RedisServer {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/bin/valkey-server");
    assert!(program.exists(), "valkey-server is not installed. Type: make tools");
    RedisServer::of(program.into(), tempfile::tempdir().unwrap(), &[])
}

/// A server's version in `INFO`: `redis_version`, `valkey_version`.
pub(super) fn version(server: &RedisServer, field: &str) -> String {
    let Reply::Bulk(Some(info)) = server.command(&["INFO", "server"]) else { panic!("INFO has no text") };
    let info = String::from_utf8(info).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field}")).to_owned()
}

/// A server that can go and come back.
pub(super) enum Server {
    Redis(RedisServer),
    Larder(Larder, RedisServer),
}
impl Server {
    /// A Larder in front of a server.
    pub(super) fn larder(redis: RedisServer) -> Server {
        Server::Larder(Larder::start(&["--threads", "2", "--source", &redis.url()]), redis)
    }
    /// Runs a program that may ask for a restart.
    pub(super) fn run(mut self, command: &str) -> Report {
        let port = match &self {
            Server::Redis(redis) => redis.port(),
            Server::Larder(larder, _) => larder.redis,
        };
        run_with(command, port, &["m"], |how| self.back_after(how))
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

/// Runs a command line in `.deps` against a port; `args`: the prefix of keys, and more.
pub(super) fn run(command: &str, port: u16, args: &[&str]) -> Report {
    run_with(command, port, args, |how| panic!("{command} asks for a {how}"))
}

fn run_with(command: &str, port: u16, args: &[&str], mut back_after: impl FnMut(&str)) -> Report {
    let deps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps").canonicalize().unwrap_or_default();
    let mut words = command.split(' ');
    let name = words.next().unwrap();
    // In .deps, or in PATH.
    let path = if name.contains('/') { deps.join(name) } else { name.into() };
    let mut child = Command::new(path)
        .args(words)
        .arg(format!("127.0.0.1:{port}"))
        .args(args)
        .current_dir(&deps)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command}: {error}. Type: make tools"));
    let mut stderr = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut answer = child.stdin.take().unwrap();
    let mut text = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if matches!(line.as_str(), "restart" | "crash") {
            back_after(&line);
            // A program that has given up meanwhile says why in its report.
            let _ = answer.write_all(b"done\n");
        } else {
            text += &line;
            text.push('\n');
        }
    }
    let status = child.wait().unwrap();
    let errors = errors.join().unwrap();
    assert!(status.success(), "{command}\n{text}{errors}");
    let last = text.lines().last().unwrap_or_default();
    // Shown with --nocapture: which versions these were.
    println!("{last}");
    let library = last.split(": ").next().unwrap_or_default();
    let version = library.split_once(' ').map(|(_, version)| version.to_owned()).unwrap_or_default();
    Report { text, version }
}
