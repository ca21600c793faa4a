//! Overload: more is asked than one core can do. What can be answered in time is, the rest is refused at once.
use crate::{
    common::{RedisServer, Reply, wait_until},
    larder::Larder,
    sockets::{exchange, from},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

/// Sends a command over many connections, far ahead of its replies, while `probe` runs. Replies must be lines, errors only of overload.
/// Returns how many were errors.
fn under_load(port: u16, command: &[u8], ahead: usize, probe: impl FnOnce()) -> usize {
    let (ends, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..30)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    let pipeline = command.repeat(ahead);
                    let mut sink = vec![0; 1 << 16];
                    while !ends.load(Relaxed) {
                        stream.write_all(&pipeline).unwrap();
                        let mut replies = 0;
                        while replies < ahead {
                            let read = stream.read(&mut sink).unwrap();
                            assert_ne!(read, 0, "the connection stays open");
                            replies += sink[..read].iter().filter(|byte| **byte == b'\n').count();
                            refused.fetch_add(
                                sink[..read].windows(15).filter(|at| at == b"-ERR overloaded").count(),
                                Relaxed,
                            );
                        }
                    }
                })
            })
            .collect();
        probe();
        ends.store(true, Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
    refused.into_inner()
}

#[test]
fn what_waits_too_long_is_refused_and_the_connection_is_not() {
    let larder = Larder::start(&["--threads=1", "--max-queue-delay=2ms"]);
    let mut client = larder.client();
    assert_eq!(client.command(&[&b"SET"[..], b"v", &vec![b'v'; 65_536]]), Reply::ok());
    assert_eq!(client.command(&["SET", "k", "v"]), Reply::ok());
    let bits = b"*2\r\n$8\r\nBITCOUNT\r\n$1\r\nv\r\n";
    let get = "GET /v1/kv/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let refused = under_load(larder.redis, bits, 300, || {
        wait_until("a GET to be refused", || {
            let reply = client.command(&["GET", "k"]);
            assert!(matches!(&reply, Reply::Bulk(Some(_)) | Reply::Error(_)), "{reply:?}");
            matches!(reply, Reply::Error(text) if text == "ERR overloaded: requests wait longer than max-queue-delay")
        });
        // The connection lives, and what is for it or for the server is answered.
        assert!((0..50).all(|_| client.command(&["PING"]) == Reply::Simple("PONG".into())));
        assert_eq!(larder.http("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").0, 200);
        for path in ["/v1/kv/k", "/v1/keys"] {
            let get = get.replace("/v1/kv/k", path);
            wait_until("a request over HTTP to be refused", || {
                let answer = exchange(from(1, larder.http), get.as_bytes());
                let head = answer.to_ascii_lowercase();
                assert!(head.starts_with("http/1.1 200") || head.starts_with("http/1.1 503"), "{answer}");
                head.starts_with("http/1.1 503")
                    && head.contains("\r\nretry-after: 1\r\n")
                    && answer.contains("\"type\":\"/problems/overloaded\"")
            });
        }
        wait_until("a transaction to be refused", || {
            client.command(&["MULTI"]);
            client.command(&["SET", "t", "1"]);
            match client.command(&["EXEC"]) {
                Reply::Error(text) => text.starts_with("EXECABORT"),
                other => matches!(other, Reply::Array(None)),
            }
        });
    });
    assert!(refused > 0, "of the load itself");
    assert!(larder.metric("larder_overload_refused_total{work=\"redis\"}") >= refused as f64);
    assert!(larder.metric("larder_overload_refused_total{work=\"http\"}") > 1.0);
    // It is over when the load is.
    wait_until("all to be served again", || (0..200).all(|_| client.command(&["GET", "k"]) == Reply::bulk("v")));
}

#[test]
fn misses_are_refused_before_hits() {
    let redis = RedisServer::start();
    let source = format!("--source={}", redis.url());
    let larder = Larder::start(&["--threads=1", "--max-queue-delay=2ms", &source]);
    let mut client = larder.client();
    client.command(&["SET", "k", "v"]);
    client.command(&["GET", "k"]);
    let misses = AtomicUsize::new(0);
    let fetches_refused = || larder.metric("larder_overload_refused_total{work=\"fetch\"}") > 0.0;
    // Hits, which a copy answers.
    let load = crate::larder::encode(&[b"STRLEN", b"k"]);
    under_load(larder.redis, &load, 2000, || {
        wait_until("a miss to be refused", || {
            for _ in 0..20 {
                let key = format!("none:{}", misses.fetch_add(1, Relaxed));
                let reply = client.command(&["GET", &key]);
                let is_known = match &reply {
                    Reply::Error(text) => text.contains("overloaded: requests wait longer than max-queue-delay"),
                    other => *other == Reply::nil(),
                };
                assert!(is_known, "{reply:?}");
            }
            fetches_refused()
        });
    });
}

#[test]
fn without_the_setting_everything_waits() {
    let larder = Larder::start(&["--threads=1"]);
    let mut client = larder.client();
    client.command(&[&b"SET"[..], b"v", &vec![b'v'; 65_536]]);
    let refused = under_load(larder.redis, b"*2\r\n$8\r\nBITCOUNT\r\n$1\r\nv\r\n", 100, || {
        assert!((0..20).all(|_| client.command(&["BITCOUNT", "v"]) == Reply::Int(65_536 * 5)));
    });
    assert_eq!(refused, 0);
}
