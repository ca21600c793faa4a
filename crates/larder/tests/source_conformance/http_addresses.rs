//! An HTTP origin with several addresses, with deadlines of its own, and one that asks for a rest.
use super::{
    Fixture, LIMITS, Port,
    http_origin::{at, refused, scripted, unavailable},
    open, run,
    scripted_origin::{ScriptedOrigin, Step, answer},
    some,
};
use larder_config::{OriginOptions, OriginUrl, SourceUrl};
use larder_source::{FillPolicy, FreshnessTable, KeyPolicy, PrefixTable, SourceLimits};
use larder_store::clock;
use std::{
    cell::Cell,
    net::TcpListener,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

fn url(text: &str, options: OriginOptions) -> SourceUrl {
    let Ok(SourceUrl::Http(url)) = text.parse() else { panic!("{text}") };
    SourceUrl::Http(OriginUrl { options, ..url })
}
/// An origin at these ports of this machine.
fn at_all(ports: &[u16]) -> Fixture {
    let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let url = url(&format!("http://{}/v/{{key}}", addresses.join(",")), OriginOptions::default());
    open(&url, LIMITS, FillPolicy::default())
}
fn named(name: &'static str) -> ScriptedOrigin {
    ScriptedOrigin::start(move |_| answer("200 OK", "", name))
}
async fn get(group: &Fixture, key: &str) -> String {
    let value = group.get(key).await.expect("an answer").expect("a value");
    String::from_utf8(value).expect("text")
}

#[test]
fn equals_share_the_requests_and_a_slow_one_gets_fewer() {
    run(async {
        let (a, b) = (named("a"), named("b"));
        let group = at_all(&[a.port, b.port]);
        for number in 0..20 {
            get(&group, &number.to_string()).await;
        }
        assert_eq!((a.asked(), b.asked()), (10, 10));
        for origin in [&a, &b] {
            let head = origin.requests.lock().expect("no panic")[0].to_ascii_lowercase();
            assert!(head.contains(&format!("host: 127.0.0.1:{}\r\n", origin.port)), "{head}");
        }
    });
    run(async {
        let fast = named("fast");
        let slow = ScriptedOrigin::start(|_| vec![Step::Stall]);
        let group = at_all(&[slow.port, fast.port]);
        let keys: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        let stuck = group.get("stuck");
        let others = async {
            group.until("the first to be asked", async || slow.asked() + fast.asked() == 1).await;
            for key in &keys {
                tokio::select! {
                    biased;
                    _ = group.get(key) => {}
                    () = tokio::time::sleep(Duration::from_millis(20)) => {}
                }
            }
        };
        tokio::select! {
            () = others => {}
            _ = async { let _ = stuck.await; std::future::pending::<()>().await } => {}
        }
        assert!(slow.asked() <= 2 && fast.asked() >= 39, "{} and {}", slow.asked(), fast.asked());
    });
}

#[test]
fn an_address_that_is_down_is_out_until_it_is_reached_again() {
    let held = Port::free();
    let port = held.number;
    run(async move {
        let other = named("other");
        let group = at_all(&[port, other.port]);
        // No client sees that one of them is down.
        for number in 0..20 {
            assert_eq!(get(&group, &number.to_string()).await, "other");
        }
        assert!(group.health.is_up() && group.health.errors() == 0);
        let said = group.health.last_error().expect("the one that is down");
        assert!(said.starts_with(&format!("http://127.0.0.1:{port}: cannot connect: ")), "{said}");
        drop(held);
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port");
        let back = ScriptedOrigin::on(listener, |_| answer("200 OK", "", "back"));
        let number = Cell::new(20);
        group
            .until("the probe to find it", async || {
                number.update(|number| number + 1);
                get(&group, &number.get().to_string()).await == "back"
            })
            .await;
        let before = (back.asked(), other.asked());
        for number in 1000..1010 {
            get(&group, &number.to_string()).await;
        }
        assert_eq!((back.asked() - before.0, other.asked() - before.1), (5, 5));
        assert_eq!(group.health.reconnects(), 0, "the source was never down");
    });
}

#[test]
fn all_addresses_are_tried_before_a_read_fails() {
    let held = [Port::free(), Port::free(), Port::free()];
    let ports: Vec<u16> = held.iter().map(|held| held.number).collect();
    run(async move {
        let group = at_all(&ports);
        let said = unavailable(group.get("k").await);
        assert!(said.contains("cannot connect: "), "{said}");
        group.until_down().await;
        let last = named("last");
        let group = at_all(&[ports[0], ports[1], last.port]);
        assert_eq!(get(&group, "k").await, "last");
    });
}

#[test]
fn connecting_has_a_deadline_of_its_own() {
    // The kernel accepts the connection; no server speaks TLS on it.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    run(async move {
        let options = OriginOptions { connect_timeout: Some(Duration::from_millis(50)), ..OriginOptions::default() };
        let group = open(
            &url(&format!("https://127.0.0.1:{port}/{{key}}#insecure=true"), options),
            LIMITS,
            FillPolicy::default(),
        );
        let begun = Instant::now();
        let said = unavailable(group.get("k").await);
        assert!(said.ends_with("cannot connect: timed out after 50ms (half of source-timeout)"), "{said}");
        assert!(begun.elapsed() < LIMITS.timeout / 2);
        let limits = SourceLimits { timeout: Duration::from_millis(40), ..LIMITS };
        let options = OriginOptions { connect_timeout: Some(Duration::from_secs(9)), ..OriginOptions::default() };
        let group = open(
            &url(&format!("https://127.0.0.1:{port}/{{key}}#insecure=true"), options),
            limits,
            FillPolicy::default(),
        );
        let said = unavailable(group.get("k").await);
        assert!(said.contains("timed out after 40ms (source-timeout)"), "{said}");
    });
}

