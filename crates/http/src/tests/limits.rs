//! Sizes, times, rates and the drain.
use super::support::{Path, Server, run};
use crate::{
    ListenerRole,
    connection::connection_deadlines::{ConnectionDeadline, Verdict},
};
use larder_base::lifecycle::{drain_phase::Phase, ticks::TICK};
use std::time::{Duration, Instant};

#[test]
fn sizes_are_bounded_and_name_their_settings() {
    run(|| async {
        let server = Server::new(&["--max-value", "1000", "--max-body", "2000", "--max-headers", "8KiB"]);
        let mut client = server.connect().await;
        let put = |len: usize| {
            format!("PUT /v1/kv/a HTTP/1.1\r\nHost: h\r\nContent-Length: {len}\r\n\r\n{}", "x".repeat(len))
        };
        assert_eq!(client.send(put(1000)).await.status, 201);
        let large = client.send(put(1001)).await;
        assert_eq!((large.status, large.problem().as_str()), (413, "value-too-large"));
        assert!(large.text().contains("max-value"));

        // Within `max-value`, and yet more than the group's 1 MiB of memory can hold.
        let roomy = Server::new(&["--max-value", "2MiB"]);
        let put = format!(
            "PUT /v1/groups/other/kv/a HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{}",
            2 << 20,
            "x".repeat(2 << 20)
        );
        let large = roomy.connect().await.send(put).await;
        assert_eq!((large.status, large.problem().as_str()), (413, "value-too-large"));
        assert!(large.text().contains("max-memory"), "{large:?}");

        // Not announced, so noticed while it is read.
        let mut client = server.connect().await;
        let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
        let chunked = format!(
            "PUT /v1/kv/a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            chunk.repeat(3)
        );
        assert_eq!(client.send(chunked).await.problem(), "value-too-large");

        let mut client = server.connect().await;
        let body = format!("{{\"keys\":[\"{}\"]}}", "x".repeat(2000));
        let mget = client
            .send(format!("POST /v1/mget HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
            .await;
        assert!(mget.text().contains("max-body"), "{mget:?}");

        for pad in [8192, 12000] {
            for path in [Path::Any, Path::General] {
                let mut client = server.connect_to(ListenerRole::Native, path).await;
                let head = client
                    .send(format!("GET /v1/kv/a HTTP/1.1\r\nHost: h\r\nX-Pad: {}\r\n\r\n", "x".repeat(pad)))
                    .await;
                assert_eq!((head.status, head.problem().as_str()), (431, "head-too-large"));
                assert!(head.text().contains("max-headers"));
            }
        }
        let mut client = server.connect().await;
        client.write(format!("GET /v1/kv/a HTTP/1.1\r\nHost: h\r\nX-Pad: {}\r\n\r\n", "x".repeat(40_000))).await;
        let rest = String::from_utf8(client.rest().await.expect("an answer before the end")).expect("text");
        assert!(rest.starts_with("HTTP/1.1 431 "), "{rest}");
    });
}

#[test]
fn a_head_that_dribbles_is_cut_off_on_both_paths() {
    run(|| async {
        let server = Server::new(&["--header-timeout", "200ms", "--idle-timeout", "60s"]);
        for path in [Path::Any, Path::General] {
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            assert_eq!(client.get("/v1/kv/a").await.status, 404);
            let begun = Instant::now();
            let dribble = async {
                use tokio::io::AsyncWriteExt;
                // Each byte arrives in time, the head as a whole does not.
                for byte in "GET /v1/kv/a HTTP/1.1\r\nHost: h\r\nX-Slow: ".bytes().chain(std::iter::repeat(b'x')) {
                    if client.stream.write_all(&[byte]).await.is_err() {
                        return;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(Duration::from_millis(20)) => {}
                        _ = client.stream.readable() => return,
                    }
                }
            };
            dribble.await;
            let reply = client.reply(false).await;
            assert_eq!((reply.status, reply.problem().as_str()), (408, "head-timeout"), "{path:?}");
            assert_eq!(reply.header("connection"), Some("close"));
            assert!(reply.text().contains("header-timeout"));
            assert!(begun.elapsed() >= Duration::from_millis(200));
            assert!(client.rest().await.expect("a clean end").is_empty());
        }
    });
}

#[test]
fn a_worker_that_was_busy_cuts_no_wait_short() {
    run(|| async {
        // The clock stands while there is work, so no ticks come but those below.
        tokio::time::pause();
        let rest = || tokio::time::sleep(Duration::from_millis(1));
        let server = Server::new(&[]);
        let ticks = &server.worker.app.ticks;
        let deadline = ConnectionDeadline::begin(&server.worker.app, &server.http.deadlines).await;
        rest().await;
        // The worker has not counted this one when the wait begins, and the next one is due.
        ticks.tick();
        deadline.allow(Some(2 * TICK));
        rest().await;
        for verdict in [Verdict::Live, Verdict::Live, Verdict::Expired] {
            ticks.tick();
            rest().await;
            assert_eq!(deadline.verdict(), verdict);
        }
    });
}

#[test]
fn a_body_that_dribbles_is_cut_off() {
    run(|| async {
        let server = Server::new(&["--header-timeout", "200ms"]);
        let mut client = server.connect().await;
        let reply = client.send("PUT /v1/kv/a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nx").await;
        assert_eq!((reply.status, reply.problem().as_str()), (408, "body-timeout"));
    });
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    run(|| async {
        let server = Server::new(&["--idle-timeout", "1200ms", "--header-timeout", "60s"]);
        for path in [Path::Any, Path::General] {
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(2000) {
                assert_eq!(client.get("/v1/kv/a").await.status, 404);
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let idle = Instant::now();
            assert!(client.rest().await.expect("a clean end").is_empty());
            assert!(idle.elapsed() >= Duration::from_millis(1000), "{path:?} {:?}", idle.elapsed());
        }
    });
}

#[test]
fn a_client_that_does_not_read_is_given_up() {
    run(|| async {
        let server = Server::new(&["--idle-timeout", "300ms"]);
        server.set(b"large", &vec![b'x'; 16 << 20]);
        for path in [Path::Any, Path::General] {
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            client.write("GET /v1/kv/large HTTP/1.1\r\nHost: h\r\n\r\n".repeat(4)).await;
            // Four answers do not fit the socket's buffers; the server must not keep them, nor the connection.
            while server.http.deadlines.len() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            drop(client);
        }
    });
}

#[test]
fn rates_are_bounded_in_the_words_of_each_route() {
    run(|| async {
        for path in [Path::Any, Path::General] {
            let server = Server::new(&["--throttle", "1/s"]);
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            let mut last = client.get("/lookup?key=a+b").await;
            while last.status != 503 {
                last = client.get("/lookup?key=a+b").await;
            }
            assert_eq!(last.text(), r#"{"key": "a b", "value": null, "status": 503}"#);
            assert_eq!(last.header("retry-after"), Some("1"));
            let native = client.get("/v1/kv/a").await;
            assert_eq!((native.status, native.problem().as_str()), (429, "throttled"));
            assert_eq!(native.header("ratelimit-policy"), Some("\"throttle\";q=1;w=1"));
            assert_eq!(native.header("ratelimit"), Some("\"throttle\";r=0;t=1"));
            assert_eq!(native.header("retry-after"), Some("1"));
            assert!(native.text().contains("setting `throttle"));
            assert_eq!(client.get("/healthz").await.status, 200);
            assert_eq!(client.get("/v1/stats").await.status, 200);
            assert_eq!(client.send("DELETE /v1/kv/a HTTP/1.1\r\nHost: h\r\n\r\n").await.problem(), "throttled");
            for (request, status) in [
                ("GET /v0/entity?id=a", 429),
                ("PUT /v0/entity?id=a", 429),
                ("DELETE /v0/entity?id=a", 429),
                ("GET /v0/entities?start=a", 429),
                ("GET /v1/lookup?key=a", 503),
                ("GET /?key=a", 503),
                ("GET /data/a", 503),
                ("DELETE /data/a", 429),
                ("GET /cache/v1/item?key=a", 503),
                ("DELETE /cache/v1/item?key=a", 503),
                ("GET /cache/v1/keys?mask=*", 503),
            ] {
                let refused = client.send(&format!("{request} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")).await;
                assert_eq!(refused.status, status, "{request}");
            }
        }
        let server = Server::new(&["--throttle-admin", "1/s"]);
        let mut client = server.connect().await;
        while client.get("/v1/stats").await.status != 429 {}
        assert_eq!(client.get("/metrics").await.problem(), "throttled");
        assert_eq!(client.get("/v1/kv/a").await.status, 404);
    });
}

#[test]
fn a_drain_closes_idle_connections_and_finishes_begun_requests() {
    run(|| async {
        let server = Server::new(&["--header-timeout", "10s"]);
        server.set(b"a", b"1");
        let idle = server.connect().await;
        let idle_general = server.connect_to(ListenerRole::Native, Path::General).await;
        let mut begun = server.connect().await;
        begun.write("GET /v1/kv/a HTTP/1.1\r\nHost").await;
        let mut uploading = server.connect().await;
        uploading.write("PUT /v1/kv/b HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nx").await;
        // Both are in the server's hands.
        while server.http.deadlines.len() < 4 || server.http.deadlines.unlimited() == 0 {
            tokio::task::yield_now().await;
        }
        server.worker.app.drain.advance(Phase::Draining);
        assert!(idle.rest().await.expect("a clean end").is_empty());
        assert!(idle_general.rest().await.expect("a clean end").is_empty());
        let reply = begun.send(": h\r\n\r\n").await;
        assert_eq!((reply.text(), reply.header("connection")), ("1", Some("close")));
        assert!(begun.rest().await.expect("a clean end").is_empty());
        assert_eq!(uploading.send("y").await.status, 201);
        assert!(uploading.rest().await.expect("a clean end").is_empty());
    });
}
