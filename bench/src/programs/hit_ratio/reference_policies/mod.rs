//! Policies of the literature, written plainly, for comparison. They decide about keys alone and
//! store nothing.
//!
//! Each follows the paper or the program that its file names, with the parameters given there.
//! Speed and memory do not matter here, and nothing else uses them.
mod links;
mod s3_fifo;
mod sieve;
mod sketch;
#[cfg(test)]
mod tests;
mod w_tiny_lfu;

pub(super) use s3_fifo::S3Fifo;
pub(super) use sieve::Sieve;
pub(super) use w_tiny_lfu::WTinyLfu;

use std::collections::HashMap;

/// Keys by a fast hash without a seed, so that replays are reproducible.
type KeyMap<T> = HashMap<u64, T, foldhash::fast::FixedState>;

/// A policy that holds at most a number of keys.
pub(super) trait ReferencePolicy {
    /// Its name in results.
    const NAME: &'static str;

    /// Holds nothing, and at most `entries` keys (at least one).
    fn new(entries: usize) -> Self;

    /// A key is read, and stored if it was not held. True for a hit.
    fn request(&mut self, key: u64) -> bool;
}
