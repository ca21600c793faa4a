//! Listeners with rules of their own for what their clients may call.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{Larder, connect, expect, send},
};
use regex::Regex;
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

/// The page that lists the rights which Larder's user needs at Redis names all of them: Redis refuses
/// nothing, and forwarded writes do not empty the memory tier.
#[test]
fn the_documented_rights_of_larders_user_suffice() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/redis.md")).unwrap();
    let (_, section) = page.split_once("### The rights of Larder's user\n").unwrap();
    let (section, _) = section.split_once("\n###").unwrap();
    let right = Regex::new(r"[+&~][a-z*\\|]+").unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rights: Vec<String> =
        cells.flat_map(|cell| right.find_iter(cell).map(|right| right.as_str().replace('\\', ""))).collect();
    assert!(rights.len() > 10 && rights.contains(&"+command".to_owned()), "{rights:?}");

    let redis = RedisServer::start();
    let mut rules = vec!["ACL", "SETUSER", "larder", "on", ">pw", "~*", "+lpush", "+lrange", "+blpop", "+publish"];
    rules.extend(["+subscribe", "+unsubscribe", "+incr", "+mget", "+pexpireat", "+expire"]);
    rules.extend(rights.iter().map(String::as_str));
    assert_eq!(redis.command(&rules), Reply::ok());
    redis.command(&["MSET", "k", "v", "other", "w"]);
    let url = redis.url().replace("redis://", "redis://larder:pw@");
    for mode in ["coherent", "ttl"] {
        let larder = Larder::start(&["--source", &url, "--coherence", mode, "--ttl", "1h", "--threads", "1"]);
        wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
        assert_eq!(larder.metric("larder_source_untracked_connections{group=\"default\"}"), 0.0);
        let mut client = larder.client();
        let asked = || redis.calls("get");
        wait_until("a copy", || {
            let before = asked();
            client.command(&["GET", "k"]) == Reply::bulk("v") && asked() == before
        });
        let copied = asked();
        let mut steps: Vec<Reply> = Vec::new();
        for command in [
            &["LPUSH", "list", "a"][..],
            &["LRANGE", "list", "0", "-1"],
            &["LRANGE", "list", "0", "-1"],
            &["BLPOP", "list", "1"],
            &["INCR", "n"],
            &["EXPIRE", "n", "100"],
            &["MULTI"],
            &["INCR", "n"],
            &["EXEC"],
            &["PUBLISH", "c", "m"],
            &["SUBSCRIBE", "c"],
            &["UNSUBSCRIBE", "c"],
        ] {
            steps.push(client.command(command));
        }
        assert!(!steps.iter().any(|reply| matches!(reply, Reply::Error(_))), "{steps:?}");
        let http = |method: &str| {
            let body = if method == "PUT" {
                "content-length: 1\r\nconnection: close\r\n\r\nx"
            } else {
                "connection: close\r\n\r\n"
            };
            larder.http(&format!("{method} /v1/kv/h HTTP/1.1\r\nhost: x\r\n{body}")).0
        };
        assert_eq!([http("PUT"), http("PUT"), http("DELETE")], [201, 204, 204]);
        // UNBLOCK needs rights of its own.
        let mut blocked = larder.client();
        let id = blocked.command(&["CLIENT", "ID"]).int();
        blocked.send(&["BLPOP", "none", "0"]).unwrap();
        let unblock = |client: &mut Client| client.command(&["CLIENT", "UNBLOCK", &id.to_string()]);
        wait_until("the client to block", || unblock(&mut client) == Reply::Int(1));
        assert_eq!(blocked.read().unwrap(), Reply::Array(None));
        // None of this touched k.
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
        assert_eq!(asked(), copied, "the copy of k is gone ({mode})");
    }
    assert_eq!(redis.command(&["ACL", "LOG"]), Reply::Array(Some(vec![])));
}
