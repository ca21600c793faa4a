//! Listeners with rules of their own for what their clients may call.
use super::{
    common::{RedisServer, Reply},
    larder::{Larder, connect, expect, send},
};
use std::{fs, path::PathBuf};

fn config(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("larder.toml");
    fs::write(&file, text).unwrap();
    (dir, file)
}
fn with_file(file: &std::path::Path, args: &[&str]) -> Larder {
    Larder::start(&[&["--config", file.to_str().unwrap()], args].concat())
}
fn noperm(name: &str, setting: &str) -> String {
    format!("-NOPERM this listener has no permissions to run the '{name}' command (setting {setting})\r\n")
}

const RULES: &str = "\
deny-commands = ['@dangerous', 'getdel', 'hdel']

[listeners.readers]
redis = '127.0.0.1:0'
deny-commands = []
allow-commands = ['@read', '@connection', 'config|get', 'nosuch']

[listeners.operators]
redis = '127.0.0.1:0'
deny-commands = []
forward-admin = true
";

/// What each listener says, with any source.
fn each_listener(larder: &Larder) {
    let [readers, operators] = larder.listeners[..] else { panic!("{:?}", larder.listeners) };
    let mut top = connect(larder.redis);
    send(
        &mut top,
        &["SET k v", "GET k", "FLUSHALL", "GETDEL k", "MULTI", "KEYS *", "SET k w", "EXEC", "GET k", "CONFIG GET save"],
    );
    expect(&mut top, b"+OK\r\n$1\r\nv\r\n");
    expect(&mut top, noperm("flushall", "deny-commands").as_bytes());
    expect(&mut top, noperm("getdel", "deny-commands").as_bytes());
    expect(&mut top, b"+OK\r\n");
    expect(&mut top, noperm("keys", "deny-commands").as_bytes());
    expect(&mut top, b"+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n$1\r\nv\r\n");
    expect(&mut top, noperm("config|get", "deny-commands").as_bytes());
    let mut reads = connect(readers);
    send(
        &mut reads,
        &[
            "GET k",
            "GET k",
            "SET k x",
            "DEL k",
            "PING",
            "CONFIG GET nothing",
            "CONFIG SET save x",
            "MULTI",
            "RESET",
            "GET k",
        ],
    );
    expect(&mut reads, b"$1\r\nv\r\n$1\r\nv\r\n");
    expect(&mut reads, noperm("set", "allow-commands").as_bytes());
    expect(&mut reads, noperm("del", "allow-commands").as_bytes());
    expect(&mut reads, b"+PONG\r\n*0\r\n");
    expect(&mut reads, noperm("config|set", "allow-commands").as_bytes());
    expect(&mut reads, noperm("multi", "allow-commands").as_bytes());
    expect(&mut reads, b"+RESET\r\n$1\r\nv\r\n");
    let mut operates = connect(operators);
    send(&mut operates, &["KEYS *", "GETDEL k", "FLUSHALL"]);
    expect(&mut operates, b"*1\r\n$1\r\nk\r\n$1\r\nv\r\n+OK\r\n");
}

#[test]
fn each_listener_has_rules_of_its_own() {
    let (_dir, file) = config(RULES);
    each_listener(&with_file(&file, &[]));
    let store = tempfile::tempdir().unwrap();
    each_listener(&with_file(&file, &["--source", &format!("disk:{}", store.path().display())]));
}

#[test]
fn forwarded_commands_go_by_the_categories_of_redis() {
    let (_dir, file) = config(RULES);
    let redis = RedisServer::start();
    let larder = with_file(&file, &["--source", &redis.url()]);
    each_listener(&larder);
    let [readers, operators] = larder.listeners[..] else { panic!("{:?}", larder.listeners) };
    let mut top = connect(larder.redis);
    send(
        &mut top,
        &["HSET h f v", "HGET h f", "HGET h f", "HDEL h f", "SORT h", "SLOWLOG LEN", "MULTI", "HDEL h f", "EXEC"],
    );
    expect(&mut top, b":1\r\n$1\r\nv\r\n$1\r\nv\r\n");
    expect(&mut top, noperm("hdel", "deny-commands").as_bytes());
    expect(&mut top, noperm("sort", "deny-commands").as_bytes());
    expect(&mut top, noperm("slowlog|len", "deny-commands").as_bytes());
    expect(&mut top, b"+OK\r\n");
    expect(&mut top, noperm("hdel", "deny-commands").as_bytes());
    expect(&mut top, b"-EXECABORT Transaction discarded because of previous errors.\r\n");
    let mut reads = connect(readers);
    send(
        &mut reads,
        &["HGET h f", "HGETALL h", "HSET h f w", "LPUSH l a", "EVAL x 0", "NEWER a", "ACL WHOAMI", "CONFIG REWRITE"],
    );
    expect(&mut reads, b"$1\r\nv\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
    for name in ["hset", "lpush", "eval", "newer|a", "acl|whoami", "config|rewrite"] {
        if name == "config|rewrite" {
            expect(&mut reads, noperm(name, "allow-commands").as_bytes());
            continue;
        }
        expect(&mut reads, noperm(name, "allow-commands").as_bytes());
    }
    // `forward-admin` is a listener's, too.
    let mut operates = connect(operators);
    let mut other = connect(larder.redis);
    send(&mut other, &["FAILOVER"]);
    expect(&mut other, b"-ERR FAILOVER is not forwarded to the source: set forward-admin to allow it\r\n");
    send(&mut operates, &["FAILOVER", "REPLICAOF NO ONE"]);
    expect(&mut operates, b"-ERR FAILOVER requires connected replicas.\r\n+OK\r\n");
    assert_eq!(redis.command(&["HGET", "h", "f"]), Reply::bulk("v"));
}
