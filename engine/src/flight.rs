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
    /// The queue that the fetch was sent through; 0: not sent yet.
    queue: AtomicU32,
    ending: Mutex<Ending>,
}

impl Flight {
    fn bytes(&self) -> usize {
        // With the reference counts, the table's slot and its share of empty slots.
        size_of::<Flight>() + 16 + 2 * size_of::<Arc<Flight>>() + self.key.len()
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

    /// The key's flight, and whether it was begun by this call.
    pub(crate) fn join(&mut self, hash: u64, key: &[u8]) -> (Arc<Flight>, bool) {
        match self.table.entry(hash, |f| f.hash == hash && *f.key == *key, |f| f.hash) {
            Entry::Occupied(entry) => (entry.get().clone(), false),
            Entry::Vacant(entry) => {
                let flight =
                    Arc::new(Flight { hash, key: key.into(), queue: AtomicU32::new(0), ending: Mutex::default() });
                self.bytes += flight.bytes();
                entry.insert(flight.clone());
                (flight, true)
            }
        }
    }

    /// Moves the key's fence: what is in flight for it will not be stored.
    pub(crate) fn fence(&mut self, hash: u64, key: &[u8]) {
        if self.table.is_empty() {
            return;
        }
        if let Ok(entry) = self.table.find_entry(hash, |f| f.hash == hash && *f.key == *key) {
            self.bytes -= entry.remove().0.bytes();
        }
    }

    /// With the answer to `flight` at hand: may the tier have an older one of its key, or be about to get it?
    pub(crate) fn may_lag(&self, flight: &Arc<Flight>) -> bool {
        match self.table.find(flight.hash, |f| f.hash == flight.hash && f.key == flight.key) {
            // Its entry, if it has one, came after the fence by a way that nobody knows any more.
            None => true,
            // The flight itself, one that will be sent from now on, or one that was sent after it through the same queue.
            Some(other) => {
                let queue = other.queue.load(Relaxed);
                !Arc::ptr_eq(other, flight) && queue != 0 && queue != flight.queue.load(Relaxed)
            }
        }
    }

    /// Takes a flight out; false if its fence has moved.
    fn land(&mut self, flight: &Arc<Flight>) -> bool {
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

    /// The fetch is about to be sent through a queue (a number other than 0): of the fetches of one queue, those sent later
    /// read the source later.
    pub fn sent_through(&self, queue: u32) {
        // Relaxed: whoever compares it has seen an answer that the source gave after it took this fetch.
        self.flight.queue.store(queue, Relaxed);
    }

    /// To be called with an answer at hand, before [`finish`](Lead::finish), where readers must never see an older value
    /// after a newer one: if the flight was fenced, what took its place may be older than this answer (it was fetched
    /// through another queue), so that is forgotten as well. What begins from now on is newer.
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
        self.cache.last_known(Key { bytes: &self.flight.key, hash: self.flight.hash }, now)
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
        let stored = self
            .cache
            .land(self.flight.hash, &self.flight.key, now, value, expiry, |flights| flights.land(&self.flight));
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
