//! Counts of commands, and the recorder's notes of what they read and write.
use super::{
    command::{Command, Flags, Kind},
    session::Session,
};
use crate::{app::Worker, telemetry::RecordedOperation};
use larder_proto::resp::Args;
use std::sync::atomic::Ordering::Relaxed;

/// Notes a command that is carried out.
#[inline]
pub(super) fn count(worker: &Worker, session: &Session, command: &Command, args: Args<'_>) {
    // What a transaction queues is noted when it runs.
    if worker.app.telemetry.recorder.is_on() && session.multi.is_none() {
        note(worker, command, args);
    }
    count_calls(worker, session, command, 1);
}

/// Notes so many commands of one kind, except for who records operations.
#[inline]
pub(super) fn count_calls(worker: &Worker, session: &Session, command: &Command, calls: u64) {
    worker.counters.redis_commands.add(calls);
    // Those that are forwarded are the source's to count.
    if !matches!(command.kind, Kind::Forward) {
        worker.app.calls.count(worker.id, command.index, calls);
        session.client.command.store(command.index, Relaxed);
    }
}

/// Shows a command to who records operations: what reads a key is a get, what removes it a del, what else writes it a set of as many bytes
/// as its longest argument behind the keys has.
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
