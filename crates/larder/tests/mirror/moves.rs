//! Whole moves: under writes, with a mirror that goes away, and back.
use super::{contents, differences, state, wait_in_step};
use crate::{
    cassandra::server::CassandraNode,
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

/// Keys that writers share, so that writes of one key meet.
const KEYS: u32 = 200;

/// Writes of all kinds until `stop`; none may fail.
fn write(mut client: Client, seed: u32, is_redis: bool, stop: &AtomicBool) {
    let mut random = seed;
    while !stop.load(Relaxed) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (kind, number) = (random >> 28, (random >> 8) % KEYS);
        let (key, counter, value) = (format!("key:{number}"), format!("n:{number}"), random.to_string());
        let command: Vec<&str> = match kind {
            0..=3 => vec!["SET", &key, &value],
            4 => vec!["SET", &key, &value, "PX", "3600000"],
            5 | 6 => vec!["DEL", &key],
            7..=9 => vec!["INCR", &counter],
            10 => vec!["EXPIRE", &counter, "5000"],
            11 => vec!["PERSIST", &counter],
            12 => vec!["APPEND", &key, "x"],
            13 if is_redis => vec!["RPUSH", "list", &value],
            14 if is_redis => vec!["HSET", "hash", &counter, &value],
            _ => vec!["MSET", &key, &value, &counter, "1"],
        };
        let reply = client.command(&command);
        assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
    }
}

/// Has clients write while `meanwhile` runs.
fn under_writes(larder: &Larder, is_redis: bool, meanwhile: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|seed| {
                let (client, stop) = (larder.client(), &stop);
                scope.spawn(move || write(client, seed, is_redis, stop))
            })
            .collect();
        let outcome = catch_unwind(AssertUnwindSafe(meanwhile));
        stop.store(true, Relaxed);
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
}

/// Ends a Larder that says that the mirror has everything.
fn end(mut larder: Larder) {
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    let said = larder.stderr();
    assert!(said.contains("the mirror has all changes"), "{said}");
}

#[test]
fn a_redis_becomes_another_under_writes_and_the_roles_are_swapped() {
    let (one, mut other) = (RedisServer::start(), RedisServer::start());
    let mut client = one.client();
    for number in 0..1000 {
        client.command(&["SET", &format!("old:{number}"), "value", "PX", &(5_000_000 + number).to_string()]);
    }
    client.command(&["ZADD", "set", "1", "a", "2", "b"]);
    client.command(&["SADD", "many", "a", "b", "c"]);
    let (from, to) = (one.url(), other.url());
    let larder = Larder::start(&["--source", &from, "--mirror", &to, "--log-level", "info"]);
    under_writes(&larder, true, || {
        wait_in_step(&larder);
        other.kill();
        wait_until("the mirror to be missed", || state(&larder) == "failing");
        // It comes back empty.
        other.restart();
        wait_until("the mirror to be filled again", || state(&larder) == "in-step");
    });
    // What was written last is copied before the process ends.
    end(larder);
    assert_eq!(differences(&one, &other), Vec::<String>::new());
    assert!(contents(&mut other.client()).len() > 1000);
    let larder = Larder::start(&["--source", &to, "--mirror", &from, "--log-level", "info"]);
    under_writes(&larder, true, || wait_in_step(&larder));
    assert_eq!(larder.client().command(&["GET", "old:7"]), Reply::bulk("value"));
    wait_in_step(&larder);
    end(larder);
    assert_eq!(differences(&one, &other), Vec::<String>::new());
}

