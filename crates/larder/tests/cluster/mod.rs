//! A Redis Cluster as source, and a master that Sentinels name: real redis-servers, moved, killed
//! and replaced under load.

use crate::{common, larder, sentinel};

pub(crate) mod fixture;
mod password;
mod sentinels;

use common::{Client, Reply, wait_until};
use fixture::{Cluster, text};
use larder::Larder;
use std::{
    io::Write,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread::scope,
};

/// A Larder in front of the cluster, which it knows.
fn before(cluster: &Cluster, more: &[&str]) -> Larder {
    let larder = Larder::start(&[&["--source", &cluster.url(), "--threads", "2"], more].concat());
    wait_until("every master to be connected", || {
        larder.metric("larder_source_up{group=\"default\"}") == 1.0
            && larder.metric("larder_source_tracking_connections{group=\"default\"}") == 6.0
    });
    larder
}

fn array(items: &[&str]) -> Reply {
    Reply::Array(Some(items.iter().map(Reply::bulk).collect()))
}
fn numbers(items: &[i64]) -> Reply {
    Reply::Array(Some(items.iter().map(|item| Reply::Int(*item)).collect()))
}

/// Keys of all masters.
fn keys() -> Vec<String> {
    (0..60).map(|number| format!("key{number}")).collect()
}

#[test]
fn a_client_need_not_know_that_it_is_a_cluster() {
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &[]);
    let mut client = larder.client();
    let keys = keys();
    let on = |node: usize| cluster.nodes[node].command(&["DBSIZE"]).int();
    // One by one, and in one pipeline.
    for key in &keys[..30] {
        assert_eq!(client.command(&["SET", key, &format!("v-{key}")]), Reply::ok());
    }
    keys[30..].iter().for_each(|key| client.send(&["SET", key, &format!("v-{key}")]).unwrap());
    keys[30..].iter().for_each(|_| assert_eq!(client.read().unwrap(), Reply::ok()));
    assert!((0..3).all(|node| on(node) > 10), "{:?}", [on(0), on(1), on(2)]);
    for round in 0..2 {
        for key in &keys {
            assert_eq!(client.command(&["GET", key]), Reply::bulk(format!("v-{key}")), "{round}");
        }
    }
    let with = |name: &str| -> Vec<String> { [name.to_owned()].into_iter().chain(keys.clone()).collect() };
    let values: Vec<String> = keys.iter().map(|key| format!("v-{key}")).collect();
    let values: Vec<&str> = values.iter().map(|value| &**value).collect();
    assert_eq!(client.command(&with("MGET")), array(&values));
    assert_eq!(client.command(&with("EXISTS")), Reply::Int(60));
    assert_eq!(client.command(&["DBSIZE"]), Reply::Int(60));
    let sorted = |reply: Reply| {
        let Reply::Array(Some(names)) = reply else { panic!("{reply:?}") };
        let mut names: Vec<String> = names.into_iter().map(text).collect();
        names.sort();
        names
    };
    let mut all = keys.clone();
    all.sort();
    assert_eq!(sorted(client.command(&["KEYS", "key*"])), all);
    let (mut found, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let Reply::Array(Some(parts)) = client.command(&["SCAN", &cursor, "COUNT", "7"]) else { panic!() };
        let [next, names] = &parts[..] else { panic!("{parts:?}") };
        cursor = text(next.clone());
        found.extend(sorted(names.clone()));
        if cursor == "0" {
            break;
        }
    }
    found.sort();
    assert_eq!(found, all);
    assert_eq!(client.command(&["MSET", "a", "1", "b", "2", "c", "3", "d", "4"]), Reply::ok());
    assert_eq!(
        client.command(&["MGET", "a", "none", "d"]),
        Reply::Array(Some(vec![Reply::bulk("1"), Reply::nil(), Reply::bulk("4")]))
    );
    assert_eq!(client.command(&["DEL", "a", "b", "c", "d", "none"]), Reply::Int(4));
    assert!(client.command(&["RENAME", "key1", "key2"]).error().starts_with("CROSSSLOT "));
    // Redis 7: "not allowed in cluster mode"; Valkey 9: "out of range".
    assert_eq!(client.command(&["SELECT", "1"]).error(), cluster.nodes[0].command(&["SELECT", "1"]).error());

    // Scripts: loaded on all nodes, run where their keys are.
    let sha = text(client.command(&["SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"]));
    for key in ["n1", "n2", "n3", "n4", "n5", "n6"] {
        assert_eq!(client.command(&["EVALSHA", &sha, "1", key]), Reply::Int(1));
        assert_eq!(client.command(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", key]), Reply::Int(2));
        assert_eq!(client.command(&["GET", key]), Reply::bulk("2"));
    }
    assert_eq!(client.command(&["SCRIPT", "EXISTS", &sha, "ffff"]), numbers(&[1, 0]));
    assert_eq!(client.command(&["FLUSHALL"]), Reply::ok());
    assert_eq!(client.command(&["DBSIZE"]), Reply::Int(0));
    assert_eq!(client.command(&["GET", "key1"]), Reply::nil());
}

/// The replies of the nodes and what is made of them have room, or the command is refused.
#[test]
fn replies_of_several_nodes_are_joined_within_the_buffers() {
    const MIB: usize = 1 << 20;
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &["--max-buffers", "24MiB", "--max-memory", "16MiB"]);
    let mut client = larder.client();
    let long = "x".repeat(60_000);
    for n in 0..250 {
        assert_eq!(client.command(&["SET", &format!("{n}{long}"), "v"]), Reply::ok());
    }
    let most = larder.peak() + 24 * MIB * 11 / 10;
    let some = client.command(&["KEYS", "1*"]);
    assert!(matches!(&some, Reply::Array(Some(keys)) if keys.len() == 111));
    for _ in 0..3 {
        let all = client.command(&["KEYS", "*"]);
        assert!(matches!(&all, Reply::Error(text) if text.contains("(max-buffers)")), "15 MB do not fit twice");
    }
    assert!(larder.peak() <= most, "{} of {}", larder.peak() / MIB, most / MIB);
}

