//! The writes of a shard. What they store goes through [`Shard::store`], the only place where a
//! record is made.

use crate::{
    attributes::{self, Attributes, EncodedAttributes},
    departures::Departure,
    entry::{Change, Condition, Entry, Expiry, Stored, TooLarge, Write},
    index::Hint,
    key::Key,
    large::{Large, replace_range},
    policy,
    policy_state::PolicyState,
    record::{self, Body, End, MAX_KEY, MAX_VALUE, Meta, Parts, body},
    shard::{Live, Shard},
    shard_common::Rules,
    time::Millis,
};
use std::sync::atomic::Ordering::Relaxed;

/// Scratch larger than this, or than a segment, is given back after use.
pub(crate) const SCRATCH: usize = 64 << 10;
/// Like `SCRATCH`, for attributes.
pub(crate) const ATTRIBUTES: usize = 4 << 10;
/// Hints of vanished entries that the wheel may hold before each write looks for some to forget.
const STRAY_HINTS: usize = 1024;

/// The value to store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct New<'a> {
    pub(crate) value: &'a [u8],
    pub(crate) end: Option<End>,
    pub(crate) attributes: EncodedAttributes<'a>,
    pub(crate) absent: bool,
    /// What the policy knew of the entry before; `None`: the policy decides where a new key goes.
    pub(crate) policy: Option<PolicyState>,
}

impl Shard {
    pub(crate) fn set(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        write: Write<'_>,
        now: Millis,
    ) -> Result<Stored, TooLarge> {
        self.fits(rules, key.bytes.len(), write.attributes.room(), write.value.len())?;
        let old = self.live(rules, key, now);
        let present = old.is_some_and(Live::is_present);
        let met = match write.condition {
            Condition::Always => true,
            Condition::IfAbsent => !present,
            Condition::IfPresent => present,
            Condition::IfVersion(wanted) => {
                wanted == old.filter(|_| present).map_or(0, |live| self.version(live.position))
            }
        };
        if !met {
            return Ok(Stored::Unmet);
        }
        self.flights.fence(key.hash, key.bytes);
        let version = self.with_attributes(rules, write.attributes, |shard, attributes| {
            shard.put(rules, key, old.map(|live| live.position), write.value, attributes, write.expiry, now)
        });
        rules.changes.changed(key, self.actor);
        self.make_room(rules, now);
        Ok(if present { Stored::Replaced(version) } else { Stored::Created(version) })
    }

