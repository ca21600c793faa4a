//! CLIENT PAUSE: commands of all clients wait, or only those that write, until a moment or CLIENT
//! UNPAUSE.
//!
//! A connection looks at it once for each batch of commands that it has read: what a core is
//! working through when the pause is asked for is still carried out.
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
    /// All.
    All,
}

/// The pause of the process, if there is one.
#[derive(Debug)]
pub struct Pause {
    /// 0: there is none.
    until: AtomicU64,
    what: Mutex<Paused>,
    changed: watch::Sender<()>,
}
impl Default for Pause {
    fn default() -> Self {
        Pause { until: AtomicU64::new(0), what: Mutex::new(Paused::Writes), changed: watch::Sender::new(()) }
    }
}

impl Pause {
    /// Begins, or goes on: the longer and the stricter of both.
    pub fn begin(&self, until: Millis, what: Paused) {
        let mut now = self.what.lock();
        *now = if self.until.load(Relaxed) == 0 { what } else { what.max(*now) };
        self.until.fetch_max(until, Relaxed);
    }
    /// Ends, for all that wait.
    pub fn end(&self) {
        let _settled = self.what.lock();
        self.until.store(0, Relaxed);
        self.changed.send_replace(());
    }
    /// What waits now. One shared read where nothing does.
    #[inline]
    pub fn paused(&self, now: Millis) -> Option<Paused> {
        match self.until.load(Relaxed) {
            0 => None,
            until => self.paused_until(until, now),
        }
    }
    #[cold]
    fn paused_until(&self, until: Millis, now: Millis) -> Option<Paused> {
        let what = self.what.lock();
        if until > now {
            return Some(*what);
        }
        // Over by itself. Another client may have begun another pause meanwhile.
        let _ = self.until.compare_exchange(until, 0, Relaxed, Relaxed);
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
