//! The store by itself: what the source suite and the crash tests do not see.
use super::{
    damage::Depth,
    dir::{Dir, database},
    *,
};
use crate::{StoredValue, clock};
use bytes::Bytes;
use larder_engine::Millis;
use std::{
    io::{self, Write as _},
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::oneshot;

pub(super) const SETTINGS: StoreSettings = StoreSettings { durability: Durability::Os, ..StoreSettings::DEFAULT };

pub(super) fn open(dir: &Path, settings: StoreSettings) -> Store {
    Store::open(dir, settings, Box::new(|_| {})).expect("a store")
}
pub(super) fn key(number: u32) -> Bytes {
    Bytes::from(format!("key {number:06}"))
}
pub(super) fn put(number: u32, value: impl Into<Bytes>, expiry: Option<Millis>) -> StoreChange {
    StoreChange::Apply(vec![(key(number), Some(StoredValue::string(value, expiry)))])
}
/// Hands all over before it waits for the first.
pub(super) fn write_all(store: &Store, changes: impl IntoIterator<Item = StoreChange>) {
    hand_over(store, changes).answered();
}
/// Changes that were handed over together.
pub(super) struct Pending {
    replies: Arc<CommitReplies>,
    answers: Vec<oneshot::Receiver<Result<(), WriteError>>>,
}
pub(super) fn hand_over(store: &Store, changes: impl IntoIterator<Item = StoreChange>) -> Pending {
    let replies = Arc::new(CommitReplies::default());
    let (writes, answers): (Vec<_>, Vec<_>) = changes
        .into_iter()
        .map(|change| {
            let (reply, answer) = oneshot::channel();
            ((change, reply), answer)
        })
        .unzip();
    store.write(writes, &replies);
    Pending { replies, answers }
}
impl Pending {
    /// Waits until all are written.
    pub(super) fn answered(self) {
        let core = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        core.spawn(async move {
            loop {
                self.replies.changed().await;
                self.replies.deliver();
            }
        });
        core.block_on(async {
            for answer in self.answers {
                answer.await.expect("an answer").expect("written");
            }
        });
    }
}

#[test]
fn writes_that_wait_share_a_sync() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), StoreSettings { durability: Durability::Always, ..SETTINGS });
    write_all(&store, (0..2000).map(|number| put(number, "v", None)));
    let StoreStats { writes, batches, syncs, .. } = store.stats();
    assert!(writes == 2000 && batches < 500 && syncs == batches, "{:?}", store.stats());
}

#[test]
fn compaction_drops_what_has_expired_and_brings_nothing_older_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), SETTINGS);
    write_all(&store, (0..1000).map(|number| put(number, "v", None)));
    drop(store);
    // The first versions are in a table of the last level.
    Offline::open(dir.path(), SETTINGS).expect("a store").compact().expect("compacted");
    let store = open(dir.path(), SETTINGS);
    write_all(&store, (0..900).map(|number| put(number, "v", Some(1))));
    drop(store);
    let store = Offline::open(dir.path(), SETTINGS).expect("a store");
    assert_eq!(store.tree().count(), Ok(100), "before");
    store.compact().expect("compacted");
    let tables: Vec<u64> = store.tree().tables().iter().map(|(_, bytes)| *bytes).collect();
    assert_eq!((store.tree().count(), store.tree().stats().expired), (Ok(100), 900));
    assert!(tables.len() == 1 && tables[0] < 8000, "{tables:?}");
    assert_eq!(store.tree().get_stored(&key(5)), Ok(None), "not even expired");
}

