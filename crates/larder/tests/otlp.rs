//! Metrics and traces by OTLP, from a real Larder with the feature `otlp` to a collector of this
//! test, which decodes them with the messages of OpenTelemetry's own crate.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, unreachable_pub)]
mod common;
#[expect(dead_code, unreachable_pub)]
#[path = "common/larder.rs"]
mod larder;

use common::wait_until;
use larder::Larder;
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse},
        trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
    },
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data, number_data_point},
    trace::v1::Span,
};
use prost::Message as _;
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU16, Ordering::Relaxed},
    },
    thread,
};

/// What has arrived.
#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    /// Those of the latest message.
    metrics: Vec<Metric>,
    resource: Vec<KeyValue>,
    /// Requests for traces, also those that were refused.
    asked: usize,
    /// What is answered to metrics and to traces.
    answers: [Vec<u8>; 2],
    /// The lines before the latest body, in lower case.
    head: Vec<String>,
}

/// A collector on a free port. It answers with `status`.
struct Collector {
    port: u16,
    received: Arc<Mutex<Received>>,
    status: Arc<AtomicU16>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (received, status) = (Arc::<Mutex<Received>>::default(), Arc::new(AtomicU16::new(200)));
        let (into, answer) = (received.clone(), status.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                take(&stream.unwrap(), &into, answer.load(Relaxed));
            }
        });
        Collector { port, received, status }
    }
    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/base/", self.port)
    }
    fn spans(&self) -> Vec<Span> {
        self.received.lock().unwrap().spans.clone()
    }
    /// The value of a metric with one point, or with this label.
    fn number(&self, name: &str, label: &str) -> Option<i64> {
        let received = self.received.lock().unwrap();
        let data = received.metrics.iter().find(|metric| metric.name == name)?.data.as_ref()?;
        let points = match data {
            Data::Sum(sum) => &sum.data_points,
            Data::Gauge(gauge) => &gauge.data_points,
            other => panic!("{other:?}"),
        };
        let has_label = |attributes: &[KeyValue]| attributes.iter().any(|pair| text(pair) == label);
        match points.iter().find(|point| label.is_empty() || has_label(&point.attributes))?.value? {
            number_data_point::Value::AsInt(number) => Some(number),
            number_data_point::Value::AsDouble(number) => panic!("{number}"),
        }
    }
}

/// One request of a connection, which is closed then.
fn take(stream: &TcpStream, into: &Mutex<Received>, status: u16) {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_lowercase());
    }
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    assert!(head.contains(&"content-type: application/x-protobuf".into()), "{head:?}");
    assert!(head.contains(&"content-encoding: gzip".into()), "{head:?}");
    let mut message = Vec::new();
    flate2::read::GzDecoder::new(&*body).read_to_end(&mut message).unwrap();
    let body = message;
    let is_taken = status == 200;
    let mut received = into.lock().unwrap();
    received.head.clone_from(&head);
    let answer = match head[0].as_str() {
        "post /base/v1/traces http/1.1" => {
            received.asked += 1;
            let message = ExportTraceServiceRequest::decode(&*body).unwrap();
            let spans = message.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
            received.spans.extend(spans.filter(|_| is_taken));
            received.answers[1].clone()
        }
        "post /base/v1/metrics http/1.1" => {
            let mut message = ExportMetricsServiceRequest::decode(&*body).unwrap();
            let mut of = message.resource_metrics.remove(0);
            received.resource = of.resource.take().unwrap().attributes;
            received.metrics = of.scope_metrics.remove(0).metrics;
            received.answers[0].clone()
        }
        other => panic!("{other}"),
    };
    drop(received);
    // A client that is killed does not read it.
    let pause = if status == 429 { "retry-after: 200\r\n" } else { "" };
    let length = answer.len();
    let head = format!("HTTP/1.1 {status} x\r\n{pause}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = (&*stream).write_all(&[head.as_bytes(), &answer].concat());
}

