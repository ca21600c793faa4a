//! The checker on PostgreSQL: writers on the database add one to rows, singly, in bulk, and in
//! transactions that roll back; readers read sums through Larder. Chaos kills streams, the database
//! and Larder. It fails on a session that sees a sum go back, and on a read that is older than
//! allowed.
//!
//! Where a standby delays commits, writers take one key after the other, and readers read those that
//! were written last: a copy of an old row, stored while its commit waited, is not mended by the next
//! change, and is read until it is older than allowed.
use super::checker::{Random, length};
use crate::{
    common::{Client, PATIENCE, Reply, wait_until},
    larder::Larder,
    postgres::{Settings, changes::standby_of, server::PostgresServer, sql_client::SqlClient},
};
use rustix::process::Signal;
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    thread::{scope, sleep},
    time::{Duration, Instant},
};

/// Keys that are written at random, and those that are written in turn.
const KEYS: (usize, usize) = (32, 4096);
/// In turn: so many of the last are read.
const RECENT: usize = 400;
/// Rows of each key. Writers of different rows do not wait for each other.
const PARTS: usize = 3;
const READERS: u64 = 3;
/// A stream that is further behind than 1 s and `source-timeout` vouches for nothing: decision 0145.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(1);
/// How soon after its commit a change must be visible: that bound, and what a machine takes that has
/// more to do than its cores can.
const BOUND: Duration = Duration::from_secs(3);

const TABLE: &str = "CREATE TABLE counters (id int, part int, n bigint NOT NULL, PRIMARY KEY (id, part));
    INSERT INTO counters SELECT id, part, 0 FROM generate_series(0, 33333) id, generate_series(0, 2) part";
const QUERY: &str = "threads = 2\nstale-if-error = \"0s\"\n[prefixes.\"sum:\"]\n\
    query = \"SELECT sum(n) FROM counters WHERE id = $1\"\ndepends-on = [\"counters.id\"]\n";

/// What the database has acknowledged.
struct World {
    /// When each addition to a key was acknowledged.
    acknowledged: Vec<Mutex<Vec<Instant>>>,
    /// Writes that have begun, where keys are written in turn.
    turn: Option<AtomicUsize>,
    over: AtomicBool,
    /// Larder, or the stream, is away: from when until when.
    storms: Mutex<Vec<(Instant, Option<Instant>)>>,
    port: AtomicU64,
    reads: AtomicU64,
    errors: AtomicU64,
    /// The worst age of a read outside of storms, micros.
    worst: AtomicU64,
}
impl World {
    /// Additions that a read which begins now must have seen.
    fn floor(&self, key: usize, began: Instant) -> (usize, usize) {
        let acknowledged = self.acknowledged[key].lock().unwrap();
        let due = |at: &Instant| self.due(*at) <= Some(began);
        (acknowledged.partition_point(|at| due(at)), acknowledged.partition_point(|at| *at <= began))
    }
    fn due(&self, at: Instant) -> Option<Instant> {
        let storms = self.storms.lock().unwrap();
        match storms.iter().rfind(|(from, _)| *from <= at + BOUND) {
            None => Some(at + BOUND),
            Some((_, Some(to))) => Some((*to).max(at) + BOUND),
            // Nothing is due while it lasts.
            Some((_, None)) => Some(at + PATIENCE),
        }
    }
    /// A key to read.
    fn key(&self, random: &mut Random) -> usize {
        let keys = self.acknowledged.len();
        let Some(turn) = &self.turn else { return random.below(keys) };
        (keys + turn.load(Relaxed) - random.below(RECENT)) % keys
    }
    fn storm(&self, larder: &mut Larder, storm: impl FnOnce(&mut Larder)) {
        self.storms.lock().unwrap().push((Instant::now(), None));
        storm(larder);
        wait_until("the stream to be back", || {
            self.over.load(Relaxed) || larder.metric("larder_source_tracking_connections{group=\"default\"}") == 1.0
        });
        self.storms.lock().unwrap().last_mut().unwrap().1 = Some(Instant::now());
    }
}

/// Ends the others when its thread ends, by a panic too.
struct Over<'w>(&'w World);
impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Relaxed);
    }
}

