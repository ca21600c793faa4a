//! What a Redis source promises besides.
use super::{
    common::{Port, RedisServer, Reply},
    fixture::{LIMITS, plain, reason, redis, redis_with, run, some, tcp},
};
use larder_config::RedisUrl;
use larder_proto::resp;
use larder_source::{FillPolicy, KeyPolicy, SourceError, SourceLimits};
use larder_store::clock;

#[test]
fn origin_expiry_shortens_and_group_ttl_caps() {
    let server = RedisServer::start();
    run(async {
        let policy = FillPolicy::from(KeyPolicy { ttl: Some(60_000), ..KeyPolicy::default() });
        let group = redis_with(&server, LIMITS, policy);
        let before = clock::now();
        server.command(&["SET", "short", "v", "PX", "20000"]);
        server.command(&["SET", "long", "v", "EX", "3600"]);
        server.command(&["SET", "ever", "v"]);
        group.get_all(&["short", "long", "ever"]).await;
        let after = clock::now();
        // With room below for a machine that is busy between the SET and the read.
        let within = |key, ms| {
            let expiry = group.expiry(key).expect("an expiry");
            assert!((before + ms - 10_000..=clock::now() + ms).contains(&expiry), "{key}");
        };
        within("short", 20_000);
        within("long", 60_000);
        within("ever", 60_000);
        // A later expiry never prolongs a copy, an earlier one shortens it.
        assert_eq!(group.expire(b"short", Some(after + 50_000)).await, Ok(true));
        within("short", 20_000);
        assert_eq!(group.expire(b"short", None).await, Ok(true));
        within("short", 20_000);
        assert_eq!(group.expire(b"ever", Some(after + 5_000)).await, Ok(true));
        assert!(group.expiry("ever").expect("an expiry") <= after + 5_000);
        // A put's own expiry is capped as well.
        let put = group.put(b"put", "v".into(), Some(after + 3_600_000)).await;
        put.expect("the put");
        within("put", 60_000);
        assert!(server.command(&["PTTL", "put"]).int() > 3_500_000);

        let policy = FillPolicy::from(KeyPolicy { ttl: Some(50), ..KeyPolicy::default() });
        let group = redis_with(&server, LIMITS, policy);
        assert_eq!(group.get("ever").await, some("v"));
        server.command(&["SET", "ever", "w"]);
        group.until("the new value", async || group.get("ever").await == some("w")).await;
    });
}

#[test]
fn absences_are_remembered_for_the_negative_ttl_only() {
    let server = RedisServer::start();
    run(async {
        let policy = FillPolicy::from(KeyPolicy { negative_ttl: Some(300), ..KeyPolicy::default() });
        let group = redis_with(&server, LIMITS, policy);
        assert_eq!(group.get("k").await, Ok(None));
        assert_eq!(group.get("k").await, Ok(None));
        assert_eq!(server.calls("get"), 1);
        server.command(&["SET", "k", "v"]);
        group.until("the key is asked for again", async || group.get("k").await == some("v")).await;
        // A put ends it at once.
        assert_eq!(group.get("l").await, Ok(None));
        group.put(b"l", "v".into(), None).await.expect("the put");
        assert_eq!(group.get("l").await, some("v"));

        let group = redis(&server);
        let calls = server.calls("get");
        group.get("m").await.expect("an answer");
        group.get("m").await.expect("an answer");
        assert_eq!(server.calls("get"), calls + 2, "without it each read asks");
    });
}

#[test]
fn a_key_of_another_type_is_refused_alone() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        server.command(&["RPUSH", "list", "x"]);
        server.command(&["SET", "a", "1"]);
        let wrong = SourceError::Refused("WRONGTYPE Operation against a key holding the wrong kind of value".into());
        let answers = group.get_all(&["a", "list", "b"]).await;
        assert_eq!(answers, [some("1"), Err(wrong.clone()), Ok(None)]);
        assert!(!wrong.is_unavailable());
        server.command(&["DEL", "list"]);
        assert_eq!(group.get("list").await, Ok(None), "errors are not remembered");
        assert_eq!(group.health.errors(), 1);
    });
}