fn text(pair: &KeyValue) -> &str {
    match &pair.value.as_ref().unwrap().value {
        Some(Value::StringValue(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn attribute<'s>(span: &'s Span, name: &str) -> &'s Value {
    let found = span.attributes.iter().find(|pair| pair.key == name);
    found.unwrap_or_else(|| panic!("no {name}: {span:?}")).value.as_ref().unwrap().value.as_ref().unwrap()
}

fn said(span: &Span, name: &str) -> String {
    match attribute(span, name) {
        Value::StringValue(text) => text.clone(),
        other => panic!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn get(larder: &Larder, key: &str, flags: Option<&str>) -> u16 {
    let parent = flags.map(|flags| format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n")).unwrap_or_default();
    larder.http(&format!("GET /v1/kv/{key}?a=1 HTTP/1.1\r\nhost: x\r\n{parent}connection: close\r\n\r\n")).0
}

#[test]
fn traced_requests_have_spans_below_those_of_their_clients() {
    let collector = Collector::start();
    let larder = Larder::start(&["--source", "demo:", "--otlp-endpoint", &collector.url(), "--otlp-sample", "off"]);
    assert_eq!(get(&larder, "lamp", Some("01")), 200);
    assert_eq!(get(&larder, "lamp", Some("01")), 200, "a hit");
    // Its sender does not trace it; it has no sender; a Redis command has none either.
    assert_eq!(get(&larder, "other", Some("00")), 200);
    assert_eq!(get(&larder, "another", None), 200);
    larder.client().command(&["GET", "third"]);
    assert_eq!(get(&larder, "last", Some("01")), 200);
    wait_until("the spans", || {
        collector.spans().iter().any(|span| span.kind == 2 && said(span, "url.path").ends_with("last"))
    });
    let spans = collector.spans();
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "{spans:?}");
    let requests: Vec<&Span> = spans.iter().filter(|span| span.kind == 2).collect();
    let paths: Vec<String> = requests.iter().map(|span| said(span, "url.path")).collect();
    assert_eq!(paths, ["/v1/kv/lamp", "/v1/kv/lamp", "/v1/kv/last"]);
    let outcomes: Vec<String> = requests.iter().map(|span| said(span, "larder.outcome")).collect();
    assert_eq!(outcomes, ["origin", "hit", "origin"]);
    assert!(requests.iter().all(|span| hex(&span.parent_span_id) == PARENT && span.name == "GET"), "{requests:?}");
    assert_eq!(attribute(requests[0], "http.response.status_code"), &Value::IntValue(200));
    assert_eq!(said(requests[0], "client.address"), "127.0.0.1");
    let fetches: Vec<&Span> = spans.iter().filter(|span| span.kind == 3).collect();
    assert_eq!(fetches.len(), 2, "{spans:?}");
    let (request, fetch) = (requests[0], fetches[0]);
    assert_eq!((&fetch.parent_span_id, fetch.name.as_str()), (&request.span_id, "fetch"));
    assert!(request.start_time_unix_nano <= fetch.start_time_unix_nano, "{request:?} {fetch:?}");
    assert!(fetch.end_time_unix_nano <= request.end_time_unix_nano, "{request:?} {fetch:?}");
    assert!(fetch.start_time_unix_nano <= fetch.end_time_unix_nano, "{fetch:?}");
}

#[test]
fn a_share_of_all_is_traced_and_failures_show() {
    let collector = Collector::start();
    let args = ["--source", "redis://127.0.0.1:1", "--source-timeout", "200ms", "--otlp-sample", "100%"];
    let larder = Larder::start(&[&args[..], &["--otlp-endpoint", &collector.url()]].concat());
    // Until the collector takes them, spans are sent again.
    collector.status.store(503, Relaxed);
    assert_eq!(get(&larder, "lamp", None), 503);
    wait_until("a refusal", || collector.received.lock().unwrap().asked > 0);
    collector.status.store(200, Relaxed);
    larder.client().command(&["GET", "k"]).error();
    let is_of_http = |span: &Span| span.attributes.iter().any(|pair| pair.key == "http.request.method");
    let is_alone = |span: &Span| span.kind == 3 && span.parent_span_id.is_empty();
    wait_until("the spans", || collector.spans().iter().any(is_alone) && collector.spans().iter().any(is_of_http));
    let spans = collector.spans();
    let request = spans.iter().find(|span| is_of_http(span)).unwrap();
    assert!(request.parent_span_id.is_empty() && request.status.as_ref().is_some_and(|status| status.code == 2));
    let alone = spans.iter().find(|span| is_alone(span)).unwrap();
    assert_eq!((said(alone, "larder.key").as_str(), alone.name.as_str()), ("k", "fetch"));
    assert!(alone.status.as_ref().is_some_and(|status| status.code == 2), "{alone:?}");
    assert_ne!(alone.trace_id, request.trace_id);
}

#[test]
fn a_traced_redis_session_shows_its_commands() {
    let collector = Collector::start();
    let larder = Larder::start(&["--otlp-endpoint", &collector.url(), "--otlp-sample", "100%"]);
    let mut client = larder.client();
    client.command(&["SET", "k", "v"]);
    client.command(&["CONFIG", "GET", "maxmemory"]);
    let pipeline: [&[&str]; 4] = [&["GET", "k"], &["GET", "k"], &["GET", "absent"], &["MGET", "k", "k"]];
    pipeline.iter().for_each(|command| client.send(command).unwrap());
    pipeline.iter().for_each(|_| drop(client.read().unwrap()));
    client.command(&["ECHO", "last"]);
    wait_until("the spans", || collector.spans().iter().any(|span| span.name == "ECHO"));
    let spans = collector.spans();
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["SET", "CONFIG GET", "GET", "GET", "GET", "MGET", "ECHO"]);
    let mut before = 0;
    for span in &spans {
        assert_eq!((span.kind, span.parent_span_id.len(), &span.status), (2, 0, &None), "{span:?}");
        let names = ["db.system.name", "db.operation.name", "db.namespace", "client.address"];
        let said = names.map(|name| said(span, name));
        assert_eq!(said, ["redis", &*span.name, "0", "127.0.0.1"]);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
        // Two clocks are read one after the other, and the kernel may take the core in between.
        assert!(span.start_time_unix_nano + 500_000_000 > before, "they follow each other: {spans:?}");
        before = span.start_time_unix_nano;
    }
    let traces: std::collections::HashSet<&[u8]> = spans.iter().map(|span| &*span.trace_id).collect();
    assert_eq!(traces.len(), spans.len());
}

#[test]
fn metrics_are_those_of_the_admin_listener_and_the_last_ones_are_sent_at_the_end() {
    let collector = Collector::start();
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "bearer of-a-file\n").unwrap();
    let headers = [format!("--otlp-headers=Authorization: @{}", secret.display()), "--otlp-headers=x-a: b".into()];
    let mut larder = Larder::start(&["--otlp-endpoint", &collector.url(), &headers[0], &headers[1]]);
    wait_until("metrics", || {
        collector.number("larder_redis_commands", "ping").is_none() && collector.number("process_threads", "").is_some()
    });
    larder.client().command(&["PING"]);
    wait_until("the command", || collector.number("larder_redis_commands", "ping") == Some(1));
    let received = collector.received.lock().unwrap();
    for line in ["authorization: bearer of-a-file", "x-a: b"] {
        assert!(received.head.iter().any(|of| of == line), "{line}: {:?}", received.head);
    }
    let resource: Vec<&str> = received.resource.iter().map(text).collect();
    assert_eq!(resource[..2], ["larder", env!("CARGO_PKG_VERSION")]);
    assert_eq!(resource[2].len(), 16);
    let exposed = larder.get("/metrics");
    for metric in &received.metrics {
        let family = format!("# TYPE {}", metric.name);
        assert!(exposed.contains(&format!("{family} ")) || exposed.contains(&format!("{family}_total ")), "{family}");
    }
    assert!(received.metrics.iter().any(|metric| matches!(metric.data, Some(Data::Histogram(_)))));
    drop(received);
    // Too late for the interval.
    larder.client().command(&["ECHO", "x"]);
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    assert_eq!(collector.number("larder_redis_commands", "echo"), Some(1));
}

#[test]
fn without_a_collector_larder_serves_and_says_so() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}");
    let mut larder =
        Larder::start(&["--source", "demo:", "--otlp-endpoint", &url, "--otlp-sample", "100%", "--log-level=warn"]);
    for key in 0..20 {
        assert_eq!(get(&larder, &format!("lamp{key}"), None), 200);
    }
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    let log = larder.stderr();
    assert_eq!(log.matches("did not take a message").count(), 1, "{log}");
}

