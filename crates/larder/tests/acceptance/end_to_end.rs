//! What Larder promises, tried from outside.
use crate::{
    common::{RedisServer, Reply, wait_until},
    http_client::{get, lookup},
    larder::Larder,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    sync::Barrier,
    time::{Duration, Instant},
};

const MIB: usize = 1 << 20;

/// `larder serve` before a Redis.
fn before(redis: &RedisServer, more: &[&str]) -> Larder {
    Larder::start(&[&["--source", &redis.url()], more].concat())
}

fn set(redis: &RedisServer, key: &str, value: &str) {
    assert_eq!(redis.command(&["SET", key, value]), Reply::ok());
}

#[test]
fn lookup_reads_through_to_redis() {
    let redis = RedisServer::start();
    set(&redis, "0", "0");
    set(&redis, "umlaut", "ü\"\\\n");
    let mut larder = before(&redis, &["--threads", "1"]);
    assert_eq!(get(&larder, "/lookup?key=0"), (200, r#"{"key": "0", "value": "0", "status": 200}"#.into()));
    assert_eq!(lookup(&larder, "umlaut"), (200, json!("ü\"\\\n")));
    assert_eq!(lookup(&larder, "absent"), (404, Value::Null));
    for target in ["/lookup", "/lookup?key=", "/lookup?other=1"] {
        let nothing = r#"{"key": null, "value": null, "status": 400}"#;
        assert_eq!(get(&larder, target), (400, nothing.into()), "{target}");
    }
    assert_eq!(redis.calls("get") + redis.calls("mget"), 3);
    assert_eq!(larder.client().command(&["GET", "0"]), Reply::bulk("0"));
    assert_eq!(redis.calls("get") + redis.calls("mget"), 3, "one cache for both protocols");
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
}

#[test]
fn an_old_value_lives_for_at_most_the_ttl() {
    const TTL: Duration = Duration::from_secs(10);
    let redis = RedisServer::start();
    set(&redis, "k", "old");
    let larder = before(&redis, &["--coherence", "ttl", "--ttl", "10s"]);
    let start = Instant::now();
    assert_eq!(lookup(&larder, "k"), (200, json!("old")));
    let filled = Instant::now();
    set(&redis, "k", "new");
    let mut seen = lookup(&larder, "k");
    assert_eq!(seen, (200, json!("old")), "cached");
    while seen.1 == "old" {
        std::thread::sleep(Duration::from_millis(20));
        let asked = filled.elapsed();
        seen = lookup(&larder, "k");
        // Asked before its lifetime's end, an answer may be old; asked after it, none may.
        assert!(seen.1 != "old" || asked < TTL + Duration::from_millis(200), "old after {asked:?}");
    }
    assert_eq!(seen, (200, json!("new")));
    assert!(start.elapsed() > TTL - Duration::from_millis(100), "kept for the TTL, not for {:?}", start.elapsed());
}

#[test]
fn the_key_after_the_last_evicts_one() {
    let mut redis = RedisServer::start();
    let keys: Vec<String> = (0..=1000).map(|i| format!("key:{i}")).collect();
    let pairs = keys.iter().flat_map(|key| [key.as_str(), "v"]);
    assert_eq!(redis.command(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>()), Reply::ok());
    // The source's end shows what the tier holds: the rest is unavailable.
    let larder = before(&redis, &["--ttl", "1h", "--max-keys", "1000"]);
    for key in &keys[..1000] {
        assert_eq!(lookup(&larder, key), (200, json!("v")));
    }
    let fetched = redis.calls("get") + redis.calls("mget");
    let (status, _) = lookup(&larder, &keys[7]);
    assert_eq!((status, redis.calls("get") + redis.calls("mget")), (200, fetched), "all thousand fit");
    assert_eq!(lookup(&larder, &keys[1000]), (200, json!("v")));
    redis.kill();
    let statuses: Vec<u16> = keys.iter().map(|key| lookup(&larder, key).0).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1000);
    assert_eq!(statuses.iter().filter(|status| **status == 503).count(), 1);
}

#[test]
fn a_source_that_dies_and_returns() {
    let mut redis = RedisServer::start();
    set(&redis, "cached", "1");
    let mut larder = before(&redis, &["--max-keys", "1000", "--ttl", "1h"]);
    assert_eq!(lookup(&larder, "cached"), (200, json!("1")));
    assert_eq!(get(&larder, "/readyz").0, 200);
    redis.kill();

    let start = Instant::now();
    assert_eq!(lookup(&larder, "cached"), (200, json!("1")));
    assert_eq!(lookup(&larder, "other"), (503, Value::Null));
    let mut client = larder.client();
    let refused = client.command(&["GET", "another"]);
    assert!(refused.error().starts_with("ERR source unavailable: "), "{refused:?}");
    let refused = client.command(&["SET", "cached", "2"]);
    assert!(refused.error().starts_with("ERR source unavailable: "), "{refused:?}");
    assert_eq!(client.command(&["GET", "cached"]), Reply::bulk("1"), "a refused write changes nothing");
    assert!(start.elapsed() < Duration::from_secs(15), "sooner than one deadline, not {:?}", start.elapsed());

    redis.restart();
    set(&redis, "other", "2");
    wait_until("the source is used again", || lookup(&larder, "other") == (200, json!("2")));
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
}

#[test]
fn two_hundred_misses_are_one_get() {
    const CALLERS: usize = 200;
    let redis = RedisServer::start();
    set(&redis, "hot", "1");
    for threads in ["1", "2"] {
        // A deadline that no busy machine meets by accident.
        let larder = before(&redis, &["--threads", threads, "--source-timeout", "20s"]);
        assert_eq!(redis.command(&["CONFIG", "RESETSTAT"]), Reply::ok());
        // All ask while Redis does not answer, so that all are misses.
        redis.stop();
        let ready = Barrier::new(CALLERS + 1);
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (ready, larder) = (&ready, &larder);
                scope.spawn(move || {
                    if caller % 2 == 0 {
                        ready.wait();
                        assert_eq!(lookup(larder, "hot"), (200, json!("1")));
                    } else {
                        let mut client = larder.client();
                        ready.wait();
                        assert_eq!(client.command(&["GET", "hot"]), Reply::bulk("1"));
                    }
                });
            }
            ready.wait();
            // Long enough for most of them to ask, short enough for the deadline; who asks later has a hit,
            // which is no GET either.
            std::thread::sleep(Duration::from_millis(200));
            redis.cont();
        });
        assert_eq!(redis.calls("get") + redis.calls("mget"), 1, "with {threads} threads");
    }
}

