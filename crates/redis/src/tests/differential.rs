//! The same commands to a real redis-server and to us; the replies must be the same, byte for byte.
use super::support::{Redis, Server, runtime, words};
use crate::tests::memory_store::MemoryStore;
use larder_proto::resp::{View, parse_i64, view};
use larder_store::clock;
use std::rc::Rc;

/// Random numbers that a seed repeats (xorshift64*).
struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }
    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Commands, with `K` for a key, `V` for a value, `I` for an integer, `F` for a decimal number, `T`
/// for a lifetime, `@S` and `@M` for moments in seconds and milliseconds, `O…` for options, `P` for
/// a pattern, `B` for a bit, `U` for BYTE or BIT, `Y` for the type of a bit field, `J` for what is
/// written to one, `H` for the key of a HyperLogLog, `E` for many elements of one.
const COMMANDS: &[&str] = &[
    "GET K",
    "GET K",
    "GET K",
    "SET K V",
    "SET K V",
    "SET K V",
    "SET K V OS",
    "SET K V OS OS",
    "SET K V OS OS OS",
    "SETNX K V",
    "SETEX K T V",
    "PSETEX K T V",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K OG",
    "GETEX K OG OG",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K I I",
    "SUBSTR K I I",
    "SETRANGE K I V",
    "GETBIT K I",
    "SETBIT K I 0",
    "SETBIT K I 1",
    "SETBIT K I I",
    "BITCOUNT K",
    "BITCOUNT K I I",
    "BITCOUNT K I I U",
    "BITCOUNT K I",
    "BITCOUNT K I I U I",
    "BITPOS K I",
    "BITPOS K B",
    "BITPOS K B I",
    "BITPOS K B I I",
    "BITPOS K B I I U",
    "BITPOS K B I I U I",
    "BITOP AND K K K",
    "BITOP OR K K K K",
    "BITOP xor K K K",
    "BITOP NOT K K",
    "BITOP NOT K K K",
    "BITOP BAD K K",
    "BITFIELD K",
    "BITFIELD K GET Y I",
    "BITFIELD K SET Y I J",
    "BITFIELD K INCRBY Y #2 I",
    "BITFIELD K INCRBY Y #3 I GET Y #3 SET Y 7 J",
    "BITFIELD K overflow sat INCRBY Y I I INCRBY Y #1 I",
    "BITFIELD K OVERFLOW FAIL INCRBY Y I I OVERFLOW WRAP INCRBY Y I I",
    "BITFIELD K OVERFLOW SAT SET Y I J OVERFLOW FAIL SET Y I J GET Y I",
    "BITFIELD K OVERFLOW BAD",
    "BITFIELD K GET Y",
    "BITFIELD_RO K GET Y I GET Y #1",
    "BITFIELD_RO K SET Y 0 1",
    "PFADD H",
    "PFADD H V",
    "PFADD H V V V",
    "PFADD H E",
    "PFADD H E",
    "PFADD H E",
    "PFADD K V",
    "PFCOUNT H",
    "PFCOUNT H",
    "PFCOUNT H H H",
    "PFCOUNT H K",
    "PFMERGE H",
    "PFMERGE H H H",
    "PFMERGE H K",
    "GET H",
    "GET H",
    "STRLEN H",
    "DEL H",
    "COPY H H REPLACE",
    "DUMP missing",
    "RESTORE K 0 V",
    "RESTORE K I V REPLACE",
    "RESTORE K T V ABSTTL replace IDLETIME I",
    "RESTORE K T V FREQ I REPLACE",
    "RESTORE missing 0 V IDLETIME 1 FREQ 1",
    "RESTORE K 0 V FREQ",
    "RESTORE K 0 V BAD",
    "MGET K K K",
    "MSET K V K V",
    "MSET K V K",
    "MSETNX K V K V",
    "INCR K",
    "DECR K",
    "INCRBY K I",
    "DECRBY K I",
    "INCRBYFLOAT K F",
    "INCRBYFLOAT K F",
    "DEL K",
    "DEL K K",
    "UNLINK K K",
    "EXISTS K",
    "EXISTS K K K",
    "TOUCH K K",
    "TYPE K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K",
    "COPY K K REPLACE",
    "COPY K K DB 0",
    "COPY K K DB I",
    "COPY K K BAD",
    "EXPIRE K T",
    "EXPIRE K T OE",
    "EXPIRE K T OE OE",
    "PEXPIRE K T OE",
    "EXPIREAT K @S",
    "EXPIREAT K @S OE",
    "PEXPIREAT K @M OE",
    "PERSIST K",
    "TTL K",
    "PTTL K",
    "EXPIRETIME K",
    "PEXPIRETIME K",
    "KEYS P",
    "SCAN 0 COUNT 100000",
    "SCAN 0 MATCH P COUNT 100000",
    "SCAN 0 TYPE string COUNT 100000",
    "SCAN 0 COUNT I MATCH nothing",
    "SCAN I COUNT BAD",
    "SCAN BAD",
    "SCAN 0 TYPE list COUNT 100000",
    "DBSIZE",
    "OBJECT REFCOUNT missing",
    "OBJECT ENCODING missing",
    "OBJECT BAD K",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "ECHO V",
    "PING",
    "PING V",
    "PING V V",
    "SELECT I",
    "SELECT 0",
    "SELECT 0",
    "NOSUCH K V",
    "GET",
    "SET K",
    "INCR",
    "CLIENT BAD",
    "CLIENT GETNAME",
    "CLIENT SETNAME K",
    "CONFIG BAD x",
    "COMMAND GETKEYS GET K",
    "COMMAND GETKEYS MSET K V K V",
    "COMMAND GETKEYS BAD x",
    "COMMAND GETKEYS PING x",
    "COMMAND GETKEYS GET x y",
    "FLUSHALL BAD",
    "FLUSHDB ASYNC",
    "WAIT 0 0",
    "WAIT BAD 0",
    "MEMORY BAD",
    "AUTH V",
    "AUTH default V",
    "AUTH nobody V",
    "AUTH a b c",
    "HELLO BAD",
    "HELLO 4",
    "HELLO 3 BAD",
    "CLIENT NO-EVICT BAD",
    "CLIENT REPLY BAD",
    "CLIENT KILL ID 0",
    "CLIENT KILL BAD 1",
    "CLIENT LIST TYPE V",
    "CLIENT LIST ID BAD",
    "CLUSTER INFO",
    "UNWATCH",
    "SLOWLOG BAD",
    "SLOWLOG GET I",
    "ROLE",
];