#[test]
fn a_disk_store_becomes_a_redis_and_comes_back() {
    let (redis, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let store = |name: &str| format!("disk:{}", dir.path().join(name).display());
    let larder = Larder::start(&["--source", &store("one"), "--mirror", &redis.url(), "--log-level", "info"]);
    under_writes(&larder, false, || wait_in_step(&larder));
    let mut client = larder.client();
    client.command(&["SET", "kept", "value", "PXAT", "4102444800123"]);
    // Redis has no documents.
    assert_eq!(client.command(&["JSON.SET", "d", "$", "1"]), Reply::ok());
    wait_until("the document to be left out", || larder.metric("larder_mirror_left_out_total") > 0.0);
    let Reply::Array(Some(keys)) = client.command(&["KEYS", "*"]) else { panic!("no keys") };
    end(larder);
    assert_eq!(redis.command(&["DBSIZE"]).int() + 1, keys.len() as i64);
    let again = store("again");
    {
        let larder = Larder::start(&["--source", &redis.url(), "--mirror", &again, "--log-level", "info"]);
        wait_in_step(&larder);
        end(larder);
    }
    let (one, again) = (Larder::start(&["--source", &store("one")]), Larder::start(&["--source", &again]));
    let (mut one, mut again) = (one.client(), again.client());
    for key in keys {
        let Reply::Bulk(Some(key)) = key else { panic!("no key: {key:?}") };
        if key != b"d" {
            for command in [&b"GET"[..], b"EXPIRETIME"] {
                let (here, there) = (one.command(&[command, &key]), again.command(&[command, &key]));
                let is_same = match (&here, &there) {
                    (Reply::Int(here), Reply::Int(there)) => here.abs_diff(*there) <= 1,
                    (here, there) => here == there,
                };
                assert!(is_same, "{key:?}: {here:?} {there:?}");
            }
        }
    }
    assert_eq!(again.command(&["GET", "kept"]), Reply::bulk("value"));
}

/// Each copies what the other changes: an older value must not stay.
#[test]
fn two_larders_fill_one_mirror() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    let (from, to) = (one.url(), other.url());
    let larders = [(); 2].map(|()| Larder::start(&["--source", &from, "--mirror", &to, "--log-level", "info"]));
    under_writes(&larders[0], true, || {
        under_writes(&larders[1], true, || larders.iter().for_each(wait_in_step));
    });
    larders.into_iter().for_each(end);
    assert_eq!(differences(&one, &other), Vec::<String>::new());
}

/// Another store's entries are neither overwritten nor deleted.
#[test]
fn a_mirror_of_other_data_is_refused() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    one.command(&["MSET", "a", "1", "b", "2", "c", "3"]);
    other.command(&["MSET", "a", "other", "x", "1", "y", "2"]);
    let before = contents(&mut other.client());
    let mut larder = Larder::start(&["--source", &one.url(), "--mirror", &other.url()]);
    wait_until("the mirror to be refused", || state(&larder) == "refused");
    assert_eq!(larder.client().command(&["SET", "a", "new"]), Reply::ok());
    assert_eq!(larder.client().command(&["DEL", "b"]), Reply::Int(1));
    assert_eq!(state(&larder), "refused");
    assert_eq!(contents(&mut other.client()), before);
    // It becomes one when it is emptied.
    other.command(&["FLUSHALL"]);
    wait_in_step(&larder);
    assert_eq!(differences(&one, &other), Vec::<String>::new());
    larder.signal(Signal::TERM);
    larder.wait();
    assert!(larder.stderr().contains("the mirror has entries that the source has not"));
}

/// A source that has lost its entries does not take those of the mirror with it.
#[test]
fn a_source_that_comes_back_empty_empties_no_mirror() {
    let (mut one, mut other) = (RedisServer::start(), RedisServer::start());
    one.command(&["MSET", "a", "1", "b", "2", "c", "3"]);
    let larder = Larder::start(&["--source", &one.url(), "--mirror", &other.url()]);
    wait_in_step(&larder);
    other.stop();
    one.restart();
    other.cont();
    larder.client().command(&["SET", "d", "4"]);
    wait_until("the new entry to be copied", || other.command(&["GET", "d"]) == Reply::bulk("4"));
    assert_eq!(other.command(&["GET", "a"]), Reply::bulk("1"));
    // The mirror's connections end, so everything would be compared again.
    other.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    wait_until("the mirror to be refused", || state(&larder) == "refused");
    assert_eq!(other.command(&["GET", "a"]), Reply::bulk("1"));
    other.kill();
}

