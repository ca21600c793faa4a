//! What was derived from a key's value (a command's whole reply, say), under names of the caller's
//! choice. It goes when the key goes.
//!
//! ```text
//!   key  ──► anchor: hidden record with a version and the queue that its first fetch was sent through
//!   name ──► derived: hidden record with the anchor's version before its value      read: versions equal? else a miss
//! ```
//!
//! - Whatever forgets or replaces the key's record (a write, an invalidation, an eviction, a clear)
//!   ends all that was derived from it, in one step and under one lock: the next anchor has another
//!   version. What is orphaned so is overwritten by the next fill of its name, or evicted unread.
//! - A key has a value or an anchor, not both: they may have been fetched through different queues,
//!   and then one may be older than the other ([`Lead::overtake`](crate::Lead::overtake)).
//! - Keys and names share the index. Records are told apart by their kind, so one name's being
//!   another's key costs misses, nothing else.
//! - What is wanted for the first time (as far as the shard remembers, by fingerprints) is not
//!   worth a flight, unless something else derived from its key is held: most of what is wanted
//!   once is not wanted again, and keeping it costs the source more than answering.
//! - The two locks of a read and of a fill are taken one after the other. A read counts as of the
//!   first; a fill whose anchor went in between is born an orphan.

use crate::{
    attributes::EncodedAttributes,
    cache::Cache,
    entry::{Entry, Expiry, LargeValue, Value},
    flight::Flight,
    key::Key,
    record,
    shard::{Live, Shard},
    shard_common::Rules,
    stale_rules::Standing,
    sync::{Arc, lock},
    time::Millis,
    write::New,
};
use bytes::Bytes;

/// The words of the two kinds of hidden records.
const ANCHOR: u32 = 1;
const DERIVED: u32 = 2;
/// Length of the anchor's version before a derived value.
const VERSION: usize = size_of::<u64>();

/// A derived value as seen under its shard's lock.
#[derive(Debug, Clone, Copy)]
pub struct Derived<'a>(Value<'a>);

impl<'a> Derived<'a> {
    /// The bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        &self.0.as_bytes()[VERSION..]
    }

    /// A large value by reference, as [`LargeValue::share`]; `None` for a small one.
    pub fn share(&self) -> Option<Bytes> {
        match self.0 {
            Value::Inline(_) => None,
            Value::Large(large) => Some(LargeValue::share(&large).slice(VERSION..)),
        }
    }

    fn of(entry: &Entry<'a>, anchor: u64) -> Option<Derived<'a>> {
        let is_derived = entry.meta.is_hidden() && entry.word() == DERIVED;
        (is_derived && entry.value.as_bytes().starts_with(&anchor.to_le_bytes())).then_some(Derived(entry.value))
    }
}

impl Cache {
    /// The end of a flight for something derived.
    pub(crate) fn land_derived(&self, flight: &Arc<Flight>, now: Millis, fill: Option<(&[u8], Expiry)>) -> bool {
        let key = Key { bytes: &flight.key, hash: flight.hash };
        let number = self.shard_of(flight.hash);
        let mut shard = lock(self.mutex(number));
        let landed = shard.flights.land(flight);
        shard.stats.fenced_fills += u64::from(!landed && fill.is_some());
        let fill = fill.filter(|_| landed);
        let anchored = fill.and_then(|fill| Some((fill, shard.raise_anchor(&self.rules, key, flight.queue(), now)?)));
        shard.settle(&self.rules.budget);
        drop(shard);
        self.tier().balance(number, now);
        let Some(((value, expiry), anchor)) = anchored else { return false };
        let name = self.key(&flight.name);
        let number = self.shard_of(name.hash);
        let stored = lock(self.mutex(number)).fill_derived(&self.rules, name, anchor, value, expiry, now);
        self.tier().balance(number, now);
        stored
    }

    /// Whatever its standing, unless it is gone or its key was forgotten; and where it stands.
    pub(crate) fn last_derived(&self, key: Key<'_>, name: Key<'_>, now: Millis) -> Option<(Bytes, Standing)> {
        let anchor = lock(self.mutex(self.shard_of(key.hash))).anchor(&self.rules, key, now)?;
        let mut shard = lock(self.mutex(self.shard_of(name.hash)));
        let (position, standing) = shard.find_derived(&self.rules, name, anchor.version, now)?;
        let derived = Derived::of(&shard.entry(position), anchor.version)?;
        Some((Bytes::copy_from_slice(derived.as_bytes()), anchor.standing.worse(standing)))
    }
}

/// A key's anchor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    pub(crate) version: u64,
    pub(crate) standing: Standing,
}

pub(crate) fn is_anchor(entry: &Entry<'_>) -> bool {
    entry.meta.is_hidden() && entry.word() == ANCHOR
}

