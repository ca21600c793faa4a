//! After quiet, primary and replicas hold the same entries.
use super::{
    common::{Reply, wait_until},
    larder::Larder,
    link_proxy::LinkProxy,
    workload::{Writes, fill, held, info, replica_of, wait_for_equality, wait_for_link},
};
use rustix::process::Signal;

#[test]
fn writes_of_all_kinds_reach_two_replicas() {
    let primary = Larder::start(&[]);
    let mut writes = Writes::new(1, 200);
    // Some before there is a replica, some while the first takes its copy, some while both follow.
    writes.run(&primary, 2000, true);
    let first = replica_of(primary.redis, &[]);
    writes.run(&primary, 2000, true);
    let second = replica_of(primary.redis, &[]);
    for round in 0..5 {
        // The last round ends with many entries.
        writes.run(&primary, 2000, round < 4);
        wait_for_equality(&primary, &first);
        wait_for_equality(&primary, &second);
    }
    assert!(held(&first).len() > 100);
    assert_eq!(first.metric("larder_replication_full_copies_total"), 1.0);
}

#[test]
fn documents_are_documents_at_a_replica() {
    let primary = Larder::start(&[]);
    let mut client = primary.client();
    let value = format!("[1,\"{}\"]", "x".repeat(30_000));
    assert_eq!(client.command(&["JSON.SET", "copied", "$", &value]), Reply::ok());
    let replica = replica_of(primary.redis, &[]);
    wait_for_link(&replica);
    assert_eq!(client.command(&["JSON.SET", "followed", "$", "[1]"]), Reply::ok());
    assert_eq!(client.command(&["JSON.ARRAPPEND", "followed", "$", "2"]), Reply::Array(Some(vec![Reply::Int(2)])));
    wait_for_equality(&primary, &replica);
    for (key, text) in [("copied", &*value), ("followed", "[1,2]")] {
        let mut client = replica.client();
        assert_eq!(client.command(&["TYPE", key]), Reply::Simple("ReJSON-RL".into()), "{key}");
        assert!(client.command(&["JSON.GET", key]) == Reply::bulk(text), "{key}");
    }
}

#[test]
fn writers_on_all_cores_at_once() {
    let primary = Larder::start(&["--threads=4"]);
    let replica = replica_of(primary.redis, &["--threads=2"]);
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let primary = &primary;
            scope.spawn(move || Writes::new(10 + seed, 50).run(primary, 3000, true));
        }
    });
    Writes::new(20, 50).run(&primary, 300, false);
    wait_for_equality(&primary, &replica);
}

#[test]
fn a_full_copy_removes_what_the_primary_does_not_have_and_serves_meanwhile() {
    let primary = Larder::start(&[]);
    fill(&mut primary.client(), "new", 3000, "new");
    fill(&mut primary.client(), "both", 1000, "new");
    let other = Larder::start(&[]);
    fill(&mut other.client(), "both", 1000, "old");
    fill(&mut other.client(), "old", 1000, "old");
    let port = primary.redis.to_string();
    assert_eq!(other.client().command(&["REPLICAOF", "127.0.0.1", &port]), Reply::ok());
    wait_for_equality(&primary, &other);
    assert_eq!(other.client().command(&["GET", "old1"]), Reply::nil());
    assert_eq!(other.client().command(&["DBSIZE"]), Reply::Int(4000));
}

#[test]
fn a_short_break_is_resumed_and_a_long_one_needs_a_full_copy() {
    let primary = Larder::start(&["--replication-backlog=256KiB"]);
    let proxy = LinkProxy::to(primary.redis);
    let replica = replica_of(proxy.port, &[]);
    wait_for_link(&replica);
    let copies = || replica.metric("larder_replication_full_copies_total");
    let mut writes = Writes::new(2, 200);
    for _ in 0..3 {
        writes.run(&primary, 500, true);
        proxy.interrupt();
        writes.run(&primary, 500, true);
        wait_for_equality(&primary, &replica);
    }
    assert_eq!(copies(), 1.0);
    assert!(replica.metric("larder_replication_resumptions_total") >= 3.0);
    proxy.cut();
    // Names of 30,000 keys do not fit into the log.
    fill(&mut primary.client(), "long-name-of-a-key-", 30_000, "value");
    writes.run(&primary, 100, true);
    proxy.mend();
    wait_for_equality(&primary, &replica);
    assert_eq!(copies(), 2.0);
}

