//! The bound on memory changes while clients are served: CONFIG SET maxmemory.
use super::{
    common::{Client, Reply, wait_until},
    larder::Larder,
};
use rustix::process::Signal;
use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    thread,
};

const USED: &str = "larder_cache_used_bytes{group=\"default\"}";
const SHRINK: &str = "larder_cache_shrink_bytes{group=\"default\"}";
const ENTRIES: &str = "larder_cache_entries{group=\"default\"}";
const MIB: f64 = (1 << 20) as f64;
/// So many entries take 40 MiB.
const FILLED: u32 = 150_000;

fn value(number: u32) -> String {
    format!("{number:0>250}")
}

/// Stores entries, many in a batch.
fn fill(client: &mut Client, numbers: std::ops::Range<u32>) {
    let numbers: Vec<u32> = numbers.collect();
    for batch in numbers.chunks(500) {
        for number in batch {
            client.send(&["SET", &format!("key:{number}"), &value(*number)]).unwrap();
        }
        for _ in batch {
            assert_eq!(client.read().unwrap(), Reply::ok());
        }
    }
}

/// The value of a key, or none.
fn read(client: &mut Client, number: u32) -> bool {
    let got = client.command(&["GET", &format!("key:{number}")]);
    assert!(got == Reply::nil() || got == Reply::bulk(value(number)), "{number}: {got:?}");
    got != Reply::nil()
}

fn set_bound(client: &mut Client, bound: &str) -> Reply {
    client.command(&["CONFIG", "SET", "maxmemory", bound])
}

#[track_caller]
fn wait_for_bound(larder: &Larder, bound: f64) {
    // A write that opens a segment is above the bound until it has evicted as much.
    wait_until("the memory to reach its bound", || larder.metric(SHRINK) == 0.0 && larder.metric(USED) <= bound);
}

#[test]
fn a_lower_bound_is_reached_while_clients_read_and_write() {
    let mut larder = Larder::start(&["--max-memory", "64MiB", "--threads", "2", "--log-level", "info"]);
    let mut client = larder.client();
    fill(&mut client, 0..FILLED);
    assert_eq!(larder.metric(ENTRIES), f64::from(FILLED));
    let (is_done, reads) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for from in [0, FILLED / 2] {
            let (is_done, reads, mut client) = (&is_done, &reads, larder.client());
            scope.spawn(move || {
                for number in (0..FILLED).cycle().skip(from as usize).step_by(7) {
                    read(&mut client, number);
                    fill(&mut client, number + FILLED..number + FILLED + 1);
                    reads.fetch_add(1, Relaxed);
                    if is_done.load(Relaxed) {
                        return;
                    }
                }
            });
        }
        wait_until("readers", || reads.load(Relaxed) > 100);
        assert_eq!(set_bound(&mut client, "16mb"), Reply::ok());
        wait_for_bound(&larder, 16.0 * MIB);
        let before = reads.load(Relaxed);
        wait_until("more reads", || reads.load(Relaxed) > before + 100);
        is_done.store(true, Relaxed);
    });
    assert!(larder.metric(ENTRIES) < f64::from(FILLED / 2));
    // What was stored last is there, and more does not grow it beyond the bound.
    fill(&mut client, 0..20_000);
    assert!(larder.metric(USED) <= 16.0 * MIB);
    assert!(read(&mut client, 19_999));
    larder.signal(Signal::TERM);
    larder.wait();
    let log = larder.stderr();
    for text in ["the memory tier shrinks to a lower max-memory", "the memory tier is within its max-memory"] {
        assert_eq!(log.matches(text).count(), 1, "{log}");
    }
    let end = log.lines().find(|line| line.contains("is within its max-memory")).unwrap();
    for field in ["group", "used_bytes", "max_bytes", "evicted", "seconds"] {
        assert!(end.contains(field), "{end}");
    }
}

#[test]
fn the_last_of_several_bounds_counts() {
    let larder = Larder::start(&["--max-memory", "64MiB", "--threads", "2"]);
    let mut client = larder.client();
    fill(&mut client, 0..FILLED);
    for bound in ["48mb", "8mb", "32mb", "16mb", "24mb"] {
        assert_eq!(set_bound(&mut client, bound), Reply::ok());
    }
    wait_for_bound(&larder, 24.0 * MIB);
    fill(&mut client, 0..FILLED);
    let used = larder.metric(USED);
    assert!((20.0 * MIB..=24.0 * MIB).contains(&used), "{used}");
    // A rise in the middle ends it: there is room again, for more than any bound before.
    assert_eq!(set_bound(&mut client, "4mb"), Reply::ok());
    assert_eq!(set_bound(&mut client, "64mb"), Reply::ok());
    assert_eq!(larder.metric(SHRINK), 0.0);
    fill(&mut client, FILLED..2 * FILLED);
    assert!(larder.metric(ENTRIES) >= f64::from(FILLED));
    // All entries go on their own: nothing is left to be freed.
    assert_eq!(set_bound(&mut client, "4mb"), Reply::ok());
    assert_eq!(client.command(&["FLUSHALL"]), Reply::ok());
    wait_for_bound(&larder, 4.0 * MIB);
}

#[test]
fn a_bound_that_the_shards_do_not_allow_is_refused() {
    let many = Larder::start(&["--max-memory", "256MiB"]);
    let one = Larder::start(&["--max-memory", "7MiB"]);
    let refused = [
        (&many, "1mb", "max-memory of 1MiB needs a restart: with the shards that run now it must be at least"),
        (&one, "8gb", "max-memory of 8GiB needs a restart: with the shards that run now it must be at most"),
        (&one, "10kb", "must be at least 1mb"),
    ];
    for (larder, bound, why) in refused {
        let mut client = larder.client();
        let before = client.command(&["CONFIG", "GET", "maxmemory"]);
        let error = set_bound(&mut client, bound);
        assert!(error.error().contains(why) && error.error().contains("'maxmemory'"), "{error:?}");
        assert_eq!(client.command(&["CONFIG", "GET", "maxmemory"]), before);
    }
    assert_eq!(set_bound(&mut one.client(), "1mb"), Reply::ok());
    assert_eq!(one.client().command(&["SET", "key", "value"]), Reply::ok());
}