#[test]
fn what_needs_a_connection_of_its_own_finds_its_node() {
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &[]);
    let (mut client, mut other) = (larder.client(), larder.client());
    for key in keys() {
        let (one, two) = (format!("{{{key}}}1"), format!("{{{key}}}2"));
        assert_eq!(client.command(&["MULTI"]), Reply::ok());
        client.command(&["SET", &one, "x"]);
        client.command(&["INCR", &two]);
        assert_eq!(client.command(&["EXEC"]), Reply::Array(Some(vec![Reply::ok(), Reply::Int(1)])));
        // WATCH
        assert_eq!(client.command(&["WATCH", &one]), Reply::ok());
        assert_eq!(client.command(&["GET", &one]), Reply::bulk("x"));
        assert_eq!(other.command(&["SET", &one, "y"]), Reply::ok());
        client.command(&["MULTI"]);
        client.command(&["SET", &one, "z"]);
        assert_eq!(client.command(&["EXEC"]), Reply::Array(None));
        // BLPOP, and the push that ends it.
        let list = format!("{key}-list");
        client.send(&["BLPOP", &list, "10"]).unwrap();
        assert_eq!(other.command(&["RPUSH", &list, "e"]), Reply::Int(1));
        assert_eq!(client.read().unwrap(), array(&[&list, "e"]));
    }
    client.command(&["MULTI"]);
    client.command(&["SET", "a", "1"]);
    client.command(&["SET", "b", "1"]);
    assert!(client.command(&["EXEC"]).error().starts_with("CROSSSLOT "));
    // Channels: any node; shard channels: that of the slot.
    for (subscribe, publish) in [("SUBSCRIBE", "PUBLISH"), ("SSUBSCRIBE", "SPUBLISH")] {
        for channel in ["a", "b", "c", "d"] {
            let mut subscriber = larder.client();
            let confirmed =
                Reply::Array(Some(vec![Reply::bulk(subscribe.to_lowercase()), Reply::bulk(channel), Reply::Int(1)]));
            assert_eq!(subscriber.command(&[subscribe, channel]), confirmed);
            other.command(&[publish, channel, "hello"]);
            let kind = if publish == "PUBLISH" { "message" } else { "smessage" };
            assert_eq!(subscriber.read().unwrap(), array(&[kind, channel, "hello"]));
        }
    }
    // Both at once, each at its node.
    let mut subscriber = larder.client();
    let confirmed = |kind: &str, channel: &str, count| {
        Reply::Array(Some(vec![Reply::bulk(kind), Reply::bulk(channel), Reply::Int(count)]))
    };
    assert_eq!(subscriber.command(&["SUBSCRIBE", "a"]), confirmed("subscribe", "a", 1));
    for channel in ["a", "b", "c", "d"] {
        assert_eq!(subscriber.command(&["SSUBSCRIBE", channel]), confirmed("ssubscribe", channel, 1));
        other.command(&["SPUBLISH", channel, "hello"]);
        assert_eq!(subscriber.read().unwrap(), array(&["smessage", channel, "hello"]));
        other.command(&["PUBLISH", "a", "hello"]);
        assert_eq!(subscriber.read().unwrap(), array(&["message", "a", "hello"]));
        assert_eq!(subscriber.command(&["SUNSUBSCRIBE"]), confirmed("sunsubscribe", channel, 0));
    }
    assert_eq!(subscriber.command(&["UNSUBSCRIBE"]), confirmed("unsubscribe", "a", 0));
}

