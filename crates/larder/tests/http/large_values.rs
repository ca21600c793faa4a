//! Values larger than `max-value` pass through from an HTTP source to HTTP clients, and are not
//! kept.
use super::{
    common::PATIENCE,
    curl,
    larder::Larder,
    scripted_origin::{ScriptedOrigin, Step, answer, chunked},
    wait_until,
};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread::{sleep, spawn},
    time::Duration,
};

/// Takes the general path: the fast path knows no conditions.
const CONDITION: &str = "If-None-Match: \"other\"";

fn large() -> Vec<u8> {
    (0..5_000_000u32).map(|i| (i ^ i >> 8) as u8).collect()
}
fn in_front_of(port: u16, more: &[&str]) -> Larder {
    let source = format!("http://127.0.0.1:{port}/{{key}}");
    Larder::start(&[&["--source", &*source, "--max-value", "1MiB", "--ttl", "1h"], more].concat())
}
fn url(larder: &Larder, path: &str) -> String {
    format!("http://127.0.0.1:{}{path}", larder.http)
}

#[test]
fn a_large_value_passes_through() {
    let origin = ScriptedOrigin::start(|asked| match &asked.target[1..] {
        "big" => answer("200 OK", "content-type: text/csv\r\netag: \"v1\"\r\ncache-control: max-age=60\r\n", large()),
        "private" => answer("200 OK", "cache-control: private\r\n", large()),
        "chunks" => chunked(&large(), 100_000),
        _ => answer("200 OK", "", "small"),
    });
    let larder = in_front_of(origin.port, &[]);
    let mut asked = 0;
    // The first read of a key learns that its value is large, from the head if that says it. The others
    // ask once.
    for (key, times) in [("big", 2), ("big", 1), ("private", 2), ("chunks", 2), ("chunks", 1)] {
        for (condition, times) in [(&[][..], times), (&["-H", CONDITION], 1)] {
            let found = curl(&[&[&*url(&larder, &format!("/v1/kv/{key}"))], condition].concat());
            assert_eq!(found.status, 200, "{}", found.text());
            assert!(found.body == large(), "{key} {} bytes", found.body.len());
            assert_eq!(found.header("cache-status"), Some("larder; fwd=miss; detail=too-large"));
            asked += times;
            assert_eq!(origin.asked(), asked, "{key} {condition:?}");
            let (content_type, tag, freshness) = match key {
                "big" => ("text/csv", Some("\"v1\""), Some("max-age=60")),
                "private" => ("application/octet-stream", None, Some("no-store")),
                _ => ("application/octet-stream", None, None),
            };
            assert_eq!((found.header("content-type"), found.header("etag")), (Some(content_type), tag));
            let within = |text: &str| freshness.is_some_and(|known| text == known || text == "max-age=59");
            assert!(found.header("cache-control").map_or(freshness.is_none(), within), "{}", found.headers);
        }
    }
    let head = curl(&["--head", &url(&larder, "/v1/kv/big")]);
    assert_eq!((head.header("content-length"), head.header("etag")), (Some("5000000"), Some("\"v1\"")));
    assert_eq!(curl(&["-H", "If-None-Match: \"v1\"", &url(&larder, "/v1/kv/big")]).status, 304);
    for path in ["/?key=big", "/v0/entity?id=big", "/v1/groups/default/kv/big"] {
        assert!(curl(&[&url(&larder, path)]).body == large(), "{path}");
    }
    assert!(curl(&["--http2-prior-knowledge", &url(&larder, "/v1/kv/big")]).body == large());
    // Where the value is part of something else, and over the Redis protocol, the error names the
    // setting, and nothing is fetched.
    let asked = origin.asked();
    let refused = larder.client().command(&["GET", "big"]);
    let error = refused.error();
    assert!(
        error.starts_with("ERR the source's value of ") && error.ends_with("allowed: 1048576 (max-value)"),
        "{error}"
    );
    assert_eq!(curl(&[&url(&larder, "/lookup?key=big")]).status, 502);
    assert_eq!(origin.asked(), asked);
    assert_eq!(larder.client().command(&["GET", "new"]), super::Reply::bulk("small"));
}

#[test]
fn a_value_that_is_small_again_is_kept() {
    let reads = AtomicUsize::new(0);
    let origin = ScriptedOrigin::start(move |_| match reads.fetch_add(1, Relaxed) {
        0 | 1 => answer("200 OK", "", large()),
        _ => answer("200 OK", "", "small"),
    });
    let larder = in_front_of(origin.port, &[]);
    assert!(curl(&[&url(&larder, "/v1/kv/a")]).body == large());
    for _ in 0..4 {
        assert_eq!(curl(&[&url(&larder, "/v1/kv/a")]).text(), "small");
    }
    assert_eq!(origin.asked(), 4, "the second read finds out, the third keeps it");
}