#[test]
fn a_refused_write_changes_nothing() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        group.put(b"k", "old".into(), None).await.expect("the put");
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let refused = group.put(b"k", "new".into(), None).await;
        let text = refused.expect_err("refused").to_string();
        assert!(text.starts_with("OOM command not allowed"), "{text}");
        assert_eq!(group.cached("k"), Some(b"old".to_vec()));
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);

        let nobody = Port::free();
        server.command(&["REPLICAOF", "127.0.0.1", &nobody.number.to_string()]);
        for refused in [
            group.put(b"k", "new".into(), None).await.map(drop),
            group.delete(b"k").await.map(drop),
            group.expire(b"k", Some(clock::now() + 1)).await.map(drop),
        ] {
            let text = refused.expect_err("refused").to_string();
            assert!(text.starts_with("READONLY"), "{text}");
        }
        assert_eq!(group.cached("k"), Some(b"old".to_vec()));
        server.command(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(server.command(&["GET", "k"]), Reply::bulk("old"));
    });
}

#[test]
fn a_user_without_some_keys_or_commands() {
    let server = RedisServer::start();
    let user = |name: &str, rules: &[&str]| {
        let mut command = vec!["ACL", "SETUSER", name, "on", ">pw"];
        command.extend(rules);
        assert_eq!(server.command(&command), Reply::ok());
    };
    user("some-keys", &["~my:*", "+@all"]);
    user("no-multi", &["~*", "+get", "+pttl", "+ping", "+client"]);
    user("no-exists", &["~*", "+@all", "-exists", "-del"]);
    user("no-pttl", &["~*", "+get", "+multi", "+exec", "+ping"]);
    server.command(&["MSET", "my:1", "1", "my:2", "2", "your", "3"]);
    server.command(&["PEXPIRE", "my:2", "60000"]);
    let open = |name: &str| {
        let url = RedisUrl { user: Some(name.to_owned()), password: Some("pw".into()), ..tcp(server.port()) };
        plain(url)
    };
    run(async {
        // EXEC fails for all, yet only the forbidden key is refused.
        let group = open("some-keys");
        let answers = group.get_all(&["my:1", "your", "my:2", "my:3"]).await;
        let text = reason(answers[1].clone());
        assert!(text.starts_with("NOPERM"), "{text}");
        assert_eq!(answers[0], some("1"));
        assert_eq!(answers[2..], [some("2"), Ok(None)]);

        // Without MULTI values and expiries come one by one.
        let group = open("no-multi");
        let answers = group.get_all(&["my:1", "my:2", "my:3"]).await;
        assert_eq!(answers, [some("1"), some("2"), Ok(None)]);
        assert!(group.expiry("my:2").is_some());
        assert_eq!(group.get("your").await, some("3"), "replies stay in step");

        let text = reason(open("no-pttl").get("my:1").await);
        assert!(text.starts_with("NOPERM"), "{text}");

        // A write that Redis has taken is no error for want of an EXISTS, and no copy stays as it was.
        let group = open("no-exists");
        assert_eq!(group.get("my:2").await, some("2"));
        group.put(b"my:2", "new".into(), Some(clock::now() + 60_000)).await.expect("written");
        assert_eq!(group.get("my:2").await, some("new"));
        assert_eq!(group.expire(b"my:2", None).await, Ok(true));
        assert_eq!(server.command(&["PTTL", "my:2"]).int(), -1);
        let refused = group.delete(b"my:2").await.expect_err("refused").to_string();
        assert!(refused.starts_with("NOPERM"), "{refused}");
    });
}
#[test]
fn concurrent_misses_of_a_key_are_one_get() {
    let server = RedisServer::start();
    run(async {
        server.command(&["SET", "k", "v"]);
        let group = redis(&server);
        let reads: Vec<_> = (0..200)
            .map(|_| {
                let group = group.group.clone();
                tokio::task::spawn_local(async move { group.read(b"k", clock::now()).await })
            })
            .collect();
        for read in reads {
            let value = read.await.expect("no panic").expect("an answer");
            assert_eq!(value.as_deref(), Some(&b"v"[..]));
        }
        assert_eq!(server.calls("get"), 1);
    });
}

#[test]
fn misses_of_one_moment_leave_in_one_write() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        group.until_up().await;
        let mut watcher = server.client();
        let mut reads = || {
            let Reply::Bulk(Some(info)) = watcher.command(&["INFO", "stats"]) else {
                panic!("INFO has no text");
            };
            let info = String::from_utf8(info).expect("text");
            let line = info.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
            line.expect("Redis counts reads").parse::<u64>().expect("a number")
        };
        let keys: Vec<String> = (0..100).map(|i| format!("key:{i}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let before = reads();
        // From the reads of several connections, too: what is queued before the task runs leaves together.
        let (one, two) = keys.split_at(50);
        let (one, two) = tokio::join!(group.get_all(one), group.get_all(two));
        // Ours, and the second INFO's own.
        assert_eq!(reads() - before, 2);
        assert!(one.into_iter().chain(two).all(|answer| answer == Ok(None)));
        assert_eq!((server.calls("get"), server.calls("exec")), (100, 1));
    });
}

