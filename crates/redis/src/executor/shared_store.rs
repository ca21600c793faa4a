//! The executor of nodes whose memory tiers are one store (`none:` with `peers`): a key's owner
//! runs the commands on it, here or at another node, and the other nodes forget their copies before
//! the reply. Decision 0051.
//!
//! Keys of several owners: a command that counts keys, and MSET, runs in parts, each at its owner,
//! so it is not one step. Others are refused.
use super::{
    memory,
    run_for_node::{is_for_owner, run_for_node, run_on_tier, written_keys},
    tier_commands,
};
use crate::{
    command::{Command, CommandKind, Flags, TransactionStep},
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, arity},
    command_queue::CommandQueue,
    commands::keys::flush_options,
    forwarded_writes::{Node, ask_owner, run_at},
    transaction,
};
use bytes::Bytes;
use indexmap::IndexMap;
use larder_proto::resp::{Args, View, encode, view};
use larder_ring::peer::{ClearScope, Member, PeerGroup};
use std::{rc::Rc, sync::Arc};
use tokio::task::JoinHandle;

const SEVERAL_OWNERS: CommandError =
    CommandError::Static("CROSSSLOT the keys belong to several nodes (peers), and this command runs at one");
pub(super) const NO_WATCH: CommandError =
    CommandError::Static("ERR WATCH is not available where nodes share keys (peers)");
const OF_ONE_NODE: CommandError = CommandError::Static(
    "ERR each node has the keys that it owns alone (peers), and this command would see one node's: ask each node over HTTP, /v1/keys",
);
const NOT_IN_EXEC: CommandError =
    CommandError::Static("ERR where nodes share keys (peers), a transaction has commands on keys alone");

pub(super) fn begin(call: &mut CommandContext<'_>) -> Done {
    call.check_keys()?;
    let command = call.command;
    if command.kind == CommandKind::Tier && tier_commands::answer_without_entries(call)? {
        return Ok(Flow::Done);
    }
    if command.is_keyspace() {
        return if command.flags.has(Flags::FLUSH) { Ok(Flow::Alone(command)) } else { Err(OF_ONE_NODE) };
    }
    let peers = peers(call)?;
    if command.flags.has(Flags::WRITE) || !command.keys.of(call.args).all(|key| peers.owns_now(key)) {
        return Ok(Flow::Alone(command));
    }
    run_on_tier(call)
}
pub(super) async fn run(call: &mut CommandContext<'_>) -> Done {
    match call.command.kind {
        CommandKind::Transaction(TransactionStep::Exec) => exec(call).await,
        _ if call.command.flags.has(Flags::FLUSH) => flush(call).await,
        _ => run_at_owners(call).await,
    }
}

/// The nodes; the backend was chosen because there are some.
fn peers<'c>(call: &CommandContext<'c>) -> Result<&'c Rc<PeerGroup>, CommandError> {
    call.group().peers.as_ref().ok_or(OF_ONE_NODE)
}

/// A part of a command: an owner, and the arguments on its keys.
type Part<'a> = (Arc<Member>, Vec<&'a [u8]>);

/// The command's keys by owner, each with the arguments that belong to it.
fn parts<'a>(peers: &PeerGroup, command: &Command, args: Args<'a>) -> Vec<Part<'a>> {
    let step = usize::from(command.keys.step.max(1));
    let mut parts: Vec<Part<'a>> = Vec::new();
    for (number, key) in command.keys.of(args).enumerate() {
        let owner = peers.owner(key);
        let of_key = args.from(usize::from(command.keys.first) + number * step).take(step);
        match parts.iter_mut().find(|(of, _)| Arc::ptr_eq(of, &owner)) {
            Some((_, part)) => part.extend(of_key),
            None => parts.push((owner, of_key.collect())),
        }
    }
    parts
}

