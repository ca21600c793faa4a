//! Entries that leave the cache with all that belongs to them, and come back: to a snapshot and
//! from it, or to another node.
//!
//! ```text
//!   Tier::export    ──► each entry with its end, attributes and what the policy knows of it
//!   Tier::restore   ──► stores one as it was, in place of what the key has
//!   Cache::begin_restore ──► Restore::put: stores one unless something newer happened to its key since, while the cache serves
//! ```
//!
//! While a [`Restore`] is under way each shard notes what is written, deleted, invalidated and
//! cleared ([`Overtaken`](crate::overtaken::Overtaken), on the shard's account). What was noted is
//! not restored, whether the key has an entry or not: a deleted key stays deleted, and an entry
//! that was written and has expired meanwhile does not give way to an older one.

use crate::{
    attributes::Attributes,
    cache::Cache,
    entry::{Entry, Expiry, TooLarge},
    index::ScanAt,
    key::Key,
    log::Queue,
    policy::{HITS, TURNED_AWAY},
    policy_state::PolicyState,
    record::{self, End, Meta},
    shard::Shard,
    shard_common::Rules,
    stale_rules::Standing,
    sync::{Arc, lock},
    tier::Tier,
    time::Millis,
    write::New,
};

/// An entry to be stored as it was.
#[derive(Debug, Clone, Copy)]
pub struct RestoredEntry<'a> {
    /// The value.
    pub value: &'a [u8],
    /// When it ends; `None`: never.
    pub end: Option<End>,
    /// Its tags and metadata.
    pub attributes: Attributes<'a>,
    /// What the policy knew of it. Counts only for a key that has no entry.
    pub policy: PolicyState,
}

/// What became of an entry to be restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// It is stored.
    Stored,
    /// It has expired, and may not be served stale any more.
    Expired,
    /// Something newer happened to its key: it was written, deleted, invalidated, or cleared.
    Overtaken,
}

/// A restore under way. One at a time for a cache; what changes is noted until it is dropped.
#[derive(Debug)]
pub struct Restore {
    cache: Arc<Cache>,
}

impl Cache {
    /// Begins a restore. From now on changes are noted.
    pub fn begin_restore(self: &Arc<Self>) -> Restore {
        for number in 0..self.shards() {
            let mut shard = lock(self.mutex(number));
            shard.flights.begin_restore();
            shard.settle(&self.rules.budget);
        }
        Restore { cache: self.clone() }
    }
}

impl Restore {
    /// Stores an entry unless its key has one, or something happened to it since the restore began.
    ///
    /// # Errors
    /// [`TooLarge`]: the cache could never hold it.
    pub fn put(&self, key: Key<'_>, entry: &RestoredEntry<'_>, now: Millis) -> Result<Restored, TooLarge> {
        self.cache.tier().restore_with(key, entry, false, now)
    }

    /// The cache that is restored.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        for number in 0..self.cache.shards() {
            let mut shard = lock(self.cache.mutex(number));
            shard.flights.end_restore();
            shard.settle(&self.cache.rules.budget);
        }
    }
}

