//! Handshakes take turns, so that a crowd of newcomers does not keep those who are connected
//! waiting.
//!
//! A step of a handshake may take a worker hundreds of times as long as a hit (a signature). The
//! runtime runs whatever is ready, in order: of a thousand clients that connect at once, all steps
//! would come before the next hit. So each handshake asks for each of its steps, and only so many
//! have one before the runtime has looked for other events.
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    task::{Context, Waker},
};

/// Steps before other connections have their turn.
const STEPS: usize = 1;

#[derive(Debug, Default)]
pub struct HandshakeTurns {
    /// Steps that were given since the runtime looked for other events.
    given: Cell<usize>,
    /// First come, first served.
    waiting: RefCell<VecDeque<(Waker, Rc<Cell<TurnState>>)>>,
    is_giving: Cell<bool>,
}

/// One handshake's place among the others.
#[derive(Debug, Default)]
pub(super) struct Turn(Rc<Cell<TurnState>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum TurnState {
    #[default]
    Idle,
    Waiting,
    Given,
}

impl HandshakeTurns {
    /// Whether the calling task may take a step now. If not, it is woken when it may.
    pub(super) fn take(self: &Rc<Self>, turn: &Turn, cx: &Context<'_>) -> bool {
        match turn.0.get() {
            TurnState::Given => turn.0.set(TurnState::Idle),
            TurnState::Waiting => return false,
            TurnState::Idle => {
                let mut waiting = self.waiting.borrow_mut();
                if self.given.get() >= STEPS || !waiting.is_empty() {
                    turn.0.set(TurnState::Waiting);
                    waiting.push_back((cx.waker().clone(), turn.0.clone()));
                    return false;
                }
                self.given.set(self.given.get() + 1);
            }
        }
        if !self.is_giving.replace(true) {
            tokio::task::spawn_local(self.clone().give_turns());
        }
        true
    }

    /// Gives turns as long as anybody waits for them.
    async fn give_turns(self: Rc<Self>) {
        loop {
            // A task that yields runs again after the runtime has looked for events.
            tokio::task::yield_now().await;
            let mut waiting = self.waiting.borrow_mut();
            let next = STEPS.min(waiting.len());
            self.given.set(next);
            if next == 0 {
                self.is_giving.set(false);
                return;
            }
            for (waker, state) in waiting.drain(..next) {
                state.set(TurnState::Given);
                waker.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{future::poll_fn, task::Poll};
    use tokio::runtime::{Builder, LocalOptions};

    #[test]
    fn others_run_between_two_steps_and_the_first_comes_first() {
        let runtime = Builder::new_current_thread().build_local(LocalOptions::default()).expect("a runtime");
        let log = Rc::new(RefCell::new(String::new()));
        runtime.block_on(async {
            let turns = Rc::new(HandshakeTurns::default());
            let step = |name: char| {
                let (turns, log) = (turns.clone(), log.clone());
                tokio::task::spawn_local(async move {
                    let turn = Turn::default();
                    for _ in 0..2 {
                        poll_fn(|cx| if turns.take(&turn, cx) { Poll::Ready(()) } else { Poll::Pending }).await;
                        log.borrow_mut().push(name);
                    }
                })
            };
            let handshakes = ['a', 'b', 'c'].map(step);
            // Stands for a connection that has something to do after each look for events.
            let other = tokio::task::spawn_local({
                let log = log.clone();
                async move {
                    for _ in 0..12 {
                        tokio::task::yield_now().await;
                        log.borrow_mut().push('.');
                    }
                }
            });
            for task in handshakes.into_iter().chain([other]) {
                task.await.expect("no panic");
            }
        });
        let log = log.borrow().clone();
        let steps: String = log.chars().filter(|step| *step != '.').collect();
        // `a` asks for its second step before the others ask at all.
        assert_eq!(steps, "aabcbc", "{log}");
        assert!(log.split('.').all(|between| between.len() <= STEPS), "{log}");
    }
}
