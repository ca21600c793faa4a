//! The functions of the commands: one entry for each row of the table.
use crate::{
    command::{Command, Flags},
    command_context::CommandContext,
    command_lookup::COUNT,
    command_outcome::{Done, Later},
    command_table::for_all_commands,
    commands::{
        acl, bit_fields, bits, bounded_increments, client, cluster, comparisons, config,
        config_larder::{self, Whose},
        connection, dumps,
        expire::{self, Since},
        hotkeys, hyperloglogs, increments, info, introspection, json, keys, keyspace, latency, maintenance,
        merged_replies, object, pubsub, replication, scan, server, slowlog, strings, subscriptions, tags,
        upstream_tracking,
    },
};
use larder_core::{
    app::Worker,
    clients::SubscriptionKind::{Channel as CHANNEL, Pattern as PATTERN, Shard as SHARD},
};
use larder_document::NumberEdit;
use larder_engine::{Millis, Tier};
use larder_proto::resp::Args;

/// Runs a command that has to wait, after all commands before it are answered.
pub(super) type LaterFn = for<'a> fn(&'a mut CommandContext<'_>) -> Later<'a>;
/// Runs a command on entries, under the locks of the memory tier.
pub(super) type TierFn = fn(&mut CommandContext<'_>, &mut Tier<'_>) -> Done;
/// The value that a command stores, and until when.
pub(super) type Stored<'a> = Option<(&'a [u8], Option<Millis>)>;

#[derive(Debug, Clone, Copy)]
pub(super) struct Functions {
    /// Begins a command on the connection or the server, and mostly ends it.
    pub(super) local: Option<fn(&mut CommandContext<'_>) -> Done>,
    /// For a command on the connection or the server that had to wait.
    pub(super) later: Option<LaterFn>,
    /// Runs on entries. For a command on the connection or the server: in a transaction on memory.
    pub(super) tier: Option<TierFn>,
    /// With a Redis source the arguments decide whether Larder or Redis answers.
    whose: Option<fn(Args<'_>) -> Whose>,
    /// What the command stored, if the source answered it with `+OK`, as far as its arguments tell.
    stored: Option<for<'a> fn(&CommandContext<'a>) -> Stored<'a>>,
    /// At a source that has nothing but values: writes them.
    pub(super) values: Option<LaterFn>,
    /// With a local store: runs on the whole store.
    pub(super) keyspace: Option<LaterFn>,
}

const NONE: Functions =
    Functions { local: None, later: None, tier: None, whose: None, stored: None, values: None, keyspace: None };

macro_rules! handlers {
    ($($group:literal { $(
        $name:literal $arity:literal [$($flag:ident)*] $leaves:ident ($first:literal $last:literal $step:literal) $since:literal
            $kind:ident $(($($function:tt)*))?, $summary:literal;
    )* })*) => {
        [$($( functions!($kind $(($($function)*))?), )*)*]
    };
}
macro_rules! functions {
    (Local($run:expr $(, $field:ident = $function:expr)*)) => {
        Functions { local: Some($run), $($field: Some(function!($field $function)),)* ..NONE }
    };
    (Tier($run:expr $(, $field:ident = $function:expr)*)) => {
        Functions { tier: Some($run), $($field: Some(function!($field $function)),)* ..NONE }
    };
    ($kind:ident $($step:tt)?) => {
        NONE
    };
}
macro_rules! function {
    (tier $run:expr) => {
        $run
    };
    (whose $whose:expr) => {
        $whose
    };
    (stored $stored:expr) => {
        $stored
    };
    // The others are asynchronous.
    ($field:ident $run:expr) => {
        |call| Box::pin($run(call))
    };
}

static FUNCTIONS: [Functions; COUNT] = for_all_commands!(handlers);

/// The functions of a command. A command that Larder does not have has none.
#[inline]
pub(super) fn functions(command: &Command) -> &'static Functions {
    static OF_OTHERS: Functions = NONE;
    FUNCTIONS.get(usize::from(command.index)).unwrap_or(&OF_OTHERS)
}

/// What a command stored, if the source answered it with `+OK`.
pub(super) fn stored<'a>(call: &CommandContext<'a>) -> Stored<'a> {
    functions(call.command).stored.and_then(|stored| stored(call))
}

/// Whether an upstream Redis, if there is one, answers this command.
pub(super) fn at_source(worker: &Worker, command: &Command, args: Args<'_>) -> bool {
    match functions(command).whose {
        _ if command.flags.has(Flags::USERS) => !worker.app.users.are_own(),
        Some(whose) => whose(args) == Whose::Redis,
        None => command.flags.has(Flags::AT_SOURCE),
    }
}

/// Whether the upstream answers this command within MULTI.
pub(super) fn at_source_in_multi(command: &Command, args: Args<'_>) -> bool {
    let whose = functions(command).whose;
    command.flags.has(Flags::MERGED) && whose.is_none_or(|whose| whose(args) != Whose::Larder)
}
