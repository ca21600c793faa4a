//! Flight and fence under every interleaving that shuttle's scheduler finds. Run with `--features
//! shuttle`.

use larder_engine::{
    Attributes, Cache, Clear, Config, Expiry, Fill, Key, Listener, ListenerKind, Lookup, Outcome, Write,
};
use shuttle::{
    future::block_on,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

fn cache(shards: usize) -> Arc<Cache> {
    Cache::new(Config { shards: Some(shards), max_memory: 1 << 20, seed: Some(3), ..Config::default() })
}

fn read(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    cache.tier().peek(cache.key(key), 0, |e| e.value.as_bytes().to_vec())
}

fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    shuttle::check_pct(scenario, 3000, 4);
}

#[test]
fn concurrent_misses_fetch_once_and_all_get_the_value() {
    explore(|| {
        let cache = cache(1);
        let fetches = Arc::new(AtomicUsize::new(0));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (cache, fetches) = (cache.clone(), fetches.clone());
                thread::spawn(move || match cache.lookup(cache.key(b"k"), 0, |e| e.value.to_bytes()) {
                    Lookup::Hit(value) => Outcome::Value(value),
                    Lookup::Absent => Outcome::Absent,
                    Lookup::Wait(wait) => block_on(wait),
                    Lookup::Renew(..) => panic!("nothing is served that is out of date"),
                    Lookup::Lead(lead) => {
                        fetches.fetch_add(1, SeqCst);
                        let wait = lead.wait();
                        lead.finish(Outcome::Value("v".into()), Fill::Store(Expiry::Never, Attributes::NONE), 0);
                        block_on(wait)
                    }
                })
            })
            .collect();
        for reader in readers {
            assert_eq!(reader.join().expect("no panic"), Outcome::Value("v".into()));
        }
        assert_eq!(fetches.load(SeqCst), 1);
    });
}

/// The source changes while it is being read: whatever the order, the cache must not keep the old
/// value.
fn overtaken(forget: impl Fn(&Cache, &[u8]) + Send + Sync + Copy + 'static) {
    overtaken_in(1, &[], forget);
}

/// The same, in so many shards. What is fetched carries these tags.
fn overtaken_in(
    shards: usize,
    tags: &'static [&'static [u8]],
    forget: impl Fn(&Cache, &[u8]) + Send + Sync + Copy + 'static,
) {
    for in_one_step in [false, true] {
        overtaken_by(shards, tags, in_one_step, forget);
    }
}

/// The same. The answer overtakes others and ends its flight in one step, or only ends it.
fn overtaken_by(
    shards: usize,
    tags: &'static [&'static [u8]],
    in_one_step: bool,
    forget: impl Fn(&Cache, &[u8]) + Send + Sync + Copy + 'static,
) {
    explore(move || {
        let cache = cache(shards);
        let source = Arc::new(Mutex::new(b"old".to_vec()));
        let reader = {
            let (cache, source) = (cache.clone(), source.clone());
            thread::spawn(move || {
                if let Lookup::Lead(lead) = cache.lookup(cache.key(b"k"), 0, |_| ()) {
                    let value = source.lock().expect("no panic").clone();
                    thread::yield_now();
                    let attributes = Attributes { tags, ..Attributes::NONE };
                    let (outcome, fill) = (Outcome::Value(value.into()), Fill::Store(Expiry::Never, attributes));
                    if in_one_step {
                        lead.overtake_and_finish(outcome, fill, 0);
                    } else {
                        lead.finish(outcome, fill, 0);
                    }
                }
            })
        };
        let writer = {
            let (cache, source) = (cache.clone(), source.clone());
            thread::spawn(move || {
                *source.lock().expect("no panic") = b"new".to_vec();
                forget(&cache, b"new");
            })
        };
        reader.join().expect("no panic");
        writer.join().expect("no panic");
        let held = read(&cache, b"k");
        assert!(held.is_none() || held.as_deref() == Some(b"new"), "{held:?}");
    });
}

#[test]
fn a_fill_never_survives_a_write_that_overtook_it() {
    overtaken(|cache, new| {
        cache.tier().set(cache.key(b"k"), Write::new(new), 0).expect("it fits");
    });
}

#[test]
fn a_fill_never_survives_a_delete_that_overtook_it() {
    overtaken(|cache, _| {
        cache.tier().delete(cache.key(b"k"), 0);
    });
}

