//! Released clients with their default settings (`tests/clients`): each goes through its scripts
//! against a redis-server or a memcached, which shows that they ask for that server's own
//! behaviour, against Larder in front of a server, and against Larder alone.
//!
//! What a test ran is a row of a table in `docs/compatibility.md`: the test demands it, and writes
//! it with `UPDATE_DOCS=1`.
mod memcached;
mod page;
mod programs;

use crate::{
    common::{RedisServer, Reply},
    larder::Larder,
};
use page::{row, rows};
use programs::{Report, Server, passed, run, valkey, version};

/// A client of Redis. Scripts are command lines in `.deps`, `-` if there is none.
struct Client {
    name: &'static str,
    /// Debian's packages are its libraries.
    is_debians: bool,
    /// The version of the Redis protocol that it chooses.
    protocol: &'static str,
    /// Commands of every kind, through to a server.
    matrix: &'static str,
    /// What Larder alone has as well.
    checks: &'static str,
    /// The class for a cluster.
    cluster: &'static str,
    /// The client-side cache.
    caching: &'static str,
    /// What its program sees when its server was restarted or killed.
    reconnect: &'static str,
}

const NO_ERROR: &str = "no error; subscribes again";
const NONE: &str = "-";

const CLIENTS: [Client; 14] = [
    Client {
        name: "redis-py (Python)",
        is_debians: false,
        protocol: "3",
        matrix: "python/bin/python ../tests/clients/python/matrix.py",
        checks: "python/bin/python ../tests/clients/python/client.py",
        cluster: "python/bin/python ../tests/clients/python/cluster.py",
        caching: "python/bin/python ../tests/clients/python/caching.py",
        reconnect: NO_ERROR,
    },
    Client {
        name: "redis-py with hiredis",
        is_debians: false,
        protocol: "3",
        matrix: "python-hiredis/bin/python ../tests/clients/python/matrix.py",
        checks: "python-hiredis/bin/python ../tests/clients/python/client.py",
        cluster: NONE,
        caching: NONE,
        reconnect: NO_ERROR,
    },
    Client {
        name: "valkey-glide (Python)",
        is_debians: false,
        protocol: "3",
        matrix: "python-glide/bin/python ../tests/clients/python/glide_client.py matrix",
        checks: "python-glide/bin/python ../tests/clients/python/glide_client.py checks",
        cluster: "python-glide/bin/python ../tests/clients/python/glide_cluster.py",
        caching: "python-glide/bin/python ../tests/clients/python/glide_client.py caching",
        reconnect: "a command may fail once; subscribes again",
    },
    Client {
        name: "go-redis (Go)",
        is_debians: false,
        protocol: "3",
        matrix: "go-matrix/go-redis",
        checks: "./go-client",
        cluster: "go-matrix/cluster",
        caching: "go-matrix/caching-go-redis",
        reconnect: NO_ERROR,
    },
    Client {
        name: "rueidis (Go)",
        is_debians: false,
        protocol: "3",
        matrix: "go-matrix/rueidis",
        checks: NONE,
        cluster: NONE,
        caching: "go-matrix/caching-rueidis",
        reconnect: "retries reads; a write fails once per lost connection; `Receive` ends with an error and must be called again",
    },
    Client {
        name: "ioredis (Node)",
        is_debians: false,
        protocol: "3",
        matrix: "node node/matrix-ioredis.js",
        checks: "node node/client.js",
        cluster: "node node/cluster.js",
        caching: NONE,
        reconnect: NO_ERROR,
    },
    Client {
        name: "node-redis (Node)",
        is_debians: false,
        protocol: "3",
        matrix: "node node/matrix-node-redis.js",
        checks: NONE,
        cluster: NONE,
        caching: NONE,
        reconnect: NO_ERROR,
    },
    Client {
        name: "Jedis (Java), `RedisClient`",
        is_debians: false,
        protocol: "3",
        matrix: "java -cp java/jedis:java/jedis/* JedisMatrix",
        checks: NONE,
        cluster: "java -cp java/jedis:java/jedis/* JedisClusters",
        caching: NONE,
        reconnect: "each pooled connection fails once; subscriptions are not tested",
    },
    Client {
        name: "Lettuce (Java)",
        is_debians: false,
        protocol: "3",
        matrix: "java -cp java/lettuce:java/lettuce/* LettuceMatrix",
        checks: NONE,
        cluster: "java -cp java/lettuce:java/lettuce/* LettuceClusters",
        caching: NONE,
        reconnect: NO_ERROR,
    },
    Client {
        name: "redis-rs (Rust), `Connection`",
        is_debians: false,
        protocol: "2",
        matrix: "./rust-matrix",
        checks: NONE,
        cluster: NONE,
        caching: NONE,
        reconnect: "a lost connection stays lost: get another from the `Client`; subscriptions are not tested",
    },
    Client {
        name: "phpredis (PHP)",
        is_debians: true,
        protocol: "2",
        matrix: "php ../tests/clients/php/client.php matrix",
        checks: "php ../tests/clients/php/client.php checks",
        cluster: NONE,
        caching: NONE,
        reconnect: "no error; subscriptions are not tested",
    },
    Client {
        name: "redis-rb (Ruby)",
        is_debians: true,
        protocol: "2",
        matrix: "ruby ../tests/clients/ruby/client.rb matrix",
        checks: "ruby ../tests/clients/ruby/client.rb checks",
        cluster: NONE,
        caching: NONE,
        reconnect: "no error; `subscribe` ends with an error and must be called again",
    },
    Client {
        name: "redis-cli on a terminal",
        is_debians: true,
        protocol: "2",
        matrix: "python/bin/python ../tests/clients/python/redis_cli.py",
        checks: NONE,
        cluster: NONE,
        caching: NONE,
        reconnect: "may print `Server closed the connection` once; the next command connects",
    },
    Client {
        name: "redis-benchmark",
        is_debians: true,
        protocol: "2, and 3 with `-3`",
        matrix: NONE,
        checks: NONE,
        cluster: NONE,
        caching: NONE,
        reconnect: "not tested",
    },
];

