//! Commands on a store that other programs change as well. One key can be changed as one, several
//! cannot.
use super::scratch::{Scratch, WantedKey, wanted};
use crate::{
    command::{CommandKind, Flags},
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
    command_queue::CommandQueue,
    executor::local_store::store_executor,
    transaction::{self, TransactionReplies},
};
use larder_core::read::{Group, KeyGuard, WatchedKeys, overtaken};
use larder_source::Revision;
use larder_store::clock;
use std::{rc::Rc, time::Instant};

const SEVERAL_KEYS: CommandError = CommandError::Static(
    "ERR the source is a cluster, which changes one key at a time: no command but MSET and DEL changes several",
);
const SEVERAL_KEYS_IN_EXEC: CommandError = CommandError::Static(
    "ERR the source is a cluster, which changes one key at a time: a transaction has one key, which is also the one that is watched",
);
const KEYSPACE_IN_EXEC: CommandError =
    CommandError::Static("ERR the source is a cluster: a transaction has no commands on all keys");

/// Runs a command on keys.
pub(super) async fn run(call: &mut CommandContext<'_>) -> Done {
    let mut queue = CommandQueue::default();
    queue.push(call.command, call.args);
    let (group, actor) = (call.group(), call.session.actor());
    let keys = wanted(group, queue.iter());
    let held = group.hold(keys.iter().map(|wanted| &wanted.key)).await?;
    // What a command overwrites or deletes unread, it writes whatever is there. So does any command once
    // the locks are enough: a store of this machine has taken the cluster's place.
    let is_plain = group.shared().is_none() || keys.iter().all(WantedKey::is_unread);
    if is_plain || call.command.flags.has(Flags::READONLY) {
        let mut scratch = Scratch::load(group, keys).await?;
        let flow = scratch.run(call)?;
        group.commit(&held, scratch.changes(), actor, Vec::new()).await?;
        return Ok(flow);
    }
    let Ok(Some(key)) = one_key(keys, None) else { return Err(SEVERAL_KEYS) };
    let begin = call.reply.output().mark();
    let mut ended = Ok(Flow::Done);
    change(group, &held, key, None, actor, |scratch| {
        call.reply.output().truncate(begin);
        ended = scratch.run(call);
        ended.is_ok()
    })
    .await?;
    ended
}

/// EXEC.
pub(super) async fn exec(call: &mut CommandContext<'_>, queue: &CommandQueue, watch: Option<WatchedKeys>) -> Done {
    let group = call.group();
    if queue.iter().any(|(command, _)| command.is_keyspace()) {
        return Err(KEYSPACE_IN_EXEC);
    }
    let key = one_key(wanted(group, queue.iter()), watch.as_ref()).map_err(|()| SEVERAL_KEYS_IN_EXEC)?;
    let held = group.hold(key.iter().map(|wanted| &wanted.key)).await?;
    call.now = clock::now();
    let mut replies = TransactionReplies::default();
    let begin = call.reply.output().mark();
    if watch.as_ref().is_some_and(|watch| watch.is_broken(call.now)) {
        call.reply.null_array();
        return Ok(Flow::Done);
    }
    if group.shared().is_none() {
        // A store of this machine has taken the cluster's place. That breaks each watch.
        return store_executor::run_held(call, queue, &held).await;
    }
    let Some(key) = key else {
        for key in watch.iter().flat_map(WatchedKeys::keys) {
            let store = group.shared().ok_or_else(overtaken)?;
            if Some(store.read(key).await?.1) != watch.as_ref().and_then(|watch| watch.revision(key)) {
                call.reply.null_array();
                return Ok(Flow::Done);
            }
        }
        call.reply.array(queue.len());
        for (command, args) in queue.iter() {
            replies.run(call, command, args, without_keys);
        }
        return Ok(replies.flow());
    };
    let revision = watch.as_ref().and_then(|watch| watch.revision(&key.key));
    let actor = call.session.actor();
    let done = change(group, &held, key, revision, actor, |scratch| {
        call.reply.output().truncate(begin);
        replies = TransactionReplies::default();
        call.reply.array(queue.len());
        for (command, args) in queue.iter() {
            replies.run(call, command, args, |call| match command.kind {
                CommandKind::Local => transaction::run_local(call),
                CommandKind::Transaction(_) => transaction::unwatch(call),
                _ => scratch.run(call),
            });
        }
        true
    });
    let is_done = done.await?;
    if is_done {
        return Ok(replies.flow());
    }
    call.reply.output().truncate(begin);
    call.reply.null_array();
    Ok(Flow::Done)
}

/// Loads a key, has `run` change it, and commits: again and again until no other client is faster.
/// False: the key has not the revision `watched` (`None`: any will do). A `run` that returns false
/// changes nothing.
async fn change(
    group: &Rc<Group>,
    held: &Rc<KeyGuard>,
    key: WantedKey,
    watched: Option<Revision>,
    actor: u64,
    mut run: impl FnMut(&mut Scratch) -> bool,
) -> Result<bool, CommandError> {
    let until = Instant::now() + group.local()?.patience(false);
    let mut key = Some(key);
    loop {
        let wanted = key.take().expect("given back");
        let store = group.shared().ok_or_else(overtaken)?;
        let (entry, revision) = store.read(&wanted.key).await?;
        if watched.is_some_and(|watched| watched != revision) {
            return Ok(false);
        }
        let mut scratch = Scratch::of(group, wanted, entry);
        if !run(&mut scratch) {
            return Ok(true);
        }
        let Some((name, to)) = scratch.changes().pop() else { return Ok(true) };
        if group.commit_if(held, name, to, revision, actor).await? {
            return Ok(true);
        }
        if watched.is_some() {
            return Ok(false);
        }
        if Instant::now() >= until {
            return Err(overtaken().into());
        }
        key = scratch.into_key();
    }
}

/// The only key of commands and of a watch; `None`: they have none.
fn one_key(mut keys: Vec<WantedKey>, watch: Option<&WatchedKeys>) -> Result<Option<WantedKey>, ()> {
    let key = keys.pop();
    let is_other = |other: &[u8]| key.as_ref().is_some_and(|key| key.key != other);
    match keys.is_empty() && !watch.into_iter().flat_map(WatchedKeys::keys).any(is_other) {
        true => Ok(key),
        false => Err(()),
    }
}

fn without_keys(call: &mut CommandContext<'_>) -> Done {
    match call.command.kind {
        CommandKind::Local => transaction::run_local(call),
        CommandKind::Transaction(_) => transaction::unwatch(call),
        _ => crate::executor::tier_commands::answer_without_entries(call).map(|_| Flow::Done),
    }
}
