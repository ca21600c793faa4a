//! A signal that ends a thread, also while it waits for its next turn.
use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Ends a thread that looks from time to time.
#[derive(Default)]
pub(super) struct StopSignal {
    stopped: Mutex<bool>,
    changed: Condvar,
}
impl StopSignal {
    pub(super) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }
    /// Waits for at most this long; true when stopped.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.changed.wait_for(&mut stopped, time);
        }
        *stopped
    }
}