#[test]
fn a_collector_that_asks_for_a_pause_gets_it() {
    let collector = Collector::start();
    collector.status.store(429, Relaxed);
    let args = ["--otlp-endpoint", &collector.url(), "--log-level=warn"];
    let mut larder = Larder::start(&args);
    wait_until("the metrics", || !collector.received.lock().unwrap().metrics.is_empty());
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    let log = larder.stderr();
    assert!(log.contains("it answered 429 Too Many Requests and asks for a pause of 200 s"), "{log}");
}

#[test]
fn what_a_collector_leaves_out_is_logged_once_in_a_while() {
    let of_metrics = ExportMetricsPartialSuccess { rejected_data_points: 7, error_message: "too many".into() };
    let of_traces = ExportTracePartialSuccess { rejected_spans: 2, error_message: "too old".into() };
    let metrics = ExportMetricsServiceResponse { partial_success: Some(of_metrics) }.encode_to_vec();
    let traces = ExportTraceServiceResponse { partial_success: Some(of_traces) }.encode_to_vec();
    for (answers, rejected, reason) in [([metrics, Vec::new()], 7, "too many"), ([Vec::new(), traces], 2, "too old")] {
        let collector = Collector::start();
        collector.received.lock().unwrap().answers = answers;
        let (endpoint, sample) = (collector.url(), "--otlp-sample=100%");
        let mut larder = Larder::start(&["--source=demo:", "--otlp-endpoint", &endpoint, sample, "--log-level=warn"]);
        assert_eq!(get(&larder, "lamp", None), 200);
        wait_until("the first spans", || collector.received.lock().unwrap().asked == 1);
        assert_eq!(get(&larder, "chair", None), 200);
        wait_until("spans and metrics", || {
            let received = collector.received.lock().unwrap();
            received.asked > 1 && !received.metrics.is_empty()
        });
        larder.signal(Signal::TERM);
        assert!(larder.wait().0.success());
        let log = larder.stderr();
        assert_eq!(log.matches("objects to a part of a message").count(), 1, "{log}");
        assert!(log.contains(&format!("rejected={rejected} reason=\"{reason}\"")), "{log}");
        let mut paths: Vec<String> = collector.spans().iter().filter(|span| span.kind == 2).map(path).collect();
        paths.sort();
        assert_eq!(paths, ["/v1/kv/chair", "/v1/kv/lamp"], "nothing is sent again");
    }
}

