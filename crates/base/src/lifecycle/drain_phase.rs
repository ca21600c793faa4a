//! Shutdown as a value: one phase that only moves forward, and a future for those who wait for it.
use larder_engine::Millis;
use larder_store::clock;
use std::{sync::OnceLock, time::Duration};
use tokio::sync::watch;

/// How far the process is on its way out. Only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Normal operation.
    Serving,
    /// No new connections; what was started is finished, idle connections close at once, but for
    /// those that are told to move.
    Draining,
    /// These close, too.
    Closing,
    /// The grace time is over: drop what is left.
    Aborting,
}

/// The process's phase, shared by every core.
#[derive(Debug)]
pub struct Drain {
    phase: watch::Sender<Phase>,
    moving: OnceLock<Moving>,
}

/// What clients are told that have asked to be told of maintenance.
#[derive(Debug, Clone, Copy)]
pub struct Moving {
    /// When the drain began: the same for all clients, and another one at the next Larder that they
    /// move to.
    pub sequence: Millis,
    /// When they must be gone.
    pub until: Millis,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { phase: watch::Sender::new(Phase::Serving), moving: OnceLock::new() }
    }
}

impl Drain {
    /// The phase now (a shared atomic: not for the hit path).
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Has the drain begun? `/readyz` answers 503 from then on.
    pub fn begun(&self) -> bool {
        self.phase() >= Phase::Draining
    }

    /// Resolves once `phase` (or a later one) is reached; at once if it already is.
    pub async fn reached(&self, phase: Phase) {
        let mut watch = self.phase.subscribe();
        // The sender lives in `self`, so the wait cannot fail while we borrow it.
        let _ = watch.wait_for(|now| *now >= phase).await;
    }

    /// Begins: clients that want to be told to move have `time` to do so.
    pub fn begin(&self, time: Duration) {
        let now = clock::now();
        // Only the first begin counts.
        let _ = self.moving.set(Moving { sequence: now, until: now + time.as_millis() as Millis });
        self.advance(Phase::Draining);
    }

    /// Once it has begun.
    pub fn moving(&self) -> Option<Moving> {
        self.moving.get().copied()
    }

    /// Moves forward to `phase`; never back.
    pub fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let forward = phase > *now;
            *now = phase.max(*now);
            forward
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_never_goes_back() {
        let drain = Drain::default();
        assert!(!drain.begun());
        drain.advance(Phase::Aborting);
        drain.advance(Phase::Draining);
        assert_eq!(drain.phase(), Phase::Aborting);
    }

    #[tokio::test]
    async fn waiting_for_a_phase_already_passed_returns_at_once() {
        let drain = Drain::default();
        drain.advance(Phase::Aborting);
        drain.reached(Phase::Draining).await;
    }
}