#[test]
fn who_counts_shares_it_and_holds_no_reader_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), StoreSettings { threads: 1, ..SETTINGS });
    let put_one = |number| write_all(&store, [put(number, "v", None)]);
    put_one(1);
    let waiting = counting::Waiting::default();
    let (first, second) = (waiting.join(), waiting.join());
    waiting.count(&store.shared().tree);
    put_one(2);
    let later = waiting.join();
    waiting.count(&store.shared().tree);
    for (mut answer, count) in [(first, 1), (second, 1), (later, 2)] {
        assert_eq!(answer.try_recv(), Ok(Ok(count)));
    }
    // A count that takes long.
    let (go, told) = std::sync::mpsc::channel::<()>();
    let held: Work = Box::new(move |_| told.recv().expect("told"));
    store.shared().scans.push([held]);
    let mut counts: Vec<_> = (0..10).map(|_| store.count()).collect();
    let (reply, answer) = std::sync::mpsc::channel();
    let look: Work = Box::new(move |tree| reply.send(tree.get_stored(&key(1))).expect("asked"));
    store.read([look]);
    assert!(answer.recv_timeout(Duration::from_secs(60)).expect("an answer").expect("read").is_some());
    assert!(counts.iter_mut().all(|count| count.try_recv().is_err()), "not by the reader");
    put_one(3);
    go.send(()).expect("it waits");
    counts.into_iter().for_each(|count| assert_eq!(count.blocking_recv(), Ok(Ok(3))));
    // The receiver is gone.
    assert_eq!(store.shared().tree.count_while(|| false), Ok(0));
}

#[test]
fn a_child_that_has_not_begun_its_program_does_not_keep_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Dir::lock(dir.path()).expect("a store");
    // It shares the lock, as a child does between `fork` and `exec`.
    let of_child = store.lock.try_clone().expect("a file");
    assert!(Dir::lock(dir.path()).is_err());
    drop(store);
    assert!(Dir::lock(dir.path()).is_ok());
    drop(of_child);
}

#[test]
fn a_backup_has_what_is_live_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name| dir.path().join(name);
    let store = open(&path("store"), SETTINGS);
    let lifetimes = [None, Some(clock::now() + 1_000_000), Some(1)];
    write_all(&store, (0..).zip(lifetimes).map(|(number, at)| put(number, "v", at)));
    drop(store);
    let stored = |dir: &Path| {
        let store = Offline::open(dir, SETTINGS).expect("a store");
        [0, 1, 2].map(|number| store.tree().get_stored(&key(number)).expect("read"))
    };
    let before = stored(&path("store"));
    let store = Offline::open(&path("store"), SETTINGS).expect("a store");
    store.tree().backup(&path("copy"), &AtomicBool::new(false), &mut |_| {}).expect("copied");
    backup::restore(&path("copy"), &path("restored"), &SETTINGS, &mut |_, _| {}).expect("restored");
    let [plain, expiring, expired] = before;
    assert!(plain.is_some() && expiring.is_some() && expired.is_some());
    assert_eq!(stored(&path("restored")), [plain, expiring, None]);
}

#[test]
fn a_restore_takes_nothing_from_another_and_replaces_what_a_killed_one_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name| dir.path().join(name);
    write_all(&open(&path("store"), SETTINGS), [put(1, "v", None)]);
    let store = Offline::open(&path("store"), SETTINGS).expect("a store");
    store.tree().backup(&path("copy"), &AtomicBool::new(false), &mut |_| {}).expect("copied");
    let restore = || backup::restore(&path("copy"), &path("restored"), &SETTINGS, &mut |_, _| {});
    // Another restore is under way.
    let other = Dir::lock(&path("restored.restoring")).expect("a store");
    let half = database(&path("restored.restoring")).join("half");
    std::fs::create_dir_all(&half).expect("a directory");
    let error = restore().expect_err("it is in use");
    assert!(error.contains("in use") && half.exists(), "{error}");
    drop(other);
    assert_eq!(restore().expect("restored").entries, 1);
    assert!(!path("restored.restoring").exists() && !database(&path("restored")).join("half").exists());
    // Another one's directory is left as it is.
    std::fs::create_dir(path("more.restoring")).expect("a directory");
    std::fs::write(path("more.restoring").join("file"), "f").expect("a file");
    let error = backup::restore(&path("copy"), &path("more"), &SETTINGS, &mut |_, _| {}).expect_err("it has a file");
    assert!(error.contains("not touched") && path("more.restoring").join("file").exists(), "{error}");
}

