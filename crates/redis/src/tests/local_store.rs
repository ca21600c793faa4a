//! Commands on a source that keeps its entries on this machine, where a real server cannot be
//! asked: several clients at once, failures, walks, tracking.
use super::{
    memory_store::MemoryStore,
    support::{Client, Server, runtime, words},
};
use crate::{
    Flow,
    connection::{BufferPool, ClientConnection, Protocol as _},
};
use bytes::Bytes;
use larder_engine::{Cache, Config};
use larder_proto::resp::{View, encode, view};
use larder_source::{FreshnessTable, KeyPolicy, SourceError};
use larder_store::{StoredValue, clock};
use std::{
    collections::BTreeSet,
    future::poll_fn,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
};
use tokio::sync::Notify;

fn server(store: &MemoryStore) -> Server {
    Server::with_source(&[], Rc::new(store.clone()))
}
fn strings(reply: &[u8]) -> Vec<String> {
    match view(reply) {
        Ok(View::Array(values)) => values
            .map(|value| match value {
                View::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            })
            .collect(),
        other => panic!("not an array: {other:?}"),
    }
}
fn stored(store: &MemoryStore, key: &'static str) -> Option<String> {
    let entries = store.entries.lock();
    entries.get(key.as_bytes()).map(|found| String::from_utf8_lossy(&found.value).into_owned())
}

