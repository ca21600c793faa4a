//! Overload: more is asked than one core can do. What can be answered in time is, the rest is
//! refused at once.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
    sockets::{exchange, from},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    panic::{self, AssertUnwindSafe},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
};

/// Sends a command over many connections, `ahead` of its replies, while `probe` runs. Replies must
/// be lines. Returns how many were refused.
fn under_load(port: u16, command: &[u8], ahead: &AtomicUsize, probe: impl FnOnce()) -> usize {
    let (ends, refused) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients: Vec<_> = (0..30)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                    let mut sink = vec![0; 1 << 16];
                    while !ends.load(Relaxed) {
                        let ahead = ahead.load(Relaxed);
                        stream.write_all(&command.repeat(ahead)).unwrap();
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
        // A probe that fails must not leave the clients going on for ever.
        let probed = panic::catch_unwind(AssertUnwindSafe(probe));
        ends.store(true, Relaxed);
        clients.into_iter().for_each(|client| client.join().unwrap());
        probed.unwrap_or_else(|fault| panic::resume_unwind(fault));
    });
    refused.into_inner()
}

/// Counts the elements of a document, which the core has to read for that. The reply is a line.
const LENGTH: &[u8] = b"*3\r\n$11\r\nJSON.ARRLEN\r\n$1\r\nv\r\n$1\r\n.\r\n";

/// Has a command carried out, by a server that may refuse it: a busy machine is overload, too.
fn until_done(client: &mut Client, command: &[&str]) {
    wait_until(command[0], || client.command(command) == Reply::ok());
}

/// Stores a document of 64 KiB.
fn store_document(client: &mut Client) {
    let document = format!("[{}1]", "1234567,".repeat(8191));
    until_done(client, &["JSON.SET", "v", ".", &document]);
}

#[test]
fn what_waits_too_long_is_refused_and_the_connection_is_not() {
    let larder = Larder::start(&["--threads=1", "--max-queue-delay=2ms"]);
    let mut client = larder.client();
    store_document(&mut client);
    until_done(&mut client, &["SET", "k", "v"]);
    let get = "GET /v1/kv/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let refused = under_load(larder.redis, LENGTH, &AtomicUsize::new(100), || {
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
    let larder = Larder::start(&["--threads=1", "--max-queue-delay=10ms", &source]);
    let mut client = larder.client();
    until_done(&mut client, &["SET", "k", "v"]);
    wait_until("a copy", || client.command(&["GET", "k"]) == Reply::bulk("v"));
    let misses = AtomicUsize::new(0);
    let fetches_refused = || larder.metric("larder_overload_refused_total{work=\"fetch\"}") > 0.0;
    // Hits, which a copy answers.
    let load = super::larder::encode(&[b"STRLEN", b"k"]);
    // How much a core can do in 10 ms depends on the build.
    let ahead = AtomicUsize::new(10);
    under_load(larder.redis, &load, &ahead, || {
        wait_until("a miss to be refused", || {
            ahead.store((ahead.load(Relaxed) * 5 / 4).min(20_000), Relaxed);
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
    store_document(&mut client);
    let refused = under_load(larder.redis, LENGTH, &AtomicUsize::new(20), || {
        assert!((0..5).all(|_| client.command(&["JSON.ARRLEN", "v", "."]) == Reply::Int(8192)));
    });
    assert_eq!(refused, 0);
}
