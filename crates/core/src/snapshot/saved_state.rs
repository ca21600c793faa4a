//! What is known of saves and of the load, for INFO, the admin route and those who wait.
use larder_engine::Millis;
use larder_store::snapshot::{Loaded, SaveProgress};
use std::time::Duration;

/// Why no save was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SaveRefused {
    /// There is no file to write.
    #[error("there is nowhere to write a snapshot: set snapshot-file")]
    Off,
    /// One is being written.
    #[error("a snapshot is being written already")]
    InProgress,
    /// The last one is being loaded.
    #[error("the snapshot is still being loaded; a new one would take its place without what is not loaded yet")]
    Loading,
    /// The thread that writes could not be started.
    #[error("the system has no thread for the snapshot")]
    NoThread,
}

/// The end of a save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSave {
    /// When it ended.
    pub at: Millis,
    /// How long it took.
    pub took: Duration,
    /// What was written, or why nothing was.
    pub result: Result<SaveProgress, String>,
}

/// The last save that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// When it ended.
    pub at: Millis,
    /// How long it took.
    pub took: Duration,
    /// What was written.
    pub progress: SaveProgress,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadStatus {
    /// Nothing is or was loaded.
    None,
    /// It is under way.
    Loading {
        /// What was done so far.
        loaded: Loaded,
        /// Bytes read.
        bytes: u64,
        /// Bytes of the file.
        total: u64,
        /// When it began.
        since: Millis,
    },
    /// It is over. The text says at which damage, if it ended before the end of the file.
    Done(Loaded, Option<String>),
}

/// How far a verification is. The counts are of entries of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VerificationStatus {
    /// All of them.
    pub entries: u64,
    /// The source had the same value.
    pub same: u64,
    /// It had another, or one that is not kept.
    pub changed: u64,
    /// It had none.
    pub gone: u64,
    /// A client had read or written the key before.
    pub overtaken: u64,
    /// It is over.
    pub is_done: bool,
}

impl VerificationStatus {
    /// Entries that were looked at.
    pub fn looked_at(&self) -> u64 {
        self.same + self.changed + self.gone + self.overtaken
    }
}

/// Everything at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The file; `None`: snapshots are off.
    pub file: Option<String>,
    /// The save under way: how far it is, for how long it has been, and the entries that the tiers
    /// had when it began.
    pub saving: Option<(SaveProgress, Duration, u64)>,
    /// The last save that has ended.
    pub last: Option<LastSave>,
    /// The last save that succeeded.
    pub success: Option<Success>,
    /// When it ended; the start of the process before there was one.
    pub last_success: Millis,
    /// Saves that succeeded.
    pub saves: u64,
    /// Saves that failed.
    pub failures: u64,
    /// Writes, fills and deletes that the last snapshot does not have, or that came while it was
    /// written.
    pub changes: u64,
    pub load: LoadStatus,
    /// How far the verification is of what was restored; `None`: nothing is or was verified.
    pub verification: Option<VerificationStatus>,
}

impl SnapshotStatus {
    /// Whether the last save failed.
    pub fn has_failed(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.result.is_err())
    }
}
