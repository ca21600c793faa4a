//! What a command is, and finding one by name.
use super::{
    Flow,
    command_context::CommandContext,
    command_error::{Answer, CommandError},
    command_table::{COMMANDS, INDEX},
};
use larder_engine::Tier;
use larder_proto::resp::Args;

/// One row of the table.
#[derive(Debug)]
pub struct Command {
    /// In lower case; a subcommand has its parent's name and `|` before its own.
    pub name: &'static str,
    /// Number of parts, the name included; negative: at least as many.
    pub arity: i16,
    /// What it does, and how it must be run.
    pub flags: Flags,
    /// Where its keys are.
    pub keys: Keys,
    /// First version of Redis that had it.
    pub since: &'static str,
    /// Redis's name for its kind.
    pub group: &'static str,
    /// What it does, in our words.
    pub summary: &'static str,
    pub(super) run: Run,
    /// Its position in the table.
    pub(super) index: u16,
    /// Is it a subcommand?
    pub(super) is_sub: bool,
    /// Has it subcommands?
    pub(super) is_parent: bool,
}

/// How a command is run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Run {
    /// Needs nothing of the memory tier's locks: connection and server commands.
    Local(fn(&mut CommandContext<'_>) -> Result<Flow, CommandError>),
    /// Works on the memory tier, or goes to a Redis source verbatim.
    Tier(fn(&mut CommandContext<'_>, &mut Tier<'_>) -> Answer),
    /// GET: reads through the group; within EXEC, and without a source, on the tier.
    Get,
    /// MGET: likewise.
    MultiGet,
    /// What the session's transaction does next.
    Transaction(Transaction),
    /// Is unknown here, and goes to a Redis source verbatim.
    Forward,
    /// Only has subcommands.
    Container,
}

/// Commands around a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transaction {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// A set of properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);
#[expect(missing_docs)]
impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const WRITE: Flags = Flags(1);
    pub const READONLY: Flags = Flags(1 << 1);
    pub const DENYOOM: Flags = Flags(1 << 2);
    pub const ADMIN: Flags = Flags(1 << 3);
    pub const NOSCRIPT: Flags = Flags(1 << 4);
    pub const LOADING: Flags = Flags(1 << 5);
    pub const STALE: Flags = Flags(1 << 6);
    pub const FAST: Flags = Flags(1 << 7);
    pub const NO_AUTH: Flags = Flags(1 << 8);
    pub const NO_MULTI: Flags = Flags(1 << 9);
    pub const ALLOW_BUSY: Flags = Flags(1 << 10);
    /// Runs at once within MULTI instead of being queued.
    pub const NOT_QUEUED: Flags = Flags(1 << 16);
    /// Works on the keyspace as a whole: a transaction with it locks all of it.
    pub const KEYSPACE: Flags = Flags(1 << 17);
    /// Takes the engine's locks by itself (counters, bounds): a transaction lets go of its own before.
    pub const UNLOCKED: Flags = Flags(1 << 18);
    /// Reads one string: with a source, a copy in the tier answers it.
    pub const COPY_WILL_DO: Flags = Flags(1 << 19);
    /// Empties the keyspace.
    pub const FLUSH: Flags = Flags(1 << 20);
    /// With a Redis source it is Redis's to answer, as if it were unknown here.
    pub const AT_SOURCE: Flags = Flags(1 << 22);
    /// With a Redis source its reply is Redis's and Larder's together; within MULTI it is Redis's to answer.
    pub const MERGED: Flags = Flags(1 << 25);
    /// May be said by a client of RESP2 that has subscribed to something.
    pub const SUBSCRIBER: Flags = Flags(1 << 21);
    pub const PUBSUB: Flags = Flags(1 << 11);
    /// Unless its options say otherwise, it does not look at what its keys had.
    pub const OVERWRITES: Flags = Flags(1 << 23);
    /// It looks only whether its keys exist.
    pub const EXISTENCE: Flags = Flags(1 << 24);

    /// Both.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// Is any of `other` in it?
    #[inline]
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }
    /// The names that COMMAND INFO shows, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        const NAMES: [(Flags, &str); 12] = [
            (Flags::WRITE, "write"),
            (Flags::READONLY, "readonly"),
            (Flags::DENYOOM, "denyoom"),
            (Flags::ADMIN, "admin"),
            (Flags::PUBSUB, "pubsub"),
            (Flags::NOSCRIPT, "noscript"),
            (Flags::LOADING, "loading"),
            (Flags::STALE, "stale"),
            (Flags::FAST, "fast"),
            (Flags::NO_AUTH, "no_auth"),
            (Flags::NO_MULTI, "no_multi"),
            (Flags::ALLOW_BUSY, "allow_busy"),
        ];
        NAMES.iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| *name)
    }
}

