//! The state that is built once and passed down: [`App`] for the process, [`Worker`] for each core.
//! Parts of it change at run time ([`App::reload`]).
mod current_metrics;
mod reload;
mod role_swap;
mod tier_shrink;

use crate::{
    clients::{Client, ClientTables, Clients},
    read::{Group, Groups, ProcessGroup, Tier},
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
    special::{self, Special, Specials},
    telemetry::{CommandStats, Counters, History, Logs, Telemetry, Tracer},
    tls::ServerTls,
};
use larder_config::{Address, CheckedConfig, Settings, SourceClass};
use larder_engine::{ListenerKind, Millis};
use larder_ring::{
    peer::{self, PeerClient, Peers},
    replica::{self, Forwarder, Replication},
};
use larder_source::{Fetch, ServerLoads, SourceError, UserServers, no_room_for_key};
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize},
    },
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
    /// Held during a reload.
    reloading: tokio::sync::Mutex<()>,
    /// The addresses that are really bound (port 0 resolved).
    pub bound: Bound,
    /// Workers that serve their clients by io_uring.
    pub workers_with_ring: AtomicUsize,
    /// The counters of every worker, the log level, the start time, the source health of each
    /// group.
    pub telemetry: Telemetry,
    /// The last hours of the metrics, and the latest events.
    pub history: History,
    pub groups: Groups<ProcessGroup>,
    /// Wakes the task that brings tiers down to a lower bound.
    pub bound_changes: BoundChanges,
    /// Snapshots of the memory tiers.
    pub snapshots: Arc<Snapshots>,
    /// The nodes that share their caches; `None`: this one shares nothing.
    pub peers: Option<Arc<Peers>>,
    /// The role of this process: primary or replica.
    pub replication: Arc<Replication>,
    /// The numbers of each Redis command.
    pub commands: CommandStats,
    /// The registry of clients (CLIENT LIST, CLIENT KILL).
    pub clients: Arc<Clients>,
    /// TLS of the listeners; `None`: none speaks it.
    pub tls: Option<Arc<ServerTls>>,
    /// The account of all buffers.
    pub buffers: Arc<Buffers>,
    /// What clients of the Redis protocol have here besides their connections.
    pub tables: ClientTables,
    /// What decides whether requests may go on.
    pub gate: GateState,
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

/// What decides whether requests may go on ([`gate`](crate::gate)).
pub struct GateState {
    /// What is on that requests must look at.
    pub specials: Specials,
    /// The limits on requests.
    pub throttle: Throttle,
    /// CLIENT PAUSE.
    pub pause: Pause,
    /// None can be ordered without `allow-faults`.
    pub faults: Arc<Faults>,
}

/// The addresses on which the process listens.
#[derive(Debug, Clone, Default)]
pub struct Bound {
    /// HTTP listeners.
    pub http: Vec<Address>,
    /// HTTP listeners with TLS.
    pub https: Vec<Address>,
    /// Redis-protocol listeners.
    pub redis: Vec<Address>,
    /// Redis-protocol listeners with TLS.
    pub rediss: Vec<Address>,
    /// memcached listeners.
    pub memcached: Vec<Address>,
    /// memcached listeners with TLS.
    pub memcacheds: Vec<Address>,
    /// The admin listener.
    pub admin: Option<Address>,
}

impl Bound {
    /// The port of the first Redis-protocol listener, a plain one if there is one; 0: there is
    /// none.
    pub fn redis_port(&self) -> u16 {
        self.redis.first().or(self.rediss.first()).map_or(0, Address::port)
    }
}

