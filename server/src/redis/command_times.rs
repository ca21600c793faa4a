//! Times a client's commands.
//!
//! Commands of one turn follow each other without a pause, so one reading of the clock ends a
//! command and begins the next. A run of plain GETs takes one reading for all.
use super::{
    command::{Command, CommandKind},
    command_lookup::{FoundCommand, GET, find_for},
    slow_commands::{note_recorded, shown_args},
};
use crate::{app::Worker, clients::Client, telemetry::recorded_args};
use larder_proto::resp::Args;
use std::time::{Duration, Instant};

/// Which command of a client runs, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandTimes {
    since: Instant,
    /// Its row in [`CommandStats`](crate::telemetry::CommandStats); `None`: no command has begun.
    row: Option<u16>,
}

/// A command whose reply is still to come.
#[derive(Debug)]
pub(super) struct TimedCommand {
    row: u16,
    since: Instant,
    /// For the slow log, if there is one.
    args: Option<Box<[u8]>>,
}

/// A command took long: its row, and how long.
pub(super) type Slow = (u16, Duration);

impl CommandTimes {
    pub(super) fn new() -> CommandTimes {
        CommandTimes { since: Instant::now(), row: None }
    }
    /// The next command begins now.
    #[inline]
    pub(super) fn start(&mut self) {
        self.since = Instant::now();
        self.row = None;
    }
    /// Leaves out what the command has taken so far.
    pub(super) fn restart(&mut self) {
        self.since = Instant::now();
    }
    /// The next command begins when the one before it ended.
    #[inline]
    pub(super) fn next(&mut self) {
        self.row = None;
    }
    /// It is the command in this row.
    #[inline]
    pub(super) fn set_row(&mut self, row: u16) {
        self.row = Some(row);
    }
    /// The command is answered. If it took long, the caller notes it
    /// ([`slow_commands`](super::slow_commands)).
    #[inline]
    #[must_use]
    pub(super) fn end(&mut self, worker: &Worker) -> Option<Slow> {
        let row = self.row.take()?;
        self.end_run(worker, row, 1)
    }
    /// So many commands of the same row are answered. The result is about each of them.
    #[inline]
    #[must_use]
    pub(super) fn end_run(&mut self, worker: &Worker, row: u16, commands: u64) -> Option<Slow> {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.since);
        self.since = now;
        if commands == 0 {
            return None;
        }
        worker.app.commands.took(worker.id, row, commands, took);
        worker.app.telemetry.slow.is_slow(took).then(|| (row, took / commands as u32))
    }
    /// The command is answered later.
    pub(super) fn later(&self, worker: &Worker, args: Args<'_>) -> Option<TimedCommand> {
        let row = self.row?;
        let args = worker.app.telemetry.slow.is_on().then(|| shown_args(row, args));
        Some(TimedCommand { row, since: self.since, args })
    }
    /// The same for a GET of this key.
    pub(super) fn get_later(&self, worker: &Worker, key: &[u8]) -> TimedCommand {
        let args = || recorded_args([&b"GET"[..], key].into_iter());
        let args = worker.app.telemetry.slow.is_on().then(args);
        TimedCommand { row: GET.index, since: self.since, args }
    }
    /// The row of the command that runs.
    pub(super) fn row(&self) -> Option<u16> {
        self.row
    }
}

impl TimedCommand {
    /// It is answered now, with an error or without.
    pub(super) fn end(self, worker: &Worker, client: &Client, now: Instant, is_error: bool) {
        let took = now.saturating_duration_since(self.since);
        worker.app.commands.took(worker.id, self.row, 1, took);
        if is_error {
            worker.app.commands.failed(worker.id, self.row);
        }
        if let Some(args) = self.args.filter(|_| worker.app.telemetry.slow.is_slow(took)) {
            note_recorded(worker, client, self.row, took, args);
        }
    }
    /// Bytes of memory that it occupies besides itself.
    pub(super) fn owned(&self) -> usize {
        self.args.as_ref().map_or(0, |args| args.len())
    }
    /// Its row.
    pub(super) fn row(&self) -> u16 {
        self.row
    }
}

/// The row in which a command is counted. A forwarded command is counted under its own name.
#[inline]
pub(super) fn row_of(worker: &Worker, command: &Command, args: Args<'_>) -> u16 {
    match command.kind {
        CommandKind::Forward => row_of_forwarded(worker, args),
        _ => command.index,
    }
}

fn row_of_forwarded(worker: &Worker, args: Args<'_>) -> u16 {
    match find_for(args) {
        FoundCommand::Command(command) | FoundCommand::UnknownSub(command) => command.index,
        FoundCommand::Unknown => worker.app.commands.row(args.get(0).unwrap_or_default()),
    }
}
