//! Commands on the memory tier when it has all entries.
//!
//! A transaction locks everything that its commands and the watched keys touch. Each of its
//! commands then runs as it would run alone.
use crate::{
    command::{Command, CommandKind, Flags},
    command_context::CommandContext,
    command_handlers::functions,
    command_outcome::{Done, Flow, arity, unknown},
    command_queue::CommandQueue,
    commands::scan,
    executor::tier_commands::{on_tier, run_on},
    session::{KeyVersions, Watch},
    transaction::{self, TransactionReplies},
};
use indexmap::IndexMap;
use larder_engine::{Cache, Key, Tier};
use std::mem;

#[inline]
pub(crate) fn begin(call: &mut CommandContext<'_>) -> Done {
    if takes_turns(call.command) {
        return call.alone();
    }
    call.check_keys()?;
    on_tier(call)?(call, &mut call.lock())?;
    Ok(Flow::Done)
}

/// Notes the command's reads before another client can change the keys.
pub(crate) fn begin_tracked(call: &mut CommandContext<'_>) -> Option<Done> {
    (!takes_turns(call.command)).then(|| run_tracked(call))
}

pub(crate) fn watch(call: &mut CommandContext<'_>) -> Done {
    let mut watched = match mem::take(&mut call.session.watch) {
        Watch::Versions(watched) => watched,
        _ => KeyVersions::default(),
    };
    let (cache, now, mut tier) = (call.cache(), call.now, call.lock());
    for key in call.command.keys.of(call.args) {
        if !watched.keys.contains_key(key) {
            watched.keys.insert(key.into(), version(&mut tier, cache.key(key), now));
            watched.owned += key.len() + 128;
        }
    }
    call.session.watch = Watch::Versions(watched);
    call.ok()
}

pub(crate) fn exec(call: &mut CommandContext<'_>) -> Done {
    let (queue, watch) = transaction::end(call);
    let watched = if let Watch::Versions(watched) = watch { watched } else { KeyVersions::default() };
    exec_queue(call, &queue, &watched.keys)
}

pub(crate) async fn run(call: &mut CommandContext<'_>) -> Done {
    if takes_turns(call.command) { scan::keys_in_turns(call).await } else { Err(unknown(&call.args)) }
}

/// Runs the commands of a transaction, unless a watched key has another version than at WATCH.
pub(super) fn exec_queue(
    call: &mut CommandContext<'_>,
    queue: &CommandQueue,
    watched: &IndexMap<Box<[u8]>, u64>,
) -> Done {
    let cache = call.cache();
    let actor = call.session.actor();
    let lock = || {
        let mut tier = lock(cache, queue, watched);
        tier.act_as(actor);
        tier
    };
    let mut tier = Some(lock());
    let now = call.now;
    let is_unchanged = |tier: &mut Tier<'_>| {
        watched.iter().all(|(key, version_then)| version(tier, cache.key(key), now) == *version_then)
    };
    if !tier.as_mut().is_none_or(is_unchanged) {
        call.reply.null_array();
        return Ok(Flow::Done);
    }
    call.reply.array(queue.len());
    let mut replies = TransactionReplies::default();
    for (command, args) in queue.iter() {
        replies.run(call, command, args, |call| {
            if command.kind == CommandKind::Local && command.flags.has(Flags::UNLOCKED) {
                // The command takes the engine's locks itself. The commands after it are atomic again.
                tier = None;
                return run_queued(call, None);
            }
            run_queued(call, Some(tier.get_or_insert_with(lock)))
        });
        // The locks are still held.
        call.session.note_read(command, args);
    }
    Ok(replies.flow())
}

fn run_queued(call: &mut CommandContext<'_>, tier: Option<&mut Tier<'_>>) -> Done {
    match (call.command.kind, tier) {
        (CommandKind::Local, tier) => match (functions(call.command).tier, tier) {
            (Some(run), Some(tier)) => run(call, tier),
            _ => transaction::run_local(call),
        },
        (CommandKind::Transaction(_), _) => transaction::unwatch(call),
        (CommandKind::Tier | CommandKind::Get | CommandKind::MultiGet, Some(tier)) => run_on(call, tier),
        (CommandKind::Forward, _) => Err(unknown(&call.args)),
        _ => Err(arity(call.command.name)),
    }
}

fn run_tracked(call: &mut CommandContext<'_>) -> Done {
    call.check_keys()?;
    let keys = call.command.keys.of(call.args);
    let mut tier = match keys.len() {
        0 => call.cache().tier(),
        _ => call.cache().exclusive(keys.map(|key| call.cache().key(key))),
    };
    call.session.act(&mut tier);
    let answer = run_on(call, &mut tier);
    call.session.note_read(call.command, call.args);
    answer
}

/// Whether other clients have their turns while the command runs. It reads no keys that a client may
/// track.
pub(crate) fn takes_turns(command: &Command) -> bool {
    command.name == "keys"
}

/// The version of the entry, or 0 if there is none.
fn version(tier: &mut Tier<'_>, key: Key<'_>, now: u64) -> u64 {
    tier.peek(key, now, |entry| entry.version()).unwrap_or(0)
}

/// Locks everything that the commands and the watched keys touch.
fn lock<'c>(cache: &'c Cache, queue: &CommandQueue, watched: &IndexMap<Box<[u8]>, u64>) -> Tier<'c> {
    // A clear of a tag concerns all shards.
    let clears = |command: &Command| command.keys.first == 0 && functions(command).tier.is_some();
    let whole = |(command, _): (&Command, _)| command.flags.has(Flags::KEYSPACE) || clears(command);
    if queue.iter().any(whole) {
        return cache.exclusive_all();
    }
    let queued = queue.iter().flat_map(|(command, args)| command.keys.of(args));
    let watched = watched.keys().map(|key| &**key);
    cache.exclusive(queued.chain(watched).map(|key| cache.key(key)))
}
