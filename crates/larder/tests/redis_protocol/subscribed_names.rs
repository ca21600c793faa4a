//! Names of channels with any bytes, which also look like parts of replies, in both protocols.
use super::{
    common::{RedisServer, Reply},
    larder::{Larder, encode, expect},
};
use crate::differential::commands::Random;
use std::io::Write;

const ROUNDS: usize = 120;

fn name(random: &mut Random) -> Vec<u8> {
    const PARTS: [&[u8]; 10] =
        [b"_", b"\r\n", b"_\r\n", b"$-1\r\n", b":1\r\n", b">3\r\n", b"*-1\r\n", b"news", b"\0", b"*"];
    (0..1 + random.below(5))
        .flat_map(|_| match random.below(3) {
            0 => vec![random.below(256) as u8],
            _ => PARTS[random.below(PARTS.len())].to_vec(),
        })
        .collect()
}

/// A push: its kind, then a name or null, then what follows.
fn push(resp3: bool, kind: &str, name: Option<&[u8]>, rest: &[u8]) -> Vec<u8> {
    let head = format!("{}3\r\n${}\r\n{kind}\r\n", if resp3 { '>' } else { '*' }, kind.len());
    let null: &[u8] = if resp3 { b"_\r\n" } else { b"$-1\r\n" };
    let name = name.map_or(null.to_vec(), bulk);
    [head.as_bytes(), &name, rest].concat()
}
fn bulk(text: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
}

/// Every form of both commands, alone, with subscriptions and without, and messages.
fn talk(port: u16, publish: &mut dyn FnMut(&[&[u8]]), random: &mut Random, resp3: bool) {
    let mut stream = super::larder::connect(port);
    if resp3 {
        stream.write_all(b"HELLO 3\r\nECHO ready\r\n").unwrap();
        super::larder::skip_until(&mut stream, b"$5\r\nready\r\n");
    }
    for round in 0..ROUNDS {
        let kind = ["", "p", "s"][random.below(3)];
        let (subscribe, unsubscribe) = (format!("{kind}subscribe"), format!("{kind}unsubscribe"));
        let (name, payload) = (name(random), name(random));
        let mut ask = |parts: &[&[u8]], expected: Vec<u8>| {
            println!("{round}: {:?}", parts.iter().map(|part| part.escape_ascii().to_string()).collect::<Vec<_>>());
            stream.write_all(&encode(parts)).unwrap();
            expect(&mut stream, &expected);
        };
        ask(&[unsubscribe.as_bytes()], push(resp3, &unsubscribe, None, b":0\r\n"));
        ask(&[unsubscribe.as_bytes(), &name], push(resp3, &unsubscribe, Some(&name), b":0\r\n"));
        ask(&[subscribe.as_bytes(), &name], push(resp3, &subscribe, Some(&name), b":1\r\n"));
        if kind != "p" {
            publish(&[if kind == "s" { b"SPUBLISH" } else { b"PUBLISH" }, &name, &payload]);
            let kind = if kind == "s" { "smessage" } else { "message" };
            expect(&mut stream, &push(resp3, kind, Some(&name), &bulk(&payload)));
        }
        stream.write_all(&encode(&[unsubscribe.as_bytes()])).unwrap();
        expect(&mut stream, &push(resp3, &unsubscribe, Some(&name), b":0\r\n"));
    }
}

#[test]
fn any_name_is_a_name_in_front_of_redis() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--threads", "1"]);
    let mut publisher = redis.client();
    let mut publish = |parts: &[&[u8]]| assert_eq!(publisher.command(parts), Reply::Int(1));
    for resp3 in [false, true] {
        // What is expected is what Redis itself says.
        for port in [redis.port(), larder.redis] {
            talk(port, &mut publish, &mut Random(11), resp3);
        }
    }
}

#[test]
fn any_name_is_a_name_without_a_source() {
    let larder = Larder::start(&["--threads", "1"]);
    let mut publisher = larder.client();
    let mut publish = |parts: &[&[u8]]| assert_eq!(publisher.command(parts), Reply::Int(1));
    for resp3 in [false, true] {
        talk(larder.redis, &mut publish, &mut Random(12), resp3);
    }
}