    /// A fill: stores a value or an absence over whatever is there. An absence has no attributes.
    pub(crate) fn fill(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        value: Option<&[u8]>,
        expiry: Expiry,
        attributes: Attributes<'_>,
        now: Millis,
    ) -> bool {
        let bytes = value.unwrap_or_default();
        let attributes = if value.is_some() { attributes } else { Attributes::NONE };
        let is_too_large = self.fits(rules, key.bytes.len(), attributes.room(), bytes.len()).is_err();
        let old = self.live(rules, key, now);
        let replaces_absence = old.is_some_and(|live| live.meta.is_absent() && !live.meta.is_hidden());
        let old = old.map(|live| live.position);
        let fits = !is_too_large && (value.is_some() || replaces_absence || self.has_room_for_absence(rules));
        let end = self.resolve(rules, key, expiry, old, now).filter(|_| fits);
        let Some(end) = end else {
            // What is there is older.
            self.delete(rules, key, now);
            if is_too_large {
                self.note_departure(key.hash, Departure::TooLarge);
            }
            return false;
        };
        if let Some(position) = old {
            // Who has a copy of what was served out of date hears that there is something newer.
            self.tell_of(rules, position);
        }
        self.with_attributes(rules, attributes, |shard, attributes| {
            let new = New { value: bytes, end, attributes, absent: value.is_none(), policy: None };
            shard.store(rules, key, old, new, now);
        });
        self.sample_stored(rules, key, matches!(expiry, Expiry::At(_)), now);
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
        let live = self.live(rules, key, now);
        let old = live.map(|live| live.position);
        let present = old.filter(|_| live.is_some_and(Live::is_present));
        let mut scratch = std::mem::take(&mut self.scratch);
        let capacity = scratch.capacity();
        scratch.clear();
        let (change, result) = change(present.map(|p| self.entry(p)).as_ref(), &mut scratch);
        let done = self.change(rules, key, old, present, change, &mut scratch, now);
        if scratch.capacity() <= SCRATCH.min(self.log.segment_size()) {
            self.scratch = scratch;
        }
        self.side_changed |= self.scratch.capacity() != capacity;
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
        let (before, kept) = present.map_or((0, 0), |p| {
            let entry = self.entry(p);
            (entry.value.as_bytes().len(), entry.attributes().len())
        });
        let attributes = match change {
            Change::Replace(_, new) => new.room(),
            Change::AddTags(tags) => present.map_or(Some(0), |p| {
                let entry = self.entry(p);
                let new = tags.iter().filter(|tag| entry.tags().all(|held| held != **tag)).count();
                let room = Attributes { tags, ..Attributes::NONE }.room();
                room.filter(|_| new + entry.tags().count() <= Attributes::MAX_TAGS).map(|room| room + kept)
            }),
            _ => Some(kept),
        };
        let after = match change {
            Change::Put(_) | Change::Replace(..) => scratch.len(),
            Change::Append(bytes) => before.saturating_add(bytes.len()),
            Change::Splice(at, bytes) => before.max(at.saturating_add(bytes.len())),
            Change::Part(from, to, _) => {
                debug_assert!(from <= to && to <= before, "a part of the value");
                before.saturating_sub(to.saturating_sub(from)).saturating_add(scratch.len())
            }
            Change::Keep | Change::Delete | Change::Expire(_) | Change::AddTags(_) => before,
        };
        self.fits(rules, key.bytes.len(), attributes, after)?;
        if !matches!(change, Change::Keep | Change::AddTags(_)) {
            self.flights.fence(key.hash, key.bytes);
        }
        match change {
            Change::Keep => {}
            Change::Delete => {
                self.sample_removal(rules, key.hash);
                if let Some(position) = old {
                    self.drop_entry(key.hash, position);
                    self.stats.changes += 1;
                }
            }
            Change::Put(expiry) => {
                self.with_attributes_of(present, |shard, attributes| {
                    shard.put(rules, key, old, scratch, attributes, expiry, now);
                });
            }
            Change::Replace(expiry, attributes) => {
                self.with_attributes(rules, attributes, |shard, attributes| {
                    shard.put(rules, key, old, scratch, attributes, expiry, now);
                });
            }
            Change::Append(bytes) => {
                self.splice(rules, key, old, present, before, bytes, scratch, now);
            }
            Change::Splice(at, bytes) => {
                self.splice(rules, key, old, present, at, bytes, scratch, now);
            }
            Change::Part(from, to, note) => {
                if let Some(position) = present {
                    self.replace_part(rules, key, position, (from, to.min(before), note), scratch, now);
                }
            }
            Change::AddTags(tags) => {
                if let Some(position) = present {
                    self.add_tags(rules, key, position, tags, scratch, now);
                    rules.changes.tagged(key);
                }
            }
            Change::Expire(expiry) => {
                if let Some(position) = present {
                    self.expire(rules, key, position, expiry, now);
                }
            }
        }
        let changed = match change {
            Change::Keep | Change::AddTags(_) => false,
            Change::Delete | Change::Expire(_) | Change::Part(..) => present.is_some(),
            Change::Put(_) | Change::Replace(..) | Change::Append(_) | Change::Splice(..) => true,
        };
        if changed {
            rules.changes.changed(key, self.actor);
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
            self.log.edit_large(position, slot, |data, value_at| {
                let (from, to) = (value_at + at, value_at + at + bytes.len());
                if data.len() < to {
                    data.resize(to, 0);
                }
                data[from..to].copy_from_slice(bytes);
            });
            let version = self.clock.next(now);
            record::set_version(self.log.record_mut(position), version);
            return;
        }
        if let Some(position) = present {
            scratch.extend_from_slice(self.entry(position).value.as_bytes());
        }
        let to = at + bytes.len();
        if scratch.len() < to {
            scratch.resize(to, 0);
        }
        scratch[at..to].copy_from_slice(bytes);
        self.with_attributes_of(present, |shard, attributes| {
            shard.put(rules, key, old, scratch, attributes, Expiry::Keep, now);
        });
    }

