//! The executor of a local store: commands that run alone, EXEC and WATCH.
use crate::{
    command::{Command, CommandKind, Flags, TransactionStep},
    command_context::{CommandContext, end},
    command_handlers::functions,
    command_outcome::{CommandError, CommandResult, Done, Flow},
    command_queue::CommandQueue,
    commands::{get, keyspace},
    executor::{
        local_store::{
            prepared::{is_plain_set, set_now},
            scratch::{Scratch, wanted},
            shared_commands,
        },
        tier_commands,
    },
    session::{Outstanding, Watch},
    transaction::{self, TransactionReplies},
    waiting_replies::Waits,
};
use larder_core::read::{Group, KeyGuard};
use larder_proto::resp::Args;
use larder_source::{Revision, SourceError};
use larder_store::clock;
use std::{future::poll_fn, mem, rc::Rc};

pub(in crate::executor) fn begin(call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done {
    call.check_keys()?;
    if set_now(call)? {
        return Ok(Flow::Done);
    }
    if tier_commands::answer_without_entries(call)? || tier_commands::answer(call)? {
        return Ok(Flow::Done);
    }
    let is_apart = || {
        call.group().shared().is_some() && !is_plain_set(call.command, call.args, call.worker.app.settings.max_value)
    };
    if call.command.flags.has(Flags::FLUSH) || is_apart() {
        Ok(Flow::Alone(call.command))
    } else {
        Ok(waits.forward(call, Outstanding::Forwarded))
    }
}
/// Runs a command alone: on the keyspace, EXEC, WATCH, or one whose reply is suppressed.
pub(in crate::executor) async fn run(call: &mut CommandContext<'_>) -> Done {
    match call.command.kind {
        CommandKind::Transaction(TransactionStep::Exec) => return exec(call).await,
        CommandKind::Transaction(_) => watch(call).await?,
        CommandKind::MultiGet => mget(call).await?,
        _ if call.command.is_keyspace() => {
            let held = if call.command.flags.has(Flags::FLUSH) { Some(call.group().hold_all().await?) } else { None };
            on_keyspace(call, held.as_ref()).await?;
        }
        _ if call.group().shared().is_some() => return shared_commands::run(call).await,
        _ => {
            let mut queue = CommandQueue::default();
            queue.push(call.command, call.args);
            let group = call.group();
            let held = hold(group, &queue, [].into_iter()).await?;
            let mut scratch = Scratch::load(group, wanted(group, queue.iter())).await?;
            call.session.noted_events.take();
            scratch.run(call)?;
            let events = call.session.noted_events.take();
            group.commit(&held, scratch.changes(), call.session.actor(), events).await?;
        }
    }
    Ok(Flow::Done)
}

/// Runs a command on the keyspace. FLUSHALL needs all key locks.
async fn on_keyspace(call: &mut CommandContext<'_>, held: Option<&Rc<KeyGuard>>) -> Done {
    match (functions(call.command).keyspace, held) {
        (None, Some(held)) if call.command.flags.has(Flags::FLUSH) => keyspace::flush(call, held).await,
        (Some(run), _) => run(call).await,
        (None, _) => Err(CommandError::from(format!("ERR {} is not available with this source", call.command.name))),
    }
}

/// Locks the keys of all commands, and the others.
async fn hold<'a>(
    group: &Group,
    queue: &'a CommandQueue,
    others: impl Iterator<Item = &'a [u8]>,
) -> Result<Rc<KeyGuard>, SourceError> {
    if queue.iter().any(|(command, _)| command.is_keyspace()) {
        return group.hold_all().await;
    }
    let queued = queue.iter().flat_map(|(command, args)| command.keys.of(args));
    group.hold(queued.chain(others)).await
}

async fn exec(call: &mut CommandContext<'_>) -> Done {
    let (queue, watch) = transaction::end(call);
    let watch = if let Watch::Store(watch) = watch { Some(watch) } else { None };
    let group = call.group();
    if group.shared().is_some() {
        return shared_commands::exec(call, &queue, watch).await;
    }
    let watched = watch.iter().flat_map(|watch| watch.keys());
    let held = hold(group, &queue, watched).await?;
    call.now = clock::now();
    if watch.is_some_and(|watch| watch.is_broken(call.now)) {
        call.reply.null_array();
        return Ok(Flow::Done);
    }
    run_held(call, &queue, &held).await
}

