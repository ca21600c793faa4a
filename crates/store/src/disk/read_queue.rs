//! What waits for the threads that read.
use super::tree::Tree;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// What a reader is to do; it answers by itself.
pub type Work = Box<dyn FnOnce(&Tree) + Send>;

/// First come, first served. Its length is bounded by who pushes (`source-max-in-flight`).
#[derive(Default)]
pub(super) struct ReadQueue {
    state: Mutex<State>,
    changed: Condvar,
}
#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    stopped: bool,
}

impl ReadQueue {
    pub(super) fn push(&self, work: impl IntoIterator<Item = Work>) {
        self.state.lock().work.extend(work);
        self.changed.notify_one();
    }
    /// What waits is still done.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
    /// `None`: stopped. Who leaves work behind wakes another, so that a core that brings much wakes
    /// only one.
    pub(super) fn pop(&self) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            match state.work.pop_front() {
                Some(work) => {
                    if !state.work.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(work);
                }
                None if state.stopped => return None,
                None => self.changed.wait(&mut state),
            }
        }
    }
}
