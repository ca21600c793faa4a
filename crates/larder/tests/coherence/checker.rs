//! The checker: writers raise numbers in strings and hashes, readers read them through Larder by
//! several ways at once, and chaos kills connections and Redis. It fails on a session that sees a
//! number go back, and on a read that is older than allowed.
//!
//! `LARDER_COHERENCE_SECONDS=600 cargo test -p larder --test integration coherence::checker` runs
//! it for longer than the suite does.
use super::{BOUND, before, http, kill_tracking, source_metric, tracking};
use super::{
    common::{Client, PATIENCE, RedisServer, Reply, wait_until},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{scope, sleep},
    time::{Duration, Instant},
};

const KEYS: usize = 48;
/// Keys from here on are written through Larder, the others directly.
const THROUGH: usize = 32;
const READERS: u64 = 4;
/// Every so many keys is a hash, whose replies are kept; the others are strings, whose values are,
/// and replies about them.
const HASHES: usize = 3;
/// To Redis: two of each thread.
const CONNECTIONS: usize = 4;

/// From when until when; `None`: it is not over.
type Span = (Instant, Option<Instant>);

/// What Redis has acknowledged.
struct World {
    /// Each from its begin until Larder is connected again; `None`: copies do not outlast them.
    storms: Option<Mutex<Vec<Span>>>,
    /// For each key its numbers, rising, and when each was acknowledged.
    acknowledged: Vec<Mutex<Vec<(u64, Instant)>>>,
    /// The last number of each key that was sent, acknowledged or not.
    sent: Vec<AtomicU64>,
    /// From the beginning of each loss of all data until every key was written again.
    losses: Mutex<Vec<Span>>,
    /// Writers hold it to read while they write; who loses the data holds it alone.
    calm: RwLock<()>,
    over: AtomicBool,
    reads: AtomicU64,
    errors: AtomicU64,
}

impl World {
    fn new(copies_outlast: bool) -> World {
        World {
            storms: copies_outlast.then(Mutex::default),
            acknowledged: (0..KEYS).map(|_| Mutex::default()).collect(),
            sent: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            losses: Mutex::default(),
            calm: RwLock::default(),
            over: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        }
    }
    /// Raises a key's number; the one that was acknowledged.
    fn write(&self, key: usize, client: &mut Client) -> Option<u64> {
        let number = self.sent[key].fetch_add(1, Relaxed) + 1;
        let (name, text) = (name(key), number.to_string());
        let reply = match is_hash(key) {
            true => client.command(&["HSET", &name, "n", &text]),
            false => client.command(&["SET", &name, &text]),
        };
        match reply {
            Reply::Error(_) => None,
            reply => {
                assert!(matches!(reply, Reply::Int(0 | 1)) || reply == Reply::ok(), "{reply:?}");
                self.acknowledged[key].lock().unwrap().push((number, Instant::now()));
                Some(number)
            }
        }
    }
    /// When what was acknowledged at a moment must be seen; `None`: this is not known yet.
    fn due(&self, acknowledged: Instant) -> Option<Instant> {
        let Some(storms) = &self.storms else { return Some(acknowledged + BOUND) };
        let storms = storms.lock().unwrap();
        // The last that may have kept it from being seen in time.
        match storms.iter().rfind(|(from, _)| *from <= acknowledged + BOUND) {
            None => Some(acknowledged + BOUND),
            Some((_, to)) => to.map(|to| to.max(acknowledged) + BOUND),
        }
    }
    /// The least number that a read may see that began at `began`.
    fn floor(&self, key: usize, began: Instant) -> u64 {
        let acknowledged = self.acknowledged[key].lock().unwrap();
        let old = acknowledged.partition_point(|(_, at)| self.due(*at).is_some_and(|due| due <= began));
        old.checked_sub(1).map_or(0, |last| acknowledged[last].0)
    }
    /// May a read between these moments have found nothing?
    fn may_be_absent(&self, began: Instant, ended: Instant) -> bool {
        let is_over = |to: Option<Instant>| to.and_then(|to| self.due(to)).is_some_and(|due| due < began);
        self.losses.lock().unwrap().iter().any(|(from, to)| *from <= ended && !is_over(*to))
    }
    /// Storms, and until Larder is connected again.
    fn storm(&self, redis: &mut RedisServer, storm: impl FnOnce(&mut RedisServer)) {
        if let Some(storms) = &self.storms {
            storms.lock().unwrap().push((Instant::now(), None));
        }
        storm(redis);
        wait_until("Larder to be connected again", || self.over.load(Relaxed) || tracking(redis).len() >= CONNECTIONS);
        if let Some(storms) = &self.storms {
            storms.lock().unwrap().last_mut().unwrap().1 = Some(Instant::now());
        }
    }
    /// Loses all data, and writes every key again.
    fn lose(&self, redis: &mut RedisServer, how: impl FnOnce(&mut RedisServer)) {
        let _alone = self.calm.write().unwrap();
        self.losses.lock().unwrap().push((Instant::now(), None));
        how(redis);
        let mut client = redis.client();
        for key in 0..KEYS {
            assert!(self.write(key, &mut client).is_some(), "Redis takes it");
        }
        self.losses.lock().unwrap().last_mut().unwrap().1 = Some(Instant::now());
    }
}
fn name(key: usize) -> String {
    format!("key:{key}")
}

