//! The state that is built once and passed down: [`App`] for the process, [`Worker`] for each core.
//! Parts of it change at run time ([`App::reload`]).
mod current_metrics;
mod reload;
mod tier_shrink;

use crate::{
    clients::{Client, Clients, Cursors, PubSub, SubscribesInFlight, Tracking, push_inbox::Backlog},
    read::{Group, PendingWrites},
    snapshot::Snapshots,
};
use larder_base::{
    buffers::{BufferKind, Buffers},
    identity::{ChangedUsers, CommandCatalog, UpstreamRights, Users},
    lifecycle::{
        RunError,
        drain_phase::Drain,
        faults::{Faults, SourceFaults},
        live_settings::LiveSettings,
        longest_turn::LongestTurn,
        pause::Pause,
        queue_delay::{Admission, OVERLOADED, QueueDelay},
        throttle::Throttle,
        ticks::Ticks,
    },
    telemetry::{CommandStats, Counters, History, Logs, Telemetry, Tracer},
    tls::ServerTls,
};
use larder_config::{CheckedConfig, Coherence, GroupSettings, Settings, SourceUrl, TierMode};
use larder_engine::{Cache, ListenerKind};
use larder_ring::{
    peer::{self, PeerClient, Peers},
    replica::{self, Forwarder, Replication},
};
use larder_source::{
    BreakerPolicy, Fetch, FillPolicy, Freshness, FreshnessTable, Inspection, InspectionCounts, KeyPolicy, ModeRule,
    ModeRules, PrefixTable, ServerLoads, SourceError, SourceLimits, SourceSetup, UserServers, invalidation_scope,
    mode_rules_text, no_room_for_key,
};
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use tier_shrink::BoundChanges;

/// The state that all cores share. `net::run` builds it.
pub struct App {
    /// The checked settings, as at start.
    pub settings: Settings,
    /// Those of the process that change at run time.
    pub live: LiveSettings,
    /// The configuration that runs now.
    pub running: Mutex<CheckedConfig>,
    /// The addresses that are really bound (port 0 resolved).
    pub bound: Bound,
    /// Workers that serve their clients by io_uring.
    pub workers_with_ring: AtomicUsize,
    /// The counters of every worker, the log level, the start time, the source health of each
    /// group.
    pub telemetry: Telemetry,
    /// The last hours of the metrics, and the latest events.
    pub history: History,
    /// The memory tiers, in the order of `Settings::groups`. Index 0 is the group `default`.
    pub caches: Vec<Arc<larder_engine::Cache>>,
    /// Wakes the task that brings tiers down to a lower bound.
    pub bound_changes: BoundChanges,
    /// The shared part of each group's source and its health, in the same order.
    pub sources: Vec<SourceSetup>,
    /// Snapshots of the memory tiers.
    pub snapshots: Arc<Snapshots>,
    /// The nodes that share their caches; `None`: this one shares nothing.
    pub peers: Option<Arc<Peers>>,
    /// The role of this process: primary or replica.
    pub replication: Arc<Replication>,
    /// The freshness of each group's copies, in the same order.
    pub freshness: Vec<Arc<Freshness>>,
    /// The mode rules of each group, in the same order.
    pub modes: Vec<Arc<ModeRules>>,
    /// What became of the sampled hits of each group, in the same order.
    pub inspections: Vec<Arc<InspectionCounts>>,
    /// The pending writes to each group's source, in the same order.
    pub writes: Vec<Arc<PendingWrites>>,
    /// The numbers of each Redis command.
    pub commands: CommandStats,
    /// The registry of clients (CLIENT LIST, CLIENT KILL).
    pub clients: Arc<Clients>,
    /// TLS of the listeners; `None`: none speaks it.
    pub tls: Option<Arc<ServerTls>>,
    /// The byte budget for undelivered pushes.
    pub backlog: Arc<Backlog>,
    /// The account of all buffers.
    pub buffers: Arc<Buffers>,
    /// Open SCAN cursors.
    pub cursors: Cursors,
    /// The CLIENT TRACKING table, used when Larder itself does the tracking.
    pub tracking: Arc<Tracking>,
    /// The pub/sub registry, used without a Redis source.
    pub pubsub: Arc<PubSub>,
    /// Subscribing commands on their way to a Redis source.
    pub subscribes: Arc<SubscribesInFlight>,
    /// The limits on requests.
    pub throttle: Throttle,
    /// The state of CLIENT PAUSE.
    pub pause: Pause,
    /// Faults to order; none can be without `allow-faults`.
    pub faults: Arc<Faults>,
    /// The state of the drain.
    pub drain: Drain,
    /// The ticks of the control thread.
    pub ticks: Ticks,
    /// The users, and what they may do.
    pub users: Arc<Users>,
    /// What the users of a Redis source may do; `None`: clients have the users of this process.
    pub upstream_rights: Option<Arc<UpstreamRights>>,
    /// A random number drawn at start. It distinguishes this run of the server from all others
    /// (entity tags).
    pub instance: u64,
}

