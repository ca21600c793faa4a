//! Reads of memory alone against a map and against reads that may touch the disk.
use super::{
    cached_reads::Cached,
    tests::{SETTINGS, key, open, put, write_all},
    *,
};
use crate::StoredValue;
use bytes::Bytes;
use proptest::{prelude::*, test_runner::TestRunner};
use std::{cell::Cell, collections::BTreeMap};

const KEYS: u32 = 60;

#[derive(Debug, Clone)]
enum Step {
    Put(u32, usize),
    Delete(u32),
    /// The memtable waits for its flush.
    Seal,
    /// The memtable becomes a table.
    Flush,
    /// All tables become one.
    Compact,
    /// The twins of the tables are made.
    Learn,
    Clear,
    Read(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..KEYS, 0..3000_usize).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        4 => (0..KEYS).prop_map(Step::Delete),
        2 => Just(Step::Seal),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        3 => Just(Step::Learn),
        1 => Just(Step::Clear),
        20 => (0..KEYS).prop_map(Step::Read),
    ]
}

#[test]
fn reads_of_memory_alone_are_right_or_say_that_they_do_not_know() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), SETTINGS);
    let tree = &store.shared().tree;
    let value = |found: Option<StoredValue>| found.map(|found| found.value);
    let (known, unknown) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() });
    let checked = runner.run(&prop::collection::vec(step(), 1..120), |steps| {
        let mut model: BTreeMap<u32, Bytes> = BTreeMap::new();
        write_all(&store, [StoreChange::Clear]);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Put(at, bytes) => {
                    let mut value = number.to_be_bytes().to_vec();
                    value.resize(8 + bytes, b'v');
                    model.insert(at, value.clone().into());
                    write_all(&store, [put(at, value, None)]);
                }
                Step::Delete(at) => {
                    model.remove(&at);
                    write_all(&store, [StoreChange::Apply(vec![(key(at), None)])]);
                }
                Step::Seal => tree.rotate().expect("sealed"),
                Step::Flush => tree.flush().expect("flushed"),
                Step::Compact => tree.compact().expect("compacted"),
                Step::Learn => tree.learn_tables().expect("learnt"),
                Step::Clear => {
                    model.clear();
                    write_all(&store, [StoreChange::Clear]);
                }
                Step::Read(at) => {
                    let expected = model.get(&at).cloned();
                    match tree.get_cached(&key(at), 0).expect("read") {
                        Cached::Unknown => unknown.set(unknown.get() + 1),
                        Cached::Known(found) => {
                            known.set(known.get() + 1);
                            prop_assert_eq!(&value(found), &expected, "key {}", at);
                        }
                    }
                    prop_assert_eq!(&value(tree.get(&key(at), 0).expect("read")), &expected, "key {}", at);
                }
            }
        }
        Ok(())
    });
    checked.expect("what is known is right");
    assert!(known.get() > 100 && unknown.get() > 100, "{known:?} known, {unknown:?} not");
}

/// A block comes into the cache by a read that may touch the disk, never by one of memory alone.
#[test]
fn reads_of_memory_alone_read_no_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), SETTINGS);
    write_all(&store, (0..1000).map(|number| put(number, vec![b'v'; 100], None)));
    drop(store);
    // Once as it is flushed, once in the last level, where indexes and filters are read like data.
    for is_compacted in [false, true] {
        let offline = Offline::open(dir.path(), SETTINGS).expect("a store");
        match is_compacted {
            false => offline.tree().flush().expect("flushed"),
            true => offline.compact().expect("compacted"),
        }
        drop(offline);
        let store = open(dir.path(), SETTINGS);
        let tree = &store.shared().tree;
        assert_eq!(tree.get_cached(&key(5), 0), Ok(Cached::Unknown), "the tables are not known");
        tree.learn_tables().expect("learnt");
        for _ in 0..3 {
            assert_eq!(tree.get_cached(&key(5), 0), Ok(Cached::Unknown), "the block is on disk");
        }
        let found = tree.get(&key(5), 0);
        assert!(found.as_ref().is_ok_and(Option::is_some));
        assert_eq!(tree.get_cached(&key(5), 0), found.map(Cached::Known));
        assert_eq!(tree.get_cached(&key(900), 0), Ok(Cached::Unknown), "another block");
        assert_eq!(tree.get_cached(&Bytes::from("not there"), 0), Ok(Cached::Known(None)), "beyond all keys");
    }
}
