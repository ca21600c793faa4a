//! Which keys are worth a move to another node: those that are read most, as far as the memory tier
//! knows.
use bytes::Bytes;
use larder_engine::Cache;
use larder_store::clock;
use tokio::{task::yield_now, time::Instant};

/// Entries that are looked at in one go.
const STEP: usize = 256;
/// Keys of an answer at most.
const MOST: usize = 100_000;
/// Access counts that the memory tier tells apart.
const LEVELS: usize = 8;

/// Keys by how often they are read, within a bound on the bytes of their entries.
struct HottestKeys {
    levels: [Vec<(Bytes, usize)>; LEVELS],
    count: usize,
    bytes: usize,
    max_bytes: usize,
}

impl HottestKeys {
    fn new(max_bytes: usize) -> HottestKeys {
        HottestKeys { levels: Default::default(), count: 0, bytes: 0, max_bytes }
    }

    fn is_over(&self) -> bool {
        self.bytes > self.max_bytes || self.count > MOST
    }

    /// Adds a key, and drops the coldest where there are too many.
    fn add(&mut self, key: &[u8], level: usize, bytes: usize) {
        let level = level.min(LEVELS - 1);
        let is_full = self.bytes + bytes > self.max_bytes || self.count == MOST;
        if is_full && self.levels[..level].iter().all(Vec::is_empty) {
            return;
        }
        self.levels[level].push((Bytes::copy_from_slice(key), bytes));
        self.count += 1;
        self.bytes += bytes;
        while self.is_over() {
            let Some((_, bytes)) = self.levels.iter_mut().find_map(Vec::pop) else { return };
            self.count -= 1;
            self.bytes -= bytes;
        }
    }

    /// The hottest first.
    fn finish(self) -> Vec<Bytes> {
        self.levels.into_iter().rev().flatten().map(|(key, _)| key).collect()
    }
}

/// The hottest keys that are wanted, the hottest first; what has been seen by the deadline counts.
pub(super) async fn hottest_keys(
    cache: &Cache,
    max_bytes: usize,
    deadline: Instant,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Vec<Bytes> {
    let mut found = HottestKeys::new(max_bytes);
    let mut cursor = 0;
    loop {
        cursor = cache.tier().scan(cursor, STEP, clock::now(), |entry| {
            if is_wanted(entry.key) {
                found.add(entry.key, entry.frequency().into(), entry.footprint());
            }
        });
        if cursor == 0 || Instant::now() >= deadline {
            return found.finish();
        }
        // Clients come first.
        yield_now().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_engine::{Config, Write};
    use std::time::Duration;

    #[test]
    fn the_coldest_keys_make_room() {
        let mut keys = HottestKeys::new(30);
        for (key, level) in [("a", 0), ("b", 3), ("c", 1), ("d", 7), ("e", 0), ("f", 1), ("g", 99)] {
            keys.add(key.as_bytes(), level, 10);
            assert!(!keys.is_over());
        }
        assert_eq!(keys.finish(), ["d", "g", "b"]);
        let mut keys = HottestKeys::new(5);
        keys.add(b"large", 7, 10);
        assert!(keys.finish().is_empty());
    }

    #[tokio::test]
    async fn keys_that_are_read_come_first() {
        let cache = Cache::new(Config { max_memory: 1 << 20, ..Config::default() });
        for number in 0..1000 {
            cache
                .tier()
                .set(cache.key(format!("k{number}").as_bytes()), Write::new(b"value"), clock::now())
                .expect("room");
        }
        for _ in 0..7 {
            cache.tier().get(cache.key(b"k7"), clock::now(), |_| ());
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let all = hottest_keys(&cache, 1 << 20, deadline, |_| true).await;
        assert_eq!((all.len() >= 1000, &*all[0]), (true, &b"k7"[..]));
        let few = hottest_keys(&cache, 200, deadline, |key| key != b"k7").await;
        assert!((1..20).contains(&few.len()) && !few.iter().any(|key| *key == "k7"));
    }
}