/// The state of one core. It is not `Send` and needs no lock.
pub struct Worker {
    /// The core's number, from 0.
    pub id: usize,
    /// The state of the process.
    pub app: Arc<App>,
    /// This core's handles of the groups.
    pub groups: Groups<Rc<Group>>,
    /// This core's counters. Only this core writes to them.
    pub counters: Arc<Counters>,
    /// What is on that requests of this core must look at ([`Special`]).
    pub special: Arc<AtomicU32>,
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
        let specials = Specials::new(settings.threads);
        let tiers: Vec<_> = settings.groups.iter().map(Tier::new).collect();
        let lent = tiers.iter().map(|tier| tier.cache.lent().clone()).collect();
        let buffers = Buffers::new(settings.max_buffers, settings.threads, lent);
        let tables = ClientTables::new(&settings, &buffers);
        let servers = ServerLoads::default();
        let group = |(number, tier)| ProcessGroup::new(number, tier, &settings, &buffers, &servers);
        let mut groups: Groups<ProcessGroup> = tiers.into_iter().enumerate().map(group).collect::<Result<_, _>>()?;
        if let Some(data) = &settings.data_file {
            groups.default().source().table.iter().for_each(|table| table.follow_data(data.clone()));
        }
        // The Redis protocol serves only this group.
        groups.default().cache.set_listener(ListenerKind::Tracking, tables.tracking.clone());
        groups.default_mut().publish_events(tables.pubsub.clone(), specials.switch(Special::KeyEvents));
        let faults = Arc::new(Faults::new(specials.switch(Special::Faults)));
        for group in groups.iter().filter(|_| settings.allow_faults) {
            let (source, group) = (group.source(), &group.settings);
            let timeout = group.freshness.source_timeout;
            let is_disk = source.store().is_some();
            let group = group.name.as_str().into();
            source.health().allow_faults(SourceFaults { faults: faults.clone(), group, is_disk, timeout });
        }
        let tls = ServerTls::new(&settings).map_err(RunError::Tls)?.map(Arc::new);
        let caches = groups.caches();
        let peers = peers(&settings, &groups);
        let replication = Arc::new(Replication::new(&settings, &caches));
        if let (Some(_), Some(hindrance)) = (&settings.replication.replica_of, replication.hindrance()) {
            return Err(RunError::Replica(hindrance));
        }
        let primary_http = settings.replication.writes.primary_http().map(|http| (&http.0, "replica-writes"));
        let replica_of = settings.replication.replica_of.as_ref().map(|primary| (primary, "replica-of"));
        for (primary, setting) in replica_of.into_iter().chain(primary_http) {
            let named = |error| RunError::Tls(format!("{error} (setting `{setting}`)"));
            replica::client_tls(primary, &[]).map_err(named)?;
        }
        let mut telemetry = Telemetry::new(settings.threads, logs);
        telemetry.tracer = Arc::new(Tracer::new(settings.otlp.as_ref().map(|otlp| otlp.sample)));
        specials.switch(Special::Tracer).set(telemetry.tracer.is_on());
        telemetry.logs.switch_with_level(specials.switch(Special::DebugLog));
        telemetry.recorder.is_on = specials.switch(Special::Recorder);
        telemetry.slow.times_each = specials.switch(Special::SlowLog);
        telemetry.slow.log_from(settings.slowlog_log_slower_than);
        telemetry.slow.bound(buffers.table(BufferKind::Logs));
        let command_stats = CommandStats::new(settings.threads, commands.counted());
        let users = Users::new(&settings, commands, buffers.table(BufferKind::Users))
            .map_err(|problems| RunError::Users(problems.join("\n")))?;
        let mut clients = Clients::new(settings.threads, connections, buffers.open_files().clone());
        clients.monitors.is_any = specials.switch(Special::Monitors);
        let logs_requests = specials.switch(Special::AccessLog);
        let gate = GateState {
            throttle: Throttle::new(&settings, specials.switch(Special::Throttle)),
            pause: Pause::new(specials.switch(Special::Pause)),
            faults,
            specials,
        };
        let history = History::new(settings.groups.iter().map(|group| group.name.clone()), telemetry.time());
        Ok(App {
            bound,
            workers_with_ring: AtomicUsize::new(0),
            peers,
            snapshots: Snapshots::new(&settings, &groups),
            replication,
            telemetry,
            history,
            groups,
            bound_changes: BoundChanges::default(),
            tls,
            clients: Arc::new(clients),
            buffers,
            tables,
            gate,
            drain: Drain::default(),
            ticks: Ticks::default(),
            commands: command_stats,
            users: Arc::new(users),
            upstream_rights: settings.passthrough.map(|max_age| Arc::new(UpstreamRights::new(max_age))),
            instance: fastrand::u64(..),
            live: LiveSettings::new(&settings, logs_requests),
            running: Mutex::new(config),
            reloading: tokio::sync::Mutex::default(),
            settings,
        })
    }
}

fn peers(settings: &Settings, groups: &Groups<ProcessGroup>) -> Option<Arc<Peers>> {
    let this = settings.peers.this.clone().filter(|_| settings.peers.are_set())?;
    let shared = || groups.iter().filter(|group| group.settings.is_shared);
    let copies = shared().filter(|group| group.settings.source.class() != SourceClass::Memory);
    let caches = |groups: &mut dyn Iterator<Item = &ProcessGroup>| groups.map(|group| group.cache.clone()).collect();
    Some(Arc::new(Peers::new(settings.peers.clone(), this, caches(&mut shared()), caches(&mut { copies }))))
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
        if !self.users.are_own() && self.groups.default().settings.source.class() == SourceClass::Redis {
            return false;
        }
        let gone: Vec<_> = self.clients.list().into_iter().filter(|client| is_gone(client)).collect();
        gone.iter().filter(|client| client.id != own).for_each(|client| client.close());
        gone.iter().any(|client| client.id == own)
    }
}

impl Worker {
    /// Builds the state of core `id`, on that core's runtime. Its sources begin to connect.
    pub fn new(id: usize, app: Arc<App>) -> Worker {
        let faults = app.settings.allow_faults.then_some(&app.gate.faults);
        let client = app
            .peers
            .as_ref()
            .map(|peers| peer::open_client(peers, &app.settings, &app.buffers, app.tls.as_ref(), faults));
        let saves = app.settings.snapshot.file.is_some();
        let open = |group: &ProcessGroup| Rc::new(group.open(&app.telemetry, saves, client.as_ref()));
        let groups = app.groups.iter().map(open).collect();
        let forwarder = Forwarder::new(app.replication.clone());
        let counters = app.telemetry.worker(id).clone();
        let queue_delay = QueueDelay::new(app.settings.max_queue_delay);
        Worker {
            id,
            groups,
            counters,
            queue_delay,
            special: app.gate.specials.of_worker(id),
            longest_turn: LongestTurn::default(),
            peers: client,
            forwarder,
            user_servers: UserServers::default(),
            app,
        }
    }

    /// The group of HTTP routes without a group (setting `http-group`).
    #[inline]
    pub fn http_group(&self) -> &Rc<Group> {
        self.groups.at(self.app.settings.http_group)
    }

    /// A client's turn begins: looks at the line in front of this core.
    #[inline]
    pub fn begin_turn(&self, now: Millis) {
        self.longest_turn.begin(now, &self.counters.longest_turn);
        self.judge();
    }

    /// Decides whether this core takes on requests for entries now.
    #[inline]
    pub fn judge(&self) {
        if self.queue_delay.is_on() {
            let is_refused = self.queue_delay.admission() == Admission::Nothing;
            special::set_bit(&self.special, Special::Overload as u32, is_refused);
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
