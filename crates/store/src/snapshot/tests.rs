//! Round trips, damage, writes during a save, and crashes of it.
use super::*;
use larder_engine::{Attributes, Cache, Config, End, Expiry, PolicyState, Write};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    fs,
    io::{self, ErrorKind},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

const COMPRESSIONS: [SnapshotCompression; 3] =
    [SnapshotCompression::None, SnapshotCompression::Lz4, SnapshotCompression::Zstd];

/// All of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    value: Vec<u8>,
    end: Option<(u64, bool)>,
    tags: Vec<Vec<u8>>,
    metadata: Vec<u8>,
    policy: PolicyState,
}

/// Entries by their keys.
type Entries = BTreeMap<Vec<u8>, Kept>;

fn kept(cache: &Cache) -> Entries {
    let (mut all, mut cursor) = (BTreeMap::new(), 0);
    loop {
        cursor = cache.tier().export(cursor, 100, crate::clock::now(), |entry, policy| {
            let kept = Kept {
                value: entry.value.as_bytes().to_vec(),
                end: entry.end().map(|end| (end.at, end.is_soft)),
                tags: entry.tags().map(<[u8]>::to_vec).collect(),
                metadata: entry.metadata().to_vec(),
                policy,
            };
            all.insert(entry.key.to_vec(), kept);
        });
        if cursor == 0 {
            return all;
        }
    }
}

fn cache() -> Arc<Cache> {
    Cache::new(Config { max_memory: 256 << 20, shards: Some(4), ..Config::default() })
}

/// A tier with entries of all sizes and kinds; every one belongs to `seed`.
fn filled(seed: u64, entries: u64) -> Arc<Cache> {
    let cache = cache();
    let later = crate::clock::now() + 3_600_000;
    for n in 0..entries {
        let mixed = (seed * 1000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let len = match n % 50 {
            7 => 20_000 + mixed as usize % 100_000,
            9 if n == 9 => 3 << 20,
            _ => mixed as usize % 200,
        };
        let value: Vec<u8> = (0..len).map(|at| (mixed >> (at % 8 * 8)) as u8 ^ (at / 100) as u8).collect();
        let tag = format!("tag {}", n % 5);
        let tags = [tag.as_bytes(), b"all"];
        let attributes = Attributes { tags: &tags[..n as usize % 3], metadata: &value[..len.min(n as usize % 7)] };
        let expiry = [Expiry::Never, Expiry::At(later + n), Expiry::FreshUntil(later + n)][n as usize % 3];
        let key = format!("{seed}:{n}");
        let key = cache.key(key.as_bytes());
        cache
            .tier()
            .set(key, Write { attributes, expiry, ..Write::new(&value) }, crate::clock::now())
            .expect("it fits");
        (0..n % 5).for_each(|_| assert!(cache.tier().get(key, crate::clock::now(), |_| ()).is_some()));
    }
    cache
}

struct Scratch {
    _dir: tempfile::TempDir,
    path: PathBuf,
}
impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().expect("a directory");
        Scratch { path: dir.path().join("snapshot"), _dir: dir }
    }
    /// Names of what is in the directory.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path.parent().expect("a folder")).expect("the directory");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
    fn save(&self, groups: &[(&str, &Cache)], compression: SnapshotCompression) -> Saved {
        let groups: Vec<SavedGroup<'_>> = groups.iter().map(|group| (*group).into()).collect();
        save(&self.path, None, &groups, compression, &mut |_| Ok(())).expect("it is written")
    }
    /// The entries that a load gives, and its error.
    fn load(&self, names: &[&str]) -> (Vec<Entries>, Result<Loaded, SnapshotError>) {
        let caches: Vec<_> = names.iter().map(|name| (*name, cache())).collect();
        let load = Load::new(caches.iter().map(|(name, cache)| (*name, cache)));
        let loaded = SnapshotReader::open(&self.path).and_then(|reader| load.run(reader, &mut |_, _| Ok(())));
        (caches.iter().map(|(_, cache)| kept(cache)).collect(), loaded)
    }
}

#[test]
fn what_is_saved_is_loaded() {
    for compression in COMPRESSIONS {
        let (scratch, one, two) = (Scratch::new(), filled(1, 2000), filled(2, 300));
        let saved = scratch.save(&[("default", &one), ("other", &two), ("empty", &cache())], compression);
        assert_eq!(saved.groups.iter().map(|group| group.entries).collect::<Vec<_>>(), [2000, 300, 0]);
        assert_eq!(saved.bytes, fs::metadata(&scratch.path).expect("a file").len());
        let (caches, loaded) = scratch.load(&["other", "empty", "default"]);
        assert_eq!(loaded.expect("it is whole"), Loaded { restored: 2300, ..Loaded::default() });
        assert_eq!(caches[2], kept(&one), "{compression:?}");
        assert_eq!(caches[0], kept(&two), "{compression:?}");
        let (caches, loaded) = scratch.load(&["other"]);
        assert_eq!(loaded.expect("it is whole"), Loaded { restored: 300, skipped: 2000, ..Loaded::default() });
        assert_eq!(caches[0].len(), 300);
    }
}

