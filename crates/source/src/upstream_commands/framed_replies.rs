//! Which commands always get replies that end where the protocol says.
//!
//! Redis puts text of the client into some error and status lines without a check for line ends:
//! into those of scripts, functions, modules, unknown commands. The rest of such a line then reads
//! like more replies. All commands that are not listed here count as such commands, those that are
//! newer than this code among them.
use larder_proto::resp::commands_ahead;

/// Commands whose errors are fixed texts, or name the command as the server's table spells it. In
/// order. A subcommand stands behind its parent's name and `|`.
const FRAMED: &[&str] = &[
    "append",
    "asking",
    "auth",
    "bitcount",
    "bitfield",
    "bitfield_ro",
    "bitop",
    "bitpos",
    "blmove",
    "blmpop",
    "blpop",
    "brpop",
    "brpoplpush",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "client|caching",
    "client|getredir",
    "client|id",
    "client|trackinginfo",
    "client|unblock",
    "copy",
    "dbsize",
    "decr",
    "decrby",
    "del",
    "discard",
    "dump",
    "echo",
    "exec",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "flushall",
    "flushdb",
    "function|kill",
    "geoadd",
    "geodist",
    "geohash",
    "geopos",
    "georadius",
    "georadius_ro",
    "georadiusbymember",
    "georadiusbymember_ro",
    "geosearch",
    "geosearchstore",
    "get",
    "getbit",
    "getdel",
    "getex",
    "getrange",
    "getset",
    "hdel",
    "hello",
    "hexists",
    "hexpire",
    "hexpireat",
    "hexpiretime",
    "hget",
    "hgetall",
    "hgetdel",
    "hgetex",
    "hincrby",
    "hincrbyfloat",
    "hkeys",
    "hlen",
    "hmget",
    "hmset",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hpexpiretime",
    "hpttl",
    "hrandfield",
    "hscan",
    "hset",
    "hsetex",
    "hsetnx",
    "hstrlen",
    "httl",
    "hvals",
    "incr",
    "incrby",
    "incrbyfloat",
    "info",
    "keys",
    "lastsave",
    "lcs",
    "lindex",
    "linsert",
    "llen",
    "lmove",
    "lmpop",
    "lpop",
    "lpos",
    "lpush",
    "lpushx",
    "lrange",
    "lrem",
    "lset",
    "ltrim",
    "mget",
    "monitor",
    "move",
    "mset",
    "msetnx",
    "multi",
    "object|encoding",
    "object|freq",
    "object|idletime",
    "object|refcount",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "pfadd",
    "pfcount",
    "pfmerge",
    "ping",
    "psetex",
    "pttl",
    "publish",
    "pubsub|channels",
    "pubsub|numpat",
    "pubsub|numsub",
    "pubsub|shardchannels",
    "pubsub|shardnumsub",
    "randomkey",
    "rename",
    "renamenx",
    "restore",
    "role",
    "rpop",
    "rpoplpush",
    "rpush",
    "rpushx",
    "sadd",
    "scan",
    "scard",
    "script|exists",
    "script|kill",
    "sdiff",
    "sdiffstore",
    "select",
    "set",
    "setbit",
    "setex",
    "setnx",
    "setrange",
    "sinter",
    "sintercard",
    "sinterstore",
    "sismember",
    "smembers",
    "smismember",
    "smove",
    "sort",
    "sort_ro",
    "spop",
    "spublish",
    "srandmember",
    "srem",
    "sscan",
    "strlen",
    "substr",
    "sunion",
    "sunionstore",
    "swapdb",
    "time",
    "touch",
    "ttl",
    "type",
    "unlink",
    "unwatch",
    "wait",
    "waitaof",
    "watch",
    "xack",
    "xadd",
    "xautoclaim",
    "xclaim",
    "xdel",
    "xgroup|create",
    "xgroup|createconsumer",
    "xgroup|delconsumer",
    "xgroup|destroy",
    "xgroup|setid",
    "xinfo|consumers",
    "xinfo|groups",
    "xinfo|stream",
    "xlen",
    "xpending",
    "xrange",
    "xread",
    "xreadgroup",
    "xrevrange",
    "xsetid",
    "xtrim",
    "zadd",
    "zcard",
    "zcount",
    "zdiff",
    "zdiffstore",
    "zincrby",
    "zinter",
    "zintercard",
    "zinterstore",
    "zlexcount",
    "zmpop",
    "zmscore",
    "zpopmax",
    "zpopmin",
    "zrandmember",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrangestore",
    "zrank",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
    "zrevrank",
    "zscan",
    "zscore",
    "zunion",
    "zunionstore",
];
/// The length of the longest of them.
const LONGEST: usize = 21;

/// Whether a reply to one of these encoded commands may hold text of the client where it can break
/// the protocol.
pub(crate) fn may_break(commands: &[u8]) -> bool {
    // Most pipelines repeat a command.
    let mut last = &b""[..];
    for command in commands_ahead(commands) {
        match command {
            Ok((name, _)) if name == last && !last.is_empty() => {}
            Ok((name, _)) if is_framed(name) => last = name,
            Ok((name, Some(sub))) if is_framed_sub(name, sub) => {}
            Ok(_) | Err(_) => return true,
        }
    }
    false
}

/// Whether a command is listed. No command's own name has a `|`.
fn is_framed(name: &[u8]) -> bool {
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..name.len()).filter(|_| !name.contains(&b'|')) else { return false };
    lower.copy_from_slice(name);
    is_listed(lower)
}

fn is_framed_sub(name: &[u8], sub: &[u8]) -> bool {
    let mut lower = [0; LONGEST];
    let Some(lower) = lower.get_mut(..name.len() + 1 + sub.len()) else { return false };
    lower[..name.len()].copy_from_slice(name);
    lower[name.len()] = b'|';
    lower[name.len() + 1..].copy_from_slice(sub);
    is_listed(lower)
}

fn is_listed(name: &mut [u8]) -> bool {
    name.make_ascii_lowercase();
    FRAMED.binary_search_by(|listed| listed.as_bytes().cmp(name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_proto::resp::encode;

    #[test]
    fn the_table_is_in_order() {
        assert!(FRAMED.is_sorted());
        assert_eq!(FRAMED.iter().map(|name| name.len()).max(), Some(LONGEST));
    }

    #[test]
    fn only_listed_commands_are_framed() {
        let breaks = |line: &str| may_break(&encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        for framed in
            ["GET a", "hset a b c", "XGROUP Create a b $", "SCRIPT KILL", "CLIENT ID", "MULTI", "DEL EVAL", "ping"]
        {
            assert!(!breaks(framed), "{framed}");
        }
        for other in [
            "EVAL x 0",
            "evalsha a 0",
            "FCALL f 0",
            "FUNCTION LIST",
            "CONFIG GET a",
            "XGROUP x",
            "CLIENT x",
            "JSON.GET a",
            "NOSUCH",
            "xgroup",
            "OBJECT",
            "SCRIPT LOAD x",
            "georadiusbymember_rox",
            "get|x",
            "client|id",
        ] {
            assert!(breaks(other), "{other}");
        }
        assert!(may_break(&[encode(&[b"GET", b"a"]), encode(&[b"EVAL", b"x", b"0"])].concat()), "the second one");
        assert!(!may_break(&[encode(&[b"GET", b"a"]), encode(&[b"SET", b"x", b"\r\n*1\r\n"])].concat()));
        assert!(may_break(b"EVAL x 0\r\n") && may_break(b"*1\r\n$4\r\nPI"), "whatever is not understood");
    }
}
