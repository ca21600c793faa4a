//! Flights: one fetch from the source that all concurrent misses of a key share.
//!
//! ```text
//!   lookup (shard lock) ── miss ──► no flight: add one ──► Lead   the caller fetches, then `finish`
//!                              └──► a flight        ──► Wait   a future for its outcome
//!
//!   write, delete, invalidate, clear (shard lock) ──► the key's flight leaves the table: that is the fence
//!   finish (shard lock) ──► still in the table? store the fill, take it out     then, unlocked: wake the waiters
//!   drop without finish ──► the same, with `Abandoned` and nothing to store
//! ```
//!
//! A flight that takes too long may answer those who wait with what is held, which is out of date
//! ([`Flight::answer_early`]); it goes on, and those who join later wait for its end.
//!
//! A flight that was fenced still answers those who joined it before, but stores nothing, and a
//! miss after the fence begins a new one. Where no reader may see an older value after a newer one,
//! its leader calls [`Lead::overtake`](crate::Lead::overtake) first: the new one may have gone
//! another way and come back with an older value than the old one has. Flights for what is derived
//! from a key (`derived`) are the key's as well: one fence for all. So is the direct flight of a
//! key, which asks the source for a caller that must not wait for a flight that asks others.
//! Lock order: shard, then flight; wakers run under neither.

use crate::{
    key::Key,
    overtaken::Overtaken,
    sync::{Arc, Mutex, lock},
};
use bytes::Bytes;
use hashbrown::{HashTable, hash_table::Entry};
use smallvec::SmallVec;
use std::{
    pin::Pin,
    sync::{
        Arc as Shared,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

/// The longest key that lies in its flight.
const KEY: usize = 32;

/// How a flight ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The source has this value.
    Value(Bytes),
    /// The source does not have the key.
    Absent,
    /// The source failed; every waiter gets the reason.
    Failed(Shared<str>),
    /// The leader went away without an answer (panic, shutdown).
    Abandoned,
}

/// What the leader of a new flight finds in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Nothing that can be served.
    Fetch,
    /// Something out of date that may be served if the fetch fails or takes too long.
    FetchOrFallback,
    /// Something that is served meanwhile.
    Renew,
    /// Whatever it finds: only the source itself is asked, so no flight is joined that may ask
    /// others.
    Direct,
}

#[derive(Debug, Default)]
struct Ending {
    outcome: Option<Outcome>,
    /// For those who joined before it was given.
    early: Option<Outcome>,
    /// What the source says about the value, for those who get it from the flight alone.
    metadata: Option<Bytes>,
    waiters: SmallVec<[Waker; 1]>,
}

#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) hash: u64,
    /// A short one takes no allocation of its own.
    pub(crate) key: SmallVec<[u8; KEY]>,
    /// What is derived from the key's value; empty: the value itself.
    pub(crate) name: Box<[u8]>,
    /// The queue that the fetch was sent through; 0: not sent yet.
    queue: AtomicU32,
    pub(crate) purpose: Purpose,
    /// The version that the shard had reached when it began.
    pub(crate) begun: u64,
    /// It has answered early.
    is_overdue: AtomicBool,
    ending: Mutex<Ending>,
}

impl Flight {
    pub(crate) fn new(hash: u64, key: &[u8], name: &[u8], purpose: Purpose, begun: u64) -> Arc<Flight> {
        Arc::new(Flight {
            hash,
            key: SmallVec::from_slice(key),
            name: name.into(),
            queue: AtomicU32::new(0),
            purpose,
            begun,
            is_overdue: AtomicBool::new(false),
            ending: Mutex::default(),
        })
    }

    /// Whether it has answered early. Relaxed: asked under the lock of the shard, which also orders
    /// the change.
    pub(crate) fn is_overdue(&self) -> bool {
        self.is_overdue.load(Relaxed)
    }

    /// From now on the flight counts as overdue. Under the lock of the shard.
    pub(crate) fn set_overdue(&self) {
        self.is_overdue.store(true, Relaxed);
    }

