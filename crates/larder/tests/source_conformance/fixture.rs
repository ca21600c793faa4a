//! A group on a source, and what the tests ask of it.
use super::common::{PATIENCE, RedisServer, wait_until};
use larder_config::{Coherence, Deployment, RedisAddress, RedisUrl, SourceUrl};
use larder_core::read::{Group, StartedRead};
use larder_engine::{Cache, Config, StaleRules};
use larder_source::{FillPolicy, SourceError, SourceHealth, SourceLimits, SourceSetup, invalidation_scope};
use larder_store::clock;
use std::{
    future::Future,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) const LIMITS: SourceLimits = SourceLimits {
    timeout: Duration::from_secs(20),
    slow_timeout: Duration::from_secs(20),
    max_in_flight: 10_000,
    adaptive: true,
    breaker: None,
    connections: 1,
    max_value: 512 * 1024 * 1024,
    max_backlog: 32 << 20,
    store: larder_store::disk::StoreSettings::DEFAULT,
};

/// Runs a test on a runtime like a worker's; what never ends fails.
pub(crate) fn run<F: Future<Output = ()>>(test: F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).expect("a runtime");
    let limited = async { tokio::time::timeout(3 * PATIENCE, test).await };
    runtime.block_on(limited).expect("a test that hangs");
}

pub(crate) struct Fixture {
    pub(crate) group: Rc<Group>,
    pub(crate) health: Arc<SourceHealth>,
}
impl std::ops::Deref for Fixture {
    type Target = Rc<Group>;
    fn deref(&self) -> &Rc<Group> {
        &self.group
    }
}
pub(crate) fn open(url: &SourceUrl, limits: SourceLimits, policy: FillPolicy) -> Fixture {
    open_with(url, limits, policy, &[])
}
/// The setup of a source. A store that was closed may seem to be in use for a moment: a program that
/// another test starts has this process's locks until its `exec`.
pub(crate) fn setup(url: &SourceUrl, limits: SourceLimits) -> SourceSetup {
    let mut setup = None;
    wait_until("a source", || match SourceSetup::new(url, limits, &larder_base::buffers::Buffers::unbounded()) {
        Err(error) if error.contains("in use by this process") => false,
        result => {
            setup = Some(result.expect("a source"));
            true
        }
    });
    setup.expect("waited for")
}

/// In mode `coherent`, with these `tracking-prefixes`.
pub(crate) fn open_with(url: &SourceUrl, limits: SourceLimits, policy: FillPolicy, prefixes: &[&str]) -> Fixture {
    let setup = setup(url, limits);
    let policy = Arc::new(policy);
    let stale_rules: Option<Arc<dyn StaleRules>> = Some(policy.clone());
    let (max_memory, default_ttl) = (64 * 1024 * 1024, policy.of(b"").ttl);
    let cache = Cache::new(Config { max_memory, default_ttl, stale_rules, ..Config::default() });
    let watch = (policy.coherence == Coherence::Coherent).then(|| invalidation_scope(&cache, &policy, prefixes));
    let source = setup.open(watch, policy.keeps_replies());
    let group = Rc::new(Group {
        number: 0,
        name: "default".into(),
        cache,
        source,
        policy,
        writes: Arc::default(),
        peers: None,
        events: None,
    });
    Fixture { group, health: setup.health().clone() }
}
pub(crate) fn tcp(port: u16) -> RedisUrl {
    RedisUrl {
        deployment: Deployment::Single,
        address: RedisAddress::Tcp { host: "127.0.0.1".to_owned(), port },
        tls: None,
        user: None,
        password: None,
        password_file: None,
        database: 0,
    }
}
pub(crate) fn redis(server: &RedisServer) -> Fixture {
    let url = SourceUrl::Redis(tcp(server.port()));
    open(&url, LIMITS, FillPolicy::default())
}
pub(crate) fn redis_with(server: &RedisServer, limits: SourceLimits, policy: FillPolicy) -> Fixture {
    open(&SourceUrl::Redis(tcp(server.port())), limits, policy)
}

impl Fixture {
    pub(crate) async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, SourceError> {
        let read = self.read(key.as_ref(), clock::now()).await;
        read.map(|value| value.map(|bytes| bytes.to_vec()))
    }
    /// Begins all reads, fetches their misses as one batch, awaits them.
    pub(crate) async fn get_all(&self, keys: &[&str]) -> Vec<Result<Option<Vec<u8>>, SourceError>> {
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
                StartedRead::Hit(value) => Ok(Some(value)),
                StartedRead::Absent => Ok(None),
                StartedRead::Wait(wait) => Group::end(wait).await,
            };
            answers.push(answer.map(|value| value.map(|bytes| bytes.to_vec())));
        }
        answers
    }
    /// Polls `check` until it holds.
    pub(crate) async fn until<F: Future<Output = bool>>(&self, what: &str, check: impl Fn() -> F) {
        let start = Instant::now();
        while !check().await {
            assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    pub(crate) async fn until_up(&self) {
        self.until("connected", async || self.health.is_up()).await;
    }
    pub(crate) async fn until_down(&self) {
        self.until("down", async || !self.health.is_up() && self.source.ping().await.is_err()).await;
    }
    /// Drops the group, which ends its connections, and waits for a fake server to see that.
    pub(crate) async fn leave(self, fake: std::thread::JoinHandle<()>) {
        drop(self);
        let start = Instant::now();
        while !fake.is_finished() {
            assert!(start.elapsed() < PATIENCE, "the connection stays open");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        fake.join().expect("no panic");
    }
    pub(crate) fn cached(&self, key: &str) -> Option<Vec<u8>> {
        let key = self.cache.key(key.as_bytes());
        let mut tier = self.cache.tier();
        tier.peek(key, clock::now(), |e| e.value.as_bytes().to_vec())
    }
    pub(crate) fn expiry(&self, key: &str) -> Option<u64> {
        let key = self.cache.key(key.as_bytes());
        let mut tier = self.cache.tier();
        tier.peek(key, clock::now(), |e| e.expiry()).flatten()
    }
    pub(crate) fn forget(&self, key: impl AsRef<[u8]>) {
        self.cache.invalidate(self.cache.key(key.as_ref()));
    }
}
pub(crate) fn some(value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, SourceError> {
    Ok(Some(value.as_ref().to_vec()))
}
pub(crate) fn reason(answer: Result<Option<Vec<u8>>, SourceError>) -> String {
    answer.expect_err("an error").to_string()
}

pub(crate) fn plain(url: RedisUrl) -> Fixture {
    open(&SourceUrl::Redis(url), LIMITS, FillPolicy::default())
}
