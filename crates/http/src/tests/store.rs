//! Routes of a source that keeps its entries on this machine.
use super::{
    memory_store::MemoryStore,
    support::{Path, Server, run},
};
use crate::ListenerRole;
use bytes::Bytes;
use larder_source::SourceError;
use larder_store::StoredValue;
use std::{rc::Rc, sync::atomic::Ordering::Relaxed};
use tokio::sync::Notify;

fn server(store: &MemoryStore) -> Server {
    Server::with_source(&[], Rc::new(store.clone()))
}
fn fill(store: &MemoryStore, keys: usize, value: &[u8]) {
    let mut entries = store.entries.lock();
    for number in 0..keys {
        let found = StoredValue::string(Bytes::copy_from_slice(value), None);
        entries.insert(format!("{number:06}").into(), found);
    }
}
fn put(target: &str, headers: &str, body: &str) -> String {
    format!("PUT {target} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}
fn delete(target: &str, headers: &str) -> String {
    format!("DELETE {target} HTTP/1.1\r\nHost: h\r\n{headers}\r\n")
}

#[test]
fn an_entity_is_put_read_and_deleted() {
    let none = || Server::new(&[]);
    let store = MemoryStore::default();
    for make in [&none as &dyn Fn() -> Server, &|| server(&store)] {
        run(|| async {
            let server = make();
            let mut client = server.connect().await;
            let missing = client.get("/v0/entity?id=a%20b").await;
            assert_eq!((missing.status, missing.text()), (404, ""));
            for value in ["1", "2"] {
                let reply = client.send(put("/v0/entity?id=a%20b", "", value)).await;
                assert_eq!((reply.status, reply.text()), (201, ""));
                assert_eq!(client.get("/v0/entity?id=a+b").await.text(), value);
            }
            for _ in 0..2 {
                assert_eq!(client.send(delete("/v0/entity?id=a%20b", "")).await.status, 202);
                assert_eq!(client.get("/v0/entity?id=a+b").await.status, 404);
            }
            for target in ["/v0/entity", "/v0/entity?id=", "/v0/entity?id=%4", "/v0/entity?key=a"] {
                assert_eq!(client.get(target).await.status, 400, "{target}");
                assert_eq!(client.send(put(target, "", "x")).await.status, 400, "{target}");
                assert_eq!(client.send(delete(target, "")).await.status, 400, "{target}");
            }
        });
    }
    assert_eq!(store.reads.load(Relaxed), 0, "nothing looks at what is overwritten");
}

#[test]
fn both_paths_answer_the_same_for_an_entity() {
    run(|| async {
        let server = Server::new(&[]);
        server.set(b"k", b"value");
        for target in ["/v0/entity?id=k", "/v0/entity?id=none", "/v0/entity?x=1&id=k"] {
            let fast = server.connect().await.get(target).await;
            let general = server.connect_to(ListenerRole::Native, Path::General).await.get(target).await;
            assert_eq!(fast.timeless(), general.timeless(), "{target}");
        }
    });
}

/// The chunks of a body, as they came.
fn chunks(response: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(response);
    let (head, mut rest) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    let mut chunks = Vec::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        chunks.push(after[..size].to_owned());
        rest = &after[size + 2..];
    }
    chunks
}

#[test]
fn entities_are_a_chunk_each_in_the_order_of_their_keys() {
    run(|| async {
        let store = MemoryStore::default();
        let server = server(&store);
        for (key, value) in [("b", "2"), ("a", "1"), ("c", ""), ("d", "4"), ("b\u{ff}", "x\ny")] {
            store.entries.lock().insert(key.into(), StoredValue::string(value, None));
        }
        store.entries.lock().insert("bb".into(), StoredValue::string("old", Some(1)));
        for (query, expected) in [
            ("start=a", vec!["a\n1", "b\n2", "b\u{ff}\nx\ny", "c\n", "d\n4", ""]),
            ("start=a&end=", vec!["a\n1", "b\n2", "b\u{ff}\nx\ny", "c\n", "d\n4", ""]),
            ("start=b&end=d", vec!["b\n2", "b\u{ff}\nx\ny", "c\n", ""]),
            ("start=x", vec![""]),
            ("start=c&end=c", vec![""]),
            ("start=c&end=a", vec![""]),
            ("start=bb&end=bc", vec![""]),
        ] {
            let mut client = server.connect().await;
            client.write(format!("GET /v0/entities?{query} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")).await;
            assert_eq!(chunks(&client.rest().await.expect("an answer")), expected, "{query}");
        }
        let mut client = server.connect().await;
        for query in ["", "?start=", "?end=b", "?start=%z"] {
            assert_eq!(client.get(&format!("/v0/entities{query}")).await.status, 400, "{query}");
        }
        // One chunk however large, and through as many pages as it takes.
        fill(&store, 1000, &[b'v'; 3000]);
        let large = "x".repeat(600_000);
        store.entries.lock().insert("0".into(), StoredValue::string(large.clone(), None));
        let mut client = server.connect().await;
        client.write("GET /v0/entities?start=0&end=1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await;
        let got = chunks(&client.rest().await.expect("an answer"));
        assert_eq!(got.len(), 1002);
        assert!(got[0] == format!("0\n{large}") && got[1000].starts_with("000999\nvvv"));
    });
}

#[test]
fn a_range_is_lines_of_json() {
    run(|| async {
        let store = MemoryStore::default();
        let server = server(&store);
        for (key, value) in [("a", &b"1"[..]), ("b", b"\"\xc3\xa4\n"), ("c", b"\xff")] {
            store.entries.lock().insert(key.into(), StoredValue::string(Bytes::copy_from_slice(value), None));
        }
        store.entries.lock().insert(Bytes::from_static(b"\xfe"), StoredValue::string("2", None));
        let (a, b) = ("{\"key\":\"a\",\"value\":\"1\"}\n", "{\"key\":\"b\",\"value\":\"\\\"ä\\n\"}\n");
        let (c, d) =
            ("{\"key\":\"c\",\"value\":{\"base64\":\"/w==\"}}\n", "{\"key\":{\"base64\":\"/g==\"},\"value\":\"2\"}\n");
        let mut client = server.connect().await;
        for (query, expected) in [
            ("", [a, b, c, d].concat()),
            ("?start=b&end=%FE", [b, c].concat()),
            ("?reverse=true", [d, c, b, a].concat()),
            ("?limit=2", [a, b].concat()),
            ("?start=b&reverse=1&limit=2", [d, c].concat()),
            ("?end=c&reverse=true&limit=1", b.to_owned()),
            ("?start=z&end=a", String::new()),
        ] {
            let reply = client.get(&format!("/v1/range{query}")).await;
            assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/x-ndjson")));
            assert_eq!(reply.text(), expected, "{query}");
        }
        for query in ["?limit=0", "?limit=x", "?reverse=maybe", "?start=%"] {
            assert_eq!(client.get(&format!("/v1/range{query}")).await.status, 400, "{query}");
        }
        // A limit over several pages, in both directions.
        fill(&store, 1000, b"v");
        for query in ["?limit=700", "?limit=700&reverse=true"] {
            assert_eq!(client.get(&format!("/v1/range{query}")).await.text().lines().count(), 700);
        }
        let head = client.send("HEAD /v1/range HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert_eq!(head.status, 200);
        // Another group's source has no order.
        let reply = client.get("/v1/groups/other/range").await;
        assert_eq!((reply.status, reply.problem().as_str()), (501, "no-range"));
    });
}

#[test]
fn a_walk_that_breaks_off_does_not_look_complete() {
    run(|| async {
        let store = MemoryStore::default();
        let server = server(&store);
        fill(&store, 2000, b"v");
        let error = SourceError::Unavailable("bad sector".into());
        for (target, path) in
            [("/v0/entities?start=0", Path::Any), ("/v1/range", Path::Any), ("/v1/range", Path::General)]
        {
            *store.scans.lock() = Some((3, error.clone()));
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            client.write(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).await;
            // It closes, and the last chunk is lacking.
            let got = client.rest().await.expect("what was sent before");
            let text = String::from_utf8_lossy(&got);
            assert!(text.contains("000700"), "three pages came");
            assert!(!text.ends_with("0\r\n\r\n"), "{}", &text[text.len() - 40..]);
        }
        // From the start: a problem.
        *store.scans.lock() = Some((0, error));
        let reply = server.connect().await.get("/v1/range").await;
        assert_eq!((reply.status, reply.problem().as_str()), (503, "source-unavailable"));
    });
}

#[test]
fn a_client_that_does_not_read_stops_its_walk() {
    run(|| async {
        let store = MemoryStore::default();
        let server = server(&store);
        // 100 MB, in pages of some 128 KiB.
        fill(&store, 100_000, &[b'v'; 1000]);
        let mut client = server.connect().await;
        client.write("GET /v0/entities?start=0 HTTP/1.1\r\nHost: h\r\n\r\n").await;
        let mut last = usize::MAX;
        // Until it comes to rest: the sockets' buffers are full.
        while last != store.pages.load(Relaxed) || last == 0 {
            last = store.pages.load(Relaxed);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        assert!(last < 200, "{last} of some 780 pages were read for a client that has taken nothing");
        drop(client);
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert!(store.pages.load(Relaxed) <= last + 1, "nothing is read for a client that has gone");
    });
}

#[test]
fn keys_are_those_of_the_store() {
    run(|| async {
        let store = MemoryStore::default();
        let server = server(&store);
        fill(&store, 1000, b"v");
        let mut client = server.connect().await;
        let (mut cursor, mut all, mut pages) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let page = client.get(&format!("/v1/keys?cursor={cursor}&count=150&match=0001*")).await.json();
            all.extend(page["keys"].as_array().expect("keys").iter().map(|key| key.as_str().expect("text").to_owned()));
            pages += 1;
            cursor = page["cursor"].as_str().expect("text").to_owned();
            if cursor == "0" {
                break;
            }
        }
        let expected: Vec<_> = (100..200).map(|number| format!("{number:06}")).collect();
        assert_eq!((all, pages), (expected, 1), "only those that begin so are looked at");
        let page = client.get("/v1/keys?count=3").await.json();
        assert_eq!(page["keys"].as_array().map(Vec::len), Some(3));
        let next = format!("/v1/keys?count=1&cursor={}", page["cursor"].as_str().expect("text"));
        assert_eq!(client.get(&next).await.json()["keys"][0], "000003");
        for cursor in ["7", "x", "k!"] {
            assert_eq!(client.get(&format!("/v1/keys?cursor={cursor}")).await.status, 400, "{cursor}");
        }
    });
}

#[test]
fn clearing_a_group_leaves_the_store_as_it_is() {
    run(|| async {
        let store = MemoryStore::default();
        let server = server(&store);
        let mut client = server.connect().await;
        assert_eq!(client.send(put("/v1/kv/k", "", "1")).await.status, 201);
        assert_eq!(client.send(delete("/v1/groups/default", "")).await.status, 204);
        assert_eq!(client.get("/v1/kv/k").await.text(), "1");
    });
}

#[test]
fn conditional_writes_are_atomic() {
    run(|| async {
        let store = MemoryStore::default();
        let server = server(&store);
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(server.connect().await);
        }
        // Many would create the key: one does.
        for client in &mut clients {
            client.write(put("/v1/kv/k", "If-None-Match: *\r\n", "1")).await;
        }
        let mut statuses = Vec::new();
        for client in &mut clients {
            statuses.push(client.reply(false).await.status);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 412, 412, 412, 412, 412, 412, 412]);
        // Many would change what they saw: one does.
        let tag = clients[0].get("/v1/kv/k").await.header("etag").expect("a tag").to_owned();
        for client in &mut clients {
            client.write(put("/v1/kv/k", &format!("If-Match: {tag}\r\n"), "2")).await;
        }
        let mut statuses = Vec::new();
        for client in &mut clients {
            statuses.push(client.reply(false).await.status);
        }
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 412, 412, 412, 412, 412, 412, 412]);
        assert_eq!(clients[0].send(delete("/v1/kv/k", &format!("If-Match: {tag}\r\n"))).await.status, 412);
    });
}

