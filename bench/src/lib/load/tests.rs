//! The generator against servers that misbehave in known ways, and against real ones.
mod pauses;

use super::*;
use crate::lib::servers;
use measure::{ErrorKind, LoadOutcome, Slice};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use values::Sizes;

/// A server of the Redis protocol whose connections each run `serve`; lives as long as the test.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    format!("redis://{address}")
}

/// Reads requests and answers each; `before` is called with the number of requests before they are
/// answered. Ends with the connection.
fn answer(mut stream: TcpStream, reply: &[u8], mut before: impl FnMut(usize)) {
    let mut input = [0; 65536];
    while let Ok(count @ 1..) = stream.read(&mut input) {
        // Each request is one array, and neither keys nor values have an asterisk.
        let requests = input[..count].iter().filter(|&&byte| byte == b'*').count();
        before(requests);
        if stream.write_all(&reply.repeat(requests)).is_err() {
            break;
        }
    }
}

fn plan(url: &str, op: &str) -> LoadPlan {
    let options =
        ["--url", url, "--op", op, "--keys", "100", "--dist", "uniform", "--requests", "1000", "--timeout", "5s"];
    LoadPlan { slice: Duration::from_millis(100), ..super::plan(options).expect(op) }
}

/// The same plan with so many connections and requests in flight on each.
fn wide(connections: usize, pipeline: usize, plan: LoadPlan) -> LoadPlan {
    LoadPlan { client: GeneratorOptions { connections, pipeline, ..plan.client.clone() }, ..plan }
}

/// The same plan with another time limit.
fn impatient(timeout: u64, plan: LoadPlan) -> LoadPlan {
    LoadPlan { client: GeneratorOptions { timeout: Duration::from_millis(timeout), ..plan.client.clone() }, ..plan }
}

fn load(plan: &LoadPlan) -> LoadOutcome {
    run(plan, &mut |_| {}).expect("runs")
}

fn errors(outcome: &LoadOutcome, kind: ErrorKind) -> u64 {
    outcome.total.counts.errors[kind as usize]
}

fn ms(histogram: &hdrhistogram::Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e6
}

#[test]
fn a_stall_is_in_the_percentiles() {
    // 200 ms of silence within 2 s at 1000 a second: a tenth of the requests wait, the n-th of them
    // (200 - n) ms.
    let slept = Arc::new(AtomicU64::new(0));
    let sleeps = slept.clone();
    let url = server(move |stream| {
        let start = Instant::now();
        let sleeps = sleeps.clone();
        answer(stream, b"+OK\r\n", move |_| {
            if sleeps.load(Ordering::SeqCst) == 0 && start.elapsed() > Duration::from_millis(1000) {
                let begun = Instant::now();
                thread::sleep(Duration::from_millis(200));
                sleeps.store(begun.elapsed().as_nanos() as u64, Ordering::SeqCst);
            }
        });
    });
    let stop = RunEnd::After(Duration::from_secs(2));
    let outcome = load(&LoadPlan { rate: Some(1000.0), stop, ..plan(&url, "get") });
    let Slice { latency, service, counts, .. } = &outcome.total;
    assert_eq!(counts.requests, 2000);
    // What the machine itself stood still, as generator and server noticed it, comes on top.
    let own = ms(&outcome.own.lag, 1.0) + slept.load(Ordering::SeqCst) as f64 / 1e6 - 200.0;
    for (quantile, expected) in [(0.95, 100.0), (0.99, 180.0), (0.999, 198.0)] {
        let found = ms(latency, quantile);
        let range = expected - 25.0..expected + 25.0 + own;
        assert!(range.contains(&found), "p{quantile}: {found} ms, {expected} and {own} expected");
    }
    assert!(ms(latency, 0.85) < 25.0 + own, "p85: {}, {own}", ms(latency, 0.85));
    // Seen from the write, one request alone was slow.
    assert!(ms(service, 1.0) > 190.0 && ms(service, 0.99) < 25.0 + own, "{}, {own}", ms(service, 0.99));
    let throughput = 2000.0 / (2.04 + own / 1e3)..1020.0;
    assert!(throughput.contains(&outcome.throughput()), "{}, {own}", outcome.throughput());
}

