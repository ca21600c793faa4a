//! A counter that one thread writes and any thread reads.
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// A number that one thread adds to and any thread reads.
///
/// Adding is a load and a store, not a locked instruction: with one writer nothing can come between
/// them. Relaxed is enough, because no other memory is read on the strength of a counter.
#[derive(Default)]
pub struct Counter(AtomicU64);
impl Counter {
    /// Adds; only the counter's own thread may.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }
    /// Adds from any thread, at the cost of a locked instruction.
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
/// The largest number of those that one thread notes and any thread reads.
#[derive(Debug, Default)]
pub struct Maximum(AtomicU64);
impl Maximum {
    /// Notes a number.
    pub fn note(&self, n: u64) {
        self.0.fetch_max(n, Relaxed);
    }
    /// The largest number.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
    /// Begins again.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}
impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
