//! Each way to write is seen by the mirror. A new way is a row of [`WAYS`].
use super::{contents, differences, wait_in_step};
use crate::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{Larder, connect},
};
use std::io::{Read as _, Write as _};

/// A door, what goes in, and whether only a Redis source takes it.
enum Way {
    Redis(&'static [&'static str]),
    /// Not for stores.
    OnlyRedis(&'static [&'static str]),
    Http(&'static str, &'static str, &'static str),
    Memcached(&'static str),
}
use Way::{Http, Memcached, OnlyRedis, Redis};

const WAYS: &[Way] = &[
    Redis(&["SET", "a", "1"]),
    Redis(&["SET", "b", "1", "NX", "EX", "1000"]),
    Redis(&["GETSET", "a", "2"]),
    Redis(&["SETNX", "c", "1"]),
    Redis(&["SETEX", "d", "1000", "1"]),
    Redis(&["MSET", "e", "1", "f", "2", "g", "3"]),
    Redis(&["MSETNX", "h", "1", "i", "2"]),
    Redis(&["INCR", "a"]),
    Redis(&["INCRBYFLOAT", "a", "1.5"]),
    Redis(&["APPEND", "b", "x"]),
    Redis(&["SETRANGE", "c", "2", "x"]),
    OnlyRedis(&["SETBIT", "e", "9", "1"]),
    Redis(&["EXPIRE", "a", "5000"]),
    Redis(&["PERSIST", "a"]),
    Redis(&["GETEX", "a", "EX", "7000"]),
    Redis(&["GETDEL", "b"]),
    Redis(&["RENAME", "c", "j"]),
    Redis(&["COPY", "j", "k"]),
    Redis(&["DEL", "e", "f", "missing"]),
    Redis(&["UNLINK", "g"]),
    Redis(&["MULTI"]),
    Redis(&["SET", "l", "1"]),
    Redis(&["INCR", "l"]),
    Redis(&["EXEC"]),
    Redis(&["WATCH", "m"]),
    Redis(&["MULTI"]),
    Redis(&["SET", "m", "1"]),
    Redis(&["EXEC"]),
    OnlyRedis(&["RPUSH", "list", "1", "2"]),
    OnlyRedis(&["LPOP", "list"]),
    OnlyRedis(&["LMOVE", "list", "moved", "LEFT", "LEFT"]),
    OnlyRedis(&["BLPOP", "moved", "1"]),
    OnlyRedis(&["HSET", "hash", "f", "v"]),
    OnlyRedis(&["HINCRBY", "hash", "n", "3"]),
    OnlyRedis(&["SADD", "set", "a", "b"]),
    OnlyRedis(&["ZADD", "sorted", "1", "a"]),
    OnlyRedis(&["ZRANGESTORE", "stored", "sorted", "0", "-1"]),
    OnlyRedis(&["XADD", "stream", "1-1", "f", "v"]),
    OnlyRedis(&["PFADD", "log", "a"]),
    OnlyRedis(&["EVAL", "redis.call('SET', KEYS[1], ARGV[1])", "1", "script", "v"]),
    OnlyRedis(&["BITOP", "NOT", "bits", "a"]),
    OnlyRedis(&["SORT", "set", "ALPHA", "STORE", "order"]),
    Http("PUT", "/v1/kv/http", "1"),
    Http("PUT", "/v1/kv/lives?ttl=1000s", "1"),
    Http("PUT", "/v1/kv/gone", "1"),
    Http("DELETE", "/v1/kv/gone", ""),
    Http("POST", "/cache/v1/item", "{\"key\":\"item\",\"value\":\"v\",\"ttl\":1000}"),
    Http("DELETE", "/cache/v1/item", "{\"key\":\"http\"}"),
    Http("PUT", "/v0/entity?id=entity", "v"),
    Http("DELETE", "/v0/entity?id=h", ""),
    Memcached("set plain 0 0 1\r\nv\r\n"),
    Memcached("add number 0 1000 1\r\n1\r\n"),
    Memcached("incr number 5\r\n"),
    Memcached("append plain 0 0 1\r\nw\r\n"),
    Memcached("touch plain 5000\r\n"),
    Memcached("delete i\r\n"),
    Memcached("ms meta 1\r\nv\r\n"),
];

fn go(larder: &Larder, is_redis: bool, mut ended: impl FnMut(&str)) {
    let (mut client, mut memcached) = (larder.client(), connect(larder.memcached[0]));
    for way in WAYS {
        let shown = match way {
            OnlyRedis(_) if !is_redis => continue,
            Redis(command) | OnlyRedis(command) => {
                let reply = client.command(command);
                assert!(!matches!(reply, Reply::Error(_)), "{command:?}: {reply:?}");
                // Queued commands have not run.
                if reply == Reply::Simple("QUEUED".to_owned()) {
                    continue;
                }
                command.join(" ")
            }
            Http(method, path, body) => {
                let length = body.len();
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
                );
                let (status, head, body) = larder.http(&request);
                assert!((200..300).contains(&status), "{method} {path}: {head} {body:?}");
                format!("{method} {path}")
            }
            Memcached(command) => {
                memcached.write_all(command.as_bytes()).unwrap();
                let mut reply = [0; 64];
                let read = memcached.read(&mut reply).unwrap();
                let reply = String::from_utf8_lossy(&reply[..read]).into_owned();
                assert!(!reply.contains("ERROR") && !reply.contains("NOT"), "{command}: {reply}");
                (*command).to_owned()
            }
        };
        ended(&shown);
    }
}

