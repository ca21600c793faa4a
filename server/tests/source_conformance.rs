//! One suite for every source, and what only a Redis source promises, on real redis-servers.
mod common;

use common::{PATIENCE, RedisServer, Reply, free_port};
use larder::{
    clock,
    config::{RedisAddress, RedisUrl, SourceUrl, TlsUrl},
    read::{Begun, Group, Policy},
    source::{Limits, SourceError, SourceHealth, SourceSetup},
};
use larder_engine::{Cache, Config};
use std::{
    future::Future,
    path::PathBuf,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

const LIMITS: Limits = Limits {
    timeout: Duration::from_secs(10),
    max_in_flight: 10_000,
    connections: 1,
    max_value: 512 * 1024 * 1024,
};

/// Runs a test on a runtime like a worker's; what never ends fails.
fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .expect("a runtime");
    let limited = async { tokio::time::timeout(3 * PATIENCE, test).await };
    runtime.block_on(limited).expect("a test that hangs");
}

struct Fixture {
    group: Rc<Group>,
    health: Arc<SourceHealth>,
}
impl std::ops::Deref for Fixture {
    type Target = Rc<Group>;
    fn deref(&self) -> &Rc<Group> {
        &self.group
    }
}
fn open(url: &SourceUrl, limits: Limits, policy: Policy) -> Fixture {
    let setup = SourceSetup::new(url, limits).expect("a source");
    let cache = Cache::new(Config {
        max_memory: 64 * 1024 * 1024,
        default_ttl: policy.ttl,
        ..Config::default()
    });
    let group = Rc::new(Group {
        name: "default".into(),
        cache,
        source: setup.open(),
        policy,
        writes: Arc::default(),
    });
    Fixture {
        group,
        health: setup.health().clone(),
    }
}
fn tcp(port: u16) -> RedisUrl {
    RedisUrl {
        address: RedisAddress::Tcp {
            host: "127.0.0.1".to_owned(),
            port,
        },
        tls: None,
        user: None,
        password: None,
        database: 0,
    }
}
fn redis(server: &RedisServer) -> Fixture {
    let url = SourceUrl::Redis(tcp(server.port()));
    open(&url, LIMITS, Policy::default())
}
fn redis_with(server: &RedisServer, limits: Limits, policy: Policy) -> Fixture {
    open(&SourceUrl::Redis(tcp(server.port())), limits, policy)
}

