//! A cluster that is away, refuses, or lacks the table.
use super::{server::CassandraNode, text};
use crate::{
    common::{Port, wait_until},
    larder::{Larder, command},
};
use rustix::process::Signal;

/// What `larder serve` says instead of starting.
pub(super) fn refusal(url: &str) -> String {
    let output =
        command().args(["--http", "off", "--admin", "off", "--redis", "127.0.0.1:0", "--source", url]).output();
    let output = output.unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
#[ignore = "make test-clients"]
fn what_the_cluster_refuses_stops_the_start() {
    let node = CassandraNode::shared();
    let missing = refusal(&node.bare_url("nowhere"));
    assert!(missing.contains("nowhere") && missing.contains("larder cassandra schema"), "{missing}");
    let url = node.bare_url("nowhere").replace("cassandra:cassandra@", "cassandra:wrong@");
    let wrong = refusal(&url);
    assert!(wrong.contains("incorrect") && !wrong.contains(":wrong"), "{wrong}");
    let table = node.url("tables");
    node.cql(&["CREATE TABLE IF NOT EXISTS tables.mine (id int PRIMARY KEY, body text)"]);
    let other = refusal(&format!("{table}?table=mine"));
    assert!(other.contains("larder cassandra schema"), "{other}");
    // A row of another program is not taken for one of Larder's.
    let larder = Larder::start(&["--source", &table]);
    node.cql(&["INSERT INTO tables.kv (key, value) VALUES (textAsBlob('k'), textAsBlob('text'))"]);
    let reply = text(&mut larder.client(), &["GET", "k"]);
    assert!(reply.contains("was not written by Larder"), "{reply}");
}

#[test]
#[ignore = "make test-clients"]
fn the_password_is_read_from_its_file() {
    let node = CassandraNode::shared();
    let url = node.url("files");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "cassandra\n").unwrap();
    let url = format!("{}?password-file={}", url.replace("cassandra:cassandra@", "cassandra@"), file.display());
    let larder = Larder::start(&["--source", &url]);
    assert_eq!(text(&mut larder.client(), &["SET", "k", "v"]), "OK");
}

#[test]
#[ignore = "make test-clients"]
fn a_cluster_that_is_away_is_asked_again() {
    let port = Port::free();
    let url = format!("cassandra://127.0.0.1:{}/shop", port.number);
    let larder = Larder::start(&["--source", &url, "--source-timeout", "2s"]);
    let mut client = larder.client();
    for command in [&["GET", "k"][..], &["SET", "k", "v"], &["INCR", "k"], &["DBSIZE"]] {
        let reply = text(&mut client, command);
        assert!(reply.starts_with("ERR source unavailable: cassandra://127.0.0.1:"), "{command:?}: {reply}");
    }
    assert_eq!(larder.metric("larder_source_up"), 0.0);
}

/// A node that stops while clients write. What was acknowledged is there afterwards, and what was not
/// is an error.
#[test]
#[ignore = "make test-clients"]
fn a_node_that_stops_loses_nothing_that_was_acknowledged() {
    let mut node = CassandraNode::start();
    let url = node.url("stops");
    let larder = Larder::start(&["--source", &url, "--source-timeout", "1s"]);
    let mut client = larder.client();
    let mut counted = 0;
    for _ in 0..10 {
        counted = client.command(&["INCR", "n"]).int();
    }
    assert_eq!(counted, 10);
    node.signal(Signal::STOP);
    let reply = text(&mut client, &["INCR", "n"]);
    assert!(reply.starts_with("ERR source unavailable: "), "{reply}");
    let reply = text(&mut client, &["SET", "k", "v"]);
    assert!(reply.starts_with("ERR source unavailable: "), "{reply}");
    wait_until("the source to be down", || larder.metric("larder_source_up") == 0.0);
    node.signal(Signal::CONT);
    wait_until("an answer", || {
        !text(&mut client, &["GET", "k"]).is_empty() && text(&mut client, &["EXISTS", "n"]) == "1"
    });
    // The INCR without an answer counts once or not at all.
    let now = text(&mut client, &["INCRBY", "n", "0"]).parse::<i64>().unwrap();
    assert!(now == 10 || now == 11, "{now}");
    node.restart();
    wait_until("an answer after the restart", || text(&mut client, &["INCRBY", "n", "0"]) == now.to_string());
    wait_until("the source to be up", || larder.metric("larder_source_up") == 1.0);
}
