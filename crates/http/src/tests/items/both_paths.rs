//! The fast path answers items as the general path does, however the bytes arrive. Lists of keys
//! have no order, so they are not compared.
use crate::{
    ListenerRole,
    tests::support::{Client, Path, Reply, Server, run},
};
use proptest::prelude::*;
use tokio::{io::AsyncWriteExt as _, task::yield_now};

/// Two servers that hold the same, as connections to the two paths.
struct Both {
    servers: [Server; 2],
    clients: [Client; 2],
}

impl Both {
    async fn connect(args: &[&str]) -> Both {
        let servers = [Server::new(args), Server::new(args)];
        for server in &servers {
            server.set(b"plain", b"no JSON <&>\xff");
            server.set(b"number", b" 12 ");
            server.set(b"long", format!("[\"{}\",2]", "x<y ".repeat(30_000)).as_bytes());
        }
        let clients = [
            servers[0].connect_to(ListenerRole::Native, Path::Any).await,
            servers[1].connect_to(ListenerRole::Native, Path::General).await,
        ];
        Both { servers, clients }
    }

    fn counted(server: &Server) -> String {
        let counters = &server.worker.counters;
        let stats = server.worker.groups.default().cache.stats();
        let answers = [&counters.http_responses_2xx, &counters.http_responses_4xx].map(|counter| counter.get());
        format!("{answers:?} {} {} {}", stats.hits, stats.misses, stats.entries)
    }
}

/// The reply without its entity tag, which has a number of the server in it.
fn serverless(mut reply: Reply) -> Reply {
    let lines = reply.head.lines().map(|line| if line.starts_with("etag: ") { "etag: …" } else { line });
    reply.head = lines.collect::<Vec<_>>().join("\n");
    reply
}

