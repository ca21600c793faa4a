//! All counters of the process: those of each thread, and what is shown of them together.
use super::{
    hot_keys::HotKeys,
    http_route::HttpDistributions,
    http_route_counts::HttpRouteSums,
    log_limiter::LogLimiter,
    logs::Logs,
    metrics_snapshot::{BuffersSnapshot, FaultsSnapshot, GroupSnapshot, PushSnapshot, Snapshot, TlsSnapshot},
    operation_recorder::Recorder,
    peers_snapshot::PeersSnapshot,
    process_stats::ProcessStats,
    replication_snapshot::ReplicationSnapshot,
    saves_snapshot::SavesSnapshot,
    slow_commands::SlowCommands,
    tracer::Tracer,
    worker_counters::{CounterSums, Counters},
};
use parking_lot::Mutex;
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Log lines about requests of other protocols are at least this far apart.
const FOREIGN_PERIOD: Duration = Duration::from_secs(10);

/// From which commit and by which profile of Cargo.toml the program is built. Only the program itself knows: a room that asked
/// the repository would be compiled again after each commit.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// The commit, or `unknown`.
    pub commit: &'static str,
    /// `release`, `fast`, `debug`.
    pub profile: &'static str,
}
impl Default for Build {
    fn default() -> Build {
        Build { commit: "unknown", profile: "unknown" }
    }
}

/// What the process counts; shared by all threads.
#[derive(Debug)]
pub struct Telemetry {
    /// The level of the logs.
    pub logs: Logs,
    /// What is recorded of the operations, if anybody does.
    pub recorder: Recorder,
    /// Commands that took long.
    pub slow: SlowCommands,
    /// Spans for the collector, if there is one.
    pub tracer: Arc<Tracer>,
    /// Which keys take the most.
    pub hot_keys: HotKeys,
    /// Log lines about requests of other protocols on the Redis port.
    pub foreign: LogLimiter,
    /// Log lines about handshakes that failed.
    pub handshakes: LogLimiter,
    /// Log lines about headers of the PROXY protocol that were refused.
    pub proxy_headers: LogLimiter,
    /// How the program was built.
    pub build: Build,
    started: Instant,
    started_at: SystemTime,
    /// One for each worker, and the last for the control thread.
    threads: Vec<Arc<Counters>>,
    /// The sums at the latest CONFIG RESETSTAT.
    reset: Mutex<CounterSums>,
}

impl Telemetry {
    /// For so many workers, beginning now.
    pub fn new(workers: usize, logs: Logs) -> Telemetry {
        Telemetry {
            logs,
            recorder: Recorder::new(workers),
            slow: SlowCommands::default(),
            tracer: Arc::default(),
            hot_keys: HotKeys::default(),
            foreign: LogLimiter::new(FOREIGN_PERIOD),
            handshakes: LogLimiter::new(FOREIGN_PERIOD),
            proxy_headers: LogLimiter::new(FOREIGN_PERIOD),
            build: Build::default(),
            started: Instant::now(),
            started_at: SystemTime::now(),
            threads: (0..=workers).map(|_| Arc::default()).collect(),
            reset: Mutex::default(),
        }
    }
    /// A worker's counters.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker(&self, id: usize) -> &Arc<Counters> {
        assert!(id + 1 < self.threads.len(), "worker {id} was not announced to Telemetry::new");
        &self.threads[id]
    }
    /// The control thread's counters: what happens before a connection has a worker.
    pub fn control(&self) -> &Arc<Counters> {
        self.threads.last().expect("there is one more than workers")
    }
    /// Connections open now, of all protocols, worker by worker.
    fn worker_connections(&self) -> impl Iterator<Item = u64> {
        let (_control, workers) = self.threads.split_last().expect("there is one more than workers");
        workers.iter().map(|counters| {
            let opened = counters.http_connections_opened.get()
                + counters.redis_connections_opened.get()
                + counters.memcached_connections_opened.get();
            let closed = counters.http_connections_closed.get()
                + counters.redis_connections_closed.get()
                + counters.memcached_connections_closed.get();
            // Read one after the other: one that ends in between must not count below zero.
            opened.saturating_sub(closed)
        })
    }
    /// All threads' counts since the start. Never goes back.
    pub fn sums(&self) -> CounterSums {
        let mut sums = CounterSums::default();
        self.threads.iter().for_each(|counters| sums.add(counters));
        sums
    }
    /// All threads' counts since the latest [`reset`](Self::reset), for INFO.
    pub fn sums_since_reset(&self) -> CounterSums {
        self.sums().since(&self.reset.lock())
    }
    /// CONFIG RESETSTAT: INFO begins at zero again. `/metrics` goes on, as its readers expect of
    /// counters.
    pub fn reset(&self) {
        *self.reset.lock() = self.sums();
        self.threads.iter().for_each(|counters| counters.longest_turn.reset());
    }
    /// The longest turn of a worker since the latest [`reset`](Self::reset), CPU time.
    pub fn longest_turn(&self) -> Duration {
        let longest = self.threads.iter().map(|counters| counters.longest_turn.get()).max();
        Duration::from_micros(longest.unwrap_or_default())
    }
    /// Time since the start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
    /// The time since the Unix epoch, by the clock of the machine, as in the log. It may be set back
    /// and forward.
    pub fn time(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
    /// How long HTTP requests took, by route.
    pub fn http_times(&self) -> HttpDistributions {
        let mut sums = HttpDistributions::default();
        self.threads.iter().for_each(|counters| counters.http_times.add_to(&mut sums));
        sums
    }
    /// Statuses and bytes of HTTP requests, by route.
    fn http_routes(&self) -> HttpRouteSums {
        let mut sums = HttpRouteSums::default();
        self.threads.iter().for_each(|counters| counters.http_routes.add_to(&mut sums));
        sums
    }
    /// Everything at this moment. `groups` in the order of the configuration.
    pub fn snapshot(&self, groups: Vec<GroupSnapshot>, pushes: PushSnapshot, buffers: BuffersSnapshot) -> Snapshot {
        Snapshot {
            version: env!("CARGO_PKG_VERSION"),
            commit: self.build.commit,
            profile: self.build.profile,
            started: self.started_at.duration_since(UNIX_EPOCH).unwrap_or_default(),
            uptime: self.uptime(),
            dropped_log_lines: self.logs.dropped_lines(),
            process: ProcessStats::read(),
            sums: self.sums(),
            longest_turn: self.longest_turn(),
            worker_connections: self.worker_connections().collect(),
            http_times: self.http_times(),
            http_routes: self.http_routes(),
            groups,
            pushes,
            buffers,
            peers: PeersSnapshot::default(),
            replication: ReplicationSnapshot::default(),
            tls: TlsSnapshot::default(),
            faults: FaultsSnapshot::default(),
            saves: SavesSnapshot::default(),
            commands: Vec::new(),
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Telemetry::new(0, Logs::default())
    }
}
