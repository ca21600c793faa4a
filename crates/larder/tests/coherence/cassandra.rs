//! The checker on Cassandra: writers raise numbers through two Larders, and past them; readers read at
//! both. It fails on a session at one Larder that sees a number go back, on a read at the Larder
//! that wrote which misses its own write, and on a read that is older than `ttl` allows.
use super::{
    checker::{Random, length},
    common::{Client, Reply, wait_until},
    larder::Larder,
};
use crate::cassandra::server::CassandraNode;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::scope,
    time::{Duration, Instant},
};

const KEYS: usize = 24;
const TTL: Duration = Duration::from_millis(500);
/// A copy lives for `TTL` from the end of its fetch, which takes `source-timeout` (2 s) at most: on a
/// machine with time for it.
const BOUND: Duration = Duration::from_millis(6_000);

struct World {
    larders: [Larder; 2],
    /// For each key its numbers, rising, and when each was acknowledged.
    acknowledged: Vec<Mutex<Vec<(u64, Instant)>>>,
    over: AtomicBool,
    reads: AtomicU64,
}

/// Ends the others when its thread ends, by a panic too.
struct Over<'w>(&'w World);
impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

fn name(key: usize) -> String {
    format!("key:{key}")
}

/// `None`: the cluster did not answer in time.
fn number(client: &mut Client, key: usize) -> Option<u64> {
    match client.command(&["GET", &name(key)]) {
        Reply::Bulk(Some(text)) => Some(String::from_utf8(text).unwrap().parse().unwrap()),
        Reply::Error(error) if error.contains("source unavailable") => None,
        other => panic!("key {key}: {other:?}"),
    }
}

impl World {
    /// Writes each third key through the first Larder, each third through the second, and the others
    /// past both.
    fn write(&self, node: &CassandraNode) {
        let mut clients = self.larders.each_ref().map(Larder::client);
        let (mut random, mut is_doubtful) = (Random(1), [false; KEYS]);
        for value in (1u64..).take_while(|_| !self.over.load(Relaxed)) {
            let key = random.below(KEYS);
            match clients.get_mut(key % 3) {
                // A write without an answer may still be made: after a later one, it would hide that.
                Some(_) if is_doubtful[key] => continue,
                Some(client) => match client.command(&["SET", &name(key), &value.to_string()]) {
                    Reply::Error(error) if error.contains("source unavailable") => {
                        is_doubtful[key] = true;
                        continue;
                    }
                    reply => {
                        assert_eq!(reply, Reply::ok());
                        assert_eq!(number(client, key).unwrap_or(value), value, "its own write, at once");
                    }
                },
                None => drop(node.cql(&[&format!("UPDATE coherence.t SET v = '{value}' WHERE k = '{}'", name(key))])),
            }
            self.acknowledged[key].lock().unwrap().push((value, Instant::now()));
        }
    }

    /// One client of one Larder: whatever it saw once must not be followed by anything older.
    fn session(&self, larder: &Larder, seed: u64) {
        let (mut client, mut random, mut seen) = (larder.client(), Random(seed), [0; KEYS]);
        while !self.over.load(Relaxed) {
            let (key, began) = (random.below(KEYS), Instant::now());
            let Some(found) = number(&mut client, key) else { continue };
            assert!(found >= seen[key], "key {key} went back from {} to {found}", seen[key]);
            seen[key] = found;
            let acknowledged = self.acknowledged[key].lock().unwrap();
            let old = acknowledged.partition_point(|(_, at)| *at + BOUND <= began);
            let floor = old.checked_sub(1).map_or(0, |last| acknowledged[last].0);
            assert!(found >= floor, "key {key} is {found}, {floor} was acknowledged long before");
            self.reads.fetch_add(1, Relaxed);
        }
    }
}

#[test]
#[ignore = "make test-clients"]
fn cassandra_is_never_older_than_ttl() {
    let node = CassandraNode::shared();
    node.cql(&[
        "CREATE KEYSPACE IF NOT EXISTS coherence WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE coherence.t (k text PRIMARY KEY, v text)",
    ]);
    let url = format!("{}?table=t&columns=v", node.bare_url("coherence"));
    let ttl = format!("{}ms", TTL.as_millis());
    let options = ["--source", &url, "--ttl", &ttl, "--source-timeout", "2s", "--stale-if-error", "0s"];
    let larders = [(); 2].map(|()| Larder::start(&options));
    let world = World {
        larders,
        acknowledged: (0..KEYS).map(|_| Mutex::default()).collect(),
        over: AtomicBool::new(false),
        reads: AtomicU64::new(0),
    };
    let mut client = world.larders[0].client();
    for key in 0..KEYS {
        wait_until("the first value", || client.command(&["SET", &name(key), "0"]) == Reply::ok());
    }
    scope(|scope| {
        let world = &world;
        scope.spawn(move || {
            let _over = Over(world);
            world.write(&node);
        });
        for seed in 0..4 {
            scope.spawn(move || {
                let _over = Over(world);
                world.session(&world.larders[seed % 2], 100 + seed as u64);
            });
        }
        let (_over, begun) = (Over(world), Instant::now());
        let hits = || world.larders.iter().map(|larder| larder.metric("larder_cache_hits_total")).sum::<f64>();
        wait_until("enough to be tried", || {
            let writes: usize = world.acknowledged.iter().map(|of| of.lock().unwrap().len()).sum();
            world.over.load(Relaxed) || begun.elapsed() >= length().max(2 * BOUND) && writes > 50 && hits() > 100.0
        });
    });
    println!("{} reads", world.reads.load(Relaxed));
}
