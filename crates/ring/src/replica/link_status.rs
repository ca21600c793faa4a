//! How a replica stands to its primary: what INFO, ROLE and the metrics show.
use larder_engine::Millis;
use parking_lot::Mutex;
use std::sync::atomic::{
    AtomicI64, AtomicU8, AtomicU64,
    Ordering::{Relaxed, Release},
};
use tokio::sync::Notify;

/// The state of the connection to the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum LinkState {
    /// None; another attempt follows.
    Down = 0,
    /// It is being made.
    Connecting = 1,
    /// A full copy is under way.
    Copying = 2,
    /// Changes arrive.
    Connected = 3,
}

/// How a replica stands to its primary. The link's task writes, others read.
#[derive(Debug, Default)]
pub struct LinkStatus {
    state: AtomicU8,
    /// Since when there is no connection, ms; 0: there is one, or there was none yet.
    pub(super) down_since: AtomicU64,
    /// When something last arrived.
    pub(super) heard_at: AtomicU64,
    /// When the last mark arrived: what the primary had changed before it sent this is here.
    pub(super) marked_at: AtomicU64,
    /// Changes before that mark.
    pub(super) changes: AtomicU64,
    /// The primary's clock minus this one's, at that mark, ms.
    pub(super) clock_difference: AtomicI64,
    pub(super) full_copies: AtomicU64,
    pub(super) resumptions: AtomicU64,
    pub(super) applied: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Of the primary's logs.
    log_id: AtomicU64,
    /// A mark has arrived, or the state has changed.
    pub(super) marked: Notify,
    error: Mutex<Option<String>>,
}

impl LinkStatus {
    pub fn state(&self) -> LinkState {
        match self.state.load(Relaxed) {
            1 => LinkState::Connecting,
            2 => LinkState::Copying,
            3 => LinkState::Connected,
            _ => LinkState::Down,
        }
    }
    pub(super) fn set_state(&self, state: LinkState) {
        self.state.store(state as u8, Release);
        self.marked.notify_waiters();
    }

    /// There is another primary, from which nothing has arrived.
    pub(super) fn begin(&self, now: Millis) {
        self.down_since.store(now.max(1), Relaxed);
        self.marked_at.store(0, Relaxed);
        self.set_state(LinkState::Down);
    }

    /// Whether the primary answers: changes arrive, or the last pull has ended well. Between pulls
    /// there is no connection, which is as it should be.
    pub fn is_up(&self) -> bool {
        match self.state() {
            LinkState::Connected => true,
            LinkState::Copying => false,
            LinkState::Down | LinkState::Connecting => {
                self.down_since.load(Relaxed) == 0 && self.marked_at.load(Relaxed) > 0
            }
        }
    }

    /// Seconds since the connection was lost; `None`: there is one, or there never was.
    pub fn down_for(&self, now: Millis) -> Option<u64> {
        let since = self.down_since.load(Relaxed);
        (since > 0).then(|| now.saturating_sub(since) / 1000)
    }

    /// Seconds since something arrived; `None`: nothing ever has.
    pub fn silent_for(&self, now: Millis) -> Option<u64> {
        let heard = self.heard_at.load(Relaxed);
        (heard > 0).then(|| now.saturating_sub(heard) / 1000)
    }

    /// The age of what this replica has, ms: every change that the primary made earlier is here.
    /// `None`: it has no complete copy yet.
    pub fn behind_for(&self, now: Millis) -> Option<u64> {
        let marked = self.marked_at.load(Relaxed);
        (marked > 0).then(|| now.saturating_sub(marked))
    }

    /// The primary's changes that are here.
    pub fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }
    /// The primary's clock minus this one's, at the last mark, ms. The time that the mark was under
    /// way makes it smaller.
    pub fn clock_difference(&self) -> i64 {
        self.clock_difference.load(Relaxed)
    }
    /// Full copies that were begun.
    pub fn full_copies(&self) -> u64 {
        self.full_copies.load(Relaxed)
    }
    /// Connections that went on where the last one ended.
    pub fn resumptions(&self) -> u64 {
        self.resumptions.load(Relaxed)
    }
    /// Entries, deletions and clears that were applied.
    pub fn applied(&self) -> u64 {
        self.applied.load(Relaxed)
    }
    /// Entries that are larger than the memory tier here takes.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// What distinguishes the primary's logs from others; 0: nothing is known of them.
    pub(super) fn log_id(&self) -> u64 {
        self.log_id.load(Relaxed)
    }
    pub(super) fn set_log_id(&self, id: u64) {
        self.log_id.store(id, Relaxed);
    }

    /// Why the last connection ended, or could not be made.
    pub fn error(&self) -> Option<String> {
        self.error.lock().clone()
    }
    pub(super) fn set_error(&self, error: Option<String>) {
        *self.error.lock() = error;
    }
}
