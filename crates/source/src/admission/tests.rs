//! The pure parts with a simulated clock.
use super::{
    circuit_breaker::{BreakerState, CircuitBreaker, MIN_FAILURES, PAUSE, PROBE_PATIENCE, PROBES},
    concurrency_limit::{ConcurrencyLimit, FLOOR_PATIENCE, LatencyWindow, MIN_LIMIT, WINDOW},
    retry_budget::RetryBudget,
    server_load::{GroupLoad, ServerLoad, allowance},
    shared_breaker::SharedBreaker,
};
use crate::source_limits::BreakerPolicy;
use BreakerState::{Closed, HalfOpen, Open};
use proptest::prelude::*;
use std::time::{Duration, Instant};

const POLICY: BreakerPolicy = BreakerPolicy { share: 75, window: Duration::from_secs(10) };
fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One step of the breaker's table.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many milliseconds pass.
    Pass(u64),
    /// Fetches that begin now end now.
    Answered(u64),
    Failed(u64),
    /// A fetch that began so many milliseconds ago ends.
    OldFailed(u64),
    /// A fetch asks; whether it may go.
    Ask(bool),
    Connected,
}
use Step::{Answered, Ask, Connected, Failed, OldFailed, Pass};

fn run(breaker: &mut CircuitBreaker, now: &mut Duration, step: Step) {
    match step {
        Pass(millis) => *now += ms(millis),
        Answered(count) => (0..count).for_each(|_| breaker.ended(*now, *now, false)),
        Failed(count) => (0..count).for_each(|_| breaker.ended(*now, *now, true)),
        OldFailed(millis) => breaker.ended(*now, now.saturating_sub(ms(millis)), true),
        Ask(may) => assert_eq!(breaker.admit(*now, 1), usize::from(may), "{step:?} {breaker:?}"),
        Connected => breaker.connected(*now),
    }
}

#[test]
fn the_breaker_as_a_table() {
    let pause = PAUSE.0.as_millis() as u64;
    let rows: &[(&str, &[Step], BreakerState)] = &[
        ("few failures say nothing", &[Failed(MIN_FAILURES - 1)], Closed),
        ("enough of them open it", &[Failed(MIN_FAILURES), Ask(false)], Open),
        ("less than the share does not", &[Answered(4), Failed(10), Answered(4), Failed(10), Ask(true)], Closed),
        ("the share opens it", &[Answered(4), Failed(12)], Open),
        ("what is older than the window is forgotten", &[Answered(100), Pass(11_000), Failed(10)], Open),
        ("what is younger is not", &[Answered(100), Pass(8_000), Failed(10)], Closed),
        (
            "failures that come slowly do not open it",
            &[Failed(6), Pass(6_000), Failed(3), Pass(6_000), Failed(6)],
            Closed,
        ),
        (
            "nothing but failures for a tenth of the window opens it",
            &[Answered(1_000), Failed(5), Pass(1_000), Failed(5)],
            Open,
        ),
        ("too few of them do not", &[Answered(1_000), Failed(1), Pass(1_000), Failed(8)], Closed),
        ("nor does a burst", &[Answered(1_000), Failed(50), Pass(999), Failed(1)], Closed),
        (
            "an answer in between begins anew",
            &[Answered(1_000), Failed(9), Pass(1_000), Answered(1), Failed(9), Pass(999), Failed(1)],
            Closed,
        ),
        (
            "and so does a closed circuit",
            &[Failed(10), Connected, Ask(true), Answered(3), Answered(100), Failed(9), Pass(999), Failed(1)],
            Closed,
        ),
        ("it is not probed before the pause is over", &[Failed(10), Pass(pause - 1), Ask(false)], Open),
        ("then a few probes go", &[Failed(10), Pass(pause), Ask(true), Ask(true), Ask(true), Ask(false)], HalfOpen),
        ("a connection ends the pause", &[Failed(10), Connected, Ask(true)], HalfOpen),
        ("a connection changes nothing else", &[Connected, Ask(true)], Closed),
        ("all probes must be answered", &[Failed(10), Connected, Ask(true), Answered(2)], HalfOpen),
        ("then it closes", &[Failed(10), Connected, Ask(true), Answered(3), Ask(true)], Closed),
        ("with an empty window", &[Failed(10), Connected, Ask(true), Answered(3), Failed(9)], Closed),
        ("a failed probe opens it", &[Failed(10), Connected, Ask(true), Answered(2), Failed(1), Ask(false)], Open),
        (
            "the pause then doubles",
            &[Failed(10), Connected, Failed(1), Pass(2 * pause - 1), Ask(false), Pass(1), Ask(true)],
            HalfOpen,
        ),
        (
            "up to its longest",
            &[
                Failed(10),
                Connected,
                Failed(1),
                Connected,
                Failed(1),
                Connected,
                Failed(1),
                Connected,
                Failed(1),
                Pass(1_999),
                Ask(false),
                Pass(1),
                Ask(true),
            ],
            HalfOpen,
        ),
        (
            "a fetch from before the probes does not count",
            &[Failed(10), Pass(pause), Ask(true), OldFailed(100)],
            HalfOpen,
        ),
        (
            "probes that vanish are replaced",
            &[Failed(10), Connected, Ask(true), Ask(true), Ask(true), Ask(false), Pass(10_000), Ask(true)],
            HalfOpen,
        ),
    ];
    for (what, steps, expected) in rows {
        let (mut breaker, mut now) = (CircuitBreaker::new(POLICY), ms(1));
        steps.iter().for_each(|step| run(&mut breaker, &mut now, *step));
        assert_eq!(breaker.state(), *expected, "{what}: {breaker:?}");
    }
    assert_eq!(PROBE_PATIENCE, ms(10_000));
}