impl Fixture {
    async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, SourceError> {
        let read = self.read(key.as_ref(), clock::now()).await;
        read.map(|value| value.map(|bytes| bytes.to_vec()))
    }
    /// Begins all reads, fetches their misses as one batch, awaits them.
    async fn get_all(&self, keys: &[&str]) -> Vec<Result<Option<Vec<u8>>, SourceError>> {
        let mut batch = Vec::new();
        let begun: Vec<_> = keys
            .iter()
            .map(|key| {
                let key = self.cache.key(key.as_bytes());
                self.begin(key, clock::now(), &mut batch, |e| e.value.to_bytes())
            })
            .collect();
        self.source.fetch(&mut batch);
        let mut answers = Vec::new();
        for begun in begun {
            let answer = match begun {
                Begun::Hit(value) => Ok(Some(value)),
                Begun::Absent => Ok(None),
                Begun::Wait(wait) => Group::end(wait).await,
            };
            answers.push(answer.map(|value| value.map(|bytes| bytes.to_vec())));
        }
        answers
    }
    /// Polls `check` until it holds.
    async fn until<F: Future<Output = bool>>(&self, what: &str, check: impl Fn() -> F) {
        let start = Instant::now();
        while !check().await {
            assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    async fn until_up(&self) {
        self.until("connected", async || self.health.is_up()).await;
    }
    async fn until_down(&self) {
        self.until("down", async || {
            !self.health.is_up() && self.source.ping().await.is_err()
        })
        .await;
    }
    /// Drops the group, which ends its connections, and waits for a fake server to see that.
    async fn leave(self, fake: std::thread::JoinHandle<()>) {
        drop(self);
        let start = Instant::now();
        while !fake.is_finished() {
            assert!(start.elapsed() < PATIENCE, "the connection stays open");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fake.join().expect("no panic");
    }
    fn cached(&self, key: &str) -> Option<Vec<u8>> {
        let key = self.cache.key(key.as_bytes());
        let mut tier = self.cache.tier();
        tier.peek(key, clock::now(), |e| e.value.as_bytes().to_vec())
    }
    fn expiry(&self, key: &str) -> Option<u64> {
        let key = self.cache.key(key.as_bytes());
        let mut tier = self.cache.tier();
        tier.peek(key, clock::now(), |e| e.expiry).flatten()
    }
    fn forget(&self, key: impl AsRef<[u8]>) {
        self.cache.invalidate(self.cache.key(key.as_ref()));
    }
}
fn some(value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, SourceError> {
    Ok(Some(value.as_ref().to_vec()))
}
fn reason(answer: Result<Option<Vec<u8>>, SourceError>) -> String {
    answer.expect_err("an error").to_string()
}

/// What every source promises, seen through a group. `behind`: it keeps values apart from the memory tier.
async fn conformance(group: &Fixture, behind: bool) {
    let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let large: Vec<u8> = (0..8 * 1024 * 1024u32).map(|i| (i % 251) as u8).collect();
    let values: [(&[u8], &[u8]); 6] = [
        (b"text", b"value"),
        (b"empty", b""),
        (b"binary", &all),
        (b"\x00\r\n\xff key", b"\r\n$-1\r\n+OK\r\n"),
        (&[b'k'; 64 * 1024], b"long key"),
        (b"large", &large),
    ];
    for (key, value) in values {
        assert_eq!(group.get(key).await, Ok(None), "before the put");
        let put = group.put(key, value.to_vec().into(), None).await;
        put.expect("the put");
        assert!(group.get(key).await == some(value), "from the tier");
        if behind {
            group.forget(key);
            assert!(group.get(key).await == some(value), "from the source");
        }
        // A shorter value over a longer one, then none.
        group.put(key, "new".into(), None).await.expect("the put");
        assert_eq!(group.get(key).await, some("new"));
        assert_eq!(group.delete(key).await, Ok(true));
        assert_eq!(group.get(key).await, Ok(None));
        assert_eq!(group.delete(key).await, Ok(false));
    }

    // Expiry: with the put, by `expire`, taken away, in the past.
    let soon = || Some(clock::now() + 40);
    group.put(b"e", "1".into(), soon()).await.expect("the put");
    let gone = async || group.get("e").await == Ok(None);
    group.until("the put's expiry", gone).await;
    assert_eq!(group.expire(b"e", soon()).await, Ok(false));
    assert_eq!(group.expire(b"e", None).await, Ok(false));
    group.put(b"e", "2".into(), None).await.expect("the put");
    assert_eq!(group.expire(b"e", soon()).await, Ok(true));
    group.until("the later expiry", gone).await;
    group.put(b"e", "3".into(), soon()).await.expect("the put");
    assert_eq!(group.expire(b"e", None).await, Ok(true));
    assert_eq!(group.expire(b"e", None).await, Ok(true), "once more");
    assert_eq!(group.get("e").await, some("3"));
    let past = Some(clock::now() - 1);
    assert_eq!(group.expire(b"e", past).await, Ok(true));
    assert_eq!(group.get("e").await, Ok(None));
    group.put(b"e", "4".into(), None).await.expect("the put");
    group.put(b"e", "5".into(), past).await.expect("the put");
    assert_eq!(group.get("e").await, Ok(None));

    assert!(group.source.ping().await.is_ok());
    assert!(group.health.is_up());
    assert_eq!(group.health.in_flight(), 0);
}

#[test]
fn conformance_none() {
    run(async {
        let group = open(&SourceUrl::None, LIMITS, Policy::default());
        conformance(&group, false).await;
        assert!(group.source.as_redis().is_none());
    });
}

#[test]
fn conformance_redis() {
    let server = RedisServer::start();
    run(async {
        conformance(&redis(&server), true).await;
        assert!(server.command(&["CLIENT", "LIST"]) != Reply::nil());
    });
}

#[test]
fn conformance_several_connections() {
    let server = RedisServer::start();
    run(async {
        let limits = Limits {
            connections: 3,
            ..LIMITS
        };
        conformance(&redis_with(&server, limits, Policy::default()), true).await;
    });
}

#[test]
fn conformance_unix_socket() {
    let server = RedisServer::with(&["--unixsocket", "socket", "--unixsocketperm", "700"]);
    run(async {
        let url = RedisUrl {
            address: RedisAddress::Unix(server.dir().join("socket")),
            ..tcp(0)
        };
        conformance(
            &open(&SourceUrl::Redis(url), LIMITS, Policy::default()),
            true,
        )
        .await;
    });
}

#[test]
fn conformance_password_and_database() {
    let server = RedisServer::with(&["--requirepass", "p@ss:word/"]);
    run(async {
        for user in [None, Some("default".to_owned())] {
            let url = RedisUrl {
                user,
                password: Some("p@ss:word/".into()),
                database: 7,
                ..tcp(server.port())
            };
            let group = open(&SourceUrl::Redis(url), LIMITS, Policy::default());
            conformance(&group, true).await;
            group.put(b"k", "v".into(), None).await.expect("the put");
        }
        let mut client = server.client();
        assert_eq!(client.command(&["GET", "k"]), Reply::nil());
        client.command(&["SELECT", "7"]);
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    });
}

/// A certificate authority, and a certificate of its making for 127.0.0.1.
struct Certificates {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}
fn certificates(dir: &std::path::Path) -> Certificates {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let mut ca = CertificateParams::default();
    // Certificates of one name would count as one that signed itself.
    ca.distinguished_name.push(DnType::CommonName, "authority");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().expect("a key");
    let ca_pem = ca.self_signed(&ca_key).expect("a certificate").pem();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let leaf = CertificateParams::new(names).expect("names");
    let leaf_key = KeyPair::generate().expect("a key");
    let leaf_pem = leaf.signed_by(&leaf_key, &Issuer::new(ca, ca_key));
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    Certificates {
        ca: write("ca.pem", ca_pem),
        cert: write("cert.pem", leaf_pem.expect("a certificate").pem()),
        key: write("key.pem", leaf_key.serialize_pem()),
    }
}

#[test]
fn conformance_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let Certificates { ca, cert, key } = certificates(dir.path());
    let other = tempfile::tempdir().expect("a directory");
    let stranger = certificates(other.path());
    let port = free_port();
    let path = |path: &PathBuf| path.display().to_string();
    let server = RedisServer::in_dir(
        dir,
        &[
            "--tls-port",
            &port.to_string(),
            "--tls-ca-cert-file",
            &path(&ca),
            "--tls-cert-file",
            &path(&cert),
            "--tls-key-file",
            &path(&key),
            "--tls-auth-clients",
            "yes",
        ],
    );
    let with = |tls: TlsUrl| {
        let url = RedisUrl {
            tls: Some(tls),
            ..tcp(port)
        };
        open(&SourceUrl::Redis(url), LIMITS, Policy::default())
    };
    run(async {
        let good = TlsUrl {
            ca: Some(ca.clone()),
            cert: Some(cert.clone()),
            key: Some(key.clone()),
            insecure: false,
        };
        conformance(&with(good.clone()), true).await;
        server.command(&["SET", "k", "v"]);
        let insecure = TlsUrl {
            ca: None,
            insecure: true,
            ..good.clone()
        };
        assert_eq!(with(insecure).get("k").await, some("v"));

        let wrong_ca = TlsUrl {
            ca: Some(stranger.ca),
            ..good.clone()
        };
        let text = reason(with(wrong_ca).get("k").await);
        assert!(text.contains("certificate"), "{text}");
        let no_cert = TlsUrl {
            cert: None,
            key: None,
            ..good.clone()
        };
        let text = reason(with(no_cert).get("k").await);
        assert!(text.starts_with("source unavailable: "), "{text}");

        let no_file = TlsUrl {
            ca: Some("/nowhere/ca.pem".into()),
            ..good
        };
        let url = SourceUrl::Redis(RedisUrl {
            tls: Some(no_file),
            ..tcp(port)
        });
        let error = SourceSetup::new(&url, LIMITS).err().expect("an error");
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
    });
}

#[test]
fn origin_expiry_shortens_and_group_ttl_caps() {
    let server = RedisServer::start();
    run(async {
        let policy = Policy {
            ttl: Some(60_000),
            negative_ttl: None,
        };
        let group = redis_with(&server, LIMITS, policy);
        server.command(&["SET", "short", "v", "PX", "20000"]);
        server.command(&["SET", "long", "v", "EX", "3600"]);
        server.command(&["SET", "ever", "v"]);
        let before = clock::now();
        group.get_all(&["short", "long", "ever"]).await;
        let after = clock::now();
        let within = |key, ms| {
            let expiry = group.expiry(key).expect("an expiry");
            assert!((before + ms - 1000..=after + ms).contains(&expiry), "{key}");
        };
        within("short", 20_000);
        within("long", 60_000);
        within("ever", 60_000);
        // A later expiry never prolongs a copy, an earlier one shortens it.
        assert_eq!(group.expire(b"short", Some(after + 50_000)).await, Ok(true));
        within("short", 20_000);
        assert_eq!(group.expire(b"short", None).await, Ok(true));
        within("short", 20_000);
        assert_eq!(group.expire(b"ever", Some(after + 5_000)).await, Ok(true));
        assert!(group.expiry("ever").expect("an expiry") <= after + 5_000);
        // A put's own expiry is capped as well.
        let put = group.put(b"put", "v".into(), Some(after + 3_600_000)).await;
        put.expect("the put");
        within("put", 60_000);
        assert!(server.command(&["PTTL", "put"]).int() > 3_500_000);

        let policy = Policy {
            ttl: Some(50),
            negative_ttl: None,
        };
        let group = redis_with(&server, LIMITS, policy);
        assert_eq!(group.get("ever").await, some("v"));
        server.command(&["SET", "ever", "w"]);
        group
            .until("the new value", async || {
                group.get("ever").await == some("w")
            })
            .await;
    });
}

#[test]
fn absences_are_remembered_for_the_negative_ttl_only() {
    let server = RedisServer::start();
    run(async {
        let policy = Policy {
            ttl: None,
            negative_ttl: Some(300),
        };
        let group = redis_with(&server, LIMITS, policy);
        assert_eq!(group.get("k").await, Ok(None));
        assert_eq!(group.get("k").await, Ok(None));
        assert_eq!(server.calls("get"), 1);
        server.command(&["SET", "k", "v"]);
        group
            .until("the key is asked for again", async || {
                group.get("k").await == some("v")
            })
            .await;
        // A put ends it at once.
        assert_eq!(group.get("l").await, Ok(None));
        group.put(b"l", "v".into(), None).await.expect("the put");
        assert_eq!(group.get("l").await, some("v"));

        let group = redis(&server);
        let calls = server.calls("get");
        group.get("m").await.expect("an answer");
        group.get("m").await.expect("an answer");
        assert_eq!(server.calls("get"), calls + 2, "without it each read asks");
    });
}

#[test]
fn a_key_of_another_type_is_refused_alone() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        server.command(&["RPUSH", "list", "x"]);
        server.command(&["SET", "a", "1"]);
        let wrong = SourceError::Refused(
            "WRONGTYPE Operation against a key holding the wrong kind of value".into(),
        );
        let answers = group.get_all(&["a", "list", "b"]).await;
        assert_eq!(answers, [some("1"), Err(wrong.clone()), Ok(None)]);
        assert!(!wrong.is_unavailable());
        server.command(&["DEL", "list"]);
        assert_eq!(
            group.get("list").await,
            Ok(None),
            "errors are not remembered"
        );
        assert_eq!(group.health.errors(), 1);
    });
}