/// The addresses on which the process listens.
#[derive(Debug, Clone, Default)]
pub struct Bound {
    /// HTTP listeners.
    pub http: Vec<SocketAddr>,
    /// HTTP listeners with TLS.
    pub https: Vec<SocketAddr>,
    /// Redis-protocol listeners.
    pub redis: Vec<SocketAddr>,
    /// Redis-protocol listeners with TLS.
    pub rediss: Vec<SocketAddr>,
    /// The admin listener.
    pub admin: Option<SocketAddr>,
}

impl Bound {
    /// The port of the first Redis-protocol listener, a plain one if there is one; 0: there is
    /// none.
    pub fn redis_port(&self) -> u16 {
        self.redis.first().or(self.rediss.first()).map_or(0, SocketAddr::port)
    }
}

/// The state of one core. It is not `Send` and needs no lock.
pub struct Worker {
    /// The core's number, from 0.
    pub id: usize,
    /// The state of the process.
    pub app: Arc<App>,
    /// This core's handle of every group. Index 0 is `default`.
    pub groups: Vec<Rc<Group>>,
    /// This core's counters. Only this core writes to them.
    pub counters: Arc<Counters>,
    /// The line in front of this core.
    pub queue_delay: QueueDelay,
    /// Measures this core's turns.
    pub longest_turn: LongestTurn,
    /// This core's way to the other nodes, if there are any.
    pub peers: Option<Rc<PeerClient>>,
    /// This core's connections to the primary, if this process is a replica that forwards writes.
    pub forwarder: Forwarder,
    /// This core's connections to a Redis source as the users of clients.
    pub user_servers: UserServers,
}

/// Keys from this length on are on the account of the buffers while they are fetched. Shorter ones
/// are bounded by `source-max-in-flight`.
const LONG_KEY: usize = 1024;