/// Positions of a command's keys: every `step`-th part from `first` to `last` (negative: from the end). `first` 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct Keys {
    pub first: u8,
    pub last: i8,
    pub step: u8,
}
impl Keys {
    /// The keys of `args`, in order.
    #[inline]
    pub fn of<'a>(self, args: Args<'a>) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let end = match self {
            Keys { first: 0, .. } => 0,
            Keys { last, .. } if last < 0 => (args.len() + 1).saturating_sub(usize::from(last.unsigned_abs())),
            Keys { last, .. } => (last as usize + 1).min(args.len()),
        };
        args.first(end).from(usize::from(self.first)).step_by(usize::from(self.step.max(1)))
    }
}

impl Command {
    /// Does it take `parts` parts?
    #[inline]
    pub fn takes(&self, parts: usize) -> bool {
        match self.arity {
            exactly @ 0.. => parts == exactly as usize,
            at_least => parts >= usize::from(at_least.unsigned_abs()),
        }
    }
    /// Its subcommands, in the table's order.
    pub fn subcommands(&self) -> impl Iterator<Item = &'static Command> + Clone + use<> {
        let parent = self.name;
        COMMANDS.iter().filter(move |row| row.is_sub && parent_of(row.name) == parent)
    }
    /// Touches keys, or the keyspace.
    #[inline]
    pub(super) fn is_data(&self) -> bool {
        matches!(self.run, Run::Tier(_) | Run::Get | Run::MultiGet | Run::Forward)
    }
}

fn parent_of(name: &str) -> &str {
    name.split_once('|').map_or(name, |(parent, _)| parent)
}

/// Longest name that is looked up.
const MAX_NAME: usize = 32;
/// Slots of the index: a power of two, and several times the rows, so that most names are found at the first look.
const SLOTS: usize = 1024;
const EMPTY: u8 = u8::MAX;

/// Finds names in a table of rows without a loop over them: open addressing, computed when compiled.
#[derive(Debug)]
pub(super) struct Index([u8; SLOTS]);
impl Index {
    pub(super) const fn of(rows: &[Command]) -> Index {
        assert!(rows.len() < EMPTY as usize, "a row's number must fit a slot");
        let mut slots = [EMPTY; SLOTS];
        let mut row = 0;
        while row < rows.len() {
            assert!(rows[row].name.len() <= MAX_NAME, "the name is looked up");
            let mut at = slot(rows[row].name.as_bytes());
            while slots[at] != EMPTY {
                at = (at + 1) % SLOTS;
            }
            slots[at] = row as u8;
            row += 1;
        }
        Index(slots)
    }
    #[inline]
    fn find(&self, name: &[u8]) -> Option<&'static Command> {
        if name.len() > MAX_NAME {
            return None;
        }
        let mut at = slot(name);
        while self.0[at] != EMPTY {
            let row = &COMMANDS[usize::from(self.0[at])];
            if row.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some(row);
            }
            at = (at + 1) % SLOTS;
        }
        None
    }
}

/// Where a name's probe begins, whatever its case.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let mut hash = name.len() as u64;
    let mut i = 0;
    while i < name.len() {
        hash = hash.rotate_left(7) ^ (name[i] | 0x20) as u64;
        i += 1;
    }
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.trailing_zeros())) as usize
}