/// Reads until the answer comes from the memory tier.
fn until_kept(larder: &Larder, client: &mut Client, command: &[&str], value: &Reply) {
    let misses = || larder.metric("larder_source_fetches_total{group=\"default\"}");
    wait_until("the answer to be kept", || {
        assert_eq!(client.command(command), *value, "{command:?}");
        let before = misses();
        assert_eq!(client.command(command), *value, "{command:?}");
        misses() == before
    });
}

#[test]
fn every_node_announces_what_changes() {
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &[]);
    let mut client = larder.client();
    for key in &keys()[..12] {
        let (mut direct, hash) = (cluster.client(key), format!("{{{key}}}hash"));
        direct.command(&["SET", key, "1"]);
        direct.command(&["HSET", &hash, "f", "1"]);
        until_kept(&larder, &mut client, &["GET", key], &Reply::bulk("1"));
        until_kept(&larder, &mut client, &["HGET", &hash, "f"], &Reply::bulk("1"));
        direct.command(&["SET", key, "2"]);
        direct.command(&["HSET", &hash, "f", "2"]);
        wait_until("the change to be seen", || client.command(&["GET", key]) == Reply::bulk("2"));
        wait_until("the change to be seen", || client.command(&["HGET", &hash, "f"]) == Reply::bulk("2"));
    }
}

/// The reply of a script waits for what the node announces that ran it, which is not the one of the slot
/// map.
#[test]
fn a_redirected_script_waits_for_the_node_that_ran_it() {
    const SCRIPTS: u64 = 50;
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &[]);
    let mut client = larder.client();
    let slot = cluster.slot("k");
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    cluster.begin_moving(slot, from, to);
    let pings = || cluster.nodes[to].calls("ping");
    let before = pings();
    for number in 1..=SCRIPTS {
        let reply = client.command(&["EVAL", "return redis.call('INCR', KEYS[1])", "1", "k"]);
        assert_eq!(reply, Reply::Int(number as i64));
    }
    assert!(pings() - before >= SCRIPTS, "{} PINGs for {SCRIPTS} scripts", pings() - before);
}

#[test]
fn clients_track_where_every_change_is_announced() {
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &[]);
    let refused = larder.client().command(&["CLIENT", "TRACKING", "ON", "REDIRECT", "1"]);
    assert!(refused.error().contains("needs all changes announced (tracking-prefixes"), "{refused:?}");
    let larder = before(&cluster, &["--tracking-prefixes", "*"]);
    let mut stream = larder.stream();
    let mut say = |command: &str, expected: &str| {
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        larder::expect(&mut stream, expected.as_bytes());
    };
    say("SET a 1", "+OK\r\n");
    say("CLIENT REPLY OFF\r\nHELLO 3\r\nCLIENT REPLY ON", "+OK\r\n");
    say("CLIENT TRACKING ON", "+OK\r\n");
    for (key, read) in [("a", "GET a"), ("b", "STRLEN b"), ("c", "LLEN c"), ("d", "TTL d")] {
        let mut direct = cluster.client(key);
        let reply = match key {
            "a" => "$1\r\n1\r\n",
            "d" => ":-2\r\n",
            _ => ":0\r\n",
        };
        say(read, reply);
        direct.command(&[if key == "c" { "RPUSH" } else { "SET" }, key, "other"]);
        say("", &format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\n{key}\r\n"));
    }
}

