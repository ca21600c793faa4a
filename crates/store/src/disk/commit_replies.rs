//! The way of the committer's answers back to the cores. To wake another thread is a system call,
//! so a core is woken once for all of its answers in a batch.
use super::change::WriteError;
use parking_lot::Mutex;
use std::{mem, sync::Arc};
use tokio::sync::{Notify, oneshot};

pub(super) type Answer = Result<(), WriteError>;
/// To the task that waits for a change.
pub type Sender = oneshot::Sender<Answer>;

/// Where one core's answers are left for it.
#[derive(Debug, Default)]
pub struct CommitReplies {
    left: Mutex<Vec<(Sender, Answer)>>,
    changed: Notify,
}
impl CommitReplies {
    /// Until answers have come, or [`wake`](CommitReplies::wake).
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
    /// Wakes who waits for that.
    pub fn wake(&self) {
        self.changed.notify_one();
    }
    /// Hands on what is left here.
    pub fn deliver(&self) {
        // Taken before they are sent: the lock is not held while tasks are woken.
        let left = mem::take(&mut *self.left.lock());
        for (sender, answer) in left {
            // The receiver may be gone.
            let _ = sender.send(answer);
        }
    }
}

/// Whom to answer.
pub(super) struct CommitReply {
    pub(super) sender: Sender,
    pub(super) to: Arc<CommitReplies>,
}

/// Leaves all answers, then wakes those that they are for.
pub(super) fn answer(answers: impl IntoIterator<Item = (CommitReply, Answer)>) {
    let mut cores: Vec<Arc<CommitReplies>> = Vec::new();
    for (CommitReply { sender, to }, answer) in answers {
        to.left.lock().push((sender, answer));
        // They are as few as cores.
        if !cores.iter().any(|core| Arc::ptr_eq(core, &to)) {
            cores.push(to);
        }
    }
    cores.iter().for_each(|core| core.wake());
}