#[test]
fn a_refused_write_changes_nothing() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        group.put(b"k", "old".into(), None).await.expect("the put");
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);
        let refused = group.put(b"k", "new".into(), None).await;
        let text = refused.expect_err("refused").to_string();
        assert!(text.starts_with("OOM command not allowed"), "{text}");
        assert_eq!(group.cached("k"), Some(b"old".to_vec()));
        server.command(&["CONFIG", "SET", "maxmemory", "0"]);

        server.command(&["REPLICAOF", "127.0.0.1", &free_port().to_string()]);
        for refused in [
            group.put(b"k", "new".into(), None).await.map(drop),
            group.delete(b"k").await.map(drop),
            group.expire(b"k", Some(clock::now() + 1)).await.map(drop),
        ] {
            let text = refused.expect_err("refused").to_string();
            assert!(text.starts_with("READONLY"), "{text}");
        }
        assert_eq!(group.cached("k"), Some(b"old".to_vec()));
        server.command(&["REPLICAOF", "NO", "ONE"]);
        assert_eq!(server.command(&["GET", "k"]), Reply::bulk("old"));
    });
}

#[test]
fn a_user_without_some_keys_or_commands() {
    let server = RedisServer::start();
    let user = |name: &str, rules: &[&str]| {
        let mut command = vec!["ACL", "SETUSER", name, "on", ">pw"];
        command.extend(rules);
        assert_eq!(server.command(&command), Reply::ok());
    };
    user("some-keys", &["~my:*", "+@all"]);
    user("no-multi", &["~*", "+get", "+pttl", "+ping", "+client"]);
    user("no-pttl", &["~*", "+get", "+multi", "+exec", "+ping"]);
    server.command(&["MSET", "my:1", "1", "my:2", "2", "your", "3"]);
    server.command(&["PEXPIRE", "my:2", "60000"]);
    let open = |name: &str| {
        let url = RedisUrl {
            user: Some(name.to_owned()),
            password: Some("pw".into()),
            ..tcp(server.port())
        };
        plain(url)
    };
    run(async {
        // EXEC fails for all, yet only the forbidden key is refused.
        let group = open("some-keys");
        let answers = group.get_all(&["my:1", "your", "my:2", "my:3"]).await;
        let text = reason(answers[1].clone());
        assert!(text.starts_with("NOPERM"), "{text}");
        assert_eq!(answers[0], some("1"));
        assert_eq!(answers[2..], [some("2"), Ok(None)]);

        // Without MULTI values and expiries come one by one.
        let group = open("no-multi");
        let answers = group.get_all(&["my:1", "my:2", "my:3"]).await;
        assert_eq!(answers, [some("1"), some("2"), Ok(None)]);
        assert!(group.expiry("my:2").is_some());
        assert_eq!(group.get("your").await, some("3"), "replies stay in step");

        let text = reason(open("no-pttl").get("my:1").await);
        assert!(text.starts_with("NOPERM"), "{text}");
    });
}
fn plain(url: RedisUrl) -> Fixture {
    open(&SourceUrl::Redis(url), LIMITS, Policy::default())
}