/// Changes more keys than can wait.
fn change_too_many(larder: &Larder) {
    let mut client = larder.client();
    // Redis takes long for a pipeline of larger ones.
    let long = "x".repeat(30_000);
    let mut numbers = 0..5000;
    while larder.metric("larder_mirror_forgotten_total") == 0.0 {
        let keys: Vec<u32> = numbers.by_ref().take(100).collect();
        assert!(!keys.is_empty(), "no bound: {}", larder.metric("larder_mirror_queued"));
        keys.iter().for_each(|number| client.send(&["SET", &format!("{number}:{long}"), "v"]).unwrap());
        keys.iter().for_each(|_| assert_eq!(client.read().unwrap(), Reply::ok()));
    }
}

/// More changes than can wait: the mirror is compared as a whole.
#[test]
fn too_many_changes_are_said_and_compared_again() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    let mut larder = Larder::start(&["--source", &one.url(), "--mirror", &other.url()]);
    larder.drop_stderr();
    wait_in_step(&larder);
    other.stop();
    change_too_many(&larder);
    assert!(larder.metric("larder_mirror_queued") < 200.0);
    assert_eq!(state(&larder), "filling");
    other.cont();
    wait_in_step(&larder);
    assert_eq!(other.command(&["DBSIZE"]), one.command(&["DBSIZE"]));
}

/// Changes without names while the mirror gives errors: it is compared when it is back.
#[test]
fn a_mirror_that_was_away_gets_in_step_after_changes_without_names() {
    let (one, mut other) = (RedisServer::start(), RedisServer::start());
    let mut larder = Larder::start(&["--source", &one.url(), "--mirror", &other.url()]);
    larder.drop_stderr();
    let flush = |larder: &Larder| {
        assert_eq!(larder.client().command(&["FLUSHALL"]), Reply::ok());
        assert_eq!(larder.client().command(&["SET", "k", "v"]), Reply::ok());
    };
    let changes: [fn(&Larder); 2] = [flush, change_too_many];
    for change in changes {
        wait_in_step(&larder);
        other.kill();
        // A change tells that it is away.
        assert_eq!(larder.client().command(&["SET", "missed", "v"]), Reply::ok());
        wait_until("the mirror to be missed", || state(&larder) == "failing");
        change(&larder);
        other.restart();
        wait_in_step(&larder);
        assert_eq!(differences(&one, &other), Vec::<String>::new());
    }
}

#[test]
#[ignore = "make test-clients"]
fn a_disk_store_becomes_a_cluster_under_writes() {
    let node = CassandraNode::shared();
    let (url, dir) = (node.url("mirror"), tempfile::tempdir().unwrap());
    let store = format!("disk:{}", dir.path().join("store").display());
    let larder = Larder::start(&["--source", &store, "--mirror", &url, "--log-level", "info"]);
    let mut client = larder.client();
    for number in 0..500 {
        client.command(&["SET", &format!("old:{number}"), &number.to_string()]);
    }
    client.command(&["SET", "expires", "v", "PXAT", "4102444800123"]);
    assert_eq!(client.command(&["JSON.SET", "d", "$", "{\"a\":1}"]), Reply::ok());
    under_writes(&larder, false, || wait_in_step(&larder));
    end(larder);
    let (one, cluster) = (Larder::start(&["--source", &store]), Larder::start(&["--source", &url, "--ttl", "10s"]));
    let (mut one, mut cluster) = (one.client(), cluster.client());
    let Reply::Array(Some(keys)) = one.command(&["KEYS", "*"]) else { panic!("no keys") };
    let Reply::Array(Some(there)) = cluster.command(&["KEYS", "*"]) else { panic!("no keys") };
    assert_eq!(keys.len(), there.len());
    for key in keys {
        let Reply::Bulk(Some(key)) = key else { panic!("no key: {key:?}") };
        let read = if key == b"d" { &b"JSON.GET"[..] } else { b"GET" };
        assert_eq!(one.command(&[read, &key]), cluster.command(&[read, &key]), "{key:?}");
        let expiry = |client: &mut Client| client.command(&[&b"PEXPIRETIME"[..], &key]).int();
        let (here, there) = (expiry(&mut one), expiry(&mut cluster));
        // A lifetime that is set again within a second may stay.
        assert!(here.abs_diff(there) <= 1000, "{key:?}: {here} {there}");
    }
    assert_eq!(cluster.command(&["PEXPIRETIME", "expires"]), Reply::Int(4_102_444_800_123));
}