/// Commands that Debian's redis-server 7.0 lacks and Valkey 9.1 has, among those that show what they
/// did. `W` is one of few values, so that two are often the same.
const COMMANDS_OF_VALKEY: &[&str] = &[
    "GET K",
    "GET K",
    "SET K W",
    "SET K W",
    "SET K W IFEQ W",
    "SET K W IFEQ W",
    "SET K W IFEQ W GET",
    "SET K W get ifeq W",
    "SET K W OS IFEQ W",
    "SET K W IFEQ W OS",
    "SET K W OS IFEQ W OS",
    "SET K W IFEQ",
    "GETEX K IFEQ W",
    "DELIFEQ K W",
    "DELIFEQ K W",
    "DELIFEQ K",
    "DELIFEQ K W W",
    "MSETEX 2 K W K W",
    "MSETEX 2 K W K W OS",
    "MSETEX 1 K W OS OS",
    "MSETEX 2 K W OS K W",
    "MSETEX I K W",
    "MSETEX 1 K",
    "MSETEX",
    "APPEND K W",
    "INCR K",
    "DEL K",
    "EXISTS K K",
    "TTL K",
    "EXPIRE K T",
];

/// A command that is not one if `None`.
fn fill(word: &str, random: &mut Random, now: u64) -> Vec<u8> {
    let text = match word {
        "K" => match random.below(13) {
            12 => String::new(),
            number => format!("key:{number}"),
        },
        "V" => match random.below(8) {
            0 => String::new(),
            1 => random.next().to_string(),
            2 => (random.next() as i64).to_string(),
            3 => random.below(100).to_string(),
            4 => format!("{}.{}", random.below(1000), random.below(100_000)),
            5 => "x".repeat(random.below(3000)),
            6 => return (0..random.below(40)).map(|_| random.next() as u8).collect(),
            _ => "hello world\r\n".into(),
        },
        "W" => random.pick(&["", "1", "7", "a", "b"]).into(),
        "I" => match random.below(12) {
            0 => i64::MAX.to_string(),
            1 => i64::MIN.to_string(),
            2 => random
                .pick(&["", "abc", "1.5", "01", "-0", "+1", "9223372036854775808", " 1", "99999999999999999999"])
                .into(),
            3..8 => (random.below(60) as i64 - 30).to_string(),
            _ => random.below(8000).to_string(),
        },
        "F" => match random.below(8) {
            0 => random
                .pick(&[
                    "", "abc", "inf", "-inf", "nan", "1e400", "1e5000", "1e-5000", " 1", "1 ", "1e", ".", "-.5", "5.",
                    "+3",
                ])
                .into(),
            1 => format!("{}e{}", random.below(1000), random.below(60) as i64 - 30),
            2 => random.below(100_000).to_string(),
            _ => format!("{}{}.{}", random.pick(&["", "-"]), random.below(100_000), random.next() >> random.below(60)),
        },
        // Long enough not to pass while the test runs.
        "T" => match random.below(10) {
            0 => random
                .pick(&["0", "-1", "abc", "9223372036854775807", "137000000000", "-9223372036854775808", "1.5"])
                .into(),
            _ => (1_000_000 + random.below(1000) * 1000).to_string(),
        },
        "@S" => match random.below(5) {
            0 => random.pick(&["0", "-1", "1", "9223372036854775807", "x"]).into(),
            _ => (now / 1000 + 10_000 + random.below(1000) as u64).to_string(),
        },
        "@M" => match random.below(5) {
            // The latest that an entry can have. Redis takes later ones too.
            0 => random.pick(&["0", "-1", "1", "140737488355327", "x"]).into(),
            _ => (now + 10_000_000 + random.below(1_000_000) as u64).to_string(),
        },
        // Redis takes the least numbers for too large ones (BITFIELD … OVERFLOW SAT SET i8 0 -9223372036854775808).
        "J" => match fill("I", random, now) {
            least if least == b"-9223372036854775808" => "-4611686018427387904".into(),
            number => return number,
        },
        "B" => random.pick(&["0", "1"]).into(),
        "U" => random.pick(&["BYTE", "bit", "BIT", "BAD"]).into(),
        "Y" => match random.below(8) {
            0 => random.pick(&["", "i", "u64", "i65", "i0", "U8", "x8", "i-1"]).into(),
            1 => random.pick(&["i64", "u63", "i1", "u1"]).into(),
            _ => format!("{}{}", random.pick(&["i", "u"]), random.below(63) + 1),
        },
        "H" => format!("log:{}", random.below(4)),
        "P" => random
            .pick(&[
                "*",
                "key:*",
                "key:?",
                "key:[1-3]",
                "key:[^1]",
                "*1*",
                "nothing",
                "key:1?",
                "[k]ey:\\1",
                "k*y*:*2",
                "",
            ])
            .into(),
        word => word.into(),
    };
    text.into_bytes()
}

