//! When a core may write by itself ([`in_place`](super::in_place)): the gate that whoever holds
//! writers up shuts.
use parking_lot::{Mutex, MutexGuard};
use std::{
    sync::atomic::{
        AtomicBool,
        Ordering::{Acquire, Release},
    },
    time::{Duration, Instant},
};

/// A write that waited for nothing takes far less.
const SLOW: Duration = Duration::from_millis(1);
/// After a slow write the gate is shut for so many times as long.
const PAUSE: u32 = 50;
/// But not for longer: a process that was stopped for an hour in the middle of a write must not hand
/// over all writes for two days.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A compaction begins soon after a flush or compaction, so the gate opens when none was seen for
/// this long.
const SETTLED: Duration = Duration::from_millis(50);

/// Whether cores may write. Whoever begins something that holds writers up shuts it first; that
/// waits for a core that is just writing.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    is_calm: AtomicBool,
}
#[derive(Default)]
struct GateState {
    /// Since when no flush or compaction was seen; `None`: there is one, or nobody has looked.
    calm_since: Option<Instant>,
    syncing: bool,
    /// After a slow write.
    shut_until: Option<Instant>,
}

impl Gate {
    /// A flush or compaction is under way or about to begin, or there is none.
    pub(super) fn set_busy(&self, is_busy: bool) {
        let mut state = self.state.lock();
        state.calm_since = match is_busy {
            true => None,
            false => state.calm_since.or_else(|| Some(Instant::now())),
        };
        self.is_calm.store(state.calm_since.is_some_and(|since| since.elapsed() >= SETTLED), Release);
    }
    /// No flush or compaction has been seen for a while.
    pub(super) fn is_calm(&self) -> bool {
        self.is_calm.load(Acquire)
    }
    /// Shut while `sync` runs.
    pub(super) fn while_syncing<T>(&self, sync: impl FnOnce() -> T) -> T {
        self.state.lock().syncing = true;
        let done = sync();
        self.state.lock().syncing = false;
        done
    }
    /// Passes, if it is open. It stays so until the write has ended.
    pub(super) fn pass(&self) -> Option<Pass<'_>> {
        let now = Instant::now();
        let state = self.state.try_lock()?;
        let is_open = self.is_calm() && !state.syncing && state.shut_until.is_none_or(|until| now >= until);
        is_open.then_some(Pass { state, begun: now })
    }
}

/// A write of a core.
pub(super) struct Pass<'g> {
    state: MutexGuard<'g, GateState>,
    begun: Instant,
}
impl Pass<'_> {
    /// Whether the write was so slow that the gate is now shut for a while.
    pub(super) fn end(mut self) -> bool {
        let took = self.begun.elapsed();
        if took > SLOW {
            self.state.shut_until = Some(self.begun + took + pause(took));
        }
        took > SLOW
    }
}

/// For how long the gate is shut after a write that took so long.
fn pause(took: Duration) -> Duration {
    took.saturating_mul(PAUSE).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_write_shuts_the_gate_for_a_while_and_not_for_ever() {
        let millis = Duration::from_millis;
        assert_eq!([millis(2), millis(3_600_000)].map(pause), [millis(100), LONGEST_PAUSE]);
    }
}
