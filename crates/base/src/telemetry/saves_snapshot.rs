//! The numbers of snapshots of the memory tiers.
use std::time::Duration;

/// The numbers of snapshots of the memory tiers.
#[derive(Debug, Clone, Default)]
pub struct SavesSnapshot {
    pub in_progress: bool,
    pub saves: u64,
    pub failures: u64,
    /// Changes that the last snapshot does not have.
    pub changes: u64,
    /// Of the last save that succeeded.
    pub last: Option<LastSaveSnapshot>,
    /// Of what was restored.
    pub verification: Option<VerificationSnapshot>,
}

/// The verification of restored copies, in entries.
#[derive(Debug, Clone, Copy, Default)]
pub struct VerificationSnapshot {
    /// Still to be looked at.
    pub left: u64,
    pub same: u64,
    pub changed: u64,
    pub gone: u64,
    pub overtaken: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct LastSaveSnapshot {
    /// Since the Unix epoch.
    pub at: Duration,
    pub took: Duration,
    pub entries: u64,
    pub bytes: u64,
}
