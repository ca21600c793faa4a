//! The health of a source: written by the workers' connections, read by `/readyz`, `/metrics` and
//! `INFO`.
use super::{
    admission::{FetchAdmission, FetchEnd, Rejection, ServerLoads},
    fetch::Fetch,
    invalidation::Invalidations,
    source_error::SourceError,
    source_limits::SourceLimits,
};
use larder_base::{
    lifecycle::faults::SourceFaults,
    telemetry::{AdmissionSnapshot, Distribution, Histogram},
};
use larder_config::SourceUrl;
use larder_engine::Millis;
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// State and counters of one group's source, shared by all cores. All accesses are relaxed: the
/// numbers are independent.
#[derive(Debug, Default)]
pub struct SourceHealth {
    /// Connections that are established.
    up: AtomicUsize,
    /// Connections whose latest attempt failed.
    down: AtomicUsize,
    /// Whether a connection was ever established.
    was_up: AtomicBool,
    /// The process ends: it closes its connections itself.
    is_ending: AtomicBool,
    /// Since when the source is lost, ms; 0: it is not.
    lost_since: AtomicU64,
    fetches: AtomicU64,
    errors: AtomicU64,
    reconnects: AtomicU64,
    seconds: Histogram,
    /// Connections with tracking, and connections whose server refuses tracking.
    tracking: AtomicUsize,
    untracked: AtomicUsize,
    invalidations: AtomicU64,
    tracking_losses: AtomicU64,
    /// How far a stream of changes is behind: ms and bytes.
    lag: (AtomicU64, AtomicU64),
    /// How far the standby that is read is behind, ms.
    replica_lag: AtomicU64,
    last_error: Mutex<Option<Arc<str>>>,
    /// What the log says of each address.
    addresses: Mutex<BTreeMap<String, ConnectionState>>,
    admission: FetchAdmission,
    /// Faults to order; not set: they are not allowed.
    faults: OnceLock<SourceFaults>,
}

impl SourceHealth {
    /// The process begins to end. A connection that is closed from now on is no news for the log.
    pub fn end(&self) {
        self.is_ending.store(true, Relaxed);
    }

