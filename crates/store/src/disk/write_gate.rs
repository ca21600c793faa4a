//! When a core may write by itself ([`in_place`](super::in_place)): the gate that each caller which holds
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
/// Reads of memory begin again when neither flush nor compaction was seen for this long: a compaction
/// often follows one of them soon.
const SETTLED: Duration = Duration::from_millis(50);
/// A flush or compaction ends with a sync under a lock that each write needs. If one took longer, cores
/// leave the writes during flushes and compactions to the committer for [`WARY`].
const STALL: Duration = Duration::from_millis(10);
const WARY: Duration = Duration::from_secs(600);

/// What flushes and compactions do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Background {
    Idle,
    Running,
    /// Writers have to be slowed, which is the committer's work.
    Behind,
}

/// Whether cores may write. A caller that begins something that holds writers up for as long as the disk
/// takes shuts it first; that waits for a core that is just writing.
pub(super) struct Gate {
    state: Mutex<GateState>,
    is_calm: AtomicBool,
}
struct GateState {
    background: Background,
    /// Since when it is idle.
    calm_since: Option<Instant>,
    /// A sync or a rotation is under way.
    is_held: bool,
    /// After a slow write.
    shut_until: Option<Instant>,
    /// After a stall during a flush or compaction.
    wary_until: Option<Instant>,
}
impl Default for Gate {
    /// Not looked at yet.
    fn default() -> Gate {
        let state = GateState {
            background: Background::Behind,
            calm_since: None,
            is_held: false,
            shut_until: None,
            wary_until: None,
        };
        Gate { state: Mutex::new(state), is_calm: AtomicBool::new(false) }
    }
}

impl Gate {
    /// What flushes and compactions do now, or are about to do.
    pub(super) fn set_background(&self, background: Background) {
        let mut state = self.state.lock();
        state.background = background;
        state.calm_since = match background {
            Background::Idle => state.calm_since.or_else(|| Some(Instant::now())),
            Background::Running | Background::Behind => None,
        };
        self.is_calm.store(state.calm_since.is_some_and(|since| since.elapsed() >= SETTLED), Release);
    }
    /// No flush or compaction has been seen for a while.
    pub(super) fn is_calm(&self) -> bool {
        self.is_calm.load(Acquire)
    }
    /// Shut while `work` runs.
    pub(super) fn while_shut<T>(&self, work: impl FnOnce() -> T) -> T {
        self.state.lock().is_held = true;
        let done = work();
        self.state.lock().is_held = false;
        done
    }
    /// Passes, if it is open. It stays so until the write has ended.
    pub(super) fn pass(&self) -> Option<Pass<'_>> {
        let now = Instant::now();
        let state = self.state.try_lock()?;
        state.is_open(now).then_some(Pass { state, begun: now })
    }
}
impl GateState {
    fn is_open(&self, now: Instant) -> bool {
        let is_over = |until: Option<Instant>| until.is_none_or(|until| now >= until);
        let is_free = match self.background {
            Background::Idle => true,
            Background::Running => is_over(self.wary_until),
            Background::Behind => false,
        };
        is_free && !self.is_held && is_over(self.shut_until)
    }
    /// A write of a core took so long. Whether that was slow.
    fn note(&mut self, begun: Instant, took: Duration) -> bool {
        let is_slow = took > SLOW;
        if is_slow {
            self.shut_until = Some(begun + took + pause(took));
        }
        if took > STALL && self.background == Background::Running {
            self.wary_until = Some(begun + took + WARY);
        }
        is_slow
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
        let begun = self.begun;
        self.state.note(begun, begun.elapsed())
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

    #[test]
    fn a_stall_during_a_flush_shuts_the_gate_during_flushes() {
        let gate = Gate::default();
        let opens = |after: Duration| gate.state.lock().is_open(Instant::now() + after);
        let moment = Duration::from_secs(1);
        assert!(!opens(moment), "nobody has looked");
        for (background, is_open) in
            [(Background::Behind, false), (Background::Running, true), (Background::Idle, true)]
        {
            gate.set_background(background);
            assert_eq!(opens(moment), is_open, "{background:?}");
            assert!(gate.while_shut(|| !opens(moment)));
        }
        let note = |took| gate.state.lock().note(Instant::now(), took);
        let (slow, stall) = (2 * SLOW, 2 * STALL);
        assert!(note(stall) && !opens(Duration::ZERO) && opens(stall * (PAUSE + 2)));
        gate.set_background(Background::Running);
        assert!(opens(moment + stall * PAUSE), "it was no flush that held it up");
        assert!(note(slow) && opens(moment) && !note(SLOW));
        assert!(note(stall) && !opens(WARY) && opens(WARY + moment));
        gate.set_background(Background::Idle);
        assert!(opens(moment + stall * PAUSE));
    }
}