#[test]
fn probes_that_were_not_sent_are_available_again() {
    let mut breaker = CircuitBreaker::new(POLICY);
    run(&mut breaker, &mut ms(1), Failed(10));
    breaker.connected(ms(2));
    assert_eq!(breaker.admit(ms(2), 100), PROBES as usize);
    breaker.give_back(2, ms(2));
    assert_eq!(breaker.admit(ms(2), 100), 2);
    breaker.give_back(1, ms(1));
    assert_eq!(breaker.admit(ms(2), 100), 0, "from before the probes");
    breaker.give_back(100, ms(2));
    assert_eq!(breaker.admit(ms(2), 100), PROBES as usize);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u64..3_000).prop_map(Pass),
        4 => (1u64..20).prop_map(Answered),
        4 => (1u64..20).prop_map(Failed),
        1 => (0u64..3_000).prop_map(OldFailed),
        1 => Just(Connected),
    ];
    prop::collection::vec(step, 1..200)
}

proptest! {
    /// Whatever happened before: a source that answers gets fetches again within the longest pause, and soon all of them. And while it is
    /// half-open, at most `PROBES` fetches go.
    #[test]
    fn a_breaker_always_recovers(steps in steps()) {
        let (mut breaker, mut now) = (CircuitBreaker::new(POLICY), ms(1));
        for step in steps {
            run(&mut breaker, &mut now, step);
            let before = breaker.state();
            let admitted = breaker.admit(now, 1000);
            match (before, breaker.state()) {
                (Closed, Closed) => prop_assert_eq!(admitted, 1000),
                (_, Open) => prop_assert_eq!(admitted, 0),
                (_, HalfOpen) => prop_assert!(admitted <= PROBES as usize),
                changed => prop_assert!(false, "{:?}", changed),
            }
            breaker.give_back(admitted, now);
        }
        now += PAUSE.1;
        for _ in 0..PROBES {
            prop_assert!(breaker.admit(now, 1) == 1);
            breaker.ended(now, now, false);
        }
        prop_assert_eq!(breaker.state(), Closed);
    }

    /// The breaker that cores share comes to the same states as the pure one, though it hands over answers only when a bucket ends.
    #[test]
    fn the_shared_breaker_is_the_same_machine(steps in steps()) {
        let (mut pure, shared, mut now) = (CircuitBreaker::new(POLICY), SharedBreaker::new(POLICY), ms(1));
        for step in steps {
            run(&mut pure, &mut now, step);
            match step {
                // Those of one read are handed over together.
                Answered(count) => _ = shared.ended(count as usize, now, now, false),
                Failed(count) => (0..count).for_each(|_| _ = shared.ended(1, now, now, true)),
                OldFailed(millis) => _ = shared.ended(1, now, now.saturating_sub(ms(millis)), true),
                Connected => _ = shared.connected(now),
                Pass(_) | Ask(_) => {}
            }
            prop_assert_eq!(shared.state(), pure.state());
            prop_assert_eq!(shared.admit(now, 1).0, pure.admit(now, 1));
        }
    }

    /// The limit keeps to its bounds, a slow window never raises it, and windows without a slow one never lower it.
    #[test]
    fn the_limit_keeps_to_its_bounds(
        max in 1usize..10_000,
        windows in prop::collection::vec((1u64..2_000, 0usize..10_000, prop::bool::weighted(0.02)), 1..400),
    ) {
        let mut limit = ConcurrencyLimit::new(max, true);
        let (mut now, mut best) = (ms(0), u64::MAX);
        for (mean, peak, outage) in windows {
            now += WINDOW;
            let before = limit.limit();
            limit.end_window(now, LatencyWindow { mean: ms(mean), peak });
            prop_assert!((MIN_LIMIT.min(max)..=max).contains(&limit.limit()));
            if mean <= best {
                prop_assert!(limit.limit() >= before);
            }
            best = best.min(mean);
            if outage {
                limit.restart();
                prop_assert_eq!(limit.limit(), MIN_LIMIT.min(max));
            }
        }
    }

    /// Against a server that works on so many fetches at a time, each for this long, and lets the others queue: the limit settles near what
    /// the server can do, and its work does not starve.
    /// Three times what it takes is above the bound, twice that and 20 ms: shorter fetches may queue without a limit.
    #[test]
    fn the_limit_finds_what_a_server_can_do(at_once in 20usize..200, took in 21u64..200, asked in 500usize..4_000) {
        let mut limit = ConcurrencyLimit::new(4_096, true);
        let mean = |in_flight: usize| ms(took * in_flight.div_ceil(at_once).max(1) as u64);
        let mut now = ms(0);
        let mut window = |limit: &mut ConcurrencyLimit, in_flight: usize| {
            now += WINDOW;
            limit.end_window(now, LatencyWindow { mean: mean(in_flight), peak: in_flight });
        };
        window(&mut limit, at_once);
        for round in 0..100 {
            let in_flight = asked.min(limit.limit());
            window(&mut limit, in_flight);
            if round > 20 {
                prop_assert!(limit.limit() <= 5 * at_once, "{} for {at_once}", limit.limit());
                prop_assert!(limit.limit() >= at_once.min(2 * MIN_LIMIT) / 2, "{} for {at_once}", limit.limit());
            }
        }
    }

    /// However retries and fetches come: no more than a tenth of the fetches, ten a second and the reserve.
    #[test]
    fn retries_keep_to_their_budget(steps in prop::collection::vec((0u64..200, 0u64..50, 0u64..50), 1..300)) {
        let mut budget = RetryBudget::new(400);
        let (mut now, mut fetches, mut retries) = (0, 0, 0);
        for (pass, more, asked) in steps {
            now += pass;
            fetches += more;
            retries += (0..asked).filter(|_| budget.take(ms(now), fetches)).count() as u64;
            prop_assert!(retries <= 100 + (10 * fetches + now) / 100);
        }
        // Time fills it again.
        prop_assert!(budget.take(ms(now + 100), fetches));
    }
}