fn options(word: &str, random: &mut Random, now: u64, into: &mut Vec<Vec<u8>>) {
    let with_time = |name: &str, time: &str, random: &mut Random, into: &mut Vec<Vec<u8>>| {
        into.push(name.into());
        if !random.chance(5) {
            into.push(fill(time, random, now));
        }
    };
    match (word, random.below(if word == "OS" { 11 } else { 6 })) {
        ("OE", _) => into.push(random.pick(&["NX", "XX", "GT", "LT", "nx", "BAD"]).into()),
        (_, 0) => with_time("EX", "T", random, into),
        (_, 1) => with_time("px", "T", random, into),
        (_, 2) => with_time("EXAT", "@S", random, into),
        (_, 3) => with_time("PXAT", "@M", random, into),
        (_, 4) => into.push("BAD".into()),
        ("OG", _) => into.push("PERSIST".into()),
        (_, 5 | 6) => into.push("NX".into()),
        (_, 7) => into.push("XX".into()),
        (_, 8 | 9) => into.push("get".into()),
        _ => into.push("KEEPTTL".into()),
    }
}

fn command(commands: &[&str], random: &mut Random, now: u64) -> Vec<Vec<u8>> {
    let mut args = Vec::new();
    for word in random.pick(commands).split(' ') {
        match word {
            "OS" | "OG" | "OE" => options(word, random, now, &mut args),
            "E" => args.extend((0..random.below(600)).map(|_| random.below(1 << 20).to_string().into_bytes())),
            _ => args.push(fill(word, random, now)),
        }
    }
    args
}

