//! What a memory tier holds and what it evicts, by prefix: sizes and ages, from a sample of its
//! entries.
use super::group::Group;
use larder_base::telemetry::prefix_of;
use larder_engine::{Cache, Millis};
use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
};

/// Entries that are looked at in one place of a large tier.
const AT_ONCE: usize = 32;

/// A sample of what a tier holds and has evicted.
#[derive(Debug, Default)]
pub struct TierContents {
    /// All that was looked at.
    pub all: TierPart,
    /// By prefix, the most entries first.
    pub prefixes: Vec<(Vec<u8>, TierPart)>,
    /// When the first of the evictions was; `None`: there was none.
    pub evicted_since: Option<Millis>,
}

/// What was seen of the keys of a prefix, or of all.
#[derive(Debug, Default, Clone)]
pub struct TierPart {
    /// Bytes that the entries occupy.
    pub bytes: u64,
    /// Time since each entry was stored, ms, ascending.
    pub ages: Vec<u64>,
    /// Time until each entry that has an end reaches it, ms, ascending.
    pub lefts: Vec<u64>,
    /// How old the evicted entries were, ms, ascending.
    pub evicted_ages: Vec<u64>,
}

impl TierContents {
    /// Looks at about `count` entries, in places that `random` chooses.
    pub fn sample(group: &Group, count: usize, mut random: impl FnMut() -> u64, now: Millis) -> TierContents {
        let (cache, mut contents) = (&*group.cache, TierContents::default());
        let mut parts: HashMap<Vec<u8>, TierPart> = HashMap::new();
        each_key(cache, count, &mut random, now, &mut |key| {
            let Some(entry) = cache.explain(cache.key(key), now).held else { return };
            for part in [&mut contents.all, parts.entry(prefix_of(key).to_vec()).or_default()] {
                part.bytes += entry.bytes as u64;
                part.ages.push(now.saturating_sub(entry.stored));
                part.lefts.extend(entry.end.map(|end| end.saturating_sub(now)));
            }
        });
        for evicted in cache.evicted() {
            contents.evicted_since.get_or_insert(evicted.at);
            for part in [&mut contents.all, parts.entry(prefix_of(&evicted.key).to_vec()).or_default()] {
                part.evicted_ages.push(evicted.age);
            }
        }
        contents.prefixes = parts.into_iter().collect();
        contents.prefixes.sort_by(|(one, of_one), (other, of_other)| {
            let size = |part: &TierPart| (part.ages.len(), part.evicted_ages.len());
            size(of_other).cmp(&size(of_one)).then_with(|| one.cmp(other))
        });
        for part in contents.prefixes.iter_mut().map(|(_, part)| part).chain([&mut contents.all]) {
            for list in [&mut part.ages, &mut part.lefts, &mut part.evicted_ages] {
                list.sort_unstable();
            }
        }
        contents
    }
}

/// Visits the keys of a small tier, all of them; of a large one some of each of many places. Only the
/// keys of one place are held at a time: a key may be long.
fn each_key(cache: &Cache, count: usize, random: &mut impl FnMut() -> u64, now: Millis, visit: &mut dyn FnMut(&[u8])) {
    let mut scan = |cursor, seen: &mut dyn FnMut(&[u8]) -> bool| {
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(AT_ONCE);
        let next = cache.tier().scan(cursor, AT_ONCE, now, |entry| keys.push(entry.key.to_vec()));
        keys.iter().filter(|key| !seen(key)).for_each(|key| visit(key));
        next
    };
    let held = usize::try_from(cache.stats().entries).unwrap_or(usize::MAX);
    if held <= count {
        // The scan may visit an entry twice.
        let (hasher, mut seen) = (RandomState::new(), HashSet::new());
        let mut cursor = 0;
        loop {
            cursor = scan(cursor, &mut |key| !seen.insert(hasher.hash_one(key)));
            if cursor == 0 {
                return;
            }
        }
    }
    for _ in 0..count.div_ceil(AT_ONCE) {
        let place = random();
        let shard = place % cache.shards() as u64;
        let cursor = shard << 48 | (place >> 16) & 0xffff_ffff_ffff;
        scan(cursor, &mut |_| false);
    }
}
