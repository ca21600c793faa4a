//! Random commands on every type of value. A few in a hundred are spoilt: too short, too long, or
//! for a key of another type.
//!
//! Not in here, because no two servers answer alike: what depends on chance (RANDOMKEY, SPOP of
//! less than all, …), on the clock (TIME, XADD with `*`, `OBJECT IDLETIME`), on what a server is or
//! counts (INFO, CLIENT, CONFIG, COMMAND, OBJECT FREQ, MEMORY, SLOWLOG), and lifetimes that end
//! while the test runs.

/// Random numbers that a seed repeats (xorshift64*).
pub(crate) struct Random(pub(crate) u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Words of a command, separated by spaces. `%…` stands for something random ([`Generator::word`]);
/// `!A|B` is one of them, `?A|B` one or none, `+A` one to three times; within these three `_`
/// separates words.
type Family = (&'static str, &'static [&'static str]);

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    ("string", &[
        "GET %s", "GET %s", "GET %s", "GET %s", "GET %k", "SET %s %v", "SET %s %v", "SET %s %v ?NX|XX ?GET ?EX_%T|PX_%T|KEEPTTL|EX_0",
        "SETNX %s %v", "SETEX %s %T %v", "PSETEX %s %T %v", "GETSET %s %v", "GETDEL %s", "GETEX %s ?EX_%T|PERSIST|PX_-1", "APPEND %s %v",
        "STRLEN %s", "GETRANGE %s %i %i", "SUBSTR %s %n %n", "SETRANGE %s %n %v", "MGET %s %s %k", "MSET %s %v %s %v", "MSETNX %s %v %s %v",
        "INCR %s", "DECR %s", "INCRBY %s %i", "DECRBY %s %i", "INCRBYFLOAT %s %d", "LCS h:0 %s ?LEN|IDX",
        "SET %s %n", "SET %s %d", "LCS %b %b ?LEN|IDX|IDX_MINMATCHLEN_%n|IDX_WITHMATCHLEN", "NOSUCH %s %v", "%v", "MSET %s %v %s",
    ]),
    ("generic", &[
        "DEL %k", "DEL %k %k", "UNLINK %k", "EXISTS %k %k", "TOUCH %k %k", "TYPE %k", "TYPE %k", "RENAME %k %k", "RENAMENX %k %k",
        "COPY %k %k ?REPLACE|DB_0|BAD", "EXPIRE %k %T ?NX|XX|GT|LT|BAD", "PEXPIRE %k %T", "EXPIREAT %k %@ ?NX|XX|GT|LT", "PEXPIREAT %k %@000",
        "PERSIST %k", "TTL %k", "PTTL %k", "EXPIRETIME %k", "PEXPIRETIME %k", "KEYS %p", "SCAN 0 COUNT 100000 ?MATCH_%p ?TYPE_!hash|string|zset|no",
        "DBSIZE", "OBJECT ENCODING %k", "OBJECT REFCOUNT %h", "OBJECT BAD %k", "OBJECT HELP", "DUMP %k", "RESTORE %k %# %D ?REPLACE|ABSTTL|FREQ_%n|BAD",
        "SORT %l ?ALPHA ?ASC|DESC ?LIMIT_%n_%n ?STORE_%l", "SORT %t ALPHA ?DESC ?LIMIT_%n_%n", "SORT %l BY !nosort|w:* ?GET_# ?GET_%s ?STORE_%l",
        "SORT_RO %l ?ALPHA ?DESC|BAD", "SORT %z ?ALPHA ?BY_nosort", "WAIT 0 0", "FLUSHALL BAD",
    ]),
    // Only to servers that have them.
    ("newer", &[
        "SET %s %n IFEQ %n ?GET ?EX_%T", "DELIFEQ %s %n", "MSETEX 2 %s %v %s %v ?NX|XX|EX_%T", "HSETEX %h EX %T FIELDS 1 %f %v",
        "HGETEX %h ?PERSIST|EX_%T FIELDS 2 %f %f", "HEXPIRE %h %T ?NX|XX|GT|LT FIELDS 1 %f", "HPERSIST %h FIELDS 1 %f", "HTTL %h FIELDS 2 %f %f", "HGETDEL %h FIELDS 1 %f",
        "GET %s", "HGETALL %h",
    ]),
    ("hash", &[
        "HSET %h +%f_%v", "HSET %h +%f_%v", "HMSET %h +%f_%v", "HSETNX %h %f %v", "HGET %h %f", "HGET %h %f", "HMGET %h %f %f %f", "HGETALL %h",
        "HGETALL %h", "HKEYS %h", "HVALS %h", "HLEN %h", "HSTRLEN %h %f", "HEXISTS %h %f", "HDEL %h %f %f", "HINCRBY %h %f %i", "HINCRBYFLOAT %h %f %d",
        "HSET %h %f %n", "HSCAN %h 0 COUNT 100000 ?MATCH_%p", "HRANDFIELD %h 100000 ?WITHVALUES|BAD", "HRANDFIELD %h 0", "HSET %h %f",
    ]),
    ("list", &[
        "RPUSH %l %v %v", "LPUSH %l %f %n", "RPUSH %l %n %n %n", "LPUSHX %l %v", "RPUSHX %l %v", "LPOP %l ?%n", "RPOP %l ?%n", "LLEN %l",
        "LRANGE %l %i %i", "LRANGE %l 0 -1", "LRANGE %l 0 -1", "LINDEX %l %i", "LSET %l %i %v", "LINSERT %l !BEFORE|AFTER|BAD %f %v", "LREM %l %i %f",
        "LTRIM %l %i %i", "LPOS %l %f ?RANK_%i ?COUNT_%n ?MAXLEN_%n", "RPOPLPUSH %l %l", "LMOVE %l %l !LEFT|RIGHT|BAD !LEFT|RIGHT",
        "LMPOP 2 %l %l !LEFT|RIGHT ?COUNT_%n", "LMPOP %i %l LEFT",
    ]),
    ("set", &[
        "SADD %t %f %f", "SADD %t %n %n %n", "SADD %t %v", "SREM %t %f %n", "SISMEMBER %t %f", "SMISMEMBER %t %f %n %f", "SCARD %t", "SMEMBERS %t",
        "SMEMBERS %t", "SMOVE %t %t %f", "SUNION %t %t", "SINTER %t %t", "SDIFF %t %t", "SUNIONSTORE %t %t %t", "SINTERSTORE %t %t %t",
        "SDIFFSTORE %t %t %t", "SINTERCARD 2 %t %t ?LIMIT_%i", "SSCAN %t 0 COUNT 100000 ?MATCH_%p", "SPOP %t 100000", "SRANDMEMBER %t 100000", "SPOP %t -1",
    ]),
    ("zset", &[
        "ZADD %z %d %f %d %f", "ZADD %z %n %f %n %f", "ZADD %z ?NX|XX ?GT|LT ?CH ?INCR %d %f", "ZADD %z BAD %f", "ZADD %e 0 %f 0 %f", "ZADD %e 0 %f 0 %f", "ZADD %e 0 %f 0 %f", "DEL %e", "ZINCRBY %z %d %f", "ZREM %z %f %f",
        "ZSCORE %z %f", "ZMSCORE %z %f %f", "ZCARD %z", "ZRANK %z %f", "ZREVRANK %z %f", "ZCOUNT %z %r %r", "ZLEXCOUNT %e %X %X",
        "ZRANGE %z %i %i ?REV ?WITHSCORES", "ZRANGE %z 0 -1 WITHSCORES", "ZRANGE %z 0 -1 WITHSCORES", "ZRANGE %z %r %r BYSCORE ?REV ?LIMIT_%n_%i ?WITHSCORES",
        "ZRANGE %e %X %X BYLEX ?REV ?LIMIT_%n_%i", "ZRANGESTORE %z %z %i %i ?REV", "ZREVRANGE %z %i %i ?WITHSCORES", "ZRANGEBYSCORE %z %r %r ?WITHSCORES ?LIMIT_%n_%i",
        "ZREVRANGEBYSCORE %z %r %r ?WITHSCORES", "ZRANGEBYLEX %e %X %X ?LIMIT_%n_%i", "ZREVRANGEBYLEX %e %X %X", "ZREMRANGEBYRANK %z %i %i",
        "ZREMRANGEBYSCORE %z %r %r", "ZREMRANGEBYLEX %e %X %X", "ZPOPMIN %z ?%n", "ZPOPMAX %z ?%n", "ZMPOP 2 %z %z !MIN|MAX ?COUNT_%n",
        "ZUNION 2 %z %z ?WEIGHTS_%d_%n ?AGGREGATE_!SUM|MIN|MAX ?WITHSCORES", "ZINTER 2 %z %z ?WITHSCORES", "ZDIFF 2 %z %z ?WITHSCORES",
        "ZUNIONSTORE %z 2 %z %t ?WEIGHTS_%d_%n ?AGGREGATE_!MIN|MAX|BAD", "ZINTERSTORE %z 2 %z %z", "ZDIFFSTORE %z 2 %z %z", "ZINTERCARD 2 %z %z ?LIMIT_%n",
        "ZSCAN %z 0 COUNT 100000 ?MATCH_%p", "ZRANDMEMBER %z 100000 ?WITHSCORES", "ZRANDMEMBER %z 0",
    ]),
    ("stream", &[
        "XADD %x %I +%f_%v", "XADD %x %I +%f_%v", "XADD %x %I +%f_%v", "XADD %x ?NOMKSTREAM ?MAXLEN_%n|MINID_%I|MAXLEN_~_%n_LIMIT_%n %n-* %f %v",
        "XLEN %x", "XRANGE %x !-|%I|(%I !+|%I ?COUNT_%n", "XRANGE %x - +", "XREVRANGE %x !+|%I !-|%I ?COUNT_%n", "XDEL %x %I %I", "XTRIM %x !MAXLEN|MINID ?~|= %n",
        "XREAD ?COUNT_%n STREAMS %x %x %I 0", "XREAD STREAMS %x $", "XREAD COUNT %n STREAMS %x", "XSETID %x %I", "XGROUP CREATE %x %G !$|0|%I ?MKSTREAM ?ENTRIESREAD_%n",
        "XGROUP CREATE %x %G 0 MKSTREAM", "XGROUP SETID %x %G !$|0", "XGROUP DESTROY %x %G", "XGROUP CREATECONSUMER %x %G %C", "XGROUP DELCONSUMER %x %G %C",
        "XREADGROUP GROUP %G %C ?COUNT_%n ?NOACK STREAMS %x !>|0", "XREADGROUP GROUP %G %C COUNT 3 STREAMS %x >", "XACK %x %G %I %I", "XPENDING %x %G",
        "XPENDING %x %G - + 10 ?%C", "XCLAIM %x %G %C 0 %I ?JUSTID|FORCE", "XAUTOCLAIM %x %G %C 0 0 ?COUNT_%n ?JUSTID", "XINFO GROUPS %x", "XINFO STREAM %x",
        "XINFO STREAM %x FULL", "XINFO CONSUMERS %x %G", "XGROUP BAD %x",
    ]),
    ("geo", &[
        "GEOADD %g ?NX|XX ?CH %L %L %f", "GEOADD %g %L %L %f %L %L %f", "GEOADD %g 200 100 %f", "GEOPOS %g %f %f", "GEODIST %g %f %f ?m|km|mi|BAD", "GEOHASH %g %f %f",
        "GEOSEARCH %g FROMLONLAT %L %L BYRADIUS %n00 km ?ASC|DESC ?COUNT_%n ?WITHDIST ?WITHCOORD ?WITHHASH", "GEOSEARCH %g FROMMEMBER %f BYBOX %n00 %n00 km ASC",
        "GEOSEARCHSTORE %g %g FROMLONLAT %L %L BYRADIUS 500 km ?STOREDIST", "GEORADIUS %g %L %L %n00 km ?WITHDIST ?COUNT_%n ?STORE_%g",
        "GEORADIUSBYMEMBER %g %f %n00 km ?DESC", "GEORADIUS_RO %g %L %L 300 km",
    ]),
    ("bitmap", &[
        "SETBIT %b %n %B", "SETBIT %b %n0 1", "GETBIT %b %n", "BITCOUNT %b ?%i_%i ?BIT", "BITCOUNT %b", "BITPOS %b %B ?%n ?%i ?BYTE|BIT",
        "BITOP !AND|OR|XOR|BAD %b %b %b", "BITOP NOT %b %b", "BITFIELD %b !GET|SET|INCRBY u8 %n %n", "BITFIELD %b ?OVERFLOW_!SAT|FAIL|WRAP INCRBY i5 #%n %i GET u4 0",
        "BITFIELD_RO %b GET u8 %n", "GET %b", "GET %b", "STRLEN %b", "SET %b %v",
    ]),
    ("hyperloglog", &[
        "PFADD %y %f %f %n", "PFADD %y", "PFCOUNT %y", "PFCOUNT %y %y", "PFMERGE %y %y %y", "STRLEN %y", "GET %y", "PFDEBUG ENCODING %y",
    ]),
    ("script", &[
        "EVAL %S 1 %k %v", "EVAL %S 1 %s %v", "EVAL %S 1 %s %n", "EVAL %S 2 %s %l %f", "EVAL_RO %S 1 %k %v", "SCRIPT LOAD %S", "SCRIPT LOAD %S", "EVALSHA %A 1 %s %v",
        "EVALSHA_RO %A 1 %s %v", "EVALSHA ffff 0", "EVAL %S %i %k", "SCRIPT EXISTS %A %A ff", "SCRIPT BAD", "EVAL syntax( 0", "EVAL %S 0", "SCRIPT FLUSH ?ASYNC|BAD",
        "FUNCTION LOAD ?REPLACE %F", "FUNCTION LOAD %v", "FCALL lib_get 1 %s %v", "FCALL lib_get 1 %s", "FCALL_RO lib_get 1 %k %v", "FUNCTION LIST ?LIBRARYNAME_lib|WITHCODE",
        "FUNCTION DELETE lib", "FUNCTION BAD", "FUNCTION FLUSH", "FUNCTION DUMP", "FCALL none 0",
    ]),
    ("blocking", &[
        "BLPOP %l %l 0.01", "BRPOP %l %l 0.01", "BLMOVE %l %l LEFT RIGHT 0.01", "BRPOPLPUSH %l %l 0.01", "BLMPOP 0.01 1 %l LEFT", "BZPOPMIN %z %z 0.01", "BZPOPMAX %z 0.01",
        "BZMPOP 0.01 1 %z MIN", "XREAD BLOCK 5 STREAMS %x $", "XREADGROUP GROUP %G %C BLOCK 5 STREAMS %x >", "BLPOP %l -1", "BLPOP %l x", "BLPOP %l",
    ]),
    ("connection", &[
        "PING", "PING %v", "ECHO %v", "ECHO", "SELECT 0", "SELECT 0", "SELECT 1", "SELECT x", "SELECT 99", "MOVE %k !0|1|x", "SWAPDB 0 1", "HELLO 2", "HELLO 3", "HELLO 9", "UNWATCH", "WATCH %k %k", "WATCH %k", "WATCH %s", "DISCARD", "EXEC",
        "MULTI", "MULTI", "MULTI", "RESET", "QUERY\r\nme", "PUBLISH channel %v",
    ]),
];

/// How often a family is chosen. Those not named: 10.
fn weight(family: &str, is_newer: bool) -> usize {
    match family {
        "string" => 25,
        // Each may wait on both servers.
        "blocking" => 1,
        "newer" => 5 * usize::from(is_newer),
        "connection" => 8,
        _ => 10,
    }
}

/// Their reply is the same whenever they run, unless they say `WRITE`.
const SCRIPTS: &[&str] = &[
    "return {KEYS[1],ARGV[1],3.99,false,{1,{'a'}},true}",
    "return redis.call('GET',KEYS[1])",
    "return redis.pcall('GET',KEYS[1])",
    "return redis.call('SET',KEYS[1],ARGV[1])",
    "return redis.call('APPEND',KEYS[1],ARGV[1])",
    "redis.call('SET',KEYS[1],ARGV[1]) return redis.call('LPUSH',KEYS[1],1)",
    "redis.setresp(3) return redis.call('HGETALL',KEYS[1])['map']",
    "return {err='MY own error'}",
    "return redis.error_reply('another')",
    "return redis.status_reply('FINE')",
    "return nosuchvariable",
    "return {double=3.5}",
    "return {map={a=1}}",
    "redis.setresp(3) return {true,false,{double=2.5},{big_number='123'},{verbatim_string={format='txt',string='x'}}}",
    "return redis.call('NOSUCH')",
    "return redis.call('RPUSH',KEYS[2],KEYS[1],ARGV[1])",
    "return #KEYS..'/'..#ARGV",
    "return tostring(redis.call('INCRBYFLOAT',KEYS[1],ARGV[1]))",
];
/// A library with one function: two would be listed in any order.
const LIBRARY: &str = "#!lua name=lib\nredis.register_function{function_name='lib_get',callback=function(keys,args)\
                       return {redis.call('GET',keys[1]),args[1]}end,flags={'no-writes'}}";

/// What commands need of the server that they go to.
#[derive(Default)]
pub(crate) struct Known {
    /// Results of DUMP.
    pub(crate) dumps: Vec<Vec<u8>>,
    /// What SCRIPT LOAD says of [`scripts`].
    pub(crate) hashes: Vec<Vec<u8>>,
    /// Has commands that came after redis-server 7.0.
    pub(crate) is_newer: bool,
    /// The time of the run, in seconds.
    pub(crate) now: u64,
}

/// The scripts that EVAL runs.
pub(crate) fn scripts() -> impl Iterator<Item = &'static str> {
    SCRIPTS.iter().copied()
}

/// Makes commands.
pub(crate) struct Generator {
    pub(crate) random: Random,
    pub(crate) known: Known,
}

impl Generator {
    /// One that a copy may answer.
    pub(crate) fn read(&mut self) -> Vec<Vec<u8>> {
        let template = self.random.pick(&["GET %s", "GET %s", "MGET %s %s %k", "STRLEN %s", "GETRANGE %s 0 5"]);
        template.split(' ').map(|word| self.word(word)).collect()
    }

    /// Any one.
    pub(crate) fn command(&mut self) -> Vec<Vec<u8>> {
        let weight = |name| weight(name, self.known.is_newer);
        let all: usize = FAMILIES.iter().map(|(name, _)| weight(name)).sum();
        let mut at = self.random.below(all);
        let chosen = FAMILIES.iter().find(|(name, _)| {
            let here = at < weight(name);
            at = at.wrapping_sub(weight(name));
            here
        });
        let (_, templates) = chosen.expect("the weights' sum was drawn below");
        let template = self.random.pick(templates);
        let mut args = Vec::new();
        template.split(' ').for_each(|word| self.words(word, &mut args));
        match self.random.below(100) {
            // Without their numbers these are left to chance.
            0 if !args[0].ends_with(b"POP") && !args[0].windows(4).any(|part| part == b"RAND") => {
                args.truncate(args.len().max(2) - 1)
            }
            1 => args.push(b"more".to_vec()),
            2 => args[0].make_ascii_lowercase(),
            _ => {}
        }
        args
    }

    fn words(&mut self, word: &str, args: &mut Vec<Vec<u8>>) {
        if !word.starts_with(['?', '!', '+']) || word.len() == 1 {
            return args.push(self.word(word));
        }
        let (how, of) = word.split_at(1);
        if how == "?" && self.random.chance(60) {
            return;
        }
        let times = if how == "+" { 1 + self.random.below(3) } else { 1 };
        for _ in 0..times {
            // `TYPE_!hash|string` is no choice between `TYPE_!hash` and `string`.
            let (before, choice) = match of.split_once("_!") {
                Some((before, choice)) => (Some(before), choice),
                None => (None, of),
            };
            let mut of: Vec<&str> = before.into_iter().collect();
            let choices: Vec<&str> = choice.split('|').collect();
            of.push(self.random.pick(&choices));
            of.iter().flat_map(|part| part.split('_')).for_each(|word| args.push(self.word(word)));
        }
    }

    /// A word with its `%…` replaced.
    fn word(&mut self, word: &str) -> Vec<u8> {
        let Some(at) = word.find('%') else { return word.into() };
        let mut made = word.as_bytes()[..at].to_vec();
        let (what, after) = (word.as_bytes()[at + 1], &word[at + 2..]);
        made.extend(self.something(what));
        made.extend(self.word(after));
        made
    }

    fn something(&mut self, what: u8) -> Vec<u8> {
        let random = &mut self.random;
        let text = match what {
            // All of one score, and never written otherwise: the order of names is defined for nothing else.
            b'e' => format!("e:{}", random.below(4)),
            // Keys: string, hash, list, set, sorted set, stream, geo, bitmap, hyperloglog; any.
            // The empty key, of any type.
            b's' | b'h' | b'l' | b't' | b'z' | b'x' | b'g' | b'b' | b'y' | b'k' if random.chance(2) => String::new(),
            b's' | b'h' | b'l' | b't' | b'z' | b'x' | b'g' | b'b' | b'y' if !random.chance(4) => {
                format!("{}:{}", what as char, random.below(4))
            }
            b's' | b'h' | b'l' | b't' | b'z' | b'x' | b'g' | b'b' | b'y' | b'k' => {
                let kind = *random.pick(&[&b's', &b's', &b'h', &b'l', &b't', &b'z', &b'x', &b'g', &b'b', &b'y']);
                format!("{}:{}", kind as char, random.below(4))
            }
            b'v' => match random.below(9) {
                0 => String::new(),
                1 => random.next().to_string(),
                2 => random.below(100).to_string(),
                3 => format!("{}.{}", random.below(1000), random.below(1000)),
                4 => "x".repeat(random.below(300)),
                5 => "y".repeat(random.below(5_000)),
                6 => return (0..random.below(40)).map(|_| random.next() as u8).collect(),
                7 => "line\r\nbreak".into(),
                _ => "hello".into(),
            },
            b'f' => format!("m{}", random.below(12)),
            b'n' => random.below(9).to_string(),
            b'i' => match random.below(20) {
                0 => random
                    .pick(&["", "x", "1.5", "9223372036854775807", "-9223372036854775808", "9223372036854775808"])
                    .into(),
                _ => (random.below(12) as i64 - 5).to_string(),
            },
            b'd' => match random.below(12) {
                0 => random.pick(&["", "x", "inf", "-inf", "nan", "1e300", "-0", "0x10"]).into(),
                1..4 => random.below(10).to_string(),
                _ => format!("{}.{}", random.below(50) as i64 - 20, random.below(1000)),
            },
            b'r' => match random.below(8) {
                0 => "-inf".into(),
                1 => "+inf".into(),
                2 => "x".into(),
                3 => format!("({}", random.below(9)),
                _ => format!("{}", random.below(30) as i64 - 10),
            },
            // A longitude or latitude around Sicily and further north.
            b'L' => format!("{}.{:03}", 13 + random.below(30), random.below(1000)),
            b'X' => match random.below(6) {
                0 => random.pick(&["-", "+", "x"]).into(),
                _ => format!("{}m{}", random.pick(&["[", "("]), random.below(12)),
            },
            b'T' => match random.below(12) {
                0 => random.pick(&["0", "-1", "x", "9223372036854775807"]).into(),
                _ => (100_000_000 + random.below(1000) * 1000).to_string(),
            },
            // No moment of Redis's own to fall due: seconds of the far future, and of the past.
            b'@' => match random.below(12) {
                0 => random.pick(&["0", "-1", "1"]).into(),
                _ => (self.known.now + 1_000_000 + random.below(1000) as u64).to_string(),
            },
            // A lifetime for RESTORE.
            b'#' => random.pick(&["0", "0", "0", "100000000", "-1", "x"]).into(),
            b'p' => random.pick(&["*", "s:*", "?:[1-2]", "m1*", "[^s]:*", "*:\\1", "nothing", ""]).into(),
            b'I' => match random.below(15) {
                0 => random.pick(&["0-0", "x", "-", "1-", "18446744073709551615-18446744073709551615"]).into(),
                _ => format!("{}-{}", random.below(40), random.below(3)),
            },
            b'G' => format!("group{}", random.below(2)),
            b'C' => format!("consumer{}", random.below(2)),
            b'B' => random.pick(&["0", "1", "1", "1", "2"]).into(),
            b'S' => random.pick(SCRIPTS).into(),
            b'F' => LIBRARY.into(),
            b'A' => return self.known.hashes[random.below(self.known.hashes.len())].clone(),
            b'D' => return self.known.dumps[random.below(self.known.dumps.len())].clone(),
            other => panic!("%{} stands for nothing", other as char),
        };
        text.into_bytes()
    }
}
