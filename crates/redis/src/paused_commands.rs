//! Which commands wait for the end of CLIENT PAUSE.
use super::{
    command::{Command, CommandKind, Flags, TransactionStep},
    command_handlers::at_source,
    command_lookup::{FoundCommand, find_for},
    forwarded_commands::is_forwarded,
    session::Session,
};
use larder_base::lifecycle::pause::Paused;
use larder_core::app::Worker;
use larder_engine::Millis;
use larder_proto::resp::Args;

/// Whether this command must wait for the end of a pause. A command that will be refused need not.
#[cold]
pub fn waits(worker: &Worker, session: &Session, args: &Args<'_>, now: Millis) -> bool {
    let Some(paused) = worker.app.gate.pause.paused(now) else { return false };
    let found = match find_for(*args) {
        FoundCommand::Command(command) if !at_source(worker, command, *args) => Some(command),
        _ => None,
    };
    match found {
        Some(command) if !command.takes(args.len()) => false,
        Some(command) if !session.authenticated && !command.flags.has(Flags::NO_AUTH) => false,
        None if !session.authenticated => false,
        None if !is_forwarded(worker, args) => false,
        _ if paused == Paused::All => true,
        Some(command) if matches!(command.kind, CommandKind::Transaction(TransactionStep::Exec)) => session
            .multi
            .as_ref()
            .is_some_and(|multi| multi.queue.iter().any(|(command, args)| writes(worker, Some(command), args))),
        found => writes(worker, found, *args),
    }
}

fn writes(worker: &Worker, command: Option<&Command>, args: Args<'_>) -> bool {
    match command {
        Some(command) if !matches!(command.kind, CommandKind::Forward) => command.flags.has(Flags::WRITE),
        _ => {
            let known = worker.groups.default().source.as_redis().and_then(|server| server.known_commands());
            // A command that is not known counts as a write.
            known.is_none_or(|known| known.is_empty() || known.find(args).is_some_and(|row| row.may_write))
        }
    }
}