fn is_hash(key: usize) -> bool {
    key.is_multiple_of(HASHES)
}

/// A small generator of pseudo-random numbers: a run can be repeated, as far as threads allow.
pub(super) struct Random(pub(super) u64);
impl Random {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }
}

/// One user who reads now here, now there: whatever was seen once must not be followed by anything
/// older.
fn session(world: &World, larder: &Larder, seed: u64) {
    let mut random = Random(seed);
    let mut doors = [larder.client(), larder.client(), larder.client()];
    let mut seen = [0u64; KEYS];
    while !world.over.load(Relaxed) {
        let mut keys: Vec<usize> = (0..1 + random.below(3)).map(|_| random.below(KEYS)).collect();
        match is_hash(keys[0]) {
            true => keys.truncate(1),
            false => keys.retain(|key| !is_hash(*key)),
        }
        // Reads of one command are of one moment: none is later than another.
        keys.sort_unstable();
        keys.dedup();
        let door = random.below(doors.len());
        let client = &mut doors[door];
        let began = Instant::now();
        let (way, answers) = match random.below(400) {
            way @ 1.. if is_hash(keys[0]) => hash_read(client, &name(keys[0]), way),
            1..=20 => ("HTTP", vec![http(larder, &name(keys[0]))]),
            // Seldom: it drops the copy, and with it a change that was missed.
            0 => ("EXEC", exec(client, keys[0])),
            21..=100 => {
                let command: Vec<String> =
                    std::iter::once("MGET".into()).chain(keys.iter().map(|k| name(*k))).collect();
                match client.command(&command) {
                    Reply::Array(Some(answers)) => ("MGET", answers),
                    error => ("MGET", vec![error]),
                }
            }
            // From a copy of the value, or of its own.
            101..=180 => ("GETRANGE", vec![some(client.command(&["GETRANGE", &name(keys[0]), "0", "-1"]))]),
            _ => ("GET", vec![client.command(&["GET", &name(keys[0])])]),
        };
        let ended = Instant::now();
        assert!(ended - began < PATIENCE, "a read hangs");
        for (key, answer) in keys.into_iter().zip(answers) {
            world.reads.fetch_add(1, Relaxed);
            let number: u64 = match answer {
                Reply::Bulk(Some(text)) => String::from_utf8(text).unwrap().parse().unwrap(),
                Reply::Bulk(None) => {
                    assert!(world.may_be_absent(began, ended), "{way}: key {key} is absent");
                    continue;
                }
                _ => {
                    world.errors.fetch_add(1, Relaxed);
                    continue;
                }
            };
            assert!(number >= seen[key], "{way}: key {key} went back from {} to {number}", seen[key]);
            seen[key] = number;
            let floor = world.floor(key, began);
            assert!(number >= floor, "{way}: key {key} is {number}, {floor} was acknowledged long before");
        }
    }
}
/// A read of a hash's number by one of several commands, whose replies are kept one by one.
fn hash_read(client: &mut Client, key: &str, way: usize) -> (&'static str, Vec<Reply>) {
    let (way, reply) = match way % 4 {
        0 => ("HMGET", client.command(&["HMGET", key, "n"])),
        1 => ("HVALS", client.command(&["HVALS", key])),
        _ => ("HGET", client.command(&["HGET", key, "n"])),
    };
    match reply {
        Reply::Array(Some(values)) if values.is_empty() => (way, vec![Reply::Bulk(None)]),
        Reply::Array(Some(values)) => (way, values),
        reply => (way, vec![reply]),
    }
}
/// An empty part is one of nothing.
fn some(reply: Reply) -> Reply {
    if reply == Reply::Bulk(Some(Vec::new())) { Reply::Bulk(None) } else { reply }
}
/// A read that goes straight to Redis.
fn exec(client: &mut Client, key: usize) -> Vec<Reply> {
    let name = name(key);
    let read = if is_hash(key) { vec!["HGET", &name, "n"] } else { vec!["GET", &name] };
    [&["MULTI"][..], &read, &["EXEC"]].iter().for_each(|command| client.send(command).unwrap());
    let mut replies = (0..3).map(|_| client.read().unwrap());
    match replies.by_ref().last() {
        Some(Reply::Array(Some(values))) => values,
        other => vec![other.unwrap()],
    }
}

