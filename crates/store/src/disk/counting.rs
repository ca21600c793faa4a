//! Counts the entries, which reads them all: one count at a time, on a thread for this alone, so
//! that the readers stay free for others.
//!
//! All callers that wait when a count begins share it. Later callers wait for the next one, because
//! this one may lack their writes.
use super::tree::Tree;
use parking_lot::Mutex;
use std::{mem, sync::Arc};
use tokio::sync::oneshot;

type Answer = Result<u64, String>;

/// Those who wait for the next count.
#[derive(Default, Clone)]
pub(super) struct Waiting(Arc<Mutex<Vec<oneshot::Sender<Answer>>>>);

impl Waiting {
    /// Joins them; call [`count`](Waiting::count) after this.
    pub(super) fn join(&self) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        self.0.lock().push(reply);
        answer
    }
    /// Counts for those who wait now; not if there are none, and no longer than one of them does.
    pub(super) fn count(&self, tree: &Tree) {
        let waiting = mem::take(&mut *self.0.lock());
        let counted = tree.count_while(|| !waiting.iter().all(oneshot::Sender::is_closed));
        for reply in waiting {
            let _ = reply.send(counted.clone());
        }
    }
}