/// Ends the others' work, also when a test fails.
struct EndsThem<'o>(&'o AtomicBool);
impl Drop for EndsThem<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Each key's number is raised by one client through Larder and read by others: no answer is wrong,
/// none is lost, while slots move.
#[test]
fn slots_move_under_load() {
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &["--negative-ttl", "1h"]);
    let names: Vec<String> = (0..24).map(|number| format!("n{number}")).collect();
    let over = AtomicBool::new(false);
    let rounds: Vec<AtomicU64> = names.iter().map(|_| AtomicU64::new(0)).collect();
    scope(|scope| {
        for (at, mine) in names.chunks(6).enumerate() {
            let (larder, over, rounds) = (&larder, &over, &rounds[at * 6..]);
            scope.spawn(move || {
                let (mut writer, mut reader) = (larder.client(), larder.client());
                let mut number = 0;
                while !over.load(Relaxed) || number < 50 {
                    number += 1;
                    for (key, round) in mine.iter().zip(rounds) {
                        // One by one, in pipelines, and in transactions.
                        match (number + at as i64) % 3 {
                            0 => assert_eq!(writer.command(&["INCR", key]), Reply::Int(number)),
                            1 => {
                                writer.send(&["INCR", key]).unwrap();
                                writer.send(&["GET", key]).unwrap();
                                assert_eq!(writer.read().unwrap(), Reply::Int(number));
                                assert_eq!(writer.read().unwrap(), Reply::bulk(number.to_string()));
                            }
                            _ => {
                                writer.send(&["MULTI"]).unwrap();
                                writer.send(&["INCR", key]).unwrap();
                                writer.send(&["EXEC"]).unwrap();
                                assert_eq!(writer.read().unwrap(), Reply::ok());
                                assert_eq!(writer.read().unwrap(), Reply::Simple("QUEUED".into()));
                                assert_eq!(writer.read().unwrap(), numbers(&[number]));
                            }
                        }
                        assert_eq!(reader.command(&["GET", key]), Reply::bulk(number.to_string()), "{key}");
                        assert_eq!(
                            reader.command(&["STRLEN", key]),
                            Reply::Int(number.to_string().len() as i64),
                            "{key}"
                        );
                        round.fetch_add(1, Relaxed);
                    }
                }
            });
        }
        let _ends = EndsThem(&over);
        // Twice around: each slot of a key goes to the next node.
        for _ in 0..2 {
            for (key, rounds) in names.iter().zip(&rounds) {
                let some_answers = || {
                    let before = rounds.load(Relaxed);
                    wait_until("answers about the key meanwhile", || rounds.load(Relaxed) > before + 3);
                };
                let slot = cluster.slot(key);
                let from = cluster.owner(slot);
                let to = (from + 1) % 3;
                cluster.begin_moving(slot, from, to);
                some_answers();
                cluster.move_keys(slot, from, to);
                some_answers();
                cluster.end_moving(slot, from, to);
            }
        }
    });
    // And then from the memory tier again.
    let mut client = larder.client();
    for key in &names {
        let now = cluster.client(key).command(&["GET", key]);
        until_kept(&larder, &mut client, &["GET", key], &now);
    }
}

/// Without an announcement: a key that is absent where its slot is leaving comes to be where the slot
/// is going.
#[test]
fn an_absence_does_not_outlive_the_slots_move() {
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &["--negative-ttl", "1h"]);
    let mut client = larder.client();
    let slot = cluster.slot("k");
    let from = cluster.owner(slot);
    let to = (from + 1) % 3;
    until_kept(&larder, &mut client, &["GET", "k"], &Reply::nil());
    cluster.begin_moving(slot, from, to);
    let mut direct = cluster.nodes[to].client();
    assert_eq!(direct.command(&["ASKING"]), Reply::ok());
    assert_eq!(direct.command(&["SET", "k", "new"]), Reply::ok());
    wait_until("the new key to be seen", || client.command(&["GET", "k"]) == Reply::bulk("new"));
    assert_eq!(direct.command(&["ASKING"]), Reply::ok());
    assert_eq!(direct.command(&["SET", "k", "newer"]), Reply::ok());
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("newer"), "nothing of a slot that moves is kept");
    cluster.end_moving(slot, from, to);
    until_kept(&larder, &mut client, &["GET", "k"], &Reply::bulk("newer"));
    direct.command(&["SET", "k", "newest"]);
    wait_until("the change to be seen", || client.command(&["GET", "k"]) == Reply::bulk("newest"));
}