#[test]
fn what_has_expired_is_dropped() {
    let (scratch, cache) = (Scratch::new(), cache());
    let now = crate::clock::now();
    for (key, end) in [("over", Some(now - 1)), ("later", Some(now + 3_600_000)), ("never", None)] {
        let expiry = end.map_or(Expiry::Never, Expiry::At);
        // Written at a time when none had expired, and saved at such a time: the file is older than the
        // load.
        cache.tier().set(cache.key(key.as_bytes()), Write { expiry, ..Write::new(b"v") }, 0).expect("it fits");
    }
    let header = Header { created: 0, compression: SnapshotCompression::None, groups: vec!["default".into()] };
    let mut writer = SnapshotWriter::new(Vec::new(), &header).expect("memory");
    cache.tier().export(0, 10, 0, |entry, policy| writer.push(&SavedEntry::of(&entry, policy)).expect("memory"));
    fs::write(&scratch.path, writer.finish().expect("memory").0).expect("a file");
    let (caches, loaded) = scratch.load(&["default"]);
    assert_eq!(loaded.expect("it is whole"), Loaded { restored: 2, expired: 1, ..Loaded::default() });
    assert!(!caches[0].contains_key(&b"over"[..]));
}

/// Where an error says that the damage is.
fn place(error: &SnapshotError) -> Option<(String, u64)> {
    match error {
        SnapshotError::Damaged { section, at, .. } => Some((section.clone(), *at)),
        _ => None,
    }
}

