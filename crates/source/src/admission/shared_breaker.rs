//! The circuit breaker as all cores share it: while it is closed, an answered fetch adds to one
//! counter.
use super::circuit_breaker::{BreakerState, CircuitBreaker};
use crate::source_limits::BreakerPolicy;
use parking_lot::Mutex;
use std::{
    sync::atomic::{
        AtomicU8, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::Duration,
};

/// A breaker with copies, which need no lock, of what most fetches ask.
#[derive(Debug)]
pub(super) struct SharedBreaker {
    policy: BreakerPolicy,
    state: AtomicU8,
    /// While open: until when. Nanoseconds.
    open_until: AtomicU64,
    /// When the fetches counted in `answered` must be handed to the machine. Nanoseconds.
    bucket_end: AtomicU64,
    answered: AtomicU64,
    opened: AtomicU64,
    machine: Mutex<CircuitBreaker>,
}

/// A change of the state, and the outcomes that led to it: fetches that ended and failures among
/// them within the window, and failures since the latest answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transition {
    pub(super) to: BreakerState,
    pub(super) outcomes: (u64, u64),
    pub(super) failed_in_a_row: u64,
}

impl SharedBreaker {
    pub(super) fn new(policy: BreakerPolicy) -> SharedBreaker {
        let machine = CircuitBreaker::new(policy);
        SharedBreaker {
            policy,
            state: AtomicU8::new(BreakerState::Closed as u8),
            open_until: AtomicU64::new(0),
            bucket_end: AtomicU64::new(nanos(machine.bucket_end())),
            answered: AtomicU64::new(0),
            opened: AtomicU64::new(0),
            machine: Mutex::new(machine),
        }
    }
    pub(super) fn policy(&self) -> BreakerPolicy {
        self.policy
    }
    pub(super) fn state(&self) -> BreakerState {
        BreakerState::ALL[usize::from(self.state.load(Acquire))]
    }
    /// How often the circuit opened; a failed probe counts, too.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// How many of `count` fetches may be sent now.
    pub(super) fn admit(&self, now: Duration, count: usize) -> (usize, Option<Transition>) {
        match self.state() {
            BreakerState::Closed => (count, None),
            BreakerState::Open if nanos(now) < self.open_until.load(Relaxed) => (0, None),
            _ => self.change(|machine| machine.admit(now, count)),
        }
    }
    /// Fetches that were admitted at `begun` were not sent after all, or were given up.
    pub(super) fn give_back(&self, count: usize, begun: Duration) {
        if count > 0 && self.state() != BreakerState::Closed {
            self.machine.lock().give_back(count, begun);
        }
    }
    /// So many fetches that were sent at `begun` have ended alike.
    pub(super) fn ended(&self, count: usize, now: Duration, begun: Duration, failed: bool) -> Option<Transition> {
        if !failed && self.state() == BreakerState::Closed && nanos(now) < self.bucket_end.load(Relaxed) {
            self.answered.fetch_add(count as u64, Relaxed);
            return None;
        }
        self.change(|machine| {
            machine.count_answered(self.answered.swap(0, Relaxed));
            (0..count).for_each(|_| machine.ended(now, begun, failed));
        })
        .1
    }
    /// A connection to the source was made.
    pub(super) fn connected(&self, now: Duration) -> Option<Transition> {
        match self.state() {
            BreakerState::Open => self.change(|machine| machine.connected(now)).1,
            BreakerState::Closed | BreakerState::HalfOpen => None,
        }
    }
    fn change<T>(&self, with: impl FnOnce(&mut CircuitBreaker) -> T) -> (T, Option<Transition>) {
        let mut machine = self.machine.lock();
        let before = machine.state();
        let result = with(&mut machine);
        let to = machine.state();
        self.open_until.store(machine.open_until().map_or(0, nanos), Relaxed);
        self.bucket_end.store(nanos(machine.bucket_end()), Relaxed);
        self.state.store(to as u8, Release);
        if to == before {
            return (result, None);
        }
        if to == BreakerState::Open {
            self.opened.fetch_add(1, Relaxed);
        }
        (result, Some(Transition { to, outcomes: machine.outcomes(), failed_in_a_row: machine.failed_in_a_row() }))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
