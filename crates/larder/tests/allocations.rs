//! A hit allocates nothing, under a counting allocator: over the Redis protocol the connection's
//! processing without its socket, over HTTP a whole connection.
//!
//! What commands leave allocated is counted as well (`left_behind`).
//!
//! A binary of its own, because of its allocator, which counts for each thread by itself.
#![expect(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[expect(dead_code, unreachable_pub)]
mod common;
#[path = "allocations/left_behind.rs"]
mod left_behind;

use larder_base::telemetry::Logs;
use larder_config::Settings;
use larder_core::{
    app::{App, Bound, Worker},
    clients::Client,
};
use larder_redis::{
    CommandAccess, Flow,
    connection::{BufferPool, ClientConnection, Protocol as _},
};

use larder_store::clock;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    rc::Rc,
    sync::Arc,
    task::Waker,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// On a busy machine a hit may take long, and an entry of the slow log has its arguments.
const NO_SLOW_LOG: &str = "--slowlog-log-slower-than=off";

/// Counts the calling thread's allocations, growth included.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
    /// Allocated and not freed, and the most that was since this was set.
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn note_live(change: isize) {
    LIVE.set(LIVE.get() + change);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// Safety: everything is passed on to the system's allocator unchanged; counting allocates nothing
// (a const thread-local without a destructor).
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        note_live(layout.size().cast_signed());
        // Safety: the caller's promise is the one that is asked for.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note_live(-layout.size().cast_signed());
        // Safety: as above.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        BYTES.set(BYTES.get() + size);
        note_live(size.cast_signed() - layout.size().cast_signed());
        // Safety: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn command(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len());
    for arg in args {
        bytes += &format!("${}\r\n{arg}\r\n", arg.len());
    }
    bytes.into_bytes()
}

/// Takes `input` in, processes it and forgets the replies, as if they had been sent; says how long
/// they were.
fn exchange(conn: &mut ClientConnection, worker: &Worker, pool: &BufferPool, input: &[u8]) -> usize {
    conn.input.feed(input, pool);
    let step = conn.process(worker, pool, clock::now());
    assert_eq!(step, Flow::Input { more: 1 });
    assert!(conn.input.unread().is_empty());
    conn.input.rest(pool);
    let replies = conn.out.len();
    conn.out.clear();
    replies
}

#[test]
fn a_redis_hit_allocates_nothing() {
    let settings = Settings::from_args(&["--threads", "1", "--max-memory", "64MiB", NO_SLOW_LOG]).unwrap();
    let app = Arc::new(App::new(settings, Logs::default(), Bound::default(), 10, larder_redis::catalog()).unwrap());
    let worker = Worker::new(0, app);
    let pool = BufferPool::default();
    let address = || ([127, 0, 0, 1], 1).into();
    let client = Arc::new(Client::new(1, address(), address(), 0, clock::now(), Waker::noop().clone()));
    let mut conn = ClientConnection::new(&worker, client, CommandAccess::of_listeners(&worker.app.settings)[0].clone());

    let value = "v".repeat(64);
    let mut setup = command(&["SET", "large", &"x".repeat(512 << 10)]);
    for i in 0..100 {
        setup.extend(command(&["SET", &format!("key:{i}"), &value]));
    }
    exchange(&mut conn, &worker, &pool, &setup);

    let one = command(&["GET", "key:7"]);
    let pipeline: Vec<u8> = (0..100).flat_map(|i| command(&["GET", &format!("key:{i}")])).collect();
    let mget = command(&["MGET", "key:0", "key:1", "key:2", "key:3", "key:4", "key:5", "key:6", "key:7"]);
    let misses = command(&["GET", "none"]);
    let large = command(&["GET", "large"]);
    let cases = [
        ("GET", &one, 64 + 7),
        ("100 GETs in one pipeline", &pipeline, 100 * (64 + 7)),
        ("MGET of eight keys", &mget, 4 + 8 * (64 + 7)),
        ("GET of an absent key, no source", &misses, 5),
        ("GET of a large value", &large, (512 << 10) + 11),
    ];
    // Buffers reach their size the first time.
    for (_, input, _) in &cases {
        exchange(&mut conn, &worker, &pool, input);
    }
    for (what, input, length) in cases {
        let before = ALLOCATIONS.get();
        for _ in 0..1000 {
            assert_eq!(exchange(&mut conn, &worker, &pool, input), length, "{what}");
        }
        assert_eq!(ALLOCATIONS.get() - before, 0, "allocations in 1000 times: {what}");
    }
    // The counter counts.
    let before = ALLOCATIONS.get();
    exchange(&mut conn, &worker, &pool, &command(&["ECHO", &value]));
    assert!(ALLOCATIONS.get() > before, "building a command allocates");
}

