//! What replies say, counted by kind: by HTTP status, by the type of a Redis reply, by the first
//! word of memcached's.
use std::fmt;

/// The kind of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// An HTTP status.
    Status(u16),
    /// Anything else, by its name in results.
    Named(&'static str),
}

impl Default for ReplyKind {
    fn default() -> ReplyKind {
        ReplyKind::Named("reply")
    }
}

impl fmt::Display for ReplyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyKind::Status(status) => write!(f, "{status}"),
            ReplyKind::Named(name) => f.write_str(name),
        }
    }
}

/// Error codes of Redis that are counted by themselves; all others count as `error`.
const ERRORS: [(&[u8], &str); 12] = [
    (b"ERR", "error ERR"),
    (b"WRONGTYPE", "error WRONGTYPE"),
    (b"NOAUTH", "error NOAUTH"),
    (b"NOPERM", "error NOPERM"),
    (b"OOM", "error OOM"),
    (b"LOADING", "error LOADING"),
    (b"BUSY", "error BUSY"),
    (b"READONLY", "error READONLY"),
    (b"MASTERDOWN", "error MASTERDOWN"),
    (b"MOVED", "error MOVED"),
    (b"CLUSTERDOWN", "error CLUSTERDOWN"),
    (b"TRYAGAIN", "error TRYAGAIN"),
];

impl ReplyKind {
    /// Of a Redis reply (RESP2) from its first byte on.
    pub(crate) fn of_redis(reply: &[u8]) -> ReplyKind {
        ReplyKind::Named(match reply {
            [b'+', ..] => "simple string",
            [b':', ..] => "integer",
            [b'$' | b'*', b'-', ..] => "null",
            [b'$', ..] => "bulk string",
            [b'*', ..] => "array",
            [b'-', text @ ..] => {
                let code = text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
                ERRORS.iter().find(|(known, _)| *known == code).map_or("error", |(_, name)| name)
            }
            _ => return ReplyKind::default(),
        })
    }

    /// Of memcached's last line of a reply, by its first word.
    pub(crate) fn of_memcache(word: &[u8], found: u32) -> ReplyKind {
        const WORDS: [(&[u8], &str); 8] = [
            (b"STORED", "STORED"),
            (b"DELETED", "DELETED"),
            (b"NOT_FOUND", "NOT_FOUND"),
            (b"NOT_STORED", "NOT_STORED"),
            (b"EXISTS", "EXISTS"),
            (b"ERROR", "ERROR"),
            (b"CLIENT_ERROR", "CLIENT_ERROR"),
            (b"SERVER_ERROR", "SERVER_ERROR"),
        ];
        let known = WORDS.iter().find(|(known, _)| *known == word).map(|(_, name)| *name);
        ReplyKind::Named(known.unwrap_or(if found > 0 { "VALUE" } else { "END" }))
    }
}

/// How many replies of each kind came.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplyKinds(Vec<(ReplyKind, u64)>);

impl ReplyKinds {
    /// Counts replies.
    pub(crate) fn count(&mut self, kind: ReplyKind, more: u64) {
        // A handful: a search costs less than a hash.
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += more,
            None => self.0.push((kind, more)),
        }
    }

    /// Adds those of another thread.
    pub(crate) fn add(&mut self, other: &ReplyKinds) {
        other.0.iter().for_each(|(kind, count)| self.count(*kind, *count));
    }

    /// All kinds that came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ReplyKind, u64)> {
        self.0.iter().copied()
    }
}
