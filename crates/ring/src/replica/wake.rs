//! Wakes the tasks that wait for changes. While none waits, a change costs one relaxed load.
use std::sync::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Relaxed},
};
use tokio::sync::{Notify, futures::Notified};

/// Those who wait for changes.
#[derive(Debug, Default)]
pub(super) struct Wake {
    /// A task waits. Set before the last look at the log, so a change that this look missed sees
    /// it: both lock the change's stripe.
    is_awaited: AtomicBool,
    /// A change was made meanwhile.
    is_due: AtomicBool,
    changed: Notify,
}

impl Wake {
    /// A change was logged, and the stripe's lock is or was held.
    #[inline]
    pub(super) fn note(&self) {
        if self.is_awaited.load(Relaxed) {
            self.is_due.store(true, Relaxed);
        }
    }

    /// The operation holds no lock any more.
    #[inline]
    pub(super) fn wake(&self) {
        if self.is_due.load(Relaxed) && self.is_due.swap(false, AcqRel) {
            self.is_awaited.store(false, Relaxed);
            self.changed.notify_waiters();
        }
    }

    /// Resolves once a change is made that is logged after this call; one that was logged before is
    /// for the caller to see.
    pub(super) fn armed(&self) -> Notified<'_> {
        // Counts from here on, even if it is not polled yet.
        let notified = self.changed.notified();
        self.is_awaited.store(true, Relaxed);
        notified
    }
}