/// Runs a transaction whose keys are locked.
pub(super) async fn run_held(call: &mut CommandContext<'_>, queue: &CommandQueue, held: &Rc<KeyGuard>) -> Done {
    call.reply.array(queue.len());
    let mut replies = TransactionReplies::default();
    let mut commands = queue.iter().peekable();
    while commands.len() > 0 {
        let (before, mark) = (commands.len(), call.reply.output().mark());
        // The commands between two keyspace commands change the store together.
        let keyed: Vec<(&'static Command, Args<'_>)> =
            std::iter::from_fn(|| commands.next_if(|(command, _)| !command.is_keyspace())).collect();
        match run_keyed(call, held, &keyed, &mut replies).await {
            Ok(()) => {}
            Err(error) if before == queue.len() => return Err(error.into()),
            Err(error) => {
                call.reply.output().truncate(mark);
                let fault = CommandError::from(error);
                for _ in 0..before {
                    call.session.counters.redis_error(fault.text());
                    fault.reply(&mut call.reply);
                }
                break;
            }
        }
        if let Some((command, args)) = commands.next() {
            let outer = call.session.times;
            call.session.times.start();
            let mut inner = call.within(command, args);
            let mark = inner.reply.output().mark();
            if let Err(fault) = on_keyspace(&mut inner, Some(held)).await {
                inner.reply.output().truncate(mark);
                inner.fail(&fault);
            }
            end(call.worker, call.session, args);
            call.session.times = outer;
        }
    }
    Ok(replies.flow())
}

/// Runs commands of a transaction, and writes their changes to the store.
async fn run_keyed(
    call: &mut CommandContext<'_>,
    held: &Rc<KeyGuard>,
    commands: &[(&'static Command, Args<'_>)],
    replies: &mut TransactionReplies,
) -> Result<(), SourceError> {
    let group = call.group();
    let mut scratch = Scratch::load(group, wanted(group, commands.iter().copied())).await?;
    call.session.noted_events.take();
    for &(command, args) in commands {
        replies.run(call, command, args, |call| match command.kind {
            CommandKind::Local => transaction::run_local(call),
            CommandKind::Transaction(_) => transaction::unwatch(call),
            _ => scratch.run(call),
        });
    }
    let events = call.session.noted_events.take();
    group.commit(held, scratch.changes(), call.session.actor(), events).await
}

/// MGET when the tier lacks some of the keys. The key locks keep writers out meanwhile.
async fn mget(call: &mut CommandContext<'_>) -> CommandResult {
    let group = call.group();
    let _held = group.hold(call.command.keys.of(call.args)).await?;
    let mut batch = Vec::new();
    let pending = get::mget_each(call, &mut batch)?;
    if !batch.is_empty() {
        group.source.fetch(&mut batch);
    }
    if let Some(mut pending) = pending {
        poll_fn(|cx| pending.poll(call.worker, &mut None, cx)).await;
        pending.reply(call.worker, call.session, call.reply.output());
    }
    Ok(())
}

async fn watch(call: &mut CommandContext<'_>) -> CommandResult {
    let group = call.group();
    let keys: Vec<bytes::Bytes> = call.command.keys.of(call.args).map(bytes::Bytes::copy_from_slice).collect();
    let _held = group.hold(&keys).await?;
    let mut found = Vec::with_capacity(keys.len());
    match group.shared() {
        Some(store) => {
            for key in &keys {
                found.push(store.read(key).await?);
            }
        }
        None => {
            let entries = group.load(group.local()?, &keys).await?;
            found.extend(entries.into_iter().map(|entry| (entry, Revision(None))));
        }
    }
    let mut watched = match mem::take(&mut call.session.watch) {
        Watch::Store(watched) => watched,
        _ => group.watch(),
    };
    for (key, (entry, revision)) in keys.iter().zip(found) {
        watched.add(key, entry.as_ref(), revision);
    }
    call.session.watch = Watch::Store(watched);
    call.reply.ok();
    Ok(())
}