/// All checks of the matrix, each named once in a program's report.
const MATRIX: [&str; 10] = [
    "connect",
    "strings",
    "expiry",
    "pipeline",
    "transaction",
    "pubsub",
    "blocking_pop",
    "hash",
    "script",
    "reconnect",
];
const CACHING: [&str; 5] = ["local", "change", "expiry", "many", "flush"];
const CHECKS: usize = 12;
const CLUSTER: usize = 6;

/// With a server that says it is older than 7.4, as Debian's and Valkey do, redis-py has no cache, nor
/// with a Larder in front of one.
const CACHES_WITH_LARDER_ALONE: &str = "redis-py (Python)";

/// Passed checks of a client with each server.
#[derive(Default)]
struct Passed {
    redis: usize,
    before_redis: usize,
    before_valkey: usize,
    alone: usize,
    cluster: usize,
    caching: usize,
}

/// Goes through all scripts of a client.
fn try_out(name: &str) {
    let client = CLIENTS.iter().find(|client| client.name == name).unwrap();
    let mut count = Passed::default();
    let mut version = String::new();
    let mut note = |report: &Report| version = report.version.clone();
    if client.cluster != NONE {
        count.cluster = of_a_cluster(client.cluster);
    }
    if client.caching != NONE {
        if client.name != CACHES_WITH_LARDER_ALONE {
            run(client.caching, RedisServer::start().port(), &["c"]).demands(&CACHING);
            let redis = RedisServer::start();
            let larder = Larder::start(&["--threads", "2", "--source", &redis.url()]);
            run(client.caching, larder.redis, &["c"]).demands(&CACHING);
        }
        count.caching = run(client.caching, Larder::start(&["--threads", "2"]).redis, &["c"]).demands(&CACHING);
    }
    if client.checks != NONE {
        let report = run(client.checks, Larder::start(&["--threads", "2"]).redis, &["c"]);
        note(&report);
        count.alone = report.demands_number(CHECKS);
        (count.redis, count.before_redis) = before_redis(client.checks);
    }
    if client.matrix != NONE {
        let report = Server::Redis(RedisServer::start()).run(client.matrix);
        note(&report);
        count.redis += report.demands(&MATRIX);
        count.before_redis += Server::larder(RedisServer::start()).run(client.matrix).demands(&MATRIX);
        count.before_valkey = Server::larder(valkey()).run(client.matrix).demands(&MATRIX);
    }
    demand_row(client, &version, &count);
}

fn demand_row(client: &Client, version: &str, count: &Passed) {
    let [redis, before, valkey, alone, cluster, caching] =
        [count.redis, count.before_redis, count.before_valkey, count.alone, count.cluster, count.caching].map(passed);
    let cells =
        [client.name, version, client.protocol, &redis, &before, &valkey, &alone, &cluster, &caching, client.reconnect];
    row("clients", &cells, client.is_debians);
}

/// Passed checks with a redis-server and with Larder in front of it.
fn before_redis(command: &str) -> (usize, usize) {
    let redis = RedisServer::start();
    let direct = run(command, redis.port(), &["direct"]).demands_number(CHECKS);
    let larder = Larder::start(&["--threads", "2", "--source", &redis.url()]);
    let through = run(command, larder.redis, &["through"]).demands_number(CHECKS);
    // Written through: what the program left behind is the same at both doors.
    for key in ["many49", "counter", "parallel", "parallel15:49", "pipe499", "balance"] {
        let direct = redis.command(&["GET", &format!("direct:{key}")]);
        assert_ne!(direct, Reply::nil(), "{key}");
        assert_eq!(redis.command(&["GET", &format!("through:{key}")]), direct, "{key}");
    }
    (direct, through)
}