fn path(span: &Span) -> String {
    said(span, "url.path")
}

#[test]
fn the_resource_is_as_opentelemetrys_variables_have_it() {
    let named = |env: &[(&str, &str)], args: &[&str]| {
        let collector = Collector::start();
        let url = collector.url();
        let _larder = Larder::with_env(env, &[&["--otlp-endpoint", url.as_str()], args].concat());
        wait_until("the metrics", || !collector.received.lock().unwrap().metrics.is_empty());
        let received = collector.received.lock().unwrap();
        let pairs = received.resource.iter().filter(|pair| pair.key != "service.instance.id");
        pairs.map(|pair| format!("{}={}", pair.key, text(pair))).collect::<Vec<String>>()
    };
    let version = concat!("service.version=", env!("CARGO_PKG_VERSION"));
    let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=of-all,deployment.environment.name=a%2Cb");
    let environment = "deployment.environment.name=a,b";
    assert_eq!(named(&[attributes], &[]), ["service.name=of-all", version, environment]);
    let name = ("OTEL_SERVICE_NAME", "cart cache");
    assert_eq!(named(&[attributes, name], &[]), ["service.name=cart cache", version, environment]);
    let flags = ["--otlp-resource-attributes=service.name=mine,service.version=9,x=y"];
    assert_eq!(named(&[attributes, name], &flags), ["service.name=mine", "service.version=9", "x=y"]);
    // A variable for all programs of a pod must not stop this one.
    let wrong = ("OTEL_RESOURCE_ATTRIBUTES", "x");
    assert_eq!(named(&[wrong], &[]), ["service.name=larder", version]);
}