#[test]
fn a_write_that_comes_late_leaves_no_old_copy() {
    run(|| async {
        let store = MemoryStore::with_impatient_clients();
        let server = server(&store);
        let (mut client, mut other) = (server.connect().await, server.connect().await);
        client.send(put("/v0/entity?id=k", "", "old")).await;
        let go = std::sync::Arc::new(Notify::new());
        *store.held.lock() = Some(go.clone());
        // Its outcome is unknown; reads continue, further writes of the key wait their time.
        assert_eq!(client.send(put("/v0/entity?id=k", "", "new")).await.status, 503);
        server.worker.groups.default().cache.tier().clear();
        assert_eq!(other.get("/v0/entity?id=k").await.text(), "old");
        assert_eq!(other.send(put("/v0/entity?id=k", "", "never")).await.status, 503);
        go.notify_one();
        while store.entries.lock()[&b"k"[..]].value != "new" {
            tokio::task::yield_now().await;
        }
        assert_eq!(other.send(put("/v0/entity?id=l", "", "other")).await.status, 201);
        assert_eq!(other.get("/v0/entity?id=k").await.text(), "new");
    });
}

/// Several writes of one connection are under way at once, and each is answered as if they had come
/// one after the other.
#[test]
fn a_pipeline_of_writes_and_reads_is_in_order() {
    run(|| async {
        for (store, path) in
            MemoryStore::both_kinds().iter().flat_map(|store| [(store, Path::Any), (store, Path::General)])
        {
            let server = server(store);
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            let get = |key: &str| format!("GET /v1/kv/{key} HTTP/1.1\r\nHost: h\r\n\r\n");
            let long = "y".repeat(9000);
            let steps = [
                (put("/v1/kv/a", "", "1"), 201, ""),
                (put("/v1/kv/a", "", "2"), 204, ""),
                (put("/v0/entity?id=b", "Content-Type: x/y\r\n", "3"), 201, ""),
                (get("a"), 200, "2"),
                (get("b"), 200, "3"),
                (put("/v1/kv/a", "", ""), 204, ""),
                (put("/v1/kv/long", "", &long), 201, ""),
                (get("a"), 200, ""),
                (get("long"), 200, &long),
                (put("/v1/kv/c?ttl=1h", "", "4"), 201, ""),
                (put("/v1/kv/d", "If-None-Match: *\r\n", "5"), 201, ""),
                (put("/v1/kv/d", "If-None-Match: *\r\n", "6"), 412, ""),
                (get("d"), 200, "5"),
                (delete("/v1/kv/a", ""), 204, ""),
                (delete("/v1/kv/b", ""), 204, ""),
                (delete("/v1/kv/c", ""), 204, ""),
                (delete("/v1/kv/d", ""), 204, ""),
                (delete("/v1/kv/long", ""), 204, ""),
                (get("a"), 404, ""),
            ];
            client.write(steps.iter().map(|(request, ..)| request.as_str()).collect::<String>()).await;
            for (request, status, body) in &steps {
                let reply = client.reply(false).await;
                assert_eq!(reply.status, *status, "{request}");
                assert!(reply.status != 200 || reply.text() == *body, "{request}");
            }
            // However the bytes arrive.
            let request = put("/v1/kv/s", "", "value");
            for at in 1..request.len() {
                client.write(&request[..at]).await;
                for _ in 0..8 {
                    tokio::task::yield_now().await;
                }
                let reply = client.send(&request[at..]).await;
                assert_eq!(reply.status, if at == 1 { 201 } else { 204 }, "split at {at}");
            }
            assert_eq!(client.send(delete("/v1/kv/s", "")).await.status, 204);
        }
    });
}

