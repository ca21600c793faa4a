//! Passwords that change: of all nodes of a cluster, of a master that Sentinels name, and of the
//! Sentinels.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    fixture::Cluster,
    larder::Larder,
    sentinels,
};
use std::fs;

/// Changes the password of servers, and has all connections but these end.
fn change(direct: &mut [Client], password: &str) {
    for direct in direct {
        assert_eq!(direct.command(&["CONFIG", "SET", "requirepass", password]), Reply::ok());
        direct.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }
}
fn all_are_stored(larder: &Larder, value: &str) -> bool {
    let mut client = larder.client();
    (0..30).all(|number| client.command(&["SET", &format!("key{number}"), value]) == Reply::ok())
}
fn is_refused(larder: &Larder, why: &str) -> bool {
    matches!(larder.client().command(&["SET", "key1", "x"]), Reply::Error(error) if error.ends_with(why))
}

#[test]
fn a_cluster_s_new_password_is_taken_from_its_file() {
    let cluster = Cluster::of_masters();
    let file = cluster.nodes[0].dir().join("password");
    fs::write(&file, "one").unwrap();
    let mut direct: Vec<Client> = cluster.nodes.iter().map(RedisServer::client).collect();
    change(&mut direct, "one");
    let url = format!("{}?password-file={}", cluster.url(), file.display());
    let larder = Larder::start(&["--source", &url, "--threads", "1", "--source-timeout", "2s"]);
    wait_until("all nodes to be reached", || all_are_stored(&larder, "1"));
    change(&mut direct, "two");
    wait_until("the refusal to be told", || is_refused(&larder, "(the source refuses the password in password-file)"));
    fs::write(&file, "two").unwrap();
    wait_until("all nodes to be reached again", || all_are_stored(&larder, "2"));
}

#[test]
fn in_front_of_a_cluster_the_same_is_refused_and_large_commands_travel_alone() {
    let cluster = Cluster::of_masters();
    let larder = Larder::start(&["--source", &cluster.url(), "--threads", "1"]);
    wait_until("all nodes to be reached", || all_are_stored(&larder, "1"));
    let mut client = larder.client();
    for line in ["SHUTDOWN NOSAVE", "CONFIG SET requirepass x", "REPLICAOF 127.0.0.1 1", "DEBUG SEGFAULT", "FAILOVER"] {
        let said = client.command(&line.split(' ').collect::<Vec<_>>());
        assert!(said.error().ends_with(": set forward-admin to allow it"), "{said:?}");
    }
    let value = vec![b'v'; 3 << 20];
    assert_eq!(client.command(&[&b"MSET"[..], b"large1", &value, b"large2", &value, b"large3", &value]), Reply::ok());
    for node in &cluster.nodes {
        assert_eq!(node.command(&["CONFIG", "SET", "proto-max-bulk-len", "1mb"]), Reply::ok());
    }
    for key in ["large1", "large2", "large3"] {
        assert_eq!(client.command(&["GET", key]), Reply::bulk(&value));
        let said = client.command(&[&b"SET"[..], key.as_bytes(), &value]);
        assert!(said.error().contains("longer than the source takes: 1048576"), "{said:?}");
    }
    assert_eq!(larder.metric("larder_source_reconnects_total{group=\"default\"}"), 0.0);
}

#[test]
fn a_master_s_new_password_is_taken_from_its_file() {
    let master = RedisServer::with(&["--requirepass", "secret"]);
    let sentinel = sentinels::start(&master);
    let (file, other) = (master.dir().join("password"), master.dir().join("sentinel-password"));
    fs::write(&file, "secret").unwrap();
    fs::write(&other, "watch").unwrap();
    let url = format!(
        "redis+sentinel://127.0.0.1:{}/main?password-file={}&sentinel-password-file={}",
        sentinel.port.number,
        file.display(),
        other.display()
    );
    let larder = Larder::start(&["--source", &url, "--threads", "1", "--source-timeout", "2s"]);
    wait_until("the master to be reached", || all_are_stored(&larder, "1"));
    let mut direct = [master.client()];
    change(&mut direct, "two");
    wait_until("the refusal to be told", || is_refused(&larder, "(the source refuses the password in password-file)"));
    fs::write(&file, "two").unwrap();
    wait_until("the master to be reached again", || all_are_stored(&larder, "2"));
}
