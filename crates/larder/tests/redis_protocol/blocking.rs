//! Commands that wait for something to happen at the source: as long as it takes, on connections of
//! their own.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{Larder, encode, expect, expect_end},
};
use rustix::process::Signal;
use std::{io::Write, net::Shutdown, time::Duration};

fn before(redis: &RedisServer) -> Larder {
    before_with(redis, &[])
}
fn before_with(redis: &RedisServer, args: &[&str]) -> Larder {
    let url = redis.url();
    let usual = ["--source", &url, "--source-timeout", "1s", "--grace", "1m", "--threads", "1"];
    Larder::start(&[&usual, args].concat())
}
/// Clients that Redis has blocked.
pub fn blocked(redis: &RedisServer) -> usize {
    let Reply::Bulk(Some(info)) = redis.command(&["INFO", "clients"]) else { panic!("INFO has no text") };
    let info = String::from_utf8(info).unwrap();
    info.lines().find_map(|line| line.strip_prefix("blocked_clients:")).unwrap().trim().parse().unwrap()
}
fn wait_blocked(redis: &RedisServer, clients: usize) {
    wait_until(&format!("{clients} blocked clients"), || blocked(redis) == clients);
}
fn popped(value: &str) -> Reply {
    Reply::Array(Some(vec![Reply::bulk("queue"), Reply::bulk(value)]))
}

#[test]
fn a_blocking_pop_waits_longer_than_the_deadline_and_holds_nobody_up() {
    let redis = RedisServer::start();
    let larder = before(&redis);
    let (mut waits, mut other) = (larder.client(), larder.client());
    waits.send(&["BLPOP", "queue", "0"]).unwrap();
    wait_blocked(&redis, 1);
    // Longer than `source-timeout`, while others are served.
    let start = std::time::Instant::now();
    while start.elapsed() < Duration::from_millis(1500) {
        assert_eq!(other.command(&["INCR", "n"]), other_counts(&redis));
    }
    assert_eq!(other.command(&["RPUSH", "queue", "a", "b"]), Reply::Int(2));
    assert_eq!(waits.read().unwrap(), popped("a"));
    assert_eq!(waits.command(&["BLPOP", "queue", "0"]), popped("b"));
    assert_eq!(waits.command(&["BLPOP", "queue", "0.01"]), Reply::Array(None), "the client's own limit");
    let nothing = waits.command(&["XREAD", "BLOCK", "10", "STREAMS", "stream", "$"]);
    assert_eq!(nothing, Reply::Array(None));
    wait_blocked(&redis, 0);
}
fn other_counts(redis: &RedisServer) -> Reply {
    let Reply::Bulk(Some(text)) = redis.command(&["GET", "n"]) else { panic!("n is there") };
    Reply::Int(String::from_utf8(text).unwrap().parse().unwrap())
}

#[test]
fn what_waits_ends_with_its_client_and_with_the_process() {
    let redis = RedisServer::start();
    let mut larder = before(&redis);
    let wait = || -> Client {
        let mut client = larder.client();
        client.send(&["BRPOP", "queue", "0"]).unwrap();
        client
    };
    let leaves = wait();
    wait_blocked(&redis, 1);
    drop(leaves);
    wait_blocked(&redis, 0);
    let mut killed = wait();
    wait_blocked(&redis, 1);
    let mut other = larder.client();
    let Reply::Bulk(Some(list)) = other.command(&["CLIENT", "LIST"]) else { panic!("CLIENT LIST has no text") };
    assert!(!list.is_empty());
    assert_eq!(other.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]), Reply::Int(1));
    assert!(killed.read().is_err());
    wait_blocked(&redis, 0);
    // Nothing was taken by those who left.
    assert_eq!(other.command(&["LPUSH", "queue", "kept"]), Reply::Int(1));
    assert_eq!(other.command(&["LLEN", "queue"]), Reply::Int(1));
    assert_eq!(other.command(&["DEL", "queue"]), Reply::Int(1));
    let mut drained = wait();
    wait_blocked(&redis, 1);
    larder.signal(Signal::TERM);
    assert!(drained.read().is_err());
    let (status, took) = larder.wait();
    assert!(status.success() && took < Duration::from_secs(30), "{status} after {took:?}");
}

#[test]
fn what_waits_ends_with_its_client_though_more_commands_came_behind_it() {
    let redis = RedisServer::start();
    let larder = before(&redis);
    // On a connection that was lent for the wait, and on the client's own.
    for database in ["0", "3"] {
        let (mut leaves, mut other) = (larder.stream(), larder.client());
        other.command(&["SELECT", database]);
        leaves.write_all(&encode(&[b"SELECT", database.as_bytes()])).unwrap();
        expect(&mut leaves, b"+OK\r\n");
        leaves.write_all(&encode(&[b"BLPOP", b"queue", b"0"])).unwrap();
        wait_blocked(&redis, 1);
        leaves.write_all(&encode(&[b"SET", b"k", b"v"])).unwrap();
        leaves.shutdown(Shutdown::Write).unwrap();
        expect_end(&mut leaves);
        // A client that saw the end may push: nothing is taken by the one who left.
        assert_eq!(other.command(&["LPUSH", "queue", "kept"]), Reply::Int(1));
        assert_eq!(other.command(&["LLEN", "queue"]), Reply::Int(1));
        assert_eq!(other.command(&["DEL", "queue"]), Reply::Int(1));
        assert_eq!(other.command(&["EXISTS", "k"]), Reply::Int(0), "nor is what came behind carried out");
    }
}

