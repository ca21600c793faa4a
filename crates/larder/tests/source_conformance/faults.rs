//! Sources that are slow, dead, wrong or in a hurry.
use super::{
    common::{Port, RedisServer, Reply},
    fake::{self, Answer, faked, values},
    fixture::{LIMITS, open, plain, reason, redis, redis_with, run, some, tcp},
};
use larder_config::{RedisUrl, SourceUrl};
use larder_source::{FillPolicy, KeyPolicy, SourceError, SourceLimits};
use larder_store::clock;
use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

#[test]
fn a_frozen_source_meets_the_deadline_and_comes_back() {
    let server = RedisServer::start();
    run(async {
        let limits = SourceLimits { timeout: Duration::from_millis(300), ..LIMITS };
        let group = redis_with(&server, limits, FillPolicy::default());
        group.put(b"hit", "v".into(), None).await.expect("the put");
        server.stop();
        let start = Instant::now();
        let (read, write) = tokio::join!(group.get("k"), group.put(b"w", "v".into(), None));
        let took = start.elapsed();
        let text = "source unavailable: timed out after 300ms (source-timeout)";
        assert_eq!(reason(read), text);
        // The write was sent: it may yet be carried out.
        assert_eq!(write, Err(SourceError::Lost("timed out after 300ms (source-timeout)".into())));
        assert!(took >= limits.timeout && took < LIMITS.timeout, "{took:?}");
        // A read that begins while the next connection is tried meets its deadline, too.
        let start = Instant::now();
        reason(group.get("l").await);
        assert!(start.elapsed() < LIMITS.timeout);
        assert_eq!(group.get("hit").await, some("v"));
        server.cont();
        group.until("service returns", async || group.get("k").await == Ok(None)).await;
        group.until_up().await;
        assert_eq!(group.health.in_flight(), 0);
    });
}

#[test]
fn a_source_that_freezes_is_noticed_without_traffic() {
    let server = RedisServer::start();
    run(async {
        let limits = SourceLimits { timeout: Duration::from_millis(300), ..LIMITS };
        let group = redis_with(&server, limits, FillPolicy::default());
        group.until_up().await;
        server.stop();
        group.until("the probe goes unanswered", async || !group.health.is_up()).await;
        server.cont();
        group.until_up().await;
        assert_eq!(group.health.fetches(), 0);
    });
}

#[test]
fn a_dead_source_fails_fast_and_comes_back_without_a_word() {
    let mut server = RedisServer::start();
    run(async {
        let group = redis(&server);
        group.put(b"hit", "v".into(), None).await.expect("the put");
        server.kill();
        group.until_down().await;
        let start = Instant::now();
        assert_eq!(reason(group.get("k").await), "source unavailable: connection refused");
        let put = group.put(b"hit", "w".into(), None).await;
        assert_eq!(put, Err(SourceError::Unavailable("connection refused".into())));
        assert!(start.elapsed() < LIMITS.timeout / 2, "at once, not at the deadline");
        assert_eq!(group.get("hit").await, some("v"), "a write that was not sent changes nothing");
        assert_eq!(group.health.last_error().as_deref(), Some("connection refused"));
        server.restart();
        // With no request at all.
        group.until_up().await;
        assert_eq!(group.get("k").await, Ok(None));
        assert_eq!(group.health.reconnects(), 1);
    });
}

#[test]
fn a_source_that_starts_late_is_found() {
    let held = Port::free();
    let port = held.number;
    run(async {
        let url = SourceUrl::Redis(tcp(port));
        let group = open(&url, LIMITS, FillPolicy::default());
        assert!(!group.health.is_up());
        // Waits for the attempt under way, then fails with it, long before the deadline.
        let start = Instant::now();
        assert_eq!(reason(group.get("k").await), "source unavailable: connection refused");
        assert!(start.elapsed() < LIMITS.timeout / 2);
        group.until_down().await;
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port");
        let fake = fake::serve(listener, |_, _| Answer::Bytes(fake::absent(1)));
        group.until_up().await;
        assert_eq!(group.get("k").await, Ok(None));
        group.leave(fake).await;
    });
}