/// Whether two replies are the same, as far as they can be: order of keys and the passing of a
/// moment aside.
fn same(args: &[Vec<u8>], theirs: &[u8], ours: &[u8]) -> bool {
    if theirs == ours {
        return true;
    }
    let name = args[0].to_ascii_uppercase();
    let (Ok(theirs), Ok(ours)) = (view(theirs), view(ours)) else {
        return false;
    };
    match (name.as_slice(), theirs, ours) {
        (b"TTL" | b"EXPIRETIME", View::Integer(a), View::Integer(b)) => same_time(a, b, 1000),
        (b"PTTL" | b"PEXPIRETIME", View::Integer(a), View::Integer(b)) => same_time(a, b, 1),
        // Redis still counts what has expired.
        (b"DBSIZE", View::Integer(a), View::Integer(b)) => (b..=b + 12).contains(&a),
        (b"KEYS", View::Array(a), View::Array(b)) => sorted(a) == sorted(b),
        (b"SCAN", View::Array(mut a), View::Array(mut b)) => {
            // The cursors are each server's own business, as long as the end is an end.
            let all = |cursor: Option<View<'_>>| cursor == Some(View::Bulk(b"0"));
            let (a_ends, b_ends) = (all(a.next()), all(b.next()));
            match (a.next(), b.next()) {
                (Some(View::Array(a)), Some(View::Array(b))) => !(a_ends && b_ends) || sorted(a) == sorted(b),
                _ => false,
            }
        }
        // A transaction's replies follow its commands; each was compared alone often enough, so only their number is
        // looked at where time or order enters.
        (b"EXEC", View::Array(a), View::Array(b)) => a.len() == b.len() && a.zip(b).all(|(a, b)| loosely(&a, &b)),
        _ => false,
    }
}
/// In units of so many milliseconds.
fn same_time(theirs: i64, ours: i64, unit: i64) -> bool {
    // The engine keeps 47 bits of milliseconds, which end in the year 6429.
    let end = ((1i64 << 47) - 1) / unit;
    let far = end - clock::now() as i64 / unit - 1;
    let near = theirs > 0 && ours > 0 && theirs.abs_diff(ours) <= 2000 / unit as u64;
    near || theirs > far && (far..=end + 1).contains(&ours)
}
fn sorted(values: larder_proto::resp::Values<'_>) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        values.filter_map(|v| if let View::Bulk(b) = v { Some(b.to_vec()) } else { None }).collect();
    all.sort_unstable();
    all
}
fn loosely(a: &View<'_>, b: &View<'_>) -> bool {
    match (a, b) {
        (View::Integer(a), View::Integer(b)) => {
            a.abs_diff(*b) <= 2000 || same_time(*a, *b, 1) || same_time(*a, *b, 1000)
        }
        (View::Array(a), View::Array(b)) => a.len() == b.len(),
        _ => a == b,
    }
}

/// Known differences: what we answer instead.
fn expected_difference(args: &[Vec<u8>], theirs: &[u8], ours: &[u8]) -> bool {
    let is = |index: usize, name: &str| args.get(index).is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
    // Redis has databases besides 0.
    is(0, "SELECT") && ours == b"-ERR DB index is out of range\r\n" && theirs == b"+OK\r\n"
        || is(0, "COPY") && args.len() == 5 && ours == b"-ERR DB index is out of range\r\n"
}

/// A reply, without what Larder adds for clients that guess passwords.
fn without_wait(mut reply: Vec<u8>) -> Vec<u8> {
    const ADDED: &[u8] = b"-WRONGPASS too many failed logins";
    while let Some(at) = reply.windows(ADDED.len()).position(|part| part == ADDED) {
        let len = reply[at..].iter().position(|byte| *byte == b'\r').unwrap_or(reply.len() - at);
        reply.splice(at..at + len, *b"-WRONGPASS invalid username-password pair or user is disabled.");
    }
    reply
}

