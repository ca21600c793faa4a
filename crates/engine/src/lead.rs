//! The leader of a flight: fetches, then stores the outcome unless the fence has moved, and wakes
//! those who wait.

use crate::{
    attributes::Attributes,
    cache::Cache,
    departures::Departure,
    entry::{Entry, Expiry},
    flight::{Flight, Outcome, Purpose, Wait},
    holds::Hold,
    key::Key,
    shard::{Live, Shard},
    shard_common::Rules,
    stale_rules::{Serves, Standing},
    sync::{Arc, lock},
    time::Millis,
};
use bytes::Bytes;
use std::fmt;

/// How an outcome is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill<'a> {
    /// Not at all.
    Skip,
    /// With this expiry: a value as an entry with these attributes, an absence as a remembered
    /// absence, which has none. Failures are never stored.
    Store(Expiry, Attributes<'a>),
}

/// The leader's duty: fetch the key, then [`finish`](Lead::finish). Dropping it releases the
/// waiters with [`Outcome::Abandoned`].
#[must_use = "dropping the lead abandons the fetch"]
pub struct Lead {
    cache: Arc<Cache>,
    flight: Arc<Flight>,
    finished: bool,
}

impl Lead {
    pub(crate) fn new(cache: Arc<Cache>, flight: Arc<Flight>) -> Lead {
        Lead { cache, flight, finished: false }
    }

    /// The key to fetch.
    pub fn key(&self) -> &[u8] {
        &self.flight.key
    }

    /// The derived value to fetch ([`Cache::lookup_derived`]); empty: the value itself.
    pub fn name(&self) -> &[u8] {
        &self.flight.name
    }

    /// The fetch is about to be sent through a queue (a number other than 0): of the fetches of one
    /// queue, those sent later read the source later.
    pub fn sent_through(&self, queue: u32) {
        self.flight.sent_through(queue);
    }

    /// To be called with an answer at hand, before [`finish`](Lead::finish), where readers must
    /// never see an older value after a newer one: what was fetched
    /// through another queue may be older than this answer, so that is forgotten: what took the
    /// place of a flight that was fenced, and what was derived from the key. What begins from
    /// now on is newer.
    pub fn overtake(&self) {
        self.cache.overtake(&self.flight);
    }

    /// Forgets the key: for an answer that is not to be stored, but is newer than what is held.
    pub fn forget(&self) {
        self.cache.invalidate(Key { bytes: &self.flight.key, hash: self.flight.hash });
    }

    /// Attaches what the source says about the value, for those who wait: they find it nowhere else
    /// if the value is not stored. To be called before [`finish`](Lead::finish).
    pub fn describe(&self, metadata: Bytes) {
        self.flight.describe(metadata);
    }

    /// Whether no lookup waits for the fetch, as far as is known: it renews what is being served.
    pub fn renews(&self) -> bool {
        self.flight.purpose == Purpose::Renew
    }

    /// Whether only the source itself may be asked ([`Cache::fetch_direct`]).
    pub fn is_direct(&self) -> bool {
        self.flight.is_direct()
    }

    /// Whether something is held that may be served if the fetch fails or takes too long.
    pub fn has_fallback(&self) -> bool {
        self.flight.purpose == Purpose::FetchOrFallback
    }

    /// What may be served of the key if it cannot be fetched ([`StaleRules`](crate::StaleRules)).
    /// `Some(None)` is a remembered absence.
    pub fn last_known(&self, now: Millis) -> Option<Option<Bytes>> {
        self.cache.last_known(&self.flight, now)
    }

    /// The entry that is held, whether it may be served or not, unless it is gone: for a fetch that
    /// asks whether it has changed.
    pub fn held<R>(&self, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        self.cache.peek_stale(Key { bytes: &self.flight.key, hash: self.flight.hash }, now, read)
    }

    /// The fetch failed: until then, what may be served is served without another.
    pub fn hold_off(&self, until: Millis, now: Millis) {
        self.hold(Hold::NoFetch, until, now);
    }

    /// What was fetched cannot be kept: until then, each reader fetches for itself.
    pub fn stop_sharing(&self, until: Millis, now: Millis) {
        self.hold(Hold::NoSharing, until, now);
    }

    fn hold(&self, hold: Hold, until: Millis, now: Millis) {
        let mut shard = lock(self.cache.mutex(self.cache.shard_of(self.flight.hash)));
        shard.holds.add(self.flight.hash, hold, until, now);
        shard.side_changed = true;
        shard.settle(&self.cache.rules.budget);
    }

    /// A handle to answer with when the fetch takes too long.
    pub fn early_answer(&self) -> EarlyAnswer {
        EarlyAnswer { cache: self.cache.clone(), flight: self.flight.clone() }
    }

    /// A handle that resolves when this flight ends, for the leader's own client.
    pub fn wait(&self) -> Wait {
        Wait::new(self.flight.clone())
    }

    /// Ends the flight: stores the outcome as `fill` says, unless the fence moved since the flight
    /// began, and wakes every waiter with it. True if it was stored.
    pub fn finish(mut self, outcome: Outcome, fill: Fill<'_>, now: Millis) -> bool {
        self.finished = true;
        self.end(outcome, fill, false, now)
    }

    /// [`overtake`](Lead::overtake) and [`finish`](Lead::finish) in one step.
    pub fn overtake_and_finish(mut self, outcome: Outcome, fill: Fill<'_>, now: Millis) -> bool {
        self.finished = true;
        self.end(outcome, fill, true, now)
    }