#[test]
fn those_who_wait_together_each_get_it() {
    let origin = ScriptedOrigin::start(|asked| match asked.target.as_str() {
        "/big" => {
            std::iter::once(Step::Wait(Duration::from_millis(200))).chain(answer("200 OK", "", large())).collect()
        }
        _ => answer("404 Not Found", "", ""),
    });
    let larder = Arc::new(in_front_of(origin.port, &[]));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let larder = larder.clone();
            spawn(move || assert!(curl(&[&url(&larder, "/v1/kv/big")]).body == large()))
        })
        .collect();
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert!(origin.asked() <= 16, "{}", origin.asked());
}

/// What comes of a `GET` until the connection ends. Says when more than a megabyte has come.
fn raw(larder: &Larder, key: &str, header: &str, has_much: &AtomicBool) -> Vec<u8> {
    has_much.store(false, Relaxed);
    let mut stream = TcpStream::connect(("127.0.0.1", larder.http)).unwrap();
    write!(stream, "GET /v1/kv/{key} HTTP/1.1\r\nhost: larder\r\n{header}\r\n").unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut answer = Vec::new();
    // A reset is an end as well.
    let _ = (&stream).take(1_100_000).read_to_end(&mut answer);
    has_much.store(true, Relaxed);
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn an_answer_that_breaks_off_is_cut_off() {
    let head = |framing: &str| Step::Send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n").into_bytes());
    let some = || Step::Send(large()[..3_000_000].to_vec());
    // What breaks off before Larder has begun its answer is an error, and a reset takes back what Larder
    // has not read yet: the end comes when the client has a part.
    let has_much = Arc::<AtomicBool>::default();
    let client = has_much.clone();
    let until = move || Step::Until(client.clone());
    let origin = ScriptedOrigin::start(move |asked| match &asked.target[1..] {
        "length" => vec![head("content-length: 5000000"), some(), until(), Step::Close],
        "reset" => vec![head("content-length: 5000000"), some(), until(), Step::Reset],
        "stalls" => vec![head("content-length: 5000000"), some(), Step::Stall],
        _ => {
            let chunk = [b"2dc6c0\r\n", &large()[..3_000_000], b"\r\n"].concat();
            vec![head("transfer-encoding: chunked"), Step::Send(chunk), until(), Step::Close]
        }
    });
    let larder = in_front_of(origin.port, &["--source-timeout", "2s"]);
    for key in ["length", "reset", "stalls", "chunked"] {
        for header in ["", &format!("{CONDITION}\r\n")] {
            let answer = raw(&larder, key, header, &has_much);
            let text = String::from_utf8_lossy(&answer[..300]);
            assert!(text.starts_with("HTTP/1.1 200 OK"), "{key} {text}");
            assert!(answer.len() > 1_000_000 && answer.len() < 3_500_000, "{key} {header:?}: {}", answer.len());
            assert!(!answer.ends_with(b"0\r\n\r\n"), "{key} {header:?} must not seem whole");
        }
    }
}

/// An origin that sends without end; how much it has sent, and a message when no more is taken.
fn endless() -> (u16, Arc<AtomicUsize>, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sent = Arc::<AtomicUsize>::default();
    let (left, is_left) = mpsc::channel();
    let count = sent.clone();
    spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (count, left) = (count.clone(), left.clone());
            spawn(move || {
                let mut head = [0; 4096];
                if stream.read(&mut head).unwrap_or(0) == 0 {
                    return;
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100000000000\r\n\r\n");
                let piece = vec![b'x'; 1 << 16];
                while stream.write_all(&piece).is_ok() {
                    count.fetch_add(piece.len(), Relaxed);
                }
                let _ = left.send(());
            });
        }
    });
    (port, sent, is_left)
}

#[test]
fn a_slow_client_holds_the_origin_back_and_one_that_leaves_ends_its_request() {
    for header in ["", &format!("{CONDITION}\r\n")] {
        let (port, sent, is_left) = endless();
        let larder = in_front_of(port, &[]);
        let mut stream = TcpStream::connect(("127.0.0.1", larder.http)).unwrap();
        write!(stream, "GET /v1/kv/a HTTP/1.1\r\nhost: larder\r\n{header}\r\n").unwrap();
        let mut first = [0; 1000];
        stream.read_exact(&mut first).unwrap();
        // The flight that found it out was left.
        is_left.recv_timeout(Duration::from_secs(20)).unwrap();
        // Until nothing moves: the sockets' buffers are full, and what Larder keeps.
        let mut before = usize::MAX;
        wait_until("the origin to be held back", || {
            sleep(Duration::from_millis(300));
            std::mem::replace(&mut before, sent.load(Relaxed)) == sent.load(Relaxed)
        });
        let held_back = sent.load(Relaxed);
        assert!(held_back < 64 << 20, "{held_back}");
        // It goes on as the client reads.
        let mut rest = vec![0; 4 << 20];
        for _ in 0..16 {
            stream.read_exact(&mut rest).unwrap();
        }
        wait_until("more", || sent.load(Relaxed) > held_back + (16 << 20));
        drop(stream);
        is_left.recv_timeout(Duration::from_secs(20)).expect("the request ends when the client leaves");
    }
}