#[test]
fn concurrent_misses_of_a_key_are_one_get() {
    let server = RedisServer::start();
    run(async {
        server.command(&["SET", "k", "v"]);
        let group = redis(&server);
        let reads: Vec<_> = (0..200)
            .map(|_| {
                let group = group.group.clone();
                tokio::task::spawn_local(async move { group.read(b"k", clock::now()).await })
            })
            .collect();
        for read in reads {
            let value = read.await.expect("no panic").expect("an answer");
            assert_eq!(value.as_deref(), Some(&b"v"[..]));
        }
        assert_eq!(server.calls("get"), 1);
    });
}

#[test]
fn misses_of_one_moment_leave_in_one_write() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        group.until_up().await;
        let mut watcher = server.client();
        let mut reads = || {
            let Reply::Bulk(Some(info)) = watcher.command(&["INFO", "stats"]) else {
                panic!("INFO has no text");
            };
            let info = String::from_utf8(info).expect("text");
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("total_reads_processed:"));
            line.expect("Redis counts reads")
                .parse::<u64>()
                .expect("a number")
        };
        let keys: Vec<String> = (0..100).map(|i| format!("key:{i}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let before = reads();
        // From the reads of several connections, too: what is queued before the task runs leaves together.
        let (one, two) = keys.split_at(50);
        let (one, two) = tokio::join!(group.get_all(one), group.get_all(two));
        // Ours, and the second INFO's own.
        assert_eq!(reads() - before, 2);
        assert!(one.into_iter().chain(two).all(|answer| answer == Ok(None)));
        assert_eq!((server.calls("get"), server.calls("exec")), (100, 1));
    });
}