impl App {
    /// Builds the state that the cores share. Nothing connects or runs yet. `bound` has the
    /// addresses, `connections` is the maximum number of clients, `commands` are those that
    /// users' rules may name and whose calls are counted.
    ///
    /// # Errors
    /// [`RunError::Users`]: the users file cannot be used.
    /// [`RunError::Source`]: a source names a file or host that cannot be used.
    pub fn new(
        config: impl Into<CheckedConfig>,
        logs: Logs,
        bound: Bound,
        connections: usize,
        commands: CommandCatalog,
    ) -> Result<App, RunError> {
        let config = config.into();
        let settings = config.settings.clone();
        let freshness: Vec<_> =
            settings.groups.iter().map(|group| Arc::new(Freshness::new(freshness_table(group)))).collect();
        let cache = |(group, of)| cache(group, of, settings.what_if);
        let caches: Vec<_> = settings.groups.iter().zip(&freshness).map(cache).collect();
        let lent = caches.iter().map(|cache| cache.lent().clone()).collect();
        let buffers = Buffers::new(settings.max_buffers, settings.threads, lent);
        let backlog = Arc::new(Backlog::new(settings.max_backlog, buffers.clone()));
        let tracking = Arc::new(Tracking::new(settings.tracking_table_max_keys, backlog.clone()));
        // The Redis protocol serves only the first group.
        if let Some(cache) = caches.first() {
            cache.set_listener(ListenerKind::Tracking, tracking.clone());
        }
        let faults = Arc::<Faults>::default();
        let sources = sources(&settings, &buffers)?;
        for (group, source) in settings.groups.iter().zip(&sources).filter(|_| settings.allow_faults) {
            let timeout = group.freshness.source_timeout;
            let group = group.name.as_str().into();
            let is_disk = source.store().is_some();
            source.health().allow_faults(SourceFaults { faults: faults.clone(), group, is_disk, timeout });
        }
        let tls = ServerTls::new(&settings).map_err(RunError::Tls)?.map(Arc::new);
        let peers = peers(&settings, &caches);
        let replication = Arc::new(Replication::new(&settings, &caches));
        if let (Some(_), Some(hindrance)) = (&settings.replication.replica_of, replication.hindrance()) {
            return Err(RunError::Replica(hindrance));
        }
        let primary_http = settings.replication.primary_http.as_ref().map(|http| (&http.0, "primary-http"));
        let replica_of = settings.replication.replica_of.as_ref().map(|primary| (primary, "replica-of"));
        for (primary, setting) in replica_of.into_iter().chain(primary_http) {
            let named = |error| RunError::Tls(format!("{error} (setting `{setting}`)"));
            replica::client_tls(primary, &[]).map_err(named)?;
        }
        let mut telemetry = Telemetry::new(settings.threads, logs);
        telemetry.tracer = Arc::new(Tracer::new(settings.otlp.as_ref().map(|otlp| otlp.sample)));
        telemetry.slow.log_from(settings.slowlog_log_slower_than);
        telemetry.slow.set_max_len(settings.slowlog_max_len);
        telemetry.slow.watch_from(settings.latency_monitor_threshold);
        telemetry.slow.bound(buffers.table(BufferKind::Logs));
        let command_stats = CommandStats::new(settings.threads, commands.counted());
        let users = Users::new(&settings, commands, buffers.table(BufferKind::Users))
            .map_err(|problems| RunError::Users(problems.join("\n")))?;
        let history = History::new(settings.groups.iter().map(|group| group.name.clone()), telemetry.time());
        Ok(App {
            bound,
            workers_with_ring: AtomicUsize::new(0),
            peers,
            snapshots: Snapshots::new(&settings, &caches),
            replication,
            telemetry,
            history,
            caches,
            bound_changes: BoundChanges::default(),
            tls,
            pubsub: Arc::new(PubSub::new(backlog.clone())),
            subscribes: Arc::default(),
            tracking,
            backlog,
            sources,
            faults,
            clients: Arc::new(Clients::new(settings.threads, connections, buffers.open_files().clone())),
            cursors: Cursors::new(&buffers),
            buffers,
            inspections: settings.groups.iter().map(|_| Arc::default()).collect(),
            modes: settings.groups.iter().map(|group| Arc::new(ModeRules::of_settings(group))).collect(),
            writes: settings.groups.iter().map(|_| Arc::default()).collect(),
            throttle: Throttle::new(&settings),
            pause: Pause::default(),
            drain: Drain::default(),
            ticks: Ticks::default(),
            commands: command_stats,
            users: Arc::new(users),
            upstream_rights: settings.passthrough.map(|max_age| Arc::new(UpstreamRights::new(max_age))),
            instance: fastrand::u64(..),
            live: LiveSettings::new(&settings),
            running: Mutex::new(config),
            freshness,
            settings,
        })
    }
}

fn peers(settings: &Settings, caches: &[Arc<Cache>]) -> Option<Arc<Peers>> {
    let this = settings.peers.this.clone().filter(|_| settings.peers.are_set())?;
    let shared = || settings.groups.iter().zip(caches).filter(|(group, _)| group.is_shared);
    let copies = shared().filter(|(group, _)| group.source != SourceUrl::None).map(|(_, cache)| cache.clone());
    let all = shared().map(|(_, cache)| cache.clone());
    Some(Arc::new(Peers::new(settings.peers.clone(), this, all.collect(), copies.collect())))
}

impl App {
    /// Closes the connections of users that are gone, and of subscribers whose users may not hear
    /// everything any more. Returns whether the client with the number `own` is among them;
    /// that one has yet to get its reply.
    pub fn users_changed(&self, changed: &ChangedUsers, own: u64) -> bool {
        let is_gone = |client: &Client| {
            let about = client.about.lock();
            let hears = || about.subscriptions.iter().any(|count| *count > 0);
            self.users.find(&about.user).is_none() || changed.hear_less.contains(&*about.user) && hears()
        };
        // At a Redis source without users of ours, the users are that Redis's.
        if !self.users.are_own() && matches!(self.settings.groups[0].source, SourceUrl::Redis(_)) {
            return false;
        }
        let gone: Vec<_> = self.clients.list().into_iter().filter(|client| is_gone(client)).collect();
        gone.iter().filter(|client| client.id != own).for_each(|client| client.close());
        gone.iter().any(|client| client.id == own)
    }

