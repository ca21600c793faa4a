//! The functions of the commands: one entry for each row of the table.
use super::{
    command::{Command, Flags},
    command_context::CommandContext,
    command_error::{CommandError, CommandResult},
    command_flow::{Flow, Later},
    command_lookup::COUNT,
    command_table::for_all_commands,
    commands::{
        acl, client, client_pause, client_unblock, config,
        config_larder::{self, Whose},
        connection, expire, explain, hotkeys, increments, info, introspection, json, keys, keyspace, latency,
        maintenance, merged_replies, object, persistence, pubsub, replication, scan, select, server, slowlog, strings,
        subscriptions, tags, upstream_hello_auth, upstream_tracking, value_writes,
    },
};
use larder_core::{app::Worker, read::KeyGuard};
use larder_engine::{Millis, Tier};
use larder_proto::resp::Args;
use larder_source::LocalFuture;
use std::rc::Rc;

/// Begins a command, and mostly ends it.
pub(super) type LocalFn = fn(&mut CommandContext<'_>) -> Result<Flow, CommandError>;
/// Runs a command that has to wait, after all commands before it are answered.
pub(super) type LaterFn = for<'a> fn(&'a mut CommandContext<'_>) -> Later<'a>;
/// Runs a command on entries, under the locks of the memory tier.
pub(super) type TierFn = fn(&mut CommandContext<'_>, &mut Tier<'_>) -> CommandResult;
/// For a command that the source answered with `+OK`: the new value of its key and its expiry, if
/// the command says them.
pub(super) type StoredFn = for<'a> fn(&CommandContext<'a>) -> Option<(&'a [u8], Option<Millis>)>;
/// Runs a command on the keyspace of a local store. Commands that delete keys get the guard that
/// locks all keys.
pub(super) type KeyspaceFn =
    for<'a> fn(&'a mut CommandContext<'_>, Option<&'a Rc<KeyGuard>>) -> LocalFuture<'a, CommandResult>;

/// The functions of one command.
#[derive(Debug)]
pub(super) enum Handler {
    /// Concerns the connection or the server.
    Local(LocalFn),
    /// Like `Local`. With a Redis source it may have to wait.
    LocalThen(LocalFn, LaterFn),
    /// Like `Local`. With a Redis source its arguments decide whether Larder or Redis answers.
    Shared(LocalFn, fn(Args<'_>) -> Whose),
    /// Like `LocalThen`. In a transaction on memory the third function runs, under its locks.
    LocalThenOrTier(LocalFn, LaterFn, TierFn),
    /// Like `Local`. In a transaction on memory the second function runs, under its locks.
    LocalOrTier(LocalFn, TierFn),
    /// Both `LocalThen` and `Shared`.
    SharedThen(LocalFn, LaterFn, fn(Args<'_>) -> Whose),
    /// Works on entries.
    Tier(TierFn),
    /// Works on entries, and says what it stored.
    Store(TierFn, StoredFn),
    /// Like `Tier`. At a source that has nothing but values, the second function writes them.
    TierOrValues(TierFn, LaterFn),
    /// Like `Store`, and the third function writes values.
    StoreOrValues(TierFn, StoredFn, LaterFn),
    /// Works on the keyspace. With a local store, the second function runs on the whole store.
    Keyspace(TierFn, KeyspaceFn),
    /// Has no function of its own.
    None,
}

macro_rules! handlers {
    ($($group:literal { $(
        $name:literal $arity:literal [$($flag:ident)*] $leaves:ident ($first:literal $last:literal $step:literal) $since:literal
            $kind:ident $(($($function:tt)*))?, $summary:literal;
    )* })*) => {
        [$($( handler!($kind $(($($function)*))?), )*)*]
    };
}
macro_rules! handler {
    (Transaction $step:tt) => {
        Handler::None
    };
    ($kind:ident $functions:tt) => {
        Handler::$kind $functions
    };
    ($kind:ident) => {
        Handler::None
    };
}

static HANDLERS: [Handler; COUNT] = for_all_commands!(handlers);

/// The functions of a command. [`Handler::None`] for a command that Larder does not have.
#[inline]
pub(super) fn handler(command: &Command) -> &'static Handler {
    HANDLERS.get(usize::from(command.index)).unwrap_or(&Handler::None)
}

impl Handler {
    /// The function that runs on the memory tier.
    #[inline]
    pub(super) fn on_tier(&self) -> Option<TierFn> {
        match self {
            Handler::Tier(run)
            | Handler::TierOrValues(run, _)
            | Handler::Store(run, _)
            | Handler::StoreOrValues(run, ..)
            | Handler::Keyspace(run, _) => Some(*run),
            _ => None,
        }
    }
    /// The function of a command on the connection or the server.
    #[inline]
    pub(super) fn local(&self) -> Option<LocalFn> {
        match self {
            Handler::Local(begin)
            | Handler::LocalThen(begin, _)
            | Handler::LocalThenOrTier(begin, ..)
            | Handler::LocalOrTier(begin, _)
            | Handler::Shared(begin, _)
            | Handler::SharedThen(begin, ..) => Some(*begin),
            _ => None,
        }
    }
    /// The function of a local command that runs under the locks of a transaction.
    pub(super) fn in_transaction(&self) -> Option<TierFn> {
        match self {
            Handler::LocalThenOrTier(_, _, run) | Handler::LocalOrTier(_, run) => Some(*run),
            _ => None,
        }
    }
    /// The function that writes to a source of values.
    pub(super) fn at_value_source(&self) -> Option<LaterFn> {
        match self {
            Handler::TierOrValues(_, write) | Handler::StoreOrValues(_, _, write) => Some(*write),
            _ => None,
        }
    }
    /// The function that waits.
    pub(super) fn later(&self) -> Option<LaterFn> {
        match self {
            Handler::LocalThen(_, run) | Handler::LocalThenOrTier(_, run, _) | Handler::SharedThen(_, run, _) => {
                Some(*run)
            }
            _ => None,
        }
    }
}

/// What a command stored, if the source answered it with `+OK`.
pub(super) fn stored<'a>(call: &CommandContext<'a>) -> Option<(&'a [u8], Option<Millis>)> {
    match handler(call.command) {
        Handler::Store(_, stored) | Handler::StoreOrValues(_, stored, _) => stored(call),
        _ => None,
    }
}

/// Whether an upstream Redis, if there is one, answers this command.
pub(super) fn at_source(worker: &Worker, command: &Command, args: Args<'_>) -> bool {
    match handler(command) {
        _ if command.flags.has(Flags::USERS) => !worker.app.users.are_own(),
        Handler::Shared(_, whose) | Handler::SharedThen(_, _, whose) => whose(args) == Whose::Redis,
        _ => command.flags.has(Flags::AT_SOURCE),
    }
}

/// Whether the upstream answers this command within MULTI.
pub(super) fn at_source_in_multi(command: &Command, args: Args<'_>) -> bool {
    command.flags.has(Flags::MERGED)
        && match handler(command) {
            Handler::Shared(_, whose) | Handler::SharedThen(_, _, whose) => whose(args) != Whose::Larder,
            _ => true,
        }
}
