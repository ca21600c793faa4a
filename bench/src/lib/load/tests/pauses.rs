//! Think times and the modelled delay.
use super::*;

/// Each connection is a user: after a reply nothing is sent until the think time is over.
#[test]
fn users_think_between_requests() {
    // When each connection's requests came.
    let arrivals = Arc::new(std::sync::Mutex::new(Vec::new()));
    let url = {
        let arrivals = arrivals.clone();
        server(move |stream| {
            let mut mine = Vec::new();
            answer(stream, b"$-1\r\n", |_| mine.push(Instant::now()));
            arrivals.lock().expect("no panic").push(mine);
        })
    };
    let (users, least) = (5, Duration::from_millis(20));
    let mut plan = wide(users, 1, plan(&url, "get"));
    plan.client.think_time = Some("20ms-40ms".parse().expect("a range"));
    plan.stop = RunEnd::After(Duration::from_millis(500));
    let outcome = load(&plan);
    let counts = &outcome.total.counts;
    assert!((1..=users as u64 * (500 / 20 + 1)).contains(&counts.requests), "{counts:?}");
    assert_eq!(counts.all_errors(), 0);
    let deadline = Instant::now() + Duration::from_secs(5);
    while arrivals.lock().expect("no panic").len() < users {
        assert!(Instant::now() < deadline, "the connections do not end");
        thread::yield_now();
    }
    for mine in arrivals.lock().expect("no panic").iter() {
        for pair in mine.windows(2) {
            assert!(pair[1] - pair[0] >= least, "{:?} between two requests of a user", pair[1] - pair[0]);
        }
    }
}

#[test]
fn users_end_by_count_and_when_the_server_is_gone() {
    let url = server(|stream| answer(stream, b"$-1\r\n", |_| {}));
    let mut plan = wide(3, 1, plan(&url, "get"));
    plan.client.think_time = Some("1ms".parse().expect("a time"));
    plan.stop = RunEnd::Requests(100);
    assert_eq!(load(&plan).total.counts.requests, 100);
    let mut gone = impatient(100, LoadPlan { stop: RunEnd::Requests(u64::MAX), ..super::plan(&dying(20), "set") });
    gone.client.think_time = plan.client.think_time;
    assert!(load(&gone).total.counts.requests <= 20);
    for (rate, pipeline) in [(Some(10.0), 1), (None, 2)] {
        let mut wrong = wide(1, pipeline, LoadPlan { rate, ..plan.clone() });
        wrong.client.think_time = plan.client.think_time;
        let error = run(&wrong, &mut |_| {}).expect_err("that cannot be").to_string();
        assert!(error.contains("--think-time"), "{error}");
    }
}

/// In batches the next request comes when the whole pipeline is answered; else with each reply.
#[test]
fn batches_wait_for_all_replies() {
    const PIPELINE: usize = 4;
    const REQUESTS: usize = 10 * PIPELINE;
    for batches in [true, false] {
        let early = Arc::new(AtomicU64::new(0));
        let url = {
            let early = early.clone();
            server(move |mut stream| {
                let mut input = [0; 65536];
                let mut seen = 0;
                let mut read = |stream: &mut TcpStream, patience: Option<Duration>| {
                    stream.set_read_timeout(patience).expect("a timeout");
                    let count = stream.read(&mut input).unwrap_or(0);
                    let requests = input[..count].iter().filter(|&&byte| byte == b'*').count();
                    seen += requests;
                    (requests, seen == REQUESTS)
                };
                let (mut open, mut is_last) = read(&mut stream, None);
                while open > 0 {
                    while open < PIPELINE && !is_last {
                        let more = read(&mut stream, None);
                        (open, is_last) = (open + more.0, more.1);
                    }
                    let _ = stream.write_all(&b"$-1\r\n".repeat(open - 1));
                    let (more, _) = read(&mut stream, Some(Duration::from_millis(20)));
                    early.fetch_add(more as u64, Ordering::SeqCst);
                    let _ = stream.write_all(&b"$-1\r\n".repeat(1 + more));
                    (open, is_last) = read(&mut stream, None);
                }
            })
        };
        let mut plan = wide(1, PIPELINE, plan(&url, "get"));
        plan.client.batches = batches;
        plan.stop = RunEnd::Requests(REQUESTS as u64);
        let counts = load(&plan).total.counts;
        assert_eq!((counts.requests, counts.all_errors()), (REQUESTS as u64, 0));
        assert_eq!(early.load(Ordering::SeqCst) == 0, batches);
    }
    let mut wrong = plan("redis://127.0.0.1:1", "get");
    (wrong.rate, wrong.client.batches) = (Some(10.0), true);
    let error = run(&wrong, &mut |_| {}).expect_err("that cannot be").to_string();
    assert!(error.contains("--batches"), "{error}");
}

/// The modelled round trip is in latency and service time of each request, and a closed loop sends
/// so much less; requests stay in order.
#[test]
fn a_delay_is_part_of_the_service_time() {
    let seen = Arc::new(AtomicU64::new(0));
    let url = {
        let seen = seen.clone();
        server(move |stream| {
            answer(stream, b"$-1\r\n", |requests| {
                seen.fetch_add(requests as u64, Ordering::Relaxed);
            })
        })
    };
    const DELAY: u64 = 20_000_000;
    for (rate, pipeline) in [(None, 1), (None, 4), (Some(200.0), 16)] {
        let mut plan = wide(2, pipeline, LoadPlan { rate, stop: RunEnd::Requests(60), ..plan(&url, "get") });
        plan.client.delay = Duration::from_nanos(DELAY);
        let before = seen.load(Ordering::Relaxed);
        let outcome = load(&plan);
        let counts = &outcome.total.counts;
        assert_eq!((counts.requests, counts.all_errors()), (60, 0), "{counts:?}");
        assert_eq!(seen.load(Ordering::Relaxed) - before, 60);
        // A histogram rounds down by up to a thousandth.
        for times in [&outcome.total.latency, &outcome.total.service] {
            assert!(times.min() >= DELAY - DELAY / 500, "{} ns", times.min());
        }
        if rate.is_none() {
            let rounds = 60 / (2 * pipeline as u32);
            assert!(outcome.duration >= Duration::from_nanos(DELAY) * rounds, "{:?}", outcome.duration);
        }
    }
}

/// A request that the delay still holds back cannot have a reply.
#[test]
fn a_reply_to_a_held_request_is_none() {
    let early = server(|mut stream| {
        let _ = stream.write_all(b"$-1\r\n");
        let _ = stream.read(&mut [0; 64]);
    });
    let mut plan = LoadPlan { stop: RunEnd::Requests(2), ..plan(&early, "get") };
    plan.client.delay = Duration::from_millis(200);
    let outcome = load(&plan);
    assert!(outcome.total.counts.errors[ErrorKind::Protocol as usize] > 0, "{:?}", outcome.total.counts);
}