#[test]
fn memory_stays_within_the_bound() {
    let mut larder = Larder::start(&["--max-memory", "64MiB"]);
    let mut client = larder.client();
    // Values of 100 B to 100 KiB, deep pipelines: 1 GiB, sixteen times the bound.
    let value = vec![b'x'; 100 * 1024];
    let mut random = 1u64;
    let (mut written, mut key, mut highest) = (0, 0u64, 0);
    while written < 1024 * MIB {
        for _ in 0..64 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            // The exponent is uniform, as sizes in caches tend to be.
            let size = (100.0 * 1024f64.powf((random >> 32) as f64 / (1u64 << 32) as f64)) as usize;
            client.send(&[b"SET".as_slice(), format!("key:{key}").as_bytes(), &value[..size]]).unwrap();
            (written, key) = (written + size, key + 1);
        }
        for _ in 0..64 {
            assert_eq!(client.read().unwrap(), Reply::ok());
        }
        highest = highest.max(larder.anonymous());
    }
    // The tier, the process without its program, the what-if curves (docs/what-if.md).
    let bound = (64 + 12 + 4) * MIB;
    println!("{} MiB at most", highest / MIB);
    assert!(highest < bound);
    assert!(client.command(&["STRLEN", &format!("key:{}", key - 1)]).int() > 0, "the newest is there");
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
}
