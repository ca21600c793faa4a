//! Writes that a replica forwards to its primary (`replica-writes = "forward"`): whole commands,
//! and whole transactions.
use super::{
    command::{Command, CommandKind, Flags, TransactionStep},
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
    session::{Session, Watch},
    transaction,
};
use larder_config::ReplicaWrites;
use larder_core::app::Worker;
use larder_proto::resp::write_command;

/// What becomes of a client's writes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WritesGo {
    /// This process takes them.
    Here,
    /// To the primary.
    ToPrimary,
    /// It is a replica that refuses them.
    Nowhere,
}

/// What becomes of this client's writes.
#[inline]
pub(super) fn of_client(worker: &Worker, session: &Session) -> WritesGo {
    match worker.app.replication.is_read_only() {
        false => WritesGo::Here,
        true => of_replica(worker, session),
    }
}

#[cold]
fn of_replica(worker: &Worker, session: &Session) -> WritesGo {
    let forwards = worker.app.settings.replication.writes == ReplicaWrites::Forward;
    // What was forwarded once goes to a primary, or nowhere: two replicas that follow each other would
    // pass it on for ever.
    if forwards && !session.is_forwarded { WritesGo::ToPrimary } else { WritesGo::Nowhere }
}

/// The same for a command: only those that write are forwarded.
#[inline]
pub(super) fn of_command(worker: &Worker, session: &Session, command: &Command) -> WritesGo {
    if command.flags.has(Flags::WRITE) { of_client(worker, session) } else { WritesGo::Here }
}

/// The same for EXEC, when all commands are queued.
pub(super) fn of_transaction(worker: &Worker, session: &Session) -> WritesGo {
    let writes = session
        .multi
        .as_ref()
        .is_some_and(|multi| multi.queue.iter().any(|(command, _)| command.flags.has(Flags::WRITE)));
    if writes { of_client(worker, session) } else { WritesGo::Here }
}

/// Whether this command, which runs alone, must be forwarded.
pub(super) fn is_forwarded(call: &CommandContext<'_>) -> bool {
    let goes = match call.command.kind {
        CommandKind::Transaction(TransactionStep::Exec) => of_transaction(call.worker, call.session),
        _ => of_command(call.worker, call.session, call.command),
    };
    goes == WritesGo::ToPrimary
}

/// Forwards the command, or with EXEC the transaction, and passes on the primary's reply.
pub(super) async fn run(call: &mut CommandContext<'_>) -> Done {
    let mut commands = Vec::new();
    let count = match call.command.kind {
        CommandKind::Transaction(TransactionStep::Exec) => {
            let (queue, watch) = transaction::end(call);
            if !matches!(watch, Watch::Nothing) {
                return Err(CommandError::Static(
                    "ERR a transaction after WATCH is not forwarded: run it at the primary (replica-writes)",
                ));
            }
            write_command(&mut commands, [&b"MULTI"[..]].into_iter());
            queue.iter().for_each(|(_, args)| write_command(&mut commands, args.from(0)));
            write_command(&mut commands, [&b"EXEC"[..]].into_iter());
            queue.len() + 2
        }
        _ => {
            write_command(&mut commands, call.args.from(0));
            1
        }
    };
    match call.worker.forwarder.forward(&commands, count, call.session.resp3).await {
        Ok(reply) => {
            call.session.pass_part(reply, call.reply.output());
            Ok(Flow::Done)
        }
        Err(error) => Err(CommandError::from(format!("ERR {error}"))),
    }
}