#[test]
fn many_misses_are_cut_into_transactions() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        let keys: Vec<String> = (0..1000).map(|i| format!("key:{i}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        server.command(&["MSET", "key:0", "a", "key:127", "b", "key:128", "c", "key:999", "d"]);
        let answers = group.get_all(&keys).await;
        assert_eq!(answers.iter().filter(|answer| **answer == Ok(None)).count(), 996);
        assert_eq!([0, 127, 128, 999].map(|i: usize| answers[i].clone()), ["a", "b", "c", "d"].map(some));
        assert_eq!(server.calls("exec"), 8);
    });
}

#[test]
fn commands_go_through_verbatim() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        let relay = group.source.as_redis().expect("Redis commands");
        let two = "*5\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n$0\r\n\r\n*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n";
        // HSET with an odd number of arguments is an error like any other reply.
        let replies = relay.relay(two.into(), 2, false).await.expect("replies");
        assert!(replies[0].starts_with(b"-ERR wrong number"), "{replies:?}");
        assert_eq!(&replies[1][..], b"*0\r\n");
        server.command(&["HSET", "h", "f", "v"]);
        let get = "*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n";
        let (resp2, resp3) = tokio::join!(relay.relay(get.into(), 1, false), relay.relay(get.into(), 1, true));
        assert_eq!(&resp2.expect("a reply")[0][..], b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
        assert_eq!(&resp3.expect("a reply")[0][..], b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n");

        // A large reply, and a large command.
        let large = "x".repeat(3_000_000);
        let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$3000000\r\n{large}\r\n*2\r\n$3\r\nGET\r\n$1\r\nl\r\n");
        let replies = relay.relay(set.into(), 2, false).await.expect("replies");
        assert_eq!(&replies[0][..], b"+OK\r\n");
        assert!(replies[1][..] == *format!("$3000000\r\n{large}\r\n").as_bytes());

        // A pinned connection keeps its state; the shared one does not have it.
        let watch = "*2\r\n$5\r\nWATCH\r\n$1\r\nk\r\n";
        let mut parser = resp::Parser::default();
        parser.parse(watch.as_bytes(), &resp::Limits::new(1024)).expect("a command");
        let pinned = relay.open_dedicated(parser.args(watch.as_bytes()), false).await.expect("a connection");
        assert_eq!(&pinned.relay(watch.into(), 1, false).await.expect("a reply")[0][..], b"+OK\r\n");
        server.command(&["SET", "k", "changed"]);
        let transaction = "*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nEXEC\r\n";
        let replies = pinned.relay(transaction.into(), 3, false).await.expect("replies");
        assert_eq!(&replies[2][..], b"*-1\r\n");
        let replies = relay.relay(transaction.into(), 3, false).await.expect("replies");
        assert_eq!(&replies[2][..], b"*1\r\n$7\r\nchanged\r\n");
        // Once lost it does not come back without its state.
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        group.until("it is lost", async || pinned.relay(watch.into(), 1, false).await.is_err()).await;
        let again = pinned.relay(watch.into(), 1, false).await;
        assert!(matches!(again, Err(SourceError::Unavailable(_))), "{again:?}");
        assert!(group.source.ping().await.is_ok());
        assert!(relay.relay("".into(), 0, false).await.is_ok_and(|replies| replies.bytes().is_empty()));
    });
}

#[test]
fn values_beyond_the_limit_are_refused_without_being_held() {
    let server = RedisServer::start();
    run(async {
        let limits = SourceLimits { max_value: 100_000, ..LIMITS };
        let group = redis_with(&server, limits, FillPolicy::default());
        server.command(&["SET", "fits", &"x".repeat(100_000)]);
        server.command(&["SET", "over", &"x".repeat(100_001)]);
        server.command(&["SET", "far", &"x".repeat(5_000_000)]);
        let answers = group.get_all(&["over", "fits", "far", "none"]).await;
        assert_eq!(answers[1], some("x".repeat(100_000)));
        assert_eq!(answers[3], Ok(None));
        let text = reason(answers[2].clone());
        assert_eq!(text, "ERR the source's value of 5000000 bytes is larger than allowed: 100000 (max-value)");
        assert!(answers[0].is_err());
        assert!(group.source.ping().await.is_ok(), "replies stay in step");
    });
}
