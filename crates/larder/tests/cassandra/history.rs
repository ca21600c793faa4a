//! A checker of histories: is there an order of all operations on a key in which each has its
//! result, and which keeps the order of those that did not overlap (linearizability)?
use std::collections::HashSet;

/// What a client asked, and what it learned. The value of an absent key is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Read(i64),
    Set(i64),
    /// INCR, and its reply if there was one.
    Increment(Option<i64>),
    /// WATCH and EXEC: from the value that was read to this one.
    CompareAndSet(i64, i64),
}

/// An operation on one key. Times count events, not seconds.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub action: Action,
    pub begun: u64,
    /// `None`: the outcome is unknown. It may come later than anything, or never.
    pub ended: Option<u64>,
}

impl Action {
    /// The value afterwards; `None`: it cannot have this result now.
    fn on(self, value: i64) -> Option<i64> {
        match self {
            Action::Read(found) => (found == value).then_some(value),
            Action::Set(to) => Some(to),
            Action::Increment(reply) => reply.is_none_or(|reply| reply == value + 1).then_some(value + 1),
            Action::CompareAndSet(from, to) => (from == value).then_some(to),
        }
    }
}

/// Whether there is such an order. The search of Wing and Gong, which remembers where it has been.
pub fn is_linearizable(history: &[Operation]) -> bool {
    let mut seen = HashSet::new();
    let mut open = vec![(vec![false; history.len()], 0_i64)];
    while let Some((done, value)) = open.pop() {
        let left = || history.iter().enumerate().filter(|(at, _)| !done[*at]);
        // Nothing may come before an operation that ended before it began.
        let Some(first_end) = left().filter_map(|(_, operation)| operation.ended).min() else { return true };
        let next = left().filter(|(_, operation)| operation.begun < first_end);
        // Of equal operations with an unknown outcome, the one that began first may stand for each.
        let next = next.filter(|(_, operation)| {
            operation.ended.is_some()
                || !left().any(|(_, other)| {
                    other.ended.is_none() && other.action == operation.action && other.begun < operation.begun
                })
        });
        let possible = next.filter_map(|(at, operation)| Some((at, operation.action, operation.action.on(value)?)));
        let mut possible: Vec<_> = possible.collect();
        // A read that fits now stands in the way of no other action.
        if let Some(read) = possible.iter().find(|(_, action, _)| matches!(action, Action::Read(_))) {
            possible = vec![*read];
        }
        for (at, _, value) in possible {
            let mut done = done.clone();
            done[at] = true;
            if seen.insert((done.clone(), value)) {
                open.push((done, value));
            }
        }
    }
    false
}

#[test]
fn histories_that_no_order_explains_are_found() {
    use Action::{CompareAndSet, Increment, Read, Set};
    let history = |operations: &[(Action, u64, Option<u64>)]| {
        let operation = |(action, begun, ended): &(Action, u64, Option<u64>)| Operation {
            action: *action,
            begun: *begun,
            ended: *ended,
        };
        is_linearizable(&operations.iter().map(operation).collect::<Vec<_>>())
    };
    for (what, expected, operations) in [
        ("one after the other", true, &[(Increment(Some(1)), 0, Some(1)), (Increment(Some(2)), 2, Some(3))][..]),
        (
            "overlapping, in the other order",
            true,
            &[(Increment(Some(2)), 0, Some(3)), (Increment(Some(1)), 1, Some(2))],
        ),
        (
            "not overlapping, in the other order",
            false,
            &[(Increment(Some(2)), 0, Some(1)), (Increment(Some(1)), 2, Some(3))],
        ),
        ("an increment that was lost", false, &[(Increment(Some(1)), 0, Some(2)), (Increment(Some(1)), 1, Some(3))]),
        ("an increment that counted twice", false, &[(Increment(Some(1)), 0, Some(1)), (Read(2), 2, Some(3))]),
        ("an unknown increment that counted", true, &[(Increment(None), 0, None), (Read(1), 2, Some(3))]),
        ("an unknown increment that did not", true, &[(Increment(None), 0, None), (Read(0), 2, Some(3))]),
        ("one that counted twice", false, &[(Increment(None), 0, None), (Read(2), 2, Some(3))]),
        (
            "one that counted after a read",
            true,
            &[(Increment(None), 0, None), (Read(0), 2, Some(3)), (Read(1), 4, Some(5))],
        ),
        ("a read that goes back", false, &[(Increment(None), 0, None), (Read(1), 2, Some(3)), (Read(0), 4, Some(5))]),
        ("a set that was lost", false, &[(Set(1), 0, Some(1)), (Set(2), 2, Some(3)), (Read(1), 4, Some(5))]),
        (
            "an old set that comes late",
            false,
            &[
                (Set(1), 0, None),
                (Set(2), 2, Some(3)),
                (Read(2), 4, Some(5)),
                (Read(1), 6, Some(7)),
                (Read(2), 8, Some(9)),
            ],
        ),
        (
            "two changes from one value",
            false,
            &[(CompareAndSet(0, 10), 0, Some(2)), (CompareAndSet(0, 20), 1, Some(3))],
        ),
        (
            "one after the other's",
            true,
            &[(CompareAndSet(10, 20), 0, Some(2)), (CompareAndSet(0, 10), 1, Some(3)), (Read(20), 4, Some(5))],
        ),
    ] {
        assert_eq!(history(operations), expected, "{what}");
    }
    // As many as while a node is cut off: all subsets of them would take forever.
    let mut many: Vec<_> = (0..40).map(|begun| (Increment(None), begun, None)).collect();
    many.extend([(Read(17), 40, Some(41)), (Read(40), 42, Some(43))]);
    assert!(history(&many));
    many.push((Read(41), 44, Some(45)));
    assert!(!history(&many), "more than there were");
}
