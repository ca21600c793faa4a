//! One shard: index, log, wheel, ghost and flights under one lock. The only writer of any of them.
//!
//! Every method that may change what is held ends in [`Shard::settle`], the one place where bytes and keys are put on the
//! cache's account. Room is made after a write, not before: for the moment inside the lock a shard may be over by one entry.

use crate::{
    Millis,
    budget::{Budget, Charged},
    clock::Clock,
    entry::{Change, Condition, Entry, Expiry, LargeValue, Stored, TooLarge, Value, Write},
    flight::Flights,
    ghost::Ghost,
    index::{Hint, Index, ScanAt},
    log::{Large, Log, Queue},
    record::{self, Body, MAX_KEY, MAX_VALUE, Meta, Parts, body},
    wheel::Wheel,
};
use foldhash::quality::FixedState;
use std::hash::BuildHasher;

/// Scratch larger than this is given back after use.
const SCRATCH: usize = 64 << 10;
/// Hints of vanished entries that the wheel may hold before each write looks for some to forget.
const STRAY_HINTS: usize = 1024;

/// A key together with its hash, computed once per request by [`Cache::key`](crate::Cache::key).
#[derive(Debug, Clone, Copy)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
}

impl<'k> Key<'k> {
    /// The key's bytes.
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// Its 64-bit hash under this cache's seed.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// What all shards of a cache go by.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) budget: Budget,
    /// Bytes that an entry of any size cannot have: the shards themselves and the segments that one record opens.
    pub(crate) fixed: usize,
    pub(crate) hasher: FixedState,
    /// Milliseconds; 0 for none.
    pub(crate) default_ttl: std::sync::atomic::AtomicU64,
    /// Per cent.
    pub(crate) jitter: u8,
}

/// Counters of one cache, summed over its shards.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Entries held, expired ones that are not yet reclaimed included.
    pub entries: u64,
    /// Remembered absences.
    pub negative_entries: u64,
    /// Bytes on the account of the bound.
    pub used_bytes: u64,
    /// Bytes of records and large values that live.
    pub live_bytes: u64,
    /// The bound.
    pub max_bytes: u64,
    /// Bytes of open segments.
    pub segment_bytes: u64,
    /// Bytes of large entries.
    pub large_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes of the ghost.
    pub ghost_bytes: u64,
    /// Bytes of the timing wheel.
    pub wheel_bytes: u64,
    /// Fetches in flight.
    pub flights: u64,
    /// Reads answered.
    pub hits: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Reads answered by a remembered absence.
    pub negative_hits: u64,
    /// Entries that were stored under a key that had none.
    pub insertions: u64,
    /// Entries dropped for room.
    pub evictions: u64,
    /// Entries dropped for time.
    pub expirations: u64,
    /// Fills that were not stored because a write or an invalidation overtook them.
    pub fenced_fills: u64,
}

impl Stats {
    pub(crate) fn add(&mut self, other: &Stats) {
        let Stats {
            entries,
            negative_entries,
            used_bytes: _,
            live_bytes,
            max_bytes: _,
            segment_bytes,
            large_bytes,
            index_bytes,
            ghost_bytes,
            wheel_bytes,
            flights,
            hits,
            misses,
            negative_hits,
            insertions,
            evictions,
            expirations,
            fenced_fills,
        } = other;
        self.entries += entries;
        self.negative_entries += negative_entries;
        self.live_bytes += live_bytes;
        self.segment_bytes += segment_bytes;
        self.large_bytes += large_bytes;
        self.index_bytes += index_bytes;
        self.ghost_bytes += ghost_bytes;
        self.wheel_bytes += wheel_bytes;
        self.flights += flights;
        self.hits += hits;
        self.misses += misses;
        self.negative_hits += negative_hits;
        self.insertions += insertions;
        self.evictions += evictions;
        self.expirations += expirations;
        self.fenced_fills += fenced_fills;
    }
}