#[test]
fn a_backup_ends_when_the_store_is_closed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, copies) = (dir.path().join("store"), dir.path().join("copies"));
    std::fs::create_dir(&copies).expect("a directory");
    let store = open(&path, SETTINGS);
    write_all(&store, (0..50_000).map(|number| put(number, vec![b'v'; 1000], None)));
    let mut answer = store.backup(copies.clone(), "copy").expect("begun");
    // It is under way, and has 50 MB before it.
    while copies.read_dir().expect("the directory").count() == 0 {
        std::thread::yield_now();
    }
    let second = store.backup(copies.clone(), "copy").expect_err("not another");
    assert!(second.kind() == io::ErrorKind::AlreadyExists && second.to_string().ends_with("copy: is being written"));
    drop(store);
    let ended = answer.try_recv().expect("it has ended");
    assert!(ended.as_ref().is_err_and(|error| error.to_string().ends_with("copy: the store is closed")), "{ended:?}");
    assert_eq!(copies.read_dir().expect("the directory").count(), 0, "nothing is left over");
    assert!(path.join("closed").exists());
    assert_eq!(Offline::open(&path, SETTINGS).expect("not locked").tree().count(), Ok(50_000));
}

/// The key, the value.
fn walked(tree: &Tree, range: Range) -> Vec<(Bytes, Bytes)> {
    let mut found = Vec::new();
    let walk = tree.walk(range, clock::now(), |walk| {
        found.push((walk.key, walk.live.expect("it lives").value));
        std::ops::ControlFlow::Continue(())
    });
    walk.expect("the walk");
    found
}

#[test]
fn the_empty_key_is_stored_and_comes_first() {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let dir = tempfile::tempdir().expect("a directory");
    let keys = ["", "\0", "\0\0", "\0a", "a"].map(Bytes::from);
    let store = open(dir.path(), SETTINGS);
    let value = |key: &Bytes| Bytes::from(format!("of {key:?}"));
    let put = |key: &Bytes| StoreChange::Apply(vec![(key.clone(), Some(StoredValue::string(value(key), None)))]);
    write_all(&store, keys.iter().map(put));
    assert!(
        store.write_entry_now(b"", Some(&StoredValue::string(value(&keys[0]), None))).is_none_or(|done| done.is_ok())
    );
    drop(store);
    let store = Offline::open(dir.path(), SETTINGS).expect("a store");
    let tree = store.tree();
    let all: Vec<_> = keys.iter().map(|key| (key.clone(), value(key))).collect();
    for (range, expected) in [
        ((Unbounded, Unbounded), &all[..]),
        ((Included(keys[0].clone()), Excluded(keys[1].clone())), &all[..1]),
        ((Excluded(keys[0].clone()), Included(keys[2].clone())), &all[1..3]),
        ((Excluded(keys[2].clone()), Unbounded), &all[3..]),
    ] {
        assert_eq!(walked(tree, Range { start: range.0, end: range.1, reverse: false }), expected);
    }
    let found = tree.get_many(&keys, clock::now()).expect("read");
    assert_eq!(found.into_iter().flatten().map(|found| found.value).collect::<Vec<_>>(), keys.each_ref().map(value));
    assert_eq!(tree.get(b"\0\0\0", clock::now()), Ok(None));
}

/// What a store has that was made before it took the empty key.
#[test]
fn keys_of_zero_bytes_keep_their_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let all = || Range { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Unbounded, reverse: false };
    drop(open(dir.path(), SETTINGS));
    let store = Offline::open(dir.path(), SETTINGS).expect("a store");
    // Written by their own names, as it was then.
    let names = ["\0", "\0\0", "\0a", "a"].map(Bytes::from);
    store.tree().write_as_before(&names);
    drop(store);
    for _ in 0..2 {
        let store = Offline::open(dir.path(), SETTINGS).expect("a store");
        assert_eq!(walked(store.tree(), all()), names.each_ref().map(|name| (name.clone(), name.clone())));
    }
}

#[test]
fn a_clear_that_was_interrupted_has_not_happened() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), SETTINGS);
    write_all(&store, [put(1, "v", None)]);
    drop(store);
    let store = Offline::open(dir.path(), SETTINGS).expect("a store");
    store.tree().begin_clear(1).expect("the next keyspace");
    drop(store);
    for _ in 0..2 {
        let store = open(dir.path(), SETTINGS);
        write_all(&store, [put(2, "v", None)]);
        drop(store);
        let store = Offline::open(dir.path(), SETTINGS).expect("a store");
        assert_eq!(store.tree().count(), Ok(2));
    }
    let store = open(dir.path(), SETTINGS);
    write_all(&store, [StoreChange::Clear, put(3, "v", None)]);
    drop(store);
    assert_eq!(Offline::open(dir.path(), SETTINGS).expect("a store").tree().count(), Ok(1));
}