#[test]
fn the_limit_as_a_table() {
    let window = |limit: &mut ConcurrencyLimit, at: u64, mean: u64, peak: usize| {
        limit.end_window(ms(at), LatencyWindow { mean: ms(mean), peak });
        limit.limit()
    };
    let mut limit = ConcurrencyLimit::new(4096, true);
    assert_eq!(limit.limit(), 4096);
    assert_eq!(window(&mut limit, 100, 30, 10), 4096, "the first latency is the best");
    assert_eq!(window(&mut limit, 200, 80, 400), 4096, "twice the best and the slack are normal");
    assert_eq!(window(&mut limit, 300, 100, 400), 320, "80 / 100 of what was in flight");
    assert_eq!(window(&mut limit, 400, 800, 320), 160, "at most a half at a time");
    assert_eq!(window(&mut limit, 500, 30, 160), 172, "then it grows by its square root");
    for at in 6..20 {
        window(&mut limit, 100 * at, 800, 160);
    }
    assert_eq!(limit.limit(), MIN_LIMIT);
    let floor = FLOOR_PATIENCE.as_millis() as u64;
    assert_eq!(window(&mut limit, 1_000 + floor, 800, 16), MIN_LIMIT);
    window(&mut limit, 2_000 + floor, 800, 16);
    assert!(window(&mut limit, 2_100 + floor, 800, 16) > MIN_LIMIT, "its own latency: fewer fetches did not help");
    limit.restart();
    let doubled: Vec<usize> = (0..9).map(|at| window(&mut limit, 20_000 + 100 * at, 30, 4096)).collect();
    assert_eq!(doubled, [32, 64, 128, 256, 512, 1024, 2048, 4096, 4096]);

    let mut fixed = ConcurrencyLimit::new(4096, false);
    window(&mut fixed, 100, 1, 10);
    assert_eq!(window(&mut fixed, 200, 10_000, 4096), 4096, "not adaptive");
}

