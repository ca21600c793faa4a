//! The memcached door in front of sources, and its values at the other doors.
use super::{
    common::RedisServer,
    wire::{Wire, start},
};
use crate::{
    postgres::server::PostgresServer,
    source_conformance::scripted_origin::{ScriptedOrigin, answer},
};
use std::{collections::HashMap, sync::Mutex, thread};

#[test]
fn values_are_the_same_bytes_at_all_doors() {
    let larder = start(&[]);
    let (mut wire, mut redis) = (Wire::larder(&larder), larder.client());
    assert_eq!(wire.ask("set a 7 0 2\r\nhi\r\n"), "STORED\r\n");
    assert_eq!(redis.command(&["GET", "a"]), super::common::Reply::bulk("hi"));
    let (status, _, body) = larder.http("GET /v1/kv/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!((status, &body[..]), (200, &b"hi"[..]));
    // Another door's write is of no client's flags; what adds to a value keeps them.
    redis.command(&["APPEND", "a", "!"]);
    assert_eq!(wire.ask("get a\r\n"), "VALUE a 7 3\r\nhi!\r\nEND\r\n");
    redis.command(&["SET", "a", "ho"]);
    assert_eq!(wire.ask("get a\r\n"), "VALUE a 0 2\r\nho\r\nEND\r\n");
}

/// All writes, at a source. `flags`: what a value may have.
fn writes(wire: &mut Wire, flags: u32) {
    for (said, expected) in [
        (format!("set a {flags} 0 2\r\n10\r\n"), "STORED\r\n".to_owned()),
        ("get a b\r\n".to_owned(), format!("VALUE a {flags} 2\r\n10\r\nEND\r\n")),
        ("incr a 5\r\n".to_owned(), "15\r\n".to_owned()),
        ("decr a 6\r\n".to_owned(), "9\r\n".to_owned()),
        ("get a\r\n".to_owned(), format!("VALUE a {flags} 2\r\n9 \r\nEND\r\n")),
        (format!("add a {flags} 0 1\r\nx\r\n"), "NOT_STORED\r\n".to_owned()),
        (format!("add b {flags} 0 1\r\nx\r\n"), "STORED\r\n".to_owned()),
        ("append b 0 0 1\r\ny\r\n".to_owned(), "STORED\r\n".to_owned()),
        ("prepend b 0 0 1\r\nw\r\n".to_owned(), "STORED\r\n".to_owned()),
        ("get b\r\n".to_owned(), format!("VALUE b {flags} 3\r\nwxy\r\nEND\r\n")),
        ("replace c 0 0 1\r\nx\r\n".to_owned(), "NOT_STORED\r\n".to_owned()),
        ("touch b 100\r\n".to_owned(), "TOUCHED\r\n".to_owned()),
        ("gat 100 b c\r\n".to_owned(), format!("VALUE b {flags} 3\r\nwxy\r\nEND\r\n")),
        ("touch c 100\r\n".to_owned(), "NOT_FOUND\r\n".to_owned()),
        ("mg b v f s\r\n".to_owned(), format!("VA 3 f{flags} s3\r\nwxy\r\n")),
        ("mg c v\r\n".to_owned(), "EN\r\n".to_owned()),
        ("mg c N30\r\n".to_owned(), "HD W\r\n".to_owned()),
        ("ma n N0 J3 v\r\n".to_owned(), "VA 1\r\n3\r\n".to_owned()),
        ("ma n v\r\n".to_owned(), "VA 1\r\n4\r\n".to_owned()),
        ("delete b\r\n".to_owned(), "DELETED\r\n".to_owned()),
        ("delete b\r\n".to_owned(), "NOT_FOUND\r\n".to_owned()),
        ("set b 0 -1 1\r\nv\r\nget b\r\n".to_owned(), "STORED\r\nEND\r\n".to_owned()),
    ] {
        assert_eq!(wire.ask(&said), expected, "{said:?}");
    }
    let shown = wire.ask("gets a\r\n");
    let version: u64 = shown.lines().next().unwrap().split(' ').nth(4).unwrap().parse().unwrap();
    assert_eq!(wire.ask(format!("cas a 0 0 1 {}\r\nx\r\n", version ^ 1)), "EXISTS\r\n");
    assert_eq!(wire.ask(format!("cas a 0 0 1 {version}\r\nx\r\n")), "STORED\r\n");
    assert_eq!(wire.ask(format!("cas a 0 0 1 {version}\r\nx\r\n")), "EXISTS\r\n");
    assert_eq!(wire.ask("cas nothing 0 0 1 5\r\nx\r\n"), "NOT_FOUND\r\n");
}

#[test]
fn writes_go_through_to_a_redis() {
    let redis = RedisServer::start();
    let larder = start(&[&format!("--source={}", redis.url())]);
    let mut wire = Wire::larder(&larder);
    writes(&mut wire, 0);
    assert_eq!(redis.command(&["GET", "a"]), super::common::Reply::bulk("x"));
    redis.command(&["SET", "theirs", "value"]);
    assert_eq!(wire.ask("get theirs none\r\n"), "VALUE theirs 0 5\r\nvalue\r\nEND\r\n");
    let refused = wire.ask("set a 5 0 1\r\nv\r\n");
    assert!(refused.starts_with("SERVER_ERROR client flags 5 cannot be kept"), "{refused}");
    redis.command(&["LPUSH", "list", "x"]);
    let wrong = wire.ask("get list theirs\r\nget theirs\r\n");
    assert_eq!(
        wrong,
        "SERVER_ERROR WRONGTYPE Operation against a key holding the wrong kind of value\r\nVALUE theirs 0 5\r\nvalue\r\nEND\r\n"
    );
    assert_eq!(wire.ask("flush_all\r\nget theirs\r\n"), "OK\r\nEND\r\n");
    assert_eq!(redis.command(&["DBSIZE"]).int(), 0);
}

/// They have no place for flags and lifetimes.
#[test]
fn an_api_and_a_database_take_plain_values() {
    let values = Mutex::new(HashMap::new());
    let api = ScriptedOrigin::start(move |asked| {
        let mut values = values.lock().unwrap();
        let found = match asked.head.split(' ').next().unwrap() {
            "PUT" => values.insert(asked.target.clone(), asked.body.clone()).or(Some(Vec::new())),
            "DELETE" => values.remove(&asked.target),
            _ => values.get(&asked.target).cloned(),
        };
        let status = if found.is_some() { "200 OK" } else { "404 Not Found" };
        answer(status, "cache-control: max-age=60\r\n", found.unwrap_or_default())
    });
    let database = PostgresServer::start();
    database.sql("CREATE TABLE notes (id text PRIMARY KEY, body text)");
    for source in [format!("http://127.0.0.1:{}/{{key}}", api.port), database.url("table=notes&columns=body")] {
        let larder = start(&[&format!("--source={source}"), "--source-writes=through"]);
        let mut wire = Wire::larder(&larder);
        for (said, expected) in [
            ("get a\r\n", "END\r\n"),
            ("set a 0 0 2\r\n10\r\n", "STORED\r\n"),
            ("get a\r\n", "VALUE a 0 2\r\n10\r\nEND\r\n"),
            ("incr a 5\r\n", "15\r\n"),
            ("append a 0 0 1\r\n!\r\n", "STORED\r\n"),
            ("add a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
            ("mg a v f\r\n", "VA 3 f0\r\n15!\r\n"),
        ] {
            assert_eq!(wire.ask(said), expected, "{source}: {said:?}");
        }
        for refused in ["set a 5 0 1\r\nx\r\n", "set a 0 60 1\r\nx\r\n"] {
            let reply = wire.ask(refused);
            assert!(reply.starts_with("SERVER_ERROR "), "{source}: {refused:?}: {reply}");
        }
        assert_eq!(wire.ask("get a\r\n"), "VALUE a 0 3\r\n15!\r\nEND\r\n", "{source}");
        assert_eq!(wire.ask("delete a\r\ndelete a\r\nget a\r\n"), "DELETED\r\nNOT_FOUND\r\nEND\r\n", "{source}");
    }
    assert_eq!(database.sql("SELECT count(*) FROM notes"), "0");
}

#[test]
fn increments_of_many_clients_are_each_counted_once() {
    let redis = RedisServer::start();
    let larder = start(&[&format!("--source={}", redis.url())]);
    Wire::larder(&larder).ask("set n 0 0 1\r\n0\r\n");
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut wire = Wire::larder(&larder);
                for _ in 0..25 {
                    let answer = wire.ask("incr n 1\r\n");
                    assert!(answer.trim_end().parse::<u64>().is_ok(), "{answer}");
                }
            });
        }
    });
    assert_eq!(redis.command(&["GET", "n"]), super::common::Reply::bulk("400"));
}

