//! CLIENT PAUSE, and which commands wait for its end.
use super::{
    Flow,
    command::{Flags, FoundCommand, Run, Transaction, find_for},
    command_context::CommandContext,
    command_error::{CommandError, integer},
    is_forwarded,
    session::Session,
};
use crate::{app::Worker, lifecycle::pause::Paused};
use larder_proto::resp::Args;

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
pub(super) fn pause(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let what = match call.args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        _ if call.args.len() > 4 => {
            return Err(CommandError::quoting(
                "ERR unknown subcommand or wrong number of arguments for '",
                call.arg(1),
                128,
                "'. Try CLIENT HELP.",
            ));
        }
        None | Some(b"all") => Paused::All,
        Some(b"write") => Paused::Writes,
        Some(_) => return Err(CommandError::Said("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let time = integer(call.arg(2)).map_err(|_| CommandError::Said("ERR timeout is not an integer or out of range"))?;
    let time = u64::try_from(time).map_err(|_| CommandError::Said("ERR timeout is negative"))?;
    call.worker.app.pause.begin(call.now.saturating_add(time), what);
    call.reply.ok();
    Ok(Flow::Paused)
}

/// CLIENT UNPAUSE
pub(super) fn unpause(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    call.worker.app.pause.end();
    call.reply.ok();
    Ok(Flow::Done)
}

/// Must this command wait? One that is refused at once need not.
pub fn waits(worker: &Worker, session: &Session, args: &Args<'_>, paused: Paused) -> bool {
    let found = match find_for(*args) {
        FoundCommand::Command(command) if !super::at_source(command, *args) => Some(command),
        _ => None,
    };
    match found {
        Some(command) if !command.takes(args.len()) => false,
        Some(command) if !session.authenticated() && !command.flags.has(Flags::NO_AUTH) => false,
        None if !session.authenticated() => false,
        None if !is_forwarded(worker, args) => false,
        _ if paused == Paused::All => true,
        Some(command) if matches!(command.run, Run::Transaction(Transaction::Exec)) => session
            .multi
            .as_ref()
            .is_some_and(|multi| multi.queue.iter().any(|(command, args)| writes(worker, Some(command), args))),
        found => writes(worker, found, *args),
    }
}

/// Does it write, or may it?
fn writes(worker: &Worker, command: Option<&super::Command>, args: Args<'_>) -> bool {
    match command {
        Some(command) if !matches!(command.run, Run::Forward) => command.flags.has(Flags::WRITE),
        _ => {
            let known = worker.groups[0].source.as_redis().and_then(|server| server.known_commands());
            // Of what is not known the worst is believed.
            known.is_none_or(|known| known.is_empty() || known.find(args).is_some_and(|row| row.may_write))
        }
    }
}