#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) index: Index,
    pub(crate) log: Log,
    pub(crate) ghost: Ghost,
    pub(crate) flights: Flights,
    wheel: Wheel,
    clock: Clock,
    scratch: Vec<u8>,
    /// Where the entry being written lies: it is not evicted to make room for itself.
    pub(crate) newest: u32,
    /// Entries that are remembered absences.
    absent: usize,
    /// Entries that expire.
    expiring: usize,
    charged: Charged,
    pub(crate) stats: Stats,
}

/// What is to be stored.
#[derive(Debug, Clone, Copy)]
struct New<'a> {
    value: &'a [u8],
    expiry: Option<Millis>,
    flags: u32,
    absent: bool,
}

impl Shard {
    pub(crate) fn new(segment: usize) -> Shard {
        Shard {
            index: Index::new(),
            log: Log::new(segment),
            ghost: Ghost::new(),
            flights: Flights::default(),
            wheel: Wheel::new(),
            clock: Clock::default(),
            scratch: Vec::new(),
            newest: u32::MAX,
            absent: 0,
            expiring: 0,
            charged: Charged::default(),
            stats: Stats::default(),
        }
    }

    /// Entries, remembered absences not counted.
    pub(crate) fn len(&self) -> usize {
        self.index.len() - self.absent
    }

    fn bytes(&self) -> usize {
        size_of::<Shard>()
            + self.index.bytes()
            + self.log.bytes()
            + self.ghost.bytes()
            + self.wheel.bytes()
            + self.flights.bytes()
            + self.clock.bytes()
            + self.scratch.capacity()
    }

    /// Puts what is held now on the account.
    pub(crate) fn settle(&mut self, budget: &Budget) {
        let bytes = self.bytes();
        budget.settle(&mut self.charged, bytes, self.index.len());
    }

    fn find(&self, key: Key<'_>) -> Option<u32> {
        self.index
            .find(key.hash, |position| self.log.key(position) == key.bytes)
    }

    /// The key's record unless it has expired; one that has is removed.
    fn live(&mut self, rules: &Rules, key: Key<'_>, now: Millis) -> Option<(u32, Meta)> {
        let position = self.find(key)?;
        let record = self.log.record(position);
        let meta = Meta::read(record);
        if meta.has_expiry() && record::expiry(record, meta).is_some_and(|at| at <= now) {
            self.stats.expirations += 1;
            self.drop_entry(key.hash, position);
            self.settle(&rules.budget);
            return None;
        }
        Some((position, meta))
    }

    /// The same, remembered absences left out.
    fn present(&mut self, rules: &Rules, key: Key<'_>, now: Millis) -> Option<u32> {
        self.live(rules, key, now)
            .filter(|(_, meta)| !meta.is_absent())
            .map(|(position, _)| position)
    }

