//! A row of the command table: name, arity, flags and keys. The functions are in
//! [`command_handlers`](super::command_handlers).
use larder_proto::resp::{Args, parse_i64};

#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// The name in lower case. A subcommand is `parent|name`.
    pub name: &'static str,
    /// The number of parts, the name included. A negative number is a minimum.
    pub arity: i16,
    /// What the command does and how it must run.
    pub flags: Flags,
    /// What stays when it is answered.
    pub leaves: Leaves,
    /// The positions of its keys.
    pub keys: Keys,
    /// The first version of Redis that had it.
    pub since: &'static str,
    /// Redis's group of commands.
    pub group: &'static str,
    /// One phrase for the reference.
    pub summary: &'static str,
    pub(super) kind: CommandKind,
    /// The position in the table.
    pub(super) index: u16,
    /// Whether this is a subcommand.
    pub(super) is_sub: bool,
    /// Whether this has subcommands.
    pub(super) is_parent: bool,
}

/// Which bytes that a client chose stay when its command is answered. `tests/allocations` holds
/// each row to this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// None.
    Nothing,
    /// A mode, a number, or one text of bounded length: always the same memory, however often the
    /// command is sent.
    Mode,
    /// Bytes that count as the buffers of a connection: of this one, or of those that get its
    /// messages. At `max-buffers` the connection that holds the most is closed.
    Connection,
    /// Bytes in a table of all clients that has a share of `max-buffers`: tracked keys, SCAN
    /// cursors, users.
    Shared,
    /// Entries: they are within `max-memory`, or at the source.
    Entries,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// It concerns the connection or the server, not entries.
    Local,
    /// It works on entries, under the locks of the memory tier.
    Tier,
    Get,
    /// MGET.
    MultiGet,
    /// MULTI, EXEC, DISCARD, WATCH or UNWATCH.
    Transaction(TransactionStep),
    /// Larder does not have it. An upstream Redis may.
    Forward,
    /// It has subcommands only.
    Container,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionStep {
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
}

/// A set of properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(u32);
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
    /// Works on the whole keyspace. A transaction with such a command locks everything.
    pub const KEYSPACE: Flags = Flags(1 << 17);
    /// Takes the engine's locks itself (counters, bounds). A transaction releases its own locks
    /// before.
    pub const UNLOCKED: Flags = Flags(1 << 18);
    /// Reads one string. With a source, a copy in the memory tier answers it.
    pub const COPY_WILL_DO: Flags = Flags(1 << 19);
    /// Empties the keyspace.
    pub const FLUSH: Flags = Flags(1 << 20);
    /// Keeps a Redis busy for long.
    pub const SLOW: Flags = Flags(1 << 26);
    /// Selects the database. An upstream Redis runs it, in a transaction too.
    pub const SELECTS: Flags = Flags(1 << 27);
    /// Deletes its keys, as far as the recorder is concerned.
    pub const DELETES: Flags = Flags(1 << 28);
    /// CLIENT CACHING stays in force for the command after this one.
    pub const KEEPS_CACHING: Flags = Flags(1 << 29);
    /// May set the password of an upstream Redis.
    pub const SETS_PASSWORD: Flags = Flags(1 << 30);
    /// With a Redis source, Redis answers it, as if Larder did not have it.
    pub const AT_SOURCE: Flags = Flags(1 << 22);
    /// With a Redis source, the reply merges Redis's and Larder's. Within MULTI, Redis answers it.
    pub const MERGED: Flags = Flags(1 << 25);
    /// A RESP2 client with subscriptions may call it.
    pub const SUBSCRIBER: Flags = Flags(1 << 21);
    pub const PUBSUB: Flags = Flags(1 << 11);
    /// Changes what the replies of its connection are, or ends it: nothing for a request that has no
    /// connection (Redis over HTTP).
    pub const CONNECTION: Flags = Flags(1 << 13);
    /// About users: not the source's where Larder has users of its own, whatever
    /// [`AT_SOURCE`](Self::AT_SOURCE) says.
    pub const USERS: Flags = Flags(1 << 12);
    /// Does not read what its keys held, unless its options say otherwise.
    pub const OVERWRITES: Flags = Flags(1 << 23);
    /// Its options may be tags (`TAG name`), which no source keeps.
    pub const TAGS: Flags = Flags(1 << 31);
    /// Reads only whether its keys exist.
    pub const EXISTENCE: Flags = Flags(1 << 24);

    /// The union of both sets.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
    /// Whether any flag of `other` is set.
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

/// The positions of a command's keys: every `step`-th part from `first` to `last`. A negative
/// `last` counts from the end. `first` 0 means no keys. With `last` 0, the part before `first` says
/// how many keys there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    pub first: u8,
    pub last: i8,
    pub step: u8,
}
impl Keys {
    /// Whether a part of the command says how many keys there are.
    pub(super) fn are_counted(self) -> bool {
        self.first > 0 && self.last == 0
    }
    /// The keys in `args`, in order.
    #[inline]
    pub fn of<'a>(self, args: Args<'a>) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let end = match self {
            Keys { first: 0, .. } => 0,
            Keys { first, last: 0, step } => {
                let count = args.get(usize::from(first) - 1).and_then(parse_i64);
                let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
                count.saturating_mul(usize::from(step)).saturating_add(usize::from(first)).min(args.len())
            }
            Keys { last, .. } if last < 0 => (args.len() + 1).saturating_sub(usize::from(last.unsigned_abs())),
            Keys { last, .. } => (last as usize + 1).min(args.len()),
        };
        args.first(end).from(usize::from(self.first)).step_by(usize::from(self.step.max(1)))
    }
}

impl Command {
    /// Whether the arity allows `parts` parts.
    #[inline]
    pub fn takes(&self, parts: usize) -> bool {
        match self.arity {
            exactly @ 0.. => parts == exactly as usize,
            at_least => parts >= usize::from(at_least.unsigned_abs()),
        }
    }
    /// Whether the command works on the whole keyspace.
    pub(super) fn is_keyspace(&self) -> bool {
        self.flags.has(Flags::KEYSPACE)
    }
    /// Whether the command works on a key without being a data command.
    pub(super) fn is_local_on_key(&self) -> bool {
        self.kind == CommandKind::Local && self.keys.first > 0
    }
    /// Whether the command touches keys or the keyspace.
    #[inline]
    pub(super) fn is_data(&self) -> bool {
        matches!(self.kind, CommandKind::Tier | CommandKind::Get | CommandKind::MultiGet | CommandKind::Forward)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(of(1, 2, 1, 2), "b", "a part that is missing is not a key");
        for (count, keys) in
            [("1", "b"), ("2", "bd"), ("9", "bd"), ("0", ""), ("-1", ""), ("9223372036854775807", "bd")]
        {
            let parts = ["name", count, "b", "c", "d", "e"];
            let text = parts.concat();
            let mut end = 0;
            let ranges = parts.map(|part| {
                end += part.len() as u32;
                end - part.len() as u32..end
            });
            let found = Keys { first: 2, last: 0, step: 2 }.of(Args::new(text.as_bytes(), &ranges));
            assert_eq!(found.map(|key| key[0] as char).collect::<String>(), keys, "{count}");
        }
    }
}
