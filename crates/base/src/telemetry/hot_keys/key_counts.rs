//! One worker's counts of the reads of one group.
use super::{
    measure::{Measure, PerMeasure},
    session_counts::SessionCounts,
    top_keys::TopKeys,
};
use foldhash::fast::FixedState;
use larder_engine::Millis;
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    hash::{BuildHasher, Hasher},
    sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    time::Duration,
};

/// Slots for keys. The first fifty of a list are right if their counts stand out from what the
/// other slots take in by chance.
const KEY_SLOTS: usize = 2048;
const PREFIX_SLOTS: usize = 128;
/// A prefix ends behind the first `:` or `/` among so many bytes.
const LONGEST_PREFIX: usize = 64;
/// Counts are halved this often, ms.
const PERIOD: u64 = 60_000;
/// All reads are noted until there were 2 to this power, then half of them until there were twice
/// as many, and so on. The same holds for fetches.
const FULL_BITS: u32 = 16;
/// At least one read in 2 to this power is noted, and one fetch.
const FEWEST_BITS: u32 = 6;
/// Where not all reads are noted, one noted read in so many counts for its prefix as well.
const PREFIXES: u64 = 4;

/// One worker's counts of the reads of one group. That worker notes; any thread may read.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct KeyCounts {
    /// Reads that go by before the next one is noted.
    left: AtomicU32,
    /// Fetches that go by before the next one is noted.
    fetches_left: AtomicU32,
    /// Whether a session counts writes.
    counts_writes: AtomicBool,
    /// Made with the first read.
    noted: Mutex<Option<Box<Noted>>>,
}

#[derive(Debug)]
pub(super) struct Noted {
    hasher: FixedState,
    /// State of the random numbers; never 0.
    random: u64,
    /// Reads that the next noted one stands for.
    weight: u64,
    /// Reads so far, halved with the counts.
    seen: u64,
    /// Fetches that the next noted one stands for, and fetches so far, halved with the counts.
    fetch_weight: u64,
    fetches: u64,
    /// When the counts were halved last.
    halved: Millis,
    /// Time that the counts of before stand for, ms.
    earlier: u64,
    pub(super) totals: PerMeasure<u64>,
    pub(super) keys: PerMeasure<TopKeys>,
    pub(super) prefixes: PerMeasure<TopKeys>,
    pub(super) session: Option<Box<SessionCounts>>,
}

impl KeyCounts {
    /// Counts a read: of how many bytes, or `None` if nothing was found in memory.
    #[inline]
    pub fn count(&self, key: &[u8], found: Option<usize>, now: Millis) {
        if self.is_due() {
            self.note_read(key, found, now);
        }
    }

    /// Counts a read. True: [`note_read`](KeyCounts::note_read) must follow.
    #[inline]
    pub fn is_due(&self) -> bool {
        // One thread writes, so nothing comes between the load and the store.
        let left = self.left.load(Relaxed);
        self.left.store(left.wrapping_sub(1), Relaxed);
        left == 0
    }

    /// Notes a read that is due: of how many bytes, or `None` if nothing was found in memory.
    #[cold]
    #[inline(never)]
    pub fn note_read(&self, key: &[u8], found: Option<usize>, now: Millis) {
        let gap = self.with(now, |noted| {
            let weight = noted.weight;
            let micros = 0;
            let of_prefix = match weight {
                1 => 1,
                _ if noted.random().is_multiple_of(PREFIXES) => PREFIXES,
                _ => 0,
            };
            let bytes = found.unwrap_or(0) as u64 * weight;
            noted.add(key, [weight, bytes, u64::from(found.is_none()) * weight, micros], of_prefix);
            noted.add_to_session(key, weight, found.unwrap_or(0), now);
            noted.next_gap()
        });
        // The lists are being read: the next read is noted instead.
        self.left.store(gap.unwrap_or(0), Relaxed);
    }

    /// Notes a write of so many bytes, if there is a session
    /// ([`HotKeys::start`](super::HotKeys::start)): nothing else counts writes.
    #[inline]
    pub fn note_write(&self, key: &[u8], bytes: usize) {
        if self.counts_writes() {
            let now = clock::now();
            self.with(now, |noted| noted.add_to_session(key, 1, bytes, now));
        }
    }

    #[inline]
    pub fn counts_writes(&self) -> bool {
        self.counts_writes.load(Relaxed)
    }

    /// Counts a fetch of a key from the source. After many fetches, a noted one stands for several.
    #[inline]
    pub fn note_fetch(&self, key: &[u8], took: Duration, now: Millis) {
        let left = self.fetches_left.load(Relaxed);
        if left > 0 {
            // A fetch that ends on another core may be left out of the count.
            self.fetches_left.store(left - 1, Relaxed);
            return;
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX >> 16).min(u64::MAX >> 16);
        let gap = self.with(now, |noted| {
            let weight = noted.fetch_weight;
            noted.fetches += weight;
            noted.add(key, [0, 0, 0, micros * weight], 1);
            let gap;
            (noted.fetch_weight, gap) = noted.gap_after(noted.fetches);
            gap
        });
        self.fetches_left.store(gap.unwrap_or(0), Relaxed);
    }

    /// `None` if another thread reads at this moment: a worker does not wait for it.
    fn with<R>(&self, now: Millis, run: impl FnOnce(&mut Noted) -> R) -> Option<R> {
        let mut noted = self.noted.try_lock()?;
        let noted = noted.get_or_insert_with(|| Box::new(Noted::new(now)));
        noted.age(now);
        Some(run(noted))
    }

