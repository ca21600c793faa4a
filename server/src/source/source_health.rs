//! How a source is doing: written by the workers' connections, read by `/readyz`, `/metrics` and `INFO`.
use super::{fetch::Fetch, invalidation::InvalidationScope, source_error::SourceError};
use crate::telemetry::{Distribution, Histogram};
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// State and counters of one group's source, shared by all cores. Relaxed throughout: each number stands for itself.
#[derive(Debug, Default)]
pub struct SourceHealth {
    /// Connections that are established.
    up: AtomicUsize,
    /// Connections whose latest attempt failed.
    down: AtomicUsize,
    /// A connection was established at some time.
    was_up: AtomicBool,
    in_flight: AtomicUsize,
    fetches: AtomicU64,
    errors: AtomicU64,
    reconnects: AtomicU64,
    seconds: Histogram,
    /// Connections whose server announces changes, and those whose server refuses to.
    tracking: AtomicUsize,
    untracked: AtomicUsize,
    invalidations: AtomicU64,
    tracking_losses: AtomicU64,
    last_error: Mutex<Option<Arc<str>>>,
}

impl SourceHealth {
    /// The health of a source that cannot fail (`none:`).
    pub fn always_up() -> SourceHealth {
        SourceHealth { up: AtomicUsize::new(1), was_up: AtomicBool::new(true), ..SourceHealth::default() }
    }
    /// Connected, and no connection is down. False until the first connection is made.
    pub fn is_up(&self) -> bool {
        self.up.load(Relaxed) > 0 && self.down.load(Relaxed) == 0
    }
    /// Was a connection ever made? (readiness)
    pub fn was_up(&self) -> bool {
        self.was_up.load(Relaxed)
    }
    /// Is no connection left, and has trying again failed?
    pub fn is_lost(&self) -> bool {
        self.up.load(Relaxed) == 0 && self.down.load(Relaxed) > 0
    }
    /// Fetches handed to the source since the start.
    pub fn fetches(&self) -> u64 {
        self.fetches.load(Relaxed)
    }
    /// Fetches that ended in an error: no answer, or one that refused the key.
    pub fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }
    /// Fetches on their way now.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Relaxed)
    }
    /// How long fetches took that reached the queue, failed ones included.
    pub fn seconds(&self) -> Distribution {
        let mut seconds = Distribution::default();
        seconds.add(&self.seconds);
        seconds
    }
    /// Connections made after the first of each.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Relaxed)
    }
    /// Connections on which the source announces changes.
    pub fn tracking(&self) -> usize {
        self.tracking.load(Relaxed)
    }
    /// Connections on which it was asked to and refused.
    pub fn untracked(&self) -> usize {
        self.untracked.load(Relaxed)
    }
    /// Keys whose change it announced, each connection's counted; "all keys" counts as one.
    pub fn invalidations(&self) -> u64 {
        self.invalidations.load(Relaxed)
    }
    /// How often a connection with announcements was lost, and everything with it.
    pub fn tracking_losses(&self) -> u64 {
        self.tracking_losses.load(Relaxed)
    }
    /// Why the source was last found down or a connection was lost; stays when it is up again.
    pub fn last_error(&self) -> Option<Arc<str>> {
        self.last_error.lock().clone()
    }

    /// Leaves as many of the batch as may be in flight (`max`, all cores together) and ends the others.
    pub(super) fn admit(&self, batch: &mut Vec<Fetch>, max: usize) {
        let admitted = self.begin(batch.len(), max);
        if admitted < batch.len() {
            let now = clock::now();
            let reason: Arc<str> = format!("more than {max} fetches in flight (source-max-in-flight)").into();
            for fetch in batch.drain(admitted..) {
                fetch.finish(Err(SourceError::Unavailable(reason.clone())), now);
            }
        }
    }
    /// Counts up to `count` fetches as in flight, so that at most `max` are, and says how many.
    pub(super) fn begin(&self, count: usize, max: usize) -> usize {
        // Counted first: two cores that ask at once may both get less than the room there is, never more.
        let before = self.in_flight.fetch_add(count, Relaxed);
        let admitted = count.min(max.saturating_sub(before));
        self.in_flight.fetch_sub(count - admitted, Relaxed);
        self.fetches.fetch_add(count as u64, Relaxed);
        self.errors.fetch_add((count - admitted) as u64, Relaxed);
        admitted
    }
    /// An admitted fetch has ended.
    pub(super) fn finished(&self, failed: bool, took: Duration) {
        self.seconds.record_shared(took);
        self.in_flight.fetch_sub(1, Relaxed);
        if failed {
            self.errors.fetch_add(1, Relaxed);
        }
    }
    /// Admitted fetches were dropped with their connection task.
    pub(super) fn abandoned(&self, count: usize) {
        self.in_flight.fetch_sub(count, Relaxed);
        self.errors.fetch_add(count as u64, Relaxed);
    }
    pub(super) fn note_error(&self, reason: &Arc<str>) {
        *self.last_error.lock() = Some(reason.clone());
    }
    pub(super) fn note_invalidations(&self, count: u64) {
        self.invalidations.fetch_add(count, Relaxed);
    }
    pub(super) fn note_reconnect(&self) {
        self.reconnects.fetch_add(1, Relaxed);
    }
}

/// One connection's share in the health: counts it as up, down or neither, and as nothing once dropped.
#[derive(Debug)]
pub(super) struct ConnectionHealth {
    health: Arc<SourceHealth>,
    now: ConnectionState,
}
/// How a connection stands.
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
    /// Moves to `next`; true if that is a change.
    pub(super) fn set(&mut self, next: ConnectionState) -> bool {
        let changed = self.now != next;
        if changed {
            // Entered before left, so that a reader never sees no connection at all where there is one.
            if let Some(count) = self.count(next) {
                count.fetch_add(1, Relaxed);
            }
            if next == ConnectionState::Up {
                self.health.was_up.store(true, Relaxed);
            }
            if let Some(count) = self.count(self.now) {
                count.fetch_sub(1, Relaxed);
            }
            self.now = next;
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

/// A connection's duty to announce changes: from the moment that it was taken on until the connection is lost, in whatever
/// way. Nothing that it vouched for may be taken for fresh any more.
pub(super) struct TrackingGuard {
    health: Arc<SourceHealth>,
    /// `None`: the server refused.
    scope: Option<InvalidationScope>,
}
impl TrackingGuard {
    pub(super) fn new(health: Arc<SourceHealth>, scope: Option<InvalidationScope>) -> TrackingGuard {
        let count = if scope.is_some() { &health.tracking } else { &health.untracked };
        count.fetch_add(1, Relaxed);
        TrackingGuard { health, scope }
    }
}
impl Drop for TrackingGuard {
    fn drop(&mut self) {
        match &self.scope {
            Some(scope) => {
                scope.to.lost();
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
    fn admits_up_to_the_bound_and_again_when_fetches_end() {
        let health = SourceHealth::default();
        assert_eq!(health.begin(3, 4), 3);
        assert_eq!(health.begin(3, 4), 1);
        assert_eq!(health.begin(1, 4), 0);
        assert_eq!(health.in_flight(), 4);
        health.finished(false, Duration::from_millis(3));
        assert_eq!(health.begin(2, 4), 1);
        assert_eq!((health.fetches(), health.errors()), (9, 4));
        assert_eq!((health.seconds().count, health.seconds().seconds()), (1, 0.003));
        health.abandoned(4);
        assert_eq!(health.in_flight(), 0);
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
        assert!(health.was_up());
    }
}