    fn entry(&self, position: u32) -> Entry<'_> {
        let record = self.log.record(position);
        let meta = Meta::read(record);
        let (key, value) = match body(record, meta) {
            Body::Small { key, value } => (key, Value::Inline(value)),
            Body::Large { slot } => {
                let large = self.log.large(slot);
                (large.key(), Value::Large(LargeValue(large)))
            }
        };
        Entry {
            key,
            value,
            expiry: record::expiry(record, meta),
            flags: record::flags(record, meta),
            version: self.clock.widen(record::version(record)),
            clock: &self.clock,
            record: meta.len(),
            frequency: meta.policy(),
        }
    }

    /// A counted read. `Some(None)` is a remembered absence.
    #[expect(
        clippy::option_option,
        reason = "three outcomes: present, known to be absent, unknown"
    )]
    pub(crate) fn read<R>(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        now: Millis,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<Option<R>> {
        let Some((position, meta)) = self.live(rules, key, now) else {
            self.stats.misses += 1;
            return None;
        };
        self.touch(position, meta);
        if meta.is_absent() {
            self.stats.negative_hits += 1;
            return Some(None);
        }
        self.stats.hits += 1;
        Some(Some(read(self.entry(position))))
    }

    /// A read that leaves no trace.
    pub(crate) fn peek<R>(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        now: Millis,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let position = self.present(rules, key, now)?;
        Some(read(self.entry(position)))
    }

    pub(crate) fn set(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        write: Write<'_>,
        now: Millis,
    ) -> Result<Stored, TooLarge> {
        self.fits(rules, key.bytes.len(), write.value.len())?;
        let old = self.live(rules, key, now);
        let present = old.is_some_and(|(_, meta)| !meta.is_absent());
        let version = if present {
            old.map_or(0, |(position, _)| self.version(position))
        } else {
            0
        };
        let met = match write.condition {
            Condition::Always => true,
            Condition::IfAbsent => !present,
            Condition::IfPresent => present,
            Condition::IfVersion(wanted) => wanted == version,
        };
        if !met {
            return Ok(Stored::Unmet);
        }
        self.flights.fence(key.hash, key.bytes);
        let version = self.put(
            rules,
            key,
            old.map(|o| o.0),
            write.value,
            write.flags,
            write.expiry,
            now,
        );
        self.make_room(rules, now);
        Ok(if present {
            Stored::Replaced(version)
        } else {
            Stored::Created(version)
        })
    }

    /// A fill: stores a value or an absence over whatever is there.
    pub(crate) fn fill(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        value: Option<&[u8]>,
        expiry: Expiry,
        now: Millis,
    ) -> bool {
        let bytes = value.unwrap_or_default();
        if self.fits(rules, key.bytes.len(), bytes.len()).is_err() {
            return false;
        }
        let old = self.live(rules, key, now);
        let Some(expiry) = self.resolve(rules, key, expiry, old.map(|o| o.0), now) else {
            return false;
        };
        let new = New {
            value: bytes,
            expiry,
            flags: 0,
            absent: value.is_none(),
        };
        self.store(rules, key, old.map(|o| o.0), new, now);
        self.make_room(rules, now);
        true
    }

    pub(crate) fn update<'c, R>(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        now: Millis,
        change: impl FnOnce(Option<&Entry<'_>>, &mut Vec<u8>) -> (Change<'c>, R),
    ) -> Result<R, TooLarge> {
        let old = self.live(rules, key, now).map(|o| o.0);
        let present = old.filter(|p| !Meta::read(self.log.record(*p)).is_absent());
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let (change, result) = change(present.map(|p| self.entry(p)).as_ref(), &mut scratch);
        let done = self.change(rules, key, old, present, change, &mut scratch, now);
        if scratch.capacity() <= SCRATCH {
            self.scratch = scratch;
        }
        self.make_room(rules, now);
        done.map(|()| result)
    }

    #[expect(clippy::too_many_arguments, reason = "the second half of `update`")]
    fn change(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        old: Option<u32>,
        present: Option<u32>,
        change: Change<'_>,
        scratch: &mut Vec<u8>,
        now: Millis,
    ) -> Result<(), TooLarge> {
        let flags = present.map_or(0, |p| self.entry(p).flags);
        let before = present.map_or(0, |p| self.entry(p).value.as_bytes().len());
        let after = match change {
            Change::Put(_) => scratch.len(),
            Change::Append(bytes) => before.saturating_add(bytes.len()),
            Change::Splice(at, bytes) => before.max(at.saturating_add(bytes.len())),
            Change::Keep | Change::Delete | Change::Expire(_) => before,
        };
        self.fits(rules, key.bytes.len(), after)?;
        if change != Change::Keep {
            self.flights.fence(key.hash, key.bytes);
        }
        match change {
            Change::Keep => {}
            Change::Delete => {
                if let Some(position) = old {
                    self.drop_entry(key.hash, position);
                }
            }
            Change::Put(expiry) => {
                self.put(rules, key, old, scratch, flags, expiry, now);
            }
            Change::Append(bytes) => {
                self.splice(rules, key, old, present, before, bytes, scratch, now);
            }
            Change::Splice(at, bytes) => {
                self.splice(rules, key, old, present, at, bytes, scratch, now);
            }
            Change::Expire(expiry) => {
                if let Some(position) = present {
                    self.expire(rules, key, position, expiry, now);
                }
            }
        }
        Ok(())
    }

    /// Overwrites the value from `at`; a large one in place.
    #[expect(clippy::too_many_arguments, reason = "the second half of `update`")]
    fn splice(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        old: Option<u32>,
        present: Option<u32>,
        at: usize,
        bytes: &[u8],
        scratch: &mut Vec<u8>,
        now: Millis,
    ) {
        if let Some(position) = present
            && let Body::Large { slot } = {
                let r = self.log.record(position);
                body(r, Meta::read(r))
            }
        {
            self.log.edit_large(position, slot, |data, key_len| {
                let (from, to) = (key_len + at, key_len + at + bytes.len());
                if data.len() < to {
                    data.resize(to, 0);
                }
                data[from..to].copy_from_slice(bytes);
            });
            let version = self.clock.next(now);
            record::set_version(self.log.record_mut(position), version);
            return;
        }
        let mut flags = 0;
        if let Some(position) = present {
            let entry = self.entry(position);
            flags = entry.flags;
            scratch.extend_from_slice(entry.value.as_bytes());
        }
        let to = at + bytes.len();
        if scratch.len() < to {
            scratch.resize(to, 0);
        }
        scratch[at..to].copy_from_slice(bytes);
        self.put(rules, key, old, scratch, flags, Expiry::Keep, now);
    }

    fn expire(&mut self, rules: &Rules, key: Key<'_>, position: u32, expiry: Expiry, now: Millis) {
        let Some(expiry) = self.resolve(rules, key, expiry, Some(position), now) else {
            self.drop_entry(key.hash, position);
            return;
        };
        let record = self.log.record(position);
        let before = record::expiry(record, Meta::read(record));
        if before == expiry {
            return;
        }
        let version = self.clock.next(now);
        match (before, expiry) {
            (Some(_), Some(at)) => {
                let record = self.log.record_mut(position);
                record::set_expiry(record, at);
                record::set_version(record, version);
            }
            _ => {
                let new = self.log.rewrite(position, expiry, version);
                self.index.moved(key.hash, position, new);
            }
        }
        self.note_expiry(key.hash, before, expiry, now);
    }

    /// True if there was an entry.
    pub(crate) fn delete(&mut self, rules: &Rules, key: Key<'_>, now: Millis) -> bool {
        self.flights.fence(key.hash, key.bytes);
        let old = self.live(rules, key, now);
        if let Some((position, _)) = old {
            self.drop_entry(key.hash, position);
        }
        self.settle(&rules.budget);
        old.is_some_and(|(_, meta)| !meta.is_absent())
    }

    /// Forgets everything but the version count and the counters.
    /// The contents come back to be dropped where no lock is held.
    pub(crate) fn clear(&mut self, rules: &Rules) -> Box<Shard> {
        let empty = Shard::new(self.log.segment_size());
        let mut old = std::mem::replace(self, empty);
        self.clock = std::mem::take(&mut old.clock);
        self.charged = std::mem::take(&mut old.charged);
        self.stats = old.stats;
        self.settle(&rules.budget);
        Box::new(old)
    }

    fn version(&self, position: u32) -> u64 {
        self.clock.widen(record::version(self.log.record(position)))
    }

    /// The moment that an expiry means; `None` if it is past, so that nothing is to be stored.
    #[expect(clippy::option_option, reason = "past, never, or a moment")]
    fn resolve(
        &self,
        rules: &Rules,
        key: Key<'_>,
        expiry: Expiry,
        old: Option<u32>,
        now: Millis,
    ) -> Option<Option<Millis>> {
        Some(match expiry {
            Expiry::Never => None,
            Expiry::Keep => old.and_then(|p| {
                let record = self.log.record(p);
                record::expiry(record, Meta::read(record))
            }),
            Expiry::At(at) if at <= now => return None,
            Expiry::At(at) => Some(at.min(record::MAX_EXPIRY)),
            Expiry::Default => match rules.default_ttl.load(std::sync::atomic::Ordering::Relaxed) {
                0 => None,
                ttl => {
                    // Spread by the hash and the write: deterministic, and different for each key and each time.
                    let spread = (key.hash ^ now.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 40;
                    let jitter = (ttl as u128 * u128::from(rules.jitter) / 100 * u128::from(spread)
                        >> 24) as u64;
                    Some(
                        now.saturating_add((ttl - jitter).max(1))
                            .min(record::MAX_EXPIRY),
                    )
                }
            },
        })
    }

    fn fits(&self, rules: &Rules, key: usize, value: usize) -> Result<(), TooLarge> {
        let needed = key.saturating_add(value).saturating_add(rules.fixed);
        let max_memory = rules.budget.max_bytes();
        if needed > max_memory {
            Err(TooLarge { needed, max_memory })
        } else {
            Ok(())
        }
    }

    /// Stores a value over `old`; gives its version (0 if it had already expired).
    #[expect(clippy::too_many_arguments, reason = "all of a write")]
    fn put(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        old: Option<u32>,
        value: &[u8],
        flags: u32,
        expiry: Expiry,
        now: Millis,
    ) -> u64 {
        // A remembered absence has no expiry to keep.
        let kept = old.filter(|p| !Meta::read(self.log.record(*p)).is_absent());
        let Some(expiry) = self.resolve(rules, key, expiry, kept, now) else {
            if let Some(position) = old {
                self.drop_entry(key.hash, position);
            }
            return 0;
        };
        self.store(
            rules,
            key,
            old,
            New {
                value,
                expiry,
                flags,
                absent: false,
            },
            now,
        )
    }

    fn store(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        old: Option<u32>,
        new: New<'_>,
        now: Millis,
    ) -> u64 {
        let version = self.clock.next(now);
        let mut parts = Parts {
            version,
            expiry: new.expiry,
            flags: new.flags,
            absent: new.absent,
            policy: 0,
            body: Body::Large { slot: 0 },
        };
        let small = Body::Small {
            key: key.bytes,
            value: new.value,
        };
        let is_small = key.bytes.len() <= MAX_KEY && new.value.len() <= MAX_VALUE && {
            let len = Parts {
                body: small,
                ..parts
            }
            .meta()
            .len();
            len <= self.log.max_record()
        };
        if is_small {
            parts.body = small;
        }
        let Some(position) = old else {
            if !is_small {
                parts.body = Body::Large {
                    slot: self.log.add_large(Large::new(key.bytes, new.value)),
                };
            }
            let (queue, policy) = self.admit(key.hash);
            parts.policy = policy;
            let position = self.log.append(queue, &parts);
            self.newest = position;
            let (log, hasher) = (&self.log, &rules.hasher);
            self.index
                .insert(key.hash, position, |p| hasher.hash_one(log.key(p)));
            self.stats.insertions += u64::from(!new.absent);
            self.absent += usize::from(new.absent);
            self.note_expiry(key.hash, None, new.expiry, now);
            return self.clock.widen(version);
        };
        let record = self.log.record(position);
        let meta = Meta::read(record);
        let before = record::expiry(record, meta);
        self.absent = self.absent + usize::from(new.absent) - usize::from(meta.is_absent());
        parts.policy = self.touched(meta.policy());
        if is_small && parts.meta() == meta.with_policy(parts.policy) {
            let record = self.log.record_mut(position);
            parts.meta().write(record);
            record::overwrite(record, &parts);
        } else {
            if !is_small {
                parts.body = Body::Large {
                    slot: self.log.add_large(Large::new(key.bytes, new.value)),
                };
            }
            let position_after = self.log.append(self.log.queue_of(position), &parts);
            self.log.remove(position);
            self.index.moved(key.hash, position, position_after);
            self.newest = position_after;
        }
        self.note_expiry(key.hash, before, new.expiry, now);
        self.clock.widen(version)
    }

    /// Keeps the wheel's promise: an entry's hint waits in a slot that is due at or before its expiry.
    fn note_expiry(
        &mut self,
        hash: u64,
        before: Option<Millis>,
        after: Option<Millis>,
        now: Millis,
    ) {
        self.expiring =
            self.expiring + usize::from(after.is_some()) - usize::from(before.is_some());
        if let Some(at) = after
            && before.is_none_or(|waiting| at < waiting)
        {
            self.wheel.add(Hint::of(hash), at, now);
        }
        if self.wheel.len() > 2 * self.expiring + STRAY_HINTS {
            let (index, log) = (&self.index, &self.log);
            self.wheel.sweep(16, |hint| {
                let mut expires = false;
                index.hinted(hint, |p| expires |= Meta::read(log.record(p)).has_expiry());
                expires
            });
        }
    }

    /// Takes an entry out of everything.
    pub(crate) fn drop_entry(&mut self, hash: u64, position: u32) {
        let meta = Meta::read(self.log.record(position));
        self.absent -= usize::from(meta.is_absent());
        self.expiring -= usize::from(meta.has_expiry());
        self.index.remove(hash, position);
        self.log.remove(position);
    }

    /// Removes what has expired: one slot of the wheel. True if there may be more.
    pub(crate) fn reclaim(&mut self, rules: &Rules, now: Millis) -> bool {
        let Some(hints) = self.wheel.due(now) else {
            return false;
        };
        let mut meant = Vec::new();
        for hint in hints {
            meant.clear();
            self.index.hinted(hint, |p| meant.push(p));
            let mut later = None;
            for &position in &meant {
                let record = self.log.record(position);
                match record::expiry(record, Meta::read(record)) {
                    Some(at) if at <= now => {
                        let hash = rules.hasher.hash_one(self.log.key(position));
                        self.stats.expirations += 1;
                        self.drop_entry(hash, position);
                    }
                    // Other entries under the same hint come along: one hint for the earliest serves them all.
                    Some(at) => later = Some(later.map_or(at, |l: Millis| l.min(at))),
                    None => {}
                }
            }
            if let Some(at) = later {
                self.wheel.add(hint, at, now);
            }
        }
        self.settle(&rules.budget);
        true
    }

    pub(crate) fn scan(
        &self,
        at: ScanAt,
        count: usize,
        now: Millis,
        mut visit: impl FnMut(Entry<'_>),
    ) -> Option<ScanAt> {
        self.index.scan(at, count, |position| {
            let record = self.log.record(position);
            let meta = Meta::read(record);
            if !meta.is_absent() && record::expiry(record, meta).is_none_or(|at| at > now) {
                visit(self.entry(position));
            }
        })
    }

    pub(crate) fn random<R>(
        &self,
        seed: u64,
        now: Millis,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let mut mixed = seed;
        for _ in 0..32 {
            mixed = mixed
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            let position = self.index.random(mixed ^ mixed >> 29)?;
            let record = self.log.record(position);
            let meta = Meta::read(record);
            if !meta.is_absent() && record::expiry(record, meta).is_none_or(|at| at > now) {
                return Some(read(self.entry(position)));
            }
        }
        None
    }

    /// The counters with the gauges filled in.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            entries: self.len() as u64,
            negative_entries: self.absent as u64,
            live_bytes: (self.log.live(Queue::Small) + self.log.live(Queue::Main)) as u64,
            segment_bytes: self.log.segment_bytes() as u64,
            large_bytes: self.log.large_bytes() as u64,
            index_bytes: self.index.bytes() as u64,
            ghost_bytes: self.ghost.bytes() as u64,
            wheel_bytes: self.wheel.bytes() as u64,
            flights: self.flights.len() as u64,
            ..self.stats
        }
    }

    #[cfg(test)]
    pub(crate) fn bytes_for_test(&self) -> usize {
        self.bytes()
    }

    /// What the parts say of one another.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.index.check();
        self.wheel.check();
        let positions = self.index.positions();
        self.log.check(&positions);
        let metas = || positions.iter().map(|p| Meta::read(self.log.record(*p)));
        assert_eq!(self.absent, metas().filter(|m| m.is_absent()).count());
        assert_eq!(self.expiring, metas().filter(|m| m.has_expiry()).count());
    }
}
