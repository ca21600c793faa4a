//! Random histories of tagged entries against a model; after each step the table of tags is
//! compared with what the records carry.

use crate::{
    Attributes, Cache, Change, Config, Entry, Expiry, Fill, Lead, Lookup, Millis, Outcome, Tier, Write,
    stale_tests::WhileTheSourceFails,
    sync::{Arc, lock},
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Names = BTreeSet<Vec<u8>>;

#[derive(Debug, Clone)]
enum Op {
    Set {
        key: u8,
        len: usize,
        tags: Vec<u8>,
        dies: bool,
    },
    AddTags(u8, Vec<u8>),
    Append(u8),
    Delete(u8),
    Read(u8),
    /// Clears a tag, softly or not: without stale windows that is the same.
    Clear(u8, bool),
    /// Begins a fetch, or ends the one that is under way with these tags.
    Fetch(u8, Vec<u8>),
    Wait(u64),
    Tick,
    Count,
    ClearAll,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..40_u8;
    let tags = prop::collection::vec(0..12_u8, 0..5);
    let len = prop_oneof![4 => 0..40_usize, 1 => 17_000..20_000_usize];
    prop_oneof![
        8 => (key.clone(), len, tags.clone(), any::<bool>()).prop_map(|(key, len, tags, dies)| Op::Set { key, len, tags, dies }),
        3 => (key.clone(), tags.clone()).prop_map(|(key, tags)| Op::AddTags(key, tags)),
        2 => key.clone().prop_map(Op::Append),
        2 => key.clone().prop_map(Op::Delete),
        6 => key.clone().prop_map(Op::Read),
        4 => (0..14_u8, any::<bool>()).prop_map(|(tag, soft)| Op::Clear(tag, soft)),
        6 => (key, tags).prop_map(|(key, tags)| Op::Fetch(key, tags)),
        2 => (1..400_u64).prop_map(Op::Wait),
        1 => Just(Op::Tick),
        1 => Just(Op::Count),
        1 => Just(Op::ClearAll),
    ]
}

fn tag_name(tag: u8) -> Vec<u8> {
    vec![tag; 1 + usize::from(tag % 5) * 9]
}

fn key_name(key: u8) -> Vec<u8> {
    vec![key; if key % 10 == 7 { 2000 } else { 4 }]
}

#[derive(Debug, Clone, PartialEq)]
struct Held {
    value: Vec<u8>,
    tags: Names,
    expiry: Option<Millis>,
}

struct Run {
    cache: Arc<Cache>,
    entries: BTreeMap<u8, Held>,
    fetches: BTreeMap<u8, (Lead, BTreeSet<u8>)>,
    now: Millis,
    /// Nothing is ever evicted.
    exact: bool,
}

fn seen(entry: &Entry<'_>) -> Held {
    let tags = entry.tags().map(<[u8]>::to_vec).collect();
    Held { value: entry.value.as_bytes().to_vec(), tags, expiry: entry.expiry() }
}

impl Run {
    fn alive(&mut self, key: u8) -> Option<Held> {
        let now = self.now;
        self.entries.retain(|_, held| held.expiry.is_none_or(|at| at > now));
        self.entries.get(&key).cloned()
    }

    fn agree(&mut self, key: u8) {
        let name = key_name(key);
        let got = self.cache.tier().peek(self.cache.key(&name), self.now, |entry| seen(&entry));
        let wanted = self.alive(key);
        if got.is_none() && !self.exact {
            self.entries.remove(&key);
            return;
        }
        assert_eq!(got, wanted, "key {key}");
    }

    fn step(&mut self, op: Op) {
        let (now, cache) = (self.now, self.cache.clone());
        let names = |tags: &[u8]| tags.iter().map(|tag| tag_name(*tag)).collect::<Vec<_>>();
        match op {
            Op::Set { key, len, tags, dies } => {
                let (name, value, tags) = (key_name(key), vec![key; len], names(&tags));
                let expiry = dies.then_some(now + 500);
                let borrowed: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
                let attributes = Attributes { tags: &borrowed, metadata: b"metadata" };
                let write =
                    Write { attributes, expiry: expiry.map_or(Expiry::Never, Expiry::At), ..Write::new(&value) };
                cache.tier().set(cache.key(&name), write, now).expect("it fits");
                self.entries.insert(key, Held { value, tags: tags.into_iter().collect(), expiry });
                self.fetches.remove(&key);
                self.agree(key);
            }
            Op::AddTags(key, tags) => {
                self.agree(key);
                let (name, tags) = (key_name(key), names(&tags));
                let borrowed: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
                let version = |tier: &mut Tier<'_>| tier.peek(cache.key(&name), now, |entry| entry.version());
                let before = version(&mut cache.tier());
                let added = cache.tier().add_tags(cache.key(&name), &borrowed, now).expect("it fits");
                assert_eq!(added, self.entries.contains_key(&key));
                if let Some(held) = self.entries.get_mut(&key) {
                    held.tags.extend(tags);
                    assert!(version(&mut cache.tier()) >= before);
                }
                self.agree(key);
            }
            Op::Append(key) => {
                self.agree(key);
                let name = key_name(key);
                cache.tier().update(cache.key(&name), now, |_, _| (Change::Append(b"more"), ())).expect("it fits");
                let none = Held { value: Vec::new(), tags: Names::new(), expiry: None };
                self.entries.entry(key).or_insert(none).value.extend_from_slice(b"more");
                self.fetches.remove(&key);
                self.agree(key);
            }
            Op::Delete(key) => {
                self.agree(key);
                assert_eq!(cache.tier().delete(cache.key(&key_name(key)), now), self.entries.remove(&key).is_some());
                self.fetches.remove(&key);
            }
            Op::Read(key) => {
                let name = key_name(key);
                let got = cache.tier().get(cache.key(&name), now, |entry| seen(&entry));
                let wanted = self.alive(key);
                assert!(got == wanted || got.is_none() && !self.exact, "key {key}");
            }
            Op::Clear(tag, soft) => {
                let name = tag_name(tag);
                cache.tier().clear_tag(&name, soft, now);
                self.entries.retain(|_, held| !held.tags.contains(&name));
                self.fetches.values_mut().for_each(|(_, cleared)| _ = cleared.insert(tag));
                (0..40).for_each(|key| self.agree(key));
            }
            Op::Fetch(key, tags) => {
                self.agree(key);
                let name = key_name(key);
                let Some((lead, cleared)) = self.fetches.remove(&key) else {
                    if let Lookup::Lead(lead) = cache.lookup(cache.key(&name), now, |_| ()) {
                        self.fetches.insert(key, (lead, BTreeSet::new()));
                    }
                    return;
                };
                let (value, tag_names) = (vec![key; 10], names(&tags));
                let borrowed: Vec<&[u8]> = tag_names.iter().map(|tag| &tag[..]).collect();
                let fill = Fill::Store(Expiry::Never, Attributes { tags: &borrowed, metadata: b"" });
                let stored = lead.finish(Outcome::Value(value.clone().into()), fill, now);
                let late = tags.iter().any(|tag| cleared.contains(tag));
                assert!(stored != late || !self.exact, "stored {stored}, cleared meanwhile {cleared:?}, tags {tags:?}");
                self.entries.remove(&key);
                if stored {
                    self.entries.insert(key, Held { value, tags: tag_names.into_iter().collect(), expiry: None });
                }
                self.agree(key);
            }
            Op::Wait(ms) => self.now += ms,
            Op::Tick => cache.tick(now),
            Op::Count => {
                cache.tick(now);
                self.alive(0);
                let mut keys = BTreeSet::new();
                let mut tier = cache.tier();
                while tier.scan(0, 10_000, now, |entry| _ = keys.insert(entry.key.to_vec())) != 0 {}
                let known: BTreeSet<_> = self.entries.keys().map(|key| key_name(*key)).collect();
                assert!(keys == known || !self.exact && keys.is_subset(&known));
                // What has expired in this half second may still count.
                let counted = tier.len();
                assert!(counted >= keys.len() && (counted == keys.len() || self.now > 1_000));
                let any = tier.random(now, now, |entry| entry.key.to_vec());
                assert!(any.is_none_or(|key| keys.contains(&key)));
            }
            Op::ClearAll => {
                cache.tier().clear();
                self.entries.clear();
                self.fetches.clear();
            }
        }
    }

    fn check(&self) {
        let (mut bytes, mut flights) = (0, 0);
        for number in 0..self.cache.shards() {
            let shard = lock(self.cache.mutex(number));
            shard.check();
            bytes += shard.bytes_for_test();
            flights += shard.flights.bytes();
        }
        assert_eq!(bytes, self.cache.rules.budget.bytes());
        // A fetch that begins makes no room for itself; the next write does.
        assert!(bytes - flights <= self.cache.max_memory(), "{bytes} of {}", self.cache.max_memory());
    }
}

fn run(config: Config, exact: bool, ops: Vec<Op>) {
    let cache = Cache::new(Config { seed: Some(1), ..config });
    let mut run = Run { cache, entries: BTreeMap::new(), fetches: BTreeMap::new(), now: 1000, exact };
    for op in ops {
        run.step(op);
        run.check();
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(), 1..if cfg!(miri) { 40 } else { 300 })
}

fn cases() -> ProptestConfig {
    if cfg!(miri) {
        ProptestConfig { cases: 2, failure_persistence: None, ..Default::default() }
    } else {
        ProptestConfig::with_cases(64)
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_was_cleared_is_never_read(ops in ops()) {
        run(Config { shards: Some(2), ..Config::default() }, true, ops);
    }

    #[test]
    fn nor_where_things_are_evicted(ops in ops()) {
        run(Config { max_memory: 128 << 10, shards: Some(1), ..Config::default() }, false, ops.clone());
        run(Config { max_keys: Some(15), shards: Some(2), ..Config::default() }, false, ops);
    }
}

fn tagged<'a>(tags: &'a [&'a [u8]]) -> Write<'a> {
    Write { attributes: Attributes { tags, ..Attributes::NONE }, ..Write::new(b"value") }
}

#[test]
fn clears_of_random_tags_and_entries_that_leave_give_their_memory_back() {
    let cache = Cache::new(Config { shards: Some(4), ..Config::default() });
    let mut tier = cache.tier();
    let empty = cache.stats().used_bytes;
    let (entries, clears) = if cfg!(miri) { (50_u32, 200_u32) } else { (5000, 200_000) };
    let set = |tier: &mut Tier<'_>, n: u32| {
        let (own, shared) = (n.to_le_bytes(), [n as u8]);
        tier.set(cache.key(&own), tagged(&[&own, &shared, b"all"]), 0).expect("it fits");
    };
    (0..entries).for_each(|n| set(&mut tier, n));
    let full = cache.stats();
    assert!(full.tags > u64::from(entries) && full.tag_bytes > 60 * u64::from(entries), "{full:?}");
    for n in 0..clears {
        // Some that no entry carries, some that one does, which is then stored again.
        let tag = (n.wrapping_mul(2_654_435_761) % (2 * entries)).to_le_bytes();
        tier.clear_tag(&tag, n % 3 == 0, u64::from(n));
        let n = u32::from_le_bytes(tag);
        if n < entries {
            set(&mut tier, n);
        }
        if n % 1000 == 0 {
            cache.tick(u64::from(n));
        }
    }
    let after = cache.stats();
    assert_eq!((after.tags, after.tag_clears), (full.tags, u64::from(clears)));
    assert!(after.tag_bytes < full.tag_bytes + 1024, "flat: {} after {}", after.tag_bytes, full.tag_bytes);
    assert!(after.used_bytes < full.used_bytes * 3 / 2, "{} of {}", after.used_bytes, full.used_bytes);
    // A clear of what all carry is seen by those who count, without a read or a tick.
    assert_eq!(tier.clear_tag(b"all", false, 0), u64::from(entries));
    assert_eq!((tier.len(), cache.stats().tags, cache.stats().tag_bytes), (0, 0, 0));
    (0..entries).for_each(|n| set(&mut tier, n));
    for n in 0..entries {
        assert!(tier.delete(cache.key(&n.to_le_bytes()), 0));
    }
    let left = cache.stats();
    assert_eq!((left.tags, left.tag_bytes), (0, 0), "nothing is left behind");
    assert!(left.used_bytes >= empty);
}

#[test]
fn a_soft_clear_makes_out_of_date_and_windows_are_not_lengthened() {
    let cache = Cache::new(Config { stale_rules: Some(WhileTheSourceFails::shared(200)), ..Config::default() });
    let key = cache.key(b"k");
    cache.tier().set(key, tagged(&[b"a", b"b"]), 0).expect("it fits");
    cache.tier().set(cache.key(b"other"), tagged(&[b"b"]), 0).expect("it fits");
    let known = |now| match cache.lookup(key, now, |_| ()) {
        Lookup::Lead(lead) => lead.last_known(now),
        other => panic!("it is not out of date: {other:?}"),
    };
    // Many in a row: the first counts.
    for now in 10..150 {
        cache.tier().clear_tag(b"a", true, now);
    }
    assert_eq!(known(150), Some(Some("value".into())));
    assert!(cache.tier().peek(key, 150, |_| ()).is_none());
    assert_eq!(cache.tier().peek(cache.key(b"other"), 150, |_| ()), Some(()));
    cache.tick(150);
    assert_eq!(known(209), Some(Some("value".into())), "a sweep leaves it");
    assert_eq!(known(210), None);
    // A hard clear ends what a soft one left.
    cache.tier().set(key, tagged(&[b"a"]), 300).expect("it fits");
    assert_eq!(cache.tier().get(key, 300, |_| ()), Some(()), "stored after the clears");
    cache.tier().clear_tag(b"a", true, 300);
    assert_eq!(known(301), Some(Some("value".into())));
    cache.tier().clear_tag(b"a", false, 302);
    assert_eq!(known(303), None);
    // Soft after hard does not bring it back, and the first of two tags counts.
    cache.tier().set(key, tagged(&[b"a", b"b"]), 400).expect("it fits");
    cache.tier().clear_tag(b"a", true, 410);
    cache.tier().clear_tag(b"b", true, 500);
    assert_eq!((known(609), known(610)), (Some(Some("value".into())), None));
    cache.tick(100_000);
    let shard = lock(cache.mutex(0));
    assert_eq!(shard.tags.latest(), 0, "nothing is left to be looked at");
    shard.check();
}

#[test]
fn a_fetch_that_began_before_a_clear_is_not_stored_with_its_tag() {
    let cache = Cache::new(Config { shards: Some(1), ..Config::default() });
    let begin = |name: &[u8]| match cache.lookup(cache.key(name), 0, |_| ()) {
        Lookup::Lead(lead) => lead,
        other => panic!("no lead: {other:?}"),
    };
    let store = |lead: Lead, tags: &[&[u8]]| {
        let fill = Fill::Store(Expiry::Never, Attributes { tags, ..Attributes::NONE });
        lead.finish(Outcome::Value("v".into()), fill, 0)
    };
    let clear = |tag: &[u8]| cache.tier().clear_tag(tag, false, 0);
    let before = ["one", "two", "three", "four"].map(|name| begin(name.as_bytes()));
    assert_eq!(clear(b"t"), 0);
    let after = begin(b"five");
    let [one, two, three, four] = before;
    assert!(!store(one, &[b"u", b"t"]));
    assert!(store(two, &[b"u"]) && store(three, &[]));
    assert!(store(after, &[b"t"]), "it began later");
    assert!(begin(b"one").last_known(0).is_none());
    // So many clears that not all are remembered: then what has tags is not stored, rather than
    // wrongly.
    let late = begin(b"late");
    (0..200_u8).for_each(|n| _ = clear(&[n]));
    let [plain, six] = ["plain", "six"].map(|name| begin(name.as_bytes()));
    assert!(!store(four, &[b"never cleared"]) && !store(late, &[b"never cleared"]));
    assert!(store(plain, &[]) && store(six, &[b"never cleared"]));
    assert!(cache.stats().tag_bytes < 4096);
}

#[test]
fn tags_are_added_without_making_an_entry_younger_or_cleared() {
    let cache = Cache::new(Config { shards: Some(1), ..Config::default() });
    let key = cache.key(b"k");
    let about = || cache.tier().peek(key, 0, |e| (e.version(), e.tags().map(<[u8]>::to_vec).collect::<Vec<_>>()));
    cache.tier().set(key, tagged(&[b"a", b"a"]), 0).expect("it fits");
    cache.tier().set(cache.key(b"carries"), tagged(&[b"b", b"c"]), 0).expect("it fits");
    let (version, tags) = about().expect("held");
    assert_eq!(tags, [b"a"]);
    assert_eq!(cache.tier().add_tags(key, &[b"b", b"a"], 0), Ok(true));
    assert_eq!(about(), Some((version, vec![b"a".to_vec(), b"b".to_vec()])));
    // The clear came before the tag.
    cache.tier().clear_tag(b"c", false, 0);
    assert_eq!(cache.tier().add_tags(key, &[b"c"], 0), Ok(true));
    let (later, tags) = about().expect("not cleared");
    assert!(later > version && tags.len() == 3);
    cache.tier().clear_tag(b"c", false, 0);
    assert_eq!(about(), None);
    assert_eq!(cache.tier().add_tags(key, &[b"c"], 0), Ok(false));
    let many: Vec<[u8; 4]> = (0..130_u32).map(u32::to_le_bytes).collect();
    let many: Vec<&[u8]> = many.iter().map(|tag| &tag[..]).collect();
    cache.tier().set(key, tagged(&many[..128]), 0).expect("it fits");
    assert_eq!(cache.tier().add_tags(key, &many[..128], 0), Ok(true), "it has them");
    assert!(cache.tier().add_tags(key, &many[128..], 0).is_err());
    lock(cache.mutex(0)).check();
}
