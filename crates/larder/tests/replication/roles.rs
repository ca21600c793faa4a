//! Who may write, who may follow, and how roles change.
use super::{
    common::{Client, Reply, wait_until},
    larder::Larder,
    workload::{Writes, info, replica_of, wait_for_equality, wait_for_link},
};
use larder_proto::resp::encode;
use rustix::process::Signal;
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

const READONLY: &str = "READONLY You can't write against a read only replica.";

#[test]
fn a_replica_serves_reads_and_refuses_writes() {
    let primary = Larder::start(&[]);
    primary.client().command(&["SET", "k", "v"]);
    let replica = replica_of(primary.redis, &[]);
    wait_for_equality(&primary, &replica);
    let mut client = replica.client();
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    for command in [
        &["SET", "k", "w"][..],
        &["DEL", "k"],
        &["EXPIRE", "k", "1"],
        &["FLUSHALL"],
        &["LARDER.TAG", "k", "t"],
        &["LARDER.CLEARTAG", "t"],
    ] {
        assert_eq!(client.command(command).error(), READONLY, "{command:?}");
    }
    client.command(&["MULTI"]);
    assert_eq!(client.command(&["SET", "k", "w"]).error(), READONLY);
    assert!(client.command(&["EXEC"]).error().starts_with("EXECABORT"));
    for (method, path) in [
        ("PUT", "/v1/kv/k"),
        ("DELETE", "/v1/kv/k"),
        ("DELETE", "/v1/keys?prefix=k"),
        ("DELETE", "/v1/tags/t"),
        ("PUT", "/v0/entity?id=k"),
        ("DELETE", "/v0/entity?id=k"),
    ] {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\nconnection: close\r\n\r\nw");
        let (status, head, body) = replica.http(&request);
        assert_eq!(status, 405, "{method} {path}");
        assert!(head.contains("allow: get, head"), "{head}");
        assert!(String::from_utf8(body).unwrap().contains("/problems/read-only-replica"));
    }
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    // The same transaction, queued before the server became a replica.
    let mut writer = primary.client();
    writer.command(&["MULTI"]);
    writer.command(&["SET", "k", "w"]);
    primary.client().command(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(writer.command(&["EXEC"]).error().contains("READONLY"));
}

#[test]
fn a_promoted_replica_keeps_what_it_has_and_takes_writes() {
    let primary = Larder::start(&[]);
    primary.client().command(&["SET", "k", "v"]);
    let (first, second) = (replica_of(primary.redis, &[]), replica_of(primary.redis, &[]));
    wait_for_equality(&primary, &first);
    wait_for_equality(&primary, &second);
    assert_eq!(first.client().command(&["REPLICAOF", "NO", "ONE"]), Reply::ok());
    assert_eq!(info(&first, "role").as_deref(), Some("master"));
    assert_eq!(first.client().command(&["SET", "mine", "1"]), Reply::ok());
    // What the old primary does is no concern of it any more.
    primary.client().command(&["SET", "mine", "2"]);
    let port = first.redis.to_string();
    assert_eq!(second.client().command(&["SLAVEOF", "127.0.0.1", &port]), Reply::ok());
    assert_eq!(primary.client().command(&["REPLICAOF", "127.0.0.1", &port]), Reply::ok());
    wait_for_equality(&first, &second);
    wait_for_equality(&first, &primary);
    assert_eq!(primary.client().command(&["GET", "mine"]), Reply::bulk("1"));
}

/// What clients wrote meanwhile is gone, however short the time was.
#[test]
fn a_replica_that_returns_to_its_primary_copies_all() {
    let primary = Larder::start(&[]);
    primary.client().command(&["SET", "k", "v"]);
    let replica = replica_of(primary.redis, &["--threads", "1"]);
    wait_for_equality(&primary, &replica);
    let port = primary.redis.to_string();
    let commands = [&["REPLICAOF", "NO", "ONE"][..], &["SET", "k", "mine"], &["REPLICAOF", "127.0.0.1", &port]];
    let command = |words: &[&str]| encode(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    let at_once = commands.map(command).concat();
    // The link's task seldom runs between the commands. Often it runs beside one of them.
    for _ in 0..50 {
        let (mut stream, mut replies) = (replica.stream(), [0; 15]);
        stream.write_all(&at_once).unwrap();
        stream.read_exact(&mut replies).unwrap();
        assert_eq!(String::from_utf8_lossy(&replies), "+OK\r\n+OK\r\n+OK\r\n");
    }
    wait_for_equality(&primary, &replica);
    assert_eq!(replica.client().command(&["GET", "k"]), Reply::bulk("v"));
}

#[test]
fn a_replica_that_gets_another_role_is_not_lost() {
    let mut primary = Larder::start(&[]);
    let (first, second) = (replica_of(primary.redis, &[]), replica_of(primary.redis, &[]));
    wait_for_link(&first);
    wait_for_link(&second);
    // Changes are under way all the time.
    let mut writes = Writes::new(9, 1000);
    writes.run(&primary, 2000, false);
    assert_eq!(first.client().command(&["REPLICAOF", "NO", "ONE"]), Reply::ok());
    assert_eq!(second.client().command(&["REPLICAOF", "127.0.0.1", &first.redis.to_string()]), Reply::ok());
    writes.run(&primary, 2000, false);
    wait_until("both to have left", || info(&primary, "connected_slaves").as_deref() == Some("0"));
    primary.signal(Signal::TERM);
    assert!(primary.wait().0.success());
    let log = primary.stderr();
    assert!(!log.contains("replica disconnected"), "{log}");
}

#[test]
fn a_replica_of_a_replica_is_refused() {
    let primary = Larder::start(&[]);
    let first = replica_of(primary.redis, &[]);
    let second = replica_of(first.redis, &[]);
    wait_until("the refusal to be known", || {
        info(&second, "master_link_error").is_some_and(|error| error.contains("is a replica itself"))
    });
    // One that is told to follow another drops those that follow it.
    wait_until("the first to follow", || info(&primary, "connected_slaves").as_deref() == Some("1"));
    first.client().command(&["REPLICAOF", "NO", "ONE"]);
    wait_for_link(&second);
    first.client().command(&["REPLICAOF", "127.0.0.1", &primary.redis.to_string()]);
    wait_until("the second to be dropped", || info(&second, "master_link_status").as_deref() == Some("down"));
}

#[test]
fn a_wrong_secret_is_refused_and_the_right_one_needs_no_password() {
    let primary = Larder::start(&["--replication-secret=right", "--password=open"]);
    let wrong = replica_of(primary.redis, &["--replication-secret=wrong"]);
    let without = replica_of(primary.redis, &["--password=open"]);
    let right = replica_of(primary.redis, &["--replication-secret=right"]);
    wait_for_link(&right);
    let error = |of: &Larder, password: Option<&str>| {
        let mut client = of.client();
        password.inspect(|password| drop(client.command(&["AUTH", password])));
        let Reply::Bulk(Some(text)) = client.command(&["INFO", "replication"]) else { panic!("no INFO") };
        let text = String::from_utf8(text).unwrap();
        text.lines().find_map(|line| Some(line.strip_prefix("master_link_error:")?.to_owned())).unwrap_or_default()
    };
    wait_until("the wrong secret to be refused", || error(&wrong, None).contains("WRONGPASS"));
    wait_until("the missing secret to be refused", || error(&without, Some("open")).contains("WRONGPASS"));
    // The password is enough where there is no secret.
    let primary = Larder::start(&["--password=open"]);
    let replica = replica_of(primary.redis, &["--password=open"]);
    wait_until("the replica to follow", || {
        let text = replica.get("/metrics");
        text.lines().any(|line| line == "larder_replication_link_up 1")
    });
    let stranger = replica_of(primary.redis, &[]);
    wait_until("the stranger to be refused", || error(&stranger, None).contains("NOAUTH"));
}

#[test]
fn wait_and_role_know_how_far_replicas_are() {
    let primary = Larder::start(&[]);
    let mut client = primary.client();
    client.command(&["SET", "k", "0"]);
    assert_eq!(client.command(&["WAIT", "0", "0"]), Reply::Int(0));
    assert_eq!(client.command(&["WAIT", "1", "50"]), Reply::Int(0));
    let replica = replica_of(primary.redis, &[]);
    assert_eq!(client.command(&["WAIT", "1", "0"]), Reply::Int(1));
    for n in 0..50 {
        client.command(&["SET", "k", &n.to_string()]);
        assert_eq!(client.command(&["WAIT", "1", "0"]), Reply::Int(1));
        assert_eq!(replica.client().command(&["GET", "k"]), Reply::bulk(n.to_string()));
    }
    let Reply::Array(Some(role)) = client.command(&["ROLE"]) else { panic!("no role") };
    assert_eq!(role[0], Reply::bulk("master"));
    let Reply::Array(Some(replicas)) = &role[2] else { panic!("no replicas") };
    let Reply::Array(Some(fields)) = &replicas[0] else { panic!("no replica") };
    assert_eq!(fields[..2], [Reply::bulk("127.0.0.1"), Reply::bulk(replica.redis.to_string())]);
    let Reply::Array(Some(role)) = replica.client().command(&["ROLE"]) else { panic!("no role") };
    let expected = [Reply::bulk("slave"), Reply::bulk("127.0.0.1"), Reply::Int(primary.redis.into())];
    assert_eq!((&role[..3], &role[3]), (&expected[..], &Reply::bulk("connected")));
    assert!(replica.client().command(&["WAIT", "1", "0"]).error().starts_with("ERR WAIT cannot be used"));
    // A replica that does not answer does not hold WAIT longer than it may take.
    replica.signal(Signal::STOP);
    client.command(&["SET", "k", "v"]);
    let begun = Instant::now();
    assert_eq!(client.command(&["WAIT", "1", "100"]), Reply::Int(0));
    assert!(begun.elapsed() >= Duration::from_millis(100));
    replica.signal(Signal::CONT);
    assert_eq!(client.command(&["WAIT", "1", "0"]), Reply::Int(1));
}

#[test]
fn expired_entries_are_not_served_by_a_replica_without_its_primary() {
    let mut primary = Larder::start(&[]);
    let replica = replica_of(primary.redis, &[]);
    wait_for_link(&replica);
    primary.client().command(&["SET", "k", "v", "PX", "1500"]);
    wait_for_equality(&primary, &replica);
    primary.signal(Signal::KILL);
    primary.wait();
    let mut client: Client = replica.client();
    wait_until("the entry to expire", || client.command(&["GET", "k"]) == Reply::nil());
    assert_eq!(client.command(&["DBSIZE"]), Reply::Int(0));
}

#[test]
fn a_process_with_a_source_has_no_part_in_replication() {
    let larder = Larder::start(&["--source=demo:"]);
    let error = larder.client().command(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(error.error().contains("group default has a source"), "{error:?}");
    let replica = replica_of(larder.redis, &[]);
    wait_until("the refusal to be known", || {
        info(&replica, "master_link_error").is_some_and(|error| error.contains("group default has a source"))
    });
}
