//! What each command touches, as far as users' rules go: its keys and what it does with them, its
//! channels. The catalog of commands that rules name.
use super::{
    command::{Command, Flags},
    command_lookup::{COMMANDS, COUNT, GET},
    command_outcome::CommandError,
    value_comparison::is_comparison,
};
use larder_base::identity::{
    Beyond, CatalogRow, CommandCatalog, CommandRequest, KeyAccess, Permissions, Refusal, TouchedChannel, TouchedKey,
};
use larder_proto::resp::Args;
use larder_source::UpstreamCommand;
use smallvec::SmallVec;
use std::iter;

/// What commands do with their first key and with the others, where that does not follow from their
/// flags.
const KEYS: [(&[&str], KeyAccess, KeyAccess); 6] = [
    (
        &[
            "append",
            "mset",
            "msetex",
            "msetnx",
            "psetex",
            "set",
            "setex",
            "setnx",
            "restore",
            "setrange",
            "del",
            "expire",
            "expireat",
            "persist",
            "pexpire",
            "pexpireat",
            "pfadd",
            "unlink",
            "larder.tag",
        ],
        KeyAccess::WRITE,
        KeyAccess::WRITE,
    ),
    (
        &[
            "strlen",
            "exists",
            "object|encoding",
            "object|freq",
            "object|idletime",
            "object|refcount",
            "touch",
            "type",
            "watch",
            "memory|usage",
        ],
        KeyAccess::NONE,
        KeyAccess::NONE,
    ),
    (&["copy"], KeyAccess::READ, KeyAccess::WRITE),
    (&["bitop"], KeyAccess::WRITE, KeyAccess::READ),
    (&["pfmerge"], KeyAccess::BOTH, KeyAccess::READ),
    (&["rename", "renamenx"], KeyAccess::BOTH, KeyAccess::WRITE),
];
/// The command that also reads its key if its options have GET or compare the value.
const READS_WITH_GET: &str = "set";
/// The channels of a command: the first argument, or all.
const CHANNELS: [(&str, Channels); 5] = [
    ("publish", Channels::First),
    ("spublish", Channels::First),
    ("subscribe", Channels::All),
    ("ssubscribe", Channels::All),
    ("psubscribe", Channels::Patterns),
];
/// Commands that may touch any entry without naming its key, or show what clients do with any key.
const ANY_KEY: [(&str, KeyAccess); 5] = [
    ("larder.cleartag", KeyAccess::WRITE),
    ("monitor", KeyAccess::READ),
    ("slowlog|get", KeyAccess::READ),
    ("hotkeys|get", KeyAccess::READ),
    ("acl|log", KeyAccess::READ),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channels {
    None,
    First,
    All,
    Patterns,
}

#[derive(Debug, Clone, Copy)]
struct Rights {
    first: KeyAccess,
    others: KeyAccess,
    channels: Channels,
    beyond: Beyond,
    reads_with_get: bool,
}

/// For each row of the table.
static RIGHTS: [Rights; COUNT] = {
    let mut all = [Rights {
        first: KeyAccess::NONE,
        others: KeyAccess::NONE,
        channels: Channels::None,
        beyond: Beyond::Nothing,
        reads_with_get: false,
    }; COUNT];
    let mut row = 0;
    while row < COUNT {
        all[row] = of(&COMMANDS[row]);
        row += 1;
    }
    all
};

const fn of(command: &Command) -> Rights {
    let access = if command.flags.has(Flags::WRITE) { KeyAccess::BOTH } else { KeyAccess::READ };
    let mut rights = Rights {
        first: access,
        others: access,
        channels: Channels::None,
        beyond: Beyond::Nothing,
        reads_with_get: same(command.name, READS_WITH_GET),
    };
    let mut i = 0;
    while i < KEYS.len() {
        let mut name = 0;
        while name < KEYS[i].0.len() {
            if same(KEYS[i].0[name], command.name) {
                (rights.first, rights.others) = (KEYS[i].1, KEYS[i].2);
            }
            name += 1;
        }
        i += 1;
    }
    i = 0;
    while i < CHANNELS.len() {
        if same(CHANNELS[i].0, command.name) {
            rights.channels = CHANNELS[i].1;
        }
        i += 1;
    }
    i = 0;
    while i < ANY_KEY.len() {
        if same(ANY_KEY[i].0, command.name) {
            rights.beyond = Beyond::Keys(ANY_KEY[i].1);
        }
        i += 1;
    }
    rights
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut i = 0;
    while i < one.len() && i < other.len() && one[i] == other[i] {
        i += 1;
    }
    i == one.len() && i == other.len()
}

/// The commands of the table, for users' rules.
pub fn catalog() -> CommandCatalog {
    CommandCatalog::new(COMMANDS.iter().map(|command| CatalogRow {
        name: command.name,
        categories: command.categories(),
        // A replica that has not logged in shows a secret of its own.
        is_always_allowed: command.flags.has(Flags::NO_AUTH) && !command.flags.has(Flags::ADMIN),
    }))
}

#[inline]
fn keys<'a>(command: &Command, args: Args<'a>) -> impl Iterator<Item = TouchedKey<'a>> + Clone + use<'a> {
    let rights = RIGHTS.get(usize::from(command.index)).copied();
    let (first, others) = rights.map_or((KeyAccess::BOTH, KeyAccess::BOTH), |rights| (rights.first, rights.others));
    let reads_old = args.len() > 3 && rights.is_some_and(|rights| rights.reads_with_get) && gets(args);
    let first = if reads_old { KeyAccess::BOTH } else { first };
    let positions = (usize::from(command.keys.first)..).step_by(usize::from(command.keys.step.max(1)));
    let accesses = iter::once(first).chain(iter::repeat(others));
    let keys = command.keys.of(args).zip(positions).zip(accesses);
    keys.map(|((key, position), access)| TouchedKey { key, access, position })
}

