//! The marks of a shard: what was stored before them under a prefix is out of date, or gone
//! ([`crate::staleness`]).

use crate::{sweep_state::Sweep, time::Millis};
use std::sync::Arc;

/// The entries of a shard under a prefix, up to a version.
#[derive(Debug)]
pub(crate) struct Mark {
    pub(crate) version: u64,
    pub(crate) since: Millis,
    /// All shards share it.
    pub(crate) prefix: Arc<[u8]>,
    /// They are gone, not only out of date.
    pub(crate) is_final: bool,
}

/// The marks of one shard, and how far the sweep has come.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Oldest first.
    pub(crate) marks: Vec<Mark>,
    pub(crate) sweep: Option<Sweep>,
    /// When the next sweep may begin.
    pub(crate) next_sweep: Millis,
}

impl Mark {
    pub(crate) fn has_ended(&self, keep: u64, now: Millis) -> bool {
        self.is_final || now >= self.since.saturating_add(keep)
    }
}

impl Marks {
    pub(crate) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        // Each shard counts all of a prefix: what the others hold must not change its number.
        self.marks.capacity() * size_of::<Mark>() + self.marks.iter().map(|mark| mark.prefix.len()).sum::<usize>()
    }

    /// The first mark that covers an entry, unless a final one does: then that.
    pub(crate) fn of(&self, key: &[u8], version: u64) -> Option<&Mark> {
        let mut covering = self.marks.iter().filter(|mark| version <= mark.version && key.starts_with(&mark.prefix));
        let first = covering.next()?;
        if first.is_final { Some(first) } else { covering.find(|mark| mark.is_final).or(Some(first)) }
    }
}