    /// From now on the source may have faults.
    pub fn allow_faults(&self, faults: SourceFaults) {
        // Once for each source, at the start.
        let _ = self.faults.set(faults);
    }
    /// The faults of the source, while there are some anywhere.
    #[inline]
    pub(super) fn faults(&self) -> Option<&SourceFaults> {
        self.faults.get().filter(|faults| faults.faults.are_on())
    }
    /// The health of a source with these limits. Groups with the same server and the same `servers`
    /// share its limit.
    pub(super) fn new(url: &SourceUrl, limits: &SourceLimits, servers: &ServerLoads) -> SourceHealth {
        SourceHealth { admission: FetchAdmission::new(url, limits, servers), ..SourceHealth::default() }
    }
    /// The health of a source that cannot fail (`none:`).
    pub fn always_up() -> SourceHealth {
        SourceHealth::default().and_up()
    }
    /// Counts as up from the start.
    pub(super) fn and_up(self) -> SourceHealth {
        SourceHealth { up: AtomicUsize::new(1), was_up: AtomicBool::new(true), ..self }
    }
    /// Connected, and no connection is down. False until the first connection is made.
    pub fn is_up(&self) -> bool {
        self.up.load(Relaxed) > 0 && self.down.load(Relaxed) == 0
    }
    /// Whether a connection was ever made (for readiness).
    pub fn was_up(&self) -> bool {
        self.was_up.load(Relaxed)
    }
    /// Whether no connection is left and a reconnect has failed.
    pub fn is_lost(&self) -> bool {
        self.up.load(Relaxed) == 0 && self.down.load(Relaxed) > 0
    }
    /// For how long the source has been lost at `now`, ms; `None`: it is not.
    pub fn lost_for(&self, now: Millis) -> Option<u64> {
        let since = self.lost_since.load(Relaxed);
        self.is_lost().then(|| now.saturating_sub(if since == 0 { now } else { since }))
    }
    /// Fetches handed to the source since the start.
    pub fn fetches(&self) -> u64 {
        self.fetches.load(Relaxed)
    }
    /// Fetches that ended in an error (no answer, or one that refused the key), and forwarded
    /// commands without an answer.
    pub fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }
    /// Fetches in flight.
    pub fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }
    /// The numbers of circuit, limit and retries.
    pub fn admission_snapshot(&self) -> AdmissionSnapshot {
        self.admission.snapshot()
    }
    /// Durations of admitted fetches, failed ones included.
    pub fn seconds(&self) -> Distribution {
        let mut seconds = Distribution::default();
        seconds.add(&self.seconds);
        seconds
    }
    /// Reconnects: connections made, without the first of each.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Relaxed)
    }
    /// Connections on which the source announces changes.
    pub fn tracking(&self) -> usize {
        self.tracking.load(Relaxed)
    }
    /// Connections whose server refused to announce changes.
    pub fn untracked(&self) -> usize {
        self.untracked.load(Relaxed)
    }
    /// Invalidated keys, summed over connections; "all keys" counts as one.
    pub fn invalidations(&self) -> u64 {
        self.invalidations.load(Relaxed)
    }
    /// How often a tracking connection was lost.
    pub fn tracking_losses(&self) -> u64 {
        self.tracking_losses.load(Relaxed)
    }
    /// How long ago the oldest change was made that a stream of changes has not announced, ms, and
    /// the bytes that it still has to read. 0: it is not behind.
    pub fn lag(&self) -> (u64, u64) {
        (self.lag.0.load(Relaxed), self.lag.1.load(Relaxed))
    }
    /// How far the standby that is read is behind its primary, ms.
    pub fn replica_lag(&self) -> u64 {
        self.replica_lag.load(Relaxed)
    }
    /// The latest reason why the source was down or a connection was lost. It stays when the source
    /// is up again.
    pub fn last_error(&self) -> Option<Arc<str>> {
        self.last_error.lock().clone()
    }

    pub(super) fn admission(&self) -> &FetchAdmission {
        &self.admission
    }
    /// Fetches were handed to the source.
    pub(super) fn note_fetches(&self, count: usize) {
        self.fetches.fetch_add(count as u64, Relaxed);
    }
    /// Fetches were refused, or forwarded commands failed.
    pub(super) fn note_failed(&self, count: usize) {
        self.errors.fetch_add(count as u64, Relaxed);
    }
    /// Admits fetches while at most `max` are in flight on all cores, and fails the others. For
    /// sources without a [`FetchGate`](super::fetch_gate::FetchGate): those on this machine.
    pub(super) fn admit(&self, batch: &mut Vec<Fetch>, max: usize) {
        let count = batch.len();
        self.note_fetches(count);
        let admitted = self.admission.begin(count);
        if admitted < count {
            let now = clock::now();
            let reason: Arc<str> = format!("more than {max} fetches in flight (source-max-in-flight)").into();
            for fetch in batch.drain(admitted..) {
                fetch.finish(Err(SourceError::Unavailable(reason.clone())), now);
            }
            self.note_failed(count - admitted);
            self.admission.rejected(Rejection::Limit, count - admitted);
        }
    }
    pub(super) fn finished(&self, end: FetchEnd, took: Duration) {
        self.finished_at(end, took, Instant::now());
    }
    /// As [`finished`](SourceHealth::finished), at this moment.
    pub(super) fn finished_at(&self, end: FetchEnd, took: Duration, at: Instant) {
        if end != FetchEnd::Answered {
            self.errors.fetch_add(1, Relaxed);
        }
        self.finished_all(1, end, took, at);
    }
    /// So many admitted fetches of the same duration were answered at this moment.
    pub(super) fn answered_all(&self, count: usize, took: Duration, at: Instant) {
        self.finished_all(count, FetchEnd::Answered, took, at);
    }
    fn finished_all(&self, count: usize, end: FetchEnd, took: Duration, at: Instant) {
        self.seconds.record_all_shared(count as u64, took);
        self.admission.finished(count, (end, took), at, || self.last_error());
    }
    /// Admitted fetches were dropped with their connection task.
    pub(super) fn abandoned(&self, count: usize) {
        self.admission.abandoned(count);
        self.errors.fetch_add(count as u64, Relaxed);
    }
    /// Whether one more fetch may be sent a second time.
    pub(super) fn may_retry(&self) -> bool {
        self.admission.may_retry(self.fetches())
    }
    pub(super) fn note_error(&self, reason: &Arc<str>) {
        *self.last_error.lock() = Some(reason.clone());
    }
    pub(super) fn note_invalidations(&self, count: u64) {
        self.invalidations.fetch_add(count, Relaxed);
    }
    pub(super) fn note_lag(&self, lag: Duration, bytes: u64) {
        self.lag.0.store(lag.as_millis().try_into().unwrap_or(u64::MAX), Relaxed);
        self.lag.1.store(bytes, Relaxed);
    }
    pub(super) fn note_replica_lag(&self, lag: Duration) {
        self.replica_lag.store(lag.as_millis().try_into().unwrap_or(u64::MAX), Relaxed);
    }
    pub(super) fn note_reconnect(&self) {
        self.reconnects.fetch_add(1, Relaxed);
    }
}

