//! What is usually off and concerns every request while it is on: limits, a pause, faults, logs.
//! Each worker has a word with a bit for each, so a hit tests one number for all of them.
use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// One such thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Special {
    /// A limit on requests is set.
    Throttle = 1 << 0,
    /// This worker takes on no requests for entries.
    Overload = 1 << 1,
    /// CLIENT PAUSE.
    Pause = 1 << 2,
    /// A fault is ordered.
    Faults = 1 << 3,
    /// Operations are recorded.
    Recorder = 1 << 4,
    /// A client sees every command (MONITOR).
    Monitors = 1 << 5,
    /// Commands are timed one by one, for the slow log.
    SlowLog = 1 << 6,
    /// Requests are logged at level `info`.
    AccessLog = 1 << 7,
    /// Requests are logged at level `debug`.
    DebugLog = 1 << 8,
    /// Requests are traced.
    Tracer = 1 << 9,
    /// Keyspace events are published. It concerns only requests that write.
    KeyEvents = 1 << 10,
}

pub const fn bits<const N: usize>(specials: [Special; N]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < N {
        bits |= specials[at] as u32;
        at += 1;
    }
    bits
}

/// The words of all workers.
#[derive(Debug, Clone)]
pub struct Specials(Arc<[Arc<AtomicU32>]>);

impl Specials {
    /// Nothing is on.
    pub fn new(workers: usize) -> Specials {
        Specials((0..workers.max(1)).map(|_| Arc::default()).collect())
    }

    pub fn of_worker(&self, worker: usize) -> Arc<AtomicU32> {
        self.0[worker].clone()
    }

    /// What turns this on and off for all workers.
    pub fn switch(&self, special: Special) -> Switch {
        Switch { words: self.clone(), bit: special as u32 }
    }
}

/// Turns one thing on and off for all workers. The default one is seen by no one else (tests).
#[derive(Debug, Clone)]
pub struct Switch {
    words: Specials,
    bit: u32,
}

impl Default for Switch {
    fn default() -> Switch {
        Specials::new(1).switch(Special::Throttle)
    }
}

impl Switch {
    pub fn set(&self, is_on: bool) {
        for word in &*self.words.0 {
            set_bit(word, self.bit, is_on);
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.words.0[0].load(Relaxed) & self.bit != 0
    }
}

/// Sets the bit of one worker's word.
pub fn set_bit(word: &AtomicU32, bit: u32, is_on: bool) {
    // Most calls change nothing, and no core has to give the word's cache line away for them.
    if (word.load(Relaxed) & bit != 0) != is_on {
        match is_on {
            true => word.fetch_or(bit, Relaxed),
            false => word.fetch_and(!bit, Relaxed),
        };
    }
}