    /// Replaces a part of the value; of a large one in place.
    fn replace_part(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        position: u32,
        (from, to, note): (usize, usize, Option<u64>),
        with: &[u8],
        now: Millis,
    ) {
        if let Body::Large { slot } = {
            let r = self.log.record(position);
            body(r, Meta::read(r))
        } {
            self.log.edit_large(position, slot, |data, value_at| {
                replace_range(data, value_at + from..value_at + to, with);
            });
            let version = self.clock.next(now);
            if let Some(note) = note {
                self.log.note_large(slot, version, note);
            }
            record::set_version(self.log.record_mut(position), version);
            return;
        }
        let value = self.entry(position).value.as_bytes();
        let value = [&value[..from], with, &value[to..]].concat();
        self.with_attributes_of(Some(position), |shard, attributes| {
            shard.put(rules, key, Some(position), &value, attributes, Expiry::Keep, now);
        });
    }

    fn expire(&mut self, rules: &Rules, key: Key<'_>, position: u32, expiry: Expiry, now: Millis) {
        let Some(end) = self.resolve(rules, key, expiry, Some(position), now) else {
            self.drop_entry(key.hash, position);
            self.sample_removal(rules, key.hash);
            return;
        };
        let record = self.log.record(position);
        let before = record::end(record, Meta::read(record));
        if before == end {
            return;
        }
        let version = self.clock.next(now);
        match (before, end) {
            (Some(_), Some(end)) => {
                let record = self.log.record_mut(position);
                record::set_end(record, end);
                record::set_version(record, version);
            }
            _ => {
                let new = self.log.rewrite(position, end, version, self.policy.drops);
                self.index.moved(key.hash, position, new);
            }
        }
        self.note_end(rules, key.hash, before, end, now);
        self.sample_stored(rules, key, false, now);
    }

    fn version(&self, position: u32) -> u64 {
        self.clock.widen(record::version(self.log.record(position)))
    }

    /// The end that an expiry means; `None` if the entry would be gone already, so that nothing is
    /// stored.
    #[expect(clippy::option_option, reason = "past, never, or a moment")]
    pub(crate) fn resolve(
        &self,
        rules: &Rules,
        key: Key<'_>,
        expiry: Expiry,
        old: Option<u32>,
        now: Millis,
    ) -> Option<Option<End>> {
        let hard = |at: Millis| End { at: at.min(record::MAX_EXPIRY), is_soft: false };
        let soft = |at: Millis| End { is_soft: true, ..hard(at) };
        Some(match expiry {
            Expiry::Never => None,
            Expiry::Keep => old.and_then(|p| {
                let record = self.log.record(p);
                record::end(record, Meta::read(record))
            }),
            Expiry::At(at) if at <= now => return None,
            Expiry::At(at) => Some(hard(at)),
            Expiry::Default => match rules.default_ttl.load(Relaxed) {
                0 => None,
                ttl => Some(hard(jittered(rules, key, ttl, now))),
            },
            Expiry::FreshFor(ttl) => Some(soft(jittered(rules, key, ttl, now))),
            Expiry::FreshUntil(at) if at.saturating_add(rules.keep()) <= now => return None,
            Expiry::FreshUntil(at) => Some(soft(at)),
        })
    }

