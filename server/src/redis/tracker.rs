//! A client for which Larder tracks (CLIENT TRACKING): which of its reads are noted, and who is told of changes.
use crate::clients::{Client, Tracking, TrackingMode};
use larder_engine::Listening;
use std::sync::Arc;

/// A client that tracks, until it is dropped.
pub(super) struct Tracker {
    pub(super) tracking: Arc<Tracking>,
    pub(super) client: Arc<Client>,
    pub(super) mode: TrackingMode,
    pub(super) choice: Choice,
    pub(super) redirect: u64,
    /// BCAST.
    pub(super) prefixes: Vec<Box<[u8]>>,
    /// CLIENT CACHING: the next command is the exception.
    pub(super) exception: bool,
    pub(super) _listening: Listening,
}

/// Which reads are tracked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    All,
    OptIn,
    OptOut,
}

impl Drop for Tracker {
    fn drop(&mut self) {
        self.tracking.remove(self.client.id, self.prefixes.iter().map(|prefix| &**prefix));
    }
}

impl Tracker {
    /// Is what the next command reads noted?
    pub(super) fn notes(&self) -> bool {
        match self.choice {
            Choice::All => !self.mode.bcast,
            Choice::OptIn => self.exception,
            Choice::OptOut => !self.exception,
        }
    }
}
