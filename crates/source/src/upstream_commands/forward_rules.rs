//! Which commands may be forwarded to a Redis source. Some change the connection that they are sent
//! on, which clients share: these are never forwarded. Others stop the server, change its
//! replication or its access rules: these need `forward-admin`.
use ForwardRule::{Admin, Free, Never};
use larder_proto::resp::Args;

/// Whether a command is forwarded to the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardRule {
    /// Always forwarded.
    Free,
    /// With `forward-admin`, on a connection of its own.
    Admin,
    Never,
}

/// By name; a subcommand stands behind its parent's name and `|`, and a parent alone stands for all
/// of them. The first that fits counts. What is not listed is [`Free`], unless the source's own
/// table calls it `admin`.
const RULES: &[(&str, ForwardRule)] = &[
    // They start replication or debugging on their connection, or belong to a handshake.
    ("asking", Never),
    ("psync", Never),
    ("replconf", Never),
    ("script|debug", Never),
    ("sync", Never),
    // Read only.
    ("acl|cat", Free),
    ("acl|dryrun", Free),
    ("acl|genpass", Free),
    ("acl|getuser", Free),
    ("acl|help", Free),
    ("acl|list", Free),
    ("acl|log", Free),
    ("acl|users", Free),
    ("acl|whoami", Free),
    ("cluster|count-failure-reports", Free),
    ("cluster|countkeysinslot", Free),
    ("cluster|getkeysinslot", Free),
    ("cluster|help", Free),
    ("cluster|info", Free),
    ("cluster|keyslot", Free),
    ("cluster|links", Free),
    ("cluster|myid", Free),
    ("cluster|myshardid", Free),
    ("cluster|nodes", Free),
    ("cluster|replicas", Free),
    ("cluster|shards", Free),
    ("cluster|slaves", Free),
    ("cluster|slot-stats", Free),
    ("cluster|slots", Free),
    ("config|get", Free),
    ("config|help", Free),
    ("config|resetstat", Free),
    ("module|help", Free),
    ("module|list", Free),
    // Statistics, and saving to the configured place.
    ("bgrewriteaof", Free),
    ("bgsave", Free),
    ("lastsave", Free),
    ("latency", Free),
    ("memory", Free),
    ("role", Free),
    ("save", Free),
    ("slowlog", Free),
    // The rest of these families, present and future.
    ("acl", Admin),
    ("cluster", Admin),
    ("config", Admin),
    ("debug", Admin),
    ("failover", Admin),
    ("migrate", Admin),
    ("module", Admin),
    ("pfdebug", Admin),
    ("pfselftest", Admin),
    ("replicaof", Admin),
    ("sentinel", Admin),
    ("shutdown", Admin),
    ("slaveof", Admin),
];

/// Parameters whose change with `CONFIG SET` tunes the server and nothing else: neither who may
/// enter, nor where it listens, what it writes, whose replica it is, or how much a connection may
/// send. `*` is any rest of a name.
const TUNING: &[&str] = &[
    "active-defrag-*",
    "active-expire-effort",
    "activedefrag",
    "activerehashing",
    "appendfsync",
    "busy-reply-threshold",
    "dynamic-hz",
    "hash-max-*",
    "hll-sparse-max-bytes",
    "hz",
    "latency-*",
    "lazyfree-*",
    "lfu-*",
    "list-*",
    "loglevel",
    "lua-time-limit",
    "maxmemory",
    "maxmemory-eviction-tenacity",
    "maxmemory-policy",
    "maxmemory-samples",
    "notify-keyspace-events",
    "set-max-*",
    "slowlog-*",
    "stream-node-max-*",
    "tcp-keepalive",
    "timeout",
    "tracking-table-max-keys",
    "zset-max-*",
];

/// Longest name that is looked up.
const MAX_NAME: usize = 64;

impl ForwardRule {
    /// Of the command or subcommand with this name, in lower case; `flagged`: the source's own
    /// table calls it `admin`.
    pub(super) fn of(name: &str, flagged: bool) -> ForwardRule {
        let parent = name.split('|').next().unwrap_or(name);
        match RULES.iter().find(|(rule, _)| *rule == name || *rule == parent) {
            Some((_, rule)) => *rule,
            None if flagged => Admin,
            None => Free,
        }
    }
    /// The rule of a command that is not in the source's table, or while the table is unknown.
    pub fn by_name(args: Args<'_>) -> ForwardRule {
        let lower = |part: &[u8]| String::from_utf8_lossy(&part[..part.len().min(MAX_NAME)]).to_ascii_lowercase();
        let name = match args.get(1) {
            Some(sub) => format!("{}|{}", lower(&args[0]), lower(sub)),
            None => lower(&args[0]),
        };
        ForwardRule::of(&name, false).with(&name, args)
    }
    pub(super) fn with(self, name: &str, args: Args<'_>) -> ForwardRule {
        match name {
            "config|set" if args.len() > 2 && locked(args).next().is_none() => Free,
            "acl|log" if args.get(2).is_some_and(|what| what.eq_ignore_ascii_case(b"reset")) => Admin,
            _ => self,
        }
    }
    /// The error text for a command that is not forwarded.
    pub fn refusal(self, args: Args<'_>) -> Vec<u8> {
        let is = |at: usize, word: &[u8]| args.get(at).is_some_and(|part| part.eq_ignore_ascii_case(word));
        let parent = |(rule, _): &(&str, _)| rule.split_once('|').is_some_and(|(parent, _)| is(0, parent.as_bytes()));
        let parts = if RULES.iter().any(parent) { 2 } else { 1 };
        let parameter = locked(args).next().filter(|_| is(0, b"config") && is(1, b"set"));
        let words = args.first(parts).from(0).map(<[u8]>::to_ascii_uppercase);
        let words = words.chain(parameter.map(<[u8]>::to_ascii_lowercase));
        let name = words
            .map(|word| word.iter().take(MAX_NAME).map(|b| if b.is_ascii_graphic() { *b } else { b'?' }).collect());
        let name: Vec<Vec<u8>> = name.collect();
        let why = match self {
            Never => " is not forwarded to the source: it changes a connection that clients share",
            Free | Admin => " is not forwarded to the source: set forward-admin to allow it",
        };
        [b"ERR ", &name.join(&b' ')[..], why.as_bytes()].concat()
    }
}