/// The command with this name, in any case. Subcommands are found by [`find_for`].
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    INDEX.find(name).filter(|row| !row.is_sub)
}

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
pub enum FoundCommand {
    /// This command or subcommand.
    Command(&'static Command),
    /// A subcommand that there is not, of this command.
    UnknownSub(&'static Command),
    /// A command that there is not.
    Unknown,
}

/// The command or subcommand that `args` names. `args` has at least one part.
#[inline]
pub fn find_for(args: Args<'_>) -> FoundCommand {
    match find(&args[0]) {
        None => FoundCommand::Unknown,
        Some(command) if command.is_parent && args.len() > 1 => {
            let mut name = [0; MAX_NAME];
            let (parent, sub) = (command.name.as_bytes(), &args[1]);
            let len = parent.len() + 1 + sub.len();
            if len > MAX_NAME {
                return FoundCommand::UnknownSub(command);
            }
            name[..parent.len()].copy_from_slice(parent);
            name[parent.len()] = b'|';
            name[parent.len() + 1..len].copy_from_slice(sub);
            match INDEX.find(&name[..len]) {
                Some(sub) => FoundCommand::Command(sub),
                None => FoundCommand::UnknownSub(command),
            }
        }
        Some(command) => FoundCommand::Command(command),
    }
}

/// Numbers the rows and notes which are parents and subcommands.
pub(super) const fn numbered<const N: usize>(mut rows: [Command; N]) -> [Command; N] {
    let mut row = 0;
    let mut parent = 0;
    while row < N {
        rows[row].index = row as u16;
        let name = rows[row].name.as_bytes();
        let mut i = 0;
        while i < name.len() {
            if name[i] == b'|' {
                rows[row].is_sub = true;
                rows[parent].is_parent = true;
            }
            i += 1;
        }
        if !rows[row].is_sub {
            parent = row;
        }
        row += 1;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_is_found_in_any_case() {
        for row in &COMMANDS {
            let upper = row.name.to_uppercase();
            match row.name.split_once('|') {
                None => assert_eq!(find(upper.as_bytes()).map(|c| c.name), Some(row.name)),
                Some((parent, sub)) => {
                    assert!(find(row.name.as_bytes()).is_none(), "not by itself");
                    let text = format!("{parent}{sub}");
                    let (a, b) = (parent.len() as u32, text.len() as u32);
                    let ranges = [0..a, a..b];
                    let FoundCommand::Command(found) = find_for(Args::new(text.as_bytes(), &ranges)) else {
                        panic!("{} is not found", row.name);
                    };
                    assert_eq!(found.name, row.name);
                    assert!(find(parent.as_bytes()).is_some_and(|p| p.is_parent), "{parent}");
                }
            }
            assert_eq!(&COMMANDS[usize::from(row.index)].name, &row.name);
        }
        for other in ["", "ge", "gett", "g\x05t", "GE\u{d4}", &"x".repeat(100)] {
            assert!(find(other.as_bytes()).is_none(), "{other:?}");
        }
    }

    #[test]
    fn rows_are_well_formed() {
        let mut names = HashSet::new();
        let mut parent = "";
        for row in &COMMANDS {
            assert!(names.insert(row.name), "{} twice", row.name);
            assert_eq!(row.name, row.name.to_lowercase());
            match row.name.split_once('|') {
                None => parent = row.name,
                Some((of, _)) => assert_eq!(of, parent, "subcommands follow their parent"),
            }
            let has_keys = row.keys.first > 0;
            let keyspace = row.flags.has(Flags::KEYSPACE);
            // COMMAND and its like are the source's to answer as well, and touch nothing.
            if row.is_data() && parent != "command" {
                assert!(has_keys != keyspace, "{} has keys or touches the keyspace", row.name);
                let (w, r) = (row.flags.has(Flags::WRITE), row.flags.has(Flags::READONLY));
                assert!(w != r, "{} reads or writes", row.name);
                assert!(!row.flags.has(Flags::UNLOCKED), "{}: data commands run under the lock", row.name);
            }
            assert!(!row.summary.is_empty() && !row.since.is_empty() && !row.group.is_empty());
        }
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let text = b"abcdefg";
        let ranges: Vec<_> = (0..7).map(|i| i..i + 1).collect();
        let of = |first, last, step, parts: usize| -> String {
            let args = Args::new(text, &ranges[..parts]);
            let keys = Keys { first, last, step };
            assert_eq!(keys.of(args).len(), keys.of(args).count());
            keys.of(args).map(|k| k[0] as char).collect()
        };
        assert_eq!(of(0, 0, 0, 7), "");
        assert_eq!(of(1, 1, 1, 3), "b");
        assert_eq!(of(1, 2, 1, 3), "bc");
        assert_eq!(of(1, -1, 1, 5), "bcde");
        assert_eq!(of(1, -1, 2, 5), "bd");
        assert_eq!(of(2, 2, 1, 3), "c");
        assert_eq!(of(1, -1, 1, 1), "");
        assert_eq!(of(1, 2, 1, 2), "b", "a part that is missing is no key");
    }
}