fn writer(world: &World, larder: &Larder, redis_port: u16, through: bool, seed: u64) {
    let mut random = Random(seed);
    let connect = || if through { larder.client() } else { Client::connect(redis_port).unwrap() };
    let mut client = None;
    while !world.over.load(Relaxed) {
        sleep(Duration::from_micros(200 * random.below(5) as u64));
        let _calm = world.calm.read().unwrap();
        let key = match through {
            true => THROUGH + random.below(KEYS - THROUGH),
            false => random.below(THROUGH),
        };
        // Redis may have been restarted since the last write.
        let known = client.take().filter(|client: &Client| through || alive(client));
        let client = client.insert(known.unwrap_or_else(connect));
        if let (Some(number), true) = (world.write(key, client), through) {
            // Its own write, at once.
            let name = name(key);
            let read = if is_hash(key) { vec!["HGET", &name, "n"] } else { vec!["GET", &name] };
            match client.command(&read) {
                Reply::Bulk(Some(text)) => assert_eq!(String::from_utf8(text).unwrap(), number.to_string()),
                Reply::Error(_) => {}
                other => panic!("key {key}: {other:?} after {number} was written"),
            }
        }
    }
}
fn alive(client: &Client) -> bool {
    client.is_open()
}

/// Storms, and calms between them that are longer than the bound: each loss empties the group,
/// which would hide a change that was missed.
fn chaos(world: &World, redis: &mut RedisServer, length: Duration) {
    const CALM: Duration = Duration::from_millis(1200);
    const STORM: Duration = Duration::from_millis(800);
    let start = Instant::now();
    let mut random = Random(7);
    let goes_on = || start.elapsed() < length && !world.over.load(Relaxed);
    while goes_on() {
        let calm = Instant::now();
        while calm.elapsed() < CALM && goes_on() {
            sleep(Duration::from_millis(20));
        }
        world.storm(redis, |redis| {
            let storm = Instant::now();
            while storm.elapsed() < STORM && goes_on() {
                sleep(Duration::from_millis(10 + random.below(80) as u64));
                match random.below(12) {
                    0 => world.lose(redis, RedisServer::restart),
                    1 | 2 => world.lose(redis, |redis| assert_eq!(redis.command(&["FLUSHALL"]), Reply::ok())),
                    _ => drop(kill_tracking(redis)),
                }
            }
        });
    }
}

/// Ends the others when its thread ends, by a panic too.
struct Over<'w>(&'w World);
impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