#[test]
fn many_misses_are_cut_into_transactions() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        let keys: Vec<String> = (0..1000).map(|i| format!("key:{i}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        server.command(&[
            "MSET", "key:0", "a", "key:127", "b", "key:128", "c", "key:999", "d",
        ]);
        let answers = group.get_all(&keys).await;
        assert_eq!(
            answers.iter().filter(|answer| **answer == Ok(None)).count(),
            996
        );
        assert_eq!(
            [0, 127, 128, 999].map(|i: usize| answers[i].clone()),
            ["a", "b", "c", "d"].map(some)
        );
        assert_eq!(server.calls("exec"), 8);
    });
}

#[test]
fn a_frozen_source_meets_the_deadline_and_comes_back() {
    let server = RedisServer::start();
    run(async {
        let limits = Limits {
            timeout: Duration::from_millis(300),
            ..LIMITS
        };
        let group = redis_with(&server, limits, Policy::default());
        group.put(b"hit", "v".into(), None).await.expect("the put");
        server.stop();
        let start = Instant::now();
        let (read, write) = tokio::join!(group.get("k"), group.put(b"w", "v".into(), None));
        let took = start.elapsed();
        let text = "source unavailable: timed out after 300ms (source-timeout)";
        assert_eq!(reason(read), text);
        // The write was sent: it may yet be carried out.
        assert_eq!(
            write,
            Err(SourceError::Lost(
                "timed out after 300ms (source-timeout)".into()
            ))
        );
        assert!(
            took >= limits.timeout && took < 5 * limits.timeout,
            "{took:?}"
        );
        // A read that begins while the next connection is tried meets its deadline, too.
        let start = Instant::now();
        reason(group.get("l").await);
        assert!(start.elapsed() < 5 * limits.timeout);
        assert_eq!(group.get("hit").await, some("v"));
        server.cont();
        group
            .until("service returns", async || group.get("k").await == Ok(None))
            .await;
        group.until_up().await;
        assert_eq!(group.health.in_flight(), 0);
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
        assert_eq!(
            reason(group.get("k").await),
            "source unavailable: connection refused"
        );
        let put = group.put(b"hit", "w".into(), None).await;
        assert_eq!(
            put,
            Err(SourceError::Unavailable("connection refused".into()))
        );
        assert!(
            start.elapsed() < Duration::from_secs(1),
            "at once, not at the deadline"
        );
        assert_eq!(
            group.get("hit").await,
            some("v"),
            "a write that was not sent changes nothing"
        );
        assert_eq!(
            group.health.last_error().as_deref(),
            Some("connection refused")
        );
        server.restart();
        // With no request at all.
        group.until_up().await;
        assert_eq!(group.get("k").await, Ok(None));
        assert_eq!(group.health.reconnects(), 1);
    });
}