#[test]
fn kills_and_restarts_under_load_lose_no_waiter() {
    let mut server = RedisServer::start();
    run(async {
        let limits = SourceLimits { timeout: Duration::from_millis(500), ..LIMITS };
        let group = redis_with(&server, limits, FillPolicy::from(KeyPolicy { ttl: Some(1), ..KeyPolicy::default() }));
        group.until_up().await;
        let stop = Rc::new(std::cell::Cell::new(false));
        let clients: Vec<_> = (0..50)
            .map(|client| {
                let (group, stop) = (group.group.clone(), stop.clone());
                tokio::task::spawn_local(async move {
                    let (mut answers, mut errors) = (0u32, 0u32);
                    for round in 0.. {
                        if stop.get() {
                            break;
                        }
                        let key = format!("{client}:{}", round % 7);
                        let start = Instant::now();
                        let answer = if round % 5 == 0 {
                            group.put(key.as_bytes(), "v".into(), None).await.map(drop)
                        } else {
                            group.read(key.as_bytes(), clock::now()).await.map(drop)
                        };
                        assert!(start.elapsed() < 10 * limits.timeout, "late");
                        match answer {
                            Ok(()) => answers += 1,
                            Err(error) => {
                                assert!(error.is_unavailable(), "{error}");
                                errors += 1;
                                tokio::time::sleep(Duration::from_millis(1)).await;
                            }
                        }
                    }
                    (answers, errors)
                })
            })
            .collect();
        for _ in 0..3 {
            let fetched = group.health.fetches();
            group.until("traffic", async || group.health.fetches() > fetched + 500).await;
            server.kill();
            group.until("it is noticed", async || !group.health.is_up()).await;
            server.restart();
            group.until_up().await;
        }
        stop.set(true);
        for client in clients {
            let (answers, _) = client.await.expect("no panic");
            assert!(answers > 0);
        }
        group.until("nothing is in flight", async || group.health.in_flight() == 0).await;
    });
}

#[test]
fn too_many_fetches_in_flight_are_refused_at_once() {
    let server = RedisServer::start();
    run(async {
        let limits = SourceLimits { max_in_flight: 4, ..LIMITS };
        let group = redis_with(&server, limits, FillPolicy::default());
        group.until_up().await;
        server.stop();
        let reads: Vec<_> = (0..10)
            .map(|i| {
                let group = group.group.clone();
                tokio::task::spawn_local(async move {
                    let answer = group.read(format!("{i}").as_bytes(), clock::now()).await;
                    (i, answer)
                })
            })
            .collect();
        let (mut first, refused): (Vec<_>, Vec<_>) = {
            let mut reads = reads;
            let refused = reads.split_off(4);
            (reads, refused)
        };
        for read in refused {
            let (_, answer) = read.await.expect("no panic");
            let text = answer.expect_err("refused").to_string();
            assert_eq!(text, "source unavailable: more than 4 fetches in flight (source-max-in-flight)");
        }
        assert!(first.iter().all(|read| !read.is_finished()));
        assert_eq!(group.health.in_flight(), 4);
        server.cont();
        for read in first.drain(..) {
            assert_eq!(read.await.expect("no panic").1, Ok(None));
        }
        assert_eq!(group.get("again").await, Ok(None));
    });
}

#[test]
fn an_idle_connection_that_is_closed_costs_nobody_an_error() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        for _ in 0..3 {
            assert_eq!(group.get("k").await, Ok(None));
            assert_eq!(server.command(&["CLIENT", "KILL", "TYPE", "normal"]), Reply::Int(1));
        }
        assert_eq!(group.get("k").await, Ok(None));
    });
}

#[test]
fn wrong_credentials_are_named() {
    let server = RedisServer::with(&["--requirepass", "secret"]);
    run(async {
        let port = server.port();
        let none = plain(tcp(port));
        let text = reason(none.get("k").await);
        let wanted = "(the source wants a password: give one in its URL or its password-file)";
        assert_eq!(text, format!("source unavailable: NOAUTH Authentication required. {wanted}"));
        let wrong = plain(RedisUrl { password: Some("guess".into()), ..tcp(port) });
        let text = reason(wrong.get("k").await);
        assert!(text.starts_with("source unavailable: WRONGPASS"), "{text}");
        assert!(text.ends_with("(the source refuses the password in its URL)"), "{text}");
        let database = plain(RedisUrl { password: Some("secret".into()), database: 4711, ..tcp(port) });
        let text = reason(database.get("k").await);
        assert_eq!(text, "source unavailable: ERR DB index is out of range");
    });
}

