//! The simulation of all keys against caches of the simulated sizes.
use super::{WhatIf, curve::FACTORS};
use crate::{Cache, Config, Eviction, Expiry, Write, sync::Arc};

/// A reproducible stream of keys, of which the smaller ones are more frequent.
struct Keys(u64);

impl Keys {
    fn random(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
    }

    /// About Zipf with exponent 1, from 0 to `keys`.
    fn next(&mut self, keys: u64) -> u64 {
        let part = (self.random() & 0xffff_ffff) as f64 / 4_294_967_296.0;
        ((keys as f64).powf(part) - 1.0) as u64
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Mix {
    sets: u64,
    deletes: u64,
    lifetime: Option<u64>,
    what_if: Option<u32>,
    eviction: Eviction,
}

const KEYS: u64 = 10_000;

/// The hit ratio of so many steps.
fn replay(cache: &Arc<Cache>, steps: u64, mix: Mix) -> f64 {
    let (mut keys, mut reads, mut hits) = (Keys(7), 0u64, 0u64);
    for step in 0..steps {
        let now = 1_000_000 + step / 100;
        let name = keys.next(KEYS).to_le_bytes();
        let key = cache.key(&name);
        let expiry = mix.lifetime.map_or(Expiry::Never, |lifetime| Expiry::At(now + lifetime));
        let set = || cache.tier().set(key, Write { expiry, ..Write::new(b"sixteen bytes it") }, now).expect("it fits");
        match keys.random() % 100 {
            n if n < mix.sets => drop(set()),
            n if n < mix.sets + mix.deletes => drop(cache.tier().delete(key, now)),
            _ => {
                reads += 1;
                match cache.tier().get(key, now, |_| ()) {
                    Some(()) => hits += 1,
                    None => drop(set()),
                }
            }
        }
        if step % 10_000 == 0 {
            cache.tick(now);
        }
    }
    hits as f64 / reads as f64
}

fn cache(keys: usize, what_if: Option<u32>) -> Arc<Cache> {
    cache_under(Eviction::default(), keys, what_if)
}

fn cache_under(eviction: Eviction, keys: usize, what_if: Option<u32>) -> Arc<Cache> {
    Cache::new(Config {
        max_memory: 1 << 30,
        max_keys: Some(keys),
        shards: Some(1),
        what_if,
        eviction,
        seed: Some(3),
        ..Config::default()
    })
}

fn compared(mix: Mix) -> Vec<(f64, f64)> {
    let steps = 200_000;
    let simulated = cache_under(mix.eviction, 600, Some(mix.what_if.unwrap_or(0)));
    replay(&simulated, steps, mix);
    let curve: WhatIf = simulated.what_if(2_000_000).expect("it simulates");
    let replayed = |factor: f64| replay(&cache_under(mix.eviction, (600.0 * factor) as usize, None), steps, mix);
    curve.points.iter().zip(FACTORS).map(|(point, factor)| (point.hit_ratio, replayed(factor))).collect()
}

/// Each size within so many points of a cache of that size.
fn assert_close(mix: Mix, points: f64) {
    for (at, (is, should)) in compared(mix).into_iter().enumerate() {
        assert!((is - should).abs() * 100.0 <= points, "{mix:?} at {}: {is} instead of {should}", FACTORS[at]);
    }
}

#[test]
fn with_all_keys_the_sizes_are_those_of_caches() {
    assert_close(Mix::default(), 0.1);
    assert_close(Mix { sets: 6, deletes: 3, ..Mix::default() }, 0.1);
    assert_close(Mix { lifetime: Some(500), ..Mix::default() }, 0.3);
    assert_close(Mix { eviction: Eviction::Sieve, ..Mix::default() }, 0.1);
    assert_close(Mix { eviction: Eviction::Lru, deletes: 3, ..Mix::default() }, 0.1);
}

#[test]
fn a_sample_is_enough() {
    assert_close(Mix { what_if: Some(3), ..Mix::default() }, 1.0);
    assert_close(Mix { what_if: Some(3), sets: 6, deletes: 3, lifetime: Some(500), ..Mix::default() }, 1.0);
}

#[test]
fn keys_and_work_are_bounded() {
    let cache = cache(1 << 20, Some(0));
    let mut limits = Vec::new();
    for number in 0..600_000u64 {
        let name = number.to_le_bytes();
        cache.tier().set(cache.key(&name), Write::new(b"v"), 1000).expect("it fits");
        if number % 20_000 == 0 {
            let curve = cache.what_if(1000).expect("it simulates");
            assert!(curve.sampled_keys < 16 << 10 && curve.bytes < 5 << 20, "{curve:?}");
            limits.push(curve.sampled_share);
        }
    }
    assert!(limits[0] == 1.0 && limits[29] <= 1.0 / 32.0, "{limits:?}");
    // Few keys, read without end: the work is a share of the reads.
    let cache = self::cache(1000, Some(0));
    cache.tier().set(cache.key(b"k"), Write::new(b"v"), 1000).expect("it fits");
    for number in 0..30_000_000u64 {
        cache.tier().get(cache.key(&(number % 512).to_le_bytes()), 1000, |_| ());
        if number % 100_000 == 0 {
            cache.tick(1000);
        }
    }
    let share = cache.what_if(1000).expect("it simulates").sampled_share;
    assert!(share < 0.5, "{share}");
}

#[test]
fn a_lower_bound_is_simulated_before_the_next_store() {
    let config = Config { max_memory: 8 << 20, what_if: Some(0), shards: Some(1), ..Config::default() };
    let cache = Cache::new(config);
    for number in 0..900_u32 {
        cache.tier().set(cache.key(&number.to_le_bytes()), Write::new(&[7; 8000]), 1000).expect("it fits");
    }
    let keys = || cache.what_if_sample().expect("it simulates").keys;
    let before = keys();
    assert!(before > 800, "{before}");
    cache.set_max_memory(128 << 10);
    assert_eq!(keys(), before, "the change of the bound does not wait for it");
    cache.tick(1000);
    // The largest size has eight times as much, under two policies that keep different keys.
    assert!((50..before / 2).contains(&keys()), "{}", keys());
}

#[test]
fn what_is_cleared_is_cleared_at_all_sizes() {
    let cache = cache(10, Some(0));
    let read = |key: &[u8]| cache.tier().get(cache.key(key), 1000, |_| ()).is_some();
    let set = |key: &[u8]| cache.tier().set(cache.key(key), Write::new(b"v"), 1000).expect("it fits");
    let hits = || {
        cache.what_if(1000).expect("it simulates").points.map(|point| point.hit_ratio * 1000.0 + 0.5).map(|n| n as u64)
    };
    set(b"a");
    assert!(read(b"a"));
    assert_eq!(hits(), [1000; 6]);
    cache.tier().clear();
    assert!(!read(b"a"));
    assert_eq!(hits(), [500; 6]);
    set(b"a");
    cache.mark_stale(1000);
    assert_eq!(cache.what_if(1000).expect("it simulates").sampled_keys, 0, "also what the tier itself had evicted");
    assert!(!read(b"a"));
    assert_eq!(hits(), [333; 6]);
    set(b"a");
    cache.invalidate(cache.key(b"a"));
    assert!(!read(b"a"));
    assert_eq!(hits(), [250; 6]);
    assert_eq!(cache.what_if(1000).expect("it simulates").sampled_keys, 0);
}

/// A loop that is longer than the sizes, during which the share of sampled keys is halved.
#[test]
fn a_size_that_fills_keeps_what_it_holds_when_fewer_are_sampled() {
    const STEPS: u64 = 300_000;
    let cache = |keys: usize, what_if| {
        let bounds = Config { max_memory: 1 << 30, max_keys: Some(keys), ..Config::default() };
        Cache::new(Config { what_if, seed: Some(2), ..bounds })
    };
    let replay = |cache: &Arc<Cache>| {
        let (mut keys, mut hits) = (Keys(7), 0u32);
        for step in 0..STEPS {
            let name = if step % 4 == 0 { keys.next(30_000) } else { 30_000 + step % 30_000 }.to_le_bytes();
            let key = cache.key(&name);
            match cache.tier().get(key, 1000, |_| ()) {
                Some(()) => hits += 1,
                None => drop(cache.tier().set(key, Write::new(b"sixteen bytes it"), 1000)),
            }
            if step % 10_000 == 0 {
                cache.tick(1000);
            }
        }
        f64::from(hits) / STEPS as f64
    };
    let simulated = cache(1800, Some(0));
    replay(&simulated);
    let curve = simulated.what_if(1000).expect("it simulates");
    assert!(curve.sampled_share < 1.0, "{curve:?}");
    for point in curve.points {
        let replayed = replay(&cache((1800.0 * point.factor) as usize, None));
        assert!((point.hit_ratio - replayed).abs() < 0.01, "{point:?}: {replayed}");
    }
}

/// A tier of a few MiB is simulated with fewer keys, and still well enough.
#[test]
fn a_small_tier_takes_little() {
    const SMALL: usize = 4 << 20;
    let cache = |max_memory: usize, what_if| {
        Cache::new(Config { max_memory, shards: Some(1), what_if, seed: Some(3), ..Config::default() })
    };
    let replay = |cache: &Arc<Cache>| {
        let (mut keys, mut hits) = (Keys(7), 0u32);
        for step in 0..400_000 {
            let name = keys.next(60_000).to_le_bytes();
            let key = cache.key(&name);
            match cache.tier().get(key, 1000, |_| ()) {
                Some(()) => hits += 1,
                None => drop(cache.tier().set(key, Write::new(&[7; 300]), 1000)),
            }
            if step % 10_000 == 0 {
                cache.tick(1000);
            }
        }
        f64::from(hits) / 400_000.0
    };
    let simulated = cache(SMALL, Some(0));
    replay(&simulated);
    let curve = simulated.what_if(1000).expect("it simulates");
    assert!(curve.sampled_keys < 2048 && curve.bytes < 640 << 10, "{curve:?}");
    for point in curve.points {
        let replayed = replay(&cache((SMALL as f64 * point.factor) as usize, None));
        assert!((point.hit_ratio - replayed).abs() < 0.01, "{point:?}: {replayed}");
    }
}

/// The simulation grows with what the tier holds, and loses no more of its share than a full tier
/// would take from it.
#[test]
fn a_tier_that_holds_little_takes_little() {
    const MOST: u32 = 40_000;
    let bounds = Config { max_memory: 1 << 30, max_keys: Some(MOST as usize), ..Config::default() };
    let cache = Cache::new(Config { what_if: Some(0), seed: Some(3), ..bounds });
    let set = |number: u32| cache.tier().set(cache.key(&number.to_le_bytes()), Write::new(b"v"), 1000);
    (0..MOST / 8).for_each(|number| _ = set(number).expect("it fits"));
    let sample = cache.what_if_sample().expect("it simulates");
    assert!(sample.keys <= 2048 && sample.bytes < 640 << 10, "{sample:?}");
    (MOST / 8..MOST).for_each(|number| _ = set(number).expect("it fits"));
    let sample = cache.what_if_sample().expect("it simulates");
    // 10,000 keys: the half of 16,384 that is left after the keys were halved the last time, or more.
    assert!(sample.share == 0.25 && sample.keys > 8 << 10, "{sample:?}");
}