#[test]
fn a_fill_never_survives_an_invalidation_that_overtook_it() {
    overtaken(|cache, _| cache.invalidate(cache.key(b"k")));
}

#[test]
fn a_fill_never_survives_a_clear_that_overtook_it() {
    overtaken(|cache, _| cache.tier().clear());
}

#[test]
fn a_fill_never_survives_a_clear_of_its_tag_that_overtook_it() {
    for shards in [1, 4] {
        overtaken_in(shards, &[b"other", b"tag"], |cache, _| {
            cache.tier().clear_tag(b"tag", false, 0);
        });
    }
}

#[test]
fn a_fill_is_kept_if_only_tags_of_others_were_cleared() {
    explore(|| {
        let cache = cache(1);
        let fill = {
            let cache = cache.clone();
            thread::spawn(move || {
                let Lookup::Lead(lead) = cache.lookup(cache.key(b"k"), 0, |_| ()) else {
                    panic!("the only reader leads")
                };
                let attributes = Attributes { tags: &[b"tag"], ..Attributes::NONE };
                lead.finish(Outcome::Value("v".into()), Fill::Store(Expiry::Never, attributes), 0);
            })
        };
        cache.tier().clear_tag(b"other", false, 0);
        fill.join().expect("no panic");
        assert_eq!(read(&cache, b"k").as_deref(), Some(&b"v"[..]));
        assert_eq!(cache.tier().clear_tag(b"tag", false, 0), 1);
        assert_eq!(read(&cache, b"k"), None);
    });
}

/// Two writers, of whom one tags: an entry has the tags of the write that it holds, so a clear ends
/// it or finds none.
#[test]
fn a_clear_ends_what_carries_its_tag_and_nothing_else() {
    explore(|| {
        let cache = cache(1);
        let tagged = {
            let cache = cache.clone();
            thread::spawn(move || {
                let attributes = Attributes { tags: &[b"tag"], ..Attributes::NONE };
                cache.tier().set(cache.key(b"k"), Write { attributes, ..Write::new(b"tagged") }, 0).expect("it fits");
            })
        };
        let plain = {
            let cache = cache.clone();
            thread::spawn(move || {
                cache.tier().set(cache.key(b"k"), Write::new(b"plain"), 0).expect("it fits");
            })
        };
        tagged.join().expect("no panic");
        let cleared = cache.tier().clear_tag(b"tag", false, 0);
        plain.join().expect("no panic");
        let held = read(&cache, b"k");
        assert!(cleared == 0 || held.as_deref() != Some(b"tagged"), "{cleared} {held:?}");
        assert!(held.is_none() || held.as_deref() == Some(b"plain"), "{held:?}");
        assert_eq!(cache.tier().clear_tag(b"tag", false, 0), 0, "no row is left behind");
    });
}

#[test]
fn a_leader_that_goes_away_releases_every_waiter_and_the_key() {
    explore(|| {
        let cache = cache(1);
        let Lookup::Lead(lead) = cache.lookup(cache.key(b"k"), 0, |_| ()) else { panic!("the first miss leads") };
        let waiters: Vec<_> = (0..2)
            .map(|_| {
                let cache = cache.clone();
                thread::spawn(move || match cache.lookup(cache.key(b"k"), 0, |_| ()) {
                    Lookup::Wait(wait) => block_on(wait),
                    Lookup::Renew(..) => panic!("nothing is served that is out of date"),
                    Lookup::Lead(lead) => {
                        drop(lead);
                        Outcome::Abandoned
                    }
                    other => panic!("nothing was stored: {other:?}"),
                })
            })
            .collect();
        drop(lead);
        for waiter in waiters {
            assert_eq!(waiter.join().expect("no panic"), Outcome::Abandoned);
        }
        assert!(matches!(cache.lookup(cache.key(b"k"), 0, |_| ()), Lookup::Lead(_)));
        assert_eq!(cache.stats().flights, 0);
    });
}

