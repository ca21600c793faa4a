//! A primary and its replicas on hosts of their own, whose network loses packets and is cut without
//! a word.
use super::{
    common::wait_until,
    network::{Network, REDIS},
};

/// A primary on host 1, and replicas on the others.
fn start(number: u8, replicas: usize, of_primary: &[&str], of_replicas: &[&str]) -> (Network, Vec<Vec<String>>) {
    let primary = format!("redis://{}.1:{REDIS}", Network::subnet(number));
    let args = |args: &[&str]| -> Vec<String> { args.iter().map(|arg| (*arg).to_owned()).collect() };
    let mut hosts = vec![args(of_primary)];
    hosts.extend((0..replicas).map(|_| [args(&["--replica-of", &primary]), args(of_replicas)].concat()));
    (Network::start(number, &hosts), hosts)
}

fn put(network: &Network, key: &str, value: &str) {
    let (status, body) = network.request(1, "PUT", &format!("/v1/kv/{key}"), value);
    assert!(status < 300, "{key}: {status} {body}");
}

/// What a host answers for a key; empty: it has none.
fn held(network: &Network, host: usize, key: &str) -> String {
    let (status, body) = network.request(host, "GET", &format!("/v1/kv/{key}"), "");
    if status == 200 { body } else { String::new() }
}

fn metric(network: &Network, host: usize, name: &str) -> f64 {
    let text = network.request(host, "GET", "/metrics", "").1;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

fn wait_for_link(network: &Network, host: usize) {
    wait_until("the replica to follow", || metric(network, host, "larder_replication_link_up") == 1.0);
}

/// After quiet both hold the same.
fn wait_for_equality(network: &Network, host: usize, keys: &[String]) {
    for key in keys {
        let expected = held(network, 1, key);
        wait_until("the replica to have it", || held(network, host, key) == expected);
    }
}

#[test]
#[ignore = "make test-networks"]
fn networks_that_are_cut_make_a_replica_old_and_not_wrong() {
    let (network, _) = start(3, 2, &[], &["--replica-writes", "forward"]);
    [2, 3].iter().for_each(|host| wait_for_link(&network, *host));
    let keys: Vec<String> = (0..30).map(|number| format!("key-{number}")).collect();
    keys.iter().for_each(|key| put(&network, key, "old"));
    [2, 3].iter().for_each(|host| wait_for_equality(&network, *host, &keys));
    network.cut(3);
    keys.iter().for_each(|key| put(&network, key, "new"));
    wait_for_equality(&network, 2, &keys);
    // Nothing says that the connection is gone: the silence does.
    wait_until("the silence to be noticed", || metric(&network, 3, "larder_replication_link_up") == 0.0);
    keys.iter().for_each(|key| assert_eq!(held(&network, 3, key), "old", "it serves what it has"));
    assert!(metric(&network, 3, "larder_replication_lag_seconds") >= 4.0, "its age grows");
    network.heal(3);
    wait_for_link(&network, 3);
    wait_for_equality(&network, 3, &keys);
    assert_eq!(metric(&network, 3, "larder_replication_full_copies_total"), 1.0, "it went on where it was");
    assert!(metric(&network, 3, "larder_replication_resumptions_total") >= 1.0);
}

#[test]
#[ignore = "make test-networks"]
fn networks_that_lose_packets_one_way_lose_no_change() {
    let (network, _) = start(4, 1, &["--replication-backlog", "64KiB"], &[]);
    wait_for_link(&network, 2);
    let keys: Vec<String> = (0..200).map(|number| format!("a-rather-long-name-of-a-key-{number}")).collect();
    let loss = "-m statistic --mode random --probability 0.2";
    network.filter(2, "I", loss);
    for round in 0..10 {
        keys.iter().for_each(|key| put(&network, key, &round.to_string()));
    }
    network.filter(2, "D", loss);
    wait_for_equality(&network, 2, &keys);
    // From the primary to the replica nothing passes, for longer than the log reaches.
    network.filter_from(2, "I", 1);
    wait_until("the silence to be noticed", || metric(&network, 2, "larder_replication_link_up") == 0.0);
    for round in 0..20 {
        keys.iter().for_each(|key| put(&network, key, &format!("again {round}")));
    }
    network.filter_from(2, "D", 1);
    wait_for_equality(&network, 2, &keys);
    assert!(metric(&network, 2, "larder_replication_full_copies_total") >= 2.0);
}

#[test]
#[ignore = "make test-networks"]
fn networks_that_are_cut_hide_that_a_primary_was_killed() {
    let (mut network, args) = start(5, 1, &[], &[]);
    wait_for_link(&network, 2);
    put(&network, "k", "old");
    wait_until("the entry to arrive", || held(&network, 2, "k") == "old");
    network.cut(2);
    // No packet tells the replica.
    network.kill(1);
    network.start_again(1, &args[0]);
    put(&network, "other", "new");
    assert_eq!(held(&network, 2, "k"), "old");
    network.heal(2);
    wait_until("the new primary's entries", || held(&network, 2, "other") == "new");
    wait_until("those of the former one to go", || held(&network, 2, "k").is_empty());
}
