//! What a request must pass before it is answered, at whichever door it came in. A new rule is a bit
//! ([`Special`]), a row in [`RULES`] and a row of the test of all doors
//! (`crates/larder/tests/rules/doors.rs`).
//!
//! A hit tests its worker's word once ([`Worker::special`]) and asks no more where nothing is on.
//! A door where something is on calls [`enter`] when it knows who asks for what, [`note`] for each
//! key once the user may touch it, and [`delay`] before anything else.
//!
//! Rules of one door alone stay there: MONITOR and CLIENT PAUSE are of the Redis
//! protocol, the slow log is of all commands, the access log and traces are of HTTP. Their bits are in the same word.
use crate::app::Worker;
use larder_base::{
    lifecycle::{
        faults::FaultPlace,
        throttle::{Allowance, Caller, CommandClass, Scope, Throttled},
    },
    special::{Special, bits},
    telemetry::RecordedOperation,
};
use larder_store::clock;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

/// Where clients come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Http,
    Redis,
    Memcached,
}

const OF_ALL: u32 = bits([Special::Throttle, Special::Overload, Special::Faults, Special::Recorder]);

impl Door {
    /// What concerns requests at this door.
    const fn specials(self) -> u32 {
        match self {
            Door::Http => OF_ALL | bits([Special::AccessLog, Special::DebugLog, Special::Tracer]),
            Door::Redis => OF_ALL | bits([Special::Pause, Special::Monitors, Special::SlowLog]),
            Door::Memcached => OF_ALL | Special::SlowLog as u32,
        }
    }
}

/// A request, as far as rules look at it.
pub struct Asked<'r, 'k> {
    pub door: Door,
    pub scope: Scope,
    pub caller: Caller<'r>,
    pub class: Option<CommandClass<'r>>,
    /// The keys that are known before its body is read.
    pub keys: &'r mut dyn Iterator<Item = &'k [u8]>,
    /// What is for the connection or the server goes on in an overload.
    pub is_for_entries: bool,
}

/// Why a request may not go on.
#[derive(Debug)]
pub enum Refused {
    Overloaded,
    Throttled(Box<Throttled>),
}

type Rule = fn(&Worker, &mut Asked<'_, '_>) -> Verdict;
type Verdict = Result<Option<Allowance>, Refused>;

/// The rules, in the order in which they are asked: an overloaded core does no work for limits.
const RULES: [(Special, Rule); 2] = [(Special::Overload, overload), (Special::Throttle, throttle)];

#[inline]
pub fn has_rules(worker: &Worker) -> bool {
    const BITS: u32 = bits([RULES[0].0, RULES[1].0]);
    worker.special.load(Relaxed) & BITS != 0
}

/// Whether a request may go on, and what is left of its budget.
///
/// # Errors
/// A rule refuses it. It is counted.
#[cold]
pub fn enter(worker: &Worker, mut asked: Asked<'_, '_>) -> Verdict {
    let special = worker.special(asked.door);
    let mut left = None;
    for (bit, rule) in RULES {
        if special & bit as u32 != 0 {
            left = rule(worker, &mut asked).inspect_err(|refused| count(worker, asked.door, refused))?;
        }
    }
    Ok(left)
}

fn overload(_: &Worker, asked: &mut Asked<'_, '_>) -> Verdict {
    if asked.is_for_entries { Err(Refused::Overloaded) } else { Ok(None) }
}

fn throttle(worker: &Worker, asked: &mut Asked<'_, '_>) -> Verdict {
    let Asked { scope, caller, class, .. } = *asked;
    let throttle = &worker.app.gate.throttle;
    let left = throttle.check(scope, caller, class, &mut *asked.keys).map_err(throttled)?;
    Ok(left.filter(|_| throttle.is_shown()))
}

fn throttled(throttled: Throttled) -> Refused {
    Refused::Throttled(Box::new(throttled))
}

fn count(worker: &Worker, door: Door, refused: &Refused) {
    let counters = &worker.counters;
    match (refused, door) {
        (Refused::Overloaded, Door::Http) => counters.http_overloaded.add(1),
        (Refused::Overloaded, Door::Redis) => counters.redis_overloaded.add(1),
        (Refused::Overloaded, Door::Memcached) => counters.memcached_overloaded.add(1),
        (Refused::Throttled(_), Door::Http) => counters.http_throttled.add(1),
        (Refused::Throttled(_), Door::Redis) => counters.redis_throttled.add(1),
        (Refused::Throttled(_), Door::Memcached) => counters.memcached_throttled.add(1),
    }
}

/// Counts keys that became known after their request had entered: those in a body.
///
/// # Errors
/// As [`enter`].
#[cold]
pub fn enter_keys<'k>(worker: &Worker, door: Door, keys: impl Iterator<Item = &'k [u8]>) -> Result<(), Refused> {
    let entered = worker.app.gate.throttle.check_keys(keys).map_err(throttled);
    entered.inspect_err(|refused| count(worker, door, refused))
}

/// Notes an operation for the recorder.
#[inline]
pub fn note(worker: &Worker, operation: RecordedOperation, key: &[u8]) {
    worker.app.telemetry.recorder.note(worker.id, operation, key);
}

/// How long a fault that was ordered delays what comes in at this moment.
#[inline]
pub fn delay(worker: &Worker, door: Door) -> Option<Duration> {
    if !worker.is_on(Special::Faults) {
        return None;
    }
    let place = match door {
        Door::Http => FaultPlace::Http,
        Door::Redis => FaultPlace::Redis,
        Door::Memcached => FaultPlace::Memcached,
    };
    worker.app.gate.faults.delay(place, clock::now())
}

impl Worker {
    /// What is on that requests at this door must look at; 0: nothing.
    #[inline]
    pub fn special(&self, door: Door) -> u32 {
        self.special.load(Relaxed) & door.specials()
    }

    #[inline]
    pub fn is_on(&self, special: Special) -> bool {
        self.special.load(Relaxed) & special as u32 != 0
    }
}