#[test]
fn exclusive_operations_on_the_same_shards_neither_deadlock_nor_interleave() {
    explore(|| {
        let cache = cache(4);
        // Room for little: each write must also evict, from shards that the other thread may hold.
        cache.set_max_memory(54 << 10);
        let writers: Vec<_> = [[b"a", b"b"], [b"b", b"a"]]
            .into_iter()
            .enumerate()
            .map(|(n, keys)| {
                let cache = cache.clone();
                thread::spawn(move || {
                    let keys = keys.map(|k| cache.key(k));
                    let mut tier = cache.exclusive(keys);
                    for key in keys {
                        tier.set(key, Write::new(&[n as u8; 3000]), 0).expect("it fits");
                        thread::yield_now();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("no panic");
        }
        if let (Some(a), Some(b)) = (read(&cache, b"a"), read(&cache, b"b")) {
            assert_eq!(a, b);
        }
    });
}

/// One thread lowers the bound and shrinks, another raises it and lowers it to something else, and a
/// third writes: the last bound counts, and nothing is held above it once a thread has shrunk.
#[test]
fn the_last_bound_holds_whoever_shrinks_meanwhile() {
    fn shrink(cache: &Cache) {
        while cache.shrink(0).is_some() {
            thread::yield_now();
        }
    }
    explore(|| {
        let cache = cache(2);
        for n in 0..40_u8 {
            cache.tier().set(cache.key(&[n]), Write::new(&[n; 3000]), 0).expect("it fits");
        }
        let bounds: [&[usize]; 2] = [&[80 << 10], &[1 << 20, 90 << 10]];
        let mut threads: Vec<_> = bounds
            .into_iter()
            .map(|bounds| {
                let cache = cache.clone();
                thread::spawn(move || {
                    for bound in bounds {
                        cache.set_max_memory(*bound);
                        shrink(&cache);
                    }
                })
            })
            .collect();
        threads.push({
            let cache = cache.clone();
            thread::spawn(move || {
                for n in 40..44_u8 {
                    cache.tier().set(cache.key(&[n]), Write::new(&[n; 3000]), 0).expect("it fits");
                }
            })
        });
        for thread in threads {
            thread.join().expect("no panic");
        }
        shrink(&cache);
        let (stats, bound) = (cache.stats(), cache.max_memory());
        assert!(bound == 80 << 10 || bound == 90 << 10, "{bound}");
        assert!(!cache.is_shrinking() && stats.used_bytes <= bound as u64, "{stats:?}");
        // What may be held is neither above the bound nor below it.
        cache.set_max_memory(1 << 20);
        for n in 50..60_u8 {
            cache.tier().set(cache.key(&[n]), Write::new(&[n; 3000]), 0).expect("it fits");
        }
        assert!((50..60).all(|n| read(&cache, &[n]).is_some()));
    });
}

/// Two clients read a key, each leading over a queue of its own, while it is written, announced and
/// forgotten once for nothing: neither may be given an older value after a newer one, nor may the
/// cache keep an old one.
#[test]
fn no_reader_goes_back_where_fenced_flights_overtake() {
    fn read_once(cache: &Arc<Cache>, source: &Mutex<u8>, queue: u32) -> u8 {
        let outcome = match cache.lookup(cache.key(b"k"), 0, |e| e.value.to_bytes()) {
            Lookup::Hit(value) => Outcome::Value(value),
            Lookup::Wait(wait) => block_on(wait),
            Lookup::Renew(..) => panic!("nothing is served that is out of date"),
            Lookup::Lead(lead) => {
                let wait = lead.wait();
                lead.sent_through(queue);
                thread::yield_now();
                let value = vec![*source.lock().expect("no panic")];
                thread::yield_now();
                lead.overtake();
                lead.finish(Outcome::Value(value.into()), Fill::Store(Expiry::Never, Attributes::NONE), 0);
                block_on(wait)
            }
            Lookup::Absent => panic!("no absence is stored"),
        };
        match outcome {
            Outcome::Value(value) => value[0],
            other => panic!("no value: {other:?}"),
        }
    }
    let scenario = || {
        let (cache, source) = (cache(1), Arc::new(Mutex::new(0)));
        let readers: Vec<_> = [1, 2]
            .into_iter()
            .map(|queue| {
                let (cache, source) = (cache.clone(), source.clone());
                thread::spawn(move || {
                    let reads = [(); 3].map(|()| read_once(&cache, &source, queue));
                    assert!(reads.is_sorted(), "{reads:?}");
                })
            })
            .collect();
        let writer = {
            let (cache, source) = (cache.clone(), source.clone());
            thread::spawn(move || {
                cache.invalidate(cache.key(b"k"));
                *source.lock().expect("no panic") = 1;
                thread::yield_now();
                cache.invalidate(cache.key(b"k"));
            })
        };
        for thread in readers.into_iter().chain([writer]) {
            thread.join().expect("no panic");
        }
        let held = read(&cache, b"k");
        assert!(held.is_none() || held == Some(vec![1]), "{held:?}");
    };
    // More switches than `explore` makes: random ones find the order within some thousands.
    shuttle::check_random(scenario, 20_000);
}

/// A source with a word for each queue: a change is announced to a queue that has read since the
/// last, in order with what it is answered.
#[derive(Default)]
struct Announcing {
    number: u8,
    reads: [bool; 2],
    due: [bool; 2],
}

/// Two clients read a value and two things derived from it, each over a queue of its own, while it
/// is written. Neither goes back, whatever it reads, and once all is announced nothing old is left.
#[test]
fn no_reader_goes_back_between_a_value_and_what_is_derived_from_it() {
    struct World {
        cache: Arc<Cache>,
        source: Mutex<Announcing>,
        /// The thread that handles what comes through a queue.
        handling: [Mutex<()>; 2],
    }
    fn lookup(cache: &Arc<Cache>, name: &[u8]) -> Lookup<bytes::Bytes> {
        match name {
            b"" => cache.lookup(cache.key(b"k"), 0, |e| e.value.to_bytes()),
            _ => cache
                .lookup_derived(cache.key(b"k"), cache.key(name), 0, |d| bytes::Bytes::copy_from_slice(d.as_bytes())),
        }
    }
    fn read_once(world: &World, name: &[u8], queue: usize) -> u8 {
        let outcome = match lookup(&world.cache, name) {
            Lookup::Hit(value) => Outcome::Value(value),
            Lookup::Wait(wait) => block_on(wait),
            Lookup::Renew(..) => panic!("nothing is served that is out of date"),
            Lookup::Lead(lead) => {
                let wait = lead.wait();
                let _handling = world.handling[queue].lock().expect("no panic");
                lead.sent_through(queue as u32 + 1);
                let (number, announced) = {
                    let mut source = world.source.lock().expect("no panic");
                    source.reads[queue] = true;
                    (source.number, std::mem::take(&mut source.due[queue]))
                };
                thread::yield_now();
                if announced {
                    world.cache.invalidate(world.cache.key(b"k"));
                }
                lead.overtake();
                lead.finish(Outcome::Value(vec![number].into()), Fill::Store(Expiry::Never, Attributes::NONE), 0);
                block_on(wait)
            }
            // Wanted for the first time: asked for over a connection on which nothing is announced.
            Lookup::Absent => {
                let number = world.source.lock().expect("no panic").number;
                thread::yield_now();
                world.cache.invalidate(world.cache.key(b"k"));
                return number;
            }
        };
        match outcome {
            Outcome::Value(value) => value[0],
            other => panic!("no value: {other:?}"),
        }
    }
    let scenario = || {
        let world = Arc::new(World { cache: cache(2), source: Mutex::default(), handling: Default::default() });
        let readers: Vec<_> = [(0, [&b"a"[..], b"", b"b", b"a"]), (1, [&b"b"[..], b"a", b"", b"b"])]
            .into_iter()
            .map(|(queue, names)| {
                let world = world.clone();
                thread::spawn(move || {
                    let reads = names.map(|name| read_once(&world, name, queue));
                    assert!(reads.is_sorted(), "{reads:?}");
                })
            })
            .collect();
        let writer = {
            let world = world.clone();
            thread::spawn(move || {
                {
                    let mut source = world.source.lock().expect("no panic");
                    source.number = 1;
                    source.due = std::mem::take(&mut source.reads);
                }
                for queue in [0, 1] {
                    thread::yield_now();
                    let _handling = world.handling[queue].lock().expect("no panic");
                    if std::mem::take(&mut world.source.lock().expect("no panic").due[queue]) {
                        world.cache.invalidate(world.cache.key(b"k"));
                    }
                }
            })
        };
        for thread in readers.into_iter().chain([writer]) {
            thread.join().expect("no panic");
        }
        for name in [&b""[..], b"a", b"b"] {
            if let Lookup::Hit(value) = lookup(&world.cache, name) {
                assert_eq!(value[..], [1], "{name:?}");
            }
        }
    };
    shuttle::check_random(scenario, 20_000);
}

/// What a log of changes says, in order.
#[derive(Debug, Clone)]
enum Told {
    Key(Vec<u8>),
    Clear,
    ClearPrefix(Vec<u8>),
    ClearTag(Vec<u8>),
}

#[derive(Debug, Default)]
struct ToldLog(Mutex<Vec<Told>>);
impl ToldLog {
    fn tell(&self, told: Told) {
        self.0.lock().expect("no panic").push(told);
    }
}
impl Listener for ToldLog {
    fn changed(&self, key: Key<'_>, _by: u64) {
        self.tell(Told::Key(key.bytes().to_vec()));
    }
    fn clearing(&self, what: Clear<'_>) {
        self.tell(match what {
            Clear::All => Told::Clear,
            Clear::Prefix(prefix, _) => Told::ClearPrefix(prefix.to_vec()),
            Clear::Tag(tag, _) => Told::ClearTag(tag.to_vec()),
        });
    }
    fn settled(&self) {}
}

/// A copy that follows the log: of a key that was told it reads the present entry, and clears it
/// executes itself.
struct Follower {
    log: std::sync::Arc<ToldLog>,
    copy: Arc<Cache>,
    read: usize,
}
impl Follower {
    fn copy_entry(&self, cache: &Cache, key: &[u8]) {
        let found = cache.tier().peek(cache.key(key), 0, |entry| {
            (entry.value.to_bytes(), entry.tags().map(<[u8]>::to_vec).collect::<Vec<_>>())
        });
        match found {
            Some((value, tags)) => {
                let tags: Vec<&[u8]> = tags.iter().map(Vec::as_slice).collect();
                let write = Write { attributes: Attributes { tags: &tags, metadata: &[] }, ..Write::new(&value) };
                self.copy.tier().set(self.copy.key(key), write, 0).expect("it fits");
            }
            None => {
                self.copy.tier().delete(self.copy.key(key), 0);
            }
        }
    }
    fn catch_up(&mut self, cache: &Cache) {
        let told = self.log.0.lock().expect("no panic")[self.read..].to_vec();
        self.read += told.len();
        for told in told {
            match told {
                Told::Key(key) => self.copy_entry(cache, &key),
                Told::Clear => self.copy.tier().clear(),
                Told::ClearPrefix(prefix) => {
                    self.copy.mark_prefix(&prefix, true, 0);
                }
                Told::ClearTag(tag) => {
                    self.copy.tier().clear_tag(&tag, false, 0);
                }
            }
        }
    }
}

/// A listener that copies all entries at some moment and then follows what is told ends with
/// the same entries, whatever is cleared and written meanwhile.
fn followed(clear: impl Fn(&Cache) + Send + Sync + Copy + 'static) {
    const KEYS: [&[u8]; 5] = [b"a1", b"a2", b"a3", b"a4", b"b"];
    let set = |cache: &Cache, key: &[u8], value: &[u8]| {
        let write = Write { attributes: Attributes { tags: &[b"t"], metadata: &[] }, ..Write::new(value) };
        cache.tier().set(cache.key(key), write, 0).expect("it fits");
    };
    let scenario = move || {
        let cache = cache(4);
        let log = std::sync::Arc::<ToldLog>::default();
        assert!(cache.set_listener(ListenerKind::Replication, log.clone()));
        KEYS.iter().for_each(|key| set(&cache, key, b"old"));
        let writer = {
            let cache = cache.clone();
            thread::spawn(move || KEYS[3..].iter().for_each(|key| set(&cache, key, b"new")))
        };
        let clearer = {
            let cache = cache.clone();
            thread::spawn(move || clear(&cache))
        };
        let mut follower = Follower { log, copy: self::cache(2), read: 0 };
        thread::yield_now();
        let listening = cache.listen(ListenerKind::Replication);
        for key in KEYS {
            follower.copy_entry(&cache, key);
        }
        follower.catch_up(&cache);
        writer.join().expect("no panic");
        clearer.join().expect("no panic");
        follower.catch_up(&cache);
        for key in KEYS {
            assert_eq!(read(&follower.copy, key), read(&cache, key), "{:?}", follower.log);
        }
        drop(listening);
    };
    shuttle::check_pct(scenario, 10_000, 3);
}

#[test]
fn who_follows_the_changes_ends_equal_whenever_all_is_cleared() {
    followed(|cache| cache.tier().clear());
}

#[test]
fn who_follows_the_changes_ends_equal_whenever_a_prefix_is_cleared() {
    followed(|cache| {
        cache.mark_prefix(b"a", true, 0);
    });
}

#[test]
fn who_follows_the_changes_ends_equal_whenever_a_tag_is_cleared() {
    followed(|cache| {
        cache.tier().clear_tag(b"t", false, 0);
    });
}