#[test]
fn counters_lose_nothing_between_many_clients_and_cores() {
    const CORES: usize = 4;
    const CLIENTS: usize = 8;
    const TIMES: usize = 50;
    let store = MemoryStore::default();
    let cache = Cache::new(Config::default());
    let shared = Server::sharing(&cache, Rc::new(store.clone()));
    let writes = shared.worker.groups.default().writes.clone();
    std::thread::scope(|scope| {
        for _ in 0..CORES {
            let (cache, store, writes) = (cache.clone(), store.clone(), writes.clone());
            scope.spawn(move || {
                let mut server = Server::sharing(&cache, Rc::new(store));
                Rc::get_mut(server.worker.groups.default_mut()).expect("not shared yet").writes = writes;
                runtime().block_on(async {
                    let clients = (0..CLIENTS).map(|number| {
                        let mut client = server.client();
                        async move {
                            for time in 0..TIMES {
                                client.ask("INCR hits").await;
                                // Two keys, in one order and the other.
                                let (a, b) = if (number + time) % 2 == 0 { ("a", "b") } else { ("b", "a") };
                                client.ask("MULTI").await;
                                client.ask(&format!("INCR {a}")).await;
                                client.ask(&format!("DECR {b}")).await;
                                let both = client.ask("EXEC").await;
                                assert!(both.starts_with("*2\r\n:"), "{both}");
                            }
                        }
                    });
                    futures(clients).await;
                });
            });
        }
    });
    assert_eq!(stored(&store, "hits"), Some((CORES * CLIENTS * TIMES).to_string()));
    assert_eq!((stored(&store, "a"), stored(&store, "b")), (Some("0".into()), Some("0".into())));
}
/// All of them at once.
async fn futures<F: Future<Output = ()>>(all: impl Iterator<Item = F>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[test]
fn what_comes_while_the_store_is_busy_goes_there_together() {
    let store = MemoryStore::default();
    let server = server(&store);
    let (worker, spare) = (&server.worker, BufferPool::default());
    let mut conn = server.conn();
    // Each is read by itself, as from a client that sends one at a time without waiting.
    let send = |conn: &mut ClientConnection, number: usize| {
        conn.input.feed(&encode(&[&b"INCRBY"[..], b"sum", number.to_string().as_bytes()]), &spare);
        assert_eq!(conn.process(worker, &spare, clock::now()), Flow::Input { more: 1 });
    };
    runtime().block_on(async {
        let go_on = Arc::new(Notify::new());
        *store.held.lock() = Some(go_on.clone());
        send(&mut conn, 1);
        while store.held.lock().is_some() {
            let progress = poll_fn(|cx| Poll::Ready(conn.poll_waiting(worker, cx))).await;
            assert!(progress.is_pending());
            tokio::task::yield_now().await;
        }
        (2..=300).for_each(|number| send(&mut conn, number));
        go_on.notify_one();
        while conn.is_waiting() {
            poll_fn(|cx| conn.poll_waiting(worker, cx)).await;
        }
    });
    let expected: String = (1..=300).map(|number| format!(":{}\r\n", number * (number + 1) / 2)).collect();
    assert_eq!(String::from_utf8(conn.out.to_vec()).expect("text"), expected);
    // The first, and the others 256 at a time.
    assert_eq!(store.applied.load(Relaxed), 3);
}

#[test]
fn what_the_store_refuses_has_not_happened() {
    let store = MemoryStore::default();
    let server = server(&store);
    runtime().block_on(async {
        let mut client = server.client();
        assert_eq!(client.ask("SET k 1").await, "+OK\r\n");
        for error in [SourceError::Unavailable("disk full".into()), SourceError::Lost("disk full".into())] {
            *store.fails.lock() = Some(error);
            for command in ["SET k 2", "INCR k", "DEL k", "EXPIRE k 10", "FLUSHALL", "MSET k 3 l 3"] {
                assert_eq!(client.ask(command).await, "-ERR source unavailable: disk full\r\n", "{command}");
            }
            client.ask("MULTI").await;
            client.ask("GET k").await;
            client.ask("SET k 4").await;
            assert_eq!(client.ask("EXEC").await, "-ERR source unavailable: disk full\r\n");
            // Reads go on.
            assert_eq!(client.ask("MGET k l").await, "*2\r\n$1\r\n1\r\n$-1\r\n");
            assert_eq!(client.ask("TTL k").await, ":-1\r\n");
            *store.fails.lock() = None;
        }
        assert_eq!(client.ask("INCR k").await, ":2\r\n");
        // A command that fails by itself changes nothing and reaches no client.
        let applied = store.applied.load(Relaxed);
        assert_eq!(client.ask("SET k 5 EX 0").await, "-ERR invalid expire time in 'set' command\r\n");
        assert_eq!(client.ask("SET k 5 PX x").await, "-ERR value is not an integer or out of range\r\n");
        assert_eq!(client.ask("SET k 5 NX").await, "$-1\r\n");
        assert_eq!(client.ask("GETEX k").await, "$1\r\n2\r\n");
        assert_eq!(store.applied.load(Relaxed), applied);
        assert_eq!(stored(&store, "k").as_deref(), Some("2"));
    });
}

#[test]
fn a_transaction_answers_what_it_did_before_the_store_failed() {
    let store = MemoryStore::default();
    let server = server(&store);
    runtime().block_on(async {
        let mut client = server.client();
        for command in ["MULTI", "SET a 1", "INCR a", "SCAN 0", "SET b 2", "GET a", "DBSIZE", "SET c 3"] {
            client.ask(command).await;
        }
        let fails = async {
            // Once the first part is over.
            while store.pages.load(Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
            *store.fails.lock() = Some(SourceError::Unavailable("disk full".into()));
        };
        let (answer, ()) = tokio::join!(client.ask("EXEC"), fails);
        let failed = "-ERR source unavailable: disk full\r\n".repeat(4);
        assert_eq!(answer, format!("*7\r\n+OK\r\n:2\r\n*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n{failed}"));
        *store.fails.lock() = None;
        assert_eq!(client.ask("MGET a b c").await, "*3\r\n$1\r\n2\r\n$-1\r\n$-1\r\n");
    });
}

#[test]
fn an_overwrite_does_not_read() {
    let store = MemoryStore::default();
    let server = server(&store);
    runtime().block_on(async {
        let mut client = server.client();
        for command in ["SET a 1", "SET a 1 EX 100", "MSET a 1 b 2", "SETEX a 100 1", "PSETEX a 100 1"] {
            assert_eq!(client.ask(command).await, "+OK\r\n");
        }
        assert_eq!(store.reads.load(Relaxed), 0);
        for command in ["SET c 1 NX", "SET d 1 KEEPTTL", "SET e 1 GET", "SETNX f 1", "GETSET g 1"] {
            client.ask(command).await;
        }
        assert_eq!(store.reads.load(Relaxed), 5);
        // The tier's copy is the entry, its expiry included.
        assert_eq!(client.ask("APPEND c x").await, ":2\r\n");
        assert_eq!(store.reads.load(Relaxed), 5);
    });
}

#[test]
fn what_is_written_together_is_seen_together() {
    let store = MemoryStore::default();
    let server = server(&store);
    let cache = server.worker.groups.default().cache.clone();
    runtime().block_on(async {
        let (mut writer, mut reader) = (server.client(), server.client());
        writer.ask("MSET a 0 b 0").await;
        let writing = async {
            for number in 0..500 {
                writer.ask(&format!("MSET a {number} b {number}")).await;
            }
        };
        let reading = async {
            for round in 0..500 {
                // Of one, of both or of none there is a copy.
                for (key, bit) in [(b"a", 1), (b"b", 2)] {
                    if round & bit != 0 {
                        cache.invalidate(cache.key(key));
                    }
                }
                let reply = reader.ask("MGET a b").await;
                let parts: Vec<&str> = reply.split("\r\n").collect();
                assert_eq!(parts[2], parts[4], "{reply:?}");
                tokio::task::yield_now().await;
            }
        };
        let both: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(writing), Box::pin(reading)];
        futures(both.into_iter()).await;
        assert!(cache.stats().hits > 0);
    });
}

#[test]
fn many_keys_are_deleted_a_few_values_at_a_time() {
    let store = MemoryStore::default();
    let server = server(&store);
    fill(&store, (0..1000).map(|number| format!("key:{number}")));
    runtime().block_on(async {
        let mut client = server.client();
        let keys: Vec<String> = (0..1200).map(|number| format!("key:{number}")).collect();
        assert_eq!(client.ask(&format!("EXISTS {} key:7", keys.join(" "))).await, ":1001\r\n");
        assert_eq!(store.reads.load(Relaxed), 19, "64 at a time");
        // One command looks at the value, too.
        client.ask("MULTI").await;
        client.ask("EXISTS key:1 key:2").await;
        client.ask("APPEND key:1 x").await;
        assert_eq!(client.ask("EXEC").await, "*2\r\n:2\r\n:2\r\n");
        assert_eq!(stored(&store, "key:1").as_deref(), Some("vx"));
        assert_eq!(client.ask(&format!("DEL {}", keys.join(" "))).await, ":1000\r\n");
        assert!(store.entries.lock().is_empty());
    });
}

#[test]
fn a_copy_that_expires_earlier_does_not_shorten_the_entry() {
    let store = MemoryStore::default();
    let server = server(&store);
    let group = server.worker.groups.default();
    let own = KeyPolicy { ttl: Some(1000), ..KeyPolicy::default() };
    group.policy.freshness.replace(FreshnessTable { own, ..FreshnessTable::default() });
    runtime().block_on(async {
        let mut client = server.client();
        client.ask("SET k 1 EX 100").await;
        client.ask("GET k").await;
        assert_eq!(client.ask("TTL k").await, ":100\r\n");
        client.ask("INCR k").await;
        assert_eq!(client.ask("TTL k").await, ":100\r\n");
    });
}

#[test]
fn an_expired_entry_is_absent_at_once() {
    let store = MemoryStore::default();
    let server = server(&store);
    let past = StoredValue::string("old", Some(clock::now() - 1));
    store.entries.lock().insert("k".into(), past.clone());
    runtime().block_on(async {
        let mut client = server.client();
        for (command, reply) in [
            ("GET k", "$-1\r\n"),
            ("STRLEN k", ":0\r\n"),
            ("EXISTS k", ":0\r\n"),
            ("TTL k", ":-2\r\n"),
            ("DEL k", ":0\r\n"),
            ("KEYS *", "*0\r\n"),
            ("RANDOMKEY", "$-1\r\n"),
            ("SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n"),
            ("RENAME k l", "-ERR no such key\r\n"),
            ("SET k 1 XX", "$-1\r\n"),
            ("INCR k", ":1\r\n"),
        ] {
            assert_eq!(client.ask(command).await, reply, "{command}");
        }
    });
}

fn fill(store: &MemoryStore, keys: impl Iterator<Item = String>) -> BTreeSet<String> {
    let mut entries = store.entries.lock();
    let keys: BTreeSet<String> = keys.collect();
    for key in &keys {
        entries.insert(Bytes::from(key.clone()), StoredValue::string("v", None));
    }
    keys
}

/// All keys that a walk gives, and how many calls it took.
async fn walk(client: &mut Client<'_>, options: &str, mut between: impl FnMut(usize)) -> (Vec<String>, usize) {
    let (mut cursor, mut all, mut calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = client.wait(&words(&format!("SCAN {cursor}{options}"))).await;
        let Ok(View::Array(mut parts)) = view(&reply) else { panic!("{}", reply.escape_ascii()) };
        let Some(View::Bulk(next)) = parts.next() else { panic!("no cursor") };
        cursor = String::from_utf8_lossy(next).into_owned();
        all.extend(strings(parts.next_raw().expect("keys")));
        calls += 1;
        if cursor == "0" {
            return (all, calls);
        }
        between(calls);
    }
}

#[test]
fn a_walk_sees_what_is_there_throughout() {
    let store = MemoryStore::default();
    let server = server(&store);
    let keys = fill(&store, (0..1000).map(|number| format!("key:{number}")));
    runtime().block_on(async {
        let mut client = server.client();
        let (seen, calls) = walk(&mut client, "", |call| {
            // Others come and go, in front of the walk and behind it.
            let mut entries = store.entries.lock();
            entries.insert(format!("key:{call}:new").into(), StoredValue::string("v", None));
            entries.remove(format!("key:{}:new", call - 1).as_bytes());
        })
        .await;
        let seen: BTreeSet<String> = seen.into_iter().collect();
        assert!(seen.is_superset(&keys), "all of them");
        assert!(calls >= 100, "about ten at a time: {calls}");
        fill(&store, (0..1000).map(|number| format!("other:{number}")));
        let pages = store.pages.load(Relaxed);
        let (seen, calls) = walk(&mut client, " MATCH key:99* COUNT 5", |_| {}).await;
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 11, "key:99, key:990 to key:999");
        assert_eq!(store.pages.load(Relaxed) - pages, calls);
        assert!(calls <= 4, "only those that begin so are looked at: {calls}");
        assert_eq!(strings(&client.wait(&words("KEYS key:1?")).await).len(), 10);
        assert_eq!(walk(&mut client, " TYPE list COUNT 1000", |_| {}).await.0.len(), 0);
        let lost = client.ask("SCAN 7").await;
        assert!(lost.starts_with("-ERR invalid cursor: "), "{lost}");
        assert_eq!(client.ask("SCAN x").await, "-ERR invalid cursor\r\n");
    });
}

