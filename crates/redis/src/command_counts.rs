//! Counts commands, and notes their operations for the recorder.
use super::{
    command::{Command, CommandKind, Flags},
    command_times::row_of,
    session::Session,
};
use larder_base::{special::Special, telemetry::RecordedOperation};
use larder_core::{app::Worker, gate};
use larder_proto::resp::Args;
use larder_store::clock;
use std::sync::atomic::Ordering::Relaxed;

/// Counts a command that runs.
#[inline]
pub(super) fn count(worker: &Worker, session: &mut Session, command: &Command, args: Args<'_>) {
    // A queued command is noted when it runs.
    if worker.is_on(Special::Recorder) && session.multi.is_none() {
        note(worker, command, args);
    }
    if command.keys.first > 0 && session.multi.is_none() {
        count_keys(worker, command, args);
    }
    let row = row_of(worker, command, args);
    session.times.found(worker, &session.client, row, command, args);
    worker.app.commands.called(worker.id, row, 1, args.span());
    show(session, command);
}

/// Counts the keys of a command for the hot keys, unless the read of the memory tier does.
#[inline]
fn count_keys(worker: &Worker, command: &Command, args: Args<'_>) {
    let counts = &worker.groups.default().policy.key_counts;
    match command.kind {
        CommandKind::Get | CommandKind::MultiGet => {}
        _ if command.flags.has(Flags::WRITE) => {
            if counts.counts_writes() {
                let bytes = value_len(command, args);
                command.keys.of(args).for_each(|key| counts.note_write(key, bytes));
            }
        }
        CommandKind::Forward => {}
        _ => {
            for key in command.keys.of(args) {
                if counts.is_due() {
                    counts.note_read(key, Some(0), clock::now());
                }
            }
        }
    }
}

/// Length of the longest argument after the first key.
fn value_len(command: &Command, args: Args<'_>) -> usize {
    args.from(usize::from(command.keys.first) + 1).map(<[u8]>::len).max().unwrap_or(0)
}

/// Counts this many calls of one command, with the bytes of their names and arguments and of their
/// replies. The recorder does not see them.
#[inline]
pub(super) fn count_calls(
    worker: &Worker,
    session: &Session,
    command: &Command,
    calls: u64,
    (received, sent): (usize, usize),
) {
    worker.app.commands.called(worker.id, command.index, calls, received);
    worker.app.commands.sent(worker.id, command.index, sent);
    show(session, command);
}

/// Makes the command the client's last command in CLIENT LIST. A forwarded command is shown when it
/// is sent.
#[inline]
pub(super) fn show(session: &Session, command: &Command) {
    if !matches!(command.kind, CommandKind::Forward) {
        session.client.command.store(command.index, Relaxed);
    }
}

/// Notes the operation for the recorder. A command that reads a key is a get, one that deletes it
/// is a del. Any other write is a set with the size of the longest argument after the keys.
#[cold]
fn note(worker: &Worker, command: &Command, args: Args<'_>) {
    let keys = command.keys.of(args);
    let operation = match command.flags {
        flags if flags.has(Flags::DELETES) => RecordedOperation::Del,
        flags if flags.has(Flags::WRITE) => RecordedOperation::Set(value_len(command, args)),
        _ => RecordedOperation::Get,
    };
    keys.for_each(|key| gate::note(worker, operation, key));
}