/// What one connection tells the log about its address. All workers have connections to it, and each
/// event of the address is news once.
#[derive(Debug)]
pub(super) struct AddressInLogs {
    health: Arc<SourceHealth>,
    name: String,
    now: ConnectionState,
}
impl AddressInLogs {
    pub(super) fn new(health: Arc<SourceHealth>, name: String) -> AddressInLogs {
        AddressInLogs { health, name, now: ConnectionState::Unknown }
    }
    /// Sets the connection's state. True if no other connection has told this yet.
    pub(super) fn set(&mut self, next: ConnectionState) -> bool {
        let before = std::mem::replace(&mut self.now, next);
        let mut addresses = self.health.addresses.lock();
        let told = addresses.entry(self.name.clone()).or_insert(ConnectionState::Unknown);
        let is_news = match next {
            // Lost. What was not known to be up, or is told to be down, is not lost.
            ConnectionState::Unknown => before == ConnectionState::Up && *told == ConnectionState::Up,
            _ => before != next && *told != next,
        };
        if is_news {
            *told = next;
        }
        is_news
    }
}

/// One connection's part of the health: counted as up, down or neither, and not at all once
/// dropped.
#[derive(Debug)]
pub(super) struct ConnectionHealth {
    health: Arc<SourceHealth>,
    now: ConnectionState,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// Not tried yet, or just lost.
    Unknown,
    /// Established.
    Up,
    /// The latest attempt failed.
    Down,
}
impl ConnectionHealth {
    pub(super) fn new(health: Arc<SourceHealth>) -> ConnectionHealth {
        ConnectionHealth { health, now: ConnectionState::Unknown }
    }
    /// Sets the state; true if it changed.
    pub(super) fn set(&mut self, next: ConnectionState) -> bool {
        let changed = self.now != next;
        if changed {
            // Counted in the new state first, so that a reader never misses the connection.
            if let Some(count) = self.count(next) {
                count.fetch_add(1, Relaxed);
            }
            if next == ConnectionState::Up {
                self.health.was_up.store(true, Relaxed);
                self.health.admission.connected();
            }
            if let Some(count) = self.count(self.now) {
                count.fetch_sub(1, Relaxed);
            }
            self.now = next;
            let lost_since = &self.health.lost_since;
            match self.health.is_lost() {
                // The first moment counts, until a connection is made. Who fails to write it finds an earlier one.
                true => drop(lost_since.compare_exchange(0, clock::now(), Relaxed, Relaxed)),
                false if next == ConnectionState::Up => lost_since.store(0, Relaxed),
                false => {}
            }
        }
        changed
    }
    fn count(&self, stand: ConnectionState) -> Option<&AtomicUsize> {
        match stand {
            ConnectionState::Unknown => None,
            ConnectionState::Up => Some(&self.health.up),
            ConnectionState::Down => Some(&self.health.down),
        }
    }
}
impl Drop for ConnectionHealth {
    fn drop(&mut self) {
        self.set(ConnectionState::Unknown);
    }
}

