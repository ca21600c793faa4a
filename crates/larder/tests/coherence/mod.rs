//! Copies of what Redis has: never older than docs/coherence.md promises, whatever happens to Redis
//! and the connections.

use crate::{common, larder};

mod cassandra;
mod checker;
mod copies;
mod postgres;
mod scripts;

use common::{Client, RedisServer, Reply, wait_until};
use larder::Larder;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Reads of whole replies in one pipeline are fetched together, over the connections of both
/// threads, and come back in order.
#[test]
fn a_pipeline_of_replies_is_fetched_together() {
    let redis = RedisServer::start();
    for key in 0..100 {
        redis.command(&["HSET", &format!("h{key}"), "f", &format!("v{key}")]);
    }
    let larder = before(&redis, &["--threads", "2"]);
    let mut client = larder.client();
    // Now it knows the commands.
    assert_eq!(client.command(&["HLEN", "none"]), Reply::Int(0));
    let hits = || larder.metric("larder_cache_reply_hits_total{group=\"default\"}");
    let (before, transactions) = (hits(), redis.calls("exec"));
    // Asked for once they are passed on, the second time fetched to be kept.
    for round in 0..3 {
        for key in 0..100 {
            client.send(&["HGET", &format!("h{key}"), "f"]).unwrap();
        }
        for key in 0..100 {
            assert_eq!(client.read().unwrap(), Reply::bulk(format!("v{key}")), "round {round}");
        }
    }
    assert_eq!(hits() - before, 100.0, "the third round");
    let transactions = redis.calls("exec") - transactions;
    assert!(transactions < 60, "{transactions} transactions for 100 misses");
}

/// How soon after its acknowledgement by Redis a change must be visible, on a machine with more to
/// do than two cores can.
const BOUND: Duration = Duration::from_millis(500);

