//! Writes of a core itself: their order among those of the committer, and when the gate is shut.
use super::{
    tests::{Pending, SETTINGS, hand_over, key, open, put, write_all},
    *,
};
use bytes::Bytes;
use larder_engine::Millis;
use proptest::{prelude::*, test_runner::TestRunner};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Far longer than the gate is shut after a write from which the kernel took the core.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes until this thread may.
fn wait_for_open_gate(store: &Store) {
    let begun = Instant::now();
    while store.write_now(&put(0, "v", None)).map(|answer| answer.expect("written")).is_none() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", store.stats());
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// A change of these entries, by this thread if it can: key, and the bytes of the value (`None`:
    /// deleted).
    Apply(Vec<(u32, Option<usize>)>),
    /// One entry, by this thread if it can.
    Now(u32, Option<usize>),
    /// So many changes, handed over.
    Many(u32, usize),
    Clear,
    /// All answers are awaited.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let value =
        prop_oneof![4 => Just(None), 8 => (0..200_usize).prop_map(Some), 2 => (20_000..40_000_usize).prop_map(Some)];
    prop_oneof![
        10 => (0..6_u32, value.clone()).prop_map(|(key, value)| Step::Now(key, value)),
        20 => prop::collection::vec((0..6_u32, value), 1..4).prop_map(Step::Apply),
        2 => (0..6_u32, 17..60_usize).prop_map(|(key, count)| Step::Many(key, count)),
        1 => Just(Step::Clear),
        3 => Just(Step::Wait),
    ]
}

/// Whatever is written in place or by the committer, the store ends as a map would: no write
/// overtakes another.
#[test]
fn writes_in_place_keep_their_order_among_those_that_wait() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), StoreSettings { write_buffer: 1 << 20, ..SETTINGS });
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..Default::default() };
    let begun = Instant::now();
    // Again, where a busy machine has shut the gate most of the time.
    loop {
        let before = store.stats();
        let checked = TestRunner::new(config.clone())
            .run(&prop::collection::vec(step(), 1..80), |steps| keeps_the_order(&store, steps));
        checked.expect("the order of the writes");
        let after = store.stats();
        let in_place = after.in_place - before.in_place;
        if in_place > 100 && after.writes - before.writes - in_place > 100 {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "both ways are taken: {after:?}");
    }
}

fn keeps_the_order(store: &Store, steps: Vec<Step>) -> Result<(), TestCaseError> {
    wait_for_open_gate(store);
    let mut model: BTreeMap<u32, Bytes> = BTreeMap::new();
    let mut number = 0_u64;
    // A value that no other write has.
    let mut value = |bytes: usize| {
        number += 1;
        let mut value = number.to_be_bytes().to_vec();
        value.resize(8 + bytes, b'v');
        Bytes::from(value)
    };
    write_all(store, [StoreChange::Clear]);
    let mut pending: Vec<Pending> = Vec::new();
    for step in steps {
        let changes = match step {
            Step::Wait => {
                pending.drain(..).for_each(Pending::answered);
                continue;
            }
            Step::Clear => {
                model.clear();
                vec![StoreChange::Clear]
            }
            Step::Now(number, bytes) => {
                let to = bytes.map(&mut value);
                match &to {
                    Some(to) => model.insert(number, to.clone()),
                    None => model.remove(&number),
                };
                let stored = to.map(|to| crate::StoredValue::string(to, None));
                match store.write_entry_now(&key(number), stored.as_ref()) {
                    Some(answer) => {
                        prop_assert_eq!(answer, Ok(()));
                        continue;
                    }
                    None => vec![StoreChange::Apply(vec![(key(number), stored)])],
                }
            }
            Step::Many(number, count) => {
                let changes: Vec<_> = (0..count).map(|_| (number, value(10))).collect();
                model.extend(changes.last().cloned());
                changes.into_iter().map(|(number, value)| put(number, value, None)).collect()
            }
            Step::Apply(entries) => {
                let entries: BTreeMap<u32, Option<Bytes>> =
                    entries.into_iter().map(|(key, bytes)| (key, bytes.map(&mut value))).collect();
                for (number, to) in &entries {
                    match to {
                        Some(to) => model.insert(*number, to.clone()),
                        None => model.remove(number),
                    };
                }
                let stored = |to: Bytes| crate::StoredValue::string(to, None);
                let entries = entries.into_iter().map(|(number, to)| (key(number), to.map(stored))).collect();
                let change = StoreChange::Apply(entries);
                if let Some(answer) = store.write_now(&change) {
                    prop_assert_eq!(answer, Ok(()));
                    continue;
                }
                vec![change]
            }
        };
        pending.push(hand_over(store, changes));
    }
    pending.drain(..).for_each(Pending::answered);
    for number in 0..6 {
        let found = store.shared().tree.get(&key(number), 0).expect("read").map(|found| found.value);
        prop_assert_eq!(found.as_ref(), model.get(&number), "key {}", number);
    }
    Ok(())
}

/// An entry that a core writes by itself has the same form in the journal as those of a batch.
#[test]
fn entries_that_a_core_writes_are_there_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), SETTINGS);
    write_all(&store, (0..10).map(|number| put(number, "old", None)));
    wait_for_open_gate(&store);
    let begun = Instant::now();
    let now = |number, to: Option<&crate::StoredValue>| {
        while store.write_entry_now(&key(number), to).map(|answer| answer.expect("written")).is_none() {
            assert!(begun.elapsed() < PATIENCE, "{:?}", store.stats());
        }
    };
    let new = crate::StoredValue::string("new", Some(Millis::MAX));
    now(3, Some(&new));
    now(4, None);
    assert_eq!(store.write_entry_now(&vec![b'k'; MAX_KEY + 1], None), None, "a key that the store does not take");
    drop(store);
    let store = Offline::open(dir.path(), SETTINGS).expect("no damage");
    let found = |number| store.tree().get(&key(number), 0).expect("read");
    assert_eq!((found(3), found(4), store.tree().count()), (Some(new), None, Ok(9)));
}

#[test]
fn the_gate_is_shut_while_something_holds_writers_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), SETTINGS);
    let in_place = |change: StoreChange| store.write_now(&change).map(|answer| answer.expect("written")).is_some();
    wait_for_open_gate(&store);
    let one = |number| put(number, "v", None);
    let shared = store.shared();
    assert!(!shared.gate.while_shut(|| (0..100).any(|number| in_place(one(number)))), "during a sync");
    let writer = shared.writer.lock();
    assert!(!in_place(one(1)), "another is writing");
    let pending = hand_over(&store, [one(1)]);
    drop(writer);
    pending.answered();
    assert!(!in_place(put(1, vec![b'v'; 17 << 10], None)), "a large one");
    assert!(!in_place(StoreChange::Clear), "a clear");
    let always = tempfile::tempdir().expect("a directory");
    let store = open(always.path(), StoreSettings { durability: Durability::Always, ..SETTINGS });
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(300) {
        assert!(store.write_now(&one(1)).is_none(), "synced before the answer");
    }
}
