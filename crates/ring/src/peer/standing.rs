//! Whether this node answers for its keys: not before it has taken them over, and not once it has
//! handed them over.
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::sync::watch;

/// How far this node is in the life of a member. Only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It takes over what others held for it; its peers go on to ask those.
    Joining,
    /// It answers for its keys.
    Serving,
    /// It answers for its keys, while others copy them.
    Leaving,
    /// The others have its keys.
    Left,
}

/// The standing of this node, shared by all cores.
#[derive(Debug)]
pub(super) struct StandingWatch {
    /// Read for each request of a peer.
    answers: AtomicBool,
    now: watch::Sender<Standing>,
}

impl StandingWatch {
    pub(super) fn new() -> StandingWatch {
        StandingWatch { answers: AtomicBool::new(false), now: watch::Sender::new(Standing::Joining) }
    }
    /// Whether it answers what other nodes read.
    pub(super) fn answers(&self) -> bool {
        self.answers.load(Relaxed)
    }
    pub(super) fn now(&self) -> Standing {
        *self.now.borrow()
    }
    /// Moves forward; never back.
    pub(super) fn advance(&self, to: Standing) {
        self.now.send_if_modified(|now| {
            let forward = to > *now;
            *now = to.max(*now);
            self.answers.store(matches!(*now, Standing::Serving | Standing::Leaving), Relaxed);
            forward
        });
    }
    /// Resolves once `standing` (or a later one) is reached.
    pub(super) async fn reached(&self, standing: Standing) {
        // The sender lives in `self`, so the wait cannot fail.
        let _ = self.now.subscribe().wait_for(|now| *now >= standing).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_answers_while_it_serves_and_hands_over() {
        let standing = StandingWatch::new();
        let mut answered = vec![standing.answers()];
        for to in [Standing::Serving, Standing::Joining, Standing::Leaving, Standing::Left, Standing::Serving] {
            standing.advance(to);
            answered.push(standing.answers());
        }
        assert_eq!(answered, [false, true, true, true, false, false]);
        assert_eq!(standing.now(), Standing::Left, "it never goes back");
    }
}
