//! A replica whose clock is wrong: libfaketime moves the wall clock of one process, and leaves its
//! timers alone.
use super::{
    common::{Reply, wait_until},
    larder::Larder,
    workload::{Writes, held, wait_for_equality, wait_for_link},
};
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Where Debian has it (package `faketime`).
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// A replica whose clock is so much ahead: `+1h`, `-3s`.
fn replica_at(primary: &Larder, ahead: &str) -> Larder {
    let library = std::env::var("FAKETIME_LIBRARY").unwrap_or_else(|_| LIBRARY.to_owned());
    assert!(std::path::Path::new(&library).exists(), "{library} is missing. Type: make tools");
    let env = [("LD_PRELOAD", &*library), ("FAKETIME", ahead), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
    let replica = Larder::with_env(&env, &[&format!("--replica-of=redis://127.0.0.1:{}", primary.redis)]);
    wait_for_link(&replica);
    replica
}

#[test]
fn an_early_clock_ends_entries_so_much_sooner() {
    let primary = Larder::start(&[]);
    let replica = replica_at(&primary, "+1h");
    let mut client = primary.client();
    client.command(&["SET", "for-ever", "v"]);
    client.command(&["SET", "for-two-hours", "v", "EX", "7200"]);
    client.command(&["SET", "for-a-minute", "v", "EX", "60"]);
    client.command(&["SET", "last", "v"]);
    let mut there = replica.client();
    wait_until("the entries to arrive", || there.command(&["GET", "last"]) == Reply::bulk("v"));
    assert_eq!(there.command(&["GET", "for-ever"]), Reply::bulk("v"));
    assert_eq!(there.command(&["GET", "for-two-hours"]), Reply::bulk("v"));
    assert_eq!(there.command(&["GET", "for-a-minute"]), Reply::nil(), "its end has passed there");
    assert_eq!(client.command(&["GET", "for-a-minute"]), Reply::bulk("v"));
    let left = there.command(&["TTL", "for-two-hours"]).int();
    assert!((3000..=3600).contains(&left), "{left}");
    let difference = replica.metric("larder_replication_clock_difference_seconds");
    assert!((-3700.0..-3500.0).contains(&difference), "{difference}");
}

#[test]
fn a_late_clock_serves_no_longer_than_the_primary_while_the_link_is_up() {
    let mut primary = Larder::start(&[]);
    let replica = replica_at(&primary, "-1h");
    let difference = replica.metric("larder_replication_clock_difference_seconds");
    assert!((3500.0..3700.0).contains(&difference), "{difference}");
    let (mut client, mut there) = (primary.client(), replica.client());
    client.command(&["SET", "k", "v", "PX", "300"]);
    wait_until("the entry to arrive, or to end", || client.command(&["GET", "k"]) == Reply::nil());
    // The primary's removal arrives; by the replica's clock the entry has an hour to live.
    wait_until("the entry to end", || there.command(&["GET", "k"]) == Reply::nil());
    // Without the primary it is served until the end comes there.
    drop(replica);
    let replica = replica_at(&primary, "-2s");
    let mut there = replica.client();
    let begun = Instant::now();
    client.command(&["SET", "k", "v", "PX", "2000"]);
    wait_until("the entry to arrive", || there.command(&["GET", "k"]) == Reply::bulk("v"));
    primary.signal(Signal::KILL);
    primary.wait();
    wait_until("the entry to end", || there.command(&["GET", "k"]) == Reply::nil());
    assert!(begun.elapsed() >= Duration::from_millis(3900), "{:?}", begun.elapsed());
}

#[test]
fn entries_without_an_end_are_the_same_whatever_the_clocks_say() {
    let primary = Larder::start(&[]);
    let (early, late) = (replica_at(&primary, "+1h"), replica_at(&primary, "-1h"));
    let mut writes = Writes::new(40, 100);
    for _ in 0..3 {
        writes.run(&primary, 400, true);
    }
    let mut client = primary.client();
    client.command(&["FLUSHALL"]);
    (0..500).for_each(|n| drop(client.command(&["SET", &format!("k{n}"), &n.to_string()])));
    wait_for_equality(&primary, &early);
    wait_for_equality(&primary, &late);
    assert_eq!(held(&late).len(), 500);
}
