//! One shard: index, log, wheel, ghost and flights under one lock. The only writer of any of them.
//!
//! Every method that may change what is held ends in [`Shard::settle`], the one place where bytes
//! and keys are put on the cache's account. Room is made after a write, not before: for the moment
//! inside the lock a shard may be over by one entry.

use crate::{
    attributes,
    budget::{Budget, Charged},
    change_listener::Removal,
    departures::{Departure, Departures},
    entry::{Entry, LargeValue, Value},
    flight::Flights,
    ghost::Wanted,
    holds::Holds,
    index::{Index, ScanAt},
    key::Key,
    large::Lent,
    log::Log,
    marks::Marks,
    policy::{Eviction, Policy, touched},
    record::{self, Body, Meta, body},
    shard_common::Rules,
    stale_rules::Standing,
    stats::Stats,
    sweep_state::TagSweep,
    tag_table::TagTable,
    time::Millis,
    version_clock::Clock,
    wheel::Wheel,
};

/// What a read found.
pub(crate) enum Read<R, F> {
    Hit(R),
    /// A remembered absence, or a hidden record.
    Absent,
    Missing,
    /// There is a record, which may be out of date or about to be. Gives the closure back.
    Unsure(u32, F),
}

/// The record of a key that is not gone ([`Shard::live`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    pub(crate) position: u32,
    pub(crate) meta: Meta,
    /// It is not out of date.
    pub(crate) is_fresh: bool,
}

impl Live {
    /// An entry as callers see them: neither a remembered absence nor out of date.
    #[inline]
    pub(crate) fn is_present(self) -> bool {
        self.is_fresh && !self.meta.is_absent()
    }
}

/// In this order for the sake of cache lines: each one that a core writes must come over from the
/// core that wrote it last. The lock and the index share the first; what every write changes is in
/// the next three.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard {
    pub(crate) index: Index,
    /// Where the entry being written lies: it is not evicted to make room for itself.
    pub(crate) newest: u32,
    /// Which keys the simulation follows ([`crate::what_if`]).
    pub(crate) sample_limit: u64,
    /// There are [`marks`](Shard::marks).
    pub(crate) has_marks: bool,
    /// What most writes do not touch has changed, so its bytes must be counted again. Code that
    /// changes one of the fields that [`Shard::count_side`] counts says so.
    pub(crate) side_changed: bool,
    side_bytes: usize,
    /// Entries that are remembered absences.
    pub(crate) absent: usize,
    /// Bytes of these absences.
    pub(crate) absence_bytes: usize,
    /// Records that are neither entries nor remembered absences, but counted in `absent`.
    pub(crate) hidden: usize,
    /// Entries that expire.
    pub(crate) expiring: usize,
    pub(crate) clock: Clock,
    charged: Charged,
    pub(crate) log: Log,
    pub(crate) stats: Stats,
    pub(crate) policy: Policy,
    pub(crate) flights: Flights,
    pub(crate) wheel: Wheel,
    pub(crate) scratch: Vec<u8>,
    /// Scratch for attributes; empty between operations.
    pub(crate) attributes: Vec<u8>,
    pub(crate) tags: TagTable,
    pub(crate) tag_sweep: TagSweep,
    /// By name, what is [derived](crate::derived) from the shard's keys.
    pub(crate) wanted: Wanted,
    /// Why keys are not held any more.
    pub(crate) departures: Departures,
    /// What else is out of date or gone ([`crate::staleness`]).
    pub(crate) marks: Marks,
    pub(crate) holds: Holds,
    /// Who writes, for the listener; 0: it does not matter.
    pub(crate) actor: u64,
}

