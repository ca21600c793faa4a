//! What the commands of all cores count, and when that began.
use super::{command::Command, table::COMMANDS};
use crate::net::clients::Client;
use larder_engine::Millis;
use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The part of [`App`](crate::app::App) that commands need: counters, start time, identity.
#[derive(Debug)]
pub struct Shared {
    /// Calls by worker and command: single writer each, read by anyone.
    calls: Vec<Box<[AtomicU64]>>,
    errors: AtomicU64,
    /// When the process started.
    pub started: Millis,
    /// 40 hexadecimal digits that no other process has.
    pub run_id: String,
}

impl Shared {
    /// For so many workers, of a process that started at `now`.
    pub fn new(workers: usize, now: Millis) -> Shared {
        let random = || RandomState::new().hash_one(now);
        let calls = || COMMANDS.iter().map(|_| AtomicU64::new(0)).collect();
        Shared {
            calls: (0..workers.max(1)).map(|_| calls()).collect(),
            errors: AtomicU64::new(0),
            started: now,
            run_id: format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32),
        }
    }

    /// Notes that a client on `worker` calls `command`.
    #[inline]
    pub(super) fn count(&self, worker: usize, client: &Client, command: &Command) {
        let calls = &self.calls[worker][usize::from(command.index)];
        // Its worker is the only writer, so this needs no atomic addition (a RESETSTAT in between may be lost).
        calls.store(calls.load(Relaxed).wrapping_add(1), Relaxed);
        client.command.store(command.index, Relaxed);
    }

    /// Notes an error reply; shared by all workers, since errors are rare.
    pub(super) fn count_error(&self) {
        self.errors.fetch_add(1, Relaxed);
    }

    /// Error replies so far.
    pub fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    /// Every command and how often it was called.
    pub fn calls(&self) -> impl Iterator<Item = (&'static Command, u64)> + '_ {
        COMMANDS.iter().map(|command| {
            let calls = self.calls.iter().map(|of| of[usize::from(command.index)].load(Relaxed));
            (command, calls.sum())
        })
    }

    /// CONFIG RESETSTAT.
    pub(super) fn reset(&self) {
        self.calls.iter().flatten().for_each(|calls| calls.store(0, Relaxed));
        self.errors.store(0, Relaxed);
    }
}