#[test]
fn a_source_that_starts_late_is_found() {
    let port = free_port();
    run(async {
        let url = SourceUrl::Redis(tcp(port));
        let group = open(&url, LIMITS, Policy::default());
        assert!(!group.health.is_up());
        // Waits for the attempt under way, then fails with it, long before the deadline.
        let start = Instant::now();
        assert_eq!(
            reason(group.get("k").await),
            "source unavailable: connection refused"
        );
        assert!(start.elapsed() < LIMITS.timeout / 2);
        group.until_down().await;
        let listener = std::net::TcpListener::bind(("127.0.0.1", port)).expect("the port");
        let fake = fake::serve(listener, |_, _| fake::Answer::Bytes(fake::absent(1)));
        group.until_up().await;
        assert_eq!(group.get("k").await, Ok(None));
        group.leave(fake).await;
    });
}

#[test]
fn kills_and_restarts_under_load_lose_no_waiter() {
    let mut server = RedisServer::start();
    run(async {
        let limits = Limits {
            timeout: Duration::from_millis(500),
            ..LIMITS
        };
        let group = redis_with(
            &server,
            limits,
            Policy {
                ttl: Some(1),
                negative_ttl: None,
            },
        );
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
            group
                .until("traffic", async || group.health.fetches() > fetched + 500)
                .await;
            server.kill();
            group
                .until("it is noticed", async || !group.health.is_up())
                .await;
            server.restart();
            group.until_up().await;
        }
        stop.set(true);
        for client in clients {
            let (answers, _) = client.await.expect("no panic");
            assert!(answers > 0);
        }
        group
            .until("nothing is in flight", async || {
                group.health.in_flight() == 0
            })
            .await;
    });
}

#[test]
fn too_many_fetches_in_flight_are_refused_at_once() {
    let server = RedisServer::start();
    run(async {
        let limits = Limits {
            max_in_flight: 4,
            ..LIMITS
        };
        let group = redis_with(&server, limits, Policy::default());
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
            assert_eq!(
                text,
                "source unavailable: too many fetches in flight (source-max-in-flight)"
            );
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
            assert_eq!(
                server.command(&["CLIENT", "KILL", "TYPE", "normal"]),
                Reply::Int(1)
            );
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
        assert_eq!(
            reason(none.get("k").await),
            "source unavailable: NOAUTH Authentication required."
        );
        let wrong = plain(RedisUrl {
            password: Some("guess".into()),
            ..tcp(port)
        });
        let text = reason(wrong.get("k").await);
        assert!(text.starts_with("source unavailable: WRONGPASS"), "{text}");
        let database = plain(RedisUrl {
            password: Some("secret".into()),
            database: 4711,
            ..tcp(port)
        });
        let text = reason(database.get("k").await);
        assert_eq!(text, "source unavailable: ERR DB index is out of range");
    });
}