    /// Replaces the mode rules of a group, on all cores at once; `None`: by those of the
    /// configuration. What a rule denies is forgotten.
    ///
    /// # Errors
    /// The group has no tier before a source, so its reads could not be answered otherwise.
    pub fn change_modes(&self, group: &str, rules: Option<Vec<ModeRule>>) -> Result<(), String> {
        let (at, settings) = (self.settings.groups.iter().enumerate())
            .find(|(_, settings)| settings.name == group)
            .ok_or_else(|| format!("there is no group {group}"))?;
        if matches!(settings.source, SourceUrl::None | SourceUrl::Table(_)) {
            return Err(format!("the source of group {group} is {}: its reads have no other answer", settings.source));
        }
        let modes = &self.modes[at];
        match rules {
            Some(rules) => modes.replace(rules),
            None => modes.reset(),
        }
        self.forget_denied(at);
        let until = if modes.are_changed() { " until the next start" } else { "" };
        let now = mode_rules_text(&modes.table());
        tracing::warn!(group, rules = now, "mode rules changed{until}");
        Ok(())
    }

    /// Drops the copies of the keys that the mode rules of a group deny.
    fn forget_denied(&self, group: usize) {
        let table = self.modes[group].table();
        for (prefix, _) in table.iter().filter(|(_, mode)| **mode == TierMode::Deny) {
            self.caches[group].mark_prefix(prefix, true, clock::now());
        }
    }
}

fn cache(group: &GroupSettings, freshness: &Arc<Freshness>, what_if: Option<u32>) -> Arc<Cache> {
    // Half of the keys, a quarter, and so on: at most the share.
    let halvings = |millionths: u32| 1_000_000_u32.div_ceil(millionths.max(1)).next_power_of_two().ilog2();
    // The reads of a table do not go to the tier.
    let reads_tier = !matches!(group.source, SourceUrl::Table(_));
    Cache::new(larder_engine::Config {
        max_memory: group.max_memory,
        max_keys: group.max_keys,
        eviction: group.eviction,
        shards: group.shards,
        default_ttl: group.freshness.ttl.map(millis),
        ttl_jitter: group.ttl_jitter,
        stale_rules: Some(Arc::new(policy(group, freshness, &Arc::default()))),
        what_if: what_if.filter(|_| reads_tier).map(halvings),
        seed: None,
    })
}

fn policy(group: &GroupSettings, freshness: &Arc<Freshness>, modes: &Arc<ModeRules>) -> FillPolicy {
    let coherence = match group.source {
        // Without a source nothing outside can change.
        SourceUrl::None => Coherence::Ttl,
        // The memory map is as fast as the memory tier, so nothing is stored twice.
        SourceUrl::Table(_) => Coherence::Off,
        // Every change goes through Larder, so a written value is as fresh a copy as a read one.
        SourceUrl::Disk(_) => Coherence::Ttl,
        // Announces no change: a lifetime alone bounds the age of a copy.
        SourceUrl::Http(_) | SourceUrl::Postgres(_) | SourceUrl::Demo(_) => Coherence::Ttl,
        SourceUrl::Redis(_) => group.coherence,
    };
    FillPolicy {
        freshness: freshness.clone(),
        modes: modes.clone(),
        inspection: None,
        key_counts: Arc::default(),
        tracer: Arc::default(),
        coherence,
        max_reply: group.cache_replies.unwrap_or(0),
        is_saved: false,
    }
}

/// The policies of a group's keys.
fn freshness_table(group: &GroupSettings) -> FreshnessTable {
    let is_remote = !matches!(group.source, SourceUrl::None | SourceUrl::Table(_) | SourceUrl::Disk(_));
    let of_keys = |freshness| match is_remote {
        true => KeyPolicy::from(freshness),
        // What is on this machine does not outlive its lifetime.
        false => KeyPolicy::from(freshness).never_stale(),
    };
    let prefixes = group.prefixes.iter().map(|of| (of.prefix.as_bytes(), of_keys(&of.freshness)));
    FreshnessTable { own: of_keys(&group.freshness), prefixes: PrefixTable::new(prefixes) }
}

