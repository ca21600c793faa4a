//! Commands in front of a real Redis: what goes there, what stays here, and that the copies never
//! lie.
use super::support::{Client, Redis, Server};
use larder_config::{Coherence, SourceUrl};
use larder_core::read::Group;
use larder_engine::Write;
use larder_source::{FillPolicy, SourceLimits, SourceSetup};
use std::{future::Future, rc::Rc, sync::Arc, time::Duration};

/// A source that leads to this Redis.
pub(super) fn setup(redis: &Redis) -> SourceSetup {
    let url = format!("unix://{}", redis.socket().display());
    let url: SourceUrl = url.parse().expect("a URL");
    let limits = SourceLimits {
        timeout: Duration::from_secs(20),
        slow_timeout: Duration::from_secs(20),
        max_in_flight: 1000,
        adaptive: true,
        max_value: 1 << 20,
        max_backlog: 32 << 20,
        ..SourceLimits::SMALLEST
    };
    SourceSetup::new(&url, limits, &larder_base::buffers::Buffers::unbounded()).expect("nothing to check")
}

/// Runs a test with a Redis and a server in front of it, on a runtime like a worker's.
pub(super) fn with_redis<F: Future<Output = ()>>(test: impl FnOnce(Redis, Server) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).expect("a runtime");
    runtime.block_on(async {
        let redis = Redis::start();
        let source = setup(&redis).open(None, false);
        source.ping().await.expect("it is there");
        let server = Server::with_source(&[], source);
        let test = test(redis, server);
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("it hangs");
    });
}

/// What the tier has of a key.
fn copy(client: &Client<'_>, key: &str) -> Option<String> {
    let cache = &client.server.worker.groups.default().cache;
    cache.tier().peek(cache.key(key.as_bytes()), larder_store::clock::now(), |entry| {
        String::from_utf8_lossy(entry.value.as_bytes()).into_owned()
    })
}