/// Classes for a cluster, with a Larder that emulates one, alone and before a Redis that is none.
fn of_a_cluster(command: &str) -> usize {
    let alone = Larder::start(&["--threads", "2", "--cluster", "emulated"]);
    run(command, alone.redis, &["alone"]).demands_number(CLUSTER);
    let redis = RedisServer::start();
    let before = Larder::start(&["--threads", "2", "--cluster", "emulated", "--source", &redis.url()]);
    run(command, before.redis, &["before"]).demands_number(CLUSTER)
}

macro_rules! clients {
    ($($test:ident: $name:literal;)*) => {
        $(#[test] fn $test() { try_out($name); })*
        const TESTED: &[&str] = &[$($name),*];
    };
}
clients! {
    redis_py: "redis-py (Python)";
    redis_py_with_hiredis: "redis-py with hiredis";
    valkey_glide: "valkey-glide (Python)";
    go_redis: "go-redis (Go)";
    rueidis: "rueidis (Go)";
    ioredis: "ioredis (Node)";
    node_redis: "node-redis (Node)";
    jedis: "Jedis (Java), `RedisClient`";
    lettuce: "Lettuce (Java)";
    redis_rs: "redis-rs (Rust), `Connection`";
    phpredis: "phpredis (PHP)";
    redis_rb: "redis-rb (Ruby)";
    redis_cli: "redis-cli on a terminal";
}

#[test]
fn the_table_has_each_client_and_no_other() {
    let names: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
    assert_eq!(&names[..names.len() - 1], TESTED, "redis-benchmark has a test of its own");
    let of_redis = version(&RedisServer::start(), "redis_version");
    let of_valkey = version(&valkey(), "valkey_version");
    let head = [
        "client",
        "version",
        "protocol",
        &format!("redis-server {of_redis}"),
        "Larder in front of it",
        &format!("Larder in front of Valkey {of_valkey}"),
        "Larder alone",
        "cluster class",
        "client-side cache",
        "after a restart, with Larder and with Redis",
    ];
    rows("clients", &head, &names);
}

/// All of its own tests, which end it at the first error; in both protocols, with and without
/// pipelines.
fn benchmark(port: u16) -> usize {
    let port = port.to_string();
    let expected = [
        "PING_INLINE",
        "PING_MBULK",
        "SET",
        "GET",
        "INCR",
        "LPUSH",
        "RPUSH",
        "LPOP",
        "RPOP",
        "SADD",
        "HSET",
        "SPOP",
        "ZADD",
        "ZPOPMIN",
        "LPUSH",
        "LRANGE_100",
        "LRANGE_300",
        "LRANGE_500",
        "LRANGE_600",
        "MSET",
    ];
    for options in [&["-c", "10"][..], &["-c", "10", "-P", "16", "-3"]] {
        let mut command = std::process::Command::new("redis-benchmark");
        let output = command.args(["-p", &port, "-n", "800", "--csv"]).args(options).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !errors.contains("rror"), "{options:?}\n{text}{errors}");
        let tests: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split([' ', '"']).nth(1)).collect();
        assert_eq!(tests, expected, "{options:?}\n{text}{errors}");
    }
    2 * expected.len()
}

#[test]
fn redis_benchmark() {
    let mut count = Passed { redis: benchmark(RedisServer::start().port()), ..Passed::default() };
    for redis in [RedisServer::start(), valkey()] {
        let larder = Larder::start(&["--threads", "2", "--source", &redis.url()]);
        count.before_redis = benchmark(larder.redis);
        // What it asked for has been done there.
        assert_eq!(redis.command(&["GET", "counter:__rand_int__"]), Reply::bulk("1600"));
    }
    count.before_valkey = count.before_redis;
    let output = std::process::Command::new("redis-benchmark").arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    demand_row(&CLIENTS[13], version.trim().trim_start_matches("redis-benchmark "), &count);
}

/// Redis over HTTP.
#[test]
fn upstash() {
    let larder = Larder::start(&["--threads", "2", "--password=secret"]);
    run("node node/upstash.js", larder.http, &["c"]).demands_number(CHECKS);
}
#[test]
fn upstash_before_redis() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--threads", "2", "--password=secret", "--source", &redis.url()]);
    run("node node/upstash.js", larder.http, &["c", "redis"]).demands_number(CHECKS);
}
