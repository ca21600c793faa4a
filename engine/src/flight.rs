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
//! fence begins a new one. Lock order: shard, then flight; wakers run under neither.

use crate::{
    Cache, Expiry, Millis,
    sync::{Arc, Mutex, lock},
};
use bytes::Bytes;
use hashbrown::{HashTable, hash_table::Entry};
use std::{
    fmt,
    pin::Pin,
    sync::Arc as Shared,
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
    hash: u64,
    key: Box<[u8]>,
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
                let flight = Arc::new(Flight { hash, key: key.into(), ending: Mutex::default() });
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
