//! How far the walks have come that remove what marks and clears of tags ended ([`crate::sweep`]).

use crate::{index::ScanAt, time::Millis};

/// A walk that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep {
    pub(crate) at: ScanAt,
    pub(crate) begun: Millis,
    /// The newest mark, or the latest clear, when it began.
    pub(crate) version: u64,
    /// An entry is out of date, but not gone.
    pub(crate) leaves_some: bool,
}

impl Sweep {
    /// From the first entry on.
    pub(crate) fn new(version: u64, now: Millis) -> Sweep {
        Sweep { at: ScanAt::START, begun: now, version, leaves_some: false }
    }
}

/// The search for what clears of tags ended.
#[derive(Debug, Default)]
pub(crate) struct TagSweep {
    pub(crate) under_way: Option<Sweep>,
    /// Something was cleared since the last one began.
    pub(crate) is_wanted: bool,
    pub(crate) next: Millis,
}
