//! Two redis-servers that are told the same, one directly and one through Larder, must answer the
//! same, byte for byte.
//!
//! So must two Larders, one without a source and one with a disk store.
//!
//! Three clients send random commands on every type of value, in pipelines of random length, with
//! transactions, in both protocols. `LARDER_DIFFERENTIAL_SECONDS=600 cargo test -p larder --test
//! integration differential::` tries one seed after another for that long, from `LARDER_TEST_SEED`
//! on. How fast writes that do not come through Larder are seen is the coherence checker's
//! business.

use crate::{common, larder};

pub mod commands;
mod judge;
pub mod resp;

use commands::{Generator, Known, Random, scripts};
use common::{RedisServer, wait_until};
use judge::{Rule, rule};
use larder::{Larder, connect, encode};
use resp::Reply;
use std::{
    collections::HashSet,
    io::{BufReader, Write},
    net::TcpStream,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Commands that one seed stands for.
const COMMANDS: usize = 20_000;
/// Seeds that the test tries, unless it is told for how long.
const SEEDS: u64 = 4;
/// How many of those before it a failure shows, and of those that concern the same keys.
const LAST: usize = 20;

/// A connection of either server.
struct Wire(BufReader<TcpStream>);
impl Wire {
    fn to(port: u16) -> Wire {
        Wire(BufReader::new(connect(port)))
    }
    fn send(&mut self, pipeline: &[Vec<Vec<u8>>]) {
        let bytes: Vec<u8> = pipeline.iter().flat_map(|args| encode(&parts(args))).collect();
        self.0.get_mut().write_all(&bytes).unwrap();
    }
    fn read(&mut self) -> (Reply, Vec<u8>) {
        let mut raw = Vec::new();
        let reply = Reply::read(&mut self.0, &mut raw).unwrap();
        (reply, raw)
    }
    fn say(&mut self, args: &[&[u8]]) -> Reply {
        self.0.get_mut().write_all(&encode(args)).unwrap();
        self.read().0
    }
}
fn parts(args: &[Vec<u8>]) -> Vec<&[u8]> {
    args.iter().map(Vec::as_slice).collect()
}

/// One client, as both servers see it.
struct Twins {
    direct: Wire,
    through: Wire,
    /// The rules for the replies that EXEC will bring.
    queued: Vec<Rule>,
}
impl Twins {
    fn rule(&mut self, args: &[Vec<u8>], reply: &Reply) -> Option<Rule> {
        let rule = rule(args);
        match args[0].to_ascii_uppercase().as_slice() {
            _ if reply.text == b"QUEUED" => self.queued.push(rule),
            // A refusal to begin within a transaction leaves it as it is.
            b"MULTI" if reply.kind == b'-' => {}
            b"MULTI" | b"DISCARD" | b"RESET" => self.queued.clear(),
            b"EXEC" => return None,
            _ => {}
        }
        Some(rule)
    }
}

/// Payloads for RESTORE and hashes for EVALSHA, from a server that is left empty.
fn known(redis: &RedisServer) -> Known {
    let mut wire = Wire::to(redis.port());
    let makers: [&[&[u8]]; 6] = [
        &[b"SET", b"k", b"value"],
        &[b"HSET", b"k", b"m1", b"v", b"m2", b"w"],
        &[b"RPUSH", b"k", b"m1", b"2", b"m3"],
        &[b"SADD", b"k", b"1", b"2", b"3"],
        &[b"ZADD", b"k", b"1", b"m1", b"2.5", b"m2"],
        &[b"XADD", b"k", b"1-1", b"m1", b"v"],
    ];
    let mut dumps: Vec<_> = (makers.iter())
        .map(|maker| {
            wire.say(&[b"DEL", b"k"]);
            wire.say(maker);
            wire.say(&[b"DUMP", b"k"]).text
        })
        .collect();
    dumps.push(b"no dump".to_vec());
    let hashes = scripts().map(|script| wire.say(&[b"SCRIPT", b"LOAD", script.as_bytes()]).text).collect();
    wire.say(&[b"SCRIPT", b"FLUSH"]);
    wire.say(&[b"FLUSHALL"]);
    let is_newer = wire.say(&[b"COMMAND", b"INFO", b"DELIFEQ"]).children.iter().any(|row| !row.children.is_empty());
    Known { dumps, hashes, is_newer, now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() }
}

fn show(client: usize, args: &[Vec<u8>]) -> String {
    let words: Vec<_> = args.iter().map(|arg| arg[..arg.len().min(70)].escape_ascii().to_string()).collect();
    format!("{client}: {}", words.join(" "))
}
fn clip(raw: &[u8]) -> String {
    raw[..raw.len().min(600)].escape_ascii().to_string()
}

/// The names of commands, in lower case.
type Names = HashSet<Vec<u8>>;

/// A command, or one that reads, of those with these names.
fn draw(generator: &mut Generator, of: Option<&Names>, reads: bool) -> Vec<Vec<u8>> {
    loop {
        let args = if reads { generator.read() } else { generator.command() };
        if of.is_none_or(|names| names.contains(&args[0].to_ascii_lowercase())) {
            return args;
        }
    }
}

/// One seed's commands, to two servers on these ports.
fn run(seed: u64, known: Known, of: Option<&Names>, direct: u16, through: u16) {
    let (mut errors, mut transactions) = (0, 0);
    let is_newer = known.is_newer;
    let mut generator = Generator { random: Random(seed | 1 << 63), known };
    let mut clients: Vec<Twins> =
        (0..3).map(|_| Twins { direct: Wire::to(direct), through: Wire::to(through), queued: Vec::new() }).collect();
    for twins in &mut clients {
        for wire in [&mut twins.direct, &mut twins.through] {
            wire.say(&[b"FLUSHALL"]);
            wire.say(&[b"SCRIPT", b"FLUSH"]);
            wire.say(&[b"FUNCTION", b"FLUSH"]);
        }
    }
    // The second client speaks RESP3 from the start; all change their minds now and then.
    clients[1].direct.say(&[b"HELLO", b"3"]);
    clients[1].through.say(&[b"HELLO", b"3"]);
    let mut history = Vec::new();
    while history.len() < COMMANDS {
        let random = &mut generator.random;
        let number = random.below(clients.len());
        let deepest = [1, 1, 1, 1, 8, 8, 8, 64][random.below(8)];
        let depth = 1 + random.below(deepest);
        let pipeline: Vec<_> = match random.below(1500) {
            0 => vec![vec![b"FLUSHALL".to_vec()]],
            // Such as begin by chance come to nothing more often than not.
            1..100 => {
                let mut whole = vec![vec![b"MULTI".to_vec()]];
                whole.extend((0..depth.min(8)).map(|_| draw(&mut generator, of, false)));
                whole.push(vec![b"EXEC".to_vec()]);
                whole.into_iter().flat_map(permitted).collect()
            }
            100..250 => (0..depth).map(|_| draw(&mut generator, of, true)).collect(),
            _ => (0..depth).map(|_| draw(&mut generator, of, false)).flat_map(permitted).collect(),
        };
        let twins = &mut clients[number];
        twins.direct.send(&pipeline);
        twins.through.send(&pipeline);
        for (at, args) in pipeline.iter().enumerate() {
            let (expected, expected_raw) = twins.direct.read();
            let (got, got_raw) = twins.through.read();
            let same = match twins.rule(args, &expected) {
                _ if expected_raw == got_raw => true,
                // Larder leaves it to EXEC, which answers the same on both.
                _ if got.text == b"QUEUED" && expected.text.starts_with(b"ERR unknown") => true,
                // These say it otherwise than redis-server 7.0, and Larder itself says it like that one.
                _ if is_newer && newer_text(&expected.text) && newer_text(&got.text) => true,
                Some(rule) => rule.same(&expected, &got),
                None => {
                    expected.kind == got.kind
                        && expected.children.len() == got.children.len()
                        && expected.text == got.text
                        && (twins.queued.iter().zip(&expected.children).zip(&got.children))
                            .all(|((rule, a), b)| rule.same(a, b))
                }
            };
            if args[0].eq_ignore_ascii_case(b"EXEC") {
                transactions += usize::from(expected.children.len() > 1);
                twins.queued.clear();
            }
            errors += usize::from(expected.kind == b'-');
            history.push(show(number, args));
            assert!(
                same,
                "seed {seed}, command {}, number {at} of a pipeline\n{}\ndirectly: {}\nthrough Larder: {}",
                history.len(),
                excerpt(&history, args).join("\n"),
                clip(&expected_raw),
                clip(&got_raw)
            );
        }
    }
    // Refusals alone would prove little.
    assert!(errors < COMMANDS / 3 && transactions > COMMANDS / 1000, "{errors} errors, {transactions} transactions");
}

/// Texts of MULTI and WATCH within a transaction, and of a BITCOUNT whose arguments are wrong twice.
fn newer_text(text: &[u8]) -> bool {
    text.ends_with(b"not allowed inside a transaction")
        || [&b"ERR syntax error"[..], b"ERR value is not an integer or out of range"].contains(&text)
}

/// What Larder refuses is left aside: a change of protocol and of the database within a
/// transaction.
fn permitted(args: Vec<Vec<u8>>) -> Vec<Vec<Vec<u8>>> {
    let before: &[&str] = match args[0].to_ascii_uppercase().as_slice() {
        b"HELLO" | b"SELECT" => &["DISCARD"],
        _ => &[],
    };
    let words = |line: &&str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    before.iter().map(words).chain([args]).collect()
}

/// The last commands, and the last before them that name the same keys.
fn excerpt<'h>(history: &'h [String], args: &[Vec<u8>]) -> Vec<&'h str> {
    let keys: Vec<String> = (args.iter().skip(1))
        .filter(|arg| arg.len() == 3 && arg[1] == b':')
        .map(|key| format!(" {}", key.escape_ascii()))
        .collect();
    let last = history.len().saturating_sub(LAST);
    let related = history[..last].iter().rev().filter(|line| keys.iter().any(|key| line.contains(key)));
    let mut shown: Vec<&str> = related.take(LAST).map(String::as_str).collect();
    shown.reverse();
    shown.push("…");
    shown.extend(history[last..].iter().map(String::as_str));
    shown
}