/// Whether SET has the option GET, or one whose reply tells something of the value.
fn gets(args: Args<'_>) -> bool {
    args.from(3).any(|option| option.eq_ignore_ascii_case(b"get") || is_comparison(option))
}

#[inline]
fn channels<'a>(command: &Command, args: Args<'a>) -> impl Iterator<Item = TouchedChannel<'a>> + Clone + use<'a> {
    let channels = RIGHTS.get(usize::from(command.index)).map_or(Channels::None, |rights| rights.channels);
    let count = match channels {
        Channels::None => 0,
        Channels::First => 1,
        Channels::All | Channels::Patterns => usize::MAX,
    };
    let is_pattern = channels == Channels::Patterns;
    let each = args.from(1).take(count).enumerate();
    each.map(move |(at, channel)| TouchedChannel { channel, is_pattern, position: at + 1 })
}

/// Checks a command of the table.
#[inline]
pub(super) fn check(permissions: &Permissions, command: &Command, args: Args<'_>) -> Result<(), Refusal> {
    let place = usize::from(command.index);
    if permissions.allow_row_at_all(place) {
        return Ok(());
    }
    let request = CommandRequest {
        place: Some(place),
        name: command.name,
        categories: None,
        first_argument: args.get(if command.is_sub { 2 } else { 1 }),
    };
    permissions.check(&request, keys(command, args), channels(command, args), RIGHTS[place].beyond)
}

#[inline]
pub(super) fn check_get(permissions: &Permissions, key: &[u8]) -> Result<(), Refusal> {
    let place = usize::from(GET.index);
    let request = CommandRequest { place: Some(place), name: GET.name, categories: None, first_argument: Some(key) };
    let touched = TouchedKey { key, access: KeyAccess::READ, position: 1 };
    permissions.check(&request, iter::once(touched), iter::empty(), Beyond::Nothing)
}

/// Checks a command that Larder does not have; `row` is its row in the source's table. Without one
/// neither its categories nor its keys are known.
pub(super) fn check_forwarded(
    permissions: &Permissions,
    row: Option<&UpstreamCommand>,
    args: Args<'_>,
) -> Result<(), Refusal> {
    if permissions.is_unrestricted() {
        return Ok(());
    }
    let name = forwarded_name(row, args);
    let mut touched: SmallVec<[TouchedKey<'_>; 8]> = SmallVec::new();
    let beyond = row.map_or(Beyond::Keys(KeyAccess::BOTH), |row| {
        row.accesses(args, |position, access| {
            if let Some(key) = args.get(position) {
                touched.push(TouchedKey { key, access, position });
            }
        })
    });
    let request = CommandRequest {
        place: None,
        name: &name,
        categories: row.map(|row| row.categories),
        first_argument: args.get(if name.contains('|') { 2 } else { 1 }),
    };
    permissions.check(&request, touched.iter().copied(), iter::empty(), beyond)
}

/// The name of a forwarded command, as rules have it.
pub(super) fn forwarded_name(row: Option<&UpstreamCommand>, args: Args<'_>) -> Box<str> {
    let lower = |part: &[u8]| String::from_utf8_lossy(&part[..part.len().min(128)]).to_ascii_lowercase();
    match row {
        Some(row) => row.name.clone(),
        None => lower(&args[0]).into(),
    }
}

/// The error that Redis 7.4 gives. Clients know it by its first word.
pub(super) fn refusal(user: &str, name: &str, refusal: Refusal) -> CommandError {
    let text = match refusal {
        Refusal::Command => format!("NOPERM User {user} has no permissions to run the '{name}' command"),
        Refusal::Key(_) => "NOPERM No permissions to access a key".to_owned(),
        Refusal::Channel(_) => "NOPERM No permissions to access a channel".to_owned(),
    };
    CommandError::from(text)
}