#[test]
fn groups_of_a_server_have_fair_shares() {
    for (what, limit, mine, others, expected) in [
        ("no other group waits", 100, 80, &[(20, 0)][..], usize::MAX),
        ("another waits below its share", 100, 80, &[(20, 5)], 0),
        ("up to the own share", 100, 30, &[(20, 5)], 20),
        ("another waits above its share", 100, 40, &[(60, 5)], usize::MAX),
        ("idle groups are due nothing", 90, 20, &[(20, 5), (0, 0), (10, 0)], 10),
        ("each may have one", 2, 0, &[(0, 1), (1, 1), (1, 1)], 1),
    ] {
        assert_eq!(allowance(limit, mine, others), expected, "{what}");
    }
    let server = ServerLoad::new(10, true);
    let (greedy, modest) = (server.join(), server.join());
    let now = Instant::now();
    assert_eq!(server.begin(&greedy, 20), 10);
    assert_eq!(server.begin(&modest, 1), 0);
    server.wait(&modest, 4);
    server.wait(&greedy, 10);
    for _ in 0..4 {
        server.end(&greedy, 1, None, now);
        assert_eq!(server.begin(&greedy, 10), 0, "above its share while the other waits");
        assert_eq!(server.begin(&modest, 1), 1);
        server.waited(&modest, 1);
    }
    server.end(&greedy, 1, None, now);
    assert_eq!(server.begin(&greedy, 10), 1, "the other waits no longer");
    assert_eq!(server.room(&greedy), 0);
    assert_eq!(server.room(&modest), 1, "it has 4 of 5");
}

#[test]
fn a_limit_admits_up_to_its_bound_and_again_when_fetches_end() {
    let server = ServerLoad::new(4, true);
    let group: std::sync::Arc<GroupLoad> = server.join();
    assert_eq!(server.begin(&group, 3), 3);
    assert_eq!(server.begin(&group, 3), 1);
    assert_eq!(server.begin(&group, 1), 0);
    server.end(&group, 1, Some(ms(3)), Instant::now());
    assert_eq!(server.begin(&group, 2), 1);
    server.end(&group, 4, None, Instant::now());
    assert_eq!(server.room(&group), 4);
}
