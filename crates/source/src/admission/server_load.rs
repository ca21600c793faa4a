//! The fetches in flight at one server, of all groups whose source it is: the limit, and each
//! group's fair share of it.
use super::concurrency_limit::{ConcurrencyLimit, LatencyWindow, WINDOW};
use crate::source_limits::SourceLimits;
use larder_config::SourceUrl;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{
            AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// The share of the limit below which fetches in the background begin. They leave the rest free for
/// others.
pub(crate) const FOREGROUND: (usize, usize) = (3, 4);

/// The loads of all servers, so that groups of one server find the same. Built once, at start.
#[derive(Debug, Default)]
pub struct ServerLoads(Mutex<HashMap<String, Arc<ServerLoad>>>);
impl ServerLoads {
    pub(super) fn of(&self, url: &SourceUrl, limits: &SourceLimits) -> Arc<ServerLoad> {
        let load = || Arc::new(ServerLoad::new(limits.max_in_flight, limits.adaptive));
        match server(url) {
            Some(server) => self.0.lock().entry(server).or_insert_with(load).clone(),
            None => load(),
        }
    }
}

/// Names the server behind a URL: without user, database and path. `None`: no other group can have
/// this source.
fn server(url: &SourceUrl) -> Option<String> {
    match url {
        SourceUrl::Redis(url) => Some(format!("{}{:?}", url.address, url.deployment)),
        SourceUrl::Http(url) => Some(url.origin()),
        SourceUrl::Postgres(url) => Some(format!("postgres://{}", url.origin())),
        SourceUrl::Cassandra(url) => Some(format!("cassandra://{}", url.origin())),
        // Each has a delay of its own.
        SourceUrl::None | SourceUrl::Table(_) | SourceUrl::Disk(_) | SourceUrl::Demo(_) => None,
    }
}

/// What logs call the source: a server of many groups without user, database and path.
pub(super) fn server_name(url: &SourceUrl) -> String {
    match url {
        SourceUrl::Redis(url) => url.address.to_string(),
        SourceUrl::Http(url) => url.origin(),
        SourceUrl::Postgres(url) => url.origin(),
        SourceUrl::Cassandra(url) => url.origin(),
        SourceUrl::None | SourceUrl::Table(_) | SourceUrl::Disk(_) | SourceUrl::Demo(_) => url.to_string(),
    }
}

#[derive(Debug, Default)]
pub(crate) struct GroupLoad {
    pub(crate) in_flight: AtomicUsize,
    /// Not sent yet.
    pub(crate) waiting: AtomicUsize,
}

/// All groups' fetches at one server.
#[derive(Debug)]
pub(crate) struct ServerLoad {
    started: Instant,
    max: usize,
    limit: AtomicUsize,
    in_flight: AtomicUsize,
    waiting: AtomicUsize,
    groups: Mutex<Vec<Arc<GroupLoad>>>,
    /// Told when a waiting fetch may be sent.
    pub(crate) freed: Notify,
    /// The limit's window: when it ends (nanoseconds since `started`), and what was seen in it.
    window_end: AtomicU64,
    samples: AtomicU64,
    sample_nanos: AtomicU64,
    peak: AtomicUsize,
    machine: Mutex<ConcurrencyLimit>,
}
impl ServerLoad {
    pub(crate) fn new(max: usize, adaptive: bool) -> ServerLoad {
        ServerLoad {
            started: Instant::now(),
            max,
            limit: AtomicUsize::new(max),
            in_flight: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            groups: Mutex::default(),
            freed: Notify::new(),
            window_end: AtomicU64::new(nanos(WINDOW)),
            samples: AtomicU64::new(0),
            sample_nanos: AtomicU64::new(0),
            peak: AtomicUsize::new(0),
            machine: Mutex::new(ConcurrencyLimit::new(max, adaptive)),
        }
    }
    pub(crate) fn join(&self) -> Arc<GroupLoad> {
        let group = Arc::new(GroupLoad::default());
        self.groups.lock().push(group.clone());
        group
    }
    pub(crate) fn max(&self) -> usize {
        self.max
    }
    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }
    /// Whether so many more fetches take up at most this share of the limit.
    pub(crate) fn is_below(&self, more: usize, share: (usize, usize)) -> bool {
        (self.in_flight.load(Relaxed) + more) * share.1 <= self.limit() * share.0
    }
    /// How many more fetches of a group may be taken over, in flight and waiting together: what is
    /// free, and at least what is missing to its share. So a group that fills the queue does
    /// not shut out the others.
    pub(crate) fn room(&self, group: &GroupLoad) -> usize {
        let free = self.max.saturating_sub(self.in_flight.load(Relaxed) + self.waiting.load(Relaxed));
        if free > 0 {
            return free;
        }
        let share = self.max / self.groups.lock().len().max(1);
        share.saturating_sub(group.in_flight.load(Relaxed) + group.waiting.load(Relaxed))
    }

    /// Counts up to `count` fetches as in flight. Returns how many, within the limit and the
    /// group's share of it.
    pub(crate) fn begin(&self, group: &GroupLoad, count: usize) -> usize {
        let count = count.min(self.allowance(group));
        // Added first: two cores at the same time may get less than what is free, never more.
        let before = self.in_flight.fetch_add(count, SeqCst);
        let begun = count.min(self.limit().saturating_sub(before));
        if begun < count {
            self.in_flight.fetch_sub(count - begun, SeqCst);
        }
        group.in_flight.fetch_add(begun, Relaxed);
        self.peak.fetch_max(before + begun, Relaxed);
        begun
    }
    /// What a group may add while other groups wait: only so much that each of them comes to its
    /// share.
    fn allowance(&self, group: &GroupLoad) -> usize {
        if self.waiting.load(SeqCst) == group.waiting.load(SeqCst) {
            return usize::MAX;
        }
        let others: Vec<(usize, usize)> = {
            let groups = self.groups.lock();
            let others = groups.iter().filter(|other| !std::ptr::eq(&***other, group));
            others.map(|other| (other.in_flight.load(Relaxed), other.waiting.load(Relaxed))).collect()
        };
        allowance(self.limit(), group.in_flight.load(Relaxed), &others)
    }
    /// Fetches have left: with their latency, if it says something about the server.
    pub(crate) fn end(&self, group: &GroupLoad, count: usize, latency: Option<Duration>, at: Instant) {
        group.in_flight.fetch_sub(count, Relaxed);
        self.in_flight.fetch_sub(count, SeqCst);
        if let Some(latency) = latency {
            self.sample_nanos.fetch_add(nanos(latency).saturating_mul(count as u64), Relaxed);
            self.samples.fetch_add(count as u64, Relaxed);
            let now = at.saturating_duration_since(self.started);
            if nanos(now) >= self.window_end.load(Relaxed) {
                self.end_window(now);
            }
        }
        self.wake();
    }
    fn end_window(&self, now: Duration) {
        let mut machine = self.machine.lock();
        if nanos(now) < self.window_end.load(Relaxed) {
            return;
        }
        self.window_end.store(nanos(now + WINDOW), Relaxed);
        let samples = self.samples.swap(0, Relaxed);
        let total = self.sample_nanos.swap(0, Relaxed);
        let peak = self.peak.swap(self.in_flight.load(Relaxed), Relaxed);
        if let Some(mean) = total.checked_div(samples) {
            machine.end_window(now, LatencyWindow { mean: Duration::from_nanos(mean), peak });
            self.limit.store(machine.limit(), SeqCst);
        }
    }
    /// The limit starts low and doubles.
    pub(crate) fn restart(&self) {
        let mut machine = self.machine.lock();
        machine.restart();
        self.limit.store(machine.limit(), SeqCst);
        // Latencies from before say nothing about the server as it is now.
        self.samples.store(0, Relaxed);
        self.sample_nanos.store(0, Relaxed);
        self.window_end.store(nanos(self.started.elapsed() + WINDOW), Relaxed);
    }
    pub(crate) fn wait(&self, group: &GroupLoad, count: usize) {
        self.waiting.fetch_add(count, SeqCst);
        group.waiting.fetch_add(count, SeqCst);
    }
    pub(crate) fn waited(&self, group: &GroupLoad, count: usize) {
        group.waiting.fetch_sub(count, SeqCst);
        self.waiting.fetch_sub(count, SeqCst);
    }
    /// Lets the cores look whether their waiting fetches may be sent.
    pub(crate) fn wake(&self) {
        // A core counts its waiting fetches before it looks for a free slot, so one of the two sees the
        // other.
        if self.waiting.load(SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }
}

/// What a group with `mine` fetches in flight may add; `others` are the groups' fetches in flight
/// and waiting. Each group that has fetches is due the same share. A group above its share gets
/// nothing while one below it waits.
pub(crate) fn allowance(limit: usize, mine: usize, others: &[(usize, usize)]) -> usize {
    let active = 1 + others.iter().filter(|(in_flight, waiting)| in_flight + waiting > 0).count();
    let share = (limit / active).max(1);
    match others.iter().any(|(in_flight, waiting)| *waiting > 0 && *in_flight < share) {
        true => share.saturating_sub(mine),
        false => usize::MAX,
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
