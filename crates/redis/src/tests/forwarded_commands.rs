//! Commands that only the source knows, in front of a real Redis.
use super::{
    support::{Redis, words},
    upstream::with_redis,
};
use crate::forwarded_commands::{FORWARDED, touched};
use larder_proto::resp::Args;
use larder_source::BusyFor;

#[test]
fn everything_else_is_redis_s_to_answer() {
    with_redis(|redis, server| async move {
        let _running = &redis;
        // Another Redis is told the same; its replies must be the same, byte for byte, in both protocols.
        let twin = Redis::start();
        let (mut direct, mut client) = (twin.connect(), server.client());
        for hello in ["HELLO 2", "HELLO 3"] {
            client.ask(hello).await;
            direct.say(hello);
            for line in [
                "FLUSHALL",
                "HSET h a 1 b 2",
                "HGETALL h",
                "RPUSH l x y z",
                "LRANGE l 0 -1",
                "SADD s only",
                "SMEMBERS s",
                "ZADD z 1 a 2.5 b",
                "ZRANGE z 0 -1 WITHSCORES",
                "ZUNIONSTORE zz 1 z WEIGHTS 2",
                "ZSCORE zz b",
                "XADD st 1-1 f v",
                "XRANGE st - +",
                "XREAD COUNT 1 STREAMS st 0",
                "SETBIT bits 7 1",
                "BITCOUNT bits",
                "PFADD hll a b",
                "PFCOUNT hll",
                "GEOADD g 13.361389 38.115556 Palermo",
                "GEOPOS g Palermo",
                "SORT l ALPHA DESC STORE sorted",
                "LRANGE sorted 0 -1",
                "EVAL return{KEYS[1],ARGV[1],3.5,false} 1 k v",
                "SCRIPT EXISTS ffffffffffffffffffffffffffffffffffffffff",
                "HINCRBY h a x",
                "LPUSH h wrong",
                "HSET h",
                "NOSUCH command at all",
                "FUNCTION LIST",
                "FUNCTION FLUSH",
                "FUNCTION HELP",
                "OBJECT HELP",
                "LATENCY RESET",
                "SLOWLOG LEN x",
                "SET k v",
                "MGET k h k",
                "MULTI",
                "HSET h",
                "SET k w",
                "EXEC",
                "COMMAND DOCS lrange get",
                "COMMAND INFO hset get nosuch",
                "COMMAND COUNT",
                "COMMAND GETKEYSANDFLAGS LMOVE a b left left",
                "MULTI",
                "HSET h c 3",
                "SET k v",
                "PING",
                "HLEN h",
                "EXEC",
            ] {
                assert_eq!(client.ask(line).await, direct.say(line), "{line}");
            }
        }
    });
}

#[test]
fn what_they_write_is_seen_at_once() {
    with_redis(|redis, server| async move {
        redis.connect().say("SET k 1");
        let mut client = server.client();
        let scripts = "EVAL return(redis.call('INCR',KEYS[1])) 1 k";
        for (line, reply, value) in [
            ("GET k", "$1\r\n1\r\n", "1"),
            ("SETBIT k 6 1", ":0\r\n", "3"),
            (scripts, ":4\r\n", "4"),
            ("BITOP NOT k k", ":1\r\n", "\u{fffd}"),
            ("SWAPDB 0 0", "+OK\r\n", "\u{fffd}"),
        ] {
            assert_eq!(client.ask(line).await, reply, "{line}");
            let got = client.ask("GET k").await;
            assert_eq!(got, format!("${}\r\n{value}\r\n", 1), "after {line}");
        }
        // Behind a script that fails half-way, too.
        client.ask("SET k 7").await;
        assert_eq!(client.ask("GET k").await, "$1\r\n7\r\n");
        let half = "EVAL redis.call('SET',KEYS[1],8)return(redis.call('LPUSH',KEYS[1],1)) 1 k";
        assert!(client.ask(half).await.starts_with("-WRONGTYPE"));
        assert_eq!(client.ask("GET k").await, "$1\r\n8\r\n");
        // In a transaction, between commands of our own.
        for line in ["MULTI", "HSET h f v", "SETBIT k 7 0", "PING", "GET k"] {
            client.ask(line).await;
        }
        assert_eq!(client.ask("EXEC").await, "*4\r\n:1\r\n:0\r\n+PONG\r\n$1\r\n8\r\n");
    });
}

