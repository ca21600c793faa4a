//! Sources that suffer: circuit, limit, fair shares and retries with real parts.
use super::{
    common::RedisServer,
    fixture::{Fixture, LIMITS, open, reason, redis_with, run, some},
    scripted_origin::{Asked, ScriptedOrigin, Step, answer},
};
use larder_config::SourceUrl;
use larder_core::read::Group;
use larder_engine::{Cache, Config};
use larder_source::{BreakerPolicy, BreakerState, FillPolicy, ServerLoads, SourceLimits, SourceSetup};
use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

const BREAKER: BreakerPolicy = BreakerPolicy { share: 75, window: Duration::from_secs(10) };

fn circuit(group: &Fixture) -> BreakerState {
    let now = group.health.admission_snapshot().circuit_now();
    BreakerState::ALL.into_iter().find(|state| Some(state.name()) == now).expect("a breaker")
}
fn keys(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}
async fn get_many(group: &Fixture, keys: &[String]) -> Vec<Result<Option<Vec<u8>>, larder_source::SourceError>> {
    group.get_all(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await
}
/// Reads keys that were never read, until one is answered.
async fn until_answered(group: &Fixture) {
    group.until("an answer", async || group.get(format!("{:?}", Instant::now())).await.is_ok()).await;
}

/// An origin that answers after a delay (milliseconds) that the test changes, and how many requests
/// it works on at most.
struct SlowOrigin {
    url: SourceUrl,
    delay: Arc<AtomicU64>,
    /// Now, and the most so far.
    working: Arc<(AtomicUsize, AtomicUsize)>,
    origin: ScriptedOrigin,
}
/// A delay that stands for no answer at all.
const NEVER: u64 = u64::MAX;
impl SlowOrigin {
    fn start(path: &str) -> SlowOrigin {
        let (delay, working) = (Arc::new(AtomicU64::new(0)), Arc::<(AtomicUsize, AtomicUsize)>::default());
        let (its_delay, its_working) = (delay.clone(), working.clone());
        let origin = ScriptedOrigin::start(move |_: &Asked| {
            let now = its_working.0.fetch_add(1, SeqCst) + 1;
            its_working.1.fetch_max(now, SeqCst);
            let delay = its_delay.load(SeqCst);
            if delay == NEVER {
                its_working.0.fetch_sub(1, SeqCst);
                return vec![Step::Stall];
            }
            // Here, not as a step: the request is worked on until it is answered.
            std::thread::sleep(Duration::from_millis(delay));
            its_working.0.fetch_sub(1, SeqCst);
            answer("200 OK", "", "v")
        });
        let url = format!("http://127.0.0.1:{}/{path}{{key}}", origin.port).parse().expect("a URL");
        SlowOrigin { url, delay, working, origin }
    }
}

#[test]
fn a_source_that_fails_opens_the_circuit_and_one_that_refuses_does_not() {
    let server = RedisServer::start();
    run(async {
        let limits = SourceLimits { breaker: Some(BREAKER), ..LIMITS };
        let demo = "demo:?fail=1".parse().expect("a URL");
        let group = open(&demo, limits, FillPolicy::default());
        for number in 0..10 {
            assert!(reason(group.get(number.to_string()).await).contains("on purpose"));
        }
        assert_eq!(circuit(&group), BreakerState::Open);
        let said = reason(group.get("k").await);
        let expected = "source unavailable: circuit open: 10 of 10 fetches failed within 10s (source-breaker); \
                        the last error: demo: a fault on purpose (fail=1)";
        assert_eq!(said, expected);
        // At once: neither a probe nor a fetch is under way for it.
        let counts = group.health.admission_snapshot();
        assert_eq!((counts.opened, counts.rejected_circuit, group.health.errors()), (1, 1, 11));

        // Some that fail do not open it: 10 of 13 at random, of a fifth, is once in 60,000 runs.
        let group = open(&"demo:?fail=0.2".parse().expect("a URL"), limits, FillPolicy::default());
        get_many(&group, &keys("k", 400)).await;
        assert_eq!(circuit(&group), BreakerState::Closed);

        let group = redis_with(&server, limits, FillPolicy::default());
        for number in 0..20 {
            server.command(&["LPUSH", &number.to_string(), "x"]);
            assert!(reason(group.get(number.to_string()).await).starts_with("WRONGTYPE"));
        }
        assert_eq!(circuit(&group), BreakerState::Closed);
        assert_eq!(group.health.admission_snapshot().opened, 0);
    });
}

#[test]
fn a_redis_that_is_gone_or_frozen_is_used_again_as_soon_as_it_is_connected() {
    let mut server = RedisServer::start();
    run(async {
        let limits = SourceLimits { breaker: Some(BREAKER), timeout: Duration::from_secs(1), ..LIMITS };
        let group = redis_with(&server, limits, FillPolicy::default());
        group.until_up().await;
        server.stop();
        let answers = get_many(&group, &keys("frozen", 20)).await;
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(circuit(&group), BreakerState::Open);
        server.cont();
        // Without a fetch: the reconnect alone opens the way for probes.
        group.until("the circuit half-open", async || circuit(&group) == BreakerState::HalfOpen).await;
        let answers = get_many(&group, &keys("thawed", 200)).await;
        assert!(answers.iter().all(|answer| *answer == Ok(None)), "those behind the probes wait: {answers:?}");
        assert_eq!(circuit(&group), BreakerState::Closed);

        server.kill();
        group.until_down().await;
        let answers = get_many(&group, &keys("dead", 1000)).await;
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(circuit(&group), BreakerState::Open);
        server.restart();
        group.until_up().await;
        assert_eq!(group.get("alive").await, Ok(None), "the first fetch after the reconnect");
    });
}

#[test]
fn an_origin_that_hangs_is_probed_by_few_and_then_asked_by_all() {
    run(async {
        let slow = SlowOrigin::start("");
        let timeout = Duration::from_secs(1);
        let limits = SourceLimits { breaker: Some(BREAKER), timeout, max_in_flight: 100, ..LIMITS };
        let group = open(&slow.url, limits, FillPolicy::default());
        assert_eq!(group.get("k").await, some("v"));
        slow.delay.store(NEVER, SeqCst);
        get_many(&group, &keys("hung", 100)).await;
        assert_eq!(circuit(&group), BreakerState::Open);
        // For three seconds a client asks every few milliseconds. Only probes reach the origin: three for
        // each pause.
        let (before, begun) = (slow.origin.asked(), Instant::now());
        let mut asked = 0;
        while begun.elapsed() < Duration::from_secs(3) {
            asked += 1;
            group.get(format!("while open {asked}")).await.expect_err("a source that hangs");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let probes = slow.origin.asked() - before;
        assert!((1..=12).contains(&probes), "{probes} probes of {asked}");
        slow.delay.store(0, SeqCst);
        group
            .until("the circuit closed", async || {
                until_answered(&group).await;
                circuit(&group) == BreakerState::Closed
            })
            .await;
        assert!(group.health.admission_snapshot().limit < 100, "a slow start");
        let answers = get_many(&group, &keys("herd", 60)).await;
        assert!(answers.iter().all(|answer| *answer == some("v")), "they wait for their turn: {answers:?}");
    });
}

#[test]
fn a_source_that_becomes_slow_gets_fewer_fetches_at_a_time() {
    run(async {
        let slow = SlowOrigin::start("");
        slow.delay.store(5, SeqCst);
        for adaptive in [true, false] {
            let limits = SourceLimits { adaptive, timeout: Duration::from_secs(10), ..LIMITS };
            let group = open(&slow.url, limits, FillPolicy::default());
            // Three windows that are calm.
            for round in 0..30 {
                get_many(&group, &keys(&format!("calm {round} "), 10)).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            slow.delay.store(300, SeqCst);
            for round in 0..4 {
                get_many(&group, &keys(&format!("slow {round} "), 100)).await;
            }
            slow.working.1.store(0, SeqCst);
            let answers = get_many(&group, &keys("bounded ", 100)).await;
            let (most, counts) = (slow.working.1.load(SeqCst), group.health.admission_snapshot());
            let late = answers.iter().filter(|answer| answer.is_err()).count();
            if adaptive {
                assert!(most <= 50, "{most} at a time, {counts:?}");
                let limited = answers.iter().filter_map(|answer| answer.as_ref().err());
                limited.for_each(|error| assert!(error.to_string().contains("waited 250ms behind "), "{error}"));
                assert_eq!(counts.rejected_limit as usize, group.health.errors() as usize);
                slow.delay.store(5, SeqCst);
                let recovered = group.health.admission_snapshot().limit;
                group
                    .until("a higher limit", async || {
                        get_many(&group, &keys(&format!("{:?}", Instant::now()), 10)).await;
                        group.health.admission_snapshot().limit > 2 * recovered.max(most as u64)
                    })
                    .await;
            } else {
                assert_eq!((most, late), (100, 0), "{counts:?}");
            }
        }
    });
}

#[test]
fn groups_of_one_server_share_its_slots() {
    run(async {
        let slow = SlowOrigin::start("");
        slow.delay.store(20, SeqCst);
        let servers = ServerLoads::default();
        let limits = SourceLimits { max_in_flight: 200, adaptive: true, breaker: Some(BREAKER), ..LIMITS };
        let SourceUrl::Http(url) = &slow.url else { panic!("no URL") };
        let group = |path: &str| {
            let url = SourceUrl::Http(larder_config::OriginUrl { before_key: format!("/{path}/"), ..url.clone() });
            let setup = SourceSetup::sharing(&url, limits, &larder_base::buffers::Buffers::unbounded(), &servers);
            let setup = setup.expect("a source");
            let cache = Cache::new(Config { max_memory: 64 << 20, ..Config::default() });
            let group = Group {
                number: 0,
                name: path.into(),
                cache,
                source: setup.open(None, false),
                policy: Arc::default(),
                writes: Arc::default(),
                peers: None,
                events: None,
            };
            Fixture { group: Rc::new(group), health: setup.health().clone() }
        };
        let (greedy, modest) = (group("greedy"), group("modest"));
        let flooding = std::cell::Cell::new(true);
        let flood = async {
            let mut refused = 0;
            for round in 0.. {
                if !flooding.get() {
                    break;
                }
                let keys = keys(&format!("{round} "), 400);
                let (one, two) = tokio::join!(get_many(&greedy, &keys[..200]), get_many(&greedy, &keys[200..]));
                refused += one.iter().chain(&two).filter(|answer| answer.is_err()).count();
            }
            refused
        };
        let few = async {
            for number in 0..30 {
                tokio::task::yield_now().await;
                assert_eq!(modest.get(number.to_string()).await, some("v"), "fetch {number} of the modest group");
            }
            flooding.set(false);
        };
        let (refused, ()) = tokio::join!(flood, few);
        assert!(refused > 0, "the server has more to do than it can");
        assert!(slow.working.1.load(SeqCst) <= 200, "both share one bound");
        assert_eq!(greedy.health.admission_snapshot().limit, modest.health.admission_snapshot().limit);
    });
}
