//! Released clients with their default settings, in the middle of their work, are told to move by a
//! Larder that drains (`MOVING`), and move without an error that their program would see.
//!
//! A program counts, prints `counting` after the first time, and ends at a line on standard input
//! with what it has counted.
use crate::{
    common::{RedisServer, Reply, relay, wait_until},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

const REDIS_PY: &str = "python/bin/python ../tests/clients/python/moving.py";
const REDIS_PY_HIREDIS: &str = "python-hiredis/bin/python ../tests/clients/python/moving.py";
const GO_REDIS: &str = "go-matrix/go-redis-moving";
const NODE_REDIS: &str = "node node/moving.js";
const LETTUCE: &str = "java -cp java/lettuce:java/lettuce/* LettuceMoving";

/// A program that counts.
struct Counting {
    child: Child,
    says: BufReader<ChildStdout>,
}
impl Counting {
    fn start(command: &str, address: &str, how: &str) -> Counting {
        let deps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps").canonicalize().unwrap();
        let mut words = command.split(' ');
        let name = words.next().unwrap();
        // In .deps, or in PATH.
        let path = if name.contains('/') { deps.join(name) } else { name.into() };
        let mut child = Command::new(path)
            .args(words)
            .args([address, how])
            .current_dir(&deps)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command}: {error}. Type: make tools"));
        let mut counting = Counting { says: BufReader::new(child.stdout.take().unwrap()), child };
        assert_eq!(counting.line(), "counting");
        counting
    }
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
    /// How often it has counted, and that it saw no error.
    fn end(mut self) -> String {
        // It may have ended by itself.
        let _ = self.child.stdin.take().unwrap().write_all(b"stop\n");
        let says = self.line();
        assert!(self.child.wait().unwrap().success(), "{says}");
        assert!(says.contains(" counted, 0 errors"), "{says}");
        // Shown with --nocapture.
        println!("{says}");
        says.rsplit_once(" counted").unwrap().0.rsplit_once(' ').unwrap().1.to_owned()
    }
}
impl Drop for Counting {
    fn drop(&mut self) {
        // Already ended is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}
fn counts_on(redis: &RedisServer) {
    let count = || redis.command(&["GET", "count"]);
    let before = count();
    wait_until("the program to count on", || count() != before);
}

/// To another Larder, whose address it is told.
fn elsewhere(command: &str) {
    let redis = RedisServer::start();
    let args = ["--threads", "1", "--source", &redis.url()];
    let next = Larder::start(&args);
    let endpoint = format!("127.0.0.1:{}", next.redis);
    // The same port on another address: redis-py leaves the port as it is.
    let address = format!("127.0.0.2:{}", next.redis);
    let more = ["--grace", "20s", "--redis", &address, "--moving-endpoint", &endpoint];
    let mut larder = Larder::start(&[&args[..], &more].concat());
    let counting = Counting::start(command, &address, "default");
    larder.signal(Signal::TERM);
    let (status, took) = larder.wait();
    assert!(status.success());
    println!("{command} has moved after {took:?}");
    assert!(took < Duration::from_secs(15), "it has not moved, it was closed: {took:?}");
    counts_on(&redis);
    let counted = counting.end();
    assert_eq!(redis.command(&["GET", "count"]), Reply::bulk(counted));
}

/// Takes over a port as soon as no server listens there, and passes its connections on to another Larder.
/// A client may try its address at any time: go-redis does so once after 2 s, and again only after 15.
struct TakenOver(TcpListener);
impl TakenOver {
    fn by(next: &Larder, port: u16) -> TakenOver {
        let mut listener = None;
        wait_until("the listener to close", || {
            listener = TcpListener::bind(("127.0.0.1", port)).ok();
            listener.is_some()
        });
        let listener = listener.unwrap();
        let (door, next) = (listener.try_clone().unwrap(), next.redis);
        std::thread::spawn(move || {
            for client in door.incoming().map_while(Result::ok) {
                relay(&client, &TcpStream::connect(("127.0.0.1", next)).unwrap());
            }
        });
        TakenOver(listener)
    }
}
impl Drop for TakenOver {
    fn drop(&mut self) {
        // Ends the thread that accepts.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}

/// To the address that it has, where another Larder answers by then.
fn back(command: &str) {
    let redis = RedisServer::start();
    let args = ["--threads", "1", "--source", &redis.url(), "--grace", "6s"];
    let (mut larder, next) = (Larder::start(&args), Larder::start(&args));
    let counting = Counting::start(command, &format!("127.0.0.1:{}", larder.redis), "none");
    larder.signal(Signal::TERM);
    let taken_over = TakenOver::by(&next, larder.redis);
    let (status, took) = larder.wait();
    assert!(status.success());
    println!("{command} has moved after {took:?}");
    assert!(took < Duration::from_millis(4900), "it has not moved, it was closed: {took:?}");
    counts_on(&redis);
    let counted = counting.end();
    assert_eq!(redis.command(&["GET", "count"]), Reply::bulk(counted));
    drop((taken_over, next));
}

macro_rules! moving {
    ($($name:ident: $program:ident;)*) => {
        mod elsewhere {
            $(#[test] fn $name() { super::elsewhere(super::$program); })*
        }
        mod back {
            $(#[test] fn $name() { super::back(super::$program); })*
        }
    };
}
moving! {
    redis_py: REDIS_PY;
    redis_py_with_hiredis: REDIS_PY_HIREDIS;
    go_redis: GO_REDIS;
    node_redis: NODE_REDIS;
    lettuce: LETTUCE;
}
