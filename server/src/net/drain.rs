//! Shutdown as a value: one phase that only moves forward, and a future for those who wait for it.
use tokio::sync::watch;

/// How far the process is on its way out. Only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Normal operation.
    Serving,
    /// No new connections; what was started is finished, idle connections close at once.
    Draining,
    /// The grace time is over: drop what is left.
    Aborting,
}

/// The process's phase, shared by every core.
#[derive(Debug)]
pub struct Drain {
    phase: watch::Sender<Phase>,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { phase: watch::Sender::new(Phase::Serving) }
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

    /// Moves forward to `phase`; never back.
    pub(crate) fn advance(&self, phase: Phase) {
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