fn check(larder_args: &[&str], copies_outlast: bool) {
    let mut redis = RedisServer::start();
    let larder = before(&redis, &[&["--threads", "2", "--source-connections", "2"], larder_args].concat());
    let world = &World::new(copies_outlast);
    let port = redis.port();
    world.lose(&mut redis, |_| ());
    scope(|scope| {
        let larder = &larder;
        for (through, seed) in [(false, 1), (true, 2)] {
            scope.spawn(move || {
                let _over = Over(world);
                writer(world, larder, port, through, seed);
            });
        }
        for seed in 0..READERS {
            scope.spawn(move || {
                let _over = Over(world);
                session(world, larder, 100 + seed);
            });
        }
        let _over = Over(world);
        // Longer on a machine that is so busy that little was tried.
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE && !world.over.load(Relaxed) {
            chaos(world, &mut redis, length());
            if larder.metric("larder_cache_reply_hits_total{group=\"default\"}") > 100.0 {
                break;
            }
        }
    });
    let (reads, errors) = (world.reads.load(Relaxed), world.errors.load(Relaxed));
    let hits = larder.metric("larder_cache_hits_total{group=\"default\"}");
    let counts = ["tracking_losses_total", "invalidations_total"].map(|name| source_metric(&larder, name));
    let replies = larder.metric("larder_cache_reply_hits_total{group=\"default\"}");
    assert!(replies > 100.0, "replies were kept");
    println!(
        "{reads} reads, {errors} errors, {hits} hits, {replies} of them replies; losses, invalidations: {counts:?}"
    );
    assert!(hits > 100.0 && errors < reads / 2, "it was a cache that was tried");
    assert!(counts[0] > 0.0 && counts[1] > 0.0, "and its faults");
}

/// How long each run takes.
pub(super) fn length() -> Duration {
    let seconds = std::env::var("LARDER_COHERENCE_SECONDS").ok();
    Duration::from_secs(seconds.map_or(5, |seconds| seconds.parse().expect("a number of seconds")))
}

#[test]
fn checker_finds_nothing() {
    check(&["--negative-ttl", "1h"], true);
}

#[test]
fn checker_finds_nothing_where_no_copy_outlasts_redis() {
    check(&["--negative-ttl", "1h", "--stale-if-error", "0s"], false);
}

#[test]
fn checker_finds_nothing_with_prefixes() {
    check(&["--negative-ttl", "1h", "--tracking-prefixes", "key:", "--stale-if-error", "0s"], false);
}

#[test]
fn checker_finds_nothing_where_copies_outlast_redis() {
    check(&["--negative-ttl", "1h", "--ttl", "1h"], true);
}

/// What a snapshot has is old: values change while Larder is away, and while it verifies what it
/// has restored.
#[test]
fn checker_finds_nothing_in_restored_copies() {
    let mut redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let file = format!("--snapshot-file={}", dir.path().join("snapshot").display());
    let world = &World::new(false);
    world.lose(&mut redis, |_| ());
    let (port, begun) = (redis.port(), Instant::now());
    let (mut same, mut changed, mut round) = (0, 0, 0);
    while begun.elapsed() < length() || round < 3 {
        let larder = before(&redis, &["--threads", "2", &file, "--restore", "--restore-verify-rate", "100"]);
        world.over.store(false, Relaxed);
        scope(|scope| {
            let larder = &larder;
            for through in [false, true] {
                scope.spawn(move || {
                    let _over = Over(world);
                    writer(world, larder, port, through, round);
                });
            }
            for seed in 0..READERS {
                scope.spawn(move || {
                    let _over = Over(world);
                    session(world, larder, 100 * round + seed);
                });
            }
            let _over = Over(world);
            sleep(Duration::from_millis(700));
        });
        let status: serde_json::Value = serde_json::from_str(&larder.get("/v1/snapshot")).unwrap();
        let count = |found: &str| status["verification"][found].as_u64().unwrap_or(0);
        (same, changed) = (same + count("same"), changed + count("changed"));
        end(larder);
        let mut client = redis.client();
        for key in (0..KEYS).filter(|key| key % 2 == 0) {
            assert!(world.write(key, &mut client).is_some(), "Redis takes it");
        }
        round += 1;
    }
    println!("{} reads, {same} copies were as before, {changed} had changed", world.reads.load(Relaxed));
    assert!(same > 0 && changed > 0, "restored copies were verified");
}

fn end(mut larder: Larder) {
    larder.signal(Signal::TERM);
    let (status, _) = larder.wait();
    assert!(status.success(), "{status}: {}", larder.stderr());
}