    fn end(&self, outcome: Outcome, fill: Fill<'_>, overtakes: bool, now: Millis) -> bool {
        let value = match &outcome {
            Outcome::Value(value) => Some(&value[..]),
            _ => None,
        };
        let fill = match (fill, &outcome) {
            (Fill::Store(expiry, attributes), Outcome::Value(_) | Outcome::Absent) => Some((expiry, attributes)),
            _ => None,
        };
        let is_known = matches!(outcome, Outcome::Value(_) | Outcome::Absent);
        let stored = match self.flight.name.is_empty() {
            true => self.cache.land(&self.flight, now, (value, is_known), fill, overtakes),
            false => {
                if overtakes {
                    self.overtake();
                }
                self.cache.land_derived(&self.flight, now, value.zip(fill.map(|fill| fill.0)))
            }
        };
        self.flight.end(outcome);
        stored
    }
}

/// Answers those who wait for a flight with what may be served meanwhile. The flight goes on.
#[derive(Debug)]
pub struct EarlyAnswer {
    cache: Arc<Cache>,
    flight: Arc<Flight>,
}

impl EarlyAnswer {
    /// From now on reads are answered without waiting for this flight. Nothing if the flight is
    /// over, or nothing may be served.
    pub fn give(self, now: Millis) {
        // What may be served to a new reader may be served to those who wait, even if the flight was
        // fenced.
        let Some(known) = self.cache.last_known(&self.flight, now) else { return };
        {
            let _shard = lock(self.cache.mutex(self.cache.shard_of(self.flight.hash)));
            self.flight.set_overdue();
        }
        self.flight.answer_early(known.map_or(Outcome::Absent, Outcome::Value));
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.finished {
            self.end(Outcome::Abandoned, Fill::Skip, false, 0);
        }
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("key", &self.flight.key).finish_non_exhaustive()
    }
}

impl Cache {
    /// The end of a flight: the fill is stored only if the fence still stands. `is_known`: the source
    /// has said whether there is a value. `overtakes`: see [`Lead::overtake`].
    fn land(
        &self,
        flight: &Arc<Flight>,
        now: Millis,
        (value, is_known): (Option<&[u8]>, bool),
        fill: Option<(Expiry, Attributes<'_>)>,
        overtakes: bool,
    ) -> bool {
        let key = Key { bytes: &flight.key, hash: flight.hash };
        let number = self.shard_of(flight.hash);
        if fill.is_some() {
            self.make_room(key, value.map_or(0, <[u8]>::len), now);
        }
        let mut shard = lock(self.mutex(number));
        if overtakes {
            shard.overtake(&self.rules, flight);
        }
        let landed = shard.flights.land(flight);
        let mut stored = false;
        if let Some((expiry, attributes)) = fill {
            if landed && shard.was_cleared_since(&self.rules, flight, attributes.tags) {
                // What is there is older.
                shard.delete(&self.rules, key, now);
                shard.stats.fenced_fills += 1;
            } else if landed {
                stored = shard.fill(&self.rules, key, value, expiry, attributes, now);
            } else {
                shard.stats.fenced_fills += 1;
            }
        } else if is_known && landed && shard.find(key).is_none() {
            shard.note_departure(key.hash, Departure::NotKept);
        }
        shard.settle(&self.rules.budget);
        drop(shard);
        if overtakes {
            self.rules.changes.settled();
        }
        self.tier().balance(number, now);
        stored
    }

    /// See [`Lead::last_known`].
    #[expect(clippy::option_option, reason = "a value, a remembered absence, or nothing that may be served")]
    fn last_known(&self, flight: &Flight, now: Millis) -> Option<Option<Bytes>> {
        let key = Key { bytes: &flight.key, hash: flight.hash };
        let derived = match &*flight.name {
            b"" => None,
            name => Some(self.last_derived(key, self.key(name), now)?),
        };
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        let Live { position, meta, .. } = shard.live(&self.rules, key, now)?;
        let entry = shard.entry(position);
        if derived.is_none() && meta.is_hidden() {
            return None;
        }
        let standing = derived.as_ref().map_or_else(|| shard.standing(&self.rules, position, now), |derived| derived.1);
        let may_serve = match standing {
            Standing::Fresh { .. } => true,
            Standing::OutOfDate { since, own_end } => {
                self.rules.windows(&entry).allow(since, own_end, now) != Serves::No
            }
            Standing::Gone => false,
        };
        let known = may_serve.then(|| match derived {
            Some((value, _)) => Some(value),
            None => (!meta.is_absent()).then(|| entry.value.to_bytes()),
        });
        shard.stats.stale_fetches += u64::from(may_serve);
        known
    }

    /// See [`Lead::overtake`].
    fn overtake(&self, flight: &Arc<Flight>) {
        let mut shard = lock(self.mutex(self.shard_of(flight.hash)));
        shard.overtake(&self.rules, flight);
        shard.settle(&self.rules.budget);
        drop(shard);
        self.rules.changes.settled();
    }
}

impl Shard {
    /// See [`Lead::overtake`].
    fn overtake(&mut self, rules: &Rules, flight: &Arc<Flight>) {
        let fenced = !self.flights.overtake(flight);
        let key = Key { bytes: &flight.key, hash: flight.hash };
        if fenced || self.lags(key, flight) {
            self.drop_key(key);
            rules.changes.changed(key, 0);
        }
    }
}