fn writer(world: &World, seed: u64, first: &str, is_bulk: bool) {
    let mut random = Random(seed);
    let mut client = None;
    while !world.over.load(Relaxed) {
        let port = u16::try_from(world.port.load(Relaxed)).unwrap();
        let Some(sql) = client.take().or_else(|| {
            let mut client = SqlClient::connect(port).ok()?;
            client.run(first).ok().map(|_| client)
        }) else {
            sleep(Duration::from_millis(50));
            continue;
        };
        let mut sql: SqlClient = sql;
        let part = random.below(PARTS);
        let all = world.acknowledged.len();
        let turn = world.turn.as_ref().map(|turn| turn.fetch_add(1, Relaxed) % all);
        let (keys, statements) = match random.below(if is_bulk { 1 } else { 8 }) {
            0 if is_bulk => {
                sleep(Duration::from_secs(1));
                (0..all, "UPDATE counters SET n = n + 1".to_owned())
            }
            0 if turn.is_none() => {
                // No key: nothing of it is ever seen.
                let add =
                    format!("BEGIN; UPDATE counters SET n = n + 1000 WHERE id < {all} AND part = {part}; ROLLBACK");
                (0..0, add)
            }
            1 if turn.is_none() => {
                let key = random.below(all);
                let add = format!(
                    "BEGIN; SAVEPOINT s; UPDATE counters SET n = n + 5 WHERE id = {key} AND part = {part}; ROLLBACK TO s; \
                     SAVEPOINT t; UPDATE counters SET n = n + 1 WHERE id = {key} AND part = {part}; COMMIT"
                );
                (key..key + 1, add)
            }
            _ => {
                let key = turn.unwrap_or_else(|| random.below(all));
                (key..key + 1, format!("UPDATE counters SET n = n + 1 WHERE id = {key} AND part = {part}"))
            }
        };
        // An error may have been applied: then sums are higher than what was acknowledged, which is no fault.
        if sql.run(&statements).is_ok() {
            for key in keys {
                let additions = if is_bulk { PARTS } else { 1 };
                world.acknowledged[key].lock().unwrap().extend([Instant::now()].repeat(additions));
            }
            client = Some(sql);
        }
        sleep(Duration::from_micros(300 * random.below(5) as u64));
    }
}

fn session(world: &World, port: u16, seed: u64) {
    let mut random = Random(seed);
    let mut doors = [None, None];
    let mut seen = vec![0usize; world.acknowledged.len()];
    while !world.over.load(Relaxed) {
        let key = world.key(&mut random);
        let began = Instant::now();
        let door: &mut Option<Client> = &mut doors[random.below(2)];
        *door = door.take().or_else(|| Client::connect(port).ok());
        let reply = door.as_mut().and_then(|client| client.try_command(&["GET", &format!("sum:{key}")]).ok());
        let Some(Reply::Bulk(Some(text))) = reply else {
            if reply.is_none() {
                *door = None;
            }
            world.errors.fetch_add(1, Relaxed);
            sleep(Duration::from_millis(1));
            continue;
        };
        world.reads.fetch_add(1, Relaxed);
        let sum: usize = String::from_utf8(text).unwrap().parse().unwrap();
        assert!(sum >= seen[key], "key {key} went back from {} to {sum}", seen[key]);
        seen[key] = sum;
        let (due, known) = world.floor(key, began);
        let since = || world.acknowledged[key].lock().unwrap()[sum].elapsed();
        assert!(sum >= due, "key {key} is {sum}, {due} were acknowledged long before: it is old for {:?}", since());
        let is_calm = world.storms.lock().unwrap().last().is_none_or(|(_, to)| to.is_some_and(|to| to + BOUND < began));
        if sum < known && is_calm {
            let age = began - world.acknowledged[key].lock().unwrap()[sum];
            world.worst.fetch_max(age.as_micros() as u64, Relaxed);
        }
    }
}

