//! The task between two stores in memory.
use super::*;
use crate::{
    admission::ServerLoads,
    fetch::Fetch,
    local_future::LocalFuture,
    local_store::{LocalStore, Page, Scan},
    source_limits::SourceLimits,
    source_trait::{Source, SourceKind},
};
use larder_config::SourceUrl;
use larder_store::{StoredValue, clock};
use std::{cell::RefCell, collections::BTreeMap, future::ready, rc::Rc};

type Entries = Rc<RefCell<BTreeMap<Bytes, StoredValue>>>;

type Change = dyn Fn(&mut BTreeMap<Bytes, StoredValue>);

/// The key of an entry that no store takes.
const REFUSED: &[u8] = b"refused";

/// A store in memory, which calls `before_write`. Like a cluster, it makes the other changes when
/// it refuses one.
struct Memory {
    entries: Entries,
    before_write: Box<Change>,
}
impl Source for Memory {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Store(self)
    }
    fn fetch(&self, _batch: &mut Vec<Fetch>) {}
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(ready(Ok(())))
    }
}
impl LocalStore for Memory {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> LocalFuture<'a, Result<Vec<Option<StoredValue>>, SourceError>> {
        let entries = self.entries.borrow();
        Box::pin(ready(Ok(keys.iter().map(|key| entries.get(*key).cloned()).collect())))
    }
    fn apply(&self, changes: Vec<(Bytes, Option<StoredValue>)>) -> LocalFuture<'_, Result<(), SourceError>> {
        let mut entries = self.entries.borrow_mut();
        (self.before_write)(&mut entries);
        let (is_alone, mut outcome) = (changes.len() == 1, Ok(()));
        for (key, to) in changes {
            match to {
                Some(_) if key == REFUSED && is_alone => outcome = Err(SourceError::Refused("ERR refused".into())),
                Some(_) if key == REFUSED => outcome = Err(SourceError::Lost("some changes were made".into())),
                Some(to) => drop(entries.insert(key, to)),
                None => drop(entries.remove(&key)),
            }
        }
        Box::pin(ready(outcome))
    }
    fn scan(&self, _scan: Scan) -> LocalFuture<'_, Result<Page, SourceError>> {
        let entries = self.entries.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Box::pin(ready(Ok(Page { entries, ..Page::default() })))
    }
    fn count(&self) -> LocalFuture<'_, Result<u64, SourceError>> {
        Box::pin(ready(Ok(self.entries.borrow().len() as u64)))
    }
    fn clear(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(ready(Ok(())))
    }
    fn patience(&self, _slow: bool) -> Duration {
        Duration::ZERO
    }
}

/// A store that loses what it was given.
struct Forgetful(Memory);
impl Source for Forgetful {
    fn kind(&self) -> SourceKind<'_> {
        self.0.entries.borrow_mut().clear();
        SourceKind::Store(&self.0)
    }
    fn fetch(&self, _batch: &mut Vec<Fetch>) {}
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(ready(Ok(())))
    }
}

fn store(before_write: impl Fn(&mut BTreeMap<Bytes, StoredValue>) + 'static) -> (Entries, Memory) {
    let entries = Entries::default();
    (entries.clone(), Memory { entries, before_write: Box::new(before_write) })
}
fn end(source: impl Source + 'static) -> End {
    let health = SourceHealth::new(&SourceUrl::None, &SourceLimits::SMALLEST, &ServerLoads::default());
    End { entries: StoredEntries::of(Rc::new(source)), health: Arc::new(health) }
}
fn task(source: impl Source + 'static, to: impl Source + 'static) -> MirrorTask<'static> {
    let task = MirrorTask::new("g", Arc::default(), end(source), end(to));
    MirrorTask { is_ours: true, walk: Walk::Done, ..task }
}
fn value(text: &'static str) -> StoredValue {
    StoredValue::string(text, None)
}

/// Another Larder changes the key and copies it, between this one's read and its write.
#[tokio::test]
async fn an_older_value_does_not_stay() {
    let (of_source, source) = store(|_| ());
    of_source.borrow_mut().insert("k".into(), value("old"));
    let (changed, times) = (of_source.clone(), RefCell::new(0));
    let (of_mirror, to) = store(move |mirror| {
        *times.borrow_mut() += 1;
        if *times.borrow() == 1 {
            changed.borrow_mut().insert("k".into(), value("new"));
            mirror.insert("k".into(), value("new"));
        }
    });
    let mut task = task(source, to);
    task.copy(vec!["k".into()]).await.unwrap();
    assert_eq!(*of_mirror.borrow(), *of_source.borrow());
    assert!(task.mirror.changed.lock().is_empty());
    assert_eq!(task.mirror.snapshot().copied, 2);
}

