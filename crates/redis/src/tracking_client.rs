//! CLIENT TRACKING done by Larder: which reads of a client go into the tracking table, and which
//! client gets the invalidations.
use larder_core::clients::{Client, Tracking, TrackingMode};
use larder_engine::Listening;
use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Included, Unbounded},
    sync::Arc,
};

/// The tracking of one client, until it is dropped.
pub(super) struct Tracker {
    pub(super) tracking: Arc<Tracking>,
    pub(super) client: Arc<Client>,
    pub(super) mode: TrackingMode,
    pub(super) choice: Choice,
    pub(super) redirect: u64,
    pub(super) prefixes: BTreeSet<Box<[u8]>>,
    /// About what the prefixes occupy, here and in the tracking table.
    pub(super) bytes: usize,
    /// CLIENT CACHING was called: the next command is the exception to OPTIN or OPTOUT.
    pub(super) exception: bool,
    pub(super) _listening: Listening,
}

/// The prefix of the set that begins with `prefix`, or with which `prefix` begins. None of the set
/// begins with another, except that all begin with the empty one.
pub(super) fn overlapping<'a>(set: &'a BTreeSet<Box<[u8]>>, prefix: &[u8]) -> Option<&'a [u8]> {
    let behind = set.range::<[u8], _>((Included(prefix), Unbounded)).next().filter(|other| other.starts_with(prefix));
    let before =
        || set.range::<[u8], _>((Unbounded, Excluded(prefix))).next_back().filter(|other| prefix.starts_with(other));
    behind.or_else(before).or_else(|| set.get(&[][..])).map(|other| &**other)
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_prefix_that_overlaps_is_found(candidates in proptest::collection::vec("[ab]{0,4}", 0..12)) {
            let mut set: BTreeSet<Box<[u8]>> = BTreeSet::new();
            for prefix in candidates.iter().map(String::as_bytes) {
                let expected = set.iter().any(|other| other.starts_with(prefix) || prefix.starts_with(other));
                prop_assert_eq!(overlapping(&set, prefix).is_some(), expected);
                if !expected || prefix.is_empty() {
                    set.insert(prefix.into());
                }
            }
        }
    }
}
