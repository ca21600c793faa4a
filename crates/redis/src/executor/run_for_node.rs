//! Commands on keys of this node that another node sends, where the nodes' memory tiers are one
//! store. They run here and go nowhere else.
use super::{memory, tier_commands};
use crate::{
    command::{Command, CommandKind, Flags},
    command_context::CommandContext,
    command_lookup::{FoundCommand, find_for},
    command_outcome::{CommandError, Done},
    command_queue::CommandQueue,
    session::Session,
    transaction,
};
use bytes::Bytes;
use indexmap::IndexMap;
use larder_core::app::Worker;
use larder_proto::{
    output::Output,
    resp::{Args, Limits, Parsed, Parser},
};
use larder_source::SourceError;
use larder_store::clock;

/// Why a node's commands are not run. Nothing has changed.
#[derive(Debug, PartialEq, Eq)]
pub enum NodeRefusal {
    /// A key belongs to another node.
    NotTheOwner,
    /// They are no commands that a node may send; why.
    Malformed(String),
}

impl From<NodeRefusal> for CommandError {
    fn from(refusal: NodeRefusal) -> CommandError {
        match refusal {
            NodeRefusal::NotTheOwner => {
                SourceError::Unavailable("the keys have just come to belong to another node: try again".into()).into()
            }
            NodeRefusal::Malformed(reason) => CommandError::from(format!("ERR {reason}")),
        }
    }
}

/// Whether the owner of a command's keys can run it.
pub(super) fn is_for_owner(command: &Command) -> bool {
    let has_function = command.is_data() && command.kind != CommandKind::Forward || command.is_local_on_key();
    has_function && command.keys.first > 0 && !command.is_keyspace()
}

/// The keys that a command may change.
pub(super) fn written_keys<'a>(command: &Command, args: Args<'a>) -> impl Iterator<Item = Bytes> + use<'a> {
    let is_write = command.flags.has(Flags::WRITE);
    command.keys.of(args).filter(move |_| is_write).map(Bytes::copy_from_slice)
}

/// Runs a command on keys of this node.
pub(super) fn run_on_tier(call: &mut CommandContext<'_>) -> Done {
    match call.command.kind {
        CommandKind::Local => transaction::run_local(call),
        _ => tier_commands::run_on(call, &mut call.lock()),
    }
}

/// Runs commands on keys of this node, then has the other nodes forget their copies. The replies;
/// of a transaction, whose commands run as one step, the reply to EXEC.
///
/// # Errors
/// See [`NodeRefusal`].
pub async fn run_for_node(
    worker: &Worker,
    commands: &[u8],
    is_transaction: bool,
    resp3: bool,
) -> Result<Bytes, NodeRefusal> {
    let group = worker.groups.default();
    let Some(peers) = group.peers.as_ref().filter(|peers| peers.is_store()) else {
        return Err(NodeRefusal::Malformed("the group is not a store of several nodes".to_owned()));
    };
    let queue = parse(worker, commands)?;
    if !queue.iter().all(|(command, args)| command.keys.of(args).all(|key| peers.serves(key))) {
        return Err(NodeRefusal::NotTheOwner);
    }
    let Some((first, args)) = queue.iter().next() else { return Ok(Bytes::new()) };
    let (mut session, mut out) = (Session::of_node(worker, clock::now(), resp3), Output::default());
    {
        let call = &mut CommandContext::new(worker, &mut session, first, args, clock::now(), &mut out);
        if is_transaction {
            call.answering(|call| memory::exec_queue(call, &queue, &IndexMap::new()));
        } else {
            for (command, args) in queue.iter() {
                call.nested(command, args, |call| call.check_keys().and_then(|()| run_on_tier(call)));
            }
        }
    }
    let mut written: Vec<Bytes> = queue.iter().flat_map(|(command, args)| written_keys(command, args)).collect();
    written.sort_unstable();
    written.dedup();
    peers.changed_here(written).await;
    Ok(out.to_vec().into())
}

fn parse(worker: &Worker, mut commands: &[u8]) -> Result<CommandQueue, NodeRefusal> {
    let malformed = |reason: &str| NodeRefusal::Malformed(reason.to_owned());
    let limits = Limits::new(worker.app.settings.max_value);
    let (mut parser, mut queue) = (Parser::default(), CommandQueue::default());
    while !commands.is_empty() {
        let consumed = match parser.parse(commands, &limits) {
            Ok(Parsed::Command { consumed }) => consumed,
            Ok(Parsed::Incomplete { .. }) => return Err(malformed("a command is cut off")),
            Err(_) => return Err(malformed("the bytes are no commands")),
        };
        let args = parser.args(commands);
        if args.is_empty() || args.is_inline() {
            return Err(malformed("the bytes are no commands"));
        }
        match find_for(args) {
            FoundCommand::Command(command) if is_for_owner(command) && command.takes(args.len()) => {
                queue.push(command, args);
            }
            FoundCommand::Command(command) => {
                return Err(NodeRefusal::Malformed(format!("{} is not run for another node", command.name)));
            }
            _ => return Err(malformed("a command is unknown here")),
        }
        commands = commands.get(consumed..).unwrap_or_default();
    }
    Ok(queue)
}
