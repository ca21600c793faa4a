//! The state of the sweep that removes what clears by tag ended ([`crate::tag_clears`]).

use crate::{index::ScanAt, time::Millis};

/// How far the search for cleared entries has come.
#[derive(Debug, Default)]
pub(crate) struct TagSweep {
    pub(crate) under_way: Option<UnderWay>,
    /// Something was cleared since the last one began.
    pub(crate) is_wanted: bool,
    pub(crate) next: Millis,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct UnderWay {
    pub(crate) at: ScanAt,
    /// The latest clear when it began.
    pub(crate) latest: u64,
    /// An entry is out of date, but not gone.
    pub(crate) leaves_some: bool,
}
