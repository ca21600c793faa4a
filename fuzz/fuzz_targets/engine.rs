//! The engine against a map: whatever is done, a read gives what was written last or nothing, and the bounds hold.
#![no_main]

use arbitrary::Arbitrary;
use larder_engine::{Attributes, Cache, Change, Config, Entry, Expiry, Fill, Lookup, Outcome, Write};
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;

#[derive(Debug, Arbitrary)]
struct Input {
    memory_kib: u8,
    keys: Option<u8>,
    shards: u8,
    ops: Vec<Op>,
}

#[derive(Debug, Arbitrary)]
enum Op {
    /// Each bit of `tags` is a tag.
    Set {
        key: u8,
        len: u16,
        life: Option<u16>,
        tags: u8,
    },
    Append {
        key: u8,
        len: u16,
    },
    Splice {
        key: u8,
        at: u16,
        len: u8,
    },
    Expire {
        key: u8,
        life: Option<u16>,
    },
    Get {
        key: u8,
    },
    Delete {
        key: u8,
    },
    Derived {
        key: u8,
        name: u8,
        len: u16,
        life: Option<u16>,
    },
    Fill {
        key: u8,
        len: u16,
        life: Option<u16>,
        tags: u8,
        overtaken_by: Option<u8>,
    },
    AddTags {
        key: u8,
        tags: u8,
    },
    ClearTag {
        tag: u8,
        soft: bool,
    },
    Scan {
        count: u8,
    },
    Wait {
        ms: u16,
    },
    Tick,
    Clear,
}