async fn run_at_owners(call: &mut CommandContext<'_>) -> Done {
    let (peers, command) = (peers(call)?, call.command);
    let parts = parts(peers, command, call.args);
    match &parts[..] {
        [(owner, _)] if owner.is_self => {
            let flow = run_on_tier(call)?;
            if command.flags.has(Flags::WRITE) {
                peers.changed_here(written_keys(command, call.args).collect()).await;
            }
            Ok(flow)
        }
        [(owner, _)] => run_at(call, Node::Owner(peers, owner), None).await,
        _ if command.flags.has(Flags::EXISTENCE) => run_parts(call, parts).await,
        _ if command.flags.has(Flags::OVERWRITES) && command.keys.last == -1 => match call.args.len() % 2 {
            1 => run_parts(call, parts).await,
            _ => Err(arity(command.name)),
        },
        _ => Err(SEVERAL_OWNERS),
    }
}

/// Runs each part at its owner, all at the same time. The reply is the sum of the numbers, or the
/// first error; what other parts did stands.
async fn run_parts(call: &mut CommandContext<'_>, parts: Vec<Part<'_>>) -> Done {
    let (peers, resp3) = (peers(call)?, call.session.resp3);
    let mut here = None;
    let mut elsewhere: Vec<JoinHandle<Result<Bytes, CommandError>>> = Vec::new();
    for (owner, args) in parts {
        let commands = Bytes::from(encode(&[&[&call.args[0]], &args[..]].concat()));
        match owner.is_self {
            true => here = Some(commands),
            false => {
                let asked = ask_owner(peers.clone(), owner, commands, false, resp3);
                elsewhere.push(tokio::task::spawn_local(asked));
            }
        }
    }
    let mut replies = Vec::with_capacity(elsewhere.len() + 1);
    if let Some(commands) = here {
        replies.push(run_for_node(call.worker, &commands, false, resp3).await.map_err(CommandError::from));
    }
    for task in elsewhere {
        replies.push(task.await.unwrap_or_else(|_| Err(CommandError::Static("ERR the request to a node was dropped"))));
    }
    let mut sum = 0;
    for reply in replies {
        let reply = reply?;
        match view(&reply) {
            Ok(View::Integer(number)) => sum += number,
            Ok(View::Simple(_)) => {}
            _ => {
                call.reply.output().put_bytes(reply);
                return Ok(Flow::Done);
            }
        }
    }
    if call.command.flags.has(Flags::EXISTENCE) { call.integer(sum) } else { call.ok() }
}

async fn exec(call: &mut CommandContext<'_>) -> Done {
    let (queue, _) = transaction::end(call);
    let peers = peers(call)?;
    let owner = match owner_of_all(peers, &queue)? {
        None => {
            call.reply.array(0);
            return Ok(Flow::Done);
        }
        Some(owner) => owner,
    };
    if owner.is_self {
        let flow = memory::exec_queue(call, &queue, &IndexMap::new())?;
        let written = queue.iter().flat_map(|(command, args)| written_keys(command, args));
        peers.changed_here(written.collect()).await;
        return Ok(flow);
    }
    run_at(call, Node::Owner(peers, &owner), Some(&queue)).await
}

/// The owner of all keys of a transaction; `None`: it has no commands.
fn owner_of_all(peers: &PeerGroup, queue: &CommandQueue) -> Result<Option<Arc<Member>>, CommandError> {
    let mut owner: Option<Arc<Member>> = None;
    for (command, args) in queue.iter() {
        if !is_for_owner(command) {
            return Err(NOT_IN_EXEC);
        }
        for key in command.keys.of(args) {
            let of_key = peers.owner(key);
            if !Arc::ptr_eq(owner.get_or_insert_with(|| of_key.clone()), &of_key) {
                return Err(SEVERAL_OWNERS);
            }
        }
    }
    Ok(owner)
}

/// FLUSHALL empties all nodes. The reply is an error if one of them gave no answer.
async fn flush(call: &mut CommandContext<'_>) -> Done {
    flush_options(call)?;
    let everything = ClearScope::Prefix(Bytes::new());
    peers(call)?.clear_everywhere(everything, false, || call.cache().tier().clear()).await?;
    call.ok()
}
