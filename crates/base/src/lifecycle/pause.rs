//! CLIENT PAUSE: commands of all clients wait, or only those that write, until a moment or CLIENT
//! UNPAUSE.
use crate::special::Switch;
use larder_engine::Millis;
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::sync::watch;

/// Which commands wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Those that write, or may.
    Writes,
    All,
}

/// The pause of the process, if there is one.
#[derive(Debug)]
pub struct Pause {
    /// On while there is one.
    is_on: Switch,
    /// 0: there is none.
    until: AtomicU64,
    what: Mutex<Paused>,
    changed: watch::Sender<()>,
}
impl Pause {
    /// There is none. The switch is on while there is one.
    pub fn new(is_on: Switch) -> Pause {
        let (until, what, changed) = (AtomicU64::new(0), Mutex::new(Paused::Writes), watch::Sender::new(()));
        Pause { is_on, until, what, changed }
    }
    /// Begins, or goes on: the longer and the stricter of both.
    pub fn begin(&self, until: Millis, what: Paused) {
        let mut now = self.what.lock();
        *now = if self.until.load(Relaxed) == 0 { what } else { what.max(*now) };
        self.until.fetch_max(until, Relaxed);
        self.is_on.set(true);
    }
    /// Ends, for all that wait.
    pub fn end(&self) {
        let _settled = self.what.lock();
        self.until.store(0, Relaxed);
        self.is_on.set(false);
        self.changed.send_replace(());
    }
    /// What waits now.
    pub fn paused(&self, now: Millis) -> Option<Paused> {
        let what = self.what.lock();
        if self.until.load(Relaxed) > now {
            return Some(*what);
        }
        // Over by itself.
        self.until.store(0, Relaxed);
        self.is_on.set(false);
        None
    }
    /// Resolves when nothing waits any more.
    pub async fn over(&self) {
        let mut changed = self.changed.subscribe();
        loop {
            let left = self.until.load(Relaxed).saturating_sub(clock::now());
            if left == 0 {
                return;
            }
            tokio::select! {
                // The sender lives in `self`.
                _ = changed.changed() => {}
                () = tokio::time::sleep(Duration::from_millis(left)) => {}
            }
        }
    }
}