/// Errors there may be while no node has the slots; not longer than that, and no answer that Redis
/// would not give.
#[test]
fn a_master_is_killed() {
    let mut cluster = Cluster::with_replicas();
    let larder = before(&cluster, &[]);
    let mut client = larder.client();
    let names: Vec<String> = (0..30).map(|number| format!("n{number}")).collect();
    for key in &names {
        assert_eq!(client.command(&["INCR", key]), Reply::Int(1));
        until_kept(&larder, &mut client, &["GET", key], &Reply::bulk("1"));
    }
    // Acknowledged by the replicas, so that it cannot be lost.
    (0..3).for_each(|node| assert_eq!(cluster.nodes[node].command(&["WAIT", "1", "10000"]).int(), 1));
    let of_dead: Vec<&String> = names.iter().filter(|key| cluster.owner(cluster.slot(key)) == 0).collect();
    assert!(!of_dead.is_empty());
    cluster.nodes[0].kill();
    // The others are not concerned.
    for key in names.iter().filter(|key| !of_dead.contains(key)) {
        assert_eq!(client.command(&["INCR", key]), Reply::Int(2), "{key}");
        assert_eq!(client.command(&["GET", key]), Reply::bulk("2"), "{key}");
    }
    let left = [1, 2, 3, 4, 5];
    cluster.impatient(&left, true);
    for key in &of_dead {
        let mut sent = 0;
        wait_until("the replica to take over", || {
            sent += 1;
            match client.command(&["INCR", key]) {
                Reply::Int(number) => {
                    assert!((2..=1 + sent).contains(&number), "{number} after {sent}");
                    true
                }
                Reply::Error(text) => {
                    assert!(text.starts_with("ERR source unavailable: ") || text.starts_with("CLUSTERDOWN "), "{text}");
                    false
                }
                other => panic!("{other:?}"),
            }
        });
        // No other node is replaced.
        cluster.impatient(&left, false);
        let now = cluster.nodes[3].command(&["GET", key]);
        assert_eq!(client.command(&["GET", key]), now);
        // The new master announces its changes.
        until_kept(&larder, &mut client, &["GET", key], &now);
        cluster.nodes[3].command(&["SET", key, "after"]);
        wait_until("the change to be seen", || client.command(&["GET", key]) == Reply::bulk("after"));
    }
}

/// A master that gives its slots up and stays.
#[test]
fn a_replica_takes_over_in_peace() {
    let cluster = Cluster::with_replicas();
    let larder = before(&cluster, &[]);
    let mut client = larder.client();
    let key = names_of(&cluster, 0).remove(0);
    client.command(&["SET", &key, "1"]);
    until_kept(&larder, &mut client, &["GET", &key], &Reply::bulk("1"));
    assert_eq!(cluster.nodes[3].command(&["CLUSTER", "FAILOVER"]), Reply::ok());
    wait_until("the failover", || cluster.owner(cluster.slot(&key)) == 3);
    cluster.nodes[3].command(&["SET", &key, "2"]);
    wait_until("the change to be seen", || client.command(&["GET", &key]) == Reply::bulk("2"));
    assert_eq!(client.command(&["INCR", &key]), Reply::Int(3));
    until_kept(&larder, &mut client, &["GET", &key], &Reply::bulk("3"));
}

/// Keys of a node, as it was at the start.
fn names_of(cluster: &Cluster, node: usize) -> Vec<String> {
    keys().into_iter().filter(|key| cluster.owner(cluster.slot(key)) == node).collect()
}

