//! A source and its mirror trade places by a reload while clients write.
use super::{differences, state, traffic::Traffic, wait_in_step};
use crate::{
    cassandra::server::CassandraNode,
    common::{RedisServer, Reply, wait_until},
    larder::{Larder, changed_settings},
};
use rustix::process::Signal;
use scylla::value::CqlValue;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// A folder with the configuration and the stores.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }
    fn store(&self, name: &str) -> String {
        format!("disk:{}", self.0.path().join(name).display())
    }
    fn file(&self) -> PathBuf {
        self.0.path().join("larder.toml")
    }
    fn write(&self, source: &str, mirror: Option<&str>) {
        let mirror = mirror.map(|mirror| format!("mirror = \"{mirror}\"\n")).unwrap_or_default();
        fs::write(self.file(), format!("source = \"{source}\"\n{mirror}ttl = \"10s\"\n")).unwrap();
    }
    fn start(&self, source: &str, mirror: Option<&str>) -> Larder {
        self.write(source, mirror);
        Larder::start(&["--config", path(&self.file()), "--log-level", "info"])
    }
    /// Has these by a reload, which must do so at once.
    fn reload(&self, larder: &Larder, source: &str, mirror: Option<&str>) {
        self.write(source, mirror);
        let (status, answer) = larder.reload("POST");
        assert_eq!(status, 200, "{answer}");
        assert_eq!(changed_settings(&answer["needs_restart"]), Vec::<&str>::new());
        // Another form of a cluster's URL means the same.
        let now = source_now(larder);
        assert!(now == source || now.starts_with("cassandra://") && source.starts_with("cassandra://"), "{now}");
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn source_now(larder: &Larder) -> String {
    let Reply::Bulk(Some(info)) = larder.client().command(&["INFO", "larder"]) else { panic!("no INFO") };
    let info = String::from_utf8(info).unwrap();
    let mut lines = info.lines().filter_map(|line| line.strip_prefix("larder_source:"));
    lines.next().unwrap().to_owned()
}

/// Under writes some changes always wait.
fn wait_nearly_in_step(larder: &Larder) {
    wait_until("the mirror to be in step", || state(larder) == "in-step");
}

fn judge(traffic: &Traffic, larder: &Larder) {
    let mut client = larder.client();
    traffic.judge(|key| match client.command(&["GET", key]) {
        Reply::Bulk(value) => value.map(|value| String::from_utf8(value).unwrap()),
        reply => panic!("{key}: {reply:?}"),
    });
}

#[test]
fn two_stores_trade_places_under_writes_and_back() {
    let folder = Folder::new();
    let (one, two) = (folder.store("one"), folder.store("two"));
    let mut larder = folder.start(&one, Some(&two));
    let traffic = Traffic::default();
    let mut watcher = larder.client();
    traffic.run(&larder, || {
        traffic.proceed("writes");
        wait_in_step(&larder);
        assert_eq!(watcher.command(&["WATCH", "watched"]), Reply::ok());
        folder.reload(&larder, &two, Some(&one));
        traffic.proceed("writes to the second store");
        // What it saw was another store's.
        watcher.command(&["MULTI"]);
        watcher.command(&["SET", "watched", "1"]);
        assert_eq!(watcher.command(&["EXEC"]), Reply::Array(None));
        wait_in_step(&larder);
        folder.write(&one, Some(&two));
        larder.signal(Signal::HUP);
        wait_until("the first store to be the source", || source_now(&larder) == one);
        traffic.proceed("writes to the first store");
        wait_in_step(&larder);
        folder.reload(&larder, &two, None);
        traffic.proceed("writes to the second store alone");
    });
    judge(&traffic, &larder);
    assert!(!larder.get("/metrics").contains("larder_mirror_state{"), "nothing is mirrored");
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    drop(larder);
    judge(&traffic, &Larder::start(&["--source", &two]));
}

#[test]
fn a_mirror_can_be_left_out_and_nothing_else_changes_a_source() {
    let folder = Folder::new();
    let [one, two, three] = ["one", "two", "three"].map(|name| folder.store(name));
    for (store, key) in [(&one, "a"), (&two, "other")] {
        assert_eq!(Larder::start(&["--source", store]).client().command(&["SET", key, "v"]), Reply::ok());
    }
    let mut larder = folder.start(&one, Some(&two));
    wait_until("the mirror to be refused", || state(&larder) == "refused");
    folder.write(&two, Some(&one));
    for method in ["GET", "POST"] {
        let (status, answer) = larder.reload(method);
        let text = "group default: source: the mirror is not in step (larder_mirror_state: refused)";
        assert!(status == 422 && answer.to_string().contains(text), "{answer}");
    }
    folder.write(&three, Some(&one));
    let (status, answer) = larder.reload("POST");
    assert_eq!((status, changed_settings(&answer["needs_restart"])), (200, vec!["source", "mirror"]));
    larder.wait_for_stderr("without a restart, a source can only trade places with its mirror");
    assert_eq!(source_now(&larder), one);
    folder.reload(&larder, &one, None);
    assert!(!larder.get("/metrics").contains("larder_mirror_state{"), "nothing is mirrored");
    assert_eq!(larder.client().command(&["GET", "a"]), Reply::bulk("v"));
}

#[test]
fn two_redis_servers_trade_places_under_writes_and_back() {
    for coherence in ["coherent", "ttl"] {
        let (folder, one, other) = (Folder::new(), RedisServer::start(), RedisServer::start());
        let (from, to) = (format!("{}/0", one.url()), format!("{}/0", other.url()));
        folder.write(&from, Some(&to));
        let larder = Larder::start(&["--config", path(&folder.file()), "--coherence", coherence]);
        let (traffic, mut client) = (Traffic::default(), larder.client());
        assert_eq!(client.command(&["SET", "kept", "1"]), Reply::ok());
        traffic.run(&larder, || {
            wait_in_step(&larder);
            for (source, mirror) in [(&to, &from), (&from, &to), (&to, &from)] {
                traffic.proceed("writes");
                wait_nearly_in_step(&larder);
                assert_eq!(client.command(&["GET", "kept"]), Reply::bulk("1"));
                folder.reload(&larder, source, Some(mirror));
            }
            traffic.proceed("writes");
        });
        judge(&traffic, &larder);
        wait_in_step(&larder);
        assert_eq!(differences(&one, &other), Vec::<String>::new());
        // The new source announces changes, the old one is not heard.
        assert_eq!(client.command(&["SET", "seen", "1"]), Reply::ok());
        assert_eq!(client.command(&["GET", "seen"]), Reply::bulk("1"));
        if coherence == "coherent" {
            other.command(&["SET", "seen", "2"]);
            wait_until("the change to be seen", || client.command(&["GET", "seen"]) == Reply::bulk("2"));
            // Memory has no copy from before, which no server would announce.
            other.command(&["SET", "kept", "2"]);
            assert_eq!(client.command(&["GET", "kept"]), Reply::bulk("2"));
        }
    }
}

/// Nothing was written since it went away, so only a look at it tells.
#[test]
fn a_mirror_that_does_not_answer_does_not_become_the_source() {
    let (folder, one, other) = (Folder::new(), RedisServer::start(), RedisServer::start());
    let (from, to) = (format!("{}/0", one.url()), format!("{}/0", other.url()));
    let larder = folder.start(&from, Some(&to));
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "k", "v"]), Reply::ok());
    wait_in_step(&larder);
    other.stop();
    folder.write(&to, Some(&from));
    let (status, answer) = larder.reload("POST");
    assert!(status == 422 && answer.to_string().contains("the mirror is not in step"), "{answer}");
    assert_eq!(source_now(&larder), from);
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    other.cont();
    wait_in_step(&larder);
    folder.reload(&larder, &to, Some(&from));
}