#[test]
fn a_slow_server_is_not_the_generators_fault() {
    let url = server(|stream| answer(stream, b"+OK\r\n", |_| thread::sleep(Duration::from_millis(10))));
    let stop = RunEnd::After(Duration::from_millis(600));
    let outcome = load(&LoadPlan { rate: Some(500.0), stop, ..plan(&url, "get") });
    // 300 were due; at 10 ms each the last one is answered after 3 s. None is skipped.
    assert_eq!(outcome.total.counts.requests, 300);
    assert!(ms(&outcome.total.latency, 1.0) > 2000.0);
    assert!(ms(&outcome.phases.queue, 0.5) > 500.0);
    assert!(outcome.own.busy < 0.9, "busy {}", outcome.own.busy);
    // Each waits 8 ms longer for the server than the one before: were that its fault, the 15th would be
    // late by 120. The machine may have made many of them late, not nearly all.
    let late = outcome.own.lag.value_at_quantile(0.05);
    assert!(late < 1_000_000, "the generator is late by {late} ns by itself");
}

#[test]
fn a_rate_beyond_the_generators_powers_is_its_fault() {
    let url = server(|stream| answer(stream, b"+OK\r\n", |_| {}));
    let stop = RunEnd::After(Duration::from_millis(300));
    let outcome = load(&wide(1, 1000, impatient(200, LoadPlan { rate: Some(3e7), stop, ..plan(&url, "get") })));
    assert!(outcome.own.saturated(), "busy {}", outcome.own.busy);
    // All that were due are accounted for.
    let counts = &outcome.total.counts;
    assert_eq!(counts.requests + counts.all_errors(), 9_000_000);
}

#[test]
fn every_thread_does_its_share() {
    let seen = Arc::new(AtomicU64::new(0));
    let counter = seen.clone();
    let url = server(move |stream| {
        let seen = counter.clone();
        answer(stream, b"+OK\r\n", move |count| {
            seen.fetch_add(count as u64, Ordering::SeqCst);
        });
    });
    for rate in [None, Some(2000.0)] {
        seen.store(0, Ordering::SeqCst);
        let (warm_up, mut slices) = (Duration::from_millis(100), 0);
        let mut plan = wide(7, 4, LoadPlan { rate, warm_up, ..plan(&url, "set") });
        plan.client.threads = 3;
        let outcome = run(&plan, &mut |slice| slices += slice.counts.requests).expect("runs");
        assert_eq!((outcome.total.counts.requests, slices), (1000, 1000));
        assert_eq!(outcome.phases.connect.len(), 7);
        let all = seen.load(Ordering::SeqCst);
        match rate {
            Some(_) => assert_eq!(all, 1200, "the warm-up's are sent, too"),
            None => assert!(all > 1000),
        }
    }
}

#[test]
fn errors_have_their_kinds() {
    let refused = server(|stream| answer(stream, b"-ERR no\r\n", |_| {}));
    let outcome = load(&plan(&refused, "get"));
    assert_eq!((errors(&outcome, ErrorKind::Server), outcome.total.counts.requests), (1000, 1000));

    let garbage = server(|stream| answer(stream, b"what?\r\n", |_| {}));
    let outcome = load(&LoadPlan { stop: RunEnd::Requests(10), ..plan(&garbage, "get") });
    assert_eq!((errors(&outcome, ErrorKind::Protocol), outcome.total.counts.requests), (10, 0));

    let closing = server(|mut stream| {
        let _ = stream.read(&mut [0; 100]);
    });
    let outcome = load(&LoadPlan { stop: RunEnd::Requests(10), ..plan(&closing, "get") });
    assert_eq!((errors(&outcome, ErrorKind::Closed), outcome.total.counts.requests), (10, 0));

    let silent = server(|mut stream| while let Ok(1..) = stream.read(&mut [0; 100]) {});
    let outcome = load(&impatient(100, LoadPlan { stop: RunEnd::Requests(3), ..plan(&silent, "get") }));
    assert_eq!((errors(&outcome, ErrorKind::Timeout), outcome.total.counts.requests), (3, 0));
    assert!(outcome.total.latency.min() > 90_000_000);
}