#[test]
fn connections_that_break_within_a_frame_do_no_harm() {
    let primary = Larder::start(&[]);
    let proxy = LinkProxy::to(primary.redis);
    let replica = replica_of(proxy.port, &[]);
    wait_for_link(&replica);
    let mut writes = Writes::new(3, 100);
    for bytes in [4001, 20_011, 9_973] {
        proxy.cut_each_after(bytes);
        writes.run(&primary, 1500, true);
    }
    proxy.mend();
    wait_for_equality(&primary, &replica);
}

#[test]
fn large_values_travel() {
    let primary = Larder::start(&[]);
    let replica = replica_of(primary.redis, &[]);
    wait_for_link(&replica);
    let mut client = primary.client();
    for len in [10_000, 16 << 10, 1 << 20, 9 << 20] {
        let value = "v".repeat(len);
        assert_eq!(client.command(&["SET", &format!("k{len}"), &value]), Reply::ok());
    }
    wait_for_equality(&primary, &replica);
}

#[test]
fn pulling_follows_from_time_to_time() {
    let mut primary = Larder::start(&["--log-level=warn"]);
    let replica = replica_of(primary.redis, &["--replication-mode=pull:200ms"]);
    let mut client = primary.client();
    for round in 0..3 {
        client.command(&["SET", "round", &round.to_string()]);
        wait_until("the round to be pulled", || {
            replica.client().command(&["GET", "round"]) == Reply::bulk(round.to_string())
        });
    }
    // One pull can have taken two rounds.
    wait_until("two pulls to go on from the one before", || {
        replica.metric("larder_replication_resumptions_total") >= 2.0
    });
    assert_eq!(replica.metric("larder_replication_full_copies_total"), 1.0);
    assert_eq!(info(&primary, "role").as_deref(), Some("master"));
    // A pull that ends is no replica that was lost.
    primary.signal(Signal::TERM);
    assert!(primary.wait().0.success());
    let log = primary.stderr();
    assert!(!log.contains("replica disconnected"), "{log}");
}

#[test]
fn a_replica_that_pulls_is_connected_between_its_pulls() {
    let primary = Larder::start(&[]);
    primary.client().command(&["SET", "key", "1"]);
    // The next pull is far away.
    let replica = replica_of(primary.redis, &["--replication-mode=pull:1h"]);
    wait_until("the first pull", || replica.client().command(&["GET", "key"]) == Reply::bulk("1"));
    wait_for_link(&replica);
    assert_eq!(info(&replica, "master_link_down_since_seconds"), None);
    assert_eq!(replica.metric("larder_replication_link_up"), 1.0);
    let Reply::Array(Some(role)) = replica.client().command(&["ROLE"]) else { panic!("no array") };
    assert_eq!(role[3], Reply::bulk("connected"));
    // A pull that fails shows.
    let often = replica_of(primary.redis, &["--replication-mode=pull:100ms"]);
    wait_for_link(&often);
    drop(primary);
    wait_until("the link to be down", || info(&often, "master_link_status").as_deref() == Some("down"));
}

#[test]
fn named_groups_are_replicated() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("larder.toml");
    std::fs::write(&file, "[groups.pages]\nmax-memory = \"16MiB\"\n").unwrap();
    let config = format!("--config={}", file.display());
    let primary = Larder::start(&[&config]);
    let replica = replica_of(primary.redis, &[&config]);
    wait_for_link(&replica);
    let put = "PUT /v1/groups/pages/kv/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nconnection: close\r\n\r\nv";
    assert_eq!(primary.http(put).0, 201);
    let get = "GET /v1/groups/pages/kv/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    wait_until("the entry to arrive", || replica.http(get).0 == 200);
    let clear = "DELETE /v1/groups/pages HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    assert_eq!(replica.http(clear).0, 405);
    assert_eq!(primary.http(clear).0, 204);
    wait_until("the clear to arrive", || replica.http(get).0 == 404);
    // A process with other groups is told so.
    let other = replica_of(primary.redis, &[]);
    wait_until("the reason to be known", || other.get("/v1/stats").contains("\"replication_link_up\":0"));
}
