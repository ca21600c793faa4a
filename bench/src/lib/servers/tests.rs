//! Against the real programs: they are part of what `make test` needs, as redis-server is for the
//! server's own tests.
use super::process::{PATIENCE, POLL};
use super::*;
use crate::lib::{
    blocking_clients::{HttpClient, RedisReply, RespClient},
    sql_client::SqlClient,
};
use std::{
    path::Path,
    time::{Duration, Instant},
};

const TIMEOUT: Duration = Duration::from_secs(10);

#[test]
fn redis_starts_stores_and_ends() {
    let mut server = redis(None).expect("redis-server starts");
    let mut client = RespClient::connect(server.address, TIMEOUT).expect("connect");
    client
        .load(1000, |number, key, value| {
            *key = format!("key:{number}").into_bytes();
            *value = key.clone();
        })
        .expect("all are stored");
    assert_eq!(client.call(&[b"DBSIZE"]).expect("answers"), RedisReply::Integer(1000));
    assert_eq!(client.call(&[b"GET", b"key:999"]).expect("answers"), RedisReply::Bulk(Some(b"key:999".to_vec())));
    assert!(server.process().resident_bytes().expect("statm") > 1 << 20);
    assert!(server.ended().expect("asked").is_none());
    assert!(server.terminate().expect("ends").success());
}

#[test]
fn a_killed_redis_comes_back_with_what_it_saved() {
    let mut server = redis(None).expect("redis-server starts");
    let connect = |server: &ServerProcess| RespClient::connect(server.address, TIMEOUT).expect("connect");
    let mut client = connect(&server);
    client.call(&[b"SET", b"saved", b"1"]).expect("answers");
    let saved = client.call(&[b"SAVE"]).expect("answers");
    assert_eq!(saved, RedisReply::Status("OK".into()));
    client.call(&[b"SET", b"lost", b"1"]).expect("answers");
    server.kill().expect("goes");
    assert!(client.call(&[b"PING"]).is_err());
    restart(&mut server).expect("comes back");
    let mut client = connect(&server);
    assert_eq!(client.call(&[b"EXISTS", b"saved", b"lost"]).expect("answers"), RedisReply::Integer(1));
}

#[test]
fn a_killed_postgres_comes_back_with_what_it_had() {
    let mut server = start("postgres", Start::default()).expect("PostgreSQL starts");
    let mut client = SqlClient::connect(server.address).expect("connect");
    client.run("CREATE TABLE t (v text); INSERT INTO t VALUES ('saved')").expect("stored");
    server.kill().expect("goes");
    let select = "SELECT v FROM t WHERE v = $1";
    assert!(client.text(select, "saved").is_err());
    restart(&mut server).expect("comes back");
    let mut client = SqlClient::connect(server.address).expect("connect");
    assert_eq!(client.text(select, "saved").expect("answers").as_deref(), Some("saved"));
    assert_eq!(client.text(select, "lost").expect("answers"), None);
}

#[test]
fn a_server_goes_with_its_handle() {
    let server = redis(None).expect("redis-server starts");
    let address = server.address;
    drop(server);
    assert!(RespClient::connect(address, TIMEOUT).is_err());
}

#[test]
fn nginx_serves_the_bytes() {
    let files = [("root/a", "sixty-four"), ("root/b", "{}")].map(|(name, text)| (name.to_owned(), text.into()));
    let server = start("nginx-static", Start { files: &files, ..Start::default() }).expect("nginx starts");
    let mut client = HttpClient::connect(server.address, TIMEOUT).expect("connect");
    for _ in 0..3 {
        assert_eq!(client.get("/a").expect("answers").body, b"sixty-four");
        assert_eq!(client.get("/b").expect("answers").body, b"{}");
    }
}

#[test]
fn what_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["-c", "echo the reason >&2; exit 3"].map(str::to_owned);
    let port = free_port().expect("a port");
    let mut server =
        ServerProcess::start("shell", false, folder, None, Path::new("/bin/sh"), &arguments, port).expect("it starts");
    let error = server.wait_until(|_| None).expect_err("it ends");
    assert!(error.to_string().contains("the reason"), "{error}");
    let missing = require("no-such-program").expect_err("not there");
    assert!(missing.to_string().contains("no-such-program"));
}

/// The three answers that every cache over HTTP gives, each twice: fetched and kept.
fn answers_as_the_backend(server: &ServerProcess) {
    let mut client = HttpClient::connect(server.address, TIMEOUT).expect("connect");
    for _ in 0..2 {
        let answer = client.get("/kv/a").expect("answers");
        assert_eq!((answer.status, &answer.body[..]), (200, &b"sixty-four"[..]));
        assert_eq!(client.get("/absent/a").expect("answers").status, 404);
        assert_eq!(client.get("/bad").expect("answers").status, 400);
    }
}

fn backend() -> ServerProcess {
    let files = [("root/value".to_owned(), b"sixty-four".to_vec())];
    start("backend", Start { files: &files, ..Start::default() }).expect("nginx starts")
}

fn cache(kind: &str, backend: &ServerProcess) -> ServerProcess {
    start(kind, Start { source: Some(backend.address), ..Start::default() }).expect(kind)
}

#[test]
fn caches_fetch_from_the_backend_and_keep() {
    let mut backend = backend();
    let caches = ["nginx-cache", "varnish"].map(|kind| cache(kind, &backend));
    caches.iter().for_each(answers_as_the_backend);
    // What they have now they need no backend for.
    backend.kill().expect("goes");
    caches.iter().for_each(answers_as_the_backend);
    for cache in &caches {
        let family = cache.process().family();
        assert!(family.len() > 1, "{} has no processes of its own", cache.name);
        assert!(cache.memory().expect("smaps") > cache.process().proportional_bytes().expect("smaps"));
    }
}

#[test]
fn a_cache_goes_with_all_its_processes() {
    let backend = backend();
    for cache in ["nginx-cache", "varnish"].map(|kind| cache(kind, &backend)) {
        let family = cache.process().family();
        drop(cache);
        let deadline = Instant::now() + PATIENCE;
        while family.iter().any(|process| process.cpu_time().is_ok()) {
            assert!(Instant::now() < deadline, "{family:?}");
            std::thread::sleep(POLL);
        }
    }
}

#[test]
fn a_command_line_can_be_typed() {
    let server = redis(None).expect("redis-server starts");
    let line = server.command_line();
    assert!(line.contains("redis-server --bind 127.0.0.1 --save '' --appendonly no --port "), "{line}");
}