impl Shard {
    /// After [`read`](Shard::read) told of an absence: is it none, but something hidden? Then that
    /// counts as a miss.
    #[inline]
    pub(crate) fn hides(&mut self, key: Key<'_>) -> bool {
        let hides = self.hidden > 0 && self.find(key).is_some_and(|(_, entry)| entry.meta.is_hidden());
        if hides {
            self.stats.negative_hits -= 1;
            self.stats.misses += 1;
            self.stats.miss_causes.reply += 1;
        }
        hides
    }

    /// The key's anchor, if it has one. An access, for eviction: what hangs on it was read.
    pub(crate) fn anchor(&mut self, rules: &Rules, key: Key<'_>, now: Millis) -> Option<Anchor> {
        let Live { position, meta, .. } = self.live(rules, key, now)?;
        let entry = self.entry(position);
        if !is_anchor(&entry) {
            return None;
        }
        let version = entry.version();
        self.touch(position, meta);
        // Anchors do not expire; only marks end them.
        let standing =
            if self.has_marks { self.standing(rules, position, now) } else { Standing::Fresh { left: None } };
        Some(Anchor { version, standing })
    }

    /// What is held of a name, and where it stands by itself: out of date at its end.
    pub(crate) fn find_derived(
        &mut self,
        rules: &Rules,
        name: Key<'_>,
        anchor: u64,
        now: Millis,
    ) -> Option<(u32, Standing)> {
        let position = self.live(rules, name, now)?.position;
        let entry = self.entry(position);
        Derived::of(&entry, anchor)?;
        // Marks are about keys; a name only looks like one.
        let standing = match record::end(entry.record, entry.meta) {
            Some(end) if end.at <= now => Standing::OutOfDate { since: end.at, own_end: None },
            Some(end) if end.at <= now + rules.ahead() => Standing::Fresh { left: Some(end.at - now) },
            _ => Standing::Fresh { left: None },
        };
        Some((position, standing))
    }

    /// Reads what [`find_derived`](Shard::find_derived) found.
    pub(crate) fn read_derived<R>(
        &mut self,
        position: u32,
        stale_since: Option<Millis>,
        read: impl FnOnce(Derived<'_>) -> R,
    ) -> R {
        let entry = self.entry(position);
        let meta = entry.meta;
        let answer = read(Derived(entry.value));
        self.stats.hits += 1;
        self.stats.derived_hits += 1;
        self.stats.stale_hits += u64::from(stale_since.is_some());
        self.touch(position, meta);
        answer
    }

    /// With the answer to `flight`, which was not fenced, at hand: may what is held of its key be
    /// older? For a flight for the value that is a matter of anchors alone; a copy of the value
    /// is not there, or about to be replaced.
    pub(crate) fn lags(&self, key: Key<'_>, flight: &Flight) -> bool {
        if self.hidden == 0 && flight.name.is_empty() {
            return false;
        }
        let Some((_, entry)) = self.find(key) else { return false };
        match is_anchor(&entry) {
            true => entry.value.as_bytes() != flight.queue().to_le_bytes(),
            false => !flight.name.is_empty(),
        }
    }

    /// Removes what is held of a key; its flights stay.
    pub(crate) fn drop_key(&mut self, key: Key<'_>) {
        if let Some(position) = self.find(key).map(|found| found.0) {
            self.drop_entry(key.hash, position);
        }
    }

    /// The version of the key's anchor, which is made if there is none of this queue; `None` if it
    /// does not fit.
    fn raise_anchor(&mut self, rules: &Rules, key: Key<'_>, queue: u32, now: Millis) -> Option<u64> {
        let queue = queue.to_le_bytes();
        let live = self.live(rules, key, now);
        let old = live.map(|live| live.position);
        if let Some(live) = live {
            let entry = self.entry(live.position);
            if is_anchor(&entry) && entry.value.as_bytes() == queue && live.is_fresh {
                return Some(entry.version());
            }
        }
        self.fits(rules, key.bytes.len(), Some(0), queue.len()).ok()?;
        let new =
            New { value: &queue, end: None, attributes: EncodedAttributes::hidden(ANCHOR), absent: true, policy: None };
        let version = self.store(rules, key, old, new, now);
        self.make_room(rules, now);
        Some(version)
    }

    fn fill_derived(
        &mut self,
        rules: &Rules,
        name: Key<'_>,
        anchor: u64,
        value: &[u8],
        expiry: Expiry,
        now: Millis,
    ) -> bool {
        let fits = self.fits(rules, name.bytes.len(), Some(0), VERSION + value.len()).is_ok();
        let old = self.live(rules, name, now).map(|live| live.position);
        let Some(end) = self.resolve(rules, name, expiry, old, now).filter(|_| fits) else {
            self.settle(&rules.budget);
            return false;
        };
        let whole = [&anchor.to_le_bytes()[..], value].concat();
        let new =
            New { value: &whole, end, attributes: EncodedAttributes::hidden(DERIVED), absent: true, policy: None };
        self.store(rules, name, old, new, now);
        self.make_room(rules, now);
        true
    }
}
