//! All commands, and finding one by name.
use super::{
    command::{Command, CommandKind, Flags, Keys, Leaves, TransactionStep},
    command_table::for_all_commands,
};
use larder_proto::resp::Args;

macro_rules! kind {
    (Transaction($step:ident)) => {
        CommandKind::Transaction(TransactionStep::$step)
    };
    ($kind:ident $($functions:tt)?) => {
        CommandKind::$kind
    };
}
macro_rules! rows {
    ($($group:literal { $(
        $name:literal $arity:literal [$($flag:ident)*] $leaves:ident ($first:literal $last:literal $step:literal) $since:literal
            $kind:ident $(($($function:tt)*))?, $summary:literal;
    )* })*) => {
        [$($(
            Command {
                name: $name,
                arity: $arity,
                flags: Flags::NONE$(.with(Flags::$flag))*,
                leaves: Leaves::$leaves,
                keys: Keys { first: $first, last: $last, step: $step },
                since: $since,
                group: $group,
                summary: $summary,
                kind: kind!($kind $(($($function)*))?),
                index: 0,
                is_sub: false,
                is_parent: false,
            },
        )*)*]
    };
}

/// The number of commands, subcommands included.
pub(super) const COUNT: usize = 215;

/// Every command. Subcommands follow their parent.
pub static COMMANDS: [Command; COUNT] = numbered(for_all_commands!(rows));

static INDEX: Index = Index::of(&COMMANDS);

pub(super) const GET: &Command = named(b"get");
pub(super) const SET: &Command = named(b"set");

/// The command of this name, which has three letters.
const fn named(name: &[u8; 3]) -> &'static Command {
    let mut row = 0;
    while !matches!(COMMANDS[row].name.as_bytes(), [a, b, c] if *a == name[0] && *b == name[1] && *c == name[2]) {
        row += 1;
    }
    &COMMANDS[row]
}

/// The subcommands of a command, in the table's order.
pub fn subcommands(command: &Command) -> impl Iterator<Item = &'static Command> + Clone + use<> {
    let parent: &str = command.name;
    // They follow their parent.
    let behind = COMMANDS.get(usize::from(command.index) + 1..).unwrap_or_default();
    behind.iter().take_while(move |row| row.is_sub && parent_of(row.name) == parent)
}

fn parent_of(name: &str) -> &str {
    name.split_once('|').map_or(name, |(parent, _)| parent)
}

/// Maximum length of a name that is looked up.
pub(super) const MAX_NAME: usize = 32;
/// Slots of the index: a power of two, and several times the number of rows, so that most names are
/// found at the first probe.
const SLOTS: usize = 1024;
const EMPTY: u8 = u8::MAX;

/// A hash index of the names, computed at compile time (open addressing).
#[derive(Debug)]
struct Index([u8; SLOTS]);
impl Index {
    const fn of(rows: &[Command]) -> Index {
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

/// The first slot of a name. Upper and lower case give the same slot.
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

/// The command with this name, in upper or lower case. [`find_for`] finds subcommands.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    INDEX.find(name).filter(|row| !row.is_sub)
}

#[derive(Debug, Clone, Copy)]
pub enum FoundCommand {
    /// This command or subcommand.
    Command(&'static Command),
    /// An unknown subcommand of this command.
    UnknownSub(&'static Command),
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

/// Numbers the rows, and marks parents and subcommands.
const fn numbered<const N: usize>(mut rows: [Command; N]) -> [Command; N] {
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
            // COMMAND and its subcommands are data commands only because a source may answer them. They touch
            // no keys.
            if row.is_data() && parent != "command" {
                assert!(has_keys != keyspace, "{} has keys or touches the keyspace", row.name);
                let (w, r) = (row.flags.has(Flags::WRITE), row.flags.has(Flags::READONLY));
                assert!(w != r, "{} reads or writes", row.name);
                assert!(!row.flags.has(Flags::UNLOCKED), "{}: data commands run under the lock", row.name);
            }
            assert!(!row.summary.is_empty() && !row.since.is_empty() && !row.group.is_empty());
        }
    }
}
