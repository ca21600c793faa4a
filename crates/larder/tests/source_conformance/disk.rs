//! The disk store as a source: the shared suite, a model, restarts, and what only it promises.
use super::{Fixture, LIMITS, conformance, open, run, setup, some};
use bytes::Bytes;
use larder_config::SourceUrl;
use larder_source::{FillPolicy, LocalStore, Page, Scan, SourceError, SourceLimits, SourceSetup};
use larder_store::{
    StoredValue, clock,
    disk::{Durability, StoreSettings},
};
use proptest::prelude::*;
use std::{collections::BTreeMap, ops::Bound, path::Path, time::Duration};

fn url(dir: &Path) -> SourceUrl {
    SourceUrl::Disk(dir.into())
}
fn disk(dir: &Path, durability: Durability) -> Fixture {
    // A small write buffer, so that flushes and compactions take part.
    let store = StoreSettings { durability, write_buffer: 1 << 20, ..StoreSettings::DEFAULT };
    open(&url(dir), SourceLimits { store, ..LIMITS }, FillPolicy::default())
}
fn local(fixture: &Fixture) -> &dyn LocalStore {
    fixture.source.as_local().expect("a local store")
}
fn bytes(text: impl AsRef<[u8]>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref())
}
fn all() -> Scan {
    Scan {
        start: Bound::Unbounded,
        end: Bound::Unbounded,
        reverse: false,
        limit: 1000,
        max_bytes: 1 << 20,
        keys_only: false,
    }
}
/// All pages of a scan.
async fn walk(fixture: &Fixture, mut scan: Scan) -> Vec<(Bytes, Bytes)> {
    let mut entries = Vec::new();
    loop {
        let Page { entries: more, next, .. } = local(fixture).scan(scan.clone()).await.expect("a page");
        assert!(more.len() <= scan.limit);
        entries.extend(more.into_iter().map(|(key, found)| (key, found.value)));
        match (next, scan.reverse) {
            (None, _) => return entries,
            (Some(next), false) => scan.start = Bound::Excluded(next),
            (Some(next), true) => scan.end = Bound::Excluded(next),
        }
    }
}

#[test]
fn conformance_disk() {
    for durability in [Durability::Always, StoreSettings::DEFAULT.durability, Durability::Os] {
        let dir = tempfile::tempdir().expect("a directory");
        run(async { conformance(&disk(dir.path(), durability), true).await });
        // Once more, with what the first left.
        run(async { conformance(&disk(dir.path(), durability), true).await });
    }
}

#[test]
fn conformance_disk_without_a_tier_between() {
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let group = disk(dir.path(), Durability::Os);
        let (past, later) = (clock::now() - 1, clock::now() + 60_000);
        assert_eq!(group.source.put(b"k", b"1", Some(later)).await, Ok(false));
        assert_eq!(group.source.put(b"k", b"2", None).await, Ok(true));
        assert_eq!(group.source.expire(b"k", Some(later)).await, Ok(true));
        let found = local(&group).get_many(&[b"k", b"none"]).await.expect("an answer");
        let entry = found[0].as_ref().map(|found| (found.value.clone(), found.expiry));
        assert_eq!((entry, found[1].is_none()), (Some((bytes("2"), Some(later))), true));
        assert_eq!(group.source.expire(b"k", Some(past)).await, Ok(true));
        assert_eq!(group.source.expire(b"k", None).await, Ok(false));
        assert_eq!(group.source.delete(b"k").await, Ok(false));
        // An expired value is not replaced, and not deleted.
        assert_eq!(group.source.put(b"k", b"3", Some(past)).await, Ok(false));
        assert_eq!(group.source.put(b"k", b"4", Some(past)).await, Ok(false));
        assert_eq!(group.source.delete(b"k").await, Ok(false));
        let long = vec![0; 65_536];
        let error = group.source.put(&long, b"v", None).await.expect_err("too long");
        assert_eq!(error.to_string(), "ERR a key of 65536 bytes is longer than a disk store takes (65535)");
        assert_eq!(group.get(&long).await, Ok(None));
    });
}

#[test]
fn several_changes_are_one() {
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let group = disk(dir.path(), Durability::Always);
        let put = |key: &str, value: &str| (bytes(key), Some(StoredValue::string(bytes(value), None)));
        local(&group)
            .apply(vec![put("a", "1"), put("b", "1"), put("a", "2"), (bytes("b"), None)])
            .await
            .expect("taken");
        assert_eq!(walk(&group, all()).await, [(bytes("a"), bytes("2"))]);
        let long = vec![0; 65_536];
        let refused = local(&group).apply(vec![put("c", "1"), (bytes(long), None)]).await;
        assert!(matches!(refused, Err(SourceError::Refused(_))), "{refused:?}");
        assert_eq!(local(&group).count().await, Ok(1), "none of them was taken");
    });
}

