//! Users with think time: each connection is a user, who sends the next request a think time after
//! the last reply.
use super::think_time::ThinkTime;
use fastrand::Rng;
use std::{cmp::Reverse, collections::BinaryHeap};

/// When a user sends its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    /// The time at which the user tries to, ns since the start.
    pub(crate) at: u64,
    /// Since when it wants to: earlier, if its connection was down.
    pub(crate) since: u64,
    /// The user's connection.
    pub(crate) user: usize,
}

/// The users of one thread.
pub(crate) struct Users {
    /// Of all users who have no request in flight.
    turns: BinaryHeap<Reverse<Turn>>,
    think: ThinkTime,
    rng: Rng,
}

impl Users {
    /// Users who begin at random times within a mean think time.
    pub(crate) fn new(count: usize, think: ThinkTime, seed: u64) -> Users {
        let mut rng = Rng::with_seed(seed);
        let turns = (0..count).map(|user| {
            let at = think.first(&mut rng);
            Reverse(Turn { at, since: at, user })
        });
        let turns = turns.collect();
        Users { turns, think, rng }
    }

    /// When the next one will send.
    pub(super) fn next(&self) -> Option<u64> {
        self.turns.peek().map(|Reverse(turn)| turn.at)
    }

    /// A turn whose time has come.
    pub(super) fn take(&mut self, now: u64) -> Option<Turn> {
        self.next().filter(|&at| at <= now)?;
        self.turns.pop().map(|Reverse(turn)| turn)
    }

    /// The user cannot send yet: its connection is down.
    pub(super) fn postpone(&mut self, until: u64, since: u64, user: usize) {
        self.turns.push(Reverse(Turn { at: until, since, user }));
    }

    /// The user has its reply, or knows that it will not come, and begins to think.
    pub(super) fn think(&mut self, now: u64, user: usize) {
        let at = now + self.think.sample(&mut self.rng);
        self.turns.push(Reverse(Turn { at, since: at, user }));
    }
}

#[test]
fn a_turn_comes_a_think_time_after_the_reply() {
    let mut users = Users::new(2, "1us-2us".parse().expect("a range"), 1);
    // Both begin within the mean.
    let first = [users.take(1500).expect("one"), users.take(1500).expect("the other")];
    assert!(first[0].at <= first[1].at && first[0].user != first[1].user && users.take(u64::MAX).is_none());
    users.think(100, 7);
    let turn = users.take(2100).expect("its time has come");
    assert!((1100..=2100).contains(&turn.at) && turn.since == turn.at && turn.user == 7, "{turn:?}");
    users.postpone(5000, turn.since, 7);
    assert_eq!((users.next(), users.take(4999)), (Some(5000), None));
    assert_eq!(users.take(5000), Some(Turn { at: 5000, ..turn }));
}
