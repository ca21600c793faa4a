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
//! A flight that was fenced still answers those who joined it before, but stores nothing, and a miss after the
//! fence begins a new one. Where no reader may see an older value after a newer one, its leader calls [`Lead::overtake`]
//! first: the new one may have gone another way and come back with an older value than the old one has.
//! Flights for what is derived from a key (`derived`) are the key's as well: one fence for all.
//! Lock order: shard, then flight; wakers run under neither.

use crate::{
    Cache, Expiry, Key, Millis,
    sync::{Arc, Mutex, lock},
};
use bytes::Bytes;
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc as Shared,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker},
};

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

/// How an outcome is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Not at all.
    Skip,
    /// With this expiry: a value as an entry, an absence as a remembered absence. Failures are never stored.
    Store(Expiry),
}

#[derive(Debug, Default)]
struct Ending {
    outcome: Option<Outcome>,
    waiters: Vec<Waker>,
}

#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) hash: u64,
    pub(crate) key: Box<[u8]>,
    /// What is derived from the key's value; empty: the value itself.
    pub(crate) name: Box<[u8]>,
    /// The queue that the fetch was sent through; 0: not sent yet.
    queue: AtomicU32,
    ending: Mutex<Ending>,
}

impl Flight {
    fn is_of(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && *self.key == *key
    }

    /// The queue that it was sent through (0: not yet).
    pub(crate) fn queue(&self) -> u32 {
        self.queue.load(Relaxed)
    }

    fn bytes(&self) -> usize {
        // With the reference counts, the table's slot and its share of empty slots.
        size_of::<Flight>() + 16 + 2 * size_of::<Arc<Flight>>() + self.key.len() + self.name.len()
    }
}

/// The flights of one shard. A flight that is not in here has been fenced or has ended.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    table: HashTable<Arc<Flight>>,
    bytes: usize,
}

impl Flights {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The flight for the key's value, or for what is derived from it under a name that is not empty, and whether it was begun by
    /// this call.
    pub(crate) fn join(&mut self, hash: u64, key: &[u8], name: &[u8]) -> (Arc<Flight>, bool) {
        match self.table.entry(hash, |f| f.is_of(hash, key) && *f.name == *name, |f| f.hash) {
            Entry::Occupied(entry) => (entry.get().clone(), false),
            Entry::Vacant(entry) => {
                let flight = Arc::new(Flight {
                    hash,
                    key: key.into(),
                    name: name.into(),
                    queue: AtomicU32::new(0),
                    ending: Mutex::default(),
                });
                self.bytes += flight.bytes();
                entry.insert(flight.clone());
                (flight, true)
            }
        }
    }

    /// Moves the key's fence: what is in flight for it will not be stored.
    pub(crate) fn fence(&mut self, hash: u64, key: &[u8]) {
        if !self.table.is_empty() {
            self.remove(hash, |f| f.is_of(hash, key));
        }
    }

    fn remove(&mut self, hash: u64, which: impl Fn(&Arc<Flight>) -> bool) {
        while let Ok(entry) = self.table.find_entry(hash, &which) {
            self.bytes -= entry.remove().0.bytes();
        }
    }

    /// With the answer to `flight` at hand: fences the key's other flights that may come back with an older one, which are those that
    /// were sent through another queue. What will be sent from now on, or was sent through the same queue, cannot.
    /// False if `flight` was itself fenced.
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
        true
    }
}

/// The leader's duty: fetch the key, then [`finish`](Lead::finish). Dropping it releases the waiters with [`Outcome::Abandoned`].
#[must_use = "dropping the lead abandons the fetch"]
pub struct Lead {
    cache: Arc<Cache>,
    flight: Arc<Flight>,
    finished: bool,
}

impl Lead {
    pub(crate) fn new(cache: Arc<Cache>, flight: Arc<Flight>) -> Lead {
        Lead { cache, flight, finished: false }
    }

    /// The key to fetch.
    pub fn key(&self) -> &[u8] {
        &self.flight.key
    }