#[test]
fn a_write_says_the_same_on_both_paths() {
    run(|| async {
        let [waits, at_once] = MemoryStore::both_kinds();
        let [fast, general] = [server(&at_once), server(&waits)];
        let mut clients = [fast.connect().await, general.connect_to(ListenerRole::Native, Path::General).await];
        let replaced = put("/v1/kv/a%2Fb", "", "again");
        let failure = SourceError::Unavailable("the disk is gone".into());
        for (request, failure) in [
            (put("/v1/kv/a%2Fb", "", "new"), None),
            (replaced.clone(), None),
            (replaced.clone(), None),
            (replaced.clone(), Some(&failure)),
            (put("/v0/entity?id=e", "", "x"), None),
            (put("/v0/entity?id=e", "", "y"), None),
            (put("/v0/entity?id=e", "", "z"), Some(&failure)),
            (put("/v1/kv/", "", "x"), None),
            (put("/v1/kv/%4", "", "x"), None),
            (put("/v0/entity?id=", "", "x"), None),
            (put("/v0/entity", "", "x"), None),
            (put("/v1/kv/k?ttl=soon", "", "x"), None),
            (put("/nowhere", "", "x"), None),
        ] {
            let mut replies = Vec::new();
            for (store, client) in [&at_once, &waits].into_iter().zip(&mut clients) {
                *store.fails.lock() = failure.cloned();
                let reply = client.send(&request).await.timeless();
                // Each write gets a version of its own.
                let lines = reply.head.lines().map(|line| line.split_once("etag: ").map_or(line, |_| "etag"));
                replies.push((reply.status, lines.collect::<Vec<_>>().join("\n"), reply.text().to_owned()));
            }
            assert_eq!(replies[0], replies[1], "{request}");
        }
        assert!(at_once.at_once.load(Relaxed) >= 5, "most of them were made at once");
    });
}

/// What a connection reads by Redis over HTTP comes after what it has written before.
#[test]
fn a_get_of_redis_over_http_sees_the_writes_before_it() {
    run(|| async {
        let get = "POST /redis HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n[\"GET\",\"k\"]";
        let path = "GET /redis/get/k HTTP/1.1\r\nHost: h\r\n\r\n";
        for store in MemoryStore::both_kinds() {
            let server = server(&store);
            let mut client = server.connect().await;
            let requests = ["1", "2", "3"].map(|value| [&put("/v1/kv/k", "", value), get, path].concat());
            client.write(requests.concat()).await;
            for value in ["1", "2", "3"] {
                assert!(matches!(client.reply(false).await.status, 201 | 204));
                for _ in 0..2 {
                    assert_eq!(client.reply(false).await.text(), format!("{{\"result\":\"{value}\"}}"));
                }
            }
        }
    });
}