/// Asks until the answer is new. A read that begins later than `bound` from now may not get an older
/// one. What counts is when it begins: after that, a busy machine may let it wait.
fn until_new(bound: Duration, mut is_new: impl FnMut() -> bool) {
    let start = Instant::now();
    loop {
        let asked = start.elapsed();
        if is_new() {
            return;
        }
        assert!(asked < bound, "still old");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn before(redis: &RedisServer, more: &[&str]) -> Larder {
    let larder = Larder::start(&[&["--source", &redis.url()], more].concat());
    wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    larder
}
fn source_metric(larder: &Larder, name: &str) -> f64 {
    larder.metric(&format!("larder_source_{name}{{group=\"default\"}}"))
}
fn set(redis: &RedisServer, key: &str, value: &str) {
    assert_eq!(redis.command(&["SET", key, value]), Reply::ok());
}
/// `GET /v1/kv/{key}`: the value, or none.
fn http(larder: &Larder, key: &str) -> Reply {
    let (status, _, body) = larder.http(&format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    match status {
        200 => Reply::bulk(body),
        404 => Reply::nil(),
        other => Reply::Error(other.to_string()),
    }
}
/// Reads until the answer comes from the tier: Redis is not asked for it.
fn until_kept(redis: &RedisServer, client: &mut Client, key: &str, value: &Reply) {
    wait_until("the answer to be kept", || {
        assert_eq!(client.command(&["GET", key]), *value);
        let before = redis.calls("get");
        assert_eq!(client.command(&["GET", key]), *value);
        redis.calls("get") == before
    });
}
/// The ids of the connections that track, by CLIENT LIST.
fn tracking(redis: &RedisServer) -> Vec<String> {
    let Reply::Bulk(Some(list)) = redis.command(&["CLIENT", "LIST"]) else { panic!("CLIENT LIST has no text") };
    let list = String::from_utf8(list).unwrap();
    let field = |line: &str, name: &str| {
        let value = line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        value.unwrap_or_default().to_owned()
    };
    list.lines().filter(|line| field(line, "flags").contains('t')).map(|line| field(line, "id")).collect()
}
fn kill_tracking(redis: &RedisServer) -> usize {
    let ids = tracking(redis);
    ids.iter().for_each(|id| drop(redis.command(&["CLIENT", "KILL", "ID", id])));
    ids.len()
}

#[test]
fn what_changes_in_redis_is_seen_at_both_doors() {
    let redis = RedisServer::start();
    set(&redis, "k", "0");
    let larder = before(&redis, &["--negative-ttl", "1h", "--threads", "2"]);
    let mut client = larder.client();
    let mut other = redis.client();
    until_kept(&redis, &mut client, "k", &Reply::bulk("0"));
    let changes: [(&[&str], Option<&str>); 11] = [
        (&["SET", "k", "1"], Some("1")),
        (&["APPEND", "k", "2"], Some("12")),
        (&["DEL", "k"], None),
        (&["SET", "k", "3"], Some("3")),
        (&["PEXPIRE", "k", "30"], None),
        (&["SETEX", "k", "1000", "4"], Some("4")),
        (&["FLUSHALL"], None),
        (&["MSET", "k", "5", "l", "6"], Some("5")),
        (&["RENAME", "l", "k"], Some("6")),
        (&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "k"], Some("7")),
        (&["FLUSHDB", "ASYNC"], None),
    ];
    for (change, value) in changes {
        let wanted = value.map_or(Reply::nil(), Reply::bulk);
        assert!(!matches!(other.command(change), Reply::Error(_)), "{change:?}");
        wait_until("the change to be seen over HTTP", || http(&larder, "k") == wanted);
        wait_until("the change to be seen over RESP", || client.command(&["GET", "k"]) == wanted);
        until_kept(&redis, &mut client, "k", &wanted);
    }
    assert!(source_metric(&larder, "invalidations_total") >= changes.len() as f64);
    assert_eq!(source_metric(&larder, "tracking_connections"), 2.0);
    assert_eq!(source_metric(&larder, "untracked_connections"), 0.0);
    assert_eq!(source_metric(&larder, "tracking_losses_total"), 0.0);
    assert!(larder.get("/v1/stats").contains("source_tracking_connections"));
}

#[test]
fn what_was_written_through_larder_is_seen_and_watched() {
    let redis = RedisServer::start();
    let larder = before(&redis, &["--ttl", "1h"]);
    let mut client = larder.client();
    for round in 0..50 {
        let (value, later) = (format!("own {round}"), format!("direct {round}"));
        assert_eq!(client.command(&["SET", "k", &value]), Reply::ok());
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk(&value), "its own write, at once");
        assert_eq!(http(&larder, "k"), Reply::bulk(&value), "and at every door");
        // Redis forgot the key's readers with our write: a copy made of that would stay.
        set(&redis, "k", &later);
        wait_until("the change after it", || client.command(&["GET", "k"]) == Reply::bulk(&later));
        assert_eq!(client.command(&["PEXPIRE", "k", "100000"]), Reply::Int(1));
        assert_eq!(redis.command(&["PERSIST", "k"]), Reply::Int(1));
        set(&redis, "k", "again");
        wait_until("the change after that", || client.command(&["GET", "k"]) == Reply::bulk("again"));
    }
}

#[test]
fn what_a_client_saw_at_the_source_is_not_followed_by_an_older_copy() {
    let redis = RedisServer::start();
    let larder = before(&redis, &["--threads", "2"]);
    let (mut client, mut direct) = (larder.client(), redis.client());
    for round in 0..300 {
        let value = round.to_string();
        // A copy of the value before.
        client.command(&["GET", "k"]);
        assert_eq!(direct.command(&["SET", "k", &value]), Reply::ok());
        for command in [&["MULTI"][..], &["GET", "k"], &["EXEC"]] {
            client.send(command).unwrap();
        }
        assert_eq!(client.read().unwrap(), Reply::ok());
        client.read().unwrap();
        assert_eq!(client.read().unwrap(), Reply::Array(Some(vec![Reply::bulk(&value)])), "straight from Redis");
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk(&value), "round {round}");
    }
}

