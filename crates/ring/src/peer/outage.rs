//! How long a node is left alone that could not be reached, or that does not serve a group.
use larder_engine::Millis;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// How long a node is left alone after the first failure, ms; doubled by each further one.
const FIRST_REST: u64 = 250;
/// The longest such time, ms.
const LONGEST_REST: u64 = 8_000;

/// Failures in a row, and the pause after them. Shared by all cores.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: AtomicU32,
    /// There is no attempt before then.
    rests_until: AtomicU64,
}

impl Outage {
    /// Whether the latest attempt failed.
    pub(super) fn is_on(&self) -> bool {
        self.failures.load(Relaxed) > 0
    }

    /// Whether there may be an attempt now: the latest did not fail, or this is the one to find
    /// out. Others are told no meanwhile.
    pub(super) fn may_ask(&self, now: Millis) -> bool {
        if !self.is_on() {
            return true;
        }
        let until = self.rests_until.load(Relaxed);
        until <= now && self.rests_until.compare_exchange(until, now + FIRST_REST, Relaxed, Relaxed).is_ok()
    }

    /// An attempt succeeded. True if that ends an outage.
    pub(super) fn end(&self) -> bool {
        self.is_on() && self.failures.swap(0, Relaxed) > 0
    }

    /// A pause without an attempt. True if an outage begins.
    pub(super) fn rest(&self, now: Millis) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed);
        self.rests_until.fetch_max(now + FIRST_REST, Relaxed);
        failures == 0
    }

    /// An attempt failed. True if an outage begins.
    pub(super) fn failed(&self, now: Millis) -> bool {
        let failures = self.failures.fetch_add(1, Relaxed);
        let rest = LONGEST_REST.min(FIRST_REST << failures.min(10));
        self.rests_until.fetch_max(now + rest, Relaxed);
        failures == 0
    }
}