#[test]
fn the_memtable_is_flushed_when_it_is_full() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), StoreSettings { write_buffer: 1 << 20, ..SETTINGS });
    let value = Bytes::from(vec![7; 10_000]);
    write_all(&store, (0..1000).map(|number| put(number, value.clone(), None)));
    let begun = std::time::Instant::now();
    while store.stats().table_bytes == 0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", store.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A store whose process died in the middle of a write, at each of its bytes; and one that lost a
/// page of what was not synced.
#[test]
fn the_end_of_a_journal_is_told_from_damage() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), SETTINGS);
    let value = Bytes::from(vec![7; 9000]);
    for number in 0..3 {
        write_all(&store, [put(number, value.clone(), None)]);
    }
    drop(store);
    let (_, path) = journal::list(&database(dir.path())).expect("journals").pop().expect("a journal");
    let whole = std::fs::read(&path).expect("the journal");
    let batch = whole.len() as u64 / 3;
    let read = |bytes: &[u8]| {
        std::fs::File::create(&path).and_then(|mut file| file.write_all(bytes)).expect("written");
        journal::read(&path).expect("read")
    };
    let journal = |end, torn| Ok(journal::Journal { end, torn });
    assert_eq!(read(&whole), journal(3 * batch, 0));
    assert_eq!(read(&[&whole[..], &[0; 10_000]].concat()), journal(3 * batch, 0), "preallocated");
    for cut in [1, 5, 13, 20, 60, 5000, batch as usize - 1] {
        let at = 2 * batch as usize + cut;
        let torn = whole[..at].iter().rposition(|byte| *byte != 0).expect("something") + 1 - 2 * batch as usize;
        assert_eq!(read(&whole[..at]), journal(2 * batch, torn as u64));
        assert_eq!(read(&[&whole[..at], &[0; 5000]].concat()), journal(2 * batch, torn as u64));
    }
    for flipped in [0, 3, 14, 40, 5000] {
        let mut damaged = whole.clone();
        damaged[batch as usize + flipped] ^= 4;
        let error = read(&damaged).expect_err("damage");
        assert!(error.starts_with(&format!("the batch at byte {batch} is damaged")), "{error}");
    }
    let mut lost = whole.clone();
    lost[12288..16384].fill(0);
    assert_eq!(read(&lost), journal(batch, 2 * batch), "a page was not written, what follows was");
    assert!(read(&[&whole[..], &[0; 100], b"x"].concat()).expect_err("damage").contains("where a batch begins"));
}

#[test]
fn a_first_start_is_no_interrupted_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let marked = Dir::lock(dir.path()).expect("a new store");
    let notes = || damage::check(dir.path(), Depth::Opening, &mut |_| {}).notes;
    assert!(notes().is_empty(), "{:?}", notes());
    std::fs::create_dir(dir.path().join("db.new")).expect("a directory");
    assert!(notes()[0].contains("was interrupted when it was made"));
    drop(marked);
}

#[test]
#[cfg(target_os = "linux")]
fn those_who_flush_and_compact_go_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let _store = open(dir.path(), SETTINGS);
    let priorities = |names: &[&str]| -> Vec<i32> {
        let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
        let named = threads.filter(|thread| {
            let comm = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            names.iter().any(|name| comm.starts_with(name))
        });
        // proc(5): the 19th field; the second is the name, in brackets. A thread of another test may have
        // gone.
        let stats = named.filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
        stats
            .map(|stat| {
                stat.rsplit(')')
                    .next()
                    .and_then(|rest| rest.split(' ').nth(17))
                    .expect("a priority")
                    .parse()
                    .expect("a number")
            })
            .collect()
    };
    // A thread takes its name when it first runs. Stores of other tests have such threads too, and others
    // that free memory or write backups, which also go behind.
    let (behind, others) = loop {
        let answering = ["store-read", "store-scan", "store-write", "store-upkeep"];
        let (behind, others) = (priorities(&["fjall"]), priorities(&answering));
        if !behind.is_empty() && !others.is_empty() {
            break (behind, others);
        }
        std::thread::yield_now();
    };
    assert!(others.iter().all(|other| behind.iter().all(|behind| behind > other)), "{behind:?} {others:?}");
}