#[test]
fn nobody_there_is_an_error_of_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let error = run(&impatient(100, plan(&url, "get")), &mut |_| {}).expect_err("refused");
    assert!(error.to_string().contains("0 of 1 connections"), "{error}");
    assert!(error.to_string().contains("refused"), "it says why: {error}");
}

/// A server that is answering until it is gone: its address.
fn dying(replies: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connects");
        drop(listener);
        for _ in 0..replies {
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"+OK\r\n");
        }
    });
    url
}

#[test]
fn a_run_by_count_ends_when_the_server_is_gone() {
    let outcome = load(&impatient(100, LoadPlan { stop: RunEnd::Requests(u64::MAX), ..plan(&dying(20), "set") }));
    assert_eq!(outcome.total.counts.requests, 20);
    assert!(errors(&outcome, ErrorKind::Connect) > 0);
}

#[test]
fn an_interrupt_ends_a_run_and_keeps_its_result() {
    for rate in [None, Some(1000.0)] {
        let (url, stop) =
            (server(|stream| answer(stream, b"+OK\r\n", |_| {})), RunEnd::After(Duration::from_secs(3600)));
        let plan = LoadPlan { rate, stop, ..plan(&url, "set") };
        let outcome = run(&plan, &mut |_| plan.interrupt.set()).expect("a result");
        assert!(outcome.total.counts.requests > 50, "{:?}", outcome.total.counts);
        assert_eq!(outcome.total.counts.all_errors(), 0);
        assert!(outcome.duration < Duration::from_secs(5), "{:?}", outcome.duration);
    }
}

#[test]
fn a_server_that_comes_back_is_found() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connects");
        let _ = stream.read(&mut [0; 100]);
        drop((stream, listener));
        thread::sleep(Duration::from_millis(100));
        let again = TcpListener::bind(address).expect("the port is free again");
        answer(again.accept().expect("connects").0, b"+OK\r\n", |_| {});
    });
    let outcome = load(&LoadPlan { rate: Some(1000.0), ..plan(&format!("redis://{address}"), "get") });
    assert_eq!(errors(&outcome, ErrorKind::Closed), 1);
    assert!(errors(&outcome, ErrorKind::Connect) > 0);
    assert_eq!(outcome.total.counts.requests, 999);
    assert!(ms(&outcome.total.latency, 1.0) > 80.0, "those that waited count from their time");
}

#[test]
fn http_connections_may_end_after_each_answer() {
    let url = server(|mut stream| {
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
    });
    let outcome = load(&LoadPlan { stop: RunEnd::Requests(50), ..plan(&url.replace("redis", "http"), "get") });
    let counts = &outcome.total.counts;
    assert_eq!((counts.requests, counts.found, counts.all_errors()), (50, 50, 0));
}

#[test]
fn redis_is_spoken() {
    let redis = servers::redis(None).expect("redis-server starts");
    let url = format!("redis://{}/1", redis.address);
    let stored = load(&LoadPlan { stop: RunEnd::Requests(100), ..plan_of_all_keys(&url) });
    assert_eq!(stored.total.counts.all_errors(), 0);
    for (op, found, missing) in
        [("get", 300, 0), ("mget:7", 2100, 0), ("rmw", 300, 0), ("GET {key}", 300, 0), ("GET no:{key}", 0, 300)]
    {
        let outcome = load(&wide(3, 5, LoadPlan { stop: RunEnd::Requests(300), ..plan(&url, op) }));
        let counts = &outcome.total.counts;
        assert_eq!((counts.requests, counts.all_errors()), (300, 0), "{op}");
        assert_eq!((counts.found, counts.missing), if op == "rmw" { (0, 0) } else { (found, missing) }, "{op}");
    }
    for letter in ["a", "b", "c", "d", "e", "f"] {
        let counts = load(&wide(1, 8, plan(&url, &format!("ycsb:{letter}")))).total.counts;
        assert_eq!((counts.requests, counts.all_errors()), (1000, 0), "{letter}");
    }
    // Larger than any socket buffer: written and read in pieces.
    let large = LoadPlan { sizes: Sizes::Fixed(20 << 20), stop: RunEnd::Requests(6), ..plan(&url, "mix:set=1,get=1") };
    let counts = load(&wide(1, 2, large)).total.counts;
    assert_eq!((counts.requests, counts.all_errors()), (6, 0));
    let wrong = impatient(200, plan(&format!("redis://:wrong@{}", redis.address), "get"));
    let refused = run(&wrong, &mut |_| {}).expect_err("no password is set").to_string();
    assert!(refused.contains("AUTH") && !refused.contains("wrong"), "{refused}");
}