/// Something else changes the mirror all the time.
#[tokio::test]
async fn a_key_that_stays_different_is_counted_and_queued() {
    let (of_source, source) = store(|_| ());
    of_source.borrow_mut().insert("k".into(), value("v"));
    let (_, memory) = store(|_| ());
    let mut task = task(source, Forgetful(memory));
    task.copy(vec!["k".into()]).await.unwrap();
    assert_eq!(task.mirror.changed.lock().take(9), ["k"]);
    let counts = task.mirror.snapshot();
    assert_eq!((counts.copied, counts.different), (2, 2));
}

#[tokio::test]
async fn an_entry_that_a_cluster_refuses_stops_no_other() {
    let ((of_source, source), (of_mirror, to)) = (store(|_| ()), store(|_| ()));
    let keys = [Bytes::from("a"), REFUSED.into(), "b".into()];
    keys.iter().for_each(|key| drop(of_source.borrow_mut().insert(key.clone(), value("v"))));
    let mut task = task(source, to);
    task.copy(keys.to_vec()).await.unwrap();
    assert!(of_mirror.borrow().keys().eq(["a", "b"]));
    assert!(task.mirror.changed.lock().is_empty());
    assert_eq!(task.mirror.snapshot().left_out, 1);
}

/// An entry that was left out is deleted: the next reload finds nothing in its way.
#[tokio::test(start_paused = true)]
async fn an_entry_that_was_left_out_does_not_bar_swaps_for_ever() {
    let ((of_source, source), (_, to)) = (store(|_| ()), store(|_| ()));
    let task = task(source, to);
    let mirror = task.mirror.clone();
    let reloads = async {
        let wait = async |expected: Option<&str>| {
            for _ in 0..100 {
                match (mirror.swap_problem(), expected) {
                    (None, None) => return,
                    (Some(problem), Some(expected)) if problem.contains(expected) => return,
                    _ => sleep(LOOK).await,
                }
            }
            panic!("{:?} instead of {expected:?}", mirror.swap_problem());
        };
        of_source.borrow_mut().insert(REFUSED.into(), value("v"));
        mirror.note(REFUSED);
        wait(Some("cannot keep 1 entries")).await;
        // All keys are compared again, and it is still there.
        sleep(LOOK).await;
        wait(Some("cannot keep 1 entries")).await;
        of_source.borrow_mut().clear();
        mirror.note(REFUSED);
        wait(None).await;
        mirror.end();
    };
    tokio::join!(task.run(), reloads);
}

/// The mirror may be read before its copy would end by itself.
#[tokio::test]
async fn a_deleted_entry_that_ends_soon_is_deleted() {
    let ((_, source), (of_mirror, to)) = (store(|_| ()), store(|_| ()));
    of_mirror.borrow_mut().insert("k".into(), StoredValue::string("v", Some(clock::now() + 500)));
    task(source, to).copy(vec!["k".into()]).await.unwrap();
    assert!(of_mirror.borrow().is_empty());
}

/// What changed before the swap goes one way, what changes after it goes the other way.
#[tokio::test(start_paused = true)]
async fn a_swap_waits_until_nothing_is_left_to_copy() {
    let ((first, source), (second, to)) = (store(|_| ()), store(|_| ()));
    let task = task(source, to);
    let mirror = task.mirror.clone();
    let swap = async {
        first.borrow_mut().insert("a".into(), value("1"));
        mirror.note(b"a");
        let drained = mirror.drain().await.expect("the task runs");
        assert_eq!(second.borrow().get(&b"a"[..]), Some(&value("1")));
        assert_eq!(mirror.swap_problem(), None);
        mirror.swap(&drained);
        second.borrow_mut().insert("a".into(), value("2"));
        mirror.note(b"a");
        assert_eq!(first.borrow().get(&b"a"[..]), Some(&value("1")), "the task waits");
        drop(drained);
        mirror.end();
    };
    tokio::join!(task.run(), swap);
    assert_eq!(*first.borrow(), *second.borrow());
    assert_eq!(first.borrow().get(&b"a"[..]), Some(&value("2")));
}