#[test]
fn who_waits_is_seen_and_unblocked_by_larders_numbers() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--threads", "2"]);
    let (mut other, mut waits) = (larder.client(), larder.client());
    let mut id = || waits.command(&["CLIENT", "ID"]).int().to_string();
    let id = id();
    let unblocks = |other: &mut Client, how: &[&str]| other.command(&[&["CLIENT", "UNBLOCK", &id], how].concat()).int();
    assert_eq!(unblocks(&mut other, &[]), 0, "it does not wait");
    for (command, how, says) in [
        (&["BLPOP", "queue", "0"][..], &[][..], Reply::Array(None)),
        (&["BLMOVE", "queue", "b", "LEFT", "LEFT", "0"], &["TIMEOUT"], Reply::Array(None)),
        (&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"], &["timeout"], Reply::Array(None)),
        (&["BZPOPMIN", "z", "0"], &["ERROR"], Reply::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".into())),
    ] {
        waits.send(command).unwrap();
        // A client that sees that it waits may act on it: Redis has the command.
        wait_until("it to be seen waiting", || {
            let Reply::Bulk(Some(info)) = other.command(&["INFO", "larder"]) else { panic!("INFO has no text") };
            String::from_utf8(info).unwrap().contains("larder_blocked_clients:1\r")
        });
        assert_eq!(blocked(&redis), 1, "no moment early");
        let Reply::Bulk(Some(list)) = other.command(&["CLIENT", "LIST", "ID", &id]) else { panic!("no list") };
        let (list, cmd) = (String::from_utf8(list).unwrap(), format!(" cmd={} ", command[0].to_lowercase()));
        assert!(list.contains(" flags=b ") && list.contains(&cmd), "{list}");
        assert_eq!(unblocks(&mut other, how), 1);
        assert_eq!(waits.read().unwrap(), says, "{command:?}");
    }
    assert_eq!(unblocks(&mut other, &["ERROR"]), 0, "no more");
    // With state of its own, on the connection that has it.
    assert_eq!(waits.command(&["SELECT", "2"]), Reply::ok());
    waits.send(&["BRPOP", "queue", "0"]).unwrap();
    wait_blocked(&redis, 1);
    wait_until("it to be unblocked", || unblocks(&mut other, &[]) == 1);
    assert_eq!(waits.read().unwrap(), Reply::Array(None));
    assert_eq!(waits.command(&["GET", "k"]), Reply::nil());
    for (wrong, error) in [
        (&["CLIENT", "UNBLOCK", "x"][..], "ERR value is not an integer or out of range"),
        (&["CLIENT", "UNBLOCK", "1", "GENTLY"], "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    ] {
        assert_eq!(other.command(wrong).error(), error);
        assert_eq!(redis.command(wrong).error(), error);
    }
}

#[test]
fn a_script_that_never_ends_is_killed_through_larder() {
    let redis = RedisServer::with(&["--busy-reply-threshold", "50"]);
    let larder = before(&redis);
    let (mut stuck, mut other) = (larder.client(), larder.client());
    assert_eq!(other.command(&["HSET", "h", "f", "v"]), Reply::Int(1));
    stuck.send(&["EVAL", "while true do end", "0"]).unwrap();
    wait_until("Redis to be busy", || matches!(redis.command(&["GET", "k"]), Reply::Error(_)));
    let says = other.command(&["HSET", "h", "f", "w"]);
    // The program's name is between.
    assert!(says.error().starts_with("BUSY ") && says.error().contains(" is busy running a script"), "{says:?}");
    assert_eq!(other.command(&["SCRIPT", "KILL"]), Reply::ok());
    // Longer than `source-timeout`, the script has Redis's own answer.
    let says = stuck.read().unwrap();
    assert!(says.error().contains("Script killed by user"), "{says:?}");
    // What was sent and given up may have been carried out.
    wait_until("service to return", || matches!(other.command(&["HGET", "h", "f"]), Reply::Bulk(Some(_))));
}

#[test]
fn slow_commands_have_a_deadline_of_their_own() {
    let redis = RedisServer::with(&["--enable-debug-command", "yes"]);
    let larder = before_with(&redis, &["--forward-admin"]);
    let mut client = larder.client();
    client.command(&["HSET", "h", "f", "v"]);
    // Redis does nothing else meanwhile; the others miss theirs, and no more than that.
    assert_eq!(client.command(&["DEBUG", "SLEEP", "1.5"]), Reply::ok());
    for command in [&["WATCH", "k"][..], &["DEBUG", "SLEEP", "1.2"], &["UNWATCH"]] {
        assert_eq!(client.command(command), Reply::ok(), "on a connection of the client's own, too");
    }
    for (command, reply) in [("MULTI", "OK"), ("DEBUG SLEEP 1.2", "QUEUED")] {
        let parts: Vec<_> = command.split(' ').collect();
        assert_eq!(client.command(&parts), Reply::Simple(reply.into()));
    }
    assert_eq!(client.command(&["EXEC"]), Reply::Array(Some(vec![Reply::ok()])));
    // A Redis that says nothing at all is given up at that deadline.
    let larder =
        Larder::start(&["--source", &redis.url(), "--source-timeout", "100ms", "--source-slow-timeout", "300ms"]);
    let mut client = larder.client();
    wait_until("it answers", || client.command(&["EVAL", "return 1", "0"]) == Reply::Int(1));
    redis.stop();
    let says = client.command(&["EVAL", "return 1", "0"]);
    redis.cont();
    assert_eq!(says.error(), "ERR source unavailable: timed out after 300ms (source-slow-timeout)");
}