/// What is loaded of a damaged file must be entries of the whole one, and the error must name a
/// place in the file.
fn check_damaged(scratch: &Scratch, bytes: &[u8], original: &Entries, how: &str) {
    fs::write(&scratch.path, bytes).expect("a file");
    let quick = SnapshotReader::open(&scratch.path).and_then(|mut reader| reader.check(Scrutiny::Checksum));
    let quick = quick.expect_err(how);
    let (caches, loaded) = scratch.load(&["default"]);
    let error = loaded.expect_err(how);
    assert_eq!(place(&error), place(&quick), "{how}");
    match &error {
        SnapshotError::Damaged { at, .. } => assert!(*at <= bytes.len() as u64, "{how}: {error}"),
        SnapshotError::Foreign { .. } => assert!(caches[0].is_empty(), "{how}: {error}"),
        SnapshotError::Io { .. } => panic!("{how}: {error}"),
    }
    for (key, kept) in &caches[0] {
        assert_eq!(Some(kept), original.get(key), "{how}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 300 }))]
    #[test]
    fn any_damage_is_found_and_named(
        compression in 0..3_usize,
        place in 0.0..1.0_f64,
        bit in 0..8_u32,
        kind in 0..6_u8,
        other_place in 0.0..1.0_f64,
    ) {
        let (scratch, cache) = (Scratch::new(), filled(3, 300));
        scratch.save(&[("default", &cache)], COMPRESSIONS[compression]);
        let (whole, original) = (fs::read(&scratch.path).expect("a file"), kept(&cache));
        let (at, other) = ((whole.len() as f64 * place) as usize, (whole.len() as f64 * other_place) as usize);
        let mut bytes = whole.clone();
        let how = match kind {
            0 | 1 => { bytes[at] ^= 1 << bit; "a flipped bit" }
            2 => { bytes.truncate(at); "cut off" }
            3 => { bytes.extend_from_slice(&whole[at..]); "something behind it" }
            4 => { let end = whole.len().min(at + 512); bytes[at..end].fill(0); "a lost sector" }
            _ => { bytes.drain(at.min(other)..at.max(other)); "a lost part" }
        };
        if bytes != whole {
            check_damaged(&scratch, &bytes, &original, how);
        }
    }
}

#[test]
fn a_block_of_another_file_is_not_taken_for_one_of_this() {
    let (scratch, one, two) = (Scratch::new(), filled(1, 3000), filled(2, 3000));
    let write = |cache: &Cache, created| {
        let header = Header { created, compression: SnapshotCompression::None, groups: vec!["default".into()] };
        let mut writer = SnapshotWriter::new(Vec::new(), &header).expect("memory");
        let entries = kept(cache);
        for (key, kept) in &entries {
            let tags = kept.tags.iter().map(Vec::as_slice).collect();
            let end = kept.end.map(|(at, is_soft)| End { at, is_soft });
            let Kept { value, metadata, policy, .. } = kept;
            let entry = SavedEntry { key, value, end, metadata, tags, policy: *policy };
            writer.push(&entry).expect("memory");
        }
        writer.finish().expect("memory").0
    };
    // All writes of the new file but the first were lost: behind its header are the blocks of the one
    // before.
    let (old, new) = (write(&one, 1), write(&two, 2));
    let header = 32 + 2 + "default".len() + 8;
    let torn = [&new[..header], &old[header..]].concat();
    check_damaged(&scratch, &torn, &kept(&two), "bytes of the file before");
}

#[test]
fn each_entry_is_as_it_was_between_begin_and_end() {
    const KEYS: usize = 3000;
    let (scratch, cache) = (Scratch::new(), cache());
    let values: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(1)).collect();
    let write = |key: usize, value: u64| {
        let bytes = format!("{value:0width$}", width = 20 + key % 100);
        cache.tier().set(cache.key(&key.to_le_bytes()), Write::new(bytes.as_bytes()), value).expect("it fits");
    };
    (0..KEYS).for_each(|key| write(key, 1));
    let stop = AtomicBool::new(false);
    for _ in 0..5 {
        stop.store(false, SeqCst);
        let (before, after) = std::thread::scope(|scope| {
            for part in 0..2 {
                let (values, stop, write) = (&values, &stop, &write);
                scope.spawn(move || {
                    let mut at = part;
                    while !stop.load(SeqCst) {
                        at = (at * 5 + 2) % KEYS;
                        let key = at / 2 * 2 + part;
                        if key < KEYS {
                            // Noted before it is there.
                            let value = values[key].fetch_add(1, SeqCst) + 1;
                            write(key, value);
                        }
                    }
                });
            }
            // What is noted may be one more than what is there.
            let before: Vec<u64> = values.iter().map(|value| value.load(SeqCst) - 1).collect();
            scratch.save(&[("default", &cache)], SnapshotCompression::Lz4);
            let after: Vec<u64> = values.iter().map(|value| value.load(SeqCst)).collect();
            stop.store(true, SeqCst);
            (before, after)
        });
        let (caches, loaded) = scratch.load(&["default"]);
        loaded.expect("it is whole");
        assert_eq!(caches[0].len(), KEYS, "what was there all the time is in it");
        for (key, kept) in &caches[0] {
            let key = usize::from_le_bytes(key[..].try_into().expect("eight bytes"));
            let value: u64 = std::str::from_utf8(&kept.value).expect("text").parse().expect("a number");
            assert!((before[key]..=after[key]).contains(&value), "{key}: {value} of {}..={}", before[key], after[key]);
        }
    }
}

#[test]
fn a_save_that_fails_leaves_what_was_there() {
    let (scratch, old, new) = (Scratch::new(), filled(1, 500), filled(2, 500));
    scratch.save(&[("default", &old)], SnapshotCompression::Lz4);
    for fails_at in [1, 7] {
        let mut steps = 0;
        let mut step = |progress: SaveProgress| {
            steps += 1;
            assert!(progress.entries > 0);
            if steps == fails_at { Err(io::Error::from(ErrorKind::StorageFull)) } else { Ok(()) }
        };
        let failed = save(&scratch.path, None, &[("default", &*new).into()], SnapshotCompression::Lz4, &mut step);
        assert!(failed.is_err_and(|error| error.to_string().contains("snapshot: ")));
        assert_eq!(scratch.names(), ["snapshot"]);
        assert_eq!(scratch.load(&["default"]).0[0], kept(&old));
    }
}

#[test]
fn leftovers_of_processes_that_are_gone_are_removed() {
    let scratch = Scratch::new();
    let folder = scratch.path.parent().expect("a folder");
    for name in [".snapshot.4294967294-1f.tmp", ".snapshot.1-1f.tmp", ".other.4294967294-1f.tmp", ".snapshot.tmp"] {
        fs::write(folder.join(name), "left").expect("a file");
    }
    remove_leftovers(&scratch.path).expect("a directory");
    let mut names = scratch.names();
    names.sort();
    assert_eq!(names, [".other.4294967294-1f.tmp", ".snapshot.1-1f.tmp", ".snapshot.tmp"]);
}

#[test]
fn foreign_files_are_said_to_be() {
    let scratch = Scratch::new();
    let said = |bytes: &[u8]| {
        fs::write(&scratch.path, bytes).expect("a file");
        SnapshotReader::open(&scratch.path).err().expect("it is none").to_string()
    };
    assert!(said(b"").contains("too short"));
    assert!(said(&[b'x'; 100]).contains("does not begin like one"));
    let mut later = vec![0; 100];
    later[..8].copy_from_slice(b"\x89LSNP\r\n\x1a");
    later[8] = 2;
    assert!(said(&later).contains("format 2"));
    fs::remove_file(&scratch.path).expect("it is there");
    assert!(SnapshotReader::open(&scratch.path).err().expect("none").is_not_found());
}