/// Parameters of `CONFIG SET` that do more than tune.
fn locked(args: Args<'_>) -> impl Iterator<Item = &[u8]> {
    let begins = |parameter: &[u8], begin: &str| {
        parameter.get(..begin.len()).is_some_and(|part| part.eq_ignore_ascii_case(begin.as_bytes()))
    };
    let tunes = move |parameter: &[u8]| {
        TUNING.iter().any(|known| match known.strip_suffix('*') {
            Some(begin) => begins(parameter, begin),
            None => parameter.eq_ignore_ascii_case(known.as_bytes()),
        })
    };
    args.from(2).step_by(2).filter(move |parameter| !tunes(parameter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(line: &str, look: impl FnOnce(Args<'_>) -> T) -> T {
        let text = line.replace(' ', "");
        let mut at = 0;
        let ranges = line.split(' ').map(|word| {
            at += word.len() as u32;
            at - word.len() as u32..at
        });
        let ranges: Vec<_> = ranges.collect();
        look(Args::new(text.as_bytes(), &ranges))
    }

    #[test]
    fn what_goes_and_what_does_not() {
        for (line, expected) in [
            ("GET a", Free),
            ("HSET config|set a b", Free),
            ("SHUTDOWN", Admin),
            ("shutdown NOSAVE", Admin),
            ("DEBUG SLEEP 1", Admin),
            ("REPLICAOF a 1", Admin),
            ("SLAVEOF NO ONE", Admin),
            ("FAILOVER", Admin),
            ("MIGRATE h 1 k 0 1", Admin),
            ("MODULE LIST", Free),
            ("MODULE LOAD x", Admin),
            ("MODULE LOADEX x", Admin),
            ("MODULE UNLOAD x", Admin),
            ("MODULE", Admin),
            ("CLUSTER NODES", Free),
            ("CLUSTER MEET a 1", Admin),
            ("CLUSTER SETSLOT 1 NODE x", Admin),
            ("CLUSTER NEWER", Admin),
            ("ACL WHOAMI", Free),
            ("ACL LOG", Free),
            ("ACL LOG 5", Free),
            ("ACL LOG reset", Admin),
            ("ACL SETUSER a on", Admin),
            ("ACL DELUSER a", Admin),
            ("ACL LOAD", Admin),
            ("ACL SAVE", Admin),
            ("CONFIG GET *", Free),
            ("CONFIG RESETSTAT", Free),
            ("CONFIG REWRITE", Admin),
            ("CONFIG SET requirepass x", Admin),
            ("config set MAXMEMORY-policy noeviction", Free),
            ("CONFIG SET hz 10 Slowlog-max-len 5", Free),
            ("CONFIG SET hz 10 dir /tmp", Admin),
            ("CONFIG SET", Admin),
            ("CONFIG SET bind 0.0.0.0", Admin),
            ("CONFIG SET port 1", Admin),
            ("CONFIG SET maxclients 1", Admin),
            ("CONFIG SET client-output-buffer-limit x", Admin),
            ("CONFIG SET proto-max-bulk-len 1mb", Admin),
            ("CONFIG SET appendonly yes", Admin),
            ("BGSAVE", Free),
            ("SAVE", Free),
            ("SCRIPT LOAD x", Free),
            ("SCRIPT DEBUG YES", Never),
            ("SYNC", Never),
            ("psync ? -1", Never),
            ("REPLCONF ACK 1", Never),
            ("ASKING", Never),
        ] {
            assert_eq!(with(line, ForwardRule::by_name), expected, "{line}");
        }
        assert_eq!(ForwardRule::of("ft.config", true), Admin, "an admin command of a module");
        assert_eq!(ForwardRule::of("bgsave", true), Free);
    }

    #[test]
    fn refusals_name_the_command_and_the_setting() {
        let admin = " is not forwarded to the source: set forward-admin to allow it";
        for (line, name) in [
            ("shutdown NOSAVE", "SHUTDOWN"),
            ("acl setuser a on", "ACL SETUSER"),
            ("CONFIG SET hz 10 requirepass secret", "CONFIG SET requirepass"),
            ("CONFIG REWRITE", "CONFIG REWRITE"),
        ] {
            let text = with(line, |args| Admin.refusal(args));
            assert_eq!(String::from_utf8_lossy(&text), format!("ERR {name}{admin}"));
        }
        let text = with("script debug\r\n YES", |args| Never.refusal(args));
        let expected = "ERR SCRIPT DEBUG?? is not forwarded to the source: it changes a connection that clients share";
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }
}
