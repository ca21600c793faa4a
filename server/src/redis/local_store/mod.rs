//! Commands on a source that keeps its entries on this machine.
//!
//! ```text
//! commands ─► hold their keys ─► load what they look at ─► run on a scratch tier ─► what changed ─► store, all or nothing ─► memory tier ─► let go, reply
//!             (read::Held)       (copies, else the store)  (the table's functions)                  (LocalStore::apply)
//! ```
//!
//! So a command's function is the same with and without a source. The commands of one client that come in one pipeline, or
//! while those before them are under way, and those of a transaction, go this way together: one change of the store for all of them. SCAN and its like ([`keyspace`]) ask the
//! store itself.
//!
//! Invariants:
//! - Nothing is answered before the store has taken it, as durably as it promises.
//! - If the store refuses, none of the commands that went together has changed anything, and all of them answer the error. EXEC
//!   goes in parts if commands on the keyspace are in it: what was answered before the part that fails stands, and what comes
//!   after it is not begun and answers the same error.
mod batch;
mod keyspace;

pub use batch::StorePipeline;

use super::{
    Flow,
    command::{Command, Flags, Run, Transaction},
    command_context::CommandContext,
    command_error::{Answer, CommandError},
    get,
    reply_budget::ReplyBudget,
    transaction::{self, CommandQueue},
};
use crate::{
    read::{Changes, Group, KeyGuard},
    source::{FetchedValue, SourceError},
};
use batch::{Scratch, wanted};
use larder_proto::resp::Args;
use larder_store::clock;
use std::{future::poll_fn, rc::Rc};

/// Runs a command that goes alone: what concerns the keyspace, EXEC, WATCH, and what is not answered.
pub(super) async fn run(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    match call.command.run {
        Run::Transaction(Transaction::Exec) => return exec(call).await,
        Run::Transaction(_) => watch(call).await?,
        Run::MultiGet => mget(call).await?,
        _ if is_keyspace(call.command) => {
            let held = match call.command.flags.has(Flags::FLUSH) {
                true => Some(call.group().hold_all().await?),
                false => None,
            };
            keyspace::run(call, held.as_ref()).await?;
        }
        _ => {
            let mut queue = CommandQueue::default();
            queue.push(call.command, call.args);
            let group = call.group();
            let held = hold(group, &queue, &[]).await?;
            let mut scratch = Scratch::load(group, wanted(queue.iter())).await?;
            scratch.run(call)?;
            group.commit(&held, scratch.changes(), call.session.actor()).await?;
        }
    }
    Ok(Flow::Done)
}

pub(super) fn is_keyspace(command: &Command) -> bool {
    command.flags.has(Flags::KEYSPACE)
}

/// Holds the keys of all commands and these.
async fn hold(group: &Group, queue: &CommandQueue, others: &[Box<[u8]>]) -> Result<Rc<KeyGuard>, SourceError> {
    if queue.iter().any(|(command, _)| is_keyspace(command)) {
        return group.hold_all().await;
    }
    let queued = queue.iter().flat_map(|(command, args)| command.keys.of(args));
    group.hold(queued.chain(others.iter().map(|key| &**key))).await
}

async fn exec(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let queue = call.session.multi.take().unwrap_or_default().queue;
    let watch = call.session.watch.take();
    call.session.end_transaction();
    let group = call.group();
    let watched = watch.as_ref().map_or(&[][..], |watch| watch.keys());
    let held = hold(group, &queue, watched).await?;
    call.now = clock::now();
    if watch.is_some_and(|watch| watch.is_broken(call.now)) {
        call.reply.null_array();
        return Ok(Flow::Done);
    }
    call.reply.array(queue.len());
    let mut close = false;
    let mut commands = queue.iter().peekable();
    while commands.len() > 0 {
        let (before, mark) = (commands.len(), call.reply.output().mark());
        // Those between two that concern the keyspace change the store together.
        let keyed: Vec<(&'static Command, Args<'_>)> =
            std::iter::from_fn(|| commands.next_if(|(command, _)| !is_keyspace(command))).collect();
        match together(call, &held, &keyed).await {
            Ok(closes) => close |= closes,
            Err(error) if before == queue.len() => return Err(error.into()),
            Err(error) => {
                call.reply.output().truncate(mark);
                call.session.counters.redis_errors.add(before as u64);
                let fault = CommandError::from(error);
                (0..before).for_each(|_| fault.reply(&mut call.reply));
                break;
            }
        }
        if let Some((command, args)) = commands.next() {
            let mut inner = call.within(command, args);
            let mark = inner.reply.output().mark();
            if let Err(fault) = keyspace::run(&mut inner, Some(&held)).await {
                inner.reply.output().truncate(mark);
                inner.fail(&fault);
            }
        }
    }
    Ok(if close { Flow::Close } else { Flow::Done })
}

/// Runs commands of a transaction, and has the store take what they change. Says whether the connection is to be closed.
async fn together(
    call: &mut CommandContext<'_>,
    held: &Rc<KeyGuard>,
    commands: &[(&'static Command, Args<'_>)],
) -> Result<bool, SourceError> {
    let group = call.group();
    let mut scratch = Scratch::load(group, wanted(commands.iter().copied())).await?;
    let (mut close, mut room) = (false, ReplyBudget::new(call.worker));
    for &(command, args) in commands {
        let has_room = room.take(call.reply.output().owned());
        let flow = call.nested(command, args, |call| match command.run {
            _ if has_room.is_err() => has_room.map(|()| Flow::Done),
            Run::Local(function) => function(call),
            Run::Transaction(around) => transaction::step(call, around),
            _ => scratch.run(call),
        });
        close |= matches!(flow, Flow::Close);
    }
    group.commit(held, scratch.changes(), call.session.actor()).await?;
    Ok(close)
}

/// MGET, of which the tier has not all: nobody writes meanwhile.
async fn mget(call: &mut CommandContext<'_>) -> Answer {
    let group = call.group();
    let _held = group.hold(call.command.keys.of(call.args)).await?;
    let mut batch = Vec::new();
    let flow = get::mget_each(call, &mut batch)?;
    if !batch.is_empty() {
        group.source.fetch(&mut batch);
    }
    if let Flow::Pending(mut pending) = flow {
        poll_fn(|cx| pending.poll(cx)).await;
        pending.reply(call.session, call.reply.output());
    }
    Ok(())
}

/// WATCH
async fn watch(call: &mut CommandContext<'_>) -> Answer {
    let group = call.group();
    let keys: Vec<bytes::Bytes> = call.command.keys.of(call.args).map(bytes::Bytes::copy_from_slice).collect();
    let _held = group.hold(&keys).await?;
    let found = group.load(group.local()?, &keys).await?;
    let watch = call.session.watch.get_or_insert_with(|| group.watch());
    for (key, found) in keys.iter().zip(found) {
        watch.add(key, found.as_ref());
    }
    call.reply.ok();
    Ok(())
}