/// Whole replies that are kept, small and large, one after the other and in a pipeline.
#[test]
fn a_kept_reply_allocates_nothing() {
    let redis = common::RedisServer::start();
    let large = "x".repeat(100 << 10);
    for command in [&["HSET", "h", "f", "v"][..], &["HSET", "large", "f", &large], &["RPUSH", "l", "a", "b"]] {
        redis.command(command);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(async {
        let args = ["--threads", "1", "--max-memory", "64MiB", NO_SLOW_LOG, "--source", &redis.url()];
        let app = Arc::new(
            App::new(
                Settings::from_args(&args).unwrap(),
                Logs::default(),
                Bound::default(),
                10,
                larder_redis::catalog(),
            )
            .unwrap(),
        );
        let worker = Worker::new(0, app);
        worker.groups.default().read(b"ready", clock::now()).await.expect("it is connected");
        worker.groups.default().source.as_redis().unwrap().commands().await.expect("it shows its commands");
        let pool = BufferPool::default();
        let address = || ([127, 0, 0, 1], 1).into();
        let client = Arc::new(Client::new(1, address(), address(), 0, clock::now(), Waker::noop().clone()));
        let mut conn =
            ClientConnection::new(&worker, client, CommandAccess::of_listeners(&worker.app.settings)[0].clone());
        let one = command(&["HGET", "h", "f"]);
        let cases = [
            ("HGET", one.clone(), 7),
            ("HGETALL", command(&["HGETALL", "h"]), 18),
            ("LRANGE", command(&["LRANGE", "l", "0", "-1"]), 18),
            ("100 HGETs in one pipeline", one.repeat(100), 700),
            ("HGET of a large field", command(&["HGET", "large", "f"]), (100 << 10) + 11),
        ];
        for (what, input, length) in cases {
            // The first is relayed, the second fetched; buffers reach their size the third time.
            for _ in 0..2 {
                exchange(&mut conn, &worker, &pool, &input);
                while conn.is_waiting() {
                    std::future::poll_fn(|cx| conn.poll_waiting(&worker, cx)).await;
                }
                conn.out.clear();
            }
            exchange(&mut conn, &worker, &pool, &input);
            let before = ALLOCATIONS.get();
            for _ in 0..1000 {
                assert_eq!(exchange(&mut conn, &worker, &pool, &input), length, "{what}");
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "allocations in 1000 times: {what}");
        }
    });
}

/// A miss of a single key, whose fill finds room or has to make it.
#[test]
fn a_lone_miss_allocates_little() {
    const KEYS: usize = 4000;
    let redis = common::RedisServer::start();
    let url = redis.url();
    redis.command(&["EVAL", "for i = 1, 4000 do redis.call('SET', 'key:' .. i, string.rep('v', 64)) end", "0"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    let bounds =
        [&["--max-memory", "64MiB"][..], &["--max-memory", "1MiB"], &["--max-memory", "64MiB", "--max-keys", "1"]];
    for bounds in bounds {
        let args = [&["--threads", "1", "--source", &url], bounds].concat();
        let settings = Settings::from_args(&args).unwrap();
        let app = Arc::new(App::new(settings, Logs::default(), Bound::default(), 10, larder_redis::catalog()).unwrap());
        runtime.block_on(async {
            let worker = Worker::new(0, app);
            worker.groups.default().read(b"ready", clock::now()).await.expect("it is connected");
            let pool = BufferPool::default();
            let address = || ([127, 0, 0, 1], 1).into();
            let client = Arc::new(Client::new(1, address(), address(), 0, clock::now(), Waker::noop().clone()));
            let access = CommandAccess::of_listeners(&worker.app.settings)[0].clone();
            let mut conn = ClientConnection::new(&worker, client, access);
            let inputs: Vec<_> = (1..=KEYS).map(|i| command(&["GET", &format!("key:{i}")])).collect();
            let (warm, counted) = inputs.split_at(KEYS / 2);
            let mut before = (0, 0);
            for inputs in [warm, counted] {
                before = (ALLOCATIONS.get(), BYTES.get());
                for input in inputs {
                    assert_eq!(exchange(&mut conn, &worker, &pool, input), 0, "it is a miss");
                    while conn.is_waiting() {
                        std::future::poll_fn(|cx| conn.poll_waiting(&worker, cx)).await;
                    }
                    assert_eq!(conn.out.len(), 64 + 7);
                    conn.out.clear();
                }
            }
            let misses = counted.len();
            let (allocations, bytes) = ((ALLOCATIONS.get() - before.0) / misses, (BYTES.get() - before.1) / misses);
            println!("{bounds:?}: {allocations} allocations, {bytes} bytes a miss");
            assert!(bytes < 1024, "{bounds:?}: {allocations} allocations, {bytes} bytes a miss");
        });
    }
}

/// Commands whose reply is a few lines, one value of the memory tier, or little more than the
/// command itself. A new command is added here, or to [`listings`].
const SHORT: &str = "append decr decrby get getdel getex getset incr incrby incrbyfloat mset msetnx psetex set setex \
    setnx setrange strlen restore delex delifeq digest increx msetex bitcount bitop bitpos getbit setbit pfadd pfcount pfmerge copy del exists expire expireat expiretime larder.cleartag larder.tag \
    object object|encoding object|freq object|help object|idletime object|refcount persist pexpire pexpireat \
    pexpiretime pttl randomkey rename renamenx touch ttl type unlink wait json.arrappend json.arrinsert json.arrpop \
    json.arrtrim json.clear json.debug json.debug|help json.del json.forget json.merge json.mset json.numincrby \
    json.nummultby json.numpowby json.set json.strappend json.toggle discard multi unwatch watch auth client \
    client|capa client|getname client|getredir client|help client|id client|info client|kill client|maint_notifications \
    client|no-evict client|no-touch client|reply client|caching client|tracking client|pause \
    client|unpause client|unblock client|setinfo client|setname echo hello ping quit reset select cluster asking readonly \
    readwrite psubscribe punsubscribe publish pubsub pubsub|help pubsub|numpat spublish ssubscribe subscribe \
    sunsubscribe unsubscribe function function|flush function|help acl acl|cat acl|deluser acl|dryrun acl|genpass \
    acl|help acl|load acl|save acl|setuser acl|whoami bgsave command|count command|getkeys command|help \
    config config|help config|resetstat config|rewrite config|set dbsize debug flushall flushdb hotkeys hotkeys|help \
    hotkeys|reset hotkeys|start hotkeys|stop larder.forwarded larder.replicate latency latency|doctor latency|graph \
    latency|help latency|reset lastsave memory memory|help memory|purge memory|usage save replicaof role slaveof \
    slowlog slowlog|help slowlog|len slowlog|reset monitor time";

/// The other commands, as they have the longest reply: `x` stands for many arguments.
fn listings() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    const MANY: usize = 100_000;
    let repeated = |name: &[&str], arg: &str| {
        let mut args = name.to_vec();
        args.resize(MANY, arg);
        command(&args)
    };
    let one = |args: &[&str]| vec![command(args)];
    vec![
        ("keys", one(&["KEYS", "*"])),
        ("scan", one(&["SCAN", "0", "COUNT", "1000000"])),
        ("mget", vec![repeated(&["MGET"], "medium")]),
        ("getrange", one(&["GETRANGE", "large", "1", "-2"])),
        ("dump", one(&["DUMP", "large"])),
        ("substr", one(&["SUBSTR", "large", "1", "-2"])),
        (
            "bitfield",
            one(&{
                let mut args = vec!["BITFIELD", "medium"];
                (0..20_000).for_each(|_| args.extend(["GET", "i64", "0"]));
                args
            }),
        ),
        (
            "bitfield_ro",
            one(&{
                let mut args = vec!["BITFIELD_RO", "medium"];
                (0..20_000).for_each(|_| args.extend(["GET", "i64", "0"]));
                args
            }),
        ),
        ("exec", [one(&["MULTI"]), vec![command(&["KEYS", "*"]).repeat(4)], one(&["EXEC"])].concat()),
        ("larder.explain", one(&["LARDER.EXPLAIN", "large"])),
        ("json.get", one(&["JSON.GET", "document", "INDENT", &" ".repeat(1000), "NEWLINE", "\n"])),
        ("json.mget", {
            let mut args = vec!["JSON.MGET"];
            args.resize(1000, "document");
            vec![command(&[&args[..], &["$"]].concat())]
        }),
        ("json.resp", one(&["JSON.RESP", "document", "$..*"])),
        ("json.objkeys", one(&["JSON.OBJKEYS", "document", "$..*"])),
        ("json.objlen", one(&["JSON.OBJLEN", "document", "$..*"])),
        ("json.strlen", one(&["JSON.STRLEN", "document", "$..*"])),
        ("json.type", one(&["JSON.TYPE", "document", "$..*"])),
        ("json.arrlen", one(&["JSON.ARRLEN", "document", "$..*"])),
        ("json.arrindex", one(&["JSON.ARRINDEX", "document", "$..*", "1"])),
        ("json.debug|memory", one(&["JSON.DEBUG", "MEMORY", "document", "$..*"])),
        ("client|list", vec![command(&["CLIENT", "LIST"]), repeated(&["CLIENT", "LIST", "ID"], "1")]),
        ("client|trackinginfo", one(&["CLIENT", "TRACKINGINFO"])),
        ("pubsub|channels", one(&["PUBSUB", "CHANNELS"])),
        ("pubsub|shardchannels", one(&["PUBSUB", "SHARDCHANNELS"])),
        ("pubsub|numsub", vec![repeated(&["PUBSUB", "NUMSUB"], "c")]),
        ("pubsub|shardnumsub", vec![repeated(&["PUBSUB", "SHARDNUMSUB"], "c")]),
        ("acl|getuser", one(&["ACL", "GETUSER", "default"])),
        ("acl|list", one(&["ACL", "LIST"])),
        ("acl|users", one(&["ACL", "USERS"])),
        ("acl|log", one(&["ACL", "LOG", "100000"])),
        ("command", one(&["COMMAND"])),
        ("command|docs", vec![repeated(&["COMMAND", "DOCS"], "client")]),
        ("command|info", vec![repeated(&["COMMAND", "INFO"], "client")]),
        ("command|list", one(&["COMMAND", "LIST"])),
        ("config|get", vec![repeated(&["CONFIG", "GET"], "*")]),
        ("info", vec![repeated(&["INFO"], "everything")]),
        ("hotkeys|get", one(&["HOTKEYS", "GET"])),
        ("latency|histogram", vec![repeated(&["LATENCY", "HISTOGRAM"], "client")]),
        ("latency|history", one(&["LATENCY", "HISTORY", "command"])),
        ("latency|latest", one(&["LATENCY", "LATEST"])),
        ("slowlog|get", one(&["SLOWLOG", "GET", "-1"])),
    ]
}

/// The bound on all buffers in [`FullServer`].
const BUFFERS: usize = 16 << 20;

/// A worker whose listings are several times longer than all buffers may be.
struct FullServer {
    worker: Rc<Worker>,
    pool: BufferPool,
    clients: Vec<Arc<Client>>,
    _kept: (Vec<Box<dyn std::any::Any>>, Vec<ClientConnection>),
}
impl FullServer {
    fn conn(&self, number: usize) -> ClientConnection {
        let access = CommandAccess::of_listeners(&self.worker.app.settings)[0].clone();
        ClientConnection::new(&self.worker, self.clients[number].clone(), access)
    }

    fn new() -> FullServer {
        let args = ["--threads", "1", "--max-memory", "512MiB", "--max-buffers", "16MiB"];
        let settings = Settings::from_args(&args).unwrap();
        let app =
            Arc::new(App::new(settings, Logs::default(), Bound::default(), 20_000, larder_redis::catalog()).unwrap());
        let worker = Rc::new(Worker::new(0, app));
        let address = || ([127, 0, 0, 1], 1).into();
        let mut server = FullServer {
            worker: worker.clone(),
            pool: BufferPool::default(),
            clients: Vec::new(),
            _kept: Default::default(),
        };
        for number in 0..10_000 {
            let listed = worker.app.clients.register(address(), address(), 0, clock::now(), Waker::noop().clone());
            let text: Arc<str> = format!("{number}{}", "x".repeat(1000)).into();
            let mut about = listed.client.about.lock();
            (about.name, about.lib_name, about.lib_version) = (text.clone(), text.clone(), text);
            drop(about);
            server.clients.push(listed.client.clone());
            server._kept.0.push(Box::new(listed));
        }
        let cache = &worker.groups.default().cache;
        let store = |key: &[u8], value: &[u8]| {
            cache.tier().set(cache.key(key), larder_engine::Write::new(value), clock::now()).unwrap();
        };
        for number in 0..2000 {
            store(format!("{number}{}", "x".repeat(30_000 + 15 * number)).as_bytes(), b"v");
        }
        store(b"large", &vec![b'v'; 64 << 20]);
        store(b"medium", &vec![b'v'; 10_000]);
        let document = format!("[{}]", vec![format!("{{\"a\":[1,\"{}\"]}}", "b".repeat(200)); 30_000].join(","));
        let mut conn = server.conn(0);
        let mut say = |args: &[&str]| exchange(&mut conn, &worker, &server.pool, &command(args));
        say(&["JSON.SET", "document", "$", &document]);
        let args: Vec<String> = (0..40).map(|_| "y".repeat(200)).collect();
        let long: Vec<&str> = ["DEL"].into_iter().chain(args.iter().map(String::as_str)).collect();
        say(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
        for _ in 0..10_000 {
            say(&long);
        }
        for (number, name) in [(1, "SUBSCRIBE"), (2, "SSUBSCRIBE")] {
            let mut conn = server.conn(number);
            for number in 0..1000 {
                let channel = format!("{number}{}", "c".repeat(30_000));
                exchange(&mut conn, &worker, &server.pool, &command(&[name, &channel]));
            }
            server._kept.1.push(conn);
        }
        server
    }
}

/// Fails for what took more than all buffers may.
fn check_peaks(peaks: &[(String, usize, usize)]) {
    let failed: Vec<_> = peaks.iter().filter(|(_, peak, given)| *peak > BUFFERS + BUFFERS / 10 + 2 * given).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn no_reply_is_made_that_the_buffers_have_no_room_for() {
    let server = FullServer::new();
    let (worker, pool) = (&server.worker, &server.pool);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (listings, short) = (listings(), SHORT.split_whitespace());
    let catalog = larder_redis::catalog();
    let mut known: Vec<&str> = listings.iter().map(|(name, _)| *name).chain(short).collect();
    let mut rows: Vec<&str> = catalog.rows().iter().map(|row| row.name).collect();
    known.sort_unstable();
    rows.sort_unstable();
    assert_eq!(known, rows, "say of each command whether its reply may be long");
    let mut peaks = Vec::new();
    for (name, commands) in listings {
        for input in commands {
            let mut conn = server.conn(0);
            let (before, start) = (LIVE.get(), std::time::Instant::now());
            PEAK.set(before);
            conn.input.feed(&input, pool);
            loop {
                match conn.process(worker, pool, clock::now()) {
                    Flow::Input { more: 1 } => break,
                    Flow::Alone(command) => {
                        runtime.block_on(conn.run_alone(worker, command));
                    }
                    _ => {
                        conn.out.clear();
                        conn.holding();
                    }
                }
            }
            let peak = usize::try_from(PEAK.get() - before).unwrap();
            assert!(conn.out.len() < BUFFERS, "{name}");
            println!("{name}: {peak} bytes for {} in {:?}", conn.out.len(), start.elapsed());
            peaks.push((name.to_owned(), peak, input.len()));
        }
    }
    check_peaks(&peaks);
}

/// Paths whose answer to a GET is a few lines, a file of the program, or one value, or that need a
/// store. A new path is added here, or to [`LONG_ROUTES`].
const SHORT_ROUTES: &str = "/v1/kv/{key} /v1/range /v1/groups/{group}/kv/{key} /v1/groups/{group}/keys \
    /v1/groups/{group}/range /data/{key} /stats /stats/main /stats/hot /lookup /v1/lookup / /v0/entity /v0/entities \
    /_groupcache/{group}/{key} /cache/v1/item /healthz /readyz /openapi.json /docs /v1/live /v1/explain/{key} \
    /v1/groups/{group}/explain/{key} /console/{key} /v1/log-level /v1/config/reload /v1/store/backup /v1/snapshot \
    /v1/faults /v1/groups/{group}/mode-rules /v1/commands/{key}";

/// The others, with the query that makes the answer long.
const LONG_ROUTES: [(&str, &str); 16] = [
    ("/v1/keys", "?count=10000"),
    ("/cache/v1/keys", ""),
    ("/v1/connections", "?count=10000&sort=-name"),
    ("/v1/hot-keys", "?count=500"),
    ("/v1/slow-log", "?count=10000"),
    ("/v1/contents", "?count=500"),
    ("/v1/commands", ""),
    ("/v1/config", ""),
    ("/v1/events", ""),
    ("/v1/history", "?resolution=1s"),
    ("/v1/peers", ""),
    ("/v1/stats", ""),
    ("/v1/what-if", ""),
    ("/metrics", ""),
    ("/v1/groups/{group}/keys", "?count=10000"),
    ("/redis/{key}", ""),
];

#[test]
fn no_answer_over_http_is_made_that_the_buffers_have_no_room_for() {
    let rows = include_str!("../../http/src/routing/route_table.rs").lines();
    let paths: Vec<&str> = rows.filter_map(|row| row.trim().strip_prefix("GET \"")?.split('"').next()).collect();
    assert!(paths.len() > 40, "{paths:?}");
    for path in paths {
        let is_known =
            SHORT_ROUTES.split_whitespace().chain(LONG_ROUTES.map(|(path, _)| path)).any(|known| known == path);
        assert!(is_known, "say of {path} whether its answer may be long");
    }
    let server = FullServer::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mut peaks, mut answer) = (Vec::new(), vec![0; 1 << 20]);
        for (path, query) in LONG_ROUTES {
            let target = format!("{}{query}", path.replace("{group}", "default").replace("{key}", "keys/*"));
            for role in [larder_http::ListenerRole::Native, larder_http::ListenerRole::Admin] {
                let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
                let (stream, peer) = listener.accept().await.unwrap();
                let before = LIVE.get();
                PEAK.set(before);
                let served = larder_http::serve_connection(
                    server.worker.clone(),
                    Rc::default(),
                    stream,
                    (peer.into(), peer.into()),
                    role,
                );
                let served = tokio::task::spawn_local(served);
                let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                client.write_all(request.as_bytes()).await.unwrap();
                let (mut total, mut status) = (0, String::new());
                loop {
                    let read = client.read(&mut answer).await.unwrap();
                    if read == 0 {
                        break;
                    }
                    if total == 0 {
                        status = String::from_utf8_lossy(&answer[9..12]).into_owned();
                    }
                    total += read;
                }
                served.await.unwrap();
                let peak = usize::try_from(PEAK.get() - before).unwrap();
                println!("{target}: {status}, {peak} bytes for {total}");
                assert!(["200", "404", "503"].contains(&&*status), "{target}: {status}");
                peaks.push((target.clone(), peak, 0));
            }
        }
        check_peaks(&peaks);
    });
}

#[test]
fn an_http_hit_allocates_nothing() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).unwrap();
    runtime.block_on(async {
        let settings = Settings::from_args(&["--threads", "1", "--max-memory", "64MiB"]).unwrap();
        let app = Arc::new(App::new(settings, Logs::default(), Bound::default(), 10, larder_redis::catalog()).unwrap());
        let worker = Rc::new(Worker::new(0, app));
        let cache = worker.groups.default().cache.clone();
        for (key, len) in [("key", 64), ("large", 48 << 10)] {
            let value = vec![b'v'; len];
            let write = larder_engine::Write::new(&value);
            // An age of 1000 seconds has as many digits for the rest of the test, so answers have one length.
            cache.tier().set(cache.key(key.as_bytes()), write, clock::now() - 1_000_000).unwrap();
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = listener.accept().await.unwrap();
        tokio::task::spawn_local(larder_http::serve_connection(
            worker,
            Rc::default(),
            stream,
            (peer.into(), peer.into()),
            larder_http::ListenerRole::Native,
        ));

        let get = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
        let item = |method: &str, body: &str| {
            let length = body.len();
            format!("{method} /cache/v1/item HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
        };
        let redis = |fields: &str| {
            format!("POST /redis HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: 13\r\n\r\n[\"GET\",\"key\"]")
        };
        let cases = [
            get("/v1/kv/key"),
            get("/v1/kv/%6bey"),
            get("/lookup?key=key"),
            get("/?key=key"),
            get("/v1/kv/large"),
            get("/v1/kv/key").repeat(100),
            get("/redis/get/key"),
            get("/redis/get/%6bey"),
            get("/redis/get/none"),
            redis(""),
            redis("Authorization: Bearer token\r\nUpstash-Encoding: base64\r\n"),
            item("GET", r#"{"key":"json"}"#),
            item("GET", r#"{"key":"json","subindex":2}"#),
        ];
        let mut answer = vec![0; 1 << 20];
        let post = item("POST", r#"{"key":"json","value":[1,2],"ttl":600}"#);
        client.write_all(post.as_bytes()).await.unwrap();
        read_answers(&mut client, &mut answer, 1).await;
        for request in &cases {
            // Buffers reach their size the first time; how long the answer is shows by the next request's.
            let mut length = 0;
            for _ in 0..3 {
                client.write_all(request.as_bytes()).await.unwrap();
                length = read_answers(&mut client, &mut answer, request.matches("HTTP/1.1").count()).await;
            }
            let before = ALLOCATIONS.get();
            for _ in 0..1000 {
                client.write_all(request.as_bytes()).await.unwrap();
                client.read_exact(&mut answer[..length]).await.unwrap();
            }
            assert_eq!(ALLOCATIONS.get() - before, 0, "allocations in 1000 times: {request:?}");
        }
        // The counter counts.
        let before = ALLOCATIONS.get();
        client.write_all(get("/v1/kv/none").as_bytes()).await.unwrap();
        read_answers(&mut client, &mut answer, 1).await;
        assert!(ALLOCATIONS.get() > before, "a problem document is allocated");
    });
}

/// Reads so many answers of known length; how long they are together.
async fn read_answers(client: &mut TcpStream, into: &mut [u8], count: usize) -> usize {
    let (mut filled, mut end) = (0, 0);
    for _ in 0..count {
        loop {
            if let Some(head) = into[end..filled].windows(4).position(|w| w == b"\r\n\r\n") {
                let text = std::str::from_utf8(&into[end..end + head]).expect("heads are ASCII");
                let length =
                    text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).expect("a length");
                let body: usize = length.parse().expect("a number");
                if end + head + 4 + body <= filled {
                    end += head + 4 + body;
                    break;
                }
            }
            filled += client.read(&mut into[filled..]).await.expect("answers");
        }
    }
    assert_eq!(end, filled);
    end
}
