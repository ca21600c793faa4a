//! The reads that can miss into a flight, and the prefetches before them.

use crate::{
    cache::Cache,
    derived::{Derived, is_anchor},
    entry::Entry,
    flight::{Flight, Purpose, Wait},
    holds::Hold,
    key::Key,
    lead::Lead,
    shard::{Read, Shard},
    stale_rules::{Serves, Standing},
    sync::{Arc, MutexGuard, lock, try_lock},
    time::Millis,
};

/// What a counted read found.
#[derive(Debug)]
pub enum Lookup<R> {
    /// The entry, as read by the closure. It may be out of date ([`Entry::stale_since`]).
    Hit(R),
    /// Like `Hit`, or `None` for a remembered absence; and the caller must fetch the key, because
    /// no flight does.
    Renew(Option<R>, Lead),
    /// The source is known not to have the key.
    Absent,
    /// No flight fetches the key: the caller must.
    Lead(Lead),
    /// A flight does: wait for its result.
    Wait(Wait),
}

/// What to do about an entry that is out of date or about to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Serve it. `renew`: and have it fetched.
    Serve { stale_since: Option<Millis>, renew: bool },
    /// Fetch it. It may be served if that fails.
    Fetch(Purpose),
}

impl Cache {
    /// A read that joins or leads a flight when it misses. Counts a hit or a miss.
    pub fn lookup<R>(self: &Arc<Self>, key: Key<'_>, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Lookup<R> {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        match shard.read(&self.rules, key, now, read) {
            Read::Hit(answer) => Lookup::Hit(answer),
            Read::Absent if !shard.hides(key) => Lookup::Absent,
            Read::Absent => self.join(shard, key, b"", Purpose::Fetch, now),
            Read::Missing => {
                shard.count_missing(key);
                self.join(shard, key, b"", Purpose::Fetch, now)
            }
            Read::Unsure(position, read) => self.look_closer(shard, key, position, now, read),
        }
    }

    #[cold]
    fn look_closer<R>(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        key: Key<'_>,
        position: u32,
        now: Millis,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Lookup<R> {
        let entry = shard.entry(position);
        let is_hidden = entry.meta.is_hidden();
        let standing = shard.standing(&self.rules, position, now);
        let verdict = match standing {
            _ if is_hidden => Verdict::Fetch(Purpose::Fetch),
            Standing::Gone => {
                shard.drop_gone(&self.rules, key, position, now);
                Verdict::Fetch(Purpose::Fetch)
            }
            standing => self.judge(&mut shard, key, b"", position, standing, now),
        };
        match verdict {
            Verdict::Serve { stale_since, renew } => {
                let answer = shard.serve(&self.rules, (key.hash, now), position, stale_since, read);
                if renew {
                    return match self.join::<R>(shard, key, b"", Purpose::Renew, now) {
                        Lookup::Lead(lead) => Lookup::Renew(answer, lead),
                        // A flight renews it.
                        _ => answer.map_or(Lookup::Absent, Lookup::Hit),
                    };
                }
                answer.map_or(Lookup::Absent, Lookup::Hit)
            }
            Verdict::Fetch(purpose) => {
                shard.stats.misses += 1;
                if !is_hidden {
                    shard.sample_miss(&self.rules, key.hash, now);
                }
                match standing {
                    _ if is_hidden => shard.stats.miss_causes.reply += 1,
                    Standing::Gone => shard.count_missing(key),
                    standing => shard.count_outdated(key, position, standing, now),
                }
                self.join(shard, key, b"", purpose, now)
            }
        }
    }

    /// What to do about the record at a position, which is not gone: of `key`, or of what is
    /// derived from it under `name`.
    fn judge(
        &self,
        shard: &mut Shard,
        key: Key<'_>,
        name: &[u8],
        position: u32,
        standing: Standing,
        now: Millis,
    ) -> Verdict {
        let entry = shard.entry(position);
        let (since, serves) = match standing {
            Standing::Fresh { left } => {
                let renew =
                    self.rules.renews_ahead(&entry, left, now) && !shard.holds.has(key.hash, Hold::NoFetch, now);
                return Verdict::Serve { stale_since: None, renew };
            }
            Standing::OutOfDate { since, own_end } => (since, self.rules.windows(&entry).allow(since, own_end, now)),
            Standing::Gone => return Verdict::Fetch(Purpose::Fetch),
        };
        if serves == Serves::No {
            return Verdict::Fetch(Purpose::Fetch);
        }
        let flight_is_overdue = shard.flights.get(key.hash, key.bytes, name).map(|flight| flight.is_overdue());
        let may_fetch = !shard.holds.has(key.hash, Hold::NoFetch, now);
        match serves {
            Serves::WhileRenewed => {
                Verdict::Serve { stale_since: Some(since), renew: may_fetch && flight_is_overdue.is_none() }
            }
            Serves::IfError if !may_fetch || flight_is_overdue == Some(true) => {
                Verdict::Serve { stale_since: Some(since), renew: false }
            }
            Serves::IfError | Serves::No => Verdict::Fetch(Purpose::FetchOrFallback),
        }
    }

    /// A read of what was derived from `key` under `name` (not empty). One that misses joins or
    /// leads a flight for it, which every fence of `key` fences; see
    /// [`Lead::name`](crate::Lead::name). [`Lookup::Absent`]: it is not known to have been wanted
    /// before, nor is anything else derived from `key` held, so ask for it without keeping the
    /// answer.
    pub fn lookup_derived<R>(
        self: &Arc<Self>,
        key: Key<'_>,
        name: Key<'_>,
        now: Millis,
        read: impl FnOnce(Derived<'_>) -> R,
    ) -> Lookup<R> {
        let anchor = lock(self.mutex(self.shard_of(key.hash))).anchor(&self.rules, key, now);
        let mut purpose = Purpose::Fetch;
        if let Some(anchor) = anchor {
            let mut shard = lock(self.mutex(self.shard_of(name.hash)));
            if let Some((position, standing)) = shard.find_derived(&self.rules, name, anchor.version, now) {
                let standing = anchor.standing.worse(standing);
                if let Standing::Fresh { left: None } = standing {
                    return Lookup::Hit(shard.read_derived(position, None, read));
                }
                drop(shard);
                match self.judge_derived(key, name, standing, now) {
                    Verdict::Serve { stale_since, renew } => {
                        let mut shard = lock(self.mutex(self.shard_of(name.hash)));
                        if let Some((position, _)) = shard.find_derived(&self.rules, name, anchor.version, now) {
                            let answer = shard.read_derived(position, stale_since, read);
                            drop(shard);
                            return match renew {
                                true => self.renew_derived(key, name, answer, now),
                                false => Lookup::Hit(answer),
                            };
                        }
                    }
                    Verdict::Fetch(with) => purpose = with,
                }
            }
        }
        let number = self.shard_of(key.hash);
        let mut shard = lock(self.mutex(number));
        shard.stats.misses += 1;
        shard.stats.miss_causes.reply += 1;
        let again = shard.wanted.again(name.hash, self.rules.budget.entries(self.shards()));
        shard.side_changed = true;
        if !again && !shard.find(key).is_some_and(|(_, entry)| is_anchor(&entry)) {
            // The first time, there is more to be remembered.
            shard.settle(&self.rules.budget);
            drop(shard);
            if self.rules.budget.is_over() {
                self.tier().balance(number, now);
            }
            return Lookup::Absent;
        }
        self.join(shard, key, name.bytes, purpose, now)
    }

    /// A read of the source, whatever is held: joins the flight for a key, or leads one if the lead
    /// is given. `name`: empty, or of what is derived from the key. Counts nothing.
    pub fn fetch(self: &Arc<Self>, key: Key<'_>, name: &[u8], now: Millis) -> (Wait, Option<Lead>) {
        self.join_unlooked(key, name, Purpose::Fetch, now)
    }

    /// As [`fetch`](Cache::fetch), but no flight is joined that may ask others than the source
    /// itself: and no lookup joins this one. For a caller that the other flights may be waiting
    /// for.
    pub fn fetch_direct(self: &Arc<Self>, key: Key<'_>, now: Millis) -> (Wait, Option<Lead>) {
        self.join_unlooked(key, b"", Purpose::Direct, now)
    }

    fn join_unlooked(
        self: &Arc<Self>,
        key: Key<'_>,
        name: &[u8],
        purpose: Purpose,
        now: Millis,
    ) -> (Wait, Option<Lead>) {
        match self.join::<()>(lock(self.mutex(self.shard_of(key.hash))), key, name, purpose, now) {
            Lookup::Lead(lead) => (lead.wait(), Some(lead)),
            Lookup::Wait(wait) => (wait, None),
            Lookup::Hit(()) | Lookup::Renew(..) | Lookup::Absent => unreachable!("what joins a flight has not looked"),
        }
    }

    /// Moves the fence of every key: flights under way store nothing, and no lookup joins them.
    pub fn fence_all(&self) {
        for number in 0..self.shards() {
            let mut shard = lock(self.mutex(number));
            shard.flights.fence_all(b"");
            shard.settle(&self.rules.budget);
        }
    }

    /// As [`judge`](Cache::judge), for something derived from `key` whose standing is known.
    #[cold]
    fn judge_derived(&self, key: Key<'_>, name: Key<'_>, standing: Standing, now: Millis) -> Verdict {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        // The anchor is the entry that the rules are asked about: it has the key.
        match shard.find(key).map(|found| found.0) {
            Some(position) => self.judge(&mut shard, key, name.bytes, position, standing, now),
            None => Verdict::Fetch(Purpose::Fetch),
        }
    }

    #[cold]
    fn renew_derived<R>(self: &Arc<Self>, key: Key<'_>, name: Key<'_>, answer: R, now: Millis) -> Lookup<R> {
        let shard = lock(self.mutex(self.shard_of(key.hash)));
        match self.join::<R>(shard, key, name.bytes, Purpose::Renew, now) {
            Lookup::Lead(lead) => Lookup::Renew(Some(answer), lead),
            _ => Lookup::Hit(answer),
        }
    }

    /// Leads or joins the flight for a key, or for what is derived from it under `name`.
    fn join<R>(
        self: &Arc<Self>,
        mut shard: MutexGuard<'_, Shard>,
        key: Key<'_>,
        name: &[u8],
        purpose: Purpose,
        now: Millis,
    ) -> Lookup<R> {
        let version = shard.clock.version();
        let (flight, begun) = if shard.holds.has(key.hash, Hold::NoSharing, now) {
            (Flight::new(key.hash, key.bytes, name, purpose, version), true)
        } else {
            shard.flights.join(key.hash, key.bytes, name, purpose, version)
        };
        if begun {
            shard.settle(&self.rules.budget);
        }
        drop(shard);
        // What was missed may have expired.
        self.rules.changes.settled();
        match begun {
            true => Lookup::Lead(Lead::new(self.clone(), flight)),
            false => Lookup::Wait(Wait::new(flight)),
        }
    }

    /// Has the processor fetch what reads of these keys will look at, so that they wait for memory
    /// together and not one after the other. Changes nothing; pays from two keys on.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = Key<'k>> + Clone) {
        keys.clone().for_each(|key| self.prefetch_bucket(key));
        keys.for_each(|key| self.prefetch_record(key));
    }

    /// The first half of [`prefetch`](Cache::prefetch): the bucket, which says where the record is.
    /// For one key it pays if there is something else to do before the second half and before
    /// the read.
    #[inline]
    pub fn prefetch_bucket(&self, key: Key<'_>) {
        if let Some(shard) = try_lock(self.mutex(self.shard_of(key.hash))) {
            shard.prefetch_bucket(key.hash);
        }
    }

    /// The second half: the record.
    #[inline]
    pub fn prefetch_record(&self, key: Key<'_>) {
        if let Some(shard) = try_lock(self.mutex(self.shard_of(key.hash))) {
            shard.prefetch_record(key.hash);
        }
    }
}