#[test]
fn a_body_may_take_the_rest_of_the_time() {
    run(async {
        let origin = ScriptedOrigin::start(|asked| match &asked.target[3..] {
            "slow-body" => vec![
                Step::Send(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsl".to_vec()),
                Step::Wait(Duration::from_millis(300)),
                Step::Send(b"ow".to_vec()),
            ],
            _ => answer("200 OK", "", "v"),
        });
        let options = OriginOptions::default();
        let group =
            open(&url(&format!("http://127.0.0.1:{}/v/{{key}}", origin.port), options), LIMITS, FillPolicy::default());
        assert_eq!(group.get("slow-body").await, some("slow"));
        assert!(group.health.is_up());
    });
}

#[test]
fn retry_after_of_a_429_is_for_the_key() {
    let tried = AtomicBool::new(false);
    run(async {
        let (group, origin) = scripted(LIMITS, move |asked| match &asked.target[3..] {
            "busy" => answer("429 Too Many Requests", "retry-after: 3600\r\n", "later"),
            "no-word" => answer("429 Too Many Requests", "", "later"),
            "soon" if !tried.swap(true, Relaxed) => answer("429 Too Many Requests", "retry-after: 1\r\n", "later"),
            _ => answer("200 OK", "", "v"),
        });
        let said = unavailable(group.get("busy").await);
        assert!(said.ends_with("answered 429 Too Many Requests"), "{said}");
        for _ in 0..3 {
            let said = unavailable(group.get("busy").await);
            assert!(said.contains("asked not to be asked again for ") && said.ends_with("s (Retry-After)"), "{said}");
        }
        assert_eq!(origin.asked(), 1);
        assert_eq!(group.get("other").await, some("v"), "other keys are asked for");
        for _ in 0..2 {
            unavailable(group.get("no-word").await);
        }
        assert_eq!(origin.asked(), 4);
        // Its rest is over after a second.
        let begun = clock::now();
        unavailable(group.get("soon").await);
        group.until("the rest to end", async || group.get("soon").await.is_ok()).await;
        assert!(clock::now() - begun >= 1000);
    });
}
#[test]
fn retry_after_of_a_503_is_for_the_address() {
    run(async {
        let (group, origin) = scripted(LIMITS, |_| answer("503 Service Unavailable", "retry-after: 60\r\n", "later"));
        unavailable(group.get("a").await);
        for key in ["a", "b", "c"] {
            let said = unavailable(group.get(key).await);
            assert!(said.contains("asked not to be asked again for "), "{said}");
        }
        assert_eq!(origin.asked(), 1);
        assert!(group.source.ping().await.is_ok(), "it is there");
        let (resting, working) = (origin, named("working"));
        let group = at_all(&[resting.port, working.port]);
        let mut failed = 0;
        for number in 0..10 {
            failed += usize::from(group.get(number.to_string()).await.is_err());
        }
        assert_eq!((failed, resting.asked(), working.asked()), (1, 2, 9));
    });
    // A rest that is wrong is no rest.
    run(async {
        let (group, origin) = scripted(LIMITS, |_| answer("503 Service Unavailable", "retry-after: soon\r\n", ""));
        for _ in 0..2 {
            unavailable(group.get("a").await);
        }
        assert_eq!(origin.asked(), 2);
        let said = refused(at(origin.port, LIMITS).get("..").await);
        assert!(said.contains("would be a step within the path"), "{said}");
    });
}

#[test]
fn a_key_prefix_has_a_deadline_of_its_own() {
    let silent = ScriptedOrigin::start(|_| vec![Step::Stall]);
    let policy = |source_timeout| KeyPolicy { source_timeout, ..KeyPolicy::default() };
    let prefixes = || {
        PrefixTable::new([("quick:", policy(Some(60))), ("slow:", policy(Some(400)))].map(|(p, to)| (p.as_bytes(), to)))
    };
    let limits = SourceLimits { timeout: Duration::from_millis(200), ..LIMITS };
    run(async {
        let slow_demo = "demo:?delay=300ms".parse().expect("a URL");
        let api = url(&format!("http://127.0.0.1:{}/v/{{key}}", silent.port), OriginOptions::default());
        for (url, answers) in [(api, false), (slow_demo, true)] {
            let group = open(
                &url,
                limits,
                FillPolicy::from(FreshnessTable { prefixes: prefixes(), ..FreshnessTable::default() }),
            );
            for (key, limit) in [("quick:a", 60), ("a", 200), ("slow:a", 400)] {
                let begun = Instant::now();
                let answer = group.get(key).await;
                assert!(begun.elapsed() >= Duration::from_millis(limit.min(300)), "{key}");
                if answers && key == "slow:a" {
                    assert!(answer.is_ok_and(|value| value.is_some()));
                } else {
                    let said = unavailable(answer);
                    assert!(said.ends_with(&format!("timed out after {limit}ms (source-timeout)")), "{key}: {said}");
                }
            }
        }
    });
}