#[test]
fn what_would_change_the_shared_connection_is_not_forwarded() {
    with_redis(|redis, server| async move {
        let _running = &redis;
        let mut client = server.client();
        let no_cluster = "-ERR This instance has cluster support disabled\r\n";
        assert_eq!(client.ask("ASKING").await, no_cluster, "Larder answers it");
        for line in ["SYNC", "SCRIPT DEBUG YES"] {
            let refused = client.ask(line).await;
            assert!(refused.ends_with("it changes a connection that clients share\r\n"), "{refused}");
        }
        assert!(client.ask("CLIENT NOSUCH").await.starts_with("-ERR unknown"));
        assert_eq!(client.ask("LLEN l").await, ":0\r\n", "and the connection is as it was");
    });
}

#[test]
fn the_keys_are_those_that_redis_names() {
    with_redis(|redis, server| async move {
        let mut direct = redis.connect();
        let relay = server.worker.groups.default().source.as_redis().expect("it is a Redis");
        let commands = relay.commands().await.expect("it shows them");
        for line in [
            "HSET h f v",
            "LMPOP 2 a b LEFT",
            "BLPOP a b 0",
            "ZUNIONSTORE to 2 a b WEIGHTS 1 2",
            "ZINTERCARD 2 a b LIMIT 1",
            "EVAL return(1) 3 a b c argument",
            "EVALSHA_RO ff 1 a x",
            "FCALL f 2 a b x",
            "XREAD COUNT 2 BLOCK 5 STREAMS a b 0 0",
            "XREADGROUP GROUP g c STREAMS a b > >",
            "GEORADIUS g 1 2 3 km STORE to",
            "GEOSEARCHSTORE to from FROMLONLAT 1 2 BYRADIUS 3 km",
            "SORT from BY nosort STORE to",
            "BITOP AND to a b c",
            "PFMERGE to a b",
            "XGROUP CREATE st g $ MKSTREAM",
            "OBJECT ENCODING k",
            "MIGRATE host 1 k 0 10",
        ] {
            let parts = words(line);
            let input = parts.concat();
            let mut end = 0;
            let ranges: Vec<_> = (parts.iter())
                .map(|part| {
                    let begin = end;
                    end += part.len() as u32;
                    begin..end
                })
                .collect();
            let mut ours = Vec::new();
            let each = |key, _| ours.push(String::from_utf8_lossy(key));
            let reach = touched(&FORWARDED, Some(&commands), Args::new(&input, &ranges), each).expect("it is known");
            let slow = ["EVAL", "FCALL", "SORT", "MIGRATE"].iter().any(|name| line.starts_with(name));
            assert_eq!(reach.slow, slow, "{line}");
            ours.sort_unstable();
            let theirs = direct.say(&format!("COMMAND GETKEYS {line}"));
            let mut theirs: Vec<_> = theirs.lines().skip(2).step_by(2).collect();
            theirs.sort_unstable();
            assert_eq!(ours, theirs, "{line}");
        }
    });
}

#[test]
fn what_keeps_redis_busy_is_known_by_its_table() {
    with_redis(|redis, server| async move {
        let _running = &redis;
        let relay = server.worker.groups.default().source.as_redis().expect("it is a Redis");
        let commands = relay.commands().await.expect("it shows them");
        let busy = |names: &str, expected: Option<BusyFor>| {
            for name in names.split(' ') {
                let (name, sub) = name.split_once('|').map_or((name, None), |(name, sub)| (name, Some(sub.as_bytes())));
                let row = commands.find_named(name.as_bytes(), sub).unwrap_or_else(|| panic!("{name}"));
                assert_eq!(row.busy(), expected, "{name}");
            }
        };
        busy(
            "eval fcall_ro keys sort sort_ro lcs flushall save zunionstore zinterstore zdiffstore",
            Some(BusyFor::Long),
        );
        busy("zrangestore zunion sunionstore sinter sdiff sintercard geosearchstore", Some(BusyFor::Long));
        busy("del copy rename hgetall smembers zrange zremrangebyrank lrem linsert lpos", Some(BusyFor::Moment));
        busy("pfmerge pfcount bitop xrange xtrim", Some(BusyFor::Moment));
        busy("get set mset getrange incr hset hget sadd zadd lpush unlink expire xadd publish", None);
        let touches = |name: &str| commands.find_named(name.as_bytes(), None).expect("it is known").touches_others();
        assert!(["eval", "evalsha", "fcall", "EVAL_RO"].into_iter().all(touches));
        assert!(!["set", "sort", "function", "zunionstore", "publish"].into_iter().any(touches));
    });
}