/// Without a source, and with one that keeps its entries on this machine.
fn servers(args: &[&str]) -> [Server; 2] {
    [Server::new(args), Server::with_source(args, Rc::new(MemoryStore::default()))]
}

fn run(commands: &[&str], seed: u64, steps: usize, resp3: bool) {
    // On a busy machine any command may be slow.
    for server in servers(&["--max-value", "536870912", "--slowlog-log-slower-than", "1h"]) {
        run_on(&server, commands, seed, steps, resp3);
    }
}
fn run_on(server: &Server, commands: &[&str], seed: u64, steps: usize, resp3: bool) {
    let (redis, runtime) = (Redis::start(), runtime());
    let (mut theirs, mut ours) = (redis.connect(), server.client());
    let mut random = Random(seed);
    if resp3 {
        theirs.say("HELLO 3");
        ours.say("HELLO 3");
    }
    let mut ask = |args: &[Vec<u8>]| (theirs.call(args), runtime.block_on(ours.wait(args)));
    let mut history = Vec::new();
    let mut within = false;
    for step in 0..steps {
        let args = command(commands, &mut random, clock::now());
        // The other databases would diverge for good.
        let shown =
            || args.iter().map(|arg| arg[..arg.len().min(60)].escape_ascii().to_string()).collect::<Vec<_>>().join(" ");
        if within && (args[0] == b"SELECT" || args[0] == b"COPY") && args.len() != 3
            || args[0] == b"SELECT" && args[1] != b"0"
        {
            let valid = args.get(1).and_then(|arg| parse_i64(arg)).is_some_and(|db| (1..16).contains(&db));
            if valid || within {
                continue;
            }
        }
        if args[0] == b"COPY" && args.len() == 5 && parse_i64(&args[4]).is_some_and(|db| (1..16).contains(&db)) {
            continue;
        }
        let (a, b) = ask(&args);
        let b = without_wait(b);
        history.push(shown());
        if !same(&args, &a, &b) && !expected_difference(&args, &a, &b) {
            let last = &history[history.len().saturating_sub(12)..];
            panic!(
                "seed {seed}, step {step}, RESP{}\n{}\nredis:  {}\nlarder: {}",
                if resp3 { 3 } else { 2 },
                last.join("\n"),
                a[..a.len().min(500)].escape_ascii(),
                b[..b.len().min(500)].escape_ascii()
            );
        }
        within = match args[0].as_slice() {
            b"MULTI" => true,
            b"EXEC" | b"DISCARD" => false,
            _ => within,
        };
    }
}

#[test]
fn random_commands_in_resp2() {
    run(COMMANDS, seed(1), 30_000, false);
}

#[test]
fn random_commands_in_resp3() {
    run(COMMANDS, seed(2), 30_000, true);
}

#[test]
#[ignore = "make test-valkey"]
fn commands_of_valkey() {
    run(COMMANDS_OF_VALKEY, seed(1), 20_000, false);
    run(COMMANDS_OF_VALKEY, seed(2), 20_000, true);
}