#[test]
fn a_random_key_may_be_any() {
    let store = MemoryStore::default();
    let server = server(&store);
    let keys = fill(&store, (0..30).map(|number| number.to_string()).chain([":".into(), ":\0".into(), ";;".into()]));
    runtime().block_on(async {
        let mut client = server.client();
        let mut seen = BTreeSet::new();
        for _ in 0..5000 {
            let reply = client.wait(&words("RANDOMKEY")).await;
            let Ok(View::Bulk(key)) = view(&reply) else { panic!("{}", reply.escape_ascii()) };
            seen.insert(String::from_utf8_lossy(key).into_owned());
        }
        assert_eq!(seen, keys);
        client.ask("FLUSHALL").await;
        assert_eq!(client.ask("RANDOMKEY").await, "$-1\r\n");
        assert_eq!(client.ask("DBSIZE").await, ":0\r\n");
    });
}

#[test]
fn a_watch_sees_every_write() {
    let store = MemoryStore::default();
    let server = server(&store);
    let group = server.worker.groups.default();
    runtime().block_on(async {
        let (mut client, mut other) = (server.client(), server.client());
        client.ask("SET k 1").await;
        client.ask("SET brief 1 PX 1").await;
        for write in
            ["SET k 1", "EXPIRE k 100", "DEL k", "MSET x 1 k 2", "RENAME x k", "http put", "http delete", "time"]
        {
            client.ask("WATCH other k").await;
            match write {
                "http put" => drop(group.put(b"k", "3".into(), None).await.expect("it takes it")),
                "http delete" => assert!(group.delete(b"k").await.expect("it takes it")),
                "time" => {
                    client.ask("UNWATCH").await;
                    // Long enough to be watched before it ends.
                    client.ask("SET brief 1 PX 300").await;
                    assert_eq!(client.ask("WATCH brief").await, "+OK\r\n");
                    let begun = clock::now();
                    while clock::now() < begun + 301 {
                        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                    }
                }
                write => drop(other.ask(write).await),
            }
            client.ask("MULTI").await;
            client.ask("SET seen 1").await;
            assert_eq!(client.ask("EXEC").await, "*-1\r\n", "{write}");
        }
        client.ask("WATCH k").await;
        other.ask("GET k").await;
        other.ask("SET another 1").await;
        client.ask("MULTI").await;
        assert_eq!(client.ask("EXEC").await, "*0\r\n");
        assert_eq!(stored(&store, "seen"), None);
    });
}