    /// Wakes those who wait with an outcome that is not the flight's own. Nothing if it has ended.
    pub(crate) fn answer_early(&self, outcome: Outcome) {
        let waiters = {
            let mut ending = lock(&self.ending);
            if ending.outcome.is_some() {
                return;
            }
            ending.early = Some(outcome);
            std::mem::take(&mut ending.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Whether it asks only the source itself.
    pub(crate) fn is_direct(&self) -> bool {
        self.purpose == Purpose::Direct
    }

    pub(crate) fn describe(&self, metadata: Bytes) {
        lock(&self.ending).metadata = Some(metadata);
    }

    fn is_of(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && *self.key == *key
    }

    /// The queue that it was sent through (0: not yet).
    pub(crate) fn queue(&self) -> u32 {
        self.queue.load(Relaxed)
    }

    /// Says which queue the fetch is sent through. Relaxed: the thread that compares it has seen an
    /// answer that the source gave after it took this fetch.
    pub(crate) fn sent_through(&self, queue: u32) {
        self.queue.store(queue, Relaxed);
    }

    /// Wakes every waiter with the outcome.
    pub(crate) fn end(&self, outcome: Outcome) {
        let waiters = {
            let mut ending = lock(&self.ending);
            ending.outcome = Some(outcome);
            std::mem::take(&mut ending.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    fn bytes(&self) -> usize {
        // With the reference counts, the table's slot and its share of empty slots.
        let key = if self.key.spilled() { self.key.len() } else { 0 };
        size_of::<Flight>() + 16 + 2 * size_of::<Arc<Flight>>() + key + self.name.len()
    }
}

/// The flights of one shard. A flight that is not in here has been fenced or has ended.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    table: HashTable<Arc<Flight>>,
    bytes: usize,
    /// What was changed since a restore began; `None`: none is under way, or everything was cleared
    /// since.
    restore: Option<Box<Overtaken>>,
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The flight for the key's value, or for what is derived from it under a name that is not
    /// empty, and whether it was begun by this call.
    pub(crate) fn join(
        &mut self,
        hash: u64,
        key: &[u8],
        name: &[u8],
        purpose: Purpose,
        begun: u64,
    ) -> (Arc<Flight>, bool) {
        match self.table.entry(
            hash,
            |f| f.is_of(hash, key) && *f.name == *name && f.is_direct() == (purpose == Purpose::Direct),
            |f| f.hash,
        ) {
            Entry::Occupied(entry) => (entry.get().clone(), false),
            Entry::Vacant(entry) => {
                let flight = Flight::new(hash, key, name, purpose, begun);
                self.bytes += flight.bytes();
                entry.insert(flight.clone());
                (flight, true)
            }
        }
    }

    /// The flight of a key, or of what is derived from it under a name; not the direct one.
    pub(crate) fn get(&self, hash: u64, key: &[u8], name: &[u8]) -> Option<&Arc<Flight>> {
        self.table.find(hash, |f| f.is_of(hash, key) && *f.name == *name && !f.is_direct())
    }

    /// Moves the fence of all keys under a prefix.
    pub(crate) fn fence_all(&mut self, prefix: &[u8]) {
        if prefix.is_empty() {
            *self = Flights::default();
            return;
        }
        let bytes = &mut self.bytes;
        if let Some(overtaken) = &mut self.restore {
            *bytes = bytes.saturating_add_signed(overtaken.note_prefix(prefix));
        }
        self.table.retain(|flight| {
            let stays = !flight.key.starts_with(prefix);
            if !stays {
                *bytes -= flight.bytes();
            }
            stays
        });
    }

    /// Moves the key's fence: what is in flight for it will not be stored.
    pub(crate) fn fence(&mut self, hash: u64, key: &[u8]) {
        if !self.table.is_empty() {
            self.remove(hash, |f| f.is_of(hash, key));
        }
        self.overtake_restore(hash);
    }

    /// What a restore has of the key is older than what happened to the key now.
    #[inline]
    pub(crate) fn overtake_restore(&mut self, hash: u64) {
        if let Some(overtaken) = &mut self.restore {
            self.bytes += overtaken.note_key(hash);
        }
    }

    /// Like `overtake_restore`, for all entries that carry a tag.
    pub(crate) fn overtake_restore_of_tag(&mut self, hash: u64) {
        if let Some(overtaken) = &mut self.restore {
            self.bytes += overtaken.note_tag(hash);
        }
    }

    /// From now on changes are noted, until [`end_restore`](Flights::end_restore).
    pub(crate) fn begin_restore(&mut self) {
        self.end_restore();
        self.bytes += size_of::<Overtaken>();
        self.restore = Some(Box::default());
    }

    pub(crate) fn end_restore(&mut self) {
        if let Some(overtaken) = self.restore.take() {
            self.bytes -= overtaken.bytes();
        }
    }

    /// Whether an entry of a restore is as new as what happened to its key since the restore began.
    pub(crate) fn may_restore(&self, key: Key<'_>, tags: impl Iterator<Item = u64>) -> bool {
        self.restore.as_ref().is_some_and(|overtaken| !overtaken.has(key, tags))
    }

    fn remove(&mut self, hash: u64, which: impl Fn(&Arc<Flight>) -> bool) {
        while let Ok(entry) = self.table.find_entry(hash, &which) {
            self.bytes -= entry.remove().0.bytes();
        }
    }

    /// With the answer to `flight` at hand: fences the key's other flights that may come back with
    /// an older one, which are those that were sent through another queue. What will be sent
    /// from now on, or was sent through the same queue, cannot. False if `flight` was itself
    /// fenced.
    pub(crate) fn overtake(&mut self, flight: &Arc<Flight>) -> bool {
        let ours = flight.queue.load(Relaxed);
        self.remove(flight.hash, |f| {
            let queue = f.queue.load(Relaxed);
            f.is_of(flight.hash, &flight.key) && !Arc::ptr_eq(f, flight) && queue != 0 && queue != ours
        });
        self.table.find(flight.hash, |f| Arc::ptr_eq(f, flight)).is_some()
    }

    /// Takes a flight out; false if its fence has moved.
    pub(crate) fn land(&mut self, flight: &Arc<Flight>) -> bool {
        let Ok(entry) = self.table.find_entry(flight.hash, |f| Arc::ptr_eq(f, flight)) else {
            return false;
        };
        entry.remove();
        self.bytes -= flight.bytes();
        self.overtake_restore(flight.hash);
        true
    }
}

/// A future that resolves to a flight's outcome. Needs no runtime; dropping it leaves the flight
/// alone.
#[derive(Debug)]
pub struct Wait {
    flight: Arc<Flight>,
    /// Which of the flight's wakers is ours, and whether it was left after the early answer, which
    /// takes the wakers.
    waker: Option<(usize, bool)>,
    /// The early answer is not for us: we came after it.
    is_late: bool,
}

impl Wait {
    pub(crate) fn new(flight: Arc<Flight>) -> Wait {
        let is_late = flight.is_overdue();
        Wait { flight, waker: None, is_late }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.flight.key
    }

    /// What the leader said about the value ([`Lead::describe`](crate::Lead::describe)), once the
    /// flight has ended.
    pub fn metadata(&self) -> Option<Bytes> {
        lock(&self.flight.ending).metadata.clone()
    }
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        // No reader can join a flight that has left the table, so this does not change any more.
        let is_last = Arc::strong_count(&this.flight) == 1;
        let mut ending = lock(&this.flight.ending);
        if is_last && let Some(outcome) = ending.outcome.take() {
            return Poll::Ready(outcome);
        }
        if let Some(outcome) = &ending.outcome {
            return Poll::Ready(outcome.clone());
        }
        if let Some(early) = ending.early.as_ref().filter(|_| !this.is_late) {
            return Poll::Ready(early.clone());
        }
        let is_after = ending.early.is_some();
        match this.waker {
            Some((ours, left_after)) if left_after == is_after => ending.waiters[ours].clone_from(context.waker()),
            _ => {
                this.waker = Some((ending.waiters.len(), is_after));
                ending.waiters.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}
