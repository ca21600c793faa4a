//! `disk:DIR`: the durable store of this machine ([`store::disk`](crate::store::disk)) as a source.
//!
//! A miss crosses to a reader's thread, which finishes the flight itself; a write crosses to the committer and is awaited. What takes
//! longer than `source-timeout` fails on the core, whatever the disk does; writes, where they are awaited ([`LocalStore::patience`]).
use super::{
    Found, Limits, Local, LocalStore, Page, Scan, Source, SourceError, SourceHealth,
    health::{Stand, Standing},
};
use crate::{
    clock,
    read::Fetch,
    store::disk::{Change, Range, Replies, Store, Tree, Walk, WriteError},
};
use bytes::Bytes;
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    cell::RefCell,
    collections::VecDeque,
    ops::ControlFlow,
    path::Path,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::oneshot, task::JoinHandle};

/// What all cores share: the open store.
#[derive(Clone)]
pub(super) struct DiskSetup {
    store: Store,
    limits: Limits,
    health: Arc<SourceHealth>,
}

impl DiskSetup {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }
    /// Opens the store.
    pub(super) fn open(dir: &Path, limits: Limits, health: Arc<SourceHealth>) -> Result<DiskSetup, String> {
        let mut standing = Standing::new(health.clone());
        standing.set(Stand::Up);
        let standing = Mutex::new(standing);
        let told = health.clone();
        let poisoned = Box::new(move |reason: &Arc<str>| {
            told.note_error(reason);
            standing.lock().set(Stand::Down);
        });
        let store = Store::open(dir, limits.store, poisoned)?;
        Ok(DiskSetup { store, limits, health })
    }
    fn unavailable(&self, what: &str) -> SourceError {
        SourceError::Unavailable(self.named(what))
    }
    fn late(&self, within: Duration) -> SourceError {
        self.unavailable(&format!("no answer within {within:?}"))
    }
    fn lost(&self, what: &str) -> SourceError {
        SourceError::Lost(self.named(what))
    }
    fn named(&self, what: &str) -> Arc<str> {
        format!("disk store {}: {what}", self.store.dir().display()).into()
    }
}

/// Fetches that a reader works through, or the core fails when their time is over.
type Batch = Arc<Mutex<VecDeque<Fetch>>>;

/// Keys of one job of a reader: few enough that a pipeline's misses spread over all readers.
const JOB: usize = 16;
/// How often fetches are looked at whose time may be over.
const SWEEP: Duration = Duration::from_millis(20);
/// Keys that one page of a scan looks at, whether they are live or not: no reader is kept for long.
const PAGE_KEYS: usize = 10_000;

/// One core's handle on the store.
pub(super) struct DiskSource {
    setup: DiskSetup,
    /// Batches under way, by their deadline. The task that watches over them runs while there are any.
    under_way: Rc<RefCell<VecDeque<(Instant, Batch)>>>,
    /// Answers to writes come here, and this task hands them on.
    replies: Arc<Replies>,
    deliver: JoinHandle<()>,
}
impl Drop for DiskSource {
    fn drop(&mut self) {
        self.deliver.abort();
    }
}

impl DiskSource {
    pub(super) fn new(setup: DiskSetup) -> DiskSource {
        let replies = Arc::new(Replies::default());
        let deliver = tokio::task::spawn_local(replies.clone().deliver());
        DiskSource { setup, under_way: Rc::default(), replies, deliver }
    }

    fn start(&self, fetches: VecDeque<Fetch>) {
        let begun = Instant::now();
        let batch: Batch = Arc::new(Mutex::new(fetches));
        let watched = {
            let mut under_way = self.under_way.borrow_mut();
            under_way.push_back((begun + self.setup.limits.timeout, batch.clone()));
            under_way.len() > 1
        };
        if !watched {
            tokio::task::spawn_local(watch(self.under_way.clone(), self.setup.clone()));
        }
        let health = self.setup.health.clone();
        self.setup.store.read(move |tree| {
            let mut key = Vec::new();
            loop {
                // Looked up without the lock, so that the core can fail a fetch that the disk does not answer.
                match batch.lock().front() {
                    Some(fetch) => {
                        key.clear();
                        key.extend_from_slice(fetch.key());
                    }
                    None => return,
                }
                let found = tree.get(&key, clock::now());
                let Some(fetch) = batch.lock().pop_front() else {
                    return;
                };
                let answer = found.map(|found| found.map(into_found)).map_err(unavailable);
                health.finished(answer.is_err(), begun.elapsed());
                fetch.finish(answer, clock::now());
            }
        });
    }

    /// Has a reader run this; a thread that dies or takes too long is an error.
    async fn read<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce(&Tree) -> Result<T, String> + Send + 'static,
    ) -> Result<T, SourceError> {
        let (reply, answer) = oneshot::channel();
        self.setup.store.read(move |tree| {
            // Whoever asked may have gone meanwhile: nothing is read for nobody.
            if !reply.is_closed() {
                let _ = reply.send(work(tree));
            }
        });
        self.answered(within, answer).await
    }
    async fn answered<T>(
        &self,
        within: Duration,
        answer: oneshot::Receiver<Result<T, String>>,
    ) -> Result<T, SourceError> {
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => answer.map_err(unavailable),
            Ok(Err(_)) => Err(self.setup.unavailable("a read ended without an answer")),
            Err(_) => Err(self.setup.late(within)),
        }
    }

    /// However long it takes: see [`LocalStore::apply`].
    async fn write(&self, change: Change) -> Result<bool, SourceError> {
        let answer = self.setup.store.write(change, &self.replies).map_err(write_error)?;
        match answer.await {
            Ok(answer) => answer.map_err(write_error),
            Err(_) => Err(self.setup.lost("the store was closed")),
        }
    }
}