/// Exists while a connection tracks (or its server refuses to). Dropping it reports the loss:
/// fetches that the connection vouched for no longer count as fresh.
pub(super) struct TrackingGuard {
    health: Arc<SourceHealth>,
    /// `None`: the server refused.
    to: Option<Arc<dyn Invalidations>>,
}
impl TrackingGuard {
    pub(super) fn new(health: Arc<SourceHealth>, to: Option<Arc<dyn Invalidations>>) -> TrackingGuard {
        let count = if to.is_some() { &health.tracking } else { &health.untracked };
        count.fetch_add(1, Relaxed);
        TrackingGuard { health, to }
    }
}
impl Drop for TrackingGuard {
    fn drop(&mut self) {
        match &self.to {
            Some(to) => {
                if to.lost() && !self.health.is_ending.load(Relaxed) {
                    let seconds = to.patience().as_secs();
                    tracing::warn!(
                        "the source no longer announces changes: copies are served for up to {seconds} s (stale-if-error) while it cannot be asked"
                    );
                }
                self.health.tracking_losses.fetch_add(1, Relaxed);
                self.health.tracking.fetch_sub(1, Relaxed);
            }
            None => {
                self.health.untracked.fetch_sub(1, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_of_an_address_is_news_once() {
        let health = Arc::new(SourceHealth::default());
        let new = |name: &str| AddressInLogs::new(health.clone(), name.to_owned());
        let (mut one, mut two, mut other) = (new("a:1"), new("a:1"), new("b:1"));
        use ConnectionState::{Down, Unknown, Up};
        assert!(one.set(Up) && !two.set(Up) && other.set(Up));
        assert!(one.set(Unknown), "lost");
        assert!(one.set(Down));
        assert!(!two.set(Unknown) && !two.set(Down) && !one.set(Down));
        assert!(one.set(Up) && !two.set(Up));
        assert!(two.set(Down) && !one.set(Down), "a pool that has not connected since");
        assert!(other.set(Unknown));
    }

    #[test]
    fn is_up_only_while_a_connection_stands_and_none_is_down() {
        let health = Arc::new(SourceHealth::default());
        let mut one = ConnectionHealth::new(health.clone());
        let mut two = ConnectionHealth::new(health.clone());
        assert!(!health.is_up());
        one.set(ConnectionState::Up);
        assert!(health.is_up());
        two.set(ConnectionState::Down);
        assert!(!health.is_up() && !health.is_lost(), "one of them stands");
        two.set(ConnectionState::Up);
        drop(one);
        assert!(health.is_up());
        two.set(ConnectionState::Unknown);
        assert!(!health.is_up() && !health.is_lost(), "it is tried again");
        two.set(ConnectionState::Down);
        assert!(health.is_lost());
        assert!(health.lost_for(clock::now() + 5_000).is_some_and(|lost| lost >= 5_000));
        two.set(ConnectionState::Unknown);
        two.set(ConnectionState::Down);
        assert!(health.lost_for(clock::now() + 5_000).is_some_and(|lost| lost >= 5_000), "an attempt does not end it");
        two.set(ConnectionState::Up);
        assert_eq!(health.lost_for(clock::now()), None);
        assert!(health.was_up());
    }
}