    /// Runs with attributes as they will lie in the entry.
    #[inline]
    pub(crate) fn with_attributes<R>(
        &mut self,
        rules: &Rules,
        attributes: Attributes<'_>,
        run: impl FnOnce(&mut Shard, EncodedAttributes<'_>) -> R,
    ) -> R {
        if attributes.is_empty() {
            return run(self, EncodedAttributes::NONE);
        }
        let mut buffer = std::mem::take(&mut self.attributes);
        let encoded =
            EncodedAttributes::of(attributes, std::iter::empty(), &mut self.tags, |tag| rules.hash(tag), &mut buffer);
        let (word, result) = (encoded.word, run(self, encoded));
        self.tags.release(attributes::ids(word, &buffer));
        self.keep_buffer(buffer);
        result
    }

    /// Like `with_attributes`, with those that an entry has, if there is one.
    #[inline]
    fn with_attributes_of<R>(
        &mut self,
        position: Option<u32>,
        run: impl FnOnce(&mut Shard, EncodedAttributes<'_>) -> R,
    ) -> R {
        let Some(position) = position.filter(|p| Meta::read(self.log.record(*p)).has_attributes()) else {
            return run(self, EncodedAttributes::NONE);
        };
        let mut buffer = std::mem::take(&mut self.attributes);
        let (word, bytes) = self.log.attributes(position);
        buffer.extend_from_slice(bytes);
        let result = run(self, EncodedAttributes { word, bytes: &buffer });
        self.keep_buffer(buffer);
        result
    }

    pub(crate) fn keep_buffer(&mut self, mut buffer: Vec<u8>) {
        self.side_changed = true;
        if buffer.capacity() <= ATTRIBUTES {
            buffer.clear();
            self.attributes = buffer;
        }
    }

    pub(crate) fn fits(
        &self,
        rules: &Rules,
        key: usize,
        attributes: Option<usize>,
        value: usize,
    ) -> Result<(), TooLarge> {
        let needed =
            key.saturating_add(attributes.unwrap_or(usize::MAX)).saturating_add(value).saturating_add(rules.fixed);
        let max_memory = rules.budget.max_bytes();
        if needed > max_memory || attributes.is_none() { Err(TooLarge { needed, max_memory }) } else { Ok(()) }
    }

    /// Stores a value over `old`; gives its version (0 if it had already expired).
    #[expect(clippy::too_many_arguments, reason = "all of a write")]
    pub(crate) fn put(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        old: Option<u32>,
        value: &[u8],
        attributes: EncodedAttributes<'_>,
        expiry: Expiry,
        now: Millis,
    ) -> u64 {
        // A remembered absence has no expiry to keep.
        let is_present = |p: &u32| self.is_present(*p, Meta::read(self.log.record(*p)), now);
        let kept = old.filter(|p| matches!(expiry, Expiry::Keep) && is_present(p));
        let Some(end) = self.resolve(rules, key, expiry, kept, now) else {
            if let Some(position) = old {
                self.drop_entry(key.hash, position);
            }
            self.sample_removal(rules, key.hash);
            return 0;
        };
        let version = self.store(rules, key, old, New { value, end, attributes, absent: false, policy: None }, now);
        self.sample_stored(rules, key, false, now);
        version
    }

    pub(crate) fn store(&mut self, rules: &Rules, key: Key<'_>, old: Option<u32>, new: New<'_>, now: Millis) -> u64 {
        let version = self.clock.next(now);
        let attributes = new.attributes.bytes;
        let mut parts = Parts {
            version,
            end: new.end,
            word: new.attributes.word,
            absent: new.absent,
            policy: 0,
            body: Body::Large { slot: 0 },
        };
        let mut meta = parts.meta();
        let mut is_small = key.bytes.len() <= MAX_KEY && attributes.len() + new.value.len() <= MAX_VALUE;
        if is_small {
            parts.body = Body::Small { key: key.bytes, attributes, value: new.value };
            meta = parts.meta();
            is_small = meta.len() <= self.log.max_record();
        }
        let mut weight = meta.len();
        if !is_small {
            let large = Large::new(key.bytes, attributes, new.value, &self.log.lent);
            weight += large.bytes();
            parts.body = Body::Large { slot: self.log.add_large(large) };
            meta = parts.meta();
        }
        let Some(position) = old else {
            let (queue, policy) = match new.policy {
                None => self.admit(rules, key.hash, weight, now),
                Some(known) => self.policy.place(known),
            };
            parts.policy = policy;
            let position = self.log.append(queue, &parts, self.policy.drops);
            self.newest = position;
            let log = &self.log;
            self.index.insert(key.hash, position, |p| rules.hash(log.key(p)));
            if meta.has_attributes() {
                self.tags.retain(attributes::ids(new.attributes.word, attributes));
                self.side_changed = true;
            }
            self.stats.insertions += u64::from(!new.absent);
            // What it left for before is over.
            self.departures.take(key.hash);
            if new.absent {
                self.absent += 1;
                self.note_absence(position, meta);
                self.hidden += usize::from(meta.is_hidden());
            }
            self.note_end(rules, key.hash, None, new.end, now);
            return self.clock.widen(version);
        };
        let record = self.log.record(position);
        let old_meta = Meta::read(record);
        let before = record::end(record, old_meta);
        // Written only where it changes: see the order of the shard's fields.
        if new.absent != old_meta.is_absent() {
            self.absent = self.absent + usize::from(new.absent) - usize::from(old_meta.is_absent());
        }
        if meta.is_hidden() != old_meta.is_hidden() {
            self.hidden = self.hidden + usize::from(meta.is_hidden()) - usize::from(old_meta.is_hidden());
        }
        if meta.has_attributes() || old_meta.has_attributes() {
            // Those that stay must not be freed in between.
            self.tags.retain(attributes::ids(new.attributes.word, attributes));
            let (word, before) = self.log.attributes(position);
            self.tags.release(attributes::ids(word, before));
            self.side_changed = true;
        }
        parts.policy = policy::touched(old_meta.policy());
        let meta = meta.with_policy(parts.policy);
        if is_small && meta == old_meta.with_policy(parts.policy) {
            let record = self.log.record_mut(position);
            meta.write(record);
            record::overwrite(record, meta, &parts);
        } else {
            let position_after = self.log.append(self.log.queue_of(position), &parts, self.policy.drops);
            self.forget_absence(position, old_meta);
            self.note_absence(position_after, meta);
            self.log.remove(position);
            self.index.moved(key.hash, position, position_after);
            self.newest = position_after;
        }
        self.note_end(rules, key.hash, before, new.end, now);
        self.clock.widen(version)
    }

    /// Keeps the wheel's promise: an entry's hint waits in a slot that is due when the entry has to
    /// be looked at, or before.
    #[inline]
    fn note_end(&mut self, rules: &Rules, hash: u64, before: Option<End>, after: Option<End>, now: Millis) {
        if after.is_some() != before.is_some() {
            self.expiring = self.expiring + usize::from(after.is_some()) - usize::from(before.is_some());
        }
        let due = |end: End| Shard::due(rules, end.at, end.is_soft, now);
        if let Some(end) = after
            && before.is_none_or(|waiting| due(end) < due(waiting))
        {
            self.wheel.add(Hint::of(hash), due(end), now);
        }
        if self.has_stray_hints() {
            self.sweep_hints(16, true);
        }
    }

    /// Has the wheel many hints of entries that have left?
    pub(crate) fn has_stray_hints(&self) -> bool {
        self.wheel.len() > 2 * self.expiring + STRAY_HINTS
    }

    /// Looks at some hints of the wheel and forgets strays; also doubles, if it `sorts`.
    #[cold]
    pub(crate) fn sweep_hints(&mut self, count: usize, sorts: bool) {
        let (index, log) = (&self.index, &self.log);
        self.wheel.sweep(count, sorts, |hint| {
            let mut expires = false;
            index.hinted(hint, |p| expires |= Meta::read(log.record(p)).has_expiry());
            expires
        });
    }
}

/// When a lifetime ends that begins now. Spread by the hash and the moment: deterministic, and
/// different for each key and each time.
fn jittered(rules: &Rules, key: Key<'_>, ttl: u64, now: Millis) -> Millis {
    let spread = (key.hash ^ now.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 40;
    let jitter = ((u128::from(ttl) * u128::from(rules.jitter) / 100 * u128::from(spread)) >> 24) as u64;
    now.saturating_add((ttl - jitter).max(1)).min(record::MAX_EXPIRY)
}
