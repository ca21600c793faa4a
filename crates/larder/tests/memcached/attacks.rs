//! Input that no client sends. After each attack the server still answers another client.
use super::{
    common::{RedisServer, Reply},
    wire::{Wire, start},
};
use crate::front_door::long_turns::MOST_CPU;

#[test]
fn other_protocols_close_the_connection() {
    let larder = start(&[]);
    for (said, answer) in [
        (&b"GET / HTTP/1.1\r\nhost: x\r\n\r\nset a 0 0 1\r\nv\r\n"[..], ""),
        (b"POST / HTTP/1.1\r\ncontent-length: 20\r\n\r\nset a 0 0 1\r\nv\r\n", ""),
        (
            b"\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00k",
            "CLIENT_ERROR the binary protocol is not supported: use the text protocol\r\n",
        ),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc\r\nset a 0 0 1\r\nv\r\n", ""),
    ] {
        let mut wire = Wire::larder(&larder);
        wire.send(said);
        assert_eq!(wire.rest(), answer, "{:?}", String::from_utf8_lossy(said));
    }
    assert_eq!(Wire::larder(&larder).ask("get a\r\n"), "END\r\n");
}

#[test]
fn lengths_and_lines_are_bounded() {
    let larder = start(&["--max-value=1MiB"]);
    let mut wire = Wire::larder(&larder);
    // A length alone reserves nothing, and a value that is too long is skipped as it arrives.
    wire.send("set a 0 0 2147483645\r\n");
    assert_eq!(wire.line(), "SERVER_ERROR object too large for cache");
    let mut wire = Wire::larder(&larder);
    wire.send(format!("set a 0 0 2000000\r\n{}\r\n", "v".repeat(2_000_000)));
    assert_eq!(wire.line(), "SERVER_ERROR object too large for cache");
    assert_eq!(wire.ask("get a\r\n"), "END\r\n");
    // A value that a `set` was to replace is not served any more. Other commands leave it.
    let long = "v".repeat(2_000_000);
    for (command, left) in [
        (format!("set b 0 0 2000000\r\n{long}\r\n"), ""),
        (format!("ms b 2000000\r\n{long}\r\n"), ""),
        (format!("ms Yg== 2000000 b\r\n{long}\r\n"), ""),
        (format!("append b 0 0 2000000\r\n{long}\r\n"), "VALUE b 0 1\r\no\r\n"),
    ] {
        wire.ask("set b 0 0 1\r\no\r\n");
        assert_eq!(wire.ask(&command), "SERVER_ERROR object too large for cache\r\n", "{}", &command[..30]);
        assert_eq!(wire.ask("get b\r\n"), format!("{left}END\r\n"), "{}", &command[..30]);
    }
    let mut wire = Wire::larder(&larder);
    wire.send("x".repeat(5000));
    assert_eq!(wire.rest(), "");
    // Half a request, and a client that leaves.
    Wire::larder(&larder).send("set a 0 0 100\r\nhalf");
    assert_eq!(Wire::larder(&larder).ask("get a\r\n"), "END\r\n");
}

#[test]
fn a_slow_typist_is_served() {
    let larder = start(&[]);
    let mut wire = Wire::larder(&larder);
    for byte in b"set a 0 0 3\r\nabc\r\nget a\r\n" {
        wire.send([*byte]);
    }
    assert_eq!(wire.ask(""), "STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\n");
}

#[test]
fn ten_thousand_keys_in_one_get() {
    let larder = start(&[]);
    let mut wire = Wire::larder(&larder);
    let sets: String = (0..10_000).map(|n| format!("set key:{n:05} 0 0 1 noreply\r\nv\r\n")).collect();
    assert_eq!(wire.ask(sets), "");
    let keys: String = (0..10_000).map(|n| format!(" key:{n:05}")).collect();
    let answer = wire.ask(format!("get{keys}\r\n"));
    assert_eq!(answer.lines().filter(|line| line.starts_with("VALUE ")).count(), 10_000);
    assert!(answer.ends_with("END\r\n"));
}

/// One line that asks for a value very often: no buffer may hold all of it.
#[test]
fn the_reply_of_a_line_has_room_or_is_an_error() {
    let redis = RedisServer::start();
    for args in [&[][..], &["--source", &redis.url()]] {
        let larder = start(&[&["--max-memory=32MiB", "--max-buffers=8MiB"], args].concat());
        let mut wire = Wire::larder(&larder);
        let value = "v".repeat(10_000);
        assert_eq!(wire.ask(format!("set v 0 0 10000\r\n{value}\r\n")), "STORED\r\n");
        // In front of a Redis, each read of it waits.
        match args {
            [] => assert_eq!(wire.ask(format!("set w 0 0 10000\r\n{value}\r\n")), "STORED\r\n"),
            _ => assert_eq!(redis.command(&["SET", "w", &value]), Reply::ok()),
        }
        let most = larder.peak() + (32 << 20);
        for (command, key, count) in [
            ("get", " w", 100_000),
            ("get", " v", 100_000),
            ("gets", " v", 100_000),
            ("gat 100", " v", 1_000),
            ("gats 100", " v", 1_000),
        ] {
            let answer = wire.ask(format!("{command}{}\r\n", key.repeat(count)));
            let last = answer.lines().last().unwrap();
            assert!(last.starts_with("SERVER_ERROR ") && last.ends_with("(max-buffers)"), "{command}: {last}");
            assert!(answer.len() < 8 << 20, "{command}: {} bytes", answer.len());
            assert!(wire.ask("get v\r\n").ends_with("END\r\n"), "it is served as before");
        }
        assert!(larder.peak() < most, "{} bytes", larder.peak());
    }
}

/// The keys of a line are read in one turn, so lines have a bound, and so has its CPU time.
#[test]
fn a_line_of_keys_has_a_bound() {
    let larder = start(&["--threads=1"]);
    let mut wire = Wire::larder(&larder);
    assert_eq!(wire.ask(format!("get{}\r\n", " k".repeat(500_000))), "END\r\n");
    let longest = larder.metric("larder_longest_turn_seconds");
    assert!(longest < MOST_CPU.as_secs_f64(), "{longest} s of CPU");
    let _ = wire.try_send(format!("get{}\r\n", " k".repeat(4_000_000)));
    assert_eq!(wire.rest(), "");
}

#[test]
fn a_flood_without_replies_keeps_nothing() {
    let larder = start(&["--max-memory=32MiB"]);
    let mut wire = Wire::larder(&larder);
    let value = "v".repeat(1000);
    for round in 0..100 {
        let flood: String = (0..1000).map(|n| format!("set {round}:{n} 0 0 1000 noreply\r\n{value}\r\n")).collect();
        wire.send(flood);
    }
    assert_eq!(wire.ask("get none\r\n"), "END\r\n");
    let stats = Wire::larder(&larder).ask("stats\r\n");
    let bytes = stats.lines().find_map(|line| line.strip_prefix("STAT bytes ")).unwrap();
    assert!(bytes.parse::<u64>().unwrap() <= 32 << 20, "{bytes}");
}