    /// Looks at the counts; `None`: nothing was noted.
    pub(super) fn look<R>(&self, now: Millis, look: impl FnOnce(&mut Noted) -> R) -> Option<R> {
        let mut noted = self.noted.lock();
        let noted = noted.as_mut()?;
        noted.age(now);
        Some(look(noted))
    }

    /// Begins a session, of which the first reads are all noted, or forgets one.
    pub(super) fn set_session(&self, session: Option<SessionCounts>, now: Millis) {
        let mut noted = self.noted.lock();
        let noted = noted.get_or_insert_with(|| Box::new(Noted::new(now)));
        if session.is_some() {
            noted.seen = 0;
        }
        self.counts_writes.store(session.is_some(), Relaxed);
        noted.session = session.map(Box::new);
    }

    /// Ends a session; its counts stay.
    pub(super) fn end_session(&self, now: Millis) {
        self.counts_writes.store(false, Relaxed);
        self.look(now, |noted| noted.session.iter_mut().for_each(|session| session.until = now));
    }

    /// Forgets everything but a session.
    pub(super) fn clear(&self, now: Millis) {
        if let Some(noted) = &mut *self.noted.lock() {
            let session = noted.session.take();
            **noted = Noted { session, ..Noted::new(now) };
        }
    }
}

impl Noted {
    fn new(now: Millis) -> Noted {
        let tops = |slots| std::array::from_fn(|_| TopKeys::new(slots));
        Noted {
            hasher: FixedState::with_seed(fastrand::u64(..)),
            random: fastrand::u64(1..),
            weight: 1,
            seen: 0,
            fetch_weight: 1,
            fetches: 0,
            halved: now,
            earlier: 0,
            totals: [0; Measure::ALL.len()],
            keys: tops(KEY_SLOTS),
            prefixes: tops(PREFIX_SLOTS),
            session: None,
        }
    }

    /// Time that the counts stand for, ms.
    pub(super) fn span(&self, now: Millis) -> u64 {
        self.earlier + now.saturating_sub(self.halved)
    }

    /// Adds to the counts of a key. What is added to those of its prefix is multiplied by
    /// `of_prefix`, which may be 0.
    fn add(&mut self, key: &[u8], weights: PerMeasure<u64>, of_prefix: u64) {
        let (hash, random) = (self.hash(key), self.random());
        self.seen += weights[0];
        for (at, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0) {
            self.totals[at] += weight;
            self.keys[at].add(hash, key, weight, random.rotate_left(16 * at as u32));
        }
        if of_prefix > 0 {
            let prefix = prefix_of(key);
            let (hash, random) = (self.hash(prefix), self.random());
            for (at, weight) in weights.into_iter().enumerate().filter(|(_, weight)| *weight > 0) {
                self.prefixes[at].add(hash, prefix, weight * of_prefix, random.rotate_left(16 * at as u32));
            }
        }
    }

    fn add_to_session(&mut self, key: &[u8], weight: u64, bytes: usize, now: Millis) {
        if self.session.is_some() {
            let (hash, random) = (self.hash(key), self.random());
            self.session.iter_mut().for_each(|session| session.add((hash, key), weight, bytes, now, random));
        }
    }

    fn hash(&self, name: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(name);
        hasher.finish()
    }

    /// A random number (xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift
    /// generators, scrambled", 2016).
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The number of reads that go by before the next one is noted. It is random, so that no
    /// pattern in the reads is missed.
    fn next_gap(&mut self) -> u32 {
        let gap;
        (self.weight, gap) = self.gap_after(self.seen);
        gap
    }

    /// The weight of the next one that is noted after so many, and the gap before it.
    fn gap_after(&mut self, seen: u64) -> (u64, u32) {
        let bits = (seen >> FULL_BITS).checked_ilog2().unwrap_or(0).min(FEWEST_BITS);
        let gap = match bits {
            0 => 0,
            _ => ((u128::from(self.random()) * ((2 << bits) - 1)) >> 64) as u32,
        };
        (1 << bits, gap)
    }

    /// Halves the counts once for each period that has passed.
    fn age(&mut self, now: Millis) {
        let periods = now.saturating_sub(self.halved) / PERIOD;
        if periods == 0 {
            return;
        }
        let times = u32::try_from(periods).unwrap_or(u32::MAX);
        self.halved += periods * PERIOD;
        self.earlier = (0..periods.min(64)).fold(self.earlier, |earlier, _| (earlier + PERIOD) / 2);
        let halve = |count: &mut u64| *count = count.checked_shr(times).unwrap_or(0);
        halve(&mut self.seen);
        halve(&mut self.fetches);
        self.totals.iter_mut().for_each(halve);
        self.keys.iter_mut().chain(&mut self.prefixes).for_each(|top| top.halve(times));
    }
}

/// What a key has before and with its first `:` or `/`, one at its beginning aside; empty if there
/// is none.
pub fn prefix_of(key: &[u8]) -> &[u8] {
    let looked_at = &key[..key.len().min(LONGEST_PREFIX)];
    let end = looked_at.iter().skip(1).position(|byte| matches!(byte, b':' | b'/'));
    end.map_or(&[], |end| &key[..end + 2])
}