/// `first` is what the writers set; `is_hard`: the database is killed, too, which may lose commits
/// that were not written; `in_turn`: how the keys are written.
fn check(server: &mut PostgresServer, first: &str, is_hard: bool, in_turn: bool, end: impl FnOnce(&PostgresServer)) {
    server.sql(TABLE);
    let settings = Settings::of(&server.url(""), QUERY);
    let timeout = format!("--source-timeout={}s", SOURCE_TIMEOUT.as_secs());
    let path = settings.path();
    let args = ["--config", path.to_str().unwrap(), &timeout];
    let mut larder = Larder::start(&args);
    let port = larder.redis;
    wait_until("the stream", || larder.metric("larder_source_tracking_connections{group=\"default\"}") == 1.0);
    end(server);
    let world = &World {
        acknowledged: (0..if in_turn { KEYS.1 } else { KEYS.0 }).map(|_| Mutex::default()).collect(),
        turn: in_turn.then(AtomicUsize::default),
        over: AtomicBool::new(false),
        storms: Mutex::default(),
        port: AtomicU64::new(server.port().into()),
        reads: AtomicU64::new(0),
        errors: AtomicU64::new(0),
        worst: AtomicU64::new(0),
    };
    // Hits, losses and invalidations.
    let counts = |larder: &Larder| {
        ["cache_hits", "source_tracking_losses", "source_invalidations"]
            .map(|name| larder.metric(&format!("larder_{name}_total{{group=\"default\"}}")))
    };
    let mut before = [0.0; 3];
    scope(|scope| {
        let larder = &mut larder;
        // Changes of all rows would mend what is looked for.
        for (seed, is_bulk) in [(1, false), (2, false), (3, !in_turn)] {
            scope.spawn(move || {
                let _over = Over(world);
                writer(world, seed, first, is_bulk);
            });
        }
        for seed in 0..READERS {
            scope.spawn(move || {
                let _over = Over(world);
                session(world, port, 100 + seed);
            });
        }
        let _over = Over(world);
        let (begun, mut random) = (Instant::now(), Random(7));
        while begun.elapsed() < 2 * length() && !world.over.load(Relaxed) {
            let calm = Instant::now();
            let length = BOUND + Duration::from_secs(if in_turn { 5 } else { 1 });
            while calm.elapsed() < length && !world.over.load(Relaxed) {
                sleep(Duration::from_millis(20));
            }
            world.storm(larder, |larder| match random.below(if is_hard { 5 } else { 4 }) {
                4 => server.restart(),
                3 => {
                    before.iter_mut().zip(counts(larder)).for_each(|(before, count)| *before += count);
                    before[1] += 1.0;
                    larder.signal(Signal::KILL);
                    larder.wait();
                    larder.start_again(&args);
                }
                2 => {
                    larder.signal(Signal::STOP);
                    sleep(Duration::from_millis(500));
                    larder.signal(Signal::CONT);
                }
                _ => drop(server.try_sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_replication WHERE application_name LIKE 'larder%'",
                )),
            });
        }
    });
    let [reads, errors, worst] = [&world.reads, &world.errors, &world.worst].map(|of| of.load(Relaxed));
    let now = counts(&larder);
    let [hits, losses, invalidations] = [0, 1, 2].map(|at| before[at] + now[at]);
    let writes: usize = world.acknowledged.iter().map(|of| of.lock().unwrap().len()).sum();
    println!(
        "{reads} reads, {errors} errors, {hits} hits, {writes} additions; {losses} losses, {invalidations} invalidations; \
         worst age of a read {} ms",
        worst / 1000
    );
    assert!(hits > 100.0 && errors < reads / 2, "it was a cache that was tried");
    assert!(losses > 0.0 && invalidations > 0.0, "and its faults");
}

#[test]
fn checker_finds_nothing_on_postgres() {
    check(&mut PostgresServer::start(), "SELECT 1", true, false, |_| ());
}

#[test]
fn checker_finds_nothing_where_commits_are_not_waited_for() {
    check(&mut PostgresServer::start(), "SET synchronous_commit = off", false, false, |_| ());
}

/// Each commit is in the log, and in the stream, some time before it is visible.
#[test]
fn checker_finds_nothing_where_a_standby_delays_commits() {
    let mut server = PostgresServer::start();
    let standby = standby_of(&server, &["recovery_min_apply_delay=30ms"]);
    check(&mut server, "SET synchronous_commit = remote_apply", false, true, |server| {
        server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        server.sql("SELECT pg_reload_conf()");
        wait_until("the standby", || {
            server.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        });
    });
    server.sql("ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("SELECT pg_reload_conf()");
    drop(standby);
}
