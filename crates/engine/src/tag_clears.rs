//! Clears by tag: one lock and a few writes for each shard, however many entries carry the tag.
//! Reads compare an entry's version with those up to which its tags were cleared; the background
//! removes unread entries.
//!
//! ```text
//!   clear ──► each shard: the tag's row says "up to version v"          `tag_table`
//!   read  ──► version of the entry above the latest clear's? a hit      else: above those of its tags?
//!   fill  ──► was one of its tags cleared since the fetch began? then it is not stored
//! ```

use crate::{
    attributes::{self, Attributes, EncodedAttributes},
    cache::Cache,
    change_listener::Clear,
    entry::{Change, Entry, Expiry, TooLarge},
    flight::Flight,
    key::Key,
    record::{self, Meta},
    shard::Shard,
    shard_common::Rules,
    sweep::SWEEP_EVERY,
    sweep_state::Sweep,
    sync::lock,
    tag_table::Cleared,
    tier::Tier,
    time::Millis,
};

/// Steps of one tick, so that clears without end do not keep a core busy.
const STEPS: usize = 8;
/// Soft clears of a tag that are closer together than this part of the longest stale window count
/// as one.
const APART: u64 = 8;

impl Shard {
    /// Clears a tag; gives the number of records that carry it.
    pub(crate) fn clear_tag(&mut self, rules: &Rules, tag: Key<'_>, soft: bool, now: Millis) -> u32 {
        // Without a stale window, what is out of date is gone.
        let soft = (soft && rules.keep() > 0).then_some(now);
        self.flights.overtake_restore_of_tag(tag.hash);
        let flights = self.flights.len() > 0;
        if !flights && self.tags.is_empty() {
            return 0;
        }
        // A version of its own, so that a fetch that begins later is known from one that began before.
        self.clock.next(now);
        let cleared = self.tags.clear((tag.hash, tag.bytes), self.clock.version(), soft, rules.keep() / APART, flights);
        self.tag_sweep.is_wanted |= cleared > 0;
        self.side_changed = true;
        self.settle(&rules.budget);
        cleared
    }

    /// Whether clears ended the record, or made it out of date.
    #[inline]
    pub(crate) fn is_cleared(&self, record: &[u8], meta: Meta) -> bool {
        meta.has_attributes()
            && self.clock.widen(record::version(record)) <= self.tags.latest()
            && self.judge_tags(record, meta) != Cleared::No
    }

    #[inline(never)]
    pub(crate) fn judge_tags(&self, record: &[u8], meta: Meta) -> Cleared {
        let (word, bytes) = self.log.attributes_of(record, meta);
        self.tags.judge(word, bytes, self.clock.widen(record::version(record)))
    }

    /// Whether a fetch whose value gets these tags began before one of them was cleared.
    pub(crate) fn was_cleared_since(&self, rules: &Rules, flight: &Flight, tags: &[&[u8]]) -> bool {
        tags.iter().any(|tag| self.tags.overtook(rules.hash(tag), flight.begun))
    }

    /// Adds tags to an entry that is present. It stays as old as it is, unless it would be cleared
    /// by what was cleared before.
    pub(crate) fn add_tags(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        position: u32,
        tags: &[&[u8]],
        scratch: &mut Vec<u8>,
        now: Millis,
    ) {
        let mut buffer = std::mem::take(&mut self.attributes);
        let entry = self.entry(position);
        let (version, metadata) = (entry.version(), entry.metadata().to_vec());
        scratch.extend_from_slice(entry.value.as_bytes());
        let held = self.log.tag_ids(position);
        let added = Attributes { tags, metadata: &metadata };
        let encoded =
            EncodedAttributes::of(added, held.into_iter(), &mut self.tags, |tag| rules.hash(tag), &mut buffer);
        let word = encoded.word;
        self.put(rules, key, Some(position), scratch, encoded, Expiry::Keep, now);
        if self.tags.judge(word, &buffer, version) == Cleared::No
            && let Some((position, _)) = self.find(key)
        {
            record::set_version(self.log.record_mut(position), version as u32);
        }
        self.tags.release(attributes::ids(word, &buffer));
        self.keep_buffer(buffer);
    }

