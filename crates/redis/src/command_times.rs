//! Times a client's commands.
//!
//! Commands of one turn follow each other without a pause, so one reading of the clock ends a
//! command and begins the next. A run of plain GETs, and a run of short commands of one name, takes
//! one reading for all: a reading takes as long as a tenth of a SET.
use super::{
    command::{Command, CommandKind, Flags},
    command_lookup::{FoundCommand, GET, SET, find_for},
    command_spans::{self, EndedCommands},
    slow_commands::{note_recorded, show_args, shown_args},
};
use larder_base::special::Special;
use larder_base::telemetry::recorded_args;
use larder_core::{app::Worker, clients::Client};
use larder_proto::resp::Args;
use std::time::{Duration, Instant};

/// The longest run of short commands.
const LONGEST_RUN: u32 = 16;
/// A command with more arguments is not short.
const FEW_ARGS: usize = 8;

/// Which command of a client runs, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommandTimes {
    /// When it began, or the run before it.
    since: Instant,
    /// The commands that have ended since then: their row, and how many.
    run: (u16, u32),
    /// Its row in [`CommandStats`](larder_base::telemetry::CommandStats); `None`: no command has begun.
    row: Option<u16>,
    is_short: bool,
}

/// A command whose reply is still to come.
#[derive(Debug)]
pub(super) struct TimedCommand {
    row: u16,
    since: Instant,
    /// For the slow log, if there is one and the arguments are kept nowhere else.
    args: Option<Box<[u8]>>,
}

/// A command took long: its row, and how long.
pub(super) type Slow = (u16, Duration);

impl CommandTimes {
    pub(super) fn new() -> CommandTimes {
        CommandTimes { since: Instant::now(), run: (0, 0), row: None, is_short: false }
    }
    /// The next command begins now.
    #[inline]
    pub(super) fn start(&mut self) {
        *self = CommandTimes::new();
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
    /// It is this command, in this row.
    #[inline]
    pub(super) fn found(&mut self, worker: &Worker, client: &Client, row: u16, command: &Command, args: Args<'_>) {
        if self.run.0 != row {
            self.end_short(worker, client);
        }
        self.row = Some(row);
        let is_quick = command.flags.has(Flags::FAST) || command.flags.has(Flags::OVERWRITES);
        self.is_short = is_quick && args.len() <= FEW_ARGS;
    }
    /// It is one that began before, in this row.
    pub(super) fn found_before(&mut self, row: u16) {
        self.row = Some(row);
    }
    /// The command is answered. If it took long, the caller notes it
    /// ([`slow_commands`](super::slow_commands)).
    #[inline]
    #[must_use]
    pub(super) fn end(&mut self, worker: &Worker, client: &Client) -> Option<Slow> {
        let row = self.row.take()?;
        let commands = self.run.1 + 1;
        if self.is_short && commands < LONGEST_RUN && !worker.is_on(Special::SlowLog) {
            self.run = (row, commands);
            return None;
        }
        self.end_run(worker, client, row, commands)
    }
    /// Ends a run of short commands. Something else follows.
    #[inline]
    pub(super) fn end_short(&mut self, worker: &Worker, client: &Client) {
        let (row, commands) = self.run;
        if commands > 0
            && let Some((row, each)) = self.end_run(worker, client, row, commands)
        {
            note_run(worker, client, row, each, commands);
        }
    }
    /// So many commands of the same row are answered. The result is about each of them.
    #[inline]
    #[must_use]
    fn end_run(&mut self, worker: &Worker, client: &Client, row: u16, commands: u32) -> Option<Slow> {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.since);
        self.since = now;
        self.run.1 = 0;
        worker.app.commands.took(worker.id, row, commands.into(), took);
        let each = took / commands;
        if worker.app.telemetry.tracer.is_on() {
            let ended = EndedCommands { row, commands, ended: now, took, has_failed: false };
            command_spans::keep(worker, client, ended);
        }
        worker.app.telemetry.slow.is_slow(each).then_some((row, each))
    }
    /// So many plain GETs are answered.
    #[inline]
    #[must_use]
    pub(super) fn end_gets(&mut self, worker: &Worker, client: &Client, gets: u32) -> Option<Duration> {
        match gets {
            0 => None,
            _ => self.end_run(worker, client, GET.index, gets).map(|(_, each)| each),
        }
    }
    /// So many plain SETs are answered.
    #[inline]
    pub(super) fn end_sets(&mut self, worker: &Worker, client: &Client, sets: u32) {
        self.run = (SET.index, sets);
        self.end_short(worker, client);
    }
    /// The command is answered later.
    pub(super) fn later(&self, worker: &Worker, args: Args<'_>) -> Option<TimedCommand> {
        let row = self.row?;
        let args = worker.app.telemetry.slow.is_on().then(|| shown_args(row, args));
        Some(TimedCommand { row, since: self.since, args })
    }
    /// Like `later`, for a GET, whose flight has the key.
    pub(super) fn get_later(&self) -> TimedCommand {
        TimedCommand { row: GET.index, since: self.since, args: None }
    }
    /// As [`later`](CommandTimes::later), with the arguments at the end of `shown`.
    pub(super) fn later_shown(&self, worker: &Worker, args: Args<'_>, shown: &mut Vec<u8>) -> Option<TimedCommand> {
        let row = self.row?;
        if worker.app.telemetry.slow.is_on() {
            show_args(shown, row, args);
        }
        Some(TimedCommand { row, since: self.since, args: None })
    }
    /// The row of the command that runs.
    pub(super) fn row(&self) -> Option<u16> {
        self.row
    }
}

