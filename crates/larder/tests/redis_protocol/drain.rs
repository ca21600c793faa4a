//! SIGTERM and SIGINT: what was started is finished, what is idle is closed at once.
use super::{
    common::{RedisServer, Reply, wait_until},
    larder::{Larder, encode, expect, expect_end},
};
use rustix::process::Signal;
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

#[test]
fn under_load_every_request_that_was_read_is_answered_and_the_exit_is_clean() {
    let mut larder = Larder::start(&["--grace", "1m", "--threads", "2"]);
    let mut idle = larder.stream();
    let mut idle_http = super::larder::connect(larder.http);
    idle_http.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut head = [0; 12];
    idle_http.read_exact(&mut head).unwrap();

    let answered = Arc::new(AtomicU64::new(0));
    let broken = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = larder.client();
            let (answered, broken) = (answered.clone(), broken.clone());
            thread::spawn(move || {
                while let Ok(reply) = client.try_command(&["SET", "key", "value"]) {
                    broken.fetch_or(reply != Reply::ok(), Relaxed);
                    answered.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    wait_until("load", || answered.load(Relaxed) > 1000);
    larder.signal(Signal::TERM);
    let (status, took) = larder.wait();
    assert!(status.success(), "{status}");
    // Well within the grace time, though two connections were idle.
    assert!(took < Duration::from_secs(30), "{took:?}");
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(!broken.load(Relaxed), "a reply was cut short");
    expect_end(&mut idle);
    let mut rest = Vec::new();
    idle_http.read_to_end(&mut rest).unwrap();
    assert_eq!(larder.rest_of_stdout(), "", "the ready line is all that goes there");
}

/// A larder whose source has stopped answering, and a client that waits for `key` from there.
fn held_up(redis: &RedisServer, grace: &str) -> (Larder, TcpStream) {
    let larder = Larder::start(&["--source", &redis.url(), "--source-timeout", "1m", "--grace", grace]);
    // Connected before it stops answering.
    assert_eq!(larder.client().command(&["GET", "other"]), Reply::nil());
    redis.stop();
    let mut stream = larder.stream();
    stream.write_all(&encode(&[b"GET", b"key"])).unwrap();
    wait_until("the fetch to begin", || larder.metric("larder_source_in_flight{group=\"default\"}") > 0.0);
    (larder, stream)
}

#[test]
fn a_read_that_waits_for_the_source_is_answered_before_the_end() {
    let redis = RedisServer::start();
    redis.command(&["SET", "key", "value"]);
    let (mut larder, mut stream) = held_up(&redis, "1m");
    larder.signal(Signal::TERM);
    // No new connections from here on.
    wait_until("the listener to close", || TcpStream::connect(("127.0.0.1", larder.redis)).is_err());
    redis.cont();
    expect(&mut stream, b"$5\r\nvalue\r\n");
    expect_end(&mut stream);
    let (status, _) = larder.wait();
    assert!(status.success(), "{status}");
}

#[test]
fn what_does_not_end_is_cut_when_the_grace_time_is_over() {
    let redis = RedisServer::start();
    let (mut larder, mut stream) = held_up(&redis, "500ms");
    larder.signal(Signal::INT);
    let (status, took) = larder.wait();
    redis.cont();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    expect_end(&mut stream);
}

/// As timeout(1) sends them: to the process and to its group.
#[test]
fn two_signals_at_once_are_one() {
    let redis = RedisServer::start();
    let (mut larder, mut stream) = held_up(&redis, "1m");
    larder.signal(Signal::TERM);
    larder.signal(Signal::INT);
    wait_until("the listener to close", || TcpStream::connect(("127.0.0.1", larder.redis)).is_err());
    redis.cont();
    let mut reply = [0; 5];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"$-1\r\n");
    assert!(larder.wait().0.success());
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let redis = RedisServer::start();
    let (mut larder, _stream) = held_up(&redis, "1m");
    larder.signal(Signal::TERM);
    let asked = Instant::now();
    wait_until("the listener to close", || TcpStream::connect(("127.0.0.1", larder.redis)).is_err());
    // Within 200 ms it would be the same wish.
    wait_until("a person's second thought", || asked.elapsed() > Duration::from_millis(250));
    larder.signal(Signal::TERM);
    let (status, took) = larder.wait();
    redis.cont();
    assert_eq!(status.code(), Some(128 + 15));
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// Its default action ends a process without a drain.
#[test]
fn a_hangup_ends_nothing() {
    let mut larder = Larder::start(&[]);
    let mut client = larder.client();
    larder.signal(Signal::HUP);
    larder.signal(Signal::HUP);
    assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
    assert_eq!(larder.client().command(&["SET", "key", "value"]), Reply::ok());
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    assert!(larder.stderr().contains("the configuration was read again"));
}

/// A head of which the rest does not come, and an HTTP/2 client that does not confirm the end.
#[test]
fn http_clients_that_say_no_more_hold_up_no_drain() {
    let mut larder = Larder::start(&["--grace", "1m"]);
    let mut half_a_head = super::larder::connect(larder.http);
    half_a_head.write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let mut http2 = super::larder::connect(larder.http);
    let empty_settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    http2.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &empty_settings[..]].concat()).unwrap();
    let mut settings = [0; 9];
    http2.read_exact(&mut settings).unwrap();
    let read = || larder.metric("larder_received_bytes_total{protocol=\"http\"}");
    wait_until("half a head to be read", || read() >= (23 + 24 + 9) as f64);
    larder.signal(Signal::TERM);
    let (status, took) = larder.wait();
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(30), "{took:?}");
    expect_end(&mut half_a_head);
}
