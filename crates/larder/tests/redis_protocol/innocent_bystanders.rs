//! Clients that send anything: commands from Redis's own table with any arguments, garbage, HTTP,
//! halves of requests, lengths that come to nothing. Beside them two clients that do nothing wrong
//! get right replies, and none of the connections that they share with the strangers is lost.
//!
//! `LARDER_STRANGERS_SECONDS=600 cargo test -p larder --test integration strangers` goes on for
//! this long, from `LARDER_TEST_SEED` on.
use super::{
    common::{PATIENCE, RedisServer, Reply, wait_until},
    innocent::Innocent,
    larder::{Larder, connect, encode},
};
use crate::differential::commands::Random;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// What the test takes, unless it is told otherwise.
const SECONDS: u64 = 8;
/// Requests of one stranger before it leaves, and how many strangers there are at a time.
const REQUESTS: usize = 40;
const STRANGERS: u64 = 4;

/// Left aside: what a client may do to others by right (they are Redis's to guard, or
/// `deny-commands`').
const BY_RIGHT: [&str; 9] = [
    "flushall",
    "flushdb",
    "swapdb",
    "client|kill",
    "client|pause",
    "client|unblock",
    "config|set",
    "debug",
    "script|kill",
];
/// Parameters that lock out, each refused; others would be changed by right.
const PARAMETERS: [&str; 8] = [
    "requirepass",
    "dir",
    "dbfilename",
    "masterauth",
    "maxmemory-clients",
    "client-query-buffer-limit",
    "proto-max-bulk-len",
    "aclfile",
];
const WORDS: [&str; 50] = [
    "f:a",
    "f:b",
    "f:c",
    "f:{t}d",
    "",
    "0",
    "1",
    "-1",
    "2",
    "7",
    "100",
    "-1000",
    "-20000",
    "1000000",
    "9223372036854775807",
    "-9223372036854775808",
    "0.01",
    "nan",
    "-inf",
    "*",
    "$",
    ">",
    "-",
    "+",
    "(1",
    "[a",
    "YES",
    "SYNC",
    "ASYNC",
    "BLOCK",
    "STREAMS",
    "GET",
    "STORE",
    "LIMIT",
    "COUNT",
    "BY",
    "WITHSCORES",
    "REPLACE",
    "COPY",
    "KEYS",
    "NOSAVE",
    "HELP",
    "TIMEOUT",
    "\u{0}\r\n\"'",
    // Like parts of replies, as they are and with escapes that Redis decodes.
    "x\r\n$6\r\nFORGED",
    "x\r\n+QUEUED\r\n:1",
    "#!lua flags=\"x\\r\\n$6\\r\\nFORGED\"\nreturn 1",
    "#!lua name=\"x\\r\\n$99999\\r\\n\"\nreturn 1",
    "error('x\\r\\n-y')",
    "_\r\n",
];
const LINES: [&str; 17] = [
    "POST / HTTP/1.1\r\nHost: x\r\n\r\nSET f:a owned\r\n",
    "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "Host: x\r\n",
    "\r\n",
    "\0\0\0\n",
    "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n",
    "\r\n\r\n\0\r\nQUIT\n",
    "set f:a 0 0 5\r\nhello\r\n",
    "stats\r\n",
    "\x16\x03\x01\x02\0\x01\0\x01\n",
    "*-5\r\n",
    "*0\r\n",
    "*\r\n",
    "$5\r\nhello\r\n",
    "+OK\r\n",
    "*1\r\n+PING\r\n",
    "'\"\r\n",
];

/// Commands and subcommands of Redis's table.
fn names(redis: &RedisServer) -> Vec<Vec<String>> {
    let Reply::Array(Some(all)) = redis.command(&["COMMAND", "LIST"]) else { panic!("no list") };
    let name =
        |name| if let Reply::Bulk(Some(name)) = name { String::from_utf8(name).unwrap() } else { panic!("no name") };
    let names = all.into_iter().map(name).filter(|name| !BY_RIGHT.contains(&name.as_str()));
    names.map(|name| name.split('|').map(str::to_owned).collect()).collect()
}