/// Notes a run whose commands took so long each. Their arguments are not kept.
#[cold]
fn note_run(worker: &Worker, client: &Client, row: u16, each: Duration, commands: u32) {
    let name = worker.app.commands.name(row).to_ascii_uppercase();
    let args = match commands {
        1 => "(arguments not kept)".to_owned(),
        _ => format!("(one of {commands} in a pipeline)"),
    };
    note_recorded(worker, client, row, each, recorded_args([name.as_bytes(), args.as_bytes()].into_iter()));
}

impl TimedCommand {
    /// It is answered now. If it is a GET that took long and whose arguments are not kept, it is of
    /// this key.
    pub(super) fn ends_get(&mut self, worker: &Worker, key: &[u8], now: Instant) {
        let slow = &worker.app.telemetry.slow;
        if self.args.is_none()
            && self.row == GET.index
            && slow.is_on()
            && slow.is_slow(now.saturating_duration_since(self.since))
        {
            self.args = Some(recorded_args([&b"GET"[..], key].into_iter()));
        }
    }
    /// It is answered now. These are its arguments, if there is a slow log.
    pub(super) fn end_shown(mut self, worker: &Worker, client: &Client, now: Instant, shown: &[u8], is_error: bool) {
        if !shown.is_empty() && worker.app.telemetry.slow.is_slow(now.saturating_duration_since(self.since)) {
            self.args = Some(shown.into());
        }
        self.end(worker, client, now, is_error);
    }
    /// It is answered now, with an error or without.
    pub(super) fn end(self, worker: &Worker, client: &Client, now: Instant, is_error: bool) {
        let took = now.saturating_duration_since(self.since);
        worker.app.commands.took(worker.id, self.row, 1, took);
        if is_error {
            worker.app.commands.failed(worker.id, self.row);
        }
        if worker.app.telemetry.tracer.is_on() {
            let ended = EndedCommands { row: self.row, commands: 1, ended: now, took, has_failed: is_error };
            command_spans::keep(worker, client, ended);
        }
        if let Some(args) = self.args.filter(|_| worker.app.telemetry.slow.is_slow(took)) {
            note_recorded(worker, client, self.row, took, args);
        }
    }
    /// Bytes of memory that it occupies besides itself.
    pub(super) fn owned(&self) -> usize {
        self.args.as_ref().map_or(0, |args| args.len())
    }
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
