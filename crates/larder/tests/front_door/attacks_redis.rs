//! Attacks over the Redis protocol: huge lengths, unread pipelines, slow commands,
//! crowds.
use super::{
    common::{Reply, wait_until},
    established::{ARGS, Established},
    larder::{Larder, connect, encode, expect},
    sockets::{exchange, from},
};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

fn larder(more: &[&str]) -> Larder {
    Larder::start(&[&ARGS[..], more].concat())
}

#[test]
fn huge_lengths_cost_nothing_and_end_the_connection() {
    let larder = larder(&[]);
    let mut established = Established::of(&larder);
    let before = larder.resident();
    for (command, says) in [
        ("*2147483648\r\n", "-ERR Protocol error: invalid multibulk length"),
        ("*99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length"),
        ("*2\r\n$3\r\nGET\r\n$2147483648\r\n", "-ERR Protocol error: invalid bulk length"),
        ("*2\r\n$3\r\nGET\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length"),
        ("*1\r\n*1\r\n$4\r\nPING\r\n", "-ERR Protocol error: expected '$', got '*'"),
        ("*1\r\n%1\r\n", "-ERR Protocol error: expected '$', got '%'"),
    ] {
        assert!(exchange(connect(larder.redis), command.as_bytes()).starts_with(says), "{command:?}");
    }
    for command in [["*", &"1".repeat(70_000)].concat(), "x".repeat(70_000), ["*1\r\n$", &"1".repeat(70_000)].concat()]
    {
        let answer = exchange(connect(larder.redis), command.as_bytes());
        assert!(answer.starts_with("-ERR Protocol error: too big "), "{answer}");
    }
    // What is only announced is not set aside: a thousand commands of half a gigabyte, or of two billion
    // arguments.
    let announced: Vec<TcpStream> = (0..1000)
        .map(|number| {
            let mut stream = connect(larder.redis);
            let commands =
                [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870000\r\nv"[..], b"*2147483647\r\n$3\r\nDEL\r\n$1\r\nk\r\n"];
            stream.write_all(commands[number % 2]).unwrap();
            stream
        })
        .collect();
    established.is_served();
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    drop(announced);
    established.is_served();
}

#[test]
fn pipelines_that_nobody_reads_are_not_read_either() {
    let larder = larder(&[]);
    larder.client().command(&["SET", "big", &"v".repeat(100_000)]);
    let mut established = Established::of(&larder);
    let mut pipelines: Vec<TcpStream> = (0..40).map(|_| connect(larder.redis)).collect();
    pipelines.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    let commands = [encode(&[b"GET", b"big"]), encode(&[b"MGET", b"big", b"big"]), encode(&[b"ECHO", &[b'e'; 1000]])]
        .concat()
        .repeat(50);
    let (mut idle, mut sent) = (0, 0);
    // Until nothing more is taken.
    while idle < 20 {
        let mut taken = 0;
        for stream in &mut pipelines {
            match stream.write(&commands) {
                Ok(bytes) => taken += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_cut) => {}
            }
        }
        sent += taken;
        idle = if taken == 0 { idle + 1 } else { 0 };
        established.is_served();
        assert!(sent < 1 << 30, "{sent} bytes were taken and no reply was read");
    }
}

#[test]
fn ten_thousand_idle_connections() {
    // Of this process as of Larder.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let most = limit.current.unwrap_or(u64::MAX).min(limit.maximum.unwrap_or(u64::MAX));
    let count = if most > 10_500 { 10_000 } else { usize::try_from(most.saturating_sub(200)).unwrap() };
    let larder = larder(&["--max-connections=10050"]);
    let mut established = Established::of(&larder);
    let before = larder.resident();
    let crowd: Vec<TcpStream> = (0..count)
        .map(|at| {
            let port = if at % 2 == 0 { larder.redis } else { larder.http };
            let mut stream = from(1 + (at % 8) as u8, port);
            // Half of them have begun to say something.
            if at % 4 < 2 {
                stream.write_all(b"GET /").unwrap();
            }
            if at % 1000 == 0 {
                established.is_served();
            }
            stream
        })
        .collect();
    wait_until("all to be connected", || {
        larder.metric("larder_connections{protocol=\"redis\"}") + larder.metric("larder_connections{protocol=\"http\"}")
            >= count as f64
    });
    for _ in 0..20 {
        established.is_served();
    }
    let each = larder.resident().saturating_sub(before) / count;
    assert!(each < 16 << 10, "{each} bytes for each connection");
    drop(crowd);
    wait_until("all to be gone", || larder.metric("larder_connections{protocol=\"redis\"}") < 10.0);
    established.is_served();
}

#[test]
fn who_shakes_the_door_is_sent_away_and_others_come_in() {
    let larder = larder(&["--max-connections=60"]);
    let mut established = Established::of(&larder);
    for _ in 0..20 {
        // More than there is room for, all at once, and gone again.
        let crowd: Vec<TcpStream> = (0..100).map(|_| from(2, larder.redis)).collect();
        drop(crowd);
    }
    wait_until("room", || {
        larder.client().try_command(&["PING"]).is_ok_and(|reply| reply == Reply::Simple("PONG".into()))
    });
    established.is_served();
    assert!(larder.metric("larder_connections_refused_total") > 0.0);
}

#[test]
fn commands_that_come_byte_by_byte_hold_up_nobody() {
    let larder = larder(&["--idle-timeout=60s"]);
    let mut established = Established::of(&larder);
    let command = encode(&[b"SET", b"slow", b"value"]);
    let mut slow: Vec<TcpStream> = (0..500).map(|_| connect(larder.redis)).collect();
    for byte in &command {
        for stream in &mut slow {
            stream.write_all(&[*byte]).unwrap();
        }
        established.is_served();
    }
    for stream in &mut slow {
        expect(stream, b"+OK\r\n");
    }
}

#[test]
fn a_client_that_subscribes_to_everything_and_reads_nothing_is_cut_off() {
    let larder = larder(&["--max-backlog=4MiB"]);
    let mut established = Established::of(&larder);
    let mut deaf: Vec<TcpStream> = (0..20).map(|_| connect(larder.redis)).collect();
    for stream in &mut deaf {
        stream.write_all(&encode(&[b"PSUBSCRIBE", b"*"])).unwrap();
        expect(stream, b"*3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n");
    }
    let mut client = larder.client();
    let message = "m".repeat(100_000);
    wait_until("the deaf to be cut off", || {
        let reached = client.command(&["PUBLISH", "news", &message]).int();
        established.is_served();
        reached == 0
    });
    for mut stream in deaf {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
}