#[test]
fn commands_go_through_verbatim() {
    let server = RedisServer::start();
    run(async {
        let group = redis(&server);
        let relay = group.source.as_redis().expect("Redis commands");
        let two = "*5\r\n$4\r\nHSET\r\n$1\r\nh\r\n$1\r\nf\r\n$1\r\nv\r\n$0\r\n\r\n*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n";
        // HSET with an odd number of arguments is an error like any other reply.
        let replies = relay.relay(two.into(), 2, false).await.expect("replies");
        assert!(replies[0].starts_with(b"-ERR wrong number"), "{replies:?}");
        assert_eq!(&replies[1][..], b"*0\r\n");
        server.command(&["HSET", "h", "f", "v"]);
        let get = "*2\r\n$7\r\nHGETALL\r\n$1\r\nh\r\n";
        let (resp2, resp3) = tokio::join!(
            relay.relay(get.into(), 1, false),
            relay.relay(get.into(), 1, true)
        );
        assert_eq!(
            &resp2.expect("a reply")[0][..],
            b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
        );
        assert_eq!(
            &resp3.expect("a reply")[0][..],
            b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n"
        );

        // A large reply, and a large command.
        let large = "x".repeat(3_000_000);
        let set = format!(
            "*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$3000000\r\n{large}\r\n*2\r\n$3\r\nGET\r\n$1\r\nl\r\n"
        );
        let replies = relay.relay(set.into(), 2, false).await.expect("replies");
        assert_eq!(&replies[0][..], b"+OK\r\n");
        assert!(replies[1][..] == *format!("$3000000\r\n{large}\r\n").as_bytes());

        // A pinned connection keeps its state; the shared one does not have it.
        let pinned = relay.pin(false).await.expect("a connection");
        let watch = "*2\r\n$5\r\nWATCH\r\n$1\r\nk\r\n";
        assert_eq!(
            &pinned.relay(watch.into(), 1, false).await.expect("a reply")[0][..],
            b"+OK\r\n"
        );
        server.command(&["SET", "k", "changed"]);
        let transaction = "*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nEXEC\r\n";
        let replies = pinned
            .relay(transaction.into(), 3, false)
            .await
            .expect("replies");
        assert_eq!(&replies[2][..], b"*-1\r\n");
        let replies = relay
            .relay(transaction.into(), 3, false)
            .await
            .expect("replies");
        assert_eq!(&replies[2][..], b"*1\r\n$7\r\nchanged\r\n");
        // Once lost it does not come back without its state.
        server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
        group
            .until("it is lost", async || {
                pinned.relay(watch.into(), 1, false).await.is_err()
            })
            .await;
        let again = pinned.relay(watch.into(), 1, false).await;
        assert!(
            matches!(again, Err(SourceError::Unavailable(_))),
            "{again:?}"
        );
        assert!(group.source.ping().await.is_ok());
        assert_eq!(relay.relay("".into(), 0, false).await, Ok(Vec::new()));
    });
}

/// A server that says what the test wants, where a real one cannot be made to.
mod fake {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread::{JoinHandle, spawn},
    };

    pub(crate) enum Answer {
        Bytes(Vec<u8>),
        /// One byte per write.
        Trickle(Vec<u8>),
        /// Then closes the connection.
        Last(Vec<u8>),
    }
    /// Replies to a transaction of `count` reads, none of which finds its key.
    pub(crate) fn absent(count: usize) -> Vec<u8> {
        values(&vec![("$-1\r\n", -2); count])
    }
    /// Replies to a transaction of reads: each key's value as a reply, and its time left.
    pub(crate) fn values(values: &[(&str, i64)]) -> Vec<u8> {
        let mut replies = "+OK\r\n".to_owned() + &"+QUEUED\r\n".repeat(values.len() * 2);
        replies += &format!("*{}\r\n", values.len() * 2);
        for (value, left) in values {
            replies += &format!("{value}:{left}\r\n");
        }
        replies.into_bytes()
    }
    /// Serves connections one after the other until a client leaves of itself: shakes hands, then asks `answer`, with the
    /// number of the connection (from 0) and the request, at each EXEC or SET.
    pub(crate) fn serve(
        listener: TcpListener,
        mut answer: impl FnMut(usize, &[u8]) -> Answer + Send + 'static,
    ) -> JoinHandle<()> {
        spawn(move || {
            for number in 0.. {
                let (mut stream, _) = listener.accept().expect("a client");
                stream.set_nodelay(true).expect("a socket");
                let mut request = Vec::new();
                let mut buffer = [0; 65536];
                loop {
                    let Ok(read @ 1..) = stream.read(&mut buffer) else {
                        return;
                    };
                    request.extend_from_slice(&buffer[..read]);
                    let has = |text: &[u8]| request.windows(text.len()).any(|part| part == text);
                    if has(b"PING\r\n") {
                        stream.write_all(b"+OK\r\n+PONG\r\n").expect("a client");
                    } else if has(b"EXEC\r\n") || has(b"\r\nSET\r\n") {
                        match answer(number, &request) {
                            Answer::Bytes(bytes) => stream.write_all(&bytes).expect("a client"),
                            Answer::Trickle(bytes) => {
                                for byte in bytes {
                                    stream.write_all(&[byte]).expect("a client");
                                }
                            }
                            Answer::Last(bytes) => {
                                stream.write_all(&bytes).expect("a client");
                                break;
                            }
                        }
                    } else {
                        continue;
                    }
                    request.clear();
                }
            }
        })
    }
}

