//! Commands that Larder does not know: a Redis source may. They are sent on as they came; which keys they touch, the source's own
//! table of commands says.
use super::{
    command::{Command, Flags, Keys, Kind},
    command_error::{CommandError, NOT_IN_MULTI, arity, unknown, unknown_sub},
    session::Session,
};
use crate::{
    app::Worker,
    source::{ForwardRule, KnownKeys, LARGE, UpstreamCommand, UpstreamCommands},
};
use larder_proto::resp::Args;

/// Stands for each of them.
pub(super) static FORWARDED: Command = Command {
    name: "forwarded",
    arity: -1,
    flags: Flags::NONE,
    keys: Keys { first: 0, last: 0, step: 0 },
    since: "",
    group: "",
    summary: "",
    kind: Kind::Forward,
    index: u16::MAX - 1,
    is_sub: false,
    is_parent: false,
};

/// Is this command, which Larder does not know, the source's to answer? What is said of a connection concerns the client's, which is ours.
pub(super) fn is_forwarded(worker: &Worker, args: &Args<'_>) -> bool {
    worker.groups[0].source.as_redis().is_some() && !args[0].eq_ignore_ascii_case(b"client")
}

/// Refuses a command that may not go to the source, by the source's table of commands; as far as that can be said if the table is not known
/// (`None`).
pub(super) fn check(session: &Session, known: Option<&UpstreamCommands>, args: Args<'_>) -> Result<(), CommandError> {
    let row = known.and_then(|known| known.find(args));
    match passage(row, args) {
        ForwardRule::Free => {}
        ForwardRule::Admin if session.access.forwards_admin() => {}
        refused => return Err(CommandError::Told(refused.refusal(args))),
    }
    let Some(known) = known else { return Ok(()) };
    session.access.check_forwarded(args, row)?;
    // A line of words may be anything: what a browser was made to send, another protocol, a slip of the hand.
    if args.is_inline() {
        check_whole(known, args)?;
    }
    Ok(())
}

fn passage(row: Option<&UpstreamCommand>, args: Args<'_>) -> ForwardRule {
    row.map_or_else(|| ForwardRule::by_name(args), |row| row.forward_rule(args))
}

/// Refuses what the source would not begin to run.
fn check_whole<'k>(known: &'k UpstreamCommands, args: Args<'_>) -> Result<&'k UpstreamCommand, CommandError> {
    match known.find(args) {
        None => Err(unknown(&args)),
        Some(row) if row.lacks(args) => Err(unknown_sub(&row.name, &args[1])),
        Some(row) if !row.takes(args.len()) => Err(arity(&row.name)),
        Some(row) => Ok(row),
    }
}

/// Refuses what the source would not queue in a transaction.
pub(super) fn check_queued(known: &UpstreamCommands, args: Args<'_>) -> Result<(), CommandError> {
    match check_whole(known, args)?.no_multi {
        true => Err(NOT_IN_MULTI),
        false => Ok(()),
    }
}

/// What a command does at the source besides touching keys.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Reach {
    /// It may write any key.
    pub(super) everything: bool,
    /// It may wait for something to happen.
    pub(super) blocks: bool,
    /// It may keep the source busy for long.
    pub(super) slow: bool,
    /// It may not share a connection with other clients' commands.
    pub(super) apart: Option<Apart>,
}

/// Why a command goes on a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Apart {
    /// It is large or may wait: on its way it would keep others waiting, and a server that takes less hangs up. Afterwards the connection
    /// is as new.
    Alone,
    /// It is an administrator's, or unknown: it may leave the connection in any state.
    Unsafe,
}
impl Apart {
    /// So many bytes of arguments.
    pub(super) fn of_size(bytes: usize) -> Option<Apart> {
        (bytes > LARGE).then_some(Apart::Alone)
    }
}

/// Bytes of a command as it is sent, roughly.
fn size(args: Args<'_>) -> usize {
    /// `$LENGTH` and two line ends.
    const HEADER: usize = 8;
    args.from(0).map(|part| part.len() + HEADER).sum()
}

/// Gives each key that a command touches to `each`, and whether it may write it: by our table, or for one that is forwarded by the source's
/// (`None`: not known, nor then what it does). One that is not in there changes nothing: the source refuses it.
pub(super) fn touched<'a>(
    command: &Command,
    known: Option<&UpstreamCommands>,
    args: Args<'a>,
    mut each: impl FnMut(&'a [u8], bool),
) -> Option<Reach> {
    if command.kind != Kind::Forward {
        let (writes, flushes) = (command.flags.has(Flags::WRITE), command.flags.has(Flags::FLUSH));
        command.keys.of(args).for_each(|key| each(key, writes));
        let slow = command.flags.has(Flags::SLOW);
        return Some(Reach { everything: flushes, blocks: false, slow, apart: Apart::of_size(size(args)) });
    }
    let known = known?;
    let Some(command) = known.find(args) else {
        let everything = known.is_empty();
        // Where the server shows no table, it is likely one of those that everybody uses, and may wait for something.
        let apart = Some(if everything { Apart::Alone } else { Apart::Unsafe });
        return Some(Reach { everything, apart, ..Reach::default() });
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
        apart,
    })
}