#[test]
fn a_lost_tracking_connection_empties_the_group() {
    let redis = RedisServer::start();
    let larder = before(&redis, &["--threads", "2", "--source-connections", "2", "--stale-if-error", "0s"]);
    let mut client = larder.client();
    for round in 1..=5 {
        let value = format!("{round}");
        set(&redis, "k", &value);
        wait_until("the change to be seen", || client.command(&["GET", "k"]) == Reply::bulk(&value));
        until_kept(&redis, &mut client, "k", &Reply::bulk(&value));
        wait_until("four connections to track", || tracking(&redis).len() == 4);
        // No client is left to be told.
        assert_eq!(kill_tracking(&redis), 4);
        set(&redis, "k", "changed meanwhile");
        until_new(BOUND, || client.command(&["GET", "k"]) == Reply::bulk("changed meanwhile"));
        assert_eq!(source_metric(&larder, "tracking_losses_total"), f64::from(4 * round));
    }
}

#[test]
fn a_redis_that_is_killed_and_comes_back_with_other_data() {
    let mut redis = RedisServer::start();
    let larder = before(&redis, &["--threads", "2", "--stale-if-error", "0s"]);
    let mut client = larder.client();
    for round in 0..3 {
        let old = Reply::bulk(format!("old {round}"));
        set(&redis, "k", &format!("old {round}"));
        wait_until("the value to be seen", || client.command(&["GET", "k"]) == old);
        until_kept(&redis, &mut client, "k", &old);
        redis.kill();
        until_new(BOUND, || client.command(&["GET", "k"]) != old);
        redis.restart();
        let new = Reply::bulk(format!("new {round}"));
        set(&redis, "k", &format!("new {round}"));
        wait_until("service to return", || {
            for answer in [client.command(&["GET", "k"]), http(&larder, "k")] {
                assert_ne!(answer, old, "once gone, it stays gone");
            }
            client.command(&["GET", "k"]) == new && http(&larder, "k") == new
        });
    }
}

#[test]
fn copies_outlast_redis_but_not_its_return() {
    outlast(&[]);
}

#[test]
fn with_a_lifetime_copies_outlast_redis_for_as_long_as_that() {
    outlast(&["--ttl", "1h", "--stale-if-error", "1ms"]);
}

fn outlast(more: &[&str]) {
    let mut redis = RedisServer::start();
    let larder = before(&redis, &[&["--threads", "2", "--negative-ttl", "1h"], more].concat());
    let mut client = larder.client();
    for round in 0..3 {
        let old = Reply::bulk(format!("old {round}"));
        set(&redis, "k", &format!("old {round}"));
        wait_until("the value to be seen", || client.command(&["GET", "k"]) == old);
        until_kept(&redis, &mut client, "k", &old);
        until_kept(&redis, &mut client, "absent", &Reply::nil());
        // Written and not read since: what the copy was is not to be seen again.
        until_kept(&redis, &mut client, "written", &Reply::nil());
        assert_eq!(client.command(&["SET", "written", "x"]), Reply::ok());
        redis.kill();
        wait_until("the loss to be noticed", || source_metric(&larder, "up") == 0.0);
        for _ in 0..20 {
            assert_eq!(client.command(&["GET", "k"]), old);
            assert_eq!(http(&larder, "k"), old);
            assert_eq!(client.command(&["GET", "absent"]), Reply::nil());
            assert!(matches!(client.command(&["GET", "written"]), Reply::Error(_)));
            assert!(matches!(client.command(&["GET", "never read"]), Reply::Error(_)));
            assert!(matches!(client.command(&["STRLEN", "k"]), Reply::Error(_)), "of the source alone");
        }
        redis.restart();
        let new = Reply::bulk(format!("new {round}"));
        set(&redis, "k", &format!("new {round}"));
        wait_until("service to return", || client.command(&["GET", "k"]) == new && http(&larder, "k") == new);
        for _ in 0..20 {
            assert_eq!(client.command(&["GET", "k"]), new, "once seen, for good");
            assert_eq!(http(&larder, "k"), new);
        }
    }
}