fn sources(settings: &Settings, buffers: &Arc<Buffers>) -> Result<Vec<SourceSetup>, RunError> {
    let servers = ServerLoads::default();
    let source = |group: &GroupSettings| {
        let limits = SourceLimits {
            timeout: group.freshness.source_timeout,
            slow_timeout: settings.source_slow_timeout.max(group.freshness.source_timeout),
            max_in_flight: settings.source_max_in_flight,
            adaptive: settings.source_adaptive,
            breaker: settings
                .source_breaker
                .map(|share| BreakerPolicy { share, window: settings.source_breaker_window }),
            connections: settings.source_connections,
            max_value: settings.max_value,
            max_backlog: settings.max_backlog,
            store: group.store,
        };
        SourceSetup::sharing(&group.source, limits, buffers, &servers)
            .map_err(|reason| RunError::Source { group: group.name.clone(), reason })
    };
    let sources: Vec<SourceSetup> = settings.groups.iter().map(source).collect::<Result<_, _>>()?;
    if let Some((data, source)) = settings.data_file.as_ref().zip(sources.first()) {
        source.follow_data(data);
    }
    Ok(sources)
}

impl Worker {
    /// Builds the state of core `id`, on that core's runtime. Its sources begin to connect.
    pub fn new(id: usize, app: Arc<App>) -> Worker {
        let faults = app.settings.allow_faults.then_some(&app.faults);
        let client = app
            .peers
            .as_ref()
            .map(|peers| peer::open_client(peers, &app.settings, &app.buffers, app.tls.as_ref(), faults));
        let groups = (app.settings.groups.iter().enumerate())
            .map(|(index, settings)| {
                let cache = app.caches[index].clone();
                // A core has a policy of its own, so that cores do not share its reference count.
                let inspection = settings
                    .inspect
                    .map(|share| Arc::new(Inspection::new(share, cache.scratch(), app.inspections[index].clone())));
                let is_saved = app.settings.snapshot.file.is_some() && settings.is_verified();
                let own = policy(settings, &app.freshness[index], &app.modes[index]);
                let policy = Arc::new(FillPolicy {
                    inspection,
                    is_saved,
                    key_counts: app.telemetry.hot_keys.join(index),
                    tracer: app.telemetry.tracer.clone(),
                    ..own
                });
                let announces = matches!(settings.source, SourceUrl::Table(_));
                let watch = (announces || policy.coherence == Coherence::Coherent)
                    .then(|| invalidation_scope(&cache, &policy, &settings.tracking_prefixes));
                let name: Arc<str> = settings.name.as_str().into();
                let source = app.sources[index].open(watch, policy.keeps_replies());
                let (peers, source) = match client.as_ref().filter(|_| settings.is_shared) {
                    Some(client) => {
                        let (group, source) = peer::share(client, &name, &cache, &policy, source);
                        (Some(group), source)
                    }
                    None => (None, source),
                };
                Rc::new(Group { name, cache, source, policy, writes: app.writes[index].clone(), peers })
            })
            .collect();
        let forwarder = Forwarder::new(app.replication.clone());
        let counters = app.telemetry.worker(id).clone();
        let queue_delay = QueueDelay::new(app.settings.max_queue_delay);
        Worker {
            id,
            groups,
            counters,
            queue_delay,
            longest_turn: LongestTurn::default(),
            peers: client,
            forwarder,
            user_servers: UserServers::default(),
            app,
        }
    }

    /// Passes fetches to the source of their group, or refuses them if the core takes on no more
    /// than hits.
    #[inline]
    pub fn fetch(&self, group: &Group, batch: &mut Vec<Fetch>) {
        if batch.iter().any(|fetch| fetch.size() >= LONG_KEY) {
            self.charge_long_keys(batch);
        }
        match self.queue_delay.admission() {
            Admission::All => group.source.fetch(batch),
            Admission::HitsOnly | Admission::Nothing => self.refuse_fetches(batch),
        }
    }

    /// Puts long keys on the account of the buffers while they are fetched, and refuses those for
    /// which there is no room: a client may leave, but its fetches go on.
    #[cold]
    fn charge_long_keys(&self, batch: &mut Vec<Fetch>) {
        let buffers = &self.app.buffers;
        let refused: Vec<Fetch> = batch.extract_if(.., |fetch| !fetch.charge(buffers)).collect();
        for fetch in refused {
            let error = no_room_for_key(fetch.size(), buffers.limit());
            fetch.finish(Err(error), clock::now());
        }
    }

    #[cold]
    fn refuse_fetches(&self, batch: &mut Vec<Fetch>) {
        let (reason, now): (Arc<str>, _) = (OVERLOADED.into(), clock::now());
        self.counters.overloaded_fetches.add(batch.len() as u64);
        for fetch in batch.drain(..) {
            fetch.finish(Err(SourceError::Unavailable(reason.clone())), now);
        }
    }
}

/// A setting's duration in the engine's unit.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
