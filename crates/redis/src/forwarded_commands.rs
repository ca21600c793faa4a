//! Forwarded commands: commands that Larder does not have and sends to a Redis source unchanged.
//! The source's own command table says which keys they touch.
use super::{
    command::{Command, CommandKind, Flags, Keys, Leaves},
    command_lookup::MAX_NAME,
    command_outcome::{CommandError, NOT_IN_MULTI, arity, unknown, unknown_sub},
    session::Session,
};
use larder_core::app::Worker;
use larder_proto::resp::Args;
use larder_source::{BusyFor, ForwardRule, KnownKeys, LARGE, SourceKind, UpstreamCommand, UpstreamCommands};

/// The row that stands for every forwarded command.
pub(super) static FORWARDED: Command = Command {
    name: "forwarded",
    arity: -1,
    flags: Flags::NONE,
    leaves: Leaves::Nothing,
    keys: Keys { first: 0, last: 0, step: 0 },
    since: "",
    group: "",
    summary: "",
    kind: CommandKind::Forward,
    index: u16::MAX - 1,
    is_sub: false,
    is_parent: false,
};

/// Whether the source answers this command, which Larder does not have. CLIENT commands stay here:
/// they concern Larder's own connection with the client.
pub(super) fn is_forwarded(worker: &Worker, args: &Args<'_>) -> bool {
    worker.groups.default().source.as_redis().is_some() && !args[0].eq_ignore_ascii_case(b"client")
}

/// Whether there is no source, and a Redis as source would answer this command, which Larder does
/// not have.
pub(super) fn is_redis_only(worker: &Worker, args: &Args<'_>) -> bool {
    let is_known = |name: &str| worker.app.users.catalog().is_command(&name.to_ascii_lowercase());
    matches!(worker.groups.default().source.kind(), SourceKind::Memory)
        && forward_rule(None, *args) == ForwardRule::Free
        && str::from_utf8(&args[0]).is_ok_and(|name| name.len() <= MAX_NAME && is_known(name))
}

/// Refuses a command that may not go to the source, by the source's command table. With `known` at
/// `None` (not yet read) only the command's name decides.
pub(super) fn check(session: &Session, known: Option<&UpstreamCommands>, args: Args<'_>) -> Result<(), CommandError> {
    let row = known.and_then(|known| known.find(args));
    match forward_rule(row, args) {
        ForwardRule::Free => {}
        ForwardRule::Admin if session.access.forwards_admin() => {}
        refused => return Err(CommandError::Owned(refused.refusal(args))),
    }
    let Some(known) = known else { return Ok(()) };
    session.access.check_forwarded(args, row)?;
    // An inline command may be anything: a request that a browser was tricked into, another protocol, a
    // typing error.
    if args.is_inline() {
        check_whole(known, args)?;
    }
    Ok(())
}

fn forward_rule(row: Option<&UpstreamCommand>, args: Args<'_>) -> ForwardRule {
    row.map_or_else(|| ForwardRule::by_name(args), |row| row.forward_rule(args))
}

/// Refuses a command that the source would refuse before running it.
fn check_whole<'k>(known: &'k UpstreamCommands, args: Args<'_>) -> Result<&'k UpstreamCommand, CommandError> {
    match known.find(args) {
        None => Err(unknown(&args)),
        Some(row) if row.lacks(args) => Err(unknown_sub(&row.name, &args[1])),
        Some(row) if !row.takes(args.len()) => Err(arity(&row.name)),
        Some(row) => Ok(row),
    }
}

/// Refuses a command that the source would not queue in a transaction.
pub(super) fn check_queued(known: &UpstreamCommands, args: Args<'_>) -> Result<(), CommandError> {
    if check_whole(known, args)?.no_multi { Err(NOT_IN_MULTI) } else { Ok(()) }
}

/// What a command does at the source besides touching its keys.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Reach {
    /// It may write any key.
    pub(super) everything: bool,
    /// It may block until something happens.
    pub(super) blocks: bool,
    /// It may keep the source busy for long, and travels apart from commands that do not.
    pub(super) slow: bool,
    /// For how long it may keep the source busy; `None`: no longer than any command.
    pub(super) busy: Option<BusyFor>,
    /// It may touch more keys than it names.
    pub(super) touches_others: bool,
    /// It publishes a message, or may.
    pub(super) publishes: bool,
    /// It may not share a connection with other clients' commands.
    pub(super) apart: Option<Apart>,
}

/// Why a command gets a connection for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Apart {
    /// It is large or may wait. On a shared connection it would delay other clients, and a server
    /// with lower limits would close that connection. Afterwards the connection can be used
    /// again.
    Alone,
    /// It is an administrator's command, or unknown. It may leave the connection in any state.
    Unsafe,
}
impl Apart {
    /// The reason for a command with this many bytes of arguments, if they are one.
    pub(super) fn of_size(bytes: usize) -> Option<Apart> {
        (bytes > LARGE).then_some(Apart::Alone)
    }
}

/// The approximate size of the encoded command in bytes.
fn size(args: Args<'_>) -> usize {
    /// `$LENGTH` and two line ends.
    const HEADER: usize = 8;
    args.from(0).map(|part| part.len() + HEADER).sum()
}

/// Calls `each` for each key that a command touches, and says whether the command may write it. A
/// forwarded command is looked up in the source's table. `None` means that the table is not known,
/// and so neither is the command's reach. A command that is missing from that table changes
/// nothing, because the source refuses it.
pub(super) fn touched<'a>(
    command: &Command,
    known: Option<&UpstreamCommands>,
    args: Args<'a>,
    mut each: impl FnMut(&'a [u8], bool),
) -> Option<Reach> {
    if command.kind != CommandKind::Forward {
        let (writes, flushes) = (command.flags.has(Flags::WRITE), command.flags.has(Flags::FLUSH));
        command.keys.of(args).for_each(|key| each(key, writes));
        let slow = command.flags.has(Flags::SLOW);
        // The cost of commands on strings does not grow with what is stored.
        let may_take_time = !command.flags.has(Flags::FAST) && command.group != "string";
        let busy = if slow { Some(BusyFor::Long) } else { may_take_time.then_some(BusyFor::Moment) };
        let apart = Apart::of_size(size(args));
        return Some(Reach { everything: flushes, slow, busy, apart, ..Reach::default() });
    }
    let known = known?;
    let Some(command) = known.find(args) else {
        let everything = known.is_empty();
        // A server that shows no table is likely asked for a common command, and that command may block.
        let apart = Some(if everything { Apart::Alone } else { Apart::Unsafe });
        // So its silence is explained by no command.
        let busy = (!everything).then_some(BusyFor::Long);
        return Some(Reach { everything, apart, busy, touches_others: true, publishes: true, ..Reach::default() });
    };
    let apart = match command.forward_rule(args) {
        ForwardRule::Free => Apart::of_size(size(args)),
        ForwardRule::Admin | ForwardRule::Never => Some(Apart::Unsafe),
    };
    let keys = command.keys(args, |at, written| {
        if let Some(key) = args.get(at) {
            each(key, written);
        }
    });
    Some(Reach {
        everything: keys == KnownKeys::Everything,
        blocks: command.blocks(args),
        slow: command.is_slow(),
        busy: if apart == Some(Apart::Unsafe) { Some(BusyFor::Long) } else { command.busy() },
        touches_others: command.touches_others() || apart == Some(Apart::Unsafe),
        publishes: command.publishes(),
        apart,
    })
}