#[test]
fn each_way_to_write_to_a_redis_is_mirrored() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    for coherence in ["coherent", "ttl"] {
        let args = ["--source", &one.url(), "--mirror", &other.url(), "--coherence", coherence, "--ttl", "10s"];
        let larder = Larder::start(&[&args[..], &["--memcached", "127.0.0.1:0"]].concat());
        wait_in_step(&larder);
        let scanned = larder.metric("larder_mirror_scanned_total");
        go(&larder, true, |way| {
            wait_until(&format!("{way} to be mirrored"), || differences(&one, &other).is_empty());
        });
        assert!(larder.metric("larder_mirror_scanned_total") <= scanned, "no walk found the changes");
        assert_eq!(larder.metric("larder_mirror_left_out_total"), 0.0);
        assert!(contents(&mut other.client()).len() > 20);
        // What has no names.
        assert_eq!(larder.client().command(&["FLUSHALL"]), Reply::ok());
        wait_until("the mirror to be emptied", || other.command(&["DBSIZE"]) == Reply::Int(0));
    }
}

fn bulk(reply: &Reply) -> &[u8] {
    let Reply::Bulk(Some(bytes)) = reply else { panic!("no bulk string: {reply:?}") };
    bytes
}

#[test]
fn each_way_to_write_to_a_disk_store_is_mirrored() {
    let (redis, dir) = (RedisServer::start(), tempfile::tempdir().unwrap());
    let store = format!("disk:{}", dir.path().join("store").display());
    let args = ["--source", &store, "--mirror", &redis.url(), "--memcached", "127.0.0.1:0"];
    let larder = Larder::start(&args);
    wait_in_step(&larder);
    let (mut client, mut mirror) = (larder.client(), redis.client());
    let mut is_mirrored = || {
        let Reply::Array(Some(mut keys)) = client.command(&["KEYS", "*"]) else { panic!("no keys") };
        // Redis keeps no documents, and no older values of them.
        keys.retain(|key| client.command(&[&b"TYPE"[..], bulk(key)]) == Reply::Simple("string".to_owned()));
        let mut is_same = |key: &Reply| {
            let expiry = |client: &mut Client| client.command(&[&b"PEXPIRETIME"[..], bulk(key)]).int();
            client.command(&[&b"GET"[..], bulk(key)]) == mirror.command(&[&b"GET"[..], bulk(key)])
                && expiry(&mut client).abs_diff(expiry(&mut mirror)) <= 1000
        };
        keys.iter().all(&mut is_same) && mirror.command(&["DBSIZE"]).int() == keys.len() as i64
    };
    go(&larder, false, |way| wait_until(&format!("{way} to be mirrored"), &mut is_mirrored));
    larder.client().command(&["SET", "d", "a string"]);
    wait_until("a string", || redis.command(&["GET", "d"]) == Reply::bulk("a string"));
    let item = "{\"key\":\"d\",\"value\":1,\"ttl\":1000}";
    let length = item.len();
    let post =
        format!("POST /cache/v1/item HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    assert_eq!(larder.http(&(post + item)).0, 201);
    wait_until("a document", || redis.command(&["EXISTS", "d"]) == Reply::Int(0));
    assert_eq!(larder.client().command(&["FLUSHALL"]), Reply::ok());
    wait_until("the mirror to be emptied", || redis.command(&["DBSIZE"]) == Reply::Int(0));
}
