//! Replies that a client breaks: Redis decodes escapes in what it is sent, and puts the text into an
//! error line. Other clients of the same connections get right replies.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    innocent::Innocent,
    larder::{Larder, encode},
};
use crate::{cluster::fixture::Cluster, differential::commands::Random};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// Redis 7 answers with this line, and with the rest of the text behind it.
const LINE: &str = "-ERR Unexpected flag in script shebang: x\r\n";
const FORGERIES: [&str; 8] = [
    r"\r\n$6\r\nFORGED",
    r"\r\n+QUEUED\r\n:1",
    r"\r\n$100\r\nFORGED",
    r"\r\n$99999999\r\nFORGED",
    r"\r\n*1000000\r\n",
    r"\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n+innocent:1\r\n",
    r"\r\n-BUSY Redis is busy\r\n",
    r"\n\r\r\n\x00",
];

fn script(forgery: &str) -> Vec<u8> {
    format!("#!lua flags=\"x{forgery}\"\nreturn 1").into_bytes()
}

/// What one stranger sends to one connection.
fn request(random: &mut Random) -> Vec<u8> {
    let forgery = FORGERIES[random.below(FORGERIES.len())];
    let decoded = forgery.replace(r"\r", "\r").replace(r"\n", "\n");
    let eval = || encode(&[b"EVAL", &script(forgery), b"0"]);
    match random.below(10) {
        0..4 => eval(),
        4 => [encode(&[b"MULTI"]), eval(), encode(&[b"GET", b"f:a"]), encode(&[b"EXEC"])].concat(),
        5 => [eval(), eval(), encode(&[b"EVAL", b"return 1", b"0"])].concat(),
        6 => encode(&[b"FUNCTION", b"LIST", format!("x{decoded}").as_bytes()]),
        7 => encode(&[b"EVAL", format!("error('a{forgery}')").as_bytes(), b"0"]),
        8 => encode(&[b"WATCH", b"f:a"]).into_iter().chain(eval()).chain(encode(&[b"UNWATCH"])).collect(),
        _ => {
            let names: [&[u8]; 4] = [b"NOSUCH", b"CONFIG", b"SCRIPT", b"XGROUP"];
            encode(&[names[random.below(4)], format!("x{decoded}").as_bytes(), decoded.as_bytes()])
        }
    }
}

