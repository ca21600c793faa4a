//! Copies of a Redis with `coherence = coherent` over a restart: they are read from that Redis
//! again before they are served.
use super::*;
use serde_json::Value;

const KEYS: usize = 1000;

/// What the admin route says of the verification.
fn verification(larder: &Larder) -> Value {
    let status: Value = serde_json::from_str(&larder.get("/v1/snapshot")).unwrap();
    status["verification"].clone()
}
fn wait_until_verified(larder: &Larder) {
    wait_until("restored copies to be verified", || verification(larder)["done"] == true);
}
fn get(client: &mut Client, key: usize) -> Reply {
    ask(client, &format!("GET key:{key}"))
}

/// A Redis with these keys, and the snapshot of a Larder that has read them all. The first hundred
/// were read more often.
fn restarted(scratch: &Scratch) -> RedisServer {
    let redis = RedisServer::start();
    let mut client = redis.client();
    (0..KEYS).for_each(|key| assert_eq!(ask(&mut client, &format!("SET key:{key} old:{key}")), Reply::ok()));
    let larder = scratch.start(&["--source", &redis.url()]);
    let mut client = larder.client();
    wait_until("all keys to be kept", || {
        (0..KEYS).for_each(|key| assert_eq!(get(&mut client, key), Reply::bulk(format!("old:{key}"))));
        larder.metric("larder_cache_entries{group=\"default\"}") == KEYS as f64
    });
    for _ in 0..4 {
        (0..100).for_each(|key| assert_eq!(get(&mut client, key), Reply::bulk(format!("old:{key}"))));
    }
    terminate(larder);
    assert!(text(&snapshot("verify", &scratch.file).stdout).contains("1000 entries, sound"));
    redis
}

#[test]
fn what_is_served_after_a_restart_is_what_redis_has() {
    let scratch = Scratch::new();
    let redis = restarted(&scratch);
    let mut direct = redis.client();
    for key in 0..300 {
        let changed = match key / 100 {
            0 => ask(&mut direct, &format!("SET key:{key} new:{key}")),
            1 => ask(&mut direct, &format!("DEL key:{key}")),
            _ => {
                ask(&mut direct, &format!("DEL key:{key}"));
                ask(&mut direct, &format!("RPUSH key:{key} element"))
            }
        };
        assert!(!matches!(changed, Reply::Error(_)));
    }
    let larder = scratch.restore(&["--source", &redis.url()]);
    wait_until_verified(&larder);
    let found = verification(&larder);
    let counts = ["entries", "same", "changed", "gone", "overtaken"].map(|name| found[name].as_u64().unwrap());
    assert_eq!(counts, [1000, 700, 200, 100, 0]);
    assert_eq!(larder.metric("larder_snapshot_verified_total{found=\"same\"}"), 700.0);
    assert_eq!(larder.metric("larder_snapshot_unverified"), 0.0);
    let mut client = larder.client();
    let gets = redis.calls("get");
    (300..KEYS).for_each(|key| assert_eq!(get(&mut client, key), Reply::bulk(format!("old:{key}"))));
    (0..100).for_each(|key| assert_eq!(get(&mut client, key), Reply::bulk(format!("new:{key}"))));
    assert_eq!(redis.calls("get"), gets, "all that was in memory again");
    (100..200).for_each(|key| assert_eq!(get(&mut client, key), Reply::nil()));
    assert!(matches!(get(&mut client, 200), Reply::Error(text) if text.starts_with("WRONGTYPE")));
    // And Redis announces its changes.
    assert_eq!(ask(&mut direct, "SET key:700 changed"), Reply::ok());
    wait_until("the change to be seen", || get(&mut client, 700) == Reply::bulk("changed"));
}

#[test]
fn the_most_read_come_first_and_what_is_asked_for_is_verified_at_once() {
    let scratch = Scratch::new();
    let redis = restarted(&scratch);
    assert_eq!(redis.command(&["SET", "key:500", "new"]), Reply::ok());
    // Five keys at a time, twenty times a second.
    let larder = scratch.restore(&["--source", &redis.url(), "--restore-verify-rate=100"]);
    let mut client = larder.client();
    assert_eq!(get(&mut client, 500), Reply::bulk("new"), "it is not verified yet");
    wait_until("the hottest to be verified", || verification(&larder)["same"].as_u64().unwrap() >= 100);
    assert_ne!(verification(&larder)["done"], true, "the others are still to come");
    let gets = redis.calls("get");
    (0..100).for_each(|key| assert_eq!(get(&mut client, key), Reply::bulk(format!("old:{key}"))));
    // The verification goes on meanwhile.
    let fetched = redis.calls("get") - gets;
    assert!(fetched < 50, "{fetched} fetches for the 100 hottest keys");
    // A snapshot that is written now lacks the rest: the one before is kept.
    terminate(larder);
    let old = scratch.dir.path().join("snapshot.old");
    assert!(text(&snapshot("verify", &old).stdout).contains("1000 entries, sound"));
    assert!(!text(&snapshot("verify", &scratch.file).stdout).contains("1000 entries"));
}

#[test]
fn nothing_restored_is_served_while_redis_cannot_be_asked() {
    let scratch = Scratch::new();
    let mut redis = restarted(&scratch);
    redis.kill();
    let larder = scratch.start(&["--restore", "--source", &redis.url(), "--stale-if-error=1h"]);
    wait_until("the snapshot to be read", || larder.get("/v1/snapshot").contains("\"done\":true,\"expired\""));
    let mut client = larder.client();
    assert!(matches!(get(&mut client, 1), Reply::Error(_)), "nobody knows whether it has changed");
    redis.restart();
    assert_eq!(redis.command(&["SET", "key:1", "other data"]), Reply::ok());
    wait_until_verified(&larder);
    assert_eq!(get(&mut client, 1), Reply::bulk("other data"));
    assert_eq!(get(&mut client, 2), Reply::nil());
    assert_eq!(verification(&larder)["same"], 0);
}

#[test]
fn a_group_that_never_serves_stale_copies_is_saved_at_the_end_as_well() {
    let (scratch, redis) = (Scratch::new(), RedisServer::start());
    let url = redis.url();
    let args = ["--source", &*url, "--stale-if-error=0s"];
    assert_eq!(redis.command(&["SET", "key:1", "value"]), Reply::ok());
    let larder = scratch.start(&args);
    let mut client = larder.client();
    wait_until("the key to be kept", || {
        assert_eq!(get(&mut client, 1), Reply::bulk("value"));
        larder.metric("larder_cache_entries{group=\"default\"}") == 1.0
    });
    terminate(larder);
    let larder = scratch.restore(&args);
    wait_until_verified(&larder);
    assert_eq!(verification(&larder)["same"], 1);
}
