//! Reads and writes with a source behind the group.
use super::support::{Path, Server, run};
use crate::ListenerRole;
use bytes::Bytes;
use larder_engine::Millis;
use larder_source::{Fetch, LocalFuture, Source, SourceError, SourceKind, ValueWrites};
use larder_store::{StoredValue, clock};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
};
use tokio::{io::AsyncWriteExt as _, sync::Notify, task::yield_now};

/// A source of which the test says when and what it answers.
#[derive(Default)]
struct Fake {
    values: RefCell<HashMap<Vec<u8>, Bytes>>,
    /// Keys asked for, batch by batch.
    batches: RefCell<Vec<Vec<Vec<u8>>>>,
    error: RefCell<Option<SourceError>>,
    /// Fetches wait for `go`.
    held: Cell<bool>,
    go: Rc<Notify>,
}

impl Fake {
    fn answer(&self, key: &[u8]) -> Result<Option<StoredValue>, SourceError> {
        match &*self.error.borrow() {
            Some(error) => Err(error.clone()),
            None => Ok(self.values.borrow().get(key).map(|value| StoredValue::string(value.clone(), None))),
        }
    }

    fn check(&self) -> Result<(), SourceError> {
        self.error.borrow().clone().map_or(Ok(()), Err)
    }
}

impl Source for Fake {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Values(ValueWrites::Unchanged)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.batches.borrow_mut().push(batch.iter().map(|fetch| fetch.key().to_vec()).collect());
        let answers: Vec<_> = batch.drain(..).map(|fetch| (self.answer(fetch.key()), fetch)).collect();
        let (held, go) = (self.held.get(), self.go.clone());
        tokio::task::spawn_local(async move {
            if held {
                go.notified().await;
            }
            for (answer, fetch) in answers {
                fetch.finish(answer, clock::now());
            }
        });
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        _: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            self.check()?;
            Ok(self.values.borrow_mut().insert(key.to_vec(), Bytes::copy_from_slice(value)).is_some())
        })
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            self.check()?;
            Ok(self.values.borrow_mut().remove(key).is_some())
        })
    }
    fn expire<'a>(&'a self, _: &'a [u8], _: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async { Ok(false) })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async { self.check() })
    }
}

fn fake(values: &[(&str, &str)]) -> (Rc<Fake>, Server) {
    let fake = Rc::new(Fake::default());
    for (key, value) in values {
        fake.values.borrow_mut().insert(key.as_bytes().to_vec(), Bytes::copy_from_slice(value.as_bytes()));
    }
    (fake.clone(), Server::with_source(&[], fake))
}

fn unavailable() -> Option<SourceError> {
    Some(SourceError::Unavailable(Arc::from("connection refused")))
}

#[test]
fn a_miss_is_read_through_and_then_hit() {
    run(|| async {
        let (fake, server) = fake(&[("a", "1")]);
        let mut client = server.connect().await;
        let miss = client.get("/v1/kv/a").await;
        assert_eq!((miss.status, miss.text()), (200, "1"));
        assert!(miss.header("cache-status").expect("a header").starts_with("larder; fwd=miss; stored; ttl="));
        let hit = client.get("/v1/kv/a").await;
        assert!(hit.header("cache-status").expect("a header").starts_with("larder; hit; ttl="));
        assert_eq!(hit.header("etag"), miss.header("etag"));
        assert_eq!(client.get("/v1/kv/b").await.status, 404);
        assert_eq!(*fake.batches.borrow(), [[b"a".to_vec()], [b"b".to_vec()]]);
    });
}

/// A client may close its sending side behind a request (RFC 9112 section 9.6), and waits for the answer.
#[test]
fn a_client_that_sends_nothing_more_gets_its_answer() {
    run(|| async {
        let mget = "POST /v1/mget HTTP/1.1\r\nHost: h\r\nContent-Length: 14\r\n\r\n{\"keys\":[\"a\"]}";
        for path in [Path::Any, Path::General] {
            for request in [
                "GET /v1/kv/a HTTP/1.1\r\nHost: h\r\n\r\n",
                "GET /v1/kv/a HTTP/1.0\r\n\r\n",
                "GET /v1/kv/a HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip;q=0.5\r\nExpect: x\r\n\r\n",
                "GET /lookup?key=a HTTP/1.1\r\nHost: h\r\n\r\n",
                mget,
            ] {
                let (fake, server) = fake(&[("a", "1")]);
                fake.held.set(true);
                let mut client = server.connect_to(ListenerRole::Native, path).await;
                client.write(request).await;
                client.stream.shutdown().await.expect("a socket");
                while fake.batches.borrow().is_empty() {
                    yield_now().await;
                }
                // The server has the time to see that nothing more comes.
                for _ in 0..100 {
                    yield_now().await;
                }
                fake.go.notify_one();
                let answer = String::from_utf8(client.rest().await.expect("an end")).expect("text");
                assert!(answer.split(' ').nth(1) == Some("200"), "{path:?} {request:?}: {answer:?}");
            }
        }
    });
}