#[test]
fn what_a_clear_deletes_stays_deleted() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..3 {
        run(async {
            let group = disk(dir.path(), Durability::Os);
            assert_eq!(local(&group).count().await, Ok(u64::from(round > 0)));
            // Enough for several flushes to be under way.
            for at in 0..40u32 {
                group.source.put(&at.to_be_bytes(), &vec![7; 100_000], None).await.expect("the put");
            }
            local(&group).clear().await.expect("the clear");
            assert_eq!(local(&group).count().await, Ok(0));
            assert_eq!(group.source.put(b"after", b"v", None).await, Ok(false));
            assert_eq!(walk(&group, all()).await.len(), 1);
        });
    }
}

#[test]
fn a_directory_belongs_to_one_store_and_says_what_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let refused = |path: &Path| {
        SourceSetup::new(&url(path), LIMITS, &larder_base::buffers::Buffers::unbounded()).err().expect("an error")
    };
    let store = dir.path().join("new/store");
    let first = setup(&url(&store), LIMITS);
    assert!(refused(&store).ends_with("in use by this process already: a store belongs to one group"));
    drop(first);

    let other = dir.path().join("other");
    std::fs::create_dir(&other).expect("a directory");
    std::fs::write(other.join("letter.txt"), "Dear").expect("a file");
    let error = refused(&other);
    assert!(error.contains(&format!("{}: holds no store but letter.txt", other.display())), "{error}");
    let file = dir.path().join("file");
    std::fs::write(&file, "").expect("a file");
    assert!(refused(&file).contains(&format!("{}: cannot be made", file.display())));

    let mark = store.join("larder-store");
    let text = std::fs::read_to_string(&mark).expect("the mark");
    std::fs::write(&mark, text.replace("version 1", "version 7")).expect("a file");
    assert!(refused(&store).contains("larder-store: is of version 7; this Larder reads version 1"));
    std::fs::write(&mark, "?").expect("a file");
    assert!(refused(&store).contains("larder-store: is damaged"));
    std::fs::write(&mark, text).expect("a file");

    // Interrupted while it was marked or made: begun again.
    let unmarked = dir.path().join("unmarked");
    std::fs::create_dir(&unmarked).expect("a directory");
    std::fs::write(unmarked.join(".larder-store.1-2.tmp"), "Lar").expect("a file");
    std::fs::write(unmarked.join("lock"), "1").expect("a file");
    drop(setup(&url(&unmarked), LIMITS));
    std::fs::remove_dir_all(store.join("db")).expect("removed");
    std::fs::create_dir_all(store.join("db.new/keyspaces")).expect("a directory");
    std::fs::write(store.join("db.new/0.jnl"), "half").expect("a file");
    drop(setup(&url(&store), LIMITS));
    assert!(!store.join("db.new").exists());
}

/// One step of the comparison with a model.
#[derive(Debug, Clone)]
enum Step {
    Put(u8, u16, Option<bool>),
    Delete(u8),
    Expire(u8, Option<bool>),
    Apply(Vec<(u8, Option<u16>)>),
    Scan(u8, u8, bool, usize),
    Clear,
    Restart,
}
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (any::<u8>(), any::<u16>(), any::<Option<bool>>()).prop_map(|(k, v, e)| Step::Put(k % 32, v, e)),
        3 => any::<u8>().prop_map(|k| Step::Delete(k % 32)),
        3 => (any::<u8>(), any::<Option<bool>>()).prop_map(|(k, e)| Step::Expire(k % 32, e)),
        2 => proptest::collection::vec((0..32u8, any::<Option<u16>>()), 1..8).prop_map(Step::Apply),
        2 => (0..32u8, 0..32u8, any::<bool>(), 1..5usize).prop_map(|(a, b, r, l)| Step::Scan(a, b, r, l)),
        1 => Just(Step::Clear),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..60)
}
/// Long enough that some values fill blocks.
fn value(seed: u16) -> Bytes {
    seed.to_string().repeat(usize::from(seed) % 5000 + 1).into()
}

type Model = BTreeMap<Bytes, (Bytes, Option<u64>)>;

