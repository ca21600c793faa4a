//! Every rule of the gate, at every door: a request that comes in by any way is limited, delayed,
//! recorded and logged like all others. A new rule is a row of [`RULES`], a new way in a row of
//! [`WAYS`].
use larder_base::{
    lifecycle::{
        faults::{Fault, FaultKind, FaultPlace},
        pause::Paused,
    },
    special::{Special, set_bit},
    telemetry::Logs,
};
use larder_config::{LogFormat, LogLevel, Settings};
use larder_core::{
    app::{App, Bound, Worker},
    gate::Door,
};
use larder_engine::Write;
use larder_http::ListenerRole;
use larder_redis::CommandAccess;
use larder_store::clock;
use std::{
    io,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// The ways in: the door, and a request that the fast path or the general path of the door answers.
const WAYS: [(Door, &str); 31] = [
    (Door::Redis, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
    // Not in the form of a plain GET.
    (Door::Redis, "GET k\r\n"),
    (Door::Redis, "*2\r\n$4\r\nMGET\r\n$1\r\nk\r\n"),
    (Door::Redis, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"),
    (Door::Redis, "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n"),
    (Door::Memcached, "get k\r\n"),
    (Door::Memcached, "gat 0 k\r\n"),
    (Door::Memcached, "set k 0 0 1\r\nv\r\n"),
    (Door::Memcached, "add k 0 0 1\r\nv\r\n"),
    (Door::Memcached, "incr k 1\r\n"),
    (Door::Memcached, "delete k\r\n"),
    (Door::Memcached, "mg k v\r\n"),
    (Door::Memcached, "mg k v N30\r\n"),
    (Door::Memcached, "ms k 1\r\nv\r\n"),
    (Door::Memcached, "ma k\r\n"),
    (Door::Http, "GET /v1/kv/k HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "GET /v1/kv/k HTTP/1.1\r\nhost: x\r\nif-none-match: \"x\"\r\n\r\n"),
    (Door::Http, "GET /data/k HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "GET /lookup?key=k HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "GET /?key=k HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "GET /v0/entity?id=k HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "PUT /v1/kv/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nv"),
    (Door::Http, "GET /redis/get/k HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "POST /redis HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n[\"GET\",\"k\"]"),
    // Hits, which need no session.
    (Door::Http, "GET /redis/get/hit HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "POST /redis/get/hit HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"),
    (Door::Http, "POST /redis HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n[\"GET\",\"hit\"]"),
    (Door::Http, "DELETE /v1/kv/k HTTP/1.1\r\nhost: x\r\n\r\n"),
    (Door::Http, "POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n{\"keys\":[\"k\"]}"),
    (Door::Http, "GET /cache/v1/item HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n{\"key\":\"k\"}"),
    (
        Door::Http,
        "POST /cache/v1/item HTTP/1.1\r\nhost: x\r\ncontent-length: 32\r\n\r\n{\"key\":\"k\",\"value\":1,\"ttl\":1000}",
    ),
];

/// Redis over HTTP passes both doors.
fn passes(way: &(Door, &str), door: Door) -> bool {
    way.0 == door || door == Door::Redis && way.1.contains(" /redis")
}

/// A rule: its name, the settings that it needs, how it is set, and what must be seen of it.
struct Rule {
    name: &'static str,
    args: &'static [&'static str],
    /// The doors that it is for.
    doors: &'static [Door],
    set: fn(&Server),
    shows: fn(&Server, &[Answer]) -> bool,
}

const ALL: &[Door] = &[Door::Redis, Door::Memcached, Door::Http];
const DELAY: Duration = Duration::from_millis(20);

const RULES: &[Rule] = &[
    Rule { name: "none", args: &[], doors: ALL, set: |_| {}, shows: |_, answers| !refused(&answers[1]) },
    Rule { name: "user", args: &["--password=p"], doors: ALL, set: |_| {}, shows: |_, answers| refused(&answers[0]) },
    Rule {
        name: "throttle",
        args: &["--throttle=1/s"],
        doors: ALL,
        set: |_| {},
        shows: |server, answers| {
            let counters = &server.worker.counters;
            let counted =
                counters.http_throttled.get() + counters.redis_throttled.get() + counters.memcached_throttled.get();
            !refused(&answers[0]) && refused(&answers[1]) && counted == 1
        },
    },
    Rule {
        name: "overload",
        args: &[],
        doors: ALL,
        set: |server| set_bit(&server.worker.special, Special::Overload as u32, true),
        shows: |server, answers| {
            let counters = &server.worker.counters;
            let counted =
                counters.http_overloaded.get() + counters.redis_overloaded.get() + counters.memcached_overloaded.get();
            refused(&answers[0]) && refused(&answers[1]) && counted == 2
        },
    },
    Rule {
        name: "faults",
        args: &["--allow-faults"],
        doors: ALL,
        set: |server| {
            for place in [FaultPlace::Http, FaultPlace::Redis, FaultPlace::Memcached] {
                let (kind, until) = (FaultKind::Delay(Duration::from_millis(1)), clock::now() + 60_000);
                server.worker.app.gate.faults.order(Fault {
                    id: 0,
                    place,
                    group: None,
                    kind,
                    share: 1.0,
                    until,
                    done: 0,
                });
            }
        },
        shows: |server, answers| {
            let is_of_redis_over_http = answers[0].bytes.windows(10).any(|part| part == b"{\"result\":");
            let doors = if is_of_redis_over_http { 2 } else { 1 };
            server.worker.app.gate.faults.done().map(|(_, done)| done).sum::<u64>() == 2 * doors
        },
    },
    Rule {
        name: "recorder",
        args: &[],
        doors: ALL,
        set: |server| drop(server.worker.app.telemetry.recorder.take(1.0)),
        // The number of lost records, and one for each request.
        shows: |server, _| server.worker.app.telemetry.recorder.take(1.0).len() == 8 + 2 * 24,
    },
    Rule {
        name: "pause",
        args: &[],
        doors: &[Door::Redis],
        set: |server| {
            server.worker.app.gate.pause.begin(clock::now() + DELAY.as_millis() as u64, Paused::All);
        },
        shows: |server, answers| answers[0].at >= server.begun + DELAY.as_millis() as u64,
    },
    Rule {
        name: "slow log",
        args: &["--slowlog-log-slower-than=0ms"],
        doors: &[Door::Redis, Door::Memcached],
        set: |_| {},
        shows: |server, _| server.worker.app.telemetry.slow.len() == 2,
    },
    Rule {
        name: "access log",
        args: &["--access-log=100%"],
        doors: &[Door::Http],
        set: |_| {},
        shows: |server, _| server.logged() == 2,
    },
    Rule {
        name: "debug log",
        args: &["--log-level=debug"],
        doors: &[Door::Http],
        set: |server| server.worker.app.telemetry.logs.set_level(LogLevel::Debug),
        shows: |server, _| server.logged() == 2,
    },
];

struct Answer {
    bytes: Vec<u8>,
    at: u64,
}

fn refused(answer: &Answer) -> bool {
    let text = String::from_utf8_lossy(&answer.bytes);
    ["-", "SERVER_ERROR", "CLIENT_ERROR", "HTTP/1.1 401", "HTTP/1.1 429", "HTTP/1.1 503"]
        .iter()
        .any(|start| text.starts_with(start))
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Server {
    worker: Rc<Worker>,
    lines: Lines,
    begun: u64,
}

impl Server {
    fn new(args: &[&str], logs: Logs, lines: Lines) -> Server {
        let args = [&["--threads=1", "--max-memory=32MiB"], args].concat();
        let app = App::new(Settings::from_args(&args).unwrap(), logs, Bound::default(), 100, larder_redis::catalog());
        let worker = Rc::new(Worker::new(0, Arc::new(app.unwrap_or_else(|error| panic!("{args:?}: {error}")))));
        let cache = &worker.groups.default().cache;
        cache.tier().set(cache.key(b"hit"), Write::new(b"v"), clock::now()).unwrap();
        Server { worker, lines, begun: clock::now() }
    }

    /// Requests in the log.
    fn logged(&self) -> usize {
        let lines = self.lines.0.lock().unwrap();
        String::from_utf8_lossy(&lines).lines().filter(|line| line.contains("larder::access")).count()
    }

    /// Sends a request on a connection of its own, which then ends.
    async fn ask(&self, door: Door, request: &str) -> Answer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        let ends = (peer.into(), peer.into());
        let worker = self.worker.clone();
        let serving = match door {
            Door::Http => tokio::task::spawn_local(larder_http::serve_connection(
                worker,
                Rc::default(),
                stream,
                ends,
                ListenerRole::Native,
            )),
            Door::Memcached => {
                tokio::task::spawn_local(larder_memcached::serve(worker, Rc::default(), Arc::default(), stream, ends))
            }
            Door::Redis => {
                let access = CommandAccess::of_listeners(&worker.app.settings)[0].clone();
                tokio::task::spawn_local(larder_redis::connection::serve(worker, Rc::default(), stream, ends, access))
            }
        };
        client.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = vec![0; 4096];
        let len = client.read(&mut bytes).await.unwrap();
        bytes.truncate(len);
        let at = clock::now();
        drop(client);
        serving.await.unwrap();
        Answer { bytes, at }
    }
}

#[test]
fn every_rule_holds_at_every_door() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    let mut missed = Vec::new();
    for rule in RULES {
        for way @ (door, request) in &WAYS {
            if !rule.doors.iter().any(|door| passes(way, *door)) {
                continue;
            }
            let lines = Lines::default();
            let writer = lines.clone();
            let (dispatch, logs) = Logs::to(move || writer.clone(), LogFormat::Text, LogLevel::Info);
            let _logged = tracing::dispatcher::set_default(&dispatch);
            runtime.block_on(async {
                let server = Server::new(rule.args, logs, lines);
                tokio::task::spawn_local({
                    let app = server.worker.app.clone();
                    async move { app.ticks.run().await }
                });
                (rule.set)(&server);
                let both = async { [server.ask(*door, request).await, server.ask(*door, request).await] };
                let answers = timeout(Duration::from_secs(30), both).await.expect("it answers");
                if !(rule.shows)(&server, &answers) {
                    let text = String::from_utf8_lossy(&answers[1].bytes).into_owned();
                    missed.push(format!("{}: {request:?} is answered {text:?}", rule.name));
                }
            });
        }
    }
    assert!(missed.is_empty(), "rules that do not hold:\n{}", missed.join("\n"));
}