#[test]
fn a_disk_store_keeps_flags_over_a_restart() {
    let dir = tempfile::TempDir::new().unwrap();
    let source = format!("--source=disk:{}", dir.path().display());
    let larder = start(&[&source]);
    writes(&mut Wire::larder(&larder), 5);
    assert_eq!(Wire::larder(&larder).ask("set kept 77 0 1\r\nv\r\n"), "STORED\r\n");
    drop(larder);
    let larder = start(&[&source]);
    assert_eq!(Wire::larder(&larder).ask("get kept\r\n"), "VALUE kept 77 1\r\nv\r\nEND\r\n");
}

/// A value of a source has a version that depends on its content: none is older than another.
#[test]
fn another_version_changes_nothing_at_a_source() {
    let dir = tempfile::TempDir::new().unwrap();
    let redis = RedisServer::start();
    for source in [format!("disk:{}", dir.path().display()), redis.url()] {
        let larder = start(&[&format!("--source={source}")]);
        let mut wire = Wire::larder(&larder);
        assert_eq!(wire.ask("set k 0 0 3\r\nnew\r\n"), "STORED\r\n");
        let shown = wire.ask("mg k c\r\n");
        let version: u64 = shown.trim_end().strip_prefix("HD c").unwrap().parse().unwrap();
        for wrong in [1, version - 1, version + 1] {
            assert_eq!(wire.ask(format!("ms k 3 C{wrong} I\r\nold\r\n")), "EX\r\n", "{source}");
            assert_eq!(wire.ask(format!("md k I C{wrong}\r\n")), "EX\r\n", "{source}");
            assert_eq!(wire.ask("mg k v\r\n"), "VA 3\r\nnew\r\n", "{source}");
        }
        assert_eq!(wire.ask(format!("md none I C{version}\r\n")), "NF\r\n", "{source}");
        assert_eq!(wire.ask(format!("md k I C{version}\r\n")), "HD\r\n", "{source}");
        // Redis keeps it: Larder has forgotten its copy.
        let left = if source.starts_with("disk") { "EN\r\n" } else { "VA 3\r\nnew\r\n" };
        assert_eq!(wire.ask("mg k v\r\n"), left, "{source}");
    }
}

#[test]
#[ignore = "make test-clients"]
fn a_cluster_keeps_flags() {
    let node = crate::cassandra::server::CassandraNode::shared();
    let url = node.url("memcached");
    let larder = start(&[&format!("--source={url}")]);
    writes(&mut Wire::larder(&larder), 5);
    assert_eq!(Wire::larder(&larder).ask("set kept 77 0 1\r\nv\r\n"), "STORED\r\n");
    let other = start(&[&format!("--source={url}")]);
    assert_eq!(Wire::larder(&other).ask("get kept\r\n"), "VALUE kept 77 1\r\nv\r\nEND\r\n");
}