#[test]
fn a_client_that_tracks_is_told_of_every_write() {
    let store = MemoryStore::default();
    let server = server(&store);
    let group = server.worker.groups.default();
    runtime().block_on(async {
        let (mut client, mut other) = (server.client(), server.client());
        other.ask("SET k 1").await;
        client.raw(&encode(&[b"HELLO", b"3"]));
        assert_eq!(client.ask("CLIENT TRACKING ON").await, "+OK\r\n");
        let told = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
        // Whether the tier has a copy or not.
        for (copy, write) in [true, false].into_iter().flat_map(|copy| {
            ["SET k 2", "INCR k", "EXPIRE k 100", "DEL k", "SETNX k 5", "http put", "http delete"]
                .map(|write| (copy, write))
        }) {
            client.ask("GET k").await;
            if !copy {
                group.cache.tier().clear();
                client.ask("PING").await;
                client.ask("TTL k").await;
            }
            match write {
                "http put" => drop(group.put(b"k", "3".into(), None).await.expect("it takes it")),
                "http delete" => drop(group.delete(b"k").await.expect("it takes it")),
                write => drop(other.ask(write).await),
            }
            let reply = client.ask("PING").await;
            assert!(reply.contains(told) && reply.ends_with("+PONG\r\n"), "{write}, {copy}: {reply}");
        }
        let refused = client.ask("CLIENT TRACKING ON REDIRECT 1").await;
        assert!(refused.starts_with("-ERR REDIRECT is not available"), "{refused}");
        // NOLOOP.
        client.ask("CLIENT TRACKING OFF").await;
        client.ask("CLIENT TRACKING ON NOLOOP").await;
        client.ask("GET k").await;
        client.ask("SET k 9").await;
        assert_eq!(client.ask("PING").await, "+PONG\r\n");
        client.ask("GET k").await;
        other.ask("FLUSHALL").await;
        let reply = client.ask("PING").await;
        assert!(reply.contains("invalidate"), "{reply}");
    });
}

#[test]
fn a_fetch_that_began_before_a_write_brings_nothing_back() {
    let store = MemoryStore::default();
    let server = server(&store);
    let group = server.worker.groups.default().clone();
    runtime().block_on(async {
        let mut client = server.client();
        for round in 0..20 {
            let before = StoredValue::string("old", None);
            store.entries.lock().insert("k".into(), before);
            group.cache.tier().clear();
            let reader = group.clone();
            let read = tokio::task::spawn_local(async move { reader.read(b"k", clock::now()).await });
            // It has read what was there, and is not back yet.
            for _ in 0..round % 4 {
                tokio::task::yield_now().await;
            }
            client.ask("SET k new").await;
            read.await.expect("no panic").expect("no failure");
            assert_eq!(client.ask("GET k").await, "$3\r\nnew\r\n", "round {round}");
        }
    });
}