#[test]
fn a_redis_that_falls_silent_vouches_for_a_second_and_the_deadline() {
    let redis = RedisServer::start();
    set(&redis, "k", "v");
    let larder = before(&redis, &["--source-timeout", "300ms", "--threads", "2", "--stale-if-error", "0s"]);
    let mut client = larder.client();
    until_kept(&redis, &mut client, "k", &Reply::bulk("v"));
    redis.stop();
    // Hits only, which tell the connections nothing.
    until_new(Duration::from_millis(1300) + BOUND, || client.command(&["GET", "k"]) != Reply::bulk("v"));
    redis.cont();
    wait_until("service to return", || client.command(&["GET", "k"]) == Reply::bulk("v"));
    until_kept(&redis, &mut client, "k", &Reply::bulk("v"));
}

/// Redis neither answers nor closes its connections. No read of what is kept waits longer than the
/// soft timeout, not even at the moment when Larder notices; when the copies are too old, reads
/// fail.
#[test]
fn hits_go_on_while_redis_is_frozen_until_they_are_too_old() {
    let redis = RedisServer::start();
    set(&redis, "k", "v");
    redis.command(&["HSET", "h", "f", "w"]);
    let larder = before(&redis, &["--threads", "2", "--stale-if-error", "2s", "--source-timeout", "1s"]);
    let mut client = larder.client();
    until_kept(&redis, &mut client, "k", &Reply::bulk("v"));
    let hget = ["HGET", "h", "f"];
    wait_until("the reply to be kept", || {
        let kept = larder.metric("larder_cache_reply_hits_total{group=\"default\"}") > 0.0;
        assert_eq!(client.command(&hget), Reply::bulk("w"));
        kept
    });
    redis.stop();
    let (frozen, mut longest) = (Instant::now(), Duration::ZERO);
    let ended = loop {
        let start = Instant::now();
        let answers = [client.command(&["GET", "k"]), client.command(&hget), http(&larder, "k")];
        if answers != [Reply::bulk("v"), Reply::bulk("w"), Reply::bulk("v")] {
            break frozen.elapsed();
        }
        longest = longest.max(start.elapsed());
        std::thread::sleep(Duration::from_millis(5));
    };
    // One second without a word, one more without an answer, and the bound, on a machine that is busy.
    assert!(ended > Duration::from_millis(2900) && ended < Duration::from_millis(6000), "{ended:?}");
    assert!(longest < Duration::from_millis(3 * 100) + BOUND, "three reads took {longest:?}");
    assert!(matches!(client.command(&["GET", "k"]), Reply::Error(_)));
    assert!(larder.metric("larder_cache_stale_hits_total{group=\"default\"}") > 0.0);
    redis.cont();
    wait_until("service to return", || client.command(&["GET", "k"]) == Reply::bulk("v"));
}

#[test]
fn a_larder_that_was_paused_catches_up_before_the_bound() {
    let redis = RedisServer::start();
    set(&redis, "k", "0");
    let larder = before(&redis, &["--threads", "2"]);
    let mut client = larder.client();
    for round in 1..=4 {
        let (old, new) = (Reply::bulk((round - 1).to_string()), Reply::bulk(round.to_string()));
        wait_until("the value to be seen", || client.command(&["GET", "k"]) == old);
        until_kept(&redis, &mut client, "k", &old);
        larder.signal(Signal::STOP);
        // The news, or the end of the connection, waits in the socket; so does a read.
        if round % 2 == 0 {
            kill_tracking(&redis);
        }
        set(&redis, "k", &round.to_string());
        client.send(&["GET", "k"]).unwrap();
        larder.signal(Signal::CONT);
        client.read().unwrap();
        until_new(BOUND, || client.command(&["GET", "k"]) == new);
    }
}

