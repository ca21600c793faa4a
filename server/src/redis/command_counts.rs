//! Counts commands, and notes their operations for the recorder.
use super::{
    command::{Command, CommandKind, Flags},
    session::Session,
};
use crate::{app::Worker, telemetry::RecordedOperation};
use larder_proto::resp::Args;
use std::sync::atomic::Ordering::Relaxed;

/// Counts a command that runs.
#[inline]
pub(super) fn count(worker: &Worker, session: &Session, command: &Command, args: Args<'_>) {
    // A queued command is noted when it runs.
    if worker.app.telemetry.recorder.is_on() && session.multi.is_none() {
        note(worker, command, args);
    }
    count_calls(worker, session, command, 1);
}

/// Counts this many calls of one command. The recorder does not see them.
#[inline]
pub(super) fn count_calls(worker: &Worker, session: &Session, command: &Command, calls: u64) {
    worker.counters.redis_commands.add(calls);
    // The source counts forwarded commands.
    if !matches!(command.kind, CommandKind::Forward) {
        worker.app.calls.count(worker.id, command.index, calls);
        session.client.command.store(command.index, Relaxed);
    }
}

/// Notes the operation for the recorder. A command that reads a key is a get, one that deletes it is a del. Any other
/// write is a set with the size of the longest argument after the keys.
#[cold]
fn note(worker: &Worker, command: &Command, args: Args<'_>) {
    let keys = command.keys.of(args);
    let operation = match command.flags {
        flags if flags.has(Flags::DELETES) => RecordedOperation::Del,
        flags if flags.has(Flags::WRITE) => {
            let values = args.from(usize::from(command.keys.first) + 1);
            RecordedOperation::Set(values.map(<[u8]>::len).max().unwrap_or(0))
        }
        _ => RecordedOperation::Get,
    };
    keys.for_each(|key| worker.app.telemetry.recorder.note(worker.id, operation, key));
}
