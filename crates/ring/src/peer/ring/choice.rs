//! Choices among the owners of a key: by load and by zone. Pure: loads and zones come as functions
//! of the member.
use super::Ring;

impl Ring {
    /// The first of the key's owners whose load leaves room for one more: consistent hashing with
    /// bounded loads (Mirrokni, Thorup and Zadimoghaddam, 2016). No member gets more than
    /// `factor` times the mean, rounded up; 1.25 is usual, and a factor below 1 counts as 1.
    ///
    /// `load` is called for every member, then for the members tried. If the loads rise in between
    /// so that none has room, the owner is chosen.
    pub fn owner_within(&self, key: &[u8], load: impl Fn(usize) -> u64, factor: f64) -> Option<usize> {
        let total = (0..self.names).map(&load).fold(0, u64::saturating_add);
        // One more than there is: the request that is being placed.
        let mean = (total as f64 + 1.0) / self.owning as f64;
        let capacity = (mean * factor.max(1.0)).ceil() as u64;
        self.owners(key).find(|member| load(*member) < capacity).or_else(|| self.owner(key))
    }

    /// The first of the key's first `replicas` owners that is in the caller's zone, else the owner.
    /// For reads alone, of keys that the first `replicas` owners all hold: only the owner takes
    /// writes.
    pub fn owner_in_zone(&self, key: &[u8], replicas: usize, in_zone: impl Fn(usize) -> bool) -> Option<usize> {
        self.owners(key).take(replicas).find(|member| in_zone(*member)).or_else(|| self.owner(key))
    }
}