struct Stranger<'n> {
    random: Random,
    names: &'n [Vec<String>],
}
impl Stranger<'_> {
    fn word(&mut self) -> Vec<u8> {
        match self.random.below(40) {
            0 => vec![b'x'; self.random.below(3000)],
            1 => vec![0xff; 1 + self.random.below(5)],
            _ => WORDS[self.random.below(WORDS.len())].as_bytes().to_vec(),
        }
    }
    fn command(&mut self) -> Vec<u8> {
        let mut args: Vec<Vec<u8>> = match self.random.below(30) {
            0 => ["CONFIG", "SET", PARAMETERS[self.random.below(PARAMETERS.len())]]
                .map(|word| word.as_bytes().to_vec())
                .into(),
            1 => vec![
                b"DEBUG".to_vec(),
                [&b"SLEEP"[..], b"SEGFAULT", b"PROTOCOL", b"OOM"][self.random.below(4)].to_vec(),
            ],
            2 => vec![self.word()],
            3 => vec![b"SRANDMEMBER".to_vec(), b"f:a".to_vec()],
            _ => self.names[self.random.below(self.names.len())].iter().map(|word| word.as_bytes().to_vec()).collect(),
        };
        let arguments = self.random.below(6);
        args.extend((0..arguments).map(|_| self.word()));
        if self.random.below(20) == 0 {
            args[0].make_ascii_uppercase();
        }
        if self.random.below(10) == 0 {
            let line = args.iter().map(|arg| String::from_utf8_lossy(arg)).collect::<Vec<_>>().join(" ");
            return format!("{}\r\n", line.replace(['\r', '\n'], "")).into_bytes();
        }
        encode(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
    fn request(&mut self) -> Vec<u8> {
        match self.random.below(100) {
            0..70 => self.command(),
            70..80 => {
                let mut whole = b"MULTI\r\n".to_vec();
                (0..self.random.below(6)).for_each(|_| whole.extend(self.command()));
                whole.extend([&b"EXEC\r\n"[..], b"DISCARD\r\n", b""][self.random.below(3)]);
                whole
            }
            80..84 => LINES[self.random.below(LINES.len())].as_bytes().to_vec(),
            84..88 => {
                let command = self.command();
                command[..self.random.below(command.len())].to_vec()
            }
            88..92 => (0..self.random.below(300)).map(|_| self.random.below(256) as u8).collect(),
            92..95 => {
                let length = ["536870912", "536936448", "99999999999999999999", "-1", "4294967296", "1048577"]
                    [self.random.below(6)];
                format!("*3\r\n$3\r\nSET\r\n$3\r\nf:a\r\n${length}\r\nshort").into_bytes()
            }
            95 => format!("*{}\r\n$4\r\nMGET\r\n", [1_048_576, 1_048_577, 2_147_483_647][self.random.below(3)])
                .into_bytes(),
            96 => encode(&[b"SET", b"f:large", &vec![b'l'; self.random.below(2 << 20)]]),
            97 => encode(&[b"HELLO", if self.random.chance(50) { b"3" } else { b"2" }]),
            98 => encode(&[b"SADD", b"f:a", &vec![b'm'; 1000]]),
            _ => encode(&[b"BLPOP", b"f:a", b"0"]),
        }
    }
    /// Sends some requests to a new connection, without waiting for replies, and reads those that
    /// are there.
    fn visit(&mut self, port: u16) -> usize {
        let mut stream = connect(port);
        let mut came = 0;
        for _ in 0..REQUESTS {
            let request = self.request();
            // It may have been hung up on.
            if stream.write_all(&request).is_err() {
                break;
            }
            came += drain(&mut stream);
        }
        if self.random.chance(50) {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        // Most visits are answered while the stranger is still here, even on a busy machine.
        stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        came + stream.read(&mut [0; 1 << 16]).unwrap_or(0)
    }
}

/// Reads what is there.
fn drain(stream: &mut TcpStream) -> usize {
    let mut came = 0;
    let mut buffer = vec![0; 1 << 16];
    stream.set_nonblocking(true).unwrap();
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        came += read;
    }
    stream.set_nonblocking(false).unwrap();
    came
}

#[test]
fn strangers_harm_nobody() {
    let redis =
        RedisServer::with(&["--proto-max-bulk-len", "1mb", "--client-query-buffer-limit", "1mb", "--timeout", "2"]);
    let larder =
        Larder::start(&["--source", &redis.url(), "--threads", "2", "--max-value", "8MiB", "--max-memory", "64MiB"]);
    wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    let names = names(&redis);
    assert!(names.len() > 200, "{}", names.len());
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seconds = Duration::from_secs(number("LARDER_STRANGERS_SECONDS").unwrap_or(SECONDS));
    let seed = number("LARDER_TEST_SEED").unwrap_or(1);
    println!("LARDER_TEST_SEED={seed}");
    // One on each worker.
    let innocents = ["innocent", "unsuspecting"].map(|name| Innocent::named(larder.redis, name));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for stranger in 1..=STRANGERS {
            let (names, innocents, port) = (&names, &innocents, larder.redis);
            scope.spawn(move || {
                let random = Random(seed.wrapping_add(stranger).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
                let mut stranger = Stranger { random, names };
                let (mut visits, mut came) = (0, 0);
                while begin.elapsed() < seconds || visits <= 3 || came <= 100 {
                    if innocents.iter().any(Innocent::has_failed) {
                        break;
                    }
                    assert!(begin.elapsed() < seconds + PATIENCE, "{visits} visits, {came} bytes");
                    came += stranger.visit(port);
                    visits += 1;
                }
            });
        }
    });
    for innocent in innocents {
        println!("{} rounds of an innocent client", innocent.end());
    }
    assert_eq!(larder.metric("larder_source_reconnects_total{group=\"default\"}"), 0.0);
    assert_eq!(larder.metric("larder_panics_total"), 0.0);
    assert_eq!(
        redis.command(&["CONFIG", "GET", "requirepass"]),
        Reply::Array(Some(vec![Reply::bulk("requirepass"), Reply::bulk("")]))
    );
}
