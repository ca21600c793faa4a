//! What the policies have in common.
use std::collections::HashMap;

/// Keys by a fast hash without a seed, so that replays are reproducible.
pub(super) type KeyMap<T> = HashMap<u64, T, foldhash::fast::FixedState>;

/// A policy that holds at most a number of keys.
pub(in super::super) trait ReferencePolicy {
    /// Its name in results.
    const NAME: &'static str;

    /// Holds nothing, and at most `entries` keys (at least one).
    fn new(entries: usize) -> Self;

    /// A key is read, and stored if it was not held. True for a hit.
    fn request(&mut self, key: u64) -> bool;
}