impl Shard {
    pub(crate) fn new(segment: usize, eviction: Eviction, lent: Lent) -> Shard {
        Shard {
            index: Index::new(),
            sample_limit: 0,
            has_marks: false,
            side_changed: true,
            side_bytes: 0,
            marks: Marks::default(),
            holds: Holds::default(),
            actor: 0,
            log: Log::new(segment, lent),
            policy: Policy::new(eviction),
            flights: Flights::default(),
            wheel: Wheel::new(),
            clock: Clock::default(),
            scratch: Vec::new(),
            attributes: Vec::new(),
            tags: TagTable::default(),
            tag_sweep: TagSweep::default(),
            wanted: Wanted::default(),
            departures: Departures::default(),
            newest: u32::MAX,
            absent: 0,
            absence_bytes: 0,
            hidden: 0,
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
            + self.policy.bytes()
            + self.wheel.bytes()
            + self.flights.bytes()
            + self.clock.bytes()
            + self.side_bytes
    }

    /// Bytes of the fields that a plain read, write or fill leaves as they are.
    #[cold]
    fn count_side(&self) -> usize {
        self.scratch.capacity()
            + self.attributes.capacity()
            + self.tags.bytes()
            + self.wanted.bytes()
            + self.departures.bytes()
            + self.marks.bytes()
            + self.holds.bytes()
    }

    /// Puts what is held now on the account.
    #[inline(always)]
    pub(crate) fn settle(&mut self, budget: &Budget) {
        if self.side_changed {
            self.side_bytes = self.count_side();
            self.side_changed = false;
        }
        debug_assert_eq!(self.side_bytes, self.count_side());
        let bytes = self.bytes();
        budget.settle(&mut self.charged, bytes, self.index.len());
    }

    /// The key's entry, expired or not, and where it lies.
    #[inline(always)]
    pub(crate) fn find(&self, key: Key<'_>) -> Option<(u32, Entry<'_>)> {
        self.index.find(key.hash, |position| {
            let entry = self.entry(position);
            (entry.key == key.bytes).then_some((position, entry))
        })
    }

    /// Has the processor fetch the bucket that a read of `hash` looks at first, and where the
    /// shard's segments lie.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        self.index.prefetch(hash);
        self.log.prefetch_segments();
    }

    /// Has the processor fetch the record that a read of `hash` will most likely look at.
    pub(crate) fn prefetch_record(&self, hash: u64) {
        if let Some(position) = self.index.find(hash, Some) {
            self.log.prefetch(position);
        }
    }

    /// The key's record, out of date or not, unless it is gone; then it is removed.
    pub(crate) fn live(&mut self, rules: &Rules, key: Key<'_>, now: Millis) -> Option<Live> {
        let (position, entry) = self.find(key)?;
        let meta = entry.meta;
        let is_over = || entry.ends_by(now) || self.is_cleared(entry.record, meta);
        let is_unsure = self.has_marks || meta.may_be_over() && is_over();
        let mut is_fresh = true;
        if is_unsure {
            let standing = self.standing(rules, position, now);
            if standing == Standing::Gone {
                self.drop_gone(rules, key, position, now);
                return None;
            }
            is_fresh = matches!(standing, Standing::Fresh { .. });
        }
        Some(Live { position, meta, is_fresh })
    }

    pub(crate) fn drop_gone(&mut self, rules: &Rules, key: Key<'_>, position: u32, now: Millis) {
        self.stats.expirations += 1;
        let reason = self.reason(position, Standing::Gone, now);
        if reason == Departure::Invalidated {
            self.sample_removal(rules, key.hash);
        }
        self.note_departure(key.hash, reason);
        self.tell_of(rules, position);
        if reason == Departure::Expired {
            self.tell_removed(rules, position, Removal::Expired);
        }
        self.drop_entry(key.hash, position);
        self.settle(&rules.budget);
    }

    /// The record at a position is about to go for reasons of our own.
    #[inline]
    pub(crate) fn tell_of(&self, rules: &Rules, position: u32) {
        if rules.changes.are_heard() && !Meta::read(self.log.record(position)).is_absent() {
            rules.changes.changed(self.key_at(rules, position), 0);
        }
    }

    /// Why the record at a position is about to go, which was told.
    #[inline]
    pub(crate) fn tell_removed(&self, rules: &Rules, position: u32, why: Removal) {
        if rules.changes.are_heard() && !Meta::read(self.log.record(position)).is_absent() {
            rules.changes.removed(self.key_at(rules, position), why);
        }
    }

    /// The background is about to remove the record at a position, which a clear ended.
    pub(crate) fn tell_of_swept(&self, rules: &Rules, position: u32) {
        if rules.changes.are_heard() && !Meta::read(self.log.record(position)).is_absent() {
            rules.changes.swept(self.key_at(rules, position));
        }
    }