#[test]
fn replies_are_those_of_redis() {
    let redis = RedisServer::start();
    let behind = RedisServer::start();
    let larder =
        Larder::start(&["--source", &behind.url(), "--threads", "2", "--source-timeout", "10s", "--forward-admin"]);
    wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (seconds, seed) = (number("LARDER_DIFFERENTIAL_SECONDS"), number("LARDER_TEST_SEED"));
    let start = Instant::now();
    let first = seed.unwrap_or(1);
    for seed in first.. {
        run(seed, known(&redis), None, redis.port(), larder.redis);
        println!("seed {seed}: {COMMANDS} commands, {:?} in all", start.elapsed());
        let enough = match seconds {
            Some(seconds) => start.elapsed() >= Duration::from_secs(seconds),
            None => seed + 1 == first + SEEDS,
        };
        if enough {
            break;
        }
    }
    let hits = larder.metric("larder_cache_hits_total{group=\"default\"}");
    // Of so many commands few are asked again before their keys change.
    assert!(hits > 400.0, "{hits} replies came from the tier");
}

#[test]
fn replies_of_a_store_are_those_of_the_tier() {
    let redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let tier = Larder::start(&["--threads", "2"]);
    let store = Larder::start(&["--threads", "2", "--source", &format!("disk:{}", dir.path().display())]);
    let common::Reply::Array(Some(names)) = tier.client().command(&["COMMAND", "LIST"]) else { panic!("no list") };
    let name = |name| if let common::Reply::Bulk(Some(name)) = name { name } else { panic!("no name") };
    let names: Names = names.into_iter().map(name).collect();
    for seed in 1..=SEEDS {
        run(seed, known(&redis), Some(&names), tier.redis, store.redis);
    }
    assert!(store.client().command(&["DBSIZE"]).int() > 0, "nothing was stored");
}
