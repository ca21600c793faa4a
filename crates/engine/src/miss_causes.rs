//! Misses by cause.

/// Misses by cause. Together they are all misses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MissCauses {
    /// The key was not held before, or so long ago that it is forgotten.
    pub unknown: u64,
    /// Its lifetime was over.
    pub expired: u64,
    /// It was evicted for room.
    pub evicted: u64,
    /// It was deleted, invalidated or cleared.
    pub invalidated: u64,
    /// What was fetched for it did not fit.
    pub too_large: u64,
    /// What was fetched for it was not to be kept: a value, or that there is none.
    pub not_kept: u64,
    /// A fetch of the key was under way already.
    pub in_flight: u64,
    /// A reply was wanted ([`Derived`](crate::Derived)), or only replies about the key are held.
    /// Why is not remembered.
    pub reply: u64,
}

impl MissCauses {
    pub(crate) fn add(&mut self, other: &MissCauses) {
        let MissCauses { unknown, expired, evicted, invalidated, too_large, not_kept, in_flight, reply } = other;
        self.unknown += unknown;
        self.expired += expired;
        self.evicted += evicted;
        self.invalidated += invalidated;
        self.too_large += too_large;
        self.not_kept += not_kept;
        self.in_flight += in_flight;
        self.reply += reply;
    }

    /// All of them.
    pub fn sum(&self) -> u64 {
        let MissCauses { unknown, expired, evicted, invalidated, too_large, not_kept, in_flight, reply } = self;
        unknown + expired + evicted + invalidated + too_large + not_kept + in_flight + reply
    }
}