#[test]
fn clients_with_state_at_a_redis_hold_its_place() {
    let (folder, one, other) = (Folder::new(), RedisServer::start(), RedisServer::start());
    let (from, to) = (format!("{}/0", one.url()), format!("{}/0", other.url()));
    folder.write(&from, Some(&to));
    // Writers are held up for half of it.
    let larder = Larder::with_env(&[("LARDER_SOURCE_TIMEOUT", "4s")], &["--config", path(&folder.file())]);
    wait_in_step(&larder);
    let (mut subscriber, mut client) = (larder.client(), larder.client());
    subscriber.command(&["SUBSCRIBE", "news"]);
    folder.write(&to, Some(&from));
    let (status, answer) = larder.reload("POST");
    assert!(status == 422 && answer.to_string().contains("connections of their own"), "{answer}");
    assert_eq!(client.command(&["SET", "a", "1"]), Reply::ok());
    assert_eq!(one.command(&["GET", "a"]), Reply::bulk("1"));
    drop(subscriber);
    wait_until("the swap", || larder.reload("POST").0 == 200);
    assert_eq!(client.command(&["SET", "a", "2"]), Reply::ok());
    assert_eq!(other.command(&["GET", "a"]), Reply::bulk("2"));
}

#[test]
fn a_store_and_a_redis_trade_places_by_a_restart_only() {
    let (folder, redis) = (Folder::new(), RedisServer::start());
    let (store, url) = (folder.store("store"), format!("{}/0", redis.url()));
    let larder = folder.start(&store, Some(&url));
    wait_in_step(&larder);
    folder.write(&url, Some(&store));
    let (status, answer) = larder.reload("POST");
    assert_eq!((status, changed_settings(&answer["needs_restart"])), (200, vec!["source", "mirror"]));
    assert_eq!(source_now(&larder), store);
}

