//! Fingerprints of keys in buckets of which each is a FIFO, newest first. Two keys may have one
//! fingerprint, and what was put in long ago is forgotten.

/// Slots of a bucket: half a cache line.
pub(crate) const WAYS: usize = 16;

/// Each with `BITS` bits that its owner gives a meaning. What is put in anywhere ages a given
/// bucket by one over the number of buckets, so the place in the bucket tells how long ago a key
/// was put in.
#[derive(Debug)]
pub(crate) struct Fingerprints<const BITS: u32> {
    /// The fingerprint, never 0, then the bits. 0: free.
    slots: Vec<u16>,
}

impl<const BITS: u32> Fingerprints<BITS> {
    /// With a slot for each of so many entries.
    pub(crate) fn new(entries: usize) -> Self {
        Fingerprints { slots: vec![0; entries.div_ceil(WAYS).max(1) * WAYS] }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u16>()
    }

    pub(crate) fn buckets(&self) -> usize {
        self.slots.len() / WAYS
    }

    /// Where a key's bucket begins, and its fingerprint.
    fn place(&self, hash: u64) -> (usize, u16) {
        (spread(hash, self.buckets()) * WAYS, (hash as u16 & (u16::MAX >> BITS)).max(1))
    }

    fn bucket(&mut self, hash: u64) -> (&mut [u16], u16) {
        let (at, fingerprint) = self.place(hash);
        (&mut self.slots[at..at + WAYS], fingerprint)
    }

    /// True if it was in there.
    pub(crate) fn insert(&mut self, hash: u64, bits: u16) -> bool {
        let (bucket, fingerprint) = self.bucket(hash);
        let found = bucket.iter().position(|slot| slot >> BITS == fingerprint);
        bucket.copy_within(..found.unwrap_or(WAYS - 1), 1);
        bucket[0] = fingerprint << BITS | bits;
        found.is_some()
    }

    pub(crate) fn has(&self, hash: u64) -> bool {
        let (at, fingerprint) = self.place(hash);
        self.slots[at..at + WAYS].iter().any(|slot| slot >> BITS == fingerprint)
    }

    /// Takes it out: its place in its bucket (0 is the latest) and its bits.
    pub(crate) fn take(&mut self, hash: u64) -> Option<(usize, u16)> {
        let (bucket, fingerprint) = self.bucket(hash);
        let age = bucket.iter().position(|slot| slot >> BITS == fingerprint)?;
        let bits = bucket[age] & !(u16::MAX << BITS);
        bucket.copy_within(age + 1.., age);
        bucket[WAYS - 1] = 0;
        Some((age, bits))
    }
}

/// A place among `places`, by the upper half of a hash.
pub(crate) fn spread(hash: u64, places: usize) -> usize {
    (((hash >> 32) * places as u64) >> 32) as usize
}
