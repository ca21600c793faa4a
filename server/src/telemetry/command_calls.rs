//! How often each Redis command was called: INFO commandstats.
use super::thread_counter::Counter;

/// Calls by worker and by row of the command table: a single writer each, read by anyone.
#[derive(Debug)]
pub struct CommandCalls(Vec<Box<[Counter]>>);

impl CommandCalls {
    /// For so many workers and commands.
    pub fn new(workers: usize, commands: usize) -> CommandCalls {
        let of_worker = |_| (0..commands).map(|_| Counter::default()).collect();
        CommandCalls((0..workers.max(1)).map(of_worker).collect())
    }

    /// Notes so many calls of the command in row `index`; only from the worker's own thread.
    #[inline]
    pub fn count(&self, worker: usize, index: u16, calls: u64) {
        self.0[worker][usize::from(index)].add(calls);
    }

    /// How often the command in row `index` was called since the start.
    pub fn sum(&self, index: u16) -> u64 {
        self.0.iter().map(|of| of[usize::from(index)].get()).sum()
    }
}
