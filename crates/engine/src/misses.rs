//! Why a miss was a miss, as far as it is remembered.

use crate::{departures::Departure, key::Key, shard::Shard, stale_rules::Standing};

impl Shard {
    /// Counts why a key that has no record was missed.
    pub(crate) fn count_missing(&mut self, key: Key<'_>) {
        let is_in_flight = self.is_in_flight(key);
        let was_evicted = || self.policy.history.as_ref().is_some_and(|history| history.knows(key.hash));
        let causes = &mut self.stats.miss_causes;
        let cause = match self.departures.take(key.hash) {
            _ if is_in_flight => &mut causes.in_flight,
            Some(Departure::Expired) => &mut causes.expired,
            Some(Departure::Invalidated) => &mut causes.invalidated,
            Some(Departure::TooLarge) => &mut causes.too_large,
            Some(Departure::NotKept) => &mut causes.not_kept,
            None if was_evicted() => &mut causes.evicted,
            None => &mut causes.unknown,
        };
        *cause += 1;
    }

    /// Counts why a key was missed although it has a record, which may not be served. Before the
    /// record goes.
    pub(crate) fn count_outdated(&mut self, key: Key<'_>, position: u32, standing: Standing, now: u64) {
        let is_in_flight = self.is_in_flight(key);
        let reason = self.reason(position, standing, now);
        let causes = &mut self.stats.miss_causes;
        *match reason {
            _ if is_in_flight => &mut causes.in_flight,
            Departure::Expired => &mut causes.expired,
            _ => &mut causes.invalidated,
        } += 1;
    }

    /// Whether a fetch of the key is under way.
    fn is_in_flight(&self, key: Key<'_>) -> bool {
        self.flights.len() > 0 && self.flights.get(key.hash, key.bytes, b"").is_some()
    }

    /// Why the record at a position is not served, or goes.
    pub(crate) fn reason(&self, position: u32, standing: Standing, now: u64) -> Departure {
        let has_ended = self.entry(position).expiry().is_some_and(|at| at <= now);
        match standing {
            // Marks and clears end what its own lifetime would not.
            Standing::OutOfDate { own_end: Some(_), .. } => Departure::Invalidated,
            _ if has_ended => Departure::Expired,
            _ => Departure::Invalidated,
        }
    }

    /// Notes why a key is no longer held.
    pub(crate) fn note_departure(&mut self, hash: u64, reason: Departure) {
        let entries = self.index.len();
        self.side_changed |= self.departures.note(hash, reason, entries);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Attributes, Cache, Config, Expiry, Fill, Lookup, MissCauses, Outcome, Write, sync::Arc};

    fn cache() -> Arc<Cache> {
        Cache::new(Config { max_memory: 64 << 10, shards: Some(1), seed: Some(1), ..Config::default() })
    }

    fn missed(cache: &Arc<Cache>, key: &[u8], now: u64) {
        assert!(cache.tier().get(cache.key(key), now, |_| ()).is_none());
    }

    /// The causes since `before`, by name.
    fn counted(cache: &Arc<Cache>) -> MissCauses {
        let stats = cache.stats();
        assert_eq!(stats.miss_causes.sum(), stats.misses);
        stats.miss_causes
    }

    fn set(cache: &Arc<Cache>, key: &[u8], value: &[u8], expiry: Expiry) {
        let write = Write { expiry, ..Write::new(value) };
        cache.tier().set(cache.key(key), write, 1000).expect("it fits");
    }

    #[test]
    fn a_miss_is_told_why_once() {
        let cache = cache();
        missed(&cache, b"new", 1000);
        set(&cache, b"read late", b"v", Expiry::At(1010));
        missed(&cache, b"read late", 1010);
        set(&cache, b"reclaimed", b"v", Expiry::At(1010));
        cache.tick(1_000_000);
        missed(&cache, b"reclaimed", 1_000_000);
        set(&cache, b"deleted", b"v", Expiry::Never);
        cache.tier().delete(cache.key(b"deleted"), 1000);
        missed(&cache, b"deleted", 1000);
        missed(&cache, b"deleted", 1000);
        set(&cache, b"page:1", b"v", Expiry::Never);
        cache.mark_prefix(b"page:", true, 1000);
        missed(&cache, b"page:1", 1000);
        let expected = MissCauses { unknown: 2, expired: 2, invalidated: 2, ..MissCauses::default() };
        assert_eq!(counted(&cache), expected);
    }

    #[test]
    fn what_is_stored_again_has_no_reason_left() {
        let cache = cache();
        set(&cache, b"k", b"v", Expiry::Never);
        cache.tier().delete(cache.key(b"k"), 1000);
        set(&cache, b"k", b"v", Expiry::Never);
        for n in 0..5000_u32 {
            set(&cache, &n.to_le_bytes(), &[7; 64], Expiry::Never);
        }
        let is_held = |n: u32| cache.tier().peek(cache.key(&n.to_le_bytes()), 1000, |_| ()).is_some();
        let latest = (0..5000).rev().find(|n| !is_held(*n)).expect("some were evicted");
        missed(&cache, &latest.to_le_bytes(), 1000);
        let causes = counted(&cache);
        assert_eq!((causes.evicted, causes.sum()), (1, 1));
        missed(&cache, b"k", 1000);
        assert_eq!(counted(&cache).invalidated, 0);
    }

    fn fetch(cache: &Arc<Cache>, outcome: Outcome, fill: Fill<'_>) {
        match cache.lookup(cache.key(b"k"), 1000, |_| ()) {
            Lookup::Lead(lead) => {
                assert!(matches!(cache.lookup(cache.key(b"k"), 1000, |_| ()), Lookup::Wait(_)));
                assert!(!lead.finish(outcome, fill, 1000));
            }
            other => panic!("no lead: {other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_kept_says_so_at_the_next_miss() {
        let cache = cache();
        let keep = Fill::Store(Expiry::Never, Attributes::NONE);
        fetch(&cache, Outcome::Value(vec![7; 1 << 20].into()), keep);
        fetch(&cache, Outcome::Value("private".into()), Fill::Skip);
        fetch(&cache, Outcome::Failed("down".into()), Fill::Skip);
        // A failure says nothing of the key.
        fetch(&cache, Outcome::Absent, Fill::Skip);
        fetch(&cache, Outcome::Absent, Fill::Skip);
        let expected = MissCauses { unknown: 2, too_large: 1, not_kept: 2, in_flight: 5, ..MissCauses::default() };
        assert_eq!(counted(&cache), expected);
    }
}