/// Fails the fetches whose time is over, as long as any are under way.
async fn watch(under_way: Rc<RefCell<VecDeque<(Instant, Batch)>>>, setup: DiskSetup) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let now = Instant::now();
        let mut under_way = under_way.borrow_mut();
        while let Some((deadline, batch)) = under_way.front() {
            let mut fetches = batch.lock();
            if !fetches.is_empty() && *deadline > now {
                break;
            }
            for fetch in fetches.drain(..) {
                let within = setup.limits.timeout;
                setup.health.finished(true, within);
                fetch.finish(Err(setup.late(within)), clock::now());
            }
            drop(fetches);
            under_way.pop_front();
        }
        if under_way.is_empty() {
            return;
        }
    }
}

fn unavailable(text: String) -> SourceError {
    SourceError::Unavailable(text.into())
}
fn write_error(error: WriteError) -> SourceError {
    match error {
        WriteError::Refused(text) => SourceError::Unavailable(text),
        WriteError::Invalid(text) => SourceError::Refused(text),
        WriteError::Lost(text) => SourceError::Lost(text),
    }
}
fn into_found((value, expiry): (Bytes, Option<Millis>)) -> Found {
    Found { value, expiry }
}

impl Source for DiskSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.setup.health.admit(batch, self.setup.limits.max_in_flight);
        let mut fetches = batch.drain(..);
        loop {
            let job: VecDeque<Fetch> = fetches.by_ref().take(JOB).collect();
            if job.is_empty() {
                return;
            }
            self.start(job);
        }
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> Local<'a, Result<bool, SourceError>> {
        let change = Change::Put(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value), expiry);
        Box::pin(self.write(change))
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> Local<'a, Result<bool, SourceError>> {
        let change = Change::Delete(Bytes::copy_from_slice(key));
        Box::pin(self.write(change))
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> Local<'a, Result<bool, SourceError>> {
        let change = Change::Expire(Bytes::copy_from_slice(key), expiry);
        Box::pin(self.write(change))
    }
    fn ping(&self) -> Local<'_, Result<(), SourceError>> {
        let poisoned = self.setup.store.poisoned();
        Box::pin(std::future::ready(poisoned.map_or(Ok(()), |reason| Err(SourceError::Unavailable(reason)))))
    }
    fn as_local(&self) -> Option<&dyn LocalStore> {
        Some(self)
    }
}

impl LocalStore for DiskSource {
    fn get_many<'a>(&'a self, keys: &'a [&'a [u8]]) -> Local<'a, Result<Vec<Option<Found>>, SourceError>> {
        let keys: Vec<Bytes> = keys.iter().map(|key| Bytes::copy_from_slice(key)).collect();
        let work = move |tree: &Tree| {
            let found = tree.get_many(&keys, clock::now())?;
            Ok(found.into_iter().map(|found| found.map(into_found)).collect())
        };
        Box::pin(self.read(self.setup.limits.timeout, work))
    }
    fn apply(&self, changes: Vec<(Bytes, Option<Found>)>) -> Local<'_, Result<(), SourceError>> {
        let entries = changes.into_iter().map(|(key, to)| (key, to.map(|Found { value, expiry }| (value, expiry))));
        let change = Change::Apply(entries.collect());
        Box::pin(async move { self.write(change).await.map(drop) })
    }
    fn scan(&self, scan: Scan) -> Local<'_, Result<Page, SourceError>> {
        Box::pin(self.read(self.setup.limits.slow_timeout, move |tree| page(tree, scan)))
    }
    fn count(&self) -> Local<'_, Result<u64, SourceError>> {
        Box::pin(self.answered(self.setup.limits.slow_timeout, self.setup.store.count()))
    }
    fn clear(&self) -> Local<'_, Result<(), SourceError>> {
        Box::pin(async move { self.write(Change::Clear).await.map(drop) })
    }
    fn patience(&self, slow: bool) -> Duration {
        self.setup.limits.patience(slow)
    }
}

fn page(tree: &Tree, scan: Scan) -> Result<Page, String> {
    let Scan { start, end, reverse, limit, max_bytes, keys_only } = scan;
    let mut page = Page::default();
    let (mut seen, mut bytes) = (0, 0);
    tree.walk(Range { start, end, reverse }, clock::now(), |Walk { key, live, .. }| {
        seen += 1;
        if let Some((value, expiry)) = live {
            let value = if keys_only { Bytes::new() } else { value };
            bytes += key.len() + value.len();
            page.entries.push((key.clone(), Found { value, expiry }));
        }
        if page.entries.len() >= limit || bytes >= max_bytes || seen >= PAGE_KEYS {
            page.next = Some(key);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(page)
}