/// A group on a fake server.
fn faked(
    limits: Limits,
    answer: impl FnMut(usize, &[u8]) -> fake::Answer + Send + 'static,
) -> (Fixture, std::thread::JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = SourceUrl::Redis(tcp(listener.local_addr().expect("an address").port()));
    let fake = fake::serve(listener, answer);
    (open(&url, limits, Policy::default()), fake)
}

#[test]
fn reads_owed_by_a_lost_connection_are_sent_once_more_and_writes_are_not() {
    use fake::{Answer, values};
    run(async {
        let sets = Arc::new(AtomicUsize::new(0));
        let seen = sets.clone();
        let (group, fake) = faked(LIMITS, move |number, request| {
            let has = |text: &str| {
                request
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            };
            if has("\r\nSET\r\n") {
                seen.fetch_add(1, Relaxed);
                Answer::Last(Vec::new())
            } else if number == 0 || has("\r\nhopeless\r\n") {
                Answer::Last(Vec::new())
            } else {
                Answer::Bytes(values(&[("$1\r\nv\r\n", -1)]))
            }
        });
        assert_eq!(
            group.get("a").await,
            some("v"),
            "from the second connection"
        );
        assert_eq!(group.cached("a"), Some(b"v".to_vec()));
        let put = group.put(b"a", "w".into(), None).await;
        assert_eq!(
            put,
            Err(SourceError::Lost("connection closed by the source".into()))
        );
        assert_eq!(sets.load(Relaxed), 1);
        assert_eq!(group.cached("a"), None, "it may have been applied");
        let text = reason(group.get("hopeless").await);
        assert_eq!(text, "source unavailable: connection closed by the source");
        assert_eq!(group.get("a").await, some("v"));
        group.leave(fake).await;
    });
}

#[test]
fn replies_may_come_in_any_pieces() {
    use fake::{Answer, values};
    run(async {
        let replies = [
            ("$5\r\n\r\n$-1\r\n", 60_000),
            ("$0\r\n\r\n", -1),
            ("$-1\r\n", -2),
            ("-ERR x\r\n", -1),
        ];
        let (group, fake) = faked(LIMITS, move |_, _| Answer::Trickle(values(&replies)));
        let answers = group.get_all(&["a", "b", "c", "d"]).await;
        let refused = Err(SourceError::Refused("ERR x".into()));
        assert_eq!(answers, [some("\r\n$-1"), some(""), Ok(None), refused]);
        assert!(group.expiry("a").is_some());
        group.leave(fake).await;
    });
}

#[test]
fn nonsense_from_a_source_ends_the_connection() {
    use fake::{Answer, values};
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
            assert_eq!(
                error.as_deref(),
                Some("the source's replies are not those of a Redis server")
            );
            group.leave(fake).await;
        }
    });
}

#[test]
fn values_beyond_the_limit_are_refused_without_being_held() {
    let server = RedisServer::start();
    run(async {
        let limits = Limits {
            max_value: 100_000,
            ..LIMITS
        };
        let group = redis_with(&server, limits, Policy::default());
        server.command(&["SET", "fits", &"x".repeat(100_000)]);
        server.command(&["SET", "over", &"x".repeat(100_001)]);
        server.command(&["SET", "far", &"x".repeat(5_000_000)]);
        let answers = group.get_all(&["over", "fits", "far", "none"]).await;
        assert_eq!(answers[1], some("x".repeat(100_000)));
        assert_eq!(answers[3], Ok(None));
        let text = reason(answers[2].clone());
        assert_eq!(
            text,
            "ERR the source's value of 5000000 bytes is larger than allowed: 100000 (max-value)"
        );
        assert!(answers[0].is_err());
        assert!(group.source.ping().await.is_ok(), "replies stay in step");
    });
}

#[test]
fn a_loading_server_is_down_until_it_has_loaded() {
    use std::io::{Read, Write};
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let fake = std::thread::spawn(move || {
            for pong in [
                "-LOADING Redis is loading the dataset in memory\r\n",
                "+PONG\r\n",
            ] {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut buffer = [0; 1024];
                let _ = stream.read(&mut buffer).expect("a handshake");
                stream
                    .write_all(format!("+OK\r\n{pong}").as_bytes())
                    .expect("a client");
                // Until the client leaves.
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            }
        });
        let group = plain(tcp(port));
        let text = reason(group.get("k").await);
        assert_eq!(
            text,
            "source unavailable: LOADING Redis is loading the dataset in memory"
        );
        group.until_up().await;
        group.leave(fake).await;
    });
}