#[test]
fn reads_are_fetched_once_and_kept() {
    with_redis(|redis, server| async move {
        let mut direct = redis.connect();
        direct.say("MSET a 1 b 2");
        let mut client = server.client();
        assert_eq!(client.ask("GET a").await, "$1\r\n1\r\n");
        assert_eq!(copy(&client, "a").as_deref(), Some("1"));
        direct.say("SET a changed");
        assert_eq!(client.ask("GET a").await, "$1\r\n1\r\n", "the copy");
        assert_eq!(client.ask("GET missing").await, "$-1\r\n");
        // Some here, some there, some nowhere; in order.
        assert_eq!(
            client.ask("MGET a b missing a nothing").await,
            "*5\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n$1\r\n1\r\n$-1\r\n"
        );
        assert_eq!(client.ask("MGET missing a").await, "*2\r\n$-1\r\n$1\r\n1\r\n");
        assert_eq!(client.ask("MGET a b").await, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
        client.ask("HELLO 3").await;
        assert_eq!(client.ask("MGET missing a").await, "*2\r\n_\r\n$1\r\n1\r\n");
        assert_eq!(client.ask("GET missing").await, "_\r\n");
        // Simple reads of a copy need no source; others ask it.
        assert_eq!(client.ask("STRLEN a").await, ":1\r\n");
        assert_eq!(client.ask("GETRANGE a 0 -1").await, "$1\r\n1\r\n");
        direct.say("SET c hello");
        assert_eq!(client.ask("STRLEN c").await, ":5\r\n");
        assert_eq!(client.ask("SUBSTR c 1 2").await, "$2\r\nel\r\n");
        assert_eq!(copy(&client, "c"), None);
        // An error of the source's reaches who asked.
        direct.say("LPUSH list x");
        let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
        assert_eq!(client.ask("GET list").await, wrong);
        assert_eq!(client.ask("APPEND list x").await, wrong);
        assert_eq!(server.worker.app.telemetry.sums().redis_errors(), 2);
    });
}

#[test]
fn writes_go_there_first() {
    with_redis(|redis, server| async move {
        let mut direct = redis.connect();
        let mut client = server.client();
        assert_eq!(client.ask("SET a 1").await, "+OK\r\n");
        assert_eq!(direct.say("GET a"), "$1\r\n1\r\n");
        assert_eq!(copy(&client, "a").as_deref(), Some("1"), "written through");
        assert_eq!(client.ask("SET a 2 EX 100 XX").await, "+OK\r\n");
        assert_eq!(copy(&client, "a").as_deref(), Some("2"));
        let cache = &server.worker.groups.default().cache;
        let expiry = cache.tier().peek(cache.key(b"a"), larder_store::clock::now(), |entry| entry.expiry());
        let left = expiry.flatten().expect("it expires") - larder_store::clock::now();
        assert!((90_000..=100_000).contains(&left), "{left}");
        assert_eq!(client.ask("TTL a").await, ":100\r\n");
        // Refused: nothing changes.
        assert_eq!(client.ask("SET a 3 NX").await, "$-1\r\n");
        assert_eq!(client.ask("GET a").await, "$1\r\n2\r\n");
        direct.say("SET n abc");
        client.ask("GET n").await;
        assert_eq!(client.ask("INCR n").await, "-ERR value is not an integer or out of range\r\n");
        assert_eq!(copy(&client, "n").as_deref(), Some("abc"), "an error changes nothing");
        assert_eq!(client.ask("SET a 4 BAD").await, "-ERR syntax error\r\n");
        assert_eq!(client.ask("SET a 4 GET").await, "$1\r\n2\r\n");
        assert_eq!(client.ask("GET a").await, "$1\r\n4\r\n");
        // What the tier cannot know it forgets.
        for (line, reply, after) in [
            ("APPEND a 5", ":2\r\n", "$2\r\n45\r\n"),
            ("INCR a", ":46\r\n", "$2\r\n46\r\n"),
            ("SETRANGE a 0 9", ":2\r\n", "$2\r\n96\r\n"),
            ("GETSET a x", "$2\r\n96\r\n", "$1\r\nx\r\n"),
            ("MSET a y b z", "+OK\r\n", "$1\r\ny\r\n"),
            ("EXPIRE a 100", ":1\r\n", "$1\r\ny\r\n"),
            ("SETEX a 100 t", "+OK\r\n", "$1\r\nt\r\n"),
            ("RENAME b a", "+OK\r\n", "$1\r\nz\r\n"),
            ("GETDEL a", "$1\r\nz\r\n", "$-1\r\n"),
            ("SETNX a 1", ":1\r\n", "$1\r\n1\r\n"),
            ("DEL a", ":1\r\n", "$-1\r\n"),
        ] {
            client.ask("GET a").await;
            assert_eq!(client.ask(line).await, reply, "{line}");
            assert_eq!(client.ask("GET a").await, after, "{line}");
        }
        client.ask("SET a 1").await;
        client.ask("SET b 1").await;
        assert_eq!(client.ask("FLUSHALL").await, "+OK\r\n");
        assert_eq!((copy(&client, "a"), copy(&client, "b")), (None, None));
        assert_eq!(client.ask("GET a").await, "$-1\r\n");
        assert_eq!(client.ask("DBSIZE").await, ":0\r\n");
    });
}

#[test]
fn transactions_go_there_whole() {
    with_redis(|redis, server| async move {
        let mut direct = redis.connect();
        let mut client = server.client();
        client.ask("SET a 1").await;
        for line in ["MULTI", "INCR a", "PING", "GET a", "CLIENT ID", "GET missing", "INCR s", "SET b x"] {
            let expected = if line == "MULTI" { "+OK\r\n" } else { "+QUEUED\r\n" };
            assert_eq!(client.ask(line).await, expected);
        }
        direct.say("SET s abc");
        assert_eq!(
            client.ask("EXEC").await,
            "*7\r\n:2\r\n+PONG\r\n$1\r\n2\r\n:1\r\n$-1\r\n-ERR value is not an integer or out of range\r\n+OK\r\n"
        );
        assert_eq!(client.ask("GET a").await, "$1\r\n2\r\n", "the old copy is gone");
        assert_eq!(direct.say("GET b"), "$1\r\nx\r\n");
        // Refused when queued: nothing runs.
        for line in ["MULTI", "SET a 9", "NOSUCH"] {
            client.ask(line).await;
        }
        assert!(client.ask("EXEC").await.starts_with("-EXECABORT"));
        assert_eq!(direct.say("GET a"), "$1\r\n2\r\n");
        // Without data commands it needs no source, and ends all the same.
        client.ask("MULTI").await;
        client.ask("PING").await;
        assert_eq!(client.ask("EXEC").await, "*1\r\n+PONG\r\n");
        assert_eq!(client.ask("EXEC").await, "-ERR EXEC without MULTI\r\n");
        client.ask("MULTI").await;
        client.ask("FLUSHALL").await;
        assert_eq!(client.ask("EXEC").await, "*1\r\n+OK\r\n");
        assert_eq!(client.ask("GET a").await, "$-1\r\n");
    });
}

#[test]
fn watch_has_a_connection_of_its_own() {
    with_redis(|redis, server| async move {
        let mut direct = redis.connect();
        let (mut client, mut other) = (server.client(), server.client());
        client.ask("SET a 1").await;
        // No other client interferes.
        assert_eq!(client.ask("WATCH a").await, "+OK\r\n");
        direct.say("SET a direct");
        assert_eq!(client.ask("GET a").await, "$6\r\ndirect\r\n", "not the copy: reads go the same way");
        assert_eq!(client.ask("UNWATCH").await, "+OK\r\n");
        assert_eq!(client.ask("WATCH a").await, "+OK\r\n");
        for line in ["MULTI", "SET a 2"] {
            client.ask(line).await;
        }
        assert_eq!(other.ask("GET b").await, "$-1\r\n", "others are not held up");
        assert_eq!(client.ask("EXEC").await, "*1\r\n+OK\r\n");
        assert!(client.session.dedicated.is_none());
        assert_eq!(other.ask("GET a").await, "$1\r\n2\r\n");
        // Another client of ours does.
        client.ask("WATCH a b").await;
        other.ask("SET b 1").await;
        for line in ["MULTI", "SET a 3"] {
            client.ask(line).await;
        }
        assert_eq!(client.ask("EXEC").await, "*-1\r\n");
        assert_eq!(client.ask("GET a").await, "$1\r\n2\r\n");
        // In RESP3, and a client of Redis's own does.
        client.ask("HELLO 3").await;
        client.ask("WATCH a").await;
        direct.say("SET a 4");
        client.ask("MULTI").await;
        client.ask("GET a").await;
        assert_eq!(client.ask("EXEC").await, "_\r\n");
        // DISCARD and RESET let go.
        client.ask("WATCH a").await;
        client.ask("MULTI").await;
        client.ask("DISCARD").await;
        assert!(client.session.dedicated.is_none());
        client.ask("WATCH a").await;
        client.ask("RESET").await;
        assert!(client.session.dedicated.is_none());
    });
}

#[test]
fn a_source_that_is_down() {
    with_redis(|redis, server| async move {
        let (mut client, mut watcher) = (server.client(), server.client());
        client.ask("SET a 1").await;
        watcher.ask("WATCH a").await;
        watcher.ask("MULTI").await;
        watcher.ask("SET a 2").await;
        drop(redis);
        assert_eq!(client.ask("GET a").await, "$1\r\n1\r\n", "hits go on");
        for line in ["GET b", "SET a 2", "DEL a", "MGET a b", "STRLEN b", "TTL a", "WATCH a", "FLUSHALL"] {
            let reply = client.ask(line).await;
            assert!(reply.starts_with("-ERR source unavailable: "), "{line}: {reply}");
        }
        client.ask("MULTI").await;
        client.ask("SET a 3").await;
        let reply = client.ask("EXEC").await;
        assert!(reply.starts_with("-ERR source unavailable: "), "{reply}");
        assert_eq!(client.ask("EXEC").await, "-ERR EXEC without MULTI\r\n");
        let reply = watcher.ask("EXEC").await;
        assert!(reply.starts_with("-ERR source unavailable: "), "{reply}");
        assert!(watcher.session.dedicated.is_none() && watcher.session.multi.is_none());
        assert_eq!(client.ask("PING").await, "+PONG\r\n");
    });
}

#[test]
fn silence_is_kept() {
    with_redis(|redis, server| async move {
        let mut client = server.client();
        assert_eq!(client.ask("CLIENT REPLY OFF").await, "");
        for line in ["SET a 1", "GET missing", "GET a", "MGET x y", "NOSUCH", "STRLEN a"] {
            assert_eq!(client.ask(line).await, "", "{line}");
        }
        assert_eq!(client.ask("CLIENT REPLY ON").await, "+OK\r\n");
        assert_eq!(redis.connect().say("GET a"), "$1\r\n1\r\n");
        assert_eq!(client.ask("CLIENT REPLY SKIP").await, "");
        assert_eq!(client.ask("SET a 2").await, "");
        assert_eq!(client.ask("SET a 3").await, "+OK\r\n");
    });
}

#[test]
fn overlapping_writes_leave_no_stale_copy() {
    with_redis(|redis, server| async move {
        let mut direct = redis.connect();
        for round in 0..200 {
            let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
            let [a, b, c, d] = clients.as_mut_slice() else { panic!("four") };
            let (set, other) = (format!("SET k {round}"), format!("SET k other{round}"));
            tokio::join!(a.ask(&set), b.ask(&other), c.ask("GET k"), d.ask("DEL k"));
            let truth = direct.say("GET k");
            assert_eq!(a.ask("GET k").await, truth, "round {round}");
        }
    });
}

#[test]
fn what_was_read_at_the_source_leaves_no_older_copy_where_copies_are_coherent() {
    with_redis(|redis, mut server| async move {
        redis.connect().say("SET a 1");
        for (coherence, kept) in [(Coherence::Ttl, true), (Coherence::Coherent, false)] {
            let policy = Arc::new(FillPolicy { coherence, ..FillPolicy::default() });
            let group = (**server.worker.groups.default()).clone();
            *server.worker.groups.default_mut() = Rc::new(Group { policy, ..group });
            let mut client = server.client();
            for commands in
                [&["TTL a"][..], &["EXISTS b a"], &["MULTI", "GET a", "EXEC"], &["WATCH a", "GET a", "UNWATCH"]]
            {
                let cache = &client.server.worker.groups.default().cache;
                let stored = cache.tier().set(cache.key(b"a"), Write::new(b"0"), larder_store::clock::now());
                stored.expect("it fits");
                for command in commands {
                    client.ask(command).await;
                }
                assert_eq!(copy(&client, "a").is_some(), kept, "{coherence:?} {commands:?}");
            }
        }
    });
}
