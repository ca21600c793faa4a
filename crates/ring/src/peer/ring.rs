//! The ring of consistent hashing: each member has 50 points, and a key belongs to the member of
//! the first point at or after its own.
//!
//! Points and keys are hashed as all nodes of the ring were told ([`RingHash`]): like groupcache
//! hashes them, if Go nodes are to agree on every owner.
//!
//! Two members may have a point in common (a tie). With 64-bit points that never happens in
//! practice: the chance with 512 members is 1 in 5·10¹⁰. With the 32 bits of crc32 it is 1 in 13.
//! The libraries differ:
//! - The original and mailgun's keep a map from point to member: the member that was added last has
//!   the point. So does this ring.
//! - groupcache-go v3 keeps a list that it sorts with an unstable sort, so that the winner depends
//!   on Go's sort. It hashes to 64 bits.
//!
//! So the order of the names matters for ties alone, as it does there: give all nodes the same
//! order. Rings that settle a tie differently differ in their epoch.
mod hash;
#[cfg(test)]
mod tests;

pub use hash::RingHash;

use md5::{Digest, Md5};
use smallvec::SmallVec;

/// Points of each member. Fixed in all groupcache libraries unless the program sets another number.
const REPLICAS: usize = 50;

/// Who owns which keys. Built whole for each set of members; immutable.
#[derive(Debug)]
pub struct Ring {
    hash: RingHash,
    /// In ascending order, all different.
    points: Box<[u64]>,
    /// The member of each point.
    members: Box<[u32]>,
    /// For each value of a point's upper bits, the first point that has it or a greater one; then
    /// the number of points. Points are spread evenly and there are as many buckets, so that a
    /// lookup compares about one point, whatever the size of the ring.
    buckets: Box<[u32]>,
    /// How far a point is shifted for its bucket.
    shift: u32,
    /// How many names the ring was given.
    names: usize,
    /// How many members have at least one point: all, unless a name was given twice.
    owning: usize,
    epoch: u64,
}

impl Ring {
    /// `names`: what each member is called on the ring (`host:port` for groupcache-go v3, the base
    /// URL for mailgun's and the original). They should differ: all points of a name that is
    /// given twice belong to the later one.
    #[must_use]
    pub fn new(hash: RingHash, names: &[&str]) -> Ring {
        let number = |member: usize| u32::try_from(member).expect("a ring has fewer than 2³² members");
        let mut points: Vec<(u64, u32)> = Vec::with_capacity(names.len() * REPLICAS);
        for (member, name) in names.iter().enumerate() {
            points.extend((0..REPLICAS).map(|replica| (hash.of_replica(replica, name), number(member))));
        }
        points.sort_unstable();
        let mut epoch = Epoch::new(hash, names);
        points.dedup_by(|later, kept| {
            let tie = later.0 == kept.0;
            if tie {
                epoch.tie(later.0, names[kept.1 as usize], names[later.1 as usize]);
                kept.1 = later.1;
            }
            tie
        });
        let (points, members): (Vec<u64>, Vec<u32>) = points.into_iter().unzip();

        let bits = points.len().next_power_of_two().ilog2().max(1);
        let shift = u64::BITS - bits;
        let start = |bucket: u64| number(points.partition_point(|point| point >> shift < bucket));
        let buckets = (0..=1 << bits).map(start).collect();

        let mut owning = Seen::new(names.len());
        let owning = members.iter().filter(|member| owning.insert(**member)).count();
        let epoch = epoch.finish();
        Ring { hash, points: points.into(), members: members.into(), buckets, shift, names: names.len(), owning, epoch }
    }

    /// The owner of the key, as an index into the names. `None` if the ring has no members.
    /// Allocates nothing.
    #[must_use]
    pub fn owner(&self, key: &[u8]) -> Option<usize> {
        self.members.get(self.position(key)).map(|member| *member as usize)
    }

    /// The owner of the key, then the other members in the order in which they would inherit it.
    /// Allocates nothing up to 512 members.
    pub fn owners(&self, key: &[u8]) -> impl Iterator<Item = usize> + use<'_> {
        let (before, after) = self.members.split_at(self.position(key));
        let clockwise = after.iter().chain(before);
        let mut seen = Seen::new(self.names);
        // The walk ends with the last member, not at the end of the ring.
        clockwise.filter(move |member| seen.insert(**member)).map(|member| *member as usize).take(self.owning)
    }

    /// A hash of the ring's hash and its names, the same on every node and platform and for every
    /// order of the names. Rings of the same epoch agree on the owner of every key.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The part of the ring that each member owns; together they are 1.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.names];
        let mut before = self.points.last().copied().unwrap_or(0);
        for (point, member) in self.points.iter().zip(&self.members) {
            // 2⁶⁴ as a float.
            shares[*member as usize] += point.wrapping_sub(before) as f64 / (u64::MAX as f64);
            before = *point;
        }
        shares
    }

    /// The position of the first point at or after the key's, which is the first one of all if
    /// there is none.
    fn position(&self, key: &[u8]) -> usize {
        let point = self.hash.of_key(key);
        let bucket = (point >> self.shift) as usize;
        let (start, end) = (self.buckets[bucket] as usize, self.buckets[bucket + 1] as usize);
        let position = start + self.points[start..end].partition_point(|other| *other < point);
        if position == self.points.len() { 0 } else { position }
    }

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

/// A set of members.
struct Seen(SmallVec<[u64; 8]>);

impl Seen {
    fn new(members: usize) -> Seen {
        Seen(SmallVec::from_elem(0, members.div_ceil(64)))
    }

    /// False if the member was in the set.
    fn insert(&mut self, member: u32) -> bool {
        let (word, bit) = (member as usize / 64, 1 << (member % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }
}

/// What goes into a ring's epoch: its hash, the sorted names, and who won each tie.
struct Epoch(Md5);

impl Epoch {
    fn new(hash: RingHash, names: &[&str]) -> Epoch {
        let mut sorted = names.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut epoch = Epoch(Md5::new());
        epoch.text(hash.name());
        sorted.into_iter().for_each(|name| epoch.text(name));
        epoch
    }

    fn tie(&mut self, point: u64, loser: &str, winner: &str) {
        // A name that was given twice ties with itself.
        if loser != winner {
            self.0.update(point.to_be_bytes());
            self.text(winner);
        }
    }

    /// The length first, so that no two lists of names are the same bytes.
    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_be_bytes());
        self.0.update(text);
    }

    fn finish(self) -> u64 {
        let sum: [u8; 16] = self.0.finalize().into();
        u64::from_be_bytes(*sum.first_chunk().expect("16 bytes have a first eight"))
    }
}