fuzz_target!(|input: Input| {
    let cache = Cache::new(Config {
        max_memory: (200 + usize::from(input.memory_kib)) << 10,
        max_keys: input.keys.map(|keys| usize::from(keys) + 1),
        shards: Some(usize::from(input.shards % 4) + 1),
        seed: Some(0),
        ..Config::default()
    });
    let mut model: HashMap<Vec<u8>, (Vec<u8>, Option<u64>)> = HashMap::new();
    // The tags of what is in the model.
    let mut tags_of: HashMap<Vec<u8>, u8> = HashMap::new();
    // What was derived from keys since they last changed.
    let mut derived: HashMap<(Vec<u8>, u8), (Vec<u8>, Option<u64>)> = HashMap::new();
    let (mut now, mut serial) = (1_u64 << 40, 0_u8);
    // Every eighth key is too long for a segment.
    let name = |key: u8| vec![key; if key % 8 == 7 { 2000 } else { 1 + usize::from(key % 32) }];
    let names: Vec<[u8; 1]> = (0..8).map(|tag| [tag]).collect();
    let tags_in =
        |bits: u8| -> Vec<&[u8]> { (0..8).filter(|tag| bits & 1 << tag != 0).map(|tag| &names[tag][..]).collect() };
    let mut tier = cache.tier();
    for op in input.ops {
        serial = serial.wrapping_add(1);
        let at = |life: Option<u16>| life.map_or(Expiry::Never, |ms| Expiry::At(now + u64::from(ms)));
        let until = |life: Option<u16>| life.map(|ms| now + u64::from(ms));
        if let Op::Set { key, .. }
        | Op::Fill { key, .. }
        | Op::Append { key, .. }
        | Op::Splice { key, .. }
        | Op::Delete { key } = &op
        {
            derived.retain(|(of, _), _| *of != name(*key));
        }
        match op {
            Op::Set { key, len, life, tags } => {
                let (key, value) = (name(key), vec![serial; usize::from(len)]);
                let attributes = Attributes { tags: &tags_in(tags), ..Attributes::NONE };
                tier.set(cache.key(&key), Write { expiry: at(life), attributes, ..Write::new(&value) }, now)
                    .expect("it fits");
                tags_of.insert(key.clone(), tags);
                model.insert(key, (value, until(life)));
            }
            Op::Fill { key, len, life, tags, overtaken_by } => {
                let (key, value) = (name(key), vec![serial; usize::from(len)]);
                // Whatever is held may be older.
                tier.delete(cache.key(&key), now);
                model.remove(&key);
                let Lookup::Lead(lead) = cache.lookup(cache.key(&key), now, |_| ()) else { panic!("nothing is held") };
                if let Some(cleared) = overtaken_by {
                    let tag = cleared % 8;
                    tier.clear_tag(&[tag], false, now);
                    model.retain(|key, _| tags_of.get(key).is_none_or(|tags| tags & 1 << tag == 0));
                }
                let attributes = Attributes { tags: &tags_in(tags), metadata: &value[..value.len().min(9)] };
                let is_kept = lead.finish(Outcome::Value(value.clone().into()), Fill::Store(at(life), attributes), now);
                let is_cleared = overtaken_by.is_some_and(|cleared| tags & 1 << (cleared % 8) != 0);
                assert!(!(is_kept && is_cleared));
                if is_kept {
                    tags_of.insert(key.clone(), tags);
                    model.insert(key, (value, until(life)));
                }
            }
            Op::AddTags { key, tags } => {
                let key = name(key);
                if tier.add_tags(cache.key(&key), &tags_in(tags), now).expect("they fit") {
                    *tags_of.entry(key).or_default() |= tags;
                }
            }
            // Without stale rules, what is cleared softly is gone too.
            Op::ClearTag { tag, soft } => {
                let tag = tag % 8;
                tier.clear_tag(&[tag], soft, now);
                model.retain(|key, _| tags_of.get(key).is_none_or(|tags| tags & 1 << tag == 0));
            }
            Op::Append { key, len } => {
                let (key, more) = (name(key), vec![serial; usize::from(len)]);
                let before = tier.peek(cache.key(&key), now, |e| (e.value.as_bytes().to_vec(), e.expiry()));
                if before.is_none() {
                    tags_of.remove(&key);
                }
                let (mut value, expiry) = before.unwrap_or_default();
                if value.len() + more.len() > 100_000 {
                    continue;
                }
                tier.update(cache.key(&key), now, |_, _| (Change::Append(&more), ())).expect("it fits");
                value.extend(more);
                model.insert(key, (value, expiry));
            }
            Op::Splice { key, at, len } => {
                let (key, more, at) = (name(key), vec![serial; usize::from(len)], usize::from(at));
                let before = tier.peek(cache.key(&key), now, |e| (e.value.as_bytes().to_vec(), e.expiry()));
                if before.is_none() {
                    tags_of.remove(&key);
                }
                let (mut value, expiry) = before.unwrap_or_default();
                tier.update(cache.key(&key), now, |_, _| (Change::Splice(at, &more), ())).expect("it fits");
                value.resize(value.len().max(at + more.len()), 0);
                value[at..at + more.len()].copy_from_slice(&more);
                model.insert(key, (value, expiry));
            }
            Op::Expire { key, life } => {
                let key = name(key);
                let there =
                    tier.update(cache.key(&key), now, |e, _| (Change::Expire(at(life)), e.is_some())).expect("it fits");
                if let (true, Some(entry)) = (there, model.get_mut(&key)) {
                    entry.1 = until(life);
                }
            }
            Op::Get { key } => {
                let key = name(key);
                let bits = |e: &Entry<'_>| e.tags().fold(0, |bits, tag| bits | 1 << tag[0]);
                if let Some((got, tags)) =
                    tier.get(cache.key(&key), now, |e| ((e.value.to_bytes().to_vec(), e.expiry()), bits(&e)))
                {
                    assert_eq!(tags, tags_of.get(&key).copied().unwrap_or_default());
                    assert!(got.1.is_none_or(|at| at > now));
                    assert_eq!(Some(&got), model.get(&key));
                }
            }
            Op::Delete { key } => {
                let key = name(key);
                tier.delete(cache.key(&key), now);
                model.remove(&key);
                assert!(tier.peek(cache.key(&key), now, |_| ()).is_none());
            }
            Op::Derived { key, name: of, len, life } => {
                let key = name(key);
                let named = [&b"derived"[..], &[of], &key].concat();
                let (hashed, named) = (cache.key(&key), cache.key(&named));
                match cache.lookup_derived(hashed, named, now, |found| found.as_bytes().to_vec()) {
                    Lookup::Hit(value) => {
                        let known = derived.get(&(key, of)).expect("it was derived since the key changed");
                        assert!(known.0 == value && known.1.is_none_or(|at| at > now));
                    }
                    Lookup::Absent => {}
                    Lookup::Wait(_) => panic!("no flight outlives its step"),
                    Lookup::Renew(..) => panic!("nothing is served that is out of date"),
                    Lookup::Lead(lead) => {
                        let value = vec![serial; usize::from(len)];
                        derived.remove(&(key.clone(), of));
                        lead.sent_through(1);
                        if lead.finish(
                            Outcome::Value(value.clone().into()),
                            Fill::Store(at(life), Attributes::NONE),
                            now,
                        ) {
                            // Its key has no value beside it.
                            assert!(tier.peek(hashed, now, |_| ()).is_none());
                            model.remove(&key);
                            derived.insert((key, of), (value, until(life)));
                        }
                    }
                }
            }
            Op::Scan { count } => {
                let mut cursor = 0;
                loop {
                    cursor = tier.scan(cursor, count.into(), now, |e| {
                        assert_eq!(model.get(e.key).map(|m| &m.0[..]), Some(e.value.as_bytes()));
                    });
                    if cursor == 0 {
                        break;
                    }
                }
            }
            Op::Wait { ms } => now += u64::from(ms),
            Op::Tick => cache.tick(now),
            Op::Clear => {
                tier.clear();
                model.clear();
                derived.clear();
                assert!(tier.is_empty());
                assert_eq!(cache.stats().tags, 0);
            }
        }
        let stats = cache.stats();
        assert!(stats.used_bytes <= stats.max_bytes);
        assert!(cache.max_keys().is_none_or(|max| tier.len() <= max));
    }
});
