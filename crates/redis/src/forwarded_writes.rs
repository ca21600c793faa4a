//! Commands that another node runs: a replica's primary (`replica-writes = "forward"`), or the owner
//! of the keys where nodes share a store. Whole commands, and whole transactions.
use super::{
    command::{Command, CommandKind, Flags, TransactionStep},
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
    command_queue::CommandQueue,
    session::{Session, Watch},
    transaction,
};
use bytes::Bytes;
use larder_core::app::Worker;
use larder_proto::resp::write_command;
use larder_ring::peer::{Member, OwnerRequest, PeerGroup};
use std::{rc::Rc, sync::Arc};

/// What becomes of a client's writes here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WritesGo {
    /// This process takes them.
    Here,
    ToPrimary,
    /// It is a replica that refuses them.
    Nowhere,
}

#[inline]
pub(super) fn of_client(worker: &Worker, session: &Session) -> WritesGo {
    match worker.app.replication.is_read_only() {
        false => WritesGo::Here,
        true => of_replica(worker, session),
    }
}

#[cold]
fn of_replica(worker: &Worker, session: &Session) -> WritesGo {
    let forwards = worker.app.settings.replication.writes.are_forwarded();
    // What was forwarded once goes to a primary, or nowhere: two replicas that follow each other would
    // pass it on for ever.
    if forwards && !session.is_forwarded { WritesGo::ToPrimary } else { WritesGo::Nowhere }
}

/// What becomes of a command: only those that write are forwarded.
#[inline]
pub(super) fn of_command(worker: &Worker, session: &Session, command: &Command) -> WritesGo {
    if command.flags.has(Flags::WRITE) { of_client(worker, session) } else { WritesGo::Here }
}

/// What becomes of EXEC, when all commands are queued.
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

/// Forwards the command, or with EXEC the transaction, to the primary.
pub(super) async fn run(call: &mut CommandContext<'_>) -> Done {
    if call.command.kind != CommandKind::Transaction(TransactionStep::Exec) {
        return run_at(call, Node::Primary, None).await;
    }
    let (queue, watch) = transaction::end(call);
    if !matches!(watch, Watch::Nothing) {
        return Err(CommandError::Static(
            "ERR a transaction after WATCH is not forwarded: run it at the primary (replica-writes)",
        ));
    }
    run_at(call, Node::Primary, Some(&queue)).await
}

/// Another node that runs a client's commands.
pub(super) enum Node<'n> {
    /// This process is its replica.
    Primary,
    /// It owns the keys.
    Owner(&'n Rc<PeerGroup>, &'n Arc<Member>),
}

/// Runs the command, or with EXEC its transaction, at another node, and passes on the reply.
pub(super) async fn run_at(call: &mut CommandContext<'_>, node: Node<'_>, queue: Option<&CommandQueue>) -> Done {
    let (mut commands, resp3) = (Vec::new(), call.session.resp3);
    match queue {
        Some(queue) => queue.iter().for_each(|(_, args)| write_command(&mut commands, args.from(0))),
        None => write_command(&mut commands, call.args.from(0)),
    }
    match (node, queue) {
        (Node::Owner(peers, owner), _) => {
            let reply = ask_owner(peers.clone(), owner.clone(), commands.into(), queue.is_some(), resp3).await?;
            call.reply.output().put_bytes(reply);
        }
        (Node::Primary, queue) => {
            let count = queue.map_or(1, |queue| queue.len() + 2);
            if queue.is_some() {
                commands = [&b"*1\r\n$5\r\nMULTI\r\n"[..], &commands, b"*1\r\n$4\r\nEXEC\r\n"].concat();
            }
            let sent = call.worker.forwarder.forward(&commands, count, resp3).await;
            let reply = sent.map_err(|error| CommandError::from(format!("ERR {error}")))?;
            call.session.pass_part(reply, call.reply.output());
        }
    }
    Ok(Flow::Done)
}

/// The replies of a key's owner to encoded commands.
pub(super) async fn ask_owner(
    peers: Rc<PeerGroup>,
    owner: Arc<Member>,
    commands: Bytes,
    is_transaction: bool,
    resp3: bool,
) -> Result<Bytes, CommandError> {
    let request = OwnerRequest { commands: Some(commands), is_transaction, resp3, write: None };
    match peers.at_owner(&owner, request).await? {
        Some(answer) => Ok(answer.body),
        None => Err(CommandError::from(format!(
            "ERR the key's owner, peer {}, runs no commands for other nodes",
            owner.name
        ))),
    }
}