/// `LARDER_TEST_SEED` tries others.
fn seed(default: u64) -> u64 {
    let given = std::env::var("LARDER_TEST_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    given.map_or(default, |seed| seed * 2 + default)
}

/// Lines of two clients (`1:` and `2:`), run on both servers; every reply must be the same.
fn script(lines: &[&str]) {
    servers(&[]).iter().for_each(|server| script_on(server, lines));
}
fn script_on(server: &Server, lines: &[&str]) {
    let (redis, runtime) = (Redis::start(), runtime());
    let mut theirs = [redis.connect(), redis.connect()];
    let mut ours = [server.client(), server.client()];
    for line in lines {
        let (client, line) = line.split_once(": ").expect("`1: COMMAND`");
        let client = client.parse::<usize>().expect("a number") - 1;
        let a = theirs[client].say(line);
        let b = String::from_utf8_lossy(&runtime.block_on(ours[client].wait(&words(line)))).into_owned();
        if line.starts_with("HELLO ") {
            // It names versions and connections.
            assert_eq!(b[..1], a[..1], "{line}");
        } else {
            assert_eq!(b, a, "{line}");
        }
    }
}

#[test]
fn transactions() {
    script(&[
        "1: EXEC",
        "1: DISCARD",
        "1: MULTI",
        "1: MULTI",
        "1: WATCH a",
        "1: SET a 1",
        "1: INCR a",
        "1: GET a",
        "1: UNWATCH",
        "1: EXEC",
        "1: MULTI",
        "1: SET a",
        "1: GET a",
        "1: EXEC",
        "1: GET a",
        "1: MULTI",
        "1: NOSUCH",
        "1: EXEC",
        "1: MULTI",
        "1: EXEC x",
        "1: PING",
        "1: EXEC",
        "1: EXEC x",
        // Watched and changed by another.
        "1: WATCH a b",
        "2: SET b 1",
        "1: MULTI",
        "1: GET a",
        "1: EXEC",
        "1: HELLO 3",
        "1: WATCH a",
        "2: DEL a",
        "1: MULTI",
        "1: EXEC",
        // Watched and left alone.
        "1: WATCH a missing",
        "2: SET c 1",
        "2: EXPIRE missing 10",
        "1: MULTI",
        "1: INCR c",
        "1: EXEC",
        // Unwatched in time.
        "1: WATCH a",
        "2: SET a 1",
        "1: UNWATCH",
        "1: MULTI",
        "1: EXEC",
        // DISCARD forgets what was watched, EXEC too.
        "1: WATCH a",
        "2: SET a 2",
        "1: MULTI",
        "1: DISCARD",
        "1: MULTI",
        "1: EXEC",
        "1: WATCH a",
        "1: MULTI",
        "1: EXEC",
        "2: SET a 3",
        "1: MULTI",
        "1: GET a",
        "1: EXEC",
        // Expiry, persistence and flushing count as changes.
        "1: WATCH a",
        "2: EXPIRE a 100",
        "1: MULTI",
        "1: EXEC",
        "1: WATCH a",
        "2: FLUSHALL",
        "1: MULTI",
        "1: EXEC",
        "1: WATCH a",
        "2: FLUSHALL",
        "1: MULTI",
        "1: PING",
        "1: EXEC",
        // The keyspace as a whole, and the connection, within a transaction.
        "1: MULTI",
        "1: SET x 1",
        "1: DBSIZE",
        "1: KEYS *",
        "1: FLUSHALL",
        "1: DBSIZE",
        "1: GET x",
        "1: SELECT 0",
        "1: MGET x y",
        "1: INCR x",
        "1: APPEND x y",
        "1: INCR x",
        "1: EXEC",
        "1: GET x",
        "1: MULTI",
        "1: RESET",
        "1: EXEC",
    ]);
}

#[test]
fn encodings_and_types() {
    let mut lines: Vec<String> = Vec::new();
    for value in ["1", "-1", "0", "01", "9223372036854775807", "9223372036854775808", "abc", "-", "3.0"] {
        lines.push(format!("1: SET k {value}"));
        lines.push("1: OBJECT ENCODING k".into());
        lines.push("1: TYPE k".into());
        lines.push("1: OBJECT HELP x".into());
    }
    for len in [43, 44, 45, 100] {
        lines.push(format!("1: SET k {}", "x".repeat(len)));
        lines.push("1: OBJECT ENCODING k".into());
    }
    lines.push("1: OBJECT IDLETIME missing".into());
    lines.push("1: OBJECT FREQ missing".into());
    lines.push("1: MEMORY USAGE missing".into());
    lines.push("1: MEMORY USAGE missing SAMPLES -1".into());
    lines.push("1: MEMORY USAGE missing SAMPLES".into());
    lines.push("1: MEMORY USAGE missing BAD 1".into());
    script(&lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn expiries_to_the_millisecond() {
    let at = clock::now() + 1_000_000;
    let lines = [
        format!("1: SET a 1 PXAT {at}"),
        "1: PEXPIRETIME a".into(),
        "1: EXPIRETIME a".into(),
        format!("1: PEXPIREAT a {} GT", at - 1),
        format!("1: PEXPIREAT a {} GT", at),
        format!("1: PEXPIREAT a {} GT", at + 1),
        "1: PEXPIRETIME a".into(),
        format!("1: PEXPIREAT a {} LT", at + 1),
        format!("1: PEXPIREAT a {} LT", at - 400),
        "1: PEXPIRETIME a".into(),
        "1: EXPIRETIME a".into(),
        "1: SET a 2 KEEPTTL".into(),
        "1: PEXPIRETIME a".into(),
        "1: INCR a".into(),
        "1: APPEND a 1".into(),
        "1: SETRANGE a 0 5".into(),
        "1: PEXPIRETIME a".into(),
        "1: RENAME a b".into(),
        "1: COPY b c".into(),
        "1: PEXPIRETIME c".into(),
        "1: GETSET b 1".into(),
        "1: PEXPIRETIME b".into(),
        format!("1: GETEX c PXAT {}", at + 5),
        "1: PEXPIRETIME c".into(),
        "1: GETEX c PERSIST".into(),
        "1: PEXPIRETIME c".into(),
        "1: GETEX c EXAT 1".into(),
        "1: GET c".into(),
        "1: SET d 1 PXAT 1".into(),
        "1: GET d".into(),
        "1: EXISTS d".into(),
        "1: SET d 1".into(),
        "1: EXPIREAT d 1".into(),
        "1: EXISTS d".into(),
        "1: SET d 1".into(),
        "1: EXPIRE d -1".into(),
        "1: EXISTS d".into(),
        "1: EXPIRE d 9223372036854775807".into(),
        "1: PEXPIRE d 9223372036854775807".into(),
        "1: SET d 1 EX 9223372036854775807".into(),
        "1: SET d 1 PX 9223372036854775807".into(),
    ];
    script(&lines.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_is_not_the_protocol() {
    let redis = Redis::start();
    let line = "x".repeat(70_000);
    let cases = [
        "*1\r\n$4\r\nPING\r\n*x\r\n",
        "*3000000000\r\n",
        "*-1\r\nPING\r\n",
        "*0\r\nPING\r\n",
        "*1\r\n:1\r\nPING\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$abc\r\n",
        "*1\r\n$3000000000\r\n",
        "*1\r\n\r\n",
        "*2\r\n$4\r\nECHO\r\n$2\r\nabXXPING\r\n",
        "*01\r\n",
        "*\r\n",
        "\r\n\r\n  \r\nPING\r\n",
        "PING\nPING\r\nping  hi \r\n",
        "ECHO \"a\\x41\\n\" \r\nECHO 'a\\'b'\r\nECHO \"a\\\"b\"\r\n",
        "ECHO \"a\r\nPING\r\n",
        "ECHO \"a\"b\r\nPING\r\n",
        "NOSUCH\r\nPING\r\n",
        "NOSUCH a \"b c\" \"\\x00d\" \"e\\r\\nf\"\r\n",
        "\"NO\\r\\nSUCH\" a\r\n",
        "DEBUG JMAP\r\nPING\r\n",
        "QUIT\r\nPING\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n",
        "Host: x\r\nPING\r\n",
        "CLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\nPING\r\n",
        "CLIENT REPLY SKIP\r\nPING\r\nPING\r\nNOSUCH\r\n",
        "CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nPING\r\nNOSUCH\r\nGET\r\nCLIENT REPLY ON\r\n",
        "CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\n",
        "CLIENT REPLY OFF\r\nMULTI\r\nSET a 1\r\nEXEC\r\nCLIENT REPLY ON\r\nGET a\r\nDEL a\r\n",
        &format!("*{line}"),
        &format!("*1\r\n${line}"),
        &line,
        &format!("NOSUCH{} {}\r\n", &line[..200], &line[..300]),
        &format!("NOSUCH {} {} {}\r\n", &line[..50], &line[..60], &line[..70]),
        &format!("CLIENT {}\r\n", &line[..200]),
    ];
    for input in cases {
        let theirs = redis.connect().raw(input.as_bytes());
        let server = Server::new(&["--max-value", "536870912"]);
        let ours = server.client().raw(input.as_bytes());
        let shown = &input[..input.len().min(80)];
        assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "{shown:?}");
    }
}