/// A request in pieces, and how it is sent.
#[derive(Debug, Clone)]
struct Sent {
    bytes: Vec<u8>,
    is_head: bool,
    /// Bytes of the first write.
    first: usize,
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[ab]", 1 => Just("plain".to_owned()), 1 => Just("number".to_owned()), 1 => Just("long".to_owned()), 1 => Just(String::new()), 1 => "[<é]{1,12}"]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just("1".to_owned()),
        Just("null".to_owned()),
        Just(r#" { "a" : [1, "<"], "a" : 2 } "#.to_owned()),
        Just(r#"["x", {"a":1.50}]"#.to_owned()),
        Just("\"\\ud800\"".to_owned()),
        "[\\[\\]]{1,8}",
        (1_usize..700).prop_map(|len| format!("\"{}\"", "v".repeat(len))),
    ];
    let ttl = prop_oneof![6 => Just("60"), 1 => Just("4"), 1 => Just("-1"), 1 => Just("\"60\""), 1 => Just("99999999999999999999")];
    let post = (key(), value, ttl).prop_map(|(key, value, ttl)| {
        format!(r#"{{"key":{},"value":{value},"ttl":{ttl}}}"#, serde_json::to_string(&key).expect("JSON"))
    });
    let part = prop_oneof![
        Just(String::new()),
        Just(r#","subkey":"a""#.to_owned()),
        Just(r#","subindex":2"#.to_owned()),
        Just(r#","subkey":"a","subindex":1"#.to_owned()),
    ];
    let get = (key(), part)
        .prop_map(|(key, part)| format!(r#"{{"key":{}{part}}}"#, serde_json::to_string(&key).expect("JSON")));
    prop_oneof![
        4 => post.prop_map(String::into_bytes),
        4 => get.prop_map(String::into_bytes),
        1 => "[{}\\[\\]\":,a-k0-9 ]{0,12}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..12),
    ]
}

fn requests() -> impl Strategy<Value = Sent> {
    let method = prop_oneof![6 => Just("GET"), 6 => Just("POST"), 4 => Just("DELETE"), 1 => Just("PUT"), 1 => Just("HEAD"), 1 => Just("PATCH")];
    let target = prop_oneof![
        8 => Just("/cache/v1/item".to_owned()),
        1 => Just("/cache/v1/item/".to_owned()),
        1 => Just("/cache/v1/items".to_owned()),
        1 => Just("/cache/v1/ite%6d".to_owned()),
        1 => Just("/v1/kv/a".to_owned()),
        2 => "/cache/v1/item\\?(key=[ab%2]{0,3}|x=1|subkey=a|subindex=[0-3x]|ttl=60|value=%5B1%5D)(&key=b|&subindex=1|&)?",
    ];
    let header = prop_oneof![
        Just("Content-Type: application/json"),
        Just("Accept: */*"),
        Just("X-Forwarded-For: 1.2.3.4"),
        Just("If-Match: *"),
        Just("Connection: keep-alive"),
        Just("Expect: 100-continue"),
    ];
    // The body of no length at all, of its length, twice that line, and in chunks.
    let framing = prop_oneof![1 => Just(0), 8 => Just(1), 1 => Just(2), 2 => Just(3)];
    let headers = proptest::collection::vec(header, 0..3);
    (method, target, headers, body(), framing, proptest::option::of(any::<prop::sample::Index>())).prop_map(
        |(method, target, headers, body, framing, split)| {
            // An answer that asks for the body first cannot be told from the answer itself here.
            let headers: String = headers
                .iter()
                .filter(|line| framing != 0 || !line.starts_with("Exp"))
                .map(|line| format!("{line}\r\n"))
                .collect();
            let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{headers}").into_bytes();
            let length = format!("Content-Length: {}\r\n", body.len());
            match framing {
                0 => bytes.extend(b"\r\n"),
                1 | 2 => {
                    bytes.extend(length.repeat(framing).as_bytes());
                    bytes.extend(b"\r\n");
                    bytes.extend(&body);
                }
                _ => {
                    bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    for chunk in body.chunks(7) {
                        bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
                        bytes.extend(chunk);
                        bytes.extend(b"\r\n");
                    }
                    bytes.extend(b"0\r\n\r\n");
                }
            }
            let first = split.map_or(bytes.len(), |split| split.index(bytes.len()));
            Sent { bytes, is_head: method == "HEAD", first }
        },
    )
}

impl Both {
    async fn send(&mut self, sent: &Sent) -> [Reply; 2] {
        let mut replies = Vec::new();
        for client in &mut self.clients {
            let (first, second) = sent.bytes.split_at(sent.first);
            client.write(first).await;
            for _ in 0..4 {
                yield_now().await;
            }
            // It may be refused already, by its head.
            let _ = client.stream.write_all(second).await;
            let mut reply = client.reply(sent.is_head).await;
            if reply.status == 100 {
                reply = client.reply(sent.is_head).await;
            }
            replies.push(serverless(reply.timeless()));
        }
        replies.try_into().expect("two")
    }

    /// New connections to the same servers.
    async fn connect_again(&mut self) {
        self.clients = [
            self.servers[0].connect_to(ListenerRole::Native, Path::Any).await,
            self.servers[1].connect_to(ListenerRole::Native, Path::General).await,
        ];
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_request_gets_the_same_answer_on_both_paths(
        requests in proptest::collection::vec(requests(), 1..12),
        is_short in any::<bool>(),
    ) {
        run(|| async {
            let args: &[&str] = if is_short { &["--max-key", "9", "--max-value", "300", "--max-body", "40"] } else { &[] };
            let mut both = Both::connect(args).await;
            for sent in &requests {
                let [fast, general] = both.send(sent).await;
                prop_assert_eq!(&fast, &general, "{}", String::from_utf8_lossy(&sent.bytes));
                prop_assert_eq!(Both::counted(&both.servers[0]), Both::counted(&both.servers[1]));
                // Some answers end a connection, and some requests take it off the fast path.
                both.connect_again().await;
            }
            Ok(())
        })?;
    }

    #[test]
    fn pipelines_are_answered_in_order_on_both_paths(requests in proptest::collection::vec(requests(), 1..12)) {
        // What ends a connection, is refused before its body is read, or has an answer before its answer, is the other test's.
        let is_plain = |sent: &&Sent| {
            let text = String::from_utf8_lossy(&sent.bytes).to_ascii_lowercase();
            let is_item = text.contains(" /cache/v1/item ") || text.contains(" /cache/v1/item?");
            let is_served = !["put", "patch", "head"].iter().any(|method| text.starts_with(method));
            is_item && is_served && text.matches("content-length").count() < 2 && !text.contains("expect")
        };
        let requests: Vec<&Sent> = requests.iter().filter(is_plain).collect();
        run(|| async {
            let mut both = Both::connect(&[]).await;
            let all: Vec<u8> = requests.iter().flat_map(|sent| sent.bytes.clone()).collect();
            let mut answers = Vec::new();
            for client in &mut both.clients {
                client.write(&all).await;
                let mut replies = Vec::new();
                for sent in &requests {
                    replies.push(client.reply(sent.is_head).await.timeless());
                }
                answers.push(replies);
            }
            prop_assert_eq!(&answers[0], &answers[1]);
            Ok(())
        })?;
    }
}

#[test]
fn a_request_may_be_cut_at_any_byte() {
    run(|| async {
        let mut both = Both::connect(&[]).await;
        let body = r#"{"key":"a","value":{"x":[1,2]},"ttl":60}"#;
        let bytes = format!("POST /cache/v1/item HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        for at in 0..bytes.len() {
            let sent = Sent { bytes: bytes.clone().into_bytes(), is_head: false, first: at };
            let [fast, general] = both.send(&sent).await;
            assert_eq!(fast, general, "split at {at}");
            assert_eq!(fast.status, 201);
        }
    });
}