#[test]
fn misses_are_read_from_replicas() {
    let cluster = Cluster::with_replicas();
    let url = format!("{}?read-from=replica", cluster.url());
    let larder = Larder::start(&["--source", &url, "--threads", "2"]);
    let mut client = larder.client();
    let keys = keys();
    for key in &keys {
        wait_until("the cluster to be known", || client.command(&["SET", key, "1"]) == Reply::ok());
    }
    (0..3).for_each(|node| assert_eq!(cluster.nodes[node].command(&["WAIT", "1", "10000"]).int(), 1));
    for key in &keys {
        wait_until("the replica's value", || client.command(&["GET", key]) == Reply::bulk("1"));
    }
    let gets = |node: usize| cluster.nodes[node].calls("get");
    assert!(
        (3..6).all(|node| gets(node) > 0) && (0..3).all(|node| gets(node) == 0),
        "{:?}",
        (0..6).map(gets).collect::<Vec<_>>()
    );
    // What the replica hears of, it announces.
    for key in &keys[..10] {
        until_kept(&larder, &mut client, &["GET", key], &Reply::bulk("1"));
        cluster.client(key).command(&["SET", key, "2"]);
        wait_until("the change to be seen", || client.command(&["GET", key]) == Reply::bulk("2"));
    }
    // Without it the master is asked.
    let key = &names_of(&cluster, 0)[0];
    let mut cluster = cluster;
    cluster.nodes[3].kill();
    client.command(&["SET", key, "3"]);
    wait_until("the master's value", || client.command(&["GET", key]) == Reply::bulk("3"));
}

/// Sent to a node that falls silent, beside others: it is unknown whether it was done, so no copy
/// is taken for what is there.
#[test]
fn what_may_have_been_written_is_forgotten() {
    let cluster = Cluster::of_masters();
    let larder =
        Larder::start(&["--source", &cluster.url(), "--source-timeout", "2s", "--coherence", "ttl", "--ttl", "1h"]);
    let mut client = larder.client();
    let (silent, spread) = (names_of(&cluster, 0), names_of(&cluster, 1).remove(0));
    let [set, spread_too, probe] = &silent[..3] else { panic!("keys of node 0") };
    for key in [set, spread_too, &spread] {
        wait_until("the cluster to be known", || client.command(&["SET", key, "old"]) == Reply::ok());
        assert_eq!(client.command(&["GET", key]), Reply::bulk("old"));
    }
    let gets = || cluster.nodes.iter().map(|node| node.calls("get")).sum::<u64>();
    cluster.nodes[0].stop();
    client.send(&["SET", set, "new"]).unwrap();
    client.send(&["SET", "other", "new"]).unwrap();
    client.send(&["MSET", spread_too, "new", &spread, "new"]).unwrap();
    let replies: Vec<Reply> = (0..3).map(|_| client.read().unwrap()).collect();
    cluster.nodes[0].cont();
    let unavailable = |reply: &Reply| reply.error().starts_with("ERR source unavailable: ");
    assert!(unavailable(&replies[0]) && replies[1] == Reply::ok() && unavailable(&replies[2]), "{replies:?}");
    // What was in the socket is done after all.
    wait_until("the writes", || cluster.client(set).command(&["GET", set]) == Reply::bulk("new"));
    wait_until("the source to be back", || client.command(&["SET", probe, "1"]) == Reply::ok());
    let before = gets();
    for key in [set, spread_too, &spread] {
        assert_eq!(client.command(&["GET", key]), Reply::bulk("new"));
    }
    assert_eq!(gets(), before + 3, "asked anew");
}

/// One node is silent while another's connections are made again, after which the commands must be
/// learnt again.
#[test]
fn a_silent_master_delays_nobody_elses_commands() {
    let cluster = Cluster::of_masters();
    let larder = before(&cluster, &["--source-timeout", "10s"]);
    let mut client = larder.client();
    let key = |node| names_of(&cluster, node).remove(0);
    let keys = [key(0), key(1), key(2)];
    keys.iter().for_each(|key| assert_eq!(client.command(&["INCR", key]), Reply::Int(1)));
    for silent in [0, 1, 2] {
        let other = (silent + 1) % 3;
        let reconnects = || larder.metric("larder_source_reconnects_total{group=\"default\"}");
        let then = reconnects();
        cluster.nodes[silent].stop();
        cluster.nodes[other].command(&["CLIENT", "KILL", "TYPE", "normal"]);
        wait_until("a connection to be made anew", || reconnects() > then);
        let begun = std::time::Instant::now();
        wait_until("an answer", || {
            matches!(client.command(&["HINCRBY", &format!("{{{}}}h", keys[other]), "f", "1"]), Reply::Int(_))
        });
        cluster.nodes[silent].cont();
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
