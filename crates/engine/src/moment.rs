//! Moments in the life of a cache, told by the versions that its shards had reached.

use crate::{cache::Cache, entry::Entry, key::Key, shard::Live, sync::lock, tier::Tier, time::Millis};

/// A moment in the life of a cache ([`Cache::moment`]).
#[derive(Debug, Clone)]
pub struct Moment(Box<[u64]>);

impl Cache {
    /// The present moment. What is written later has a higher version than it.
    pub fn moment(&self) -> Moment {
        Moment((0..self.shards()).map(|number| lock(self.mutex(number)).clock.version()).collect())
    }
}

impl Moment {
    /// Whether an entry of this cache was written before the moment.
    pub fn covers(&self, cache: &Cache, entry: &Entry<'_>) -> bool {
        entry.version() <= self.0[cache.shard_of(cache.key(entry.key).hash)]
    }
}

impl Tier<'_> {
    /// Deletes the entry of a key unless it was written after a moment. True if there was an older
    /// one.
    pub fn delete_older(&mut self, key: Key<'_>, moment: &Moment, now: Millis) -> bool {
        let (cache, number) = (self.cache(), self.cache().shard_of(key.hash));
        self.on(number, |shard| {
            let live = shard.live(&cache.rules, key, now).filter(|live| live.is_present());
            let is_older =
                live.is_some_and(|Live { position, .. }| shard.entry(position).version() <= moment.0[number]);
            is_older && shard.delete(&cache.rules, key, now)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Attributes, Cache, Config, Write};

    #[test]
    fn what_was_written_before_a_moment_is_deleted_and_the_rest_is_kept() {
        let cache = Cache::new(Config { shards: Some(4), ..Config::default() });
        let name = |n: u32| n.to_string().into_bytes();
        let write = |from: u32, to: u32| {
            for n in from..to {
                let attributes = Attributes { tags: &[b"t"], ..Attributes::NONE };
                let write = Write { attributes, ..Write::new(b"v") };
                cache.tier().set(cache.key(&name(n)), write, 1).expect("it fits");
            }
        };
        write(0, 100);
        let moment = cache.moment();
        write(50, 150);
        // Rewritten, then cleared with the rest: its shards keep counting.
        let deleted = (0..150).filter(|n| cache.tier().delete_older(cache.key(&name(*n)), &moment, 1)).count();
        assert_eq!((deleted, cache.tier().len()), (50, 100));
        cache.tier().clear();
        write(0, 1);
        assert!(!cache.tier().delete_older(cache.key(b"0"), &moment, 1), "a clear does not count from the beginning");
    }
}