    fn key_at(&self, rules: &Rules, position: u32) -> Key<'_> {
        let bytes = self.log.key(position);
        Key { bytes, hash: rules.hash(bytes) }
    }

    #[inline(always)]
    pub(crate) fn entry(&self, position: u32) -> Entry<'_> {
        let record = self.log.record(position);
        let meta = Meta::read(record);
        let (key, value) = match body(record, meta) {
            Body::Small { key, value, .. } => (key, Value::Inline(value)),
            Body::Large { slot } => {
                let large = self.log.large(slot);
                (large.key(), Value::Large(LargeValue(large)))
            }
        };
        Entry { key, value, record, meta, clock: &self.clock, tags: Some(&self.tags), stale_since: None }
    }

    /// Notes an access in the record, for eviction.
    pub(crate) fn touch(&mut self, position: u32, meta: Meta) {
        let after = touched(meta.policy());
        if after != meta.policy() {
            meta.with_policy(after).write(self.log.record_mut(position));
        }
    }

    /// A counted read of what is fresh. Everything else is for `Cache::judge`.
    #[inline(always)]
    pub(crate) fn read<R, F: FnOnce(Entry<'_>) -> R>(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        now: Millis,
        read: F,
    ) -> Read<R, F> {
        // The entry is read where it was found: to find it again afterwards would cost a fifth more.
        let Some((position, entry)) = self.find(key) else {
            self.stats.misses += 1;
            self.sample_miss(rules, key.hash, now);
            return Read::Missing;
        };
        let meta = entry.meta;
        let may_end = || entry.ends_by(now + rules.ahead()) || self.is_cleared(entry.record, meta);
        if self.has_marks || meta.may_be_over() && may_end() {
            return Read::Unsure(position, read);
        }
        let answer = (!meta.is_absent()).then(|| read(entry));
        self.touch(position, meta);
        self.sample_hit(rules, key.hash, position, now);
        match answer {
            Some(answer) => {
                self.stats.hits += 1;
                Read::Hit(answer)
            }
            None => {
                self.stats.negative_hits += 1;
                Read::Absent
            }
        }
    }

    /// Reads the entry at a position as [`Shard::read`] does, whatever its standing; `None` is a
    /// remembered absence.
    pub(crate) fn serve<R>(
        &mut self,
        rules: &Rules,
        (hash, now): (u64, Millis),
        position: u32,
        stale_since: Option<Millis>,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let entry = Entry { stale_since, ..self.entry(position) };
        let meta = entry.meta;
        let answer = (!meta.is_absent()).then(|| read(entry));
        self.touch(position, meta);
        self.sample_hit(rules, hash, position, now);
        self.stats.stale_hits += u64::from(stale_since.is_some());
        match answer {
            Some(_) => self.stats.hits += 1,
            None => self.stats.negative_hits += 1,
        }
        answer
    }

    /// A counted read for those who do not fetch.
    #[inline]
    pub(crate) fn get<R>(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        now: Millis,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        match self.read(rules, key, now, read) {
            Read::Hit(answer) => Some(answer),
            Read::Absent => None,
            Read::Missing => {
                self.count_missing(key);
                None
            }
            Read::Unsure(position, read) => match self.standing(rules, position, now) {
                Standing::Fresh { .. } => self.serve(rules, (key.hash, now), position, None, read),
                standing => {
                    self.stats.misses += 1;
                    self.sample_miss(rules, key.hash, now);
                    if standing == Standing::Gone {
                        self.drop_gone(rules, key, position, now);
                        self.count_missing(key);
                    } else {
                        self.count_outdated(key, position, standing, now);
                    }
                    None
                }
            },
        }
    }

    /// A read that leaves no trace.
    pub(crate) fn peek<R>(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        now: Millis,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let live = self.live(rules, key, now)?;
        live.is_present().then(|| read(self.entry(live.position)))
    }

    /// Is the record at a position an entry as callers see them: neither a remembered absence nor
    /// out of date?
    #[inline]
    pub(crate) fn is_present(&self, position: u32, meta: Meta, now: Millis) -> bool {
        !meta.is_absent() && self.is_fresh(position, now)
    }

    /// True if there was an entry.
    pub(crate) fn delete(&mut self, rules: &Rules, key: Key<'_>, now: Millis) -> bool {
        self.flights.fence(key.hash, key.bytes);
        self.sample_removal(rules, key.hash);
        let old = self.live(rules, key, now);
        let present = old.is_some_and(Live::is_present);
        if let Some(live) = old {
            self.drop_entry(key.hash, live.position);
            self.note_departure(key.hash, Departure::Invalidated);
        }
        if present {
            self.stats.changes += 1;
            rules.changes.changed(key, self.actor);
        }
        self.settle(&rules.budget);
        present
    }

    /// Forgets everything but the version count, the counters and what was wanted.
    /// The contents come back to be dropped where no lock is held.
    pub(crate) fn clear(&mut self, rules: &Rules) -> Box<Shard> {
        let empty = Shard::new(self.log.segment_size(), self.policy.eviction, self.log.lent.clone());
        let mut old = std::mem::replace(self, empty);
        self.sample_limit = old.sample_limit;
        self.clock = std::mem::take(&mut old.clock);
        self.wanted = std::mem::take(&mut old.wanted);
        self.departures = std::mem::take(&mut old.departures);
        self.side_changed = true;
        self.charged = std::mem::take(&mut old.charged);
        self.stats = Stats { changes: old.stats.changes + old.len() as u64, ..old.stats };
        self.actor = old.actor;
        self.settle(&rules.budget);
        Box::new(old)
    }

    /// The hash of the key of the record at a position.
    pub(crate) fn hash_at(&self, rules: &Rules, position: u32) -> u64 {
        rules.hash(self.log.key(position))
    }

    /// The record at a position goes or is replaced.
    #[inline]
    pub(crate) fn forget_absence(&mut self, position: u32, meta: Meta) {
        if meta.is_absent() && !meta.is_hidden() {
            self.absence_bytes -= self.log.footprint(position);
        }
    }

    /// The record at a position is new.
    #[inline]
    pub(crate) fn note_absence(&mut self, position: u32, meta: Meta) {
        if meta.is_absent() && !meta.is_hidden() {
            self.absence_bytes += self.log.footprint(position);
        }
    }

    /// Whether another absence can be remembered.
    pub(crate) fn has_room_for_absence(&self, rules: &Rules) -> bool {
        let (bytes, keys) = rules.absence_room();
        self.absence_bytes < bytes && self.absent - self.hidden < keys
    }

    /// Takes an entry out of everything.
    pub(crate) fn drop_entry(&mut self, hash: u64, position: u32) {
        let meta = Meta::read(self.log.record(position));
        self.absent -= usize::from(meta.is_absent());
        self.forget_absence(position, meta);
        self.hidden -= usize::from(meta.is_hidden());
        self.expiring -= usize::from(meta.has_expiry());
        if meta.has_attributes() {
            let (word, bytes) = self.log.attributes(position);
            self.tags.release(attributes::ids(word, bytes));
            self.side_changed = true;
        }
        self.index.remove(hash, position);
        self.log.remove(position);
    }

    /// Removes what has expired: a part of a slot of the wheel. True if there may be more.
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
                let Some(end) = record::end(record, Meta::read(record)) else { continue };
                let due = Shard::due(rules, end.at, end.is_soft, now);
                if end.at <= now {
                    // Also if it is only out of date: who has a copy of it asks again.
                    self.tell_of(rules, position);
                }
                if due <= now {
                    let hash = self.hash_at(rules, position);
                    self.stats.expirations += 1;
                    self.note_departure(hash, Departure::Expired);
                    self.tell_removed(rules, position, Removal::Expired);
                    self.drop_entry(hash, position);
                } else {
                    // Other entries under the same hint come along: one hint for the earliest serves them all.
                    later = Some(later.map_or(due, |l: Millis| l.min(due)));
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
            if self.is_present(position, meta, now) {
                visit(self.entry(position));
            }
        })
    }

    pub(crate) fn random<R>(&self, seed: u64, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        let mut mixed = seed;
        for _ in 0..32 {
            mixed = mixed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let position = self.index.random(mixed ^ mixed >> 29)?;
            let record = self.log.record(position);
            let meta = Meta::read(record);
            if self.is_present(position, meta, now) {
                return Some(read(self.entry(position)));
            }
        }
        None
    }

    /// The counters with the gauges filled in.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            entries: self.len() as u64,
            expiring_entries: self.expiring as u64,
            negative_entries: (self.absent - self.hidden) as u64,
            live_bytes: self.log.live_bytes() as u64,
            segment_bytes: self.log.segment_bytes() as u64,
            large_bytes: self.log.large_bytes() as u64,
            index_bytes: self.index.bytes() as u64,
            ghost_bytes: self.policy.bytes() as u64,
            wheel_bytes: self.wheel.bytes() as u64,
            flights: self.flights.len() as u64,
            tags: self.tags.len() as u64,
            tag_bytes: self.tags.bytes() as u64,
            // Versions number the writes.
            changes: self.stats.changes + self.clock.version(),
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
        assert_eq!(self.stats.miss_causes.sum(), self.stats.misses);
        let positions = self.index.positions();
        self.log.check(&positions);
        let metas = || positions.iter().map(|p| Meta::read(self.log.record(*p)));
        assert_eq!(self.absent, metas().filter(|m| m.is_absent()).count());
        let absences = positions.iter().filter(|p| {
            let meta = Meta::read(self.log.record(**p));
            meta.is_absent() && !meta.is_hidden()
        });
        assert_eq!(self.absence_bytes, absences.map(|p| self.log.footprint(*p)).sum::<usize>());
        assert_eq!(self.hidden, metas().filter(|m| m.is_hidden()).count());
        assert_eq!(self.expiring, metas().filter(|m| m.has_expiry()).count());
        self.tags.check(positions.iter().map(|p| self.log.attributes(*p)));
    }
}