    /// Removes some of what was cleared. True if there is more to do.
    fn sweep_cleared(&mut self, rules: &Rules, now: Millis) -> bool {
        let latest = self.tags.latest();
        let mut sweep = match self.tag_sweep.under_way.take() {
            Some(sweep) => sweep,
            None if self.tag_sweep.is_wanted || latest > 0 && now >= self.tag_sweep.next => {
                self.tag_sweep.is_wanted = false;
                Sweep::new(latest, now)
            }
            None => return false,
        };
        // Listeners heard of it when the tag was cleared.
        let has_more = self.sweep_some(rules, &mut sweep, now, false, |shard, position| {
            let record = shard.log.record(position);
            shard.is_cleared(record, Meta::read(record))
        });
        if has_more {
            self.tag_sweep.under_way = Some(sweep);
        } else {
            self.tag_sweep.next = now + SWEEP_EVERY;
            if !sweep.leaves_some {
                self.tags.none_cleared(sweep.version);
            }
        }
        self.settle(&rules.budget);
        has_more || self.tag_sweep.is_wanted
    }

    /// Removes all that clears ended, for who counts.
    pub(crate) fn finish_sweep(&mut self, rules: &Rules) {
        if self.tag_sweep.under_way.is_some() || self.tag_sweep.is_wanted {
            while self.sweep_cleared(rules, 0) {}
        }
        self.sweep_final_marks(rules);
    }
}

impl Cache {
    /// Removes some of what clears of tags ended.
    pub(crate) fn sweep_tags(&self, number: usize, now: Millis) {
        for _ in 0..STEPS {
            if !lock(self.mutex(number)).sweep_cleared(&self.rules, now) {
                break;
            }
        }
    }
}

impl Tier<'_> {
    /// Clears what carries a tag: it is gone from now on, or out of date if `soft` (and the
    /// [`StaleRules`](crate::StaleRules) say for how long it may be served). What is being
    /// fetched and comes with the tag is not stored. Takes a time that does not depend on the
    /// number of entries, and leaves nothing behind where nothing carries the tag. Gives the
    /// number of entries that carried it, among them those that have expired or were cleared
    /// before and are not yet removed.
    pub fn clear_tag(&mut self, tag: &[u8], soft: bool, now: Millis) -> u64 {
        let tag = self.cache().key(tag);
        let rules = &self.cache().rules;
        let carried = if self.is_exclusive() {
            self.clear_tag_of_held(tag, soft, now)
        } else {
            let stepwise = rules.changes.stepwise(|| self.clear_tag_of_shards(tag, soft, now));
            stepwise.unwrap_or_else(|| self.cache().exclusive_all().clear_tag_of_held(tag, soft, now))
        };
        self.on(self.cache().shard_of(tag.hash), |shard| shard.stats.tag_clears += 1);
        if carried > 0 {
            rules.changes.cleared();
        }
        if rules.budget.is_over() {
            self.balance(self.cache().shard_of(tag.hash), now);
        }
        carried
    }

    fn clear_tag_of_shards(&mut self, tag: Key<'_>, soft: bool, now: Millis) -> u64 {
        let rules = &self.cache().rules;
        let shards = 0..self.cache().shards();
        shards.map(|number| u64::from(self.on(number, |shard| shard.clear_tag(rules, tag, soft, now)))).sum()
    }

    /// Like `clear_tag_of_shards`, under the locks of all shards.
    fn clear_tag_of_held(&mut self, tag: Key<'_>, soft: bool, now: Millis) -> u64 {
        let carried = self.clear_tag_of_shards(tag, soft, now);
        if carried > 0 {
            self.cache().rules.changes.clearing(Clear::Tag(tag.bytes, soft));
        }
        carried
    }

    /// Adds tags to the entry of a key; false if there is none.
    ///
    /// # Errors
    /// [`TooLarge`] if it has more tags then than [`Attributes::MAX_TAGS`], or one is longer than
    /// [`Attributes::MAX_TAG`].
    pub fn add_tags(&mut self, key: Key<'_>, tags: &[&[u8]], now: Millis) -> Result<bool, TooLarge> {
        self.update(key, now, |entry, _| match entry {
            Some(_) => (Change::AddTags(tags), true),
            None => (Change::Keep, false),
        })
    }
}

impl<'a> Entry<'a> {
    /// Its [tags](Attributes::tags).
    pub fn tags(&self) -> impl Iterator<Item = &'a [u8]> {
        let tags = self.tags;
        let (word, bytes) = if self.meta.has_attributes() { (self.word(), self.attributes()) } else { (0, &[][..]) };
        attributes::ids(word, bytes).filter_map(move |id| tags.map(|tags| tags.name(id)))
    }
}