/// All rows of a table, as another program reads them: the value is behind a head.
fn rows(node: &CassandraNode, keyspace: &str) -> BTreeMap<String, String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    node.cql(&[&format!("SELECT key, value FROM {keyspace}.kv")])
        .into_iter()
        .map(|row| {
            let [Some(CqlValue::Blob(key)), Some(CqlValue::Blob(value))] = &row.columns[..] else {
                panic!("{row:?}");
            };
            let head = match value[0] {
                0xf8 => 1,
                0xf9 => 9,
                head => panic!("{head:x}"),
            };
            (text(key), text(&value[head..]))
        })
        .collect()
}

#[test]
#[ignore = "make test-clients"]
fn a_store_and_a_node_of_cassandra_trade_places_under_writes_and_back() {
    let (node, folder) = (CassandraNode::shared(), Folder::new());
    let (url, store) = (node.url("swaps"), folder.store("store"));
    let larder = folder.start(&store, Some(&url));
    let traffic = Traffic::default();
    let (mut client, mut subscriber) = (larder.client(), larder.client());
    let setting = "notify-keyspace-events";
    assert_eq!(client.command(&["CONFIG", "SET", setting, "K$"]), Reply::ok());
    subscriber.command(&["SUBSCRIBE", "__keyspace@0__:told"]);
    client.command(&["SET", "told", "v"]);
    traffic.run(&larder, || {
        wait_nearly_in_step(&larder);
        folder.reload(&larder, &url, Some(&store));
        traffic.proceed("writes to the cluster");
        // Other programs may change its entries too, so there are no events.
        client.command(&["APPEND", "told", "v"]);
        assert_eq!(
            client.command(&["CONFIG", "GET", setting]),
            Reply::Array(Some(vec![Reply::bulk(setting), Reply::bulk("")]))
        );
        assert!(matches!(client.command(&["CONFIG", "SET", setting, "K$"]), Reply::Error(_)));
        wait_nearly_in_step(&larder);
        folder.reload(&larder, &store, Some(&url));
        traffic.proceed("writes to the store");
        client.command(&["SETRANGE", "told", "0", "w"]);
    });
    for event in ["set", "setrange"] {
        let message = ["message", "__keyspace@0__:told", event].map(Reply::bulk);
        assert_eq!(subscriber.read().unwrap(), Reply::Array(Some(message.to_vec())));
    }
    judge(&traffic, &larder);
    wait_in_step(&larder);
    let rows = rows(&node, "swaps");
    traffic.judge(|key| rows.get(key).cloned());
}

#[test]
#[ignore = "make test-clients"]
fn a_store_becomes_a_cluster_of_three_nodes_under_writes() {
    let (nodes, folder) = (CassandraNode::three(), Folder::new());
    let (url, store) = (CassandraNode::url_of(&nodes, "three"), folder.store("store"));
    let larder = folder.start(&store, Some(&url));
    let mut client = larder.client();
    for number in 0..2000 {
        client.command(&["SET", &format!("old:{number}"), &number.to_string()]);
    }
    // As many writes a second as the machine can, up to this.
    let traffic = Traffic::at(2200);
    traffic.run(&larder, || {
        wait_nearly_in_step(&larder);
        folder.reload(&larder, &url, None);
        traffic.proceed("writes to the cluster");
    });
    judge(&traffic, &larder);
    let rows = rows(&nodes[1], "three");
    traffic.judge(|key| rows.get(key).cloned());
    for number in 0..2000 {
        assert_eq!(rows.get(&format!("old:{number}")), Some(&number.to_string()));
    }
}