async fn check(group: &Fixture, model: &mut Model, step: Step) {
    let key = |key: u8| Bytes::from(format!("key {key:02}"));
    // Past, or far off: what is near would make the test depend on its speed.
    let expiry = |when: Option<bool>| when.map(|past| if past { 1 } else { clock::now() + 1_000_000 });
    let store = |model: &mut Model, key: Bytes, to: Option<(Bytes, Option<u64>)>| match to {
        Some((value, at)) if at != Some(1) => model.insert(key, (value, at)).is_some(),
        _ => model.remove(&key).is_some(),
    };
    match step {
        Step::Put(k, v, when) => {
            let (key, value, at) = (key(k), value(v), expiry(when));
            let replaced = group.source.put(&key, &value, at).await;
            assert_eq!(replaced, Ok(store(model, key, Some((value, at)))));
        }
        Step::Delete(k) => {
            let existed = group.source.delete(&key(k)).await;
            assert_eq!(existed, Ok(store(model, key(k), None)));
        }
        Step::Expire(k, when) => {
            let at = expiry(when);
            let existed = group.source.expire(&key(k), at).await;
            let value = model.get(&key(k)).map(|(value, _)| value.clone());
            assert_eq!(existed, Ok(value.is_some()));
            if let Some(value) = value {
                store(model, key(k), Some((value, at)));
            }
        }
        Step::Apply(changes) => {
            let changes: Vec<_> = changes.into_iter().map(|(k, v)| (key(k), v.map(value))).collect();
            let found = |value: &Bytes| StoredValue::string(value.clone(), None);
            let taken = changes.iter().map(|(key, to)| (key.clone(), to.as_ref().map(found))).collect();
            local(group).apply(taken).await.expect("taken");
            for (key, to) in changes {
                store(model, key, to.map(|value| (value, None)));
            }
        }
        Step::Scan(a, b, reverse, limit) => {
            let (start, end) = (Bound::Included(key(a)), Bound::Excluded(key(b)));
            let scan = Scan { start: start.clone(), end: end.clone(), reverse, limit, ..all() };
            let mut expected: Vec<_> = match a < b {
                true => model.range((start, end)).map(|(key, (value, _))| (key.clone(), value.clone())).collect(),
                false => Vec::new(),
            };
            if reverse {
                expected.reverse();
            }
            assert_eq!(walk(group, scan).await, expected);
        }
        Step::Clear => {
            local(group).clear().await.expect("cleared");
            model.clear();
        }
        Step::Restart => unreachable!("the caller's"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn answers_as_a_map_does_whatever_restarts_between(steps in steps()) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut model = Model::new();
        for steps in steps.split(|step| matches!(step, Step::Restart)) {
            run(async {
                let group = disk(dir.path(), Durability::Os);
                for step in steps {
                    check(&group, &mut model, step.clone()).await;
                }
                let expected: Vec<_> = model.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
                assert_eq!(walk(&group, all()).await, expected);
                assert_eq!(local(&group).count().await, Ok(model.len() as u64));
                let keys: Vec<Bytes> = (0..32u8).map(|k| Bytes::from(format!("key {k:02}"))).collect();
                let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                let found = local(&group).get_many(&keys).await.expect("an answer");
                for (key, found) in keys.iter().zip(found) {
                    assert_eq!(found.map(|found| (found.value, found.expiry)), model.get(*key).cloned());
                }
            });
        }
    }
}

#[test]
fn ttls_survive_restarts_and_run_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let soon = clock::now() + 300;
    run(async {
        let group = disk(dir.path(), Durability::Os);
        group.put(b"soon", "v".into(), Some(soon)).await.expect("the put");
        group.put(b"later", "v".into(), Some(soon + 1_000_000)).await.expect("the put");
    });
    run(async {
        let group = disk(dir.path(), Durability::Os);
        assert_eq!(group.get("later").await, some("v"));
        assert_eq!(group.expiry("later"), Some(soon + 1_000_000));
        group.until("the expiry", async || group.get("soon").await == Ok(None)).await;
        assert!(clock::now() >= soon);
        assert_eq!(local(&group).count().await, Ok(1));
    });
}

#[test]
fn too_many_fetches_and_too_many_writes_fail_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let limits = SourceLimits { max_in_flight: 4, ..LIMITS };
        let group = open(&url(dir.path()), limits, FillPolicy::default());
        let keys: Vec<String> = (0..10).map(|at| at.to_string()).collect();
        let answers = group.get_all(&keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let failed = answers.iter().filter(|answer| answer.is_err()).count();
        assert_eq!(failed, 6);
        assert!(format!("{answers:?}").contains("more than 4 fetches in flight (source-max-in-flight)"));
        group.until("the fetches to end", async || group.health.in_flight() == 0).await;
    });
    let dir = tempfile::tempdir().expect("a directory");
    run(async {
        let store = StoreSettings { max_waiting: 1 << 20, ..StoreSettings::DEFAULT };
        let limits = SourceLimits { store, timeout: Duration::from_secs(20), ..LIMITS };
        let group = open(&url(dir.path()), limits, FillPolicy::default());
        let mut puts: Vec<_> = (0..200u8)
            .map(|at| {
                let found = StoredValue::string(vec![1; 300 << 10], None);
                local(&group).apply(vec![(bytes([at]), Some(found))])
            })
            .collect();
        // All are begun before the first is waited for.
        let mut answers = Vec::new();
        std::future::poll_fn(|context| {
            for put in &mut puts {
                assert!(put.as_mut().poll(context).is_pending());
            }
            std::task::Poll::Ready(())
        })
        .await;
        for put in puts {
            answers.push(put.await);
        }
        let refused = format!("{answers:?}");
        assert!(refused.contains("more than 1048576 bytes of writes wait for the disk\""), "{refused}");
        assert!(group.source.ping().await.is_ok() && group.health.is_up());
    });
}
