//! What is built once and passed down: [`App`] for the process, [`Worker`] for each core.
use crate::{
    buffers::Buffers,
    clients::{Clients, Cursors, PubSub, Tracking, push_inbox::Backlog},
    config::{Coherence, GroupSettings, Settings, SourceUrl},
    lifecycle::{RunError, drain_phase::Drain, pause::Pause, throttle::Throttle},
    read::{Group, PendingWrites, invalidation_scope},
    source::{Policy, SourceLimits, SourceSetup},
    telemetry::{CommandCalls, Counters, Logs, Telemetry},
};
use larder_engine::Cache;
use std::{net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

/// Shared by all cores; built by `net::run`.
pub struct App {
    /// The checked configuration, as at start.
    pub settings: Settings,
    /// The addresses really bound (port 0 resolved).
    pub bound: Bound,
    /// Counters of every worker, log level handle, start time, source health per group.
    pub telemetry: Telemetry,
    /// The memory tiers, index 0 is group `default`; same order as `Settings::groups`.
    pub caches: Vec<Arc<larder_engine::Cache>>,
    /// What the workers' sources have in common, and how they are doing; same order.
    pub sources: Vec<SourceSetup>,
    /// Writes under way to the groups' sources; same order.
    pub writes: Vec<Arc<PendingWrites>>,
    /// How often each Redis command was called.
    pub calls: CommandCalls,
    /// Who is connected: CLIENT LIST, CLIENT KILL.
    pub clients: Arc<Clients>,
    /// What clients may leave lying of what they are told unasked.
    pub backlog: Arc<Backlog>,
    /// The account of all buffers.
    pub buffers: Arc<Buffers>,
    /// Where walks through a store go on.
    pub cursors: Cursors,
    /// Which clients hold copies of what, as far as it is Larder that knows.
    pub tracking: Arc<Tracking>,
    /// Who has subscribed to what, without a source.
    pub pubsub: Arc<PubSub>,
    /// The limiters, `None` when nothing is limited.
    pub throttle: Option<Throttle>,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// Whether the process is on its way out.
    pub drain: Drain,
    /// Drawn at random at the start: tells this life of the server from all others (entity tags).
    pub instance: u64,
}

/// Addresses that the process listens on.
#[derive(Debug, Clone, Default)]
pub struct Bound {
    /// HTTP listeners.
    pub http: Vec<SocketAddr>,
    /// Redis-protocol listeners.
    pub redis: Vec<SocketAddr>,
    /// The admin listener.
    pub admin: Option<SocketAddr>,
}

/// One core's view: not `Send`, never locked.
pub struct Worker {
    /// Its number, from 0.
    pub id: usize,
    /// The process.
    pub app: Arc<App>,
    /// This core's handle on every group, index 0 is `default`.
    pub groups: Vec<Rc<Group>>,
    /// This core's counters (single writer).
    pub counters: Arc<Counters>,
}

impl App {
    /// Builds what the cores share. Nothing connects or runs yet. `bound` is where the process listens, at most `connections`
    /// clients are served at a time, and calls of so many `commands` are counted.
    ///
    /// # Errors
    /// [`RunError::Source`]: a source names a file or host that cannot be used.
    pub fn new(
        settings: Settings,
        logs: Logs,
        bound: Bound,
        connections: usize,
        commands: usize,
    ) -> Result<App, RunError> {
        let caches: Vec<_> = settings.groups.iter().map(cache).collect();
        let lent = caches.iter().map(|cache| cache.lent().clone()).collect();
        let buffers = Buffers::new(settings.max_buffers, settings.threads, lent);
        let backlog = Arc::new(Backlog::new(settings.max_backlog, buffers.clone()));
        let tracking = Arc::new(Tracking::new(settings.tracking_table_max_keys, backlog.clone()));
        // The Redis protocol serves the first group only.
        if let Some(cache) = caches.first() {
            cache.set_listener(tracking.clone());
        }
        Ok(App {
            bound,
            telemetry: Telemetry::new(settings.threads, logs),
            caches,
            pubsub: Arc::new(PubSub::new(backlog.clone())),
            tracking,
            backlog,
            sources: sources(&settings, &buffers)?,
            buffers,
            writes: settings.groups.iter().map(|_| Arc::default()).collect(),
            clients: Arc::new(Clients::new(settings.threads, connections)),
            throttle: Throttle::new(&settings),
            pause: Pause::default(),
            drain: Drain::default(),
            calls: CommandCalls::new(settings.threads, commands),
            cursors: Cursors::default(),
            instance: fastrand::u64(..),
            settings,
        })
    }
}

fn cache(group: &GroupSettings) -> Arc<Cache> {
    Cache::new(larder_engine::Config {
        max_memory: group.max_memory,
        max_keys: group.max_keys,
        shards: None,
        default_ttl: group.ttl.map(millis),
        ttl_jitter: group.ttl_jitter,
        seed: None,
    })
}

fn policy(group: &GroupSettings) -> Policy {
    Policy {
        ttl: group.ttl.map(millis),
        negative_ttl: group.negative_ttl.map(millis),
        coherence: match group.source {
            // Nothing behind the tier that could change.
            SourceUrl::None => Coherence::Ttl,
            // The map is as fast as the tier: nothing is kept twice.
            SourceUrl::Table(_) => Coherence::Off,
            // Every change goes through us, and what is written is a copy as good as what is read.
            SourceUrl::Disk(_) => Coherence::Ttl,
            SourceUrl::Redis(_) => group.coherence,
        },
        max_reply: group.cache_replies.unwrap_or(0),
    }
}

fn sources(settings: &Settings, buffers: &Arc<Buffers>) -> Result<Vec<SourceSetup>, RunError> {
    let source = |group: &GroupSettings| {
        let limits = SourceLimits {
            timeout: settings.source_timeout,
            slow_timeout: settings.source_slow_timeout.max(settings.source_timeout),
            max_in_flight: settings.source_max_in_flight,
            connections: settings.source_connections,
            max_value: settings.max_value,
            max_backlog: settings.max_backlog,
            store: group.store,
        };
        SourceSetup::new(&group.source, limits, buffers)
            .map_err(|reason| RunError::Source { group: group.name.clone(), reason })
    };
    settings.groups.iter().map(source).collect()
}

impl Worker {
    /// Builds what belongs to core `id`, on that core's runtime: its sources begin to connect.
    pub fn new(id: usize, app: Arc<App>) -> Worker {
        let groups = (app.settings.groups.iter().enumerate())
            .map(|(index, settings)| {
                let cache = app.caches[index].clone();
                let policy = policy(settings);
                let announces = matches!(settings.source, SourceUrl::Table(_));
                let watch = (announces || policy.coherence == Coherence::Coherent)
                    .then(|| invalidation_scope(&cache, policy, &settings.tracking_prefixes));
                Rc::new(Group {
                    name: settings.name.as_str().into(),
                    cache,
                    source: app.sources[index].open(watch, policy.keeps_replies()),
                    policy,
                    writes: app.writes[index].clone(),
                })
            })
            .collect();
        Worker { id, groups, counters: app.telemetry.worker(id).clone(), app }
    }
}

/// A setting's duration as the engine counts it.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
