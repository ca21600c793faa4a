//! The fast path says what the general path says, however the bytes arrive.
use super::support::{Client, Path, Server, run};
use crate::ListenerRole;
use proptest::prelude::*;
use tokio::task::yield_now;

/// Whether a connection has left the fast path shows in how it treats a header that only hyper
/// writes back: it does not. What tells them apart from outside is the answer to `Connection:
/// close`, so the paths are compared byte by byte instead.
async fn both(server: &Server) -> (Client, Client) {
    (
        server.connect_to(ListenerRole::Native, Path::Any).await,
        server.connect_to(ListenerRole::Native, Path::General).await,
    )
}

fn sample() -> Server {
    let server = Server::new(&[]);
    server.set(b"a", b"plain");
    server.set(b"b/c d", "\"é\n\u{1}\\".as_bytes());
    server.set(b"\xff\x00", b"\xff\xfe\xe2\x98");
    server.set(b"large", &vec![b'x'; 3 << 20]);
    server.set(b"wild", &[7, 34, 255, 92].repeat(600 << 10));
    let cache = &server.worker.groups.default().cache;
    let write = larder_engine::Write {
        expiry: larder_engine::Expiry::At(larder_store::clock::now() + 100_000),
        ..larder_engine::Write::new(b"mortal")
    };
    cache.tier().set(cache.key(b"e"), write, larder_store::clock::now()).expect("it fits");
    server
}

#[test]
fn the_same_bytes_on_both_paths() {
    run(|| async {
        let server = sample();
        let (mut fast, mut general) = both(&server).await;
        for key in ["a", "b/c%20d", "%FF%00", "large", "wild", "e", "none", "n%22one", ""] {
            for route in ["/v1/kv/", "/lookup?key=", "/?key=", "/data/"] {
                let target = format!("{route}{key}");
                let (one, other) = (fast.get(&target).await, general.get(&target).await);
                assert!(one.clone().timeless() == other.clone().timeless(), "{target}: {} {}", one.head, other.head);
            }
        }
        for target in ["/lookup", "/lookup?kay=a", "/", "/?", "/v0/entity", "/v0/entity?ids=1", "/v0/entity?id=a&x=1"] {
            let (one, other) = (fast.get(target).await, general.get(target).await);
            assert_eq!(one.status, 400);
            assert_eq!(one.timeless(), other.timeless(), "{target}");
        }
        // The connection is still on the fast path: heads that hyper would have answered differently.
        let (one, other) = (fast.get("/lookup?key=a&key=b").await, general.get("/lookup?key=a&key=b").await);
        assert_eq!(one.timeless(), other.timeless());
    });
}

#[test]
fn split_at_every_byte() {
    run(|| async {
        let server = sample();
        let mut client = server.connect().await;
        let request = b"GET /v1/kv/b%2Fc%20d HTTP/1.1\r\nHost: h\r\nX-Y: z\r\n\r\n";
        let whole = client.send(request).await.timeless();
        assert_eq!(whole.status, 200);
        for at in 1..request.len() {
            client.write(&request[..at]).await;
            for _ in 0..8 {
                yield_now().await;
            }
            assert_eq!(client.send(&request[at..]).await.timeless(), whole, "split at {at}");
        }
        for byte in request {
            client.write([*byte]).await;
            yield_now().await;
        }
        assert_eq!(client.reply(false).await.timeless(), whole);
    });
}

#[test]
fn a_pipeline_is_answered_in_order_across_the_handover() {
    run(|| async {
        let server = sample();
        let mut client = server.connect().await;
        let get = |key: &str| format!("GET /v1/kv/{key} HTTP/1.1\r\nHost: h\r\n\r\n");
        let foreign = "HEAD /v1/kv/a HTTP/1.1\r\nHost: h\r\n\r\n";
        client.write([get("a"), get("none"), get("large"), foreign.into(), get("a")].concat()).await;
        let mut replies = Vec::new();
        for i in 0..5 {
            replies.push(client.reply(i == 3).await);
        }
        let seen: Vec<_> = replies.iter().map(|reply| (reply.status, reply.body.len())).collect();
        assert_eq!(seen, [(200, 5), (404, 71), (200, 3 << 20), (200, 0), (200, 5)]);
    });
}

#[test]
fn a_long_pipeline_of_more_than_the_buffers_hold() {
    run(|| async {
        let server = sample();
        let mut client = server.connect().await;
        let request = "GET /lookup?key=a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(4999)
            + "GET /lookup?key=a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        let (mut read, mut write) = client.stream.split();
        let send = async {
            use tokio::io::AsyncWriteExt;
            write.write_all(request.as_bytes()).await.expect("the server reads");
        };
        // Looked through once, at the end: looking through all of it at each read is quadratic, and ran
        // into the guard on a busy machine.
        let receive = async {
            use tokio::io::AsyncReadExt;
            let mut all = Vec::new();
            read.read_to_end(&mut all).await.expect("answers");
            all
        };
        let ((), all) = tokio::join!(send, receive);
        let answers = all.windows(13).filter(|window| window == b"\"status\": 200").count();
        assert_eq!(answers, 5000);
    });
}

fn requests() -> impl Strategy<Value = String> {
    let key =
        prop_oneof!["[a-z]{1,3}", Just("b/c%20d".to_owned()), Just("%ff%00".to_owned()), "[%a-f0-9+&=?/.~]{0,8}",];
    let target = (
        prop_oneof![
            "/v1/kv/",
            "/data/",
            "/lookup\\?key=",
            "/\\?key=",
            "/lookup\\?",
            "/v1/kv",
            "/v1/keys\\?match=",
            "/redis/[gG]et/",
            "/redis/",
        ],
        key,
    )
        .prop_map(|(route, key)| route + &key);
    let header = prop_oneof![
        "Accept: [ -~]{0,9}",
        "User-Agent: [ -~]{0,9}",
        "Connection: (keep-alive|Keep-Alive|foo)",
        "If-None-Match: (\\*|\"[0-9a-f]{16}\"|nonsense)",
        "Range: bytes=0-1",
        "X-[A-Za-z]{1,5}: [ -~]{0,5}",
        "Upstash-Encoding: (base64|none)",
        "Authorization: (Bearer|Basic) [ -~]{0,5}",
        "(Origin|Sec-Fetch-Site): (none|http://h)",
    ];
    let method = prop_oneof![8 => Just("GET"), 1 => Just("HEAD"), 1 => Just("OPTIONS")];
    (method, target, proptest::collection::vec(header, 0..4)).prop_map(|(method, target, headers)| {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{headers}\r\n")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_request_gets_the_same_answer_on_both_paths(requests in proptest::collection::vec(requests(), 1..8)) {
        run(|| async {
            let server = Server::new(&[]);
            server.set(b"a", b"plain");
            server.set(b"b/c d", "\"é\n\u{1}\\".as_bytes());
            server.set(b"\xff\x00", b"\xff\xfe\xe2\x98");
            let (mut fast, mut general) = both(&server).await;
            for request in &requests {
                let (one, other) = (fast.send(request).await, general.send(request).await);
                prop_assert_eq!(one.timeless(), other.timeless(), "{}", request);
            }
            Ok(())
        })?;
    }
}
