//! What a command is: its name, arity, flags and keys. The functions are in [`command_handlers`](super::command_handlers).
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
    pub(super) kind: Kind,
    /// Its position in the table.
    pub(super) index: u16,
    /// Is it a subcommand?
    pub(super) is_sub: bool,
    /// Has it subcommands?
    pub(super) is_parent: bool,
}

/// How a command is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Concerns the connection or the server, not entries.
    Local,
    /// Works on entries, under the locks of the memory tier.
    Tier,
    /// GET.
    Get,
    /// MGET.
    MultiGet,
    /// One of the commands around a transaction.
    Transaction(TransactionStep),
    /// Larder does not know it; an upstream Redis may.
    Forward,
    /// Has subcommands only.
    Container,
}

/// Commands around a transaction.
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
    /// Keeps a Redis busy for long.
    pub const SLOW: Flags = Flags(1 << 26);
    /// Chooses the database: an upstream Redis carries it out, in a transaction too.
    pub const SELECTS: Flags = Flags(1 << 27);
    /// Removes its keys, as far as who records operations is concerned.
    pub const DELETES: Flags = Flags(1 << 28);
    /// CLIENT CACHING stays in force for the command behind this one.
    pub const KEEPS_CACHING: Flags = Flags(1 << 29);
    /// May set the password of an upstream Redis.
    pub const SETS_PASSWORD: Flags = Flags(1 << 30);
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
    /// Works on the keyspace as a whole.
    pub(super) fn is_keyspace(&self) -> bool {
        self.flags.has(Flags::KEYSPACE)
    }
    /// Touches keys, or the keyspace.
    #[inline]
    pub(super) fn is_data(&self) -> bool {
        matches!(self.kind, Kind::Tier | Kind::Get | Kind::MultiGet | Kind::Forward)
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
        assert_eq!(of(1, 2, 1, 2), "b", "a part that is missing is no key");
    }
}