#[test]
fn a_loading_server_is_down_until_it_has_loaded() {
    use std::io::{Read, Write};
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let fake = std::thread::spawn(move || {
            for pong in ["-LOADING Redis is loading the dataset in memory\r\n", "+PONG\r\n"] {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut buffer = [0; 1024];
                let _ = stream.read(&mut buffer).expect("a handshake");
                // It does not say what it is (HELLO, INFO).
                stream
                    .write_all(format!("+OK\r\n-ERR\r\n-ERR\r\n$6\r\nlarder\r\n{pong}").as_bytes())
                    .expect("a client");
                // Until the client leaves.
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            }
        });
        let group = plain(tcp(port));
        let text = reason(group.get("k").await);
        assert_eq!(text, "source unavailable: LOADING Redis is loading the dataset in memory");
        group.until_up().await;
        group.leave(fake).await;
    });
}
#[test]
fn reads_owed_by_a_lost_connection_are_sent_once_more_and_writes_are_not() {
    run(async {
        let sets = Arc::new(AtomicUsize::new(0));
        let seen = sets.clone();
        let (group, fake) = faked(LIMITS, move |number, request| {
            let has = |text: &str| request.windows(text.len()).any(|part| part == text.as_bytes());
            if has("\r\nSET\r\n") {
                seen.fetch_add(1, Relaxed);
                Answer::Last(Vec::new())
            } else if number == 0 || has("\r\nhopeless\r\n") {
                Answer::Last(Vec::new())
            } else {
                Answer::Bytes(values(&[("$1\r\nv\r\n", -1)]))
            }
        });
        assert_eq!(group.get("a").await, some("v"), "from the second connection");
        assert_eq!(group.cached("a"), Some(b"v".to_vec()));
        let put = group.put(b"a", "w".into(), None).await;
        assert_eq!(put, Err(SourceError::Lost("connection closed by the source".into())));
        assert_eq!(sets.load(Relaxed), 1);
        assert_eq!(group.cached("a"), None, "it may have been applied");
        let text = reason(group.get("hopeless").await);
        assert_eq!(text, "source unavailable: connection closed by the source");
        assert_eq!(group.get("a").await, some("v"));
        group.leave(fake).await;
    });
}

#[test]
fn nonsense_from_a_source_ends_the_connection() {
    run(async {
        for nonsense in [
            "HTTP/1.1 400 Bad Request\r\n\r\n",
            "+OK\r\n+QUEUED\r\n+OK\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\nvv\r\n:-1\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$-7\r\n:-1\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\nv\r\n+OK\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$9999999999999999999\r\n",
        ] {
            let (group, fake) = faked(LIMITS, move |number, _| match number {
                0 => Answer::Last(nonsense.as_bytes().to_vec()),
                _ => Answer::Bytes(values(&[("$1\r\nv\r\n", -1)])),
            });
            assert_eq!(group.get("k").await, some("v"), "{nonsense:?}");
            let error = group.health.last_error();
            assert_eq!(error.as_deref(), Some("the source's replies are not those of a Redis server"));
            group.leave(fake).await;
        }
    });
}

#[test]
fn counts_and_depths_without_bound_end_the_connection() {
    run(async {
        let deep = format!("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n{}", "*1\r\n".repeat(100_000));
        for lie in [
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*1152921504606846976\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n%1152921504606846976\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*-9\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*1152921504606846976\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n|1\r\n+a\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\nv\r\n:9223372036854775808\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\nv\r\n:\r\n",
            ">2\r\n+invalidate\r\n+OK\r\n",
            ">1152921504606846976\r\n",
            &deep,
        ] {
            let bytes = lie.as_bytes().to_vec();
            let (group, fake) = faked(LIMITS, move |number, _| match number {
                0 => Answer::Last(bytes.clone()),
                _ => Answer::Bytes(values(&[("$1\r\nv\r\n", -1)])),
            });
            let shown = &lie[..lie.len().min(80)];
            assert_eq!(group.get("k").await, some("v"), "{shown:?}");
            // Some are the start of a reply that could still come.
            let error = group.health.last_error().unwrap_or_default();
            let known = ["the source's replies are not those of a Redis server", "connection closed by the source"];
            assert!(known.contains(&&*error), "{shown:?}: {error}");
            group.leave(fake).await;
        }
    });
}

#[test]
fn replies_may_come_in_any_pieces() {
    run(async {
        let replies = [("$5\r\n\r\n$-1\r\n", 60_000), ("$0\r\n\r\n", -1), ("$-1\r\n", -2), ("-ERR x\r\n", -1)];
        let (group, fake) = faked(LIMITS, move |_, _| Answer::Trickle(values(&replies)));
        let answers = group.get_all(&["a", "b", "c", "d"]).await;
        let refused = Err(SourceError::Refused("ERR x".into()));
        assert_eq!(answers, [some("\r\n$-1"), some(""), Ok(None), refused]);
        assert!(group.expiry("a").is_some());
        group.leave(fake).await;
    });
}