fn plan_of_all_keys(url: &str) -> LoadPlan {
    let mut plan = plan(url, "set");
    plan.keys.distribution = keys::KeyDistribution::Sequential;
    plan
}

#[test]
fn memcached_is_spoken() {
    let memcached = servers::start("memcached", servers::Start::default()).expect("memcached starts");
    let url = format!("memcache://{}", memcached.address);
    load(&LoadPlan { stop: RunEnd::Requests(100), ..plan_of_all_keys(&url) });
    for (op, found) in [("get", 300), ("mget:7", 2100), ("mix:set=1,del=1", 0)] {
        let outcome = load(&wide(1, 5, LoadPlan { stop: RunEnd::Requests(300), ..plan(&url, op) }));
        let counts = &outcome.total.counts;
        assert_eq!((counts.requests, counts.all_errors(), counts.found), (300, 0, found), "{op}");
    }
}

#[test]
fn nginx_is_spoken() {
    let files = [("root/key:1".to_owned(), b"one".to_vec())];
    let nginx = servers::start("nginx-static", servers::Start { files: &files, ..Default::default() });
    let nginx = nginx.expect("nginx starts");
    let url = |path| format!("http://{}{path}", nginx.address);
    let mut one = plan(&url("/{key}"), "get");
    one.keys.count = 2;
    let counts = load(&wide(3, 1, one)).total.counts;
    assert_eq!((counts.requests, counts.all_errors(), counts.found + counts.missing), (1000, 0, 1000));
    assert!(counts.found > 300 && counts.missing > 300);
    let counts = load(&plan(&url("/"), "POST /key:1 {\"a\":1}")).total.counts;
    assert_eq!(counts.errors[ErrorKind::Http4xx as usize], 1000, "nginx allows no POST to a file");
}

#[test]
fn a_trace_is_played_in_its_time_by_all_threads() {
    use crate::lib::trace::{OperationKind, TraceFile, TraceFormat, TraceWriter, TracedOperation};
    let redis = servers::redis(None).expect("redis-server starts");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut writer = TraceWriter::new(Vec::new()).expect("a vector");
    // Each key is written, read, removed and read again, a millisecond apart.
    let kinds = [OperationKind::Set(100), OperationKind::Get, OperationKind::Del, OperationKind::Get];
    for (step, (key, kind)) in (0..50).flat_map(|key| kinds.map(|kind| (key, kind))).enumerate() {
        writer.write(TracedOperation { at: 1000 * step as u64, kind, key }).expect("a vector");
    }
    std::fs::write(file.path(), writer.finish().expect("a vector")).expect("written");
    let trace = TraceFile::new(file.path(), Some(TraceFormat::Ops)).expect("a trace");
    let played = Some(Played { trace, speed: 0.5, rate: 500.0 });
    let mut plan = wide(2, 4, plan(&format!("redis://{}", redis.address), "get"));
    plan = LoadPlan { played, mix: Played::mix(), ..plan };
    plan.client.threads = 2;
    let outcome = load(&plan);
    let counts = &outcome.total.counts;
    assert_eq!((counts.requests, counts.found, counts.missing, counts.all_errors()), (200, 50, 50, 0));
    // 199 ms at half the speed.
    let took = outcome.duration.as_secs_f64();
    assert!((0.398..2.0).contains(&took), "{took} s");
}
