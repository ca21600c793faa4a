//! How often each command was called: INFO commandstats.
use super::{command::Command, table::COMMANDS};
use crate::telemetry::Counter;

/// Calls by worker and command: a single writer each, read by anyone.
#[derive(Debug)]
pub struct Calls(Vec<Box<[Counter]>>);

impl Calls {
    /// For so many workers.
    pub fn new(workers: usize) -> Calls {
        let of_worker = |_| COMMANDS.iter().map(|_| Counter::default()).collect();
        Calls((0..workers.max(1)).map(of_worker).collect())
    }

    /// Notes so many calls; only from the worker's own thread.
    #[inline]
    pub(super) fn count(&self, worker: usize, command: &Command, calls: u64) {
        self.0[worker][usize::from(command.index)].add(calls);
    }

    /// Every command and how often it was called since the start.
    pub fn sums(&self) -> impl Iterator<Item = (&'static Command, u64)> + '_ {
        COMMANDS.iter().map(|command| {
            let calls = self.0.iter().map(|of| of[usize::from(command.index)].get());
            (command, calls.sum())
        })
    }
}