    /// What is to be fetched that is derived from the key's value ([`Cache::lookup_derived`]); empty: the value itself.
    pub fn name(&self) -> &[u8] {
        &self.flight.name
    }

    /// The fetch is about to be sent through a queue (a number other than 0): of the fetches of one queue, those sent later
    /// read the source later.
    pub fn sent_through(&self, queue: u32) {
        // Relaxed: whoever compares it has seen an answer that the source gave after it took this fetch.
        self.flight.queue.store(queue, Relaxed);
    }

    /// To be called with an answer at hand, before [`finish`](Lead::finish), where readers must never see an older value
    /// after a newer one: what was fetched
    /// through another queue may be older than this answer, so that is forgotten: what took the place of a flight that was fenced, and
    /// what was derived from the key. What begins from now on is newer.
    pub fn overtake(&self) {
        self.cache.overtake(&self.flight);
    }

    /// Forgets the key: for an answer that is not to be stored, but is newer than what is held.
    pub fn forget(&self) {
        self.cache.invalidate(Key { bytes: &self.flight.key, hash: self.flight.hash });
    }

    /// What was last known of the key, for when it cannot be fetched: a copy that may be out of date ([`Cache::mark_stale`]), but
    /// has not expired. `Some(None)` is a remembered absence.
    pub fn last_known(&self, now: Millis) -> Option<Option<Bytes>> {
        let key = Key { bytes: &self.flight.key, hash: self.flight.hash };
        match &*self.flight.name {
            b"" => self.cache.last_known(key, now),
            name => self.cache.last_derived(key, self.cache.key(name), now).map(Some),
        }
    }

    /// A handle that resolves when this flight ends, for the leader's own client.
    pub fn wait(&self) -> Wait {
        Wait::new(self.flight.clone())
    }

    /// Ends the flight: stores the outcome as `fill` says, unless the fence moved since the flight began, and wakes every
    /// waiter with it. True if it was stored.
    pub fn finish(mut self, outcome: Outcome, fill: Fill, now: Millis) -> bool {
        self.finished = true;
        self.end(outcome, fill, now)
    }

    fn end(&self, outcome: Outcome, fill: Fill, now: Millis) -> bool {
        let value = match &outcome {
            Outcome::Value(value) => Some(&value[..]),
            _ => None,
        };
        let expiry = match (fill, &outcome) {
            (Fill::Store(expiry), Outcome::Value(_) | Outcome::Absent) => Some(expiry),
            _ => None,
        };
        let stored = match self.flight.name.is_empty() {
            true => self.cache.land(&self.flight, now, value, expiry),
            false => self.cache.land_derived(&self.flight, now, value.zip(expiry)),
        };
        let waiters = {
            let mut ending = lock(&self.flight.ending);
            ending.outcome = Some(outcome);
            std::mem::take(&mut ending.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
        stored
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if !self.finished {
            self.end(Outcome::Abandoned, Fill::Skip, 0);
        }
    }
}

impl fmt::Debug for Lead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lead").field("key", &self.flight.key).finish_non_exhaustive()
    }
}

/// A future that resolves to a flight's outcome. Needs no runtime; dropping it leaves the flight alone.
#[derive(Debug)]
pub struct Wait {
    flight: Arc<Flight>,
    /// Which of the flight's wakers is ours.
    waker: Option<usize>,
}

impl Wait {
    pub(crate) fn new(flight: Arc<Flight>) -> Wait {
        Wait { flight, waker: None }
    }
}

impl Future for Wait {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        let mut ending = lock(&this.flight.ending);
        if let Some(outcome) = &ending.outcome {
            return Poll::Ready(outcome.clone());
        }
        match this.waker {
            Some(ours) => ending.waiters[ours].clone_from(context.waker()),
            None => {
                this.waker = Some(ending.waiters.len());
                ending.waiters.push(context.waker().clone());
            }
        }
        Poll::Pending
    }
}
