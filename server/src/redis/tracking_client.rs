//! CLIENT TRACKING done by Larder: which reads of a client go into the tracking table, and which
//! client gets the invalidations.
use crate::clients::{Client, Tracking, TrackingMode};
use larder_engine::Listening;
use std::sync::Arc;

/// The tracking of one client, until it is dropped.
pub(super) struct Tracker {
    pub(super) tracking: Arc<Tracking>,
    pub(super) client: Arc<Client>,
    pub(super) mode: TrackingMode,
    pub(super) choice: Choice,
    pub(super) redirect: u64,
    /// The prefixes of BCAST.
    pub(super) prefixes: Vec<Box<[u8]>>,
    /// CLIENT CACHING was called: the next command is the exception to OPTIN or OPTOUT.
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
    /// Whether the next command's reads are tracked.
    pub(super) fn notes(&self) -> bool {
        match self.choice {
            Choice::All => !self.mode.bcast,
            Choice::OptIn => self.exception,
            Choice::OptOut => !self.exception,
        }
    }
}
