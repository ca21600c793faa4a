//! `larder copy` among disk stores, Redis servers, a cluster and a snapshot.
use super::{server::CassandraNode, text};
use crate::{
    common::{Client, RedisServer},
    larder::{Larder, binary},
};
use std::{
    path::Path,
    process::{Command, Output},
};

fn copy(args: &[&str]) -> Output {
    Command::new(binary()).env_clear().arg("copy").args(args).output().unwrap()
}

/// What it printed.
fn copied(args: &[&str]) -> String {
    let output = copy(args);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn disk(dir: &Path) -> String {
    format!("disk:{}", dir.display())
}

/// Entries of all kinds that every store has, 1,003 of them.
fn fill(client: &mut Client) {
    for number in 0..1000 {
        client.send(&["SET", &format!("key:{number}"), &number.to_string()]).unwrap();
    }
    (0..1000).for_each(|_| assert_eq!(super::shown(&client.read().unwrap()), "OK"));
    client.command(&["SET", "expires", "v", "PXAT", "4102444800123"]);
    client.command(&["SET", "large", &"x".repeat(100_000)]);
    client.command(&[&b"SET"[..], b"\0\r\n\xff", b"\0\xff"]);
}

fn check(client: &mut Client) {
    for number in [0, 17, 500, 999] {
        assert_eq!(text(client, &["GET", &format!("key:{number}")]), number.to_string());
    }
    let expiry: i64 = text(client, &["PEXPIRETIME", "expires"]).parse().unwrap();
    assert!((4_102_444_799_000..4_102_444_802_000).contains(&expiry), "{expiry}");
    assert_eq!(text(client, &["STRLEN", "large"]), "100000");
    assert_eq!(client.command(&[&b"GET"[..], b"\0\r\n\xff"]), crate::common::Reply::bulk(b"\0\xff"));
    assert_eq!(text(client, &["DBSIZE"]), "1003");
}

#[test]
fn entries_are_copied_between_a_store_and_a_server() {
    let (redis, second, dir) = (RedisServer::start(), RedisServer::start(), tempfile::tempdir().unwrap());
    fill(&mut redis.client());
    let store = disk(&dir.path().join("store"));
    assert_eq!(copied(&[&redis.url(), &store]), "1003 entries copied, 0 differ\n");
    check(&mut Larder::start(&["--source", &store]).client());
    assert_eq!(copied(&[&store, &second.url(), "--json"]), "{\"differ\":0,\"entries\":1003,\"left_out\":{}}\n");
    check(&mut second.client());
    // A store is copied into another as it is.
    let again = disk(&dir.path().join("again"));
    {
        let larder = Larder::start(&["--source", &store]);
        let mut client = larder.client();
        assert_eq!(text(&mut client, &["JSON.SET", "d", "$", "{\"a\":1}"]), "OK");
    }
    assert_eq!(copied(&[&store, &again]), "1004 entries copied, 0 differ\n");
    let larder = Larder::start(&["--source", &again]);
    assert_eq!(text(&mut larder.client(), &["JSON.GET", "d"]), "{\"a\":1}");
    drop(larder);
    // What Redis cannot keep is counted, and so is what a store cannot.
    let output = copy(&[&again, &second.url()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("1 JSON documents are left out"), "{said}");
    second.command(&["RPUSH", "list", "1"]);
    let output = copy(&[&second.url(), &again]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("1 keys that are no strings are left out"), "{said}");
    // Another Redis keeps it.
    second.command(&["EXPIRE", "list", "1000"]);
    let third = RedisServer::start();
    assert_eq!(copied(&[&second.url(), &third.url()]), "1004 entries copied, 0 differ\n");
    assert_eq!(text(&mut third.client(), &["LPOP", "list"]), "1");
    second.command(&["HSET", "hash", "f", "v"]);
    second.command(&["PEXPIREAT", "hash", "4102444800123"]);
    assert_eq!(copied(&[&second.url(), &third.url()]), "1005 entries copied, 0 differ\n");
    let expiry: i64 = text(&mut third.client(), &["PEXPIRETIME", "hash"]).parse().unwrap();
    assert!((4_102_444_799_000..4_102_444_802_000).contains(&expiry), "{expiry}");
}

#[test]
fn a_snapshot_is_copied_into_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("larder.snap");
    {
        let larder = Larder::start(&["--snapshot-file", file.to_str().unwrap()]);
        let mut client = larder.client();
        fill(&mut client);
        assert_eq!(text(&mut client, &["SAVE"]), "OK");
    }
    let store = disk(&dir.path().join("store"));
    assert_eq!(copied(&[file.to_str().unwrap(), &store]), "1003 entries copied, 0 differ\n");
    check(&mut Larder::start(&["--source", &store]).client());
}

/// A server that goes away in the middle; then the same command goes on.
#[test]
fn a_copy_goes_on_where_it_was_interrupted() {
    let (redis, mut second, dir) = (RedisServer::start(), RedisServer::start(), tempfile::tempdir().unwrap());
    fill(&mut redis.client());
    let resume = dir.path().join("copy.json");
    let (from, to) = (redis.url(), second.url());
    let args = [&from, &to, "--rate", "400", "--resume", resume.to_str().unwrap()];
    let mut child = Command::new(binary()).env_clear().arg("copy").args(args).spawn().unwrap();
    crate::common::wait_until("the first pages", || resume.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let before: serde_json::Value = serde_json::from_slice(&std::fs::read(&resume).unwrap()).unwrap();
    assert!(before["entries"].as_u64().unwrap() > 0, "{before}");
    // What was copied before is not written again, so the second pass finds what is missing.
    second.restart();
    let output = copy(&args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("entries differ"), "{said}");
    assert!(!resume.exists());
    assert_eq!(copied(&args[..2]), "1003 entries copied, 0 differ\n");
    // The file of another copy is not taken for this one's.
    std::fs::write(&resume, before.to_string()).unwrap();
    let store = disk(&dir.path().join("store"));
    let output = copy(&[&from, &store, "--resume", resume.to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("is that of another copy"), "{said}");
}

/// What was left out before an interruption is said at the end, also from a file of an earlier Larder.
#[test]
fn a_copy_that_goes_on_remembers_what_it_left_out() {
    let (redis, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let (store, resume) = (disk(&dir.path().join("store")), dir.path().join("copy.json"));
    {
        let larder = Larder::start(&["--source", &store]);
        let mut client = larder.client();
        fill(&mut client);
        // It is in the first page.
        assert_eq!(text(&mut client, &["JSON.SET", "a", "$", "1"]), "OK");
    }
    let url = redis.url();
    let args = [&*store, &url, "--json", "--rate", "1000", "--resume", resume.to_str().unwrap()];
    let mut child = Command::new(binary()).env_clear().arg("copy").args(args).spawn().unwrap();
    crate::common::wait_until("the first page", || resume.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let mut before: serde_json::Value = serde_json::from_slice(&std::fs::read(&resume).unwrap()).unwrap();
    let output = copy(&args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "{\"differ\":0,\"entries\":1003,\"left_out\":{\"JSON documents\":1}}\n");
    let fields = before.as_object_mut().unwrap();
    assert!(fields.remove("left_out").is_some() && fields.remove("refused").is_some());
    std::fs::write(&resume, before.to_string()).unwrap();
    assert_eq!(copied(&args), "{\"differ\":0,\"entries\":1003,\"left_out\":{}}\n");
}

/// A server refuses one entry of a page: the others are copied, and it counts once.
#[test]
fn an_entry_that_is_refused_counts_as_left_out_only() {
    let (redis, second) = (RedisServer::start(), RedisServer::with(&["--rename-command", "RESTORE", ""]));
    fill(&mut redis.client());
    redis.command(&["RPUSH", "list", "1"]);
    let output = copy(&[&redis.url(), &second.url()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "1003 entries copied, 0 differ\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("1 ERR unknown command") && !said.contains("differ"), "{said}");
    check(&mut second.client());
}

#[test]
fn what_cannot_be_copied_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let store = disk(dir.path());
    for (from, to, code, expected) in [
        ("none:", &*store, 2, "none: cannot be copied from: stores and Redis servers can"),
        (&store, "http://localhost/{key}", 2, "cannot be copied to"),
        (&store, &store, 2, "FROM and TO are the same"),
        ("/no/file", &store, 2, "FROM: "),
        ("redis://127.0.0.1:1", &store, 1, "FROM: source unavailable: "),
    ] {
        let output = copy(&[from, to]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(code) && said.contains(expected), "{from} {to}: {said}");
    }
}

#[test]
#[ignore = "make test-clients"]
fn a_disk_store_becomes_a_cluster_and_comes_back() {
    let node = CassandraNode::shared();
    let dir = tempfile::tempdir().unwrap();
    let store = disk(&dir.path().join("store"));
    {
        let larder = Larder::start(&["--source", &store]);
        let mut client = larder.client();
        fill(&mut client);
        assert_eq!(text(&mut client, &["JSON.SET", "d", "$", "{\"a\":1}"]), "OK");
    }
    let url = node.url("copies");
    assert_eq!(copied(&[&store, &url]), "1004 entries copied, 0 differ\n");
    let again = disk(&dir.path().join("again"));
    assert_eq!(copied(&[&url, &again]), "1004 entries copied, 0 differ\n");
    let larder = Larder::start(&["--source", &again]);
    let mut client = larder.client();
    assert_eq!(text(&mut client, &["JSON.GET", "d"]), "{\"a\":1}");
    client.command(&["DEL", "d"]);
    check(&mut client);
    assert_eq!(text(&mut client, &["PEXPIRETIME", "expires"]), "4102444800123", "to the millisecond");
}

/// A table of another program keeps no lifetimes, and Larder's own may have rows of another program.
#[test]
#[ignore = "make test-clients"]
fn what_a_cluster_cannot_keep_and_what_larder_cannot_read_is_left_out() {
    let node = CassandraNode::shared();
    let (redis, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let own = node.url("strange");
    node.cql(&[
        "CREATE TABLE strange.t (id blob PRIMARY KEY, v blob)",
        "INSERT INTO strange.kv (key, value) VALUES (textAsBlob('k'), textAsBlob('text'))",
    ]);
    fill(&mut redis.client());
    let output = copy(&[&redis.url(), &format!("{own}?table=t&columns=v"), "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["entries"], &said["differ"]), (&1002.into(), &0.into()), "{said}");
    let left_out = said["left_out"].as_object().unwrap();
    assert!(left_out.len() == 1 && left_out.keys().all(|what| what.contains("lifetimes to the millisecond")), "{said}");
    let output = copy(&[&own, &disk(&dir.path().join("store")), "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        said,
        serde_json::json!({ "entries": 0, "differ": 0, "left_out": { "values of FROM that Larder did not write": 1 } })
    );
}
