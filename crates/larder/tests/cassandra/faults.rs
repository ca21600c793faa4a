//! A cluster that is away, refuses, or lacks the table.
use super::{
    server::{CassandraNode, wait_for_cluster},
    shown, text,
};
use crate::{
    common::{Client, Port, Reply, wait_until},
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

/// INCR of one client, of which some get no answer in time: also a node that runs may be too slow.
#[derive(Default)]
struct Increments {
    acknowledged: i64,
    unknown: i64,
}
impl Increments {
    /// The reply if there is one.
    fn try_one(&mut self, client: &mut Client) -> Option<i64> {
        match client.command(&["INCR", "n"]) {
            Reply::Int(reply) => {
                self.acknowledged += 1;
                // Each that was acknowledged counts once, and each other one once or not at all.
                let possible = self.acknowledged..=self.acknowledged + self.unknown;
                assert!(possible.contains(&reply), "{reply} is not in {possible:?}");
                Some(reply)
            }
            reply => {
                assert!(shown(&reply).starts_with("ERR source unavailable: "), "{reply:?}");
                self.unknown += 1;
                None
            }
        }
    }
}

/// A node that stops while clients write. What was acknowledged is there afterwards, and what was not
/// is an error.
#[test]
#[ignore = "make test-clients"]
fn a_node_that_stops_loses_nothing_that_was_acknowledged() {
    let mut node = CassandraNode::start();
    let url = node.url("stops");
    let larder = Larder::start(&["--source", &url, "--source-timeout", "1s"]);
    let (mut client, mut increments) = (larder.client(), Increments::default());
    wait_for_cluster("increments", || increments.try_one(&mut client).is_some() && increments.acknowledged >= 10);
    node.freeze();
    assert_eq!(increments.try_one(&mut client), None);
    let reply = text(&mut client, &["SET", "k", "v"]);
    assert!(reply.starts_with("ERR source unavailable: "), "{reply}");
    wait_until("the source to be down", || larder.metric("larder_source_up") == 0.0);
    node.signal(Signal::CONT);
    let mut now = None;
    // It gives the row another version, so none of the earlier ones can come after it.
    wait_for_cluster("an answer", || {
        now = increments.try_one(&mut client);
        now.is_some()
    });
    let now = now.unwrap().to_string();
    node.restart();
    wait_for_cluster("an answer after the restart", || text(&mut client, &["GETEX", "n"]) == now);
    wait_for_cluster("the source to be up", || larder.metric("larder_source_up") == 1.0);
}