/// Reads to the end, or until nothing comes for a moment that the last command's reply ends.
fn visit(larder: &Larder, login: &[&[u8]], random: &mut Random) {
    let mut stream = larder.stream();
    let mut all = if login.is_empty() { Vec::new() } else { encode(login) };
    if random.chance(50) {
        all.extend(encode(&[b"HELLO", b"3"]));
    }
    (0..1 + random.below(3)).for_each(|_| all.extend(request(random)));
    all.extend(encode(&[b"QUIT"]));
    // It may be hung up on.
    let _ = stream.write_all(&all);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Strangers beside innocent clients, all on one worker.
fn strangers(larder: &Larder, login: &[&[u8]], innocents: Vec<Innocent>) {
    const VISITS: u64 = 150;
    std::thread::scope(|scope| {
        for stranger in 1..=2 {
            let innocents = &innocents;
            scope.spawn(move || {
                let mut random = Random(u64::wrapping_mul(stranger, 0x9E37_79B9_7F4A_7C15) | 1);
                for _ in 0..VISITS {
                    if innocents.iter().any(Innocent::has_failed) {
                        return;
                    }
                    visit(larder, login, &mut random);
                }
            });
        }
    });
    innocents.into_iter().for_each(|innocent| assert!(innocent.end() > 3));
    assert_eq!(larder.metric("larder_source_reconnects_total{group=\"default\"}"), 0.0);
    assert_eq!(larder.metric("larder_panics_total"), 0.0);
}

fn larder(source: &str, more: &[&str]) -> Larder {
    let larder = Larder::start(&[&["--source", source, "--threads", "1"], more].concat());
    wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    larder
}

#[test]
fn a_broken_reply_reaches_its_client_alone() {
    let redis = RedisServer::start();
    let larder = larder(&redis.url(), &[]);
    let innocents = ["one", "two", "three"].map(|name| Innocent::named(larder.redis, name));
    strangers(&larder, &[], innocents.into());
}

#[test]
fn a_broken_reply_of_a_user_reaches_its_client_alone() {
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all"]);
    let larder = larder(&redis.url(), &["--auth", "passthrough"]);
    let innocents = ["one", "two"].map(|name| Innocent::named(larder.redis, name));
    strangers(&larder, &[b"AUTH", b"guest", b"pw"], innocents.into());
}

#[test]
fn a_broken_reply_of_a_cluster_reaches_its_client_alone() {
    let cluster = Cluster::of_masters();
    let larder = larder(&cluster.url(), &[]);
    // One slot each: their transactions go to one node.
    let innocents = ["{a}", "{b}", "{c}"].map(|name| Innocent::named(larder.redis, name));
    strangers(&larder, &[], innocents.into());
}

fn rest(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    String::from_utf8(rest).unwrap()
}

#[test]
fn the_client_gets_the_first_line_and_is_hung_up_on() {
    let redis = RedisServer::start();
    let larder = larder(&redis.url(), &[]);
    let eval = encode(&[b"EVAL", &script(FORGERIES[0]), b"0"]);
    let mut alone = larder.stream();
    alone.write_all(&eval).unwrap();
    assert_eq!(rest(alone), LINE);
    let mut before = larder.stream();
    before.write_all(&[encode(&[b"INCR", b"n"]), eval.clone()].concat()).unwrap();
    assert_eq!(rest(before), format!(":1\r\n{LINE}"));
    let mut inside = larder.stream();
    inside.write_all(&[encode(&[b"MULTI"]), eval.clone(), encode(&[b"EXEC"])].concat()).unwrap();
    assert_eq!(rest(inside), format!("+OK\r\n+QUEUED\r\n{LINE}"));
    // On a connection of its own, too.
    let mut watching = larder.stream();
    watching.write_all(&[encode(&[b"WATCH", b"n"]), eval].concat()).unwrap();
    assert_eq!(rest(watching), format!("+OK\r\n{LINE}"));
    // What only looks like it is a reply like others.
    let mut client = larder.client();
    for _ in 0..3 {
        assert_eq!(client.command(&["EVAL", "return {err='x\\r\\n+y'}", "0"]).error(), "x  +y");
        assert_eq!(client.command(&["EVAL", "return '$6\\r\\nFORGED\\r\\n'", "0"]), Reply::bulk("$6\r\nFORGED\r\n"));
        assert_eq!(client.command(&["NOSUCH\r\n+x"]).error().lines().count(), 1);
    }
}

/// Without `ECHO` no marker comes back. Each such command then has a connection of its own.
#[test]
fn a_user_that_may_not_echo_has_scripts_and_harms_nobody() {
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all", "-echo"]);
    let larder = larder(&redis.url(), &[]);
    let guest = || {
        let mut client = larder.client();
        assert_eq!(client.command(&["AUTH", "guest", "pw"]), Reply::ok());
        client
    };
    let mut client = guest();
    let mut breaks = guest();
    breaks.send(&[b"EVAL", &script(FORGERIES[0])[..], b"0"]).unwrap();
    for round in 1..20 {
        assert_eq!(client.command(&["EVAL", "return redis.call('INCR', 'n')", "0"]), Reply::Int(round));
        assert_eq!(client.command(&["HSET", "h", &round.to_string(), "v"]), Reply::Int(1));
        client.command(&["WATCH", "h"]);
        assert_eq!(client.command(&["EVAL", "return 7", "0"]), Reply::Int(7));
        client.command(&["UNWATCH"]);
        assert_eq!(client.command(&["HLEN", "h"]), Reply::Int(round));
    }
}

/// The rights may change, and a script may keep the server busy: then an error comes instead of the
/// marker.
#[test]
fn a_marker_that_is_refused_later_costs_nobody_a_right_reply() {
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "guest", "on", ">pw", "~*", "&*", "+@all"]);
    let larder = larder(&redis.url(), &[]);
    let mut client: Client = larder.client();
    assert_eq!(client.command(&["AUTH", "guest", "pw"]), Reply::ok());
    assert_eq!(client.command(&["EVAL", "return 1", "0"]), Reply::Int(1));
    redis.command(&["ACL", "SETUSER", "guest", "-echo"]);
    for round in 2..6 {
        assert_eq!(client.command(&["EVAL", &format!("return {round}"), "0"]), Reply::Int(round));
    }
}

/// A script returns whatever error it likes. It must not lead Larder to another server.
#[test]
fn a_redirect_of_a_script_leads_to_no_stranger() {
    let cluster = Cluster::of_masters();
    let larder = larder(&cluster.url(), &[]);
    let stranger = RedisServer::start();
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "k", "right"]), Reply::ok());
    let slot = cluster.slot("k");
    for kind in ["MOVED", "ASK"] {
        let error = format!("{kind} {slot} 127.0.0.1:{}", stranger.port());
        let script = format!("return redis.error_reply('{error}')");
        assert_eq!(client.command(&["EVAL", &script, "1", "k"]).error(), error);
        assert_eq!(client.command(&["GETRANGE", "k", "0", "-1"]), Reply::bulk("right"));
        assert_eq!(client.command(&["APPEND", "k", ""]), Reply::Int(5));
    }
    assert_eq!(stranger.calls("eval") + stranger.calls("append") + stranger.calls("asking"), 0);
}