impl Tier<'_> {
    /// Stores an entry as it was, in place of what the key has. One that has expired removes what
    /// the key has. Fences a fetch in flight.
    ///
    /// # Errors
    /// [`TooLarge`]: the cache could never hold it.
    pub fn restore(&mut self, key: Key<'_>, entry: &RestoredEntry<'_>, now: Millis) -> Result<Restored, TooLarge> {
        self.restore_with(key, entry, true, now)
    }

    fn restore_with(
        &mut self,
        key: Key<'_>,
        entry: &RestoredEntry<'_>,
        replaces: bool,
        now: Millis,
    ) -> Result<Restored, TooLarge> {
        let cache = self.cache();
        let number = cache.shard_of(key.hash);
        let restored = self.on(number, |shard| shard.restore(&cache.rules, key, entry, replaces, now));
        if cache.rules.budget.is_over() {
            self.balance(number, now);
        }
        restored
    }

    /// Visits entries as [`scan`](Tier::scan) does, and with them those that are past the end of
    /// their freshness but may still be served stale. Remembered absences and cached replies
    /// are not among them, nor is what a mark or a clear made out of date.
    pub fn export(
        &mut self,
        cursor: u64,
        count: usize,
        now: Millis,
        mut visit: impl FnMut(Entry<'_>, PolicyState),
    ) -> u64 {
        let rules = &self.cache().rules;
        self.walk(cursor, count, |shard, at, left| {
            let count = *left;
            shard.export(rules, at, count, now, |entry, policy| {
                *left = left.saturating_sub(1);
                visit(entry, policy);
            })
        })
    }

    /// As [`export`](Tier::export), and also what a mark or a soft clear made out of date: for a
    /// reader that looks at the source before it believes a value.
    pub fn export_held(
        &mut self,
        cursor: u64,
        count: usize,
        now: Millis,
        mut visit: impl FnMut(Entry<'_>, PolicyState),
    ) -> u64 {
        self.walk(cursor, count, |shard, at, left| {
            let count = *left;
            shard.export_held(at, count, now, |entry, policy| {
                *left = left.saturating_sub(1);
                visit(entry, policy);
            })
        })
    }

    /// Tells the policy what it knew of a key before, if the key has an entry: that one counts as
    /// read at least as often.
    pub fn recall(&mut self, key: Key<'_>, policy: PolicyState, now: Millis) {
        let cache = self.cache();
        let number = cache.shard_of(key.hash);
        self.on(number, |shard| shard.recall(&cache.rules, key, policy, now));
    }
}

impl Shard {
    fn recall(&mut self, rules: &Rules, key: Key<'_>, known: PolicyState, now: Millis) {
        let Some((position, entry)) = self.find(key) else { return };
        let meta = entry.meta;
        if meta.is_absent() {
            return;
        }
        let (now_bits, known_bits) = (meta.policy(), known.frequency);
        let bits = (now_bits & HITS).max(known_bits & HITS) | (now_bits | known_bits) & TURNED_AWAY;
        if known.is_main && self.log.queue_of(position) == Queue::Small {
            self.relocate(position, key.hash, Queue::Main, bits);
            self.make_room(rules, now);
        } else {
            meta.with_policy(bits).write(self.log.record_mut(position));
        }
    }

    fn export_held(
        &self,
        at: ScanAt,
        count: usize,
        now: Millis,
        mut visit: impl FnMut(Entry<'_>, PolicyState),
    ) -> Option<ScanAt> {
        self.index.scan(at, count, |position| {
            let record = self.log.record(position);
            let meta = Meta::read(record);
            if !meta.is_absent() && record::expiry(record, meta).is_none_or(|at| at > now) {
                visit(self.entry(position), self.policy_of(position, meta));
            }
        })
    }

    fn policy_of(&self, position: u32, meta: Meta) -> PolicyState {
        PolicyState { frequency: meta.policy(), is_main: self.log.queue_of(position) == Queue::Main }
    }

    fn restore(
        &mut self,
        rules: &Rules,
        key: Key<'_>,
        entry: &RestoredEntry<'_>,
        replaces: bool,
        now: Millis,
    ) -> Result<Restored, TooLarge> {
        let RestoredEntry { value, end, attributes, policy } = *entry;
        self.fits(rules, key.bytes.len(), attributes.room(), value.len())?;
        let old = self.live(rules, key, now).map(|live| live.position);
        let tags = attributes.tags.iter().map(|tag| rules.hash(tag));
        if !replaces && (old.is_some() || !self.flights.may_restore(key, tags)) {
            return Ok(Restored::Overtaken);
        }
        let expiry = match end {
            None => Expiry::Never,
            Some(End { at, is_soft: false }) => Expiry::At(at),
            Some(End { at, is_soft: true }) => Expiry::FreshUntil(at),
        };
        let Some(end) = self.resolve(rules, key, expiry, None, now) else {
            if replaces {
                self.delete(rules, key, now);
            }
            return Ok(Restored::Expired);
        };
        if replaces {
            self.flights.fence(key.hash, key.bytes);
        }
        self.with_attributes(rules, attributes, |shard, attributes| {
            let new = New { value, end, attributes, absent: false, policy: Some(policy) };
            shard.store(rules, key, old, new, now);
        });
        rules.changes.changed(key, self.actor);
        self.make_room(rules, now);
        Ok(Restored::Stored)
    }

    fn export(
        &self,
        rules: &Rules,
        at: ScanAt,
        count: usize,
        now: Millis,
        mut visit: impl FnMut(Entry<'_>, PolicyState),
    ) -> Option<ScanAt> {
        self.index.scan(at, count, |position| {
            let meta = Meta::read(self.log.record(position));
            if meta.is_absent() {
                return;
            }
            let entry = self.entry(position);
            let is_kept = match self.standing(rules, position, now) {
                Standing::Fresh { .. } => true,
                // By itself, or by something else that came before its own end.
                Standing::OutOfDate { since, .. } => entry.expiry() == Some(since),
                Standing::Gone => false,
            };
            if is_kept {
                visit(entry, self.policy_of(position, meta));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Write, stale_tests::WhileTheSourceFails};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn cache(max_memory: usize) -> Arc<Cache> {
        Cache::new(Config { max_memory, shards: Some(4), ..Config::default() })
    }

    /// Everything that is to survive.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Kept {
        value: Vec<u8>,
        end: Option<(Millis, bool)>,
        tags: Vec<Vec<u8>>,
        metadata: Vec<u8>,
        policy: (u8, bool),
    }

    fn exported(cache: &Cache, now: Millis) -> BTreeMap<Vec<u8>, Kept> {
        let (mut all, mut cursor) = (BTreeMap::new(), 0);
        loop {
            cursor = cache.tier().export(cursor, 10, now, |entry, policy| {
                let kept = Kept {
                    value: entry.value.as_bytes().to_vec(),
                    end: entry.end().map(|end| (end.at, end.is_soft)),
                    tags: entry.tags().map(<[u8]>::to_vec).collect(),
                    metadata: entry.metadata().to_vec(),
                    policy: (policy.frequency, policy.is_main),
                };
                all.insert(entry.key.to_vec(), kept);
            });
            if cursor == 0 {
                return all;
            }
        }
    }

    fn put(restore: &Restore, key: &[u8], kept: &Kept, now: Millis) -> Restored {
        let tags: Vec<&[u8]> = kept.tags.iter().map(Vec::as_slice).collect();
        let entry = RestoredEntry {
            value: &kept.value,
            end: kept.end.map(|(at, is_soft)| End { at, is_soft }),
            attributes: Attributes { tags: &tags, metadata: &kept.metadata },
            policy: PolicyState { frequency: kept.policy.0, is_main: kept.policy.1 },
        };
        restore.put(restore.cache().key(key), &entry, now).expect("it fits")
    }

    proptest! {
        /// What is exported from one cache and restored to another is exported from that one again, whatever the seeds of their hashes.
        #[test]
        fn what_leaves_comes_back(
            entries in proptest::collection::btree_map(
                proptest::collection::vec(any::<u8>(), 1..40),
                (
                    prop_oneof![8 => 0..100_usize, 1 => 16_000..70_000_usize],
                    proptest::option::of((1001..100_000_u64, any::<bool>())),
                    proptest::collection::btree_set(proptest::collection::vec(any::<u8>(), 0..10), 0..4),
                    0..50_usize,
                    0..4_usize,
                ),
                0..200,
            ),
        ) {
            let (from, to) = (cache(64 << 20), cache(64 << 20));
            for (key, (len, end, tags, metadata, reads)) in &entries {
                let tags: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
                let (value, metadata) = (vec![7; *len], vec![9; *metadata]);
                let expiry = match end {
                    None => Expiry::Never,
                    Some((at, true)) => Expiry::FreshUntil(*at),
                    Some((at, false)) => Expiry::At(*at),
                };
                let attributes = Attributes { tags: &tags, metadata: &metadata };
                let write = Write { expiry, attributes, ..Write::new(&value) };
                from.tier().set(from.key(key), write, 1000).expect("it fits");
                (0..*reads).for_each(|_| assert!(from.tier().get(from.key(key), 1000, |_| ()).is_some()));
            }
            let before = exported(&from, 1000);
            prop_assert_eq!(before.len(), entries.len());
            let restore = to.begin_restore();
            for (key, kept) in &before {
                prop_assert_eq!(put(&restore, key, kept, 1000), Restored::Stored);
            }
            drop(restore);
            prop_assert_eq!(exported(&to, 1000), before);
        }
    }

    fn kept(value: &str, end: Option<(Millis, bool)>, tags: &[&str]) -> Kept {
        let tags = tags.iter().map(|tag| tag.as_bytes().to_vec()).collect();
        Kept { value: value.into(), end, tags, metadata: Vec::new(), policy: (2, true) }
    }

    #[test]
    fn what_happened_since_is_newer() {
        let cache = cache(64 << 20);
        let key = |name: &'static str| cache.key(name.as_bytes());
        let old = |end| kept("old", end, &["tag"]);
        let is_stored =
            |restore: &Restore, name: &str| put(restore, name.as_bytes(), &old(None), 20) == Restored::Stored;
        let restore = cache.begin_restore();
        cache.tier().set(key("written"), Write::new(b"new"), 10).expect("it fits");
        let short = Write { expiry: Expiry::At(15), ..Write::new(b"new") };
        cache.tier().set(key("expired meanwhile"), short, 10).expect("it fits");
        assert!(!cache.tier().delete(key("deleted"), 10));
        cache.invalidate(key("invalidated"));
        cache.mark_prefix(b"under:", true, 10);
        for name in ["written", "expired meanwhile", "deleted", "invalidated", "under:a"] {
            assert!(!is_stored(&restore, name), "{name}");
        }
        assert_eq!(put(&restore, b"over", &old(Some((20, false))), 20), Restored::Expired);
        assert_eq!(put(&restore, b"over", &old(Some((20, true))), 20), Restored::Expired);
        assert!(is_stored(&restore, "untouched"));
        cache.tier().clear_tag(b"tag", false, 20);
        assert!(!is_stored(&restore, "tagged"));
        cache.tier().clear();
        assert_eq!(put(&restore, b"after a clear", &kept("old", None, &[]), 20), Restored::Overtaken);
        drop(restore);
        let restore = cache.begin_restore();
        assert!(is_stored(&restore, "deleted"), "the next restore is newer than all that");
        assert_eq!(put(&restore, b"later", &old(None), 20), Restored::Stored);
        let used = cache.stats().used_bytes;
        (0..1000_u32).for_each(|n| assert!(!cache.tier().delete(cache.key(&n.to_le_bytes()), 20)));
        assert!(cache.stats().used_bytes > used + 8000, "what is noted is on the account");
        drop(restore);
        assert!(cache.stats().used_bytes < used);
    }

    #[test]
    fn what_is_out_of_date_leaves_only_by_its_own_end() {
        let stale_rules = Some(WhileTheSourceFails::shared(1000));
        let cache = Cache::new(Config { stale_rules, ..Config::default() });
        let restore = cache.begin_restore();
        assert_eq!(put(&restore, b"soft", &kept("value", Some((10, true)), &[]), 20), Restored::Stored);
        assert_eq!(put(&restore, b"fresh", &kept("value", Some((90, true)), &[]), 20), Restored::Stored);
        drop(restore);
        assert_eq!(exported(&cache, 20).len(), 2);
        assert!(cache.tier().get(cache.key(b"soft"), 20, |_| ()).is_none(), "it is out of date");
        cache.mark_stale(30);
        assert_eq!(exported(&cache, 30).into_keys().collect::<Vec<_>>(), [b"soft".to_vec()]);
        assert_eq!(exported(&cache, 2000).len(), 0);
    }

    #[test]
    fn a_replacing_restore_takes_the_place_of_what_is_there() {
        let cache = cache(64 << 20);
        let key = cache.key(b"key");
        cache.tier().set(key, Write::new(b"there"), 10).expect("it fits");
        let entry = |value, end| RestoredEntry {
            value,
            end,
            attributes: Attributes::NONE,
            policy: PolicyState { frequency: 3, is_main: true },
        };
        let mut tier = cache.tier();
        assert_eq!(tier.restore(key, &entry(b"new", None), 10), Ok(Restored::Stored));
        assert_eq!(tier.get(key, 10, |entry| entry.value.to_bytes()).as_deref(), Some(&b"new"[..]));
        let over = Some(End { at: 5, is_soft: false });
        assert_eq!(tier.restore(key, &entry(b"over", over), 10), Ok(Restored::Expired));
        assert!(tier.is_empty());
        assert!(tier.restore(key, &entry(&vec![0; 65 << 20], None), 10).is_err());
    }

    #[test]
    fn what_the_policy_knew_can_be_told_later() {
        let cache = cache(64 << 20);
        let main = PolicyState { frequency: 2, is_main: true };
        cache.tier().recall(cache.key(b"key"), main, 10);
        assert!(cache.tier().is_empty(), "a key without an entry");
        for n in 0..100_u8 {
            cache.tier().set(cache.key(&[n]), Write::new(b"value"), 10).expect("it fits");
        }
        let policy = |key: &[u8]| exported(&cache, 10)[key].policy;
        let name = exported(&cache, 10).into_iter().find(|(_, kept)| !kept.policy.1).expect("small has its share").0;
        assert_eq!(policy(&name), (0, false));
        let key = cache.key(&name);
        cache.tier().recall(key, PolicyState { is_main: false, ..main }, 10);
        assert_eq!(policy(&name), (2, false));
        cache.tier().recall(key, main, 10);
        assert_eq!(policy(&name), (2, true));
        cache.tier().recall(key, PolicyState { frequency: 5, is_main: false }, 10);
        assert_eq!(policy(&name), (6, true), "the higher count, and the flag");
        assert_eq!(cache.tier().get(key, 10, |entry| entry.value.to_bytes()).as_deref(), Some(&b"value"[..]));
        (0..cache.shards()).for_each(|number| lock(cache.mutex(number)).check());
    }

    #[test]
    fn what_is_held_leaves_whatever_made_it_out_of_date() {
        let cache = cache(64 << 20);
        for (key, expiry) in [("over", Expiry::At(15)), ("later", Expiry::At(90)), ("never", Expiry::Never)] {
            let write = Write { expiry, ..Write::new(b"value") };
            cache.tier().set(cache.key(key.as_bytes()), write, 10).expect("it fits");
        }
        cache.mark_stale(12);
        assert_eq!(exported(&cache, 20).len(), 0);
        let mut held = Vec::new();
        assert_eq!(cache.tier().export_held(0, 100, 20, |entry, _| held.push(entry.key.to_vec())), 0);
        held.sort();
        assert_eq!(held, [b"later".to_vec(), b"never".to_vec()]);
    }
}