#[test]
fn prefixes_are_broadcast_and_the_rest_is_not_kept() {
    let redis = RedisServer::start();
    let keys = ["user:1", "session:1", "other:1"];
    keys.iter().for_each(|key| set(&redis, key, "0"));
    let larder = before(&redis, &["--tracking-prefixes", "user:,session:"]);
    let mut client = larder.client();
    for round in 1..=3 {
        let (old, new) = ((round - 1).to_string(), round.to_string());
        for key in &keys[..2] {
            until_kept(&redis, &mut client, key, &Reply::bulk(&old));
            set(&redis, key, &new);
            wait_until("the change to be seen", || client.command(&["GET", key]) == Reply::bulk(&new));
        }
        let calls = redis.calls("get");
        for key in [keys[2]; 5] {
            assert_eq!(client.command(&["GET", key]), Reply::bulk(&old));
        }
        assert_eq!(redis.calls("get"), calls + 5, "a key that nobody announces is asked for each time");
        set(&redis, keys[2], &new);
        assert_eq!(client.command(&["GET", keys[2]]), Reply::bulk(&new), "at once");
    }
    // Written by others and never read here: announced all the same.
    let before = source_metric(&larder, "invalidations_total");
    set(&redis, "user:never read", "x");
    wait_until("the announcement", || source_metric(&larder, "invalidations_total") > before);
}

/// Nothing is kept, and every answer is right, at once.
fn keeps_nothing(redis: &RedisServer, larder: &Larder) {
    let (mut client, mut direct) = (larder.client(), redis.client());
    let calls = redis.calls("get");
    for round in 0..20 {
        let value = round.to_string();
        assert_eq!(direct.command(&["SET", "k", &value]), Reply::ok());
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk(&value));
        assert_eq!(http(larder, "k"), Reply::bulk(&value));
        assert_eq!(client.command(&["GET", "absent"]), Reply::nil());
        assert_eq!(client.command(&["SET", "own", &value]), Reply::ok());
        assert_eq!(client.command(&["GET", "own"]), Reply::bulk(&value));
    }
    assert_eq!(redis.calls("get"), calls + 80);
    assert_eq!(larder.metric("larder_cache_entries{group=\"default\"}"), 0.0);
    assert_eq!(larder.metric("larder_cache_negative_entries{group=\"default\"}"), 0.0);
}

#[test]
fn a_server_that_refuses_to_track() {
    let user = RedisServer::start();
    let acl = ["ACL", "SETUSER", "app", "on", ">pw", "~*", "+@all", "-client|tracking"];
    assert_eq!(user.command(&acl), Reply::ok());
    // As before Redis 6.
    let old = RedisServer::with(&["--rename-command", "HELLO", "NO-SUCH-HELLO"]);
    let app = user.url().replace("redis://", "redis://app:pw@");
    for (redis, url, why) in [(&user, app, "client|tracking"), (&old, old.url(), "unknown command")] {
        let args = ["--source", &url, "--threads", "1", "--negative-ttl", "1h", "--ttl", "1h"];
        let mut larder = Larder::start(&args);
        wait_until("the connection", || source_metric(&larder, "untracked_connections") == 1.0);
        assert_eq!(source_metric(&larder, "tracking_connections"), 0.0);
        keeps_nothing(redis, &larder);
        larder.signal(Signal::TERM);
        assert!(larder.wait().0.success());
        let log = larder.stderr();
        assert_eq!(log.matches("does not announce changes").count(), 1, "{log}");
        assert!(log.contains(why), "{log}");
    }
}

#[test]
fn off_keeps_nothing_and_ttl_needs_no_tracking() {
    let redis = RedisServer::start();
    keeps_nothing(&redis, &before(&redis, &["--coherence", "off", "--negative-ttl", "1h"]));
    let larder = before(&redis, &["--coherence", "ttl", "--ttl", "1h"]);
    let mut client = larder.client();
    set(&redis, "k", "old");
    until_kept(&redis, &mut client, "k", &Reply::bulk("old"));
    assert_eq!(tracking(&redis), [""; 0]);
    kill_tracking(&redis);
    set(&redis, "k", "new");
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("old"), "as old as the lifetime");
    // Written through, the copy is the new value.
    assert_eq!(client.command(&["SET", "k", "own"]), Reply::ok());
    let calls = redis.calls("get");
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("own"));
    assert_eq!(redis.calls("get"), calls);
}