#[test]
fn the_misses_of_a_pipeline_leave_together_and_are_answered_in_order() {
    run(|| async {
        let (fake, server) = fake(&[("a", "1"), ("b", "2")]);
        server.set(b"c", b"3");
        fake.held.set(true);
        let mut client = server.connect().await;
        let requests = ["/lookup?key=a", "/v1/kv/c", "/?key=b", "/v1/kv/none", "/?key=a"];
        client.write(requests.map(|target| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).concat()).await;
        while fake.batches.borrow().is_empty() {
            tokio::task::yield_now().await;
        }
        fake.go.notify_one();
        let mut bodies = Vec::new();
        for _ in requests {
            bodies.push(client.reply(false).await.text().to_owned());
        }
        assert_eq!(bodies[0], r#"{"key": "a", "value": "1", "status": 200}"#);
        assert_eq!(bodies[1..3], ["3", "2"]);
        assert_eq!(bodies[4], "1");
        let expected = [&b"a"[..], b"b", b"none"].map(<[u8]>::to_vec);
        assert_eq!(*fake.batches.borrow(), [expected]);
    });
}

/// A GET of Redis over HTTP that waits keeps its place, and is answered like by a session.
#[test]
fn a_miss_of_redis_over_http_is_answered_like_by_a_session() {
    run(|| async {
        let get = |key: &str, fields: &str| {
            let body = format!("[\"GET\",\"{key}\"]");
            format!("POST /redis HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
        };
        let large = "é".repeat(1 << 20);
        for error in [None, unavailable(), Some(SourceError::Refused("OOM no\r\nmemory".into()))] {
            for fields in ["", "Upstash-Encoding: base64\r\n"] {
                let mut answers = Vec::new();
                for path in [Path::General, Path::Any] {
                    let (fake, server) = fake(&[("a", "1"), ("large", &large)]);
                    *fake.error.borrow_mut() = error.clone();
                    server.set(b"hit", b"here");
                    let mut client = server.connect_to(ListenerRole::Native, path).await;
                    let keys = ["a", "hit", "b", "large"];
                    client.write(keys.map(|key| get(key, fields)).concat()).await;
                    let mut of_path = Vec::new();
                    for _ in keys {
                        of_path.push(client.reply(false).await.timeless());
                    }
                    if path == Path::Any {
                        assert_eq!(*fake.batches.borrow(), [[b"a".to_vec(), b"b".to_vec(), b"large".to_vec()]]);
                    }
                    answers.push(of_path);
                }
                for (general, fast) in answers[0].iter().zip(&answers[1]) {
                    assert!(general == fast, "{error:?} {fields}: {} and {}", general.head, fast.head);
                }
                let statuses: Vec<u16> = answers[1].iter().map(|answer| answer.status).collect();
                let expected = if error.is_none() { [200; 4] } else { [400, 200, 400, 400] };
                assert_eq!(statuses, expected, "{error:?} {fields}");
            }
        }
    });
}

#[test]
fn a_source_that_is_down_fails_misses_and_spares_hits() {
    run(|| async {
        let (fake, server) = fake(&[]);
        server.set(b"hot", b"1");
        *fake.error.borrow_mut() = unavailable();
        let mut client = server.connect().await;
        assert_eq!(client.get("/v1/kv/hot").await.status, 200);
        let native = client.get("/v1/kv/cold").await;
        assert_eq!((native.status, native.problem().as_str()), (503, "source-unavailable"));
        assert_eq!(native.header("retry-after"), Some("1"));
        let lookup = client.get("/lookup?key=cold").await;
        assert_eq!((lookup.status, lookup.text()), (503, r#"{"key": "cold", "value": null, "status": 503}"#));
        assert_eq!(client.get("/?key=cold").await.status, 503);
        let put = client.send("PUT /v1/kv/hot HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n2").await;
        assert_eq!((put.status, put.problem().as_str()), (503, "source-unavailable"));
        let delete = client.send("DELETE /v1/kv/hot HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert_eq!(delete.status, 503);
        let mget = client
            .send("POST /v1/mget HTTP/1.1\r\nHost: h\r\nContent-Length: 23\r\n\r\n{\"keys\":[\"hot\",\"cold\"]}")
            .await;
        assert_eq!(mget.status, 503);
        // What could not be written has changed nothing.
        assert_eq!(client.get("/v1/kv/hot").await.text(), "1");

        *fake.error.borrow_mut() = Some(SourceError::Refused("WRONGTYPE no string".into()));
        let refused = client.get("/v1/kv/list").await;
        assert_eq!((refused.status, refused.problem().as_str()), (502, "source-refused"));
        assert!(refused.text().contains("WRONGTYPE no string"));
        let lookup = client.get("/lookup?key=list").await;
        assert_eq!((lookup.status, lookup.text()), (502, r#"{"key": "list", "value": null, "status": 502}"#));
        assert_eq!(client.get("/?key=list").await.status, 502);
        *fake.error.borrow_mut() = None;
        assert_eq!(client.get("/v1/kv/cold").await.status, 404);
    });
}

#[test]
fn writes_go_to_the_source_first() {
    run(|| async {
        let (fake, server) = fake(&[("a", "1")]);
        let mut client = server.connect().await;
        let put = client.send("PUT /v1/kv/b HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n2").await;
        assert_eq!(put.status, 201);
        assert_eq!(fake.values.borrow().get(&b"b"[..]).map(|v| v.to_vec()), Some(b"2".to_vec()));
        // The condition is about the source's value, which the tier has not seen yet.
        let absent =
            client.send("PUT /v1/kv/a HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\nContent-Length: 1\r\n\r\n2").await;
        assert_eq!((absent.status, absent.problem().as_str()), (412, "precondition-failed"));
        let etag = client.get("/v1/kv/a").await.header("etag").expect("a tag").to_owned();
        let request = format!("PUT /v1/kv/a HTTP/1.1\r\nHost: h\r\nIf-Match: {etag}\r\nContent-Length: 1\r\n\r\n3");
        assert_eq!(client.send(&request).await.status, 204);
        assert_eq!(client.send(&request).await.status, 412);
        assert_eq!(client.send("DELETE /v1/kv/a HTTP/1.1\r\nHost: h\r\n\r\n").await.status, 204);
        assert_eq!(client.send("DELETE /v1/kv/a HTTP/1.1\r\nHost: h\r\n\r\n").await.status, 404);
        assert!(!fake.values.borrow().contains_key(&b"a"[..]));
    });
}

#[test]
fn items_go_through_the_source_and_its_errors_are_the_apis() {
    run(|| async {
        let (fake, server) = fake(&[("a", "[1, 2]")]);
        let mut client = server.connect().await;
        let send = |method: &str, body: &str| {
            format!("{method} /cache/v1/item HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        };
        let read = client.send(send("GET", r#"{"key":"a","subindex":2}"#)).await;
        assert_eq!((read.status, read.text()), (200, "{\"key\":\"a\",\"value\":2,\"subindex\":2}\n"));
        assert_eq!(client.send(send("POST", r#"{"key":"b","value":{"x": 1},"ttl":60}"#)).await.status, 201);
        assert_eq!(fake.values.borrow().get(&b"b"[..]).map(|value| &value[..]), Some(&b"{\"x\":1}"[..]));
        assert_eq!(client.send(send("DELETE", r#"{"key":"b"}"#)).await.status, 204);
        assert!(!fake.values.borrow().contains_key(&b"b"[..]));
        for (error, read_status, write_status) in [
            (SourceError::ReadOnly("a table"), 405, 400),
            (SourceError::Refused("WRONGTYPE not a string".into()), 502, 400),
            (unavailable().expect("an error"), 503, 503),
        ] {
            let is_read_only = matches!(error, SourceError::ReadOnly(_));
            *fake.error.borrow_mut() = Some(error);
            for (method, status, code) in
                [("GET", read_status, 21), ("POST", write_status, 22), ("DELETE", write_status, 22)]
            {
                // Reads never get that error.
                if is_read_only && method == "GET" {
                    continue;
                }
                let reply = client.send(send(method, r#"{"key":"c","value":1,"ttl":60}"#)).await;
                assert_eq!((reply.status, &reply.json()["code"]), (status, &serde_json::json!(code)), "{reply:?}");
                assert_eq!(reply.header("retry-after").is_some(), status == 503);
            }
        }
    });
}
