//! Keyspace notifications where Larder has the entries, compared with those of redis-server.
use super::{
    common::{RedisServer, wait_until},
    larder::{Larder, connect, encode},
    resp::Reply,
};
use crate::differential::commands::{Generator, Known, Random};
use std::{
    io::{BufReader, Write},
    net::TcpStream,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// Random commands for each set of classes.
const COMMANDS: usize = 2_000;

/// Commands whose events redis-server 7.0 has, too.
const NAMES: &str = "append bitfield bitop copy decr decrby del expire expireat get getdel getex getset incr incrby \
                     incrbyfloat mset msetnx persist pexpire pexpireat pfadd pfcount pfmerge psetex rename renamenx \
                     restore set setbit setex setnx setrange touch ttl unlink";

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A server, with a connection for commands and one that hears all events.
struct Observed {
    commands: BufReader<TcpStream>,
    heard: BufReader<TcpStream>,
}

impl Observed {
    fn new(port: u16, classes: &str) -> Observed {
        let mut observed = Observed { commands: BufReader::new(connect(port)), heard: BufReader::new(connect(port)) };
        observed.ask(&words(&format!("CONFIG SET notify-keyspace-events {classes}")));
        for line in ["PSUBSCRIBE __key*__:*", "SUBSCRIBE mark"] {
            observed.heard.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
            Reply::read(&mut observed.heard, &mut Vec::new()).unwrap();
        }
        observed
    }

    fn without_a_source(args: &[&str], classes: &str) -> (Larder, Observed) {
        let larder = Larder::start(&[&["--threads", "2", "--memcached", "127.0.0.1:0"], args].concat());
        let observed = Observed::new(larder.redis, classes);
        (larder, observed)
    }

    fn on_a_disk_store(classes: &str) -> (TempDir, Larder, Observed) {
        let dir = TempDir::new().unwrap();
        let (larder, observed) =
            Observed::without_a_source(&["--source", &format!("disk:{}", dir.path().display())], classes);
        (dir, larder, observed)
    }

    fn send(&mut self, pipeline: &[Vec<Vec<u8>>]) {
        let bytes = |args: &Vec<Vec<u8>>| encode(&args.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let bytes: Vec<u8> = pipeline.iter().flat_map(bytes).collect();
        self.commands.get_mut().write_all(&bytes).unwrap();
    }

    fn ask(&mut self, args: &[Vec<u8>]) -> Reply {
        self.send(&[args.to_vec()]);
        Reply::read(&mut self.commands, &mut Vec::new()).unwrap()
    }

    /// The next event, as its channel and its text; `None`: the mark.
    fn next(&mut self) -> Option<(String, String)> {
        let message = Reply::read(&mut self.heard, &mut Vec::new()).unwrap();
        let [.., channel, text] = &message.children[..] else { panic!("no message: {message:?}") };
        let text_of = |part: &Reply| part.text.escape_ascii().to_string();
        (channel.text != b"mark").then(|| (text_of(channel), text_of(text)))
    }

    /// Sends commands in one write. The events that they cause, in order.
    fn events(&mut self, pipeline: &[Vec<Vec<u8>>]) -> Vec<(String, String)> {
        self.send(pipeline);
        for _ in pipeline {
            Reply::read(&mut self.commands, &mut Vec::new()).unwrap();
        }
        self.ask(&words("PUBLISH mark -"));
        std::iter::from_fn(|| self.next()).collect()
    }

    /// The events of lines, each as `event key`.
    fn named(&mut self, lines: &[&str]) -> Vec<String> {
        let lines: Vec<_> = lines.iter().map(|line| words(line)).collect();
        let prefix = "__keyevent@0__:";
        let events = self.events(&lines).into_iter();
        events.filter_map(|(channel, text)| Some(format!("{} {text}", channel.strip_prefix(prefix)?))).collect()
    }
}

#[test]
fn events_of_random_commands_are_those_of_redis() {
    let redis = RedisServer::start();
    let mut dumped = redis.client();
    dumped.command(&["SET", "k", "value"]);
    let super::common::Reply::Bulk(Some(dump)) = dumped.command(&["DUMP", "k"]) else { panic!("no dump") };
    for (seed, classes) in (1..).zip(["KEAn", "K$n", "Egx", "En", "KEA"]) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let hashes = vec![b"none".to_vec()];
        let known = Known { dumps: vec![dump.clone(), b"no dump".to_vec()], hashes, is_newer: false, now };
        let mut generator = Generator { random: Random(seed | 1 << 63), known };
        let mut theirs = Observed::new(redis.port(), classes);
        theirs.ask(&words("FLUSHALL"));
        let (_larder, mut memory) = Observed::without_a_source(&[], classes);
        let (_dir, _store, mut disk) = Observed::on_a_disk_store(classes);
        let names: Vec<&str> = NAMES.split_whitespace().collect();
        let (mut sent, mut heard) = (0, 0);
        while sent < COMMANDS {
            let depth = 1 + generator.random.below(6);
            let mut pipeline = Vec::new();
            while pipeline.len() < depth {
                let args = generator.command();
                let name = String::from_utf8_lossy(&args[0]).to_ascii_lowercase();
                if names.contains(&&*name) {
                    pipeline.push(args);
                }
            }
            if generator.random.chance(20) {
                pipeline.insert(0, words("MULTI"));
                pipeline.push(words("EXEC"));
            }
            sent += pipeline.len();
            let expected = theirs.events(&pipeline);
            heard += expected.len();
            for (name, server) in [("without a source", &mut memory), ("on a disk store", &mut disk)] {
                let got = server.events(&pipeline);
                let show = |args: &Vec<Vec<u8>>| {
                    args.iter().map(|arg| arg[..arg.len().min(40)].escape_ascii().to_string()).collect::<Vec<_>>()
                };
                let lines: Vec<_> = pipeline.iter().map(show).collect();
                assert_eq!(got, expected, "{name}, classes {classes}, seed {seed}: {lines:?}");
            }
        }
        assert!(heard > COMMANDS / 100, "{heard} events with {classes}");
    }
}

#[test]
fn commands_that_redis_7_lacks_have_events() {
    let (_larder, mut memory) = Observed::without_a_source(&[], "KEAn");
    let (_dir, _store, mut disk) = Observed::on_a_disk_store("KEAn");
    for server in [&mut memory, &mut disk] {
        for (line, events) in [
            ("MSETEX 2 a 1 b 2 EX 100", "new a, set a, expire a, new b, set b, expire b"),
            ("INCREX a EX 100 BYINT 2", "incrby a, expire a"),
            ("INCREX a UBOUND 3 BYINT 2", ""),
            ("INCREX a BYFLOAT 0.5 PERSIST", "incrbyfloat a, persist a"),
            ("DELEX b IFEQ 1", ""),
            ("DELEX b IFEQ 2", "del b"),
            ("DELIFEQ a 3.5", "del a"),
            ("SET a 1 IFEQ 2", ""),
            ("SET a 1", "new a, set a"),
            ("SET a 2 IFEQ 1 EX 100", "set a, expire a"),
            ("JSON.SET j $ {\"n\":[]}", "new j, json.set j"),
            ("JSON.ARRAPPEND j $.n 1 2", "json.arrappend j"),
            ("JSON.DEL j", "json.del j"),
            ("LARDER.TAG a t", ""),
            ("FLUSHALL", ""),
        ] {
            assert_eq!(server.named(&[line]).join(", "), events, "{line}");
        }
    }
}

#[test]
fn expired_and_evicted_keys_are_told() {
    let redis = RedisServer::start();
    let (_larder, memory) = Observed::without_a_source(&[], "Eg$x");
    let (_dir, _store, disk) = Observed::on_a_disk_store("Eg$x");
    for mut server in [Observed::new(redis.port(), "Eg$x"), memory, disk] {
        server.send(&[words("PSETEX k 500 v"), words("SET other v")]);
        let mut heard = || server.next().map(|(event, key)| format!("{event} {key}"));
        let first: Vec<_> = (0..3).filter_map(|_| heard()).collect();
        assert_eq!(first, ["__keyevent@0__:set k", "__keyevent@0__:expire k", "__keyevent@0__:set other"]);
        assert_eq!(heard().as_deref(), Some("__keyevent@0__:expired k"));
    }
    let (larder, mut server) = Observed::without_a_source(&["--max-keys", "10"], "KEe");
    let sets: Vec<_> = (0..100).map(|number| words(&format!("SET {number} v"))).collect();
    let events = server.events(&sets);
    let evicted = larder.metric("larder_cache_evictions_total{group=\"default\"}");
    assert!(evicted >= 90.0 && events.len() as f64 == 2.0 * evicted, "{} events, {evicted} evictions", events.len());
    for (_, key) in events.iter().filter(|(channel, _)| channel == "__keyevent@0__:evicted") {
        assert_eq!(server.ask(&words(&format!("EXISTS {key}"))).number(), Some(0), "{key}");
    }
}

/// Clients of two protocols, on two cores, write and delete one key. Only in the order of the changes
/// do their events make sense.
#[test]
fn events_of_a_key_have_the_order_of_its_changes() {
    const ROUNDS: usize = 2_000;
    let (larder, memory) = Observed::without_a_source(&[], "Eg$n");
    let (_dir, store, disk) = Observed::on_a_disk_store("Eg$n");
    for (larder, mut server) in [(&larder, memory), (&store, disk)] {
        let memcached = (0..2).map(|_| {
            let mut client = connect(larder.memcached[0]);
            thread::spawn(move || {
                // Many in one write: that two cores change the key at the same time is rare.
                let pipeline = "delete k noreply\r\nset k 0 0 1 noreply\r\nv\r\n".repeat(8) + "mn\r\n";
                for _ in 0..ROUNDS {
                    client.write_all(pipeline.as_bytes()).unwrap();
                    super::larder::expect(&mut client, b"MN\r\n");
                }
            })
        });
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let mut client = super::common::Client::connect(larder.redis).unwrap();
                thread::spawn(move || {
                    for round in 0..ROUNDS {
                        match (round + writer) % 3 {
                            0 => client.command(&["DEL", "k"]),
                            1 => client.command(&["SET", "k", "v"]),
                            _ => client.command(&["INCRBY", "other", "1"]),
                        };
                    }
                })
            })
            .chain(memcached)
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        server.ask(&words("PUBLISH mark -"));
        let (mut exists, mut deleted) = (false, 0);
        while let Some((channel, key)) = server.next() {
            match (&channel["__keyevent@0__:".len()..], &*key) {
                ("new", "k") => assert!(!std::mem::replace(&mut exists, true), "it was there"),
                ("set", "k") => assert!(exists, "set before it was new"),
                ("del", "k") => {
                    assert!(std::mem::replace(&mut exists, false), "it was not there");
                    deleted += 1;
                }
                _ => {}
            }
        }
        assert!(deleted > ROUNDS / 10, "{deleted}");
    }
}

#[test]
fn writes_of_other_protocols_have_events() {
    for on_disk in [false, true] {
        let dir = TempDir::new().unwrap();
        let source = if on_disk { format!("disk:{}", dir.path().display()) } else { "none:".to_owned() };
        let (larder, mut server) = Observed::without_a_source(&["--source", &source], "Edx$ng");
        let mut told = |what: &str, events: &str| assert_eq!(server.named(&[]).join(", "), events, "{what}, {source}");
        let http = |request: &str, body: &str| {
            let length = body.len();
            let head =
                format!("{request} HTTP/1.1\r\nHost: l\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let (status, ..) = larder.http(&(head + body));
            assert!((200..300).contains(&status), "{request}: {status}");
        };
        for (request, body, events) in [
            ("PUT /v1/kv/k", "v", "new k, set k"),
            ("PUT /v1/kv/k", "w", "set k"),
            ("PUT /v1/kv/k?ttl=100s", "w", "set k, expire k"),
            ("DELETE /v1/kv/k", "", "del k"),
            ("PUT /v0/entity?id=e", "v", "new e, set e"),
            ("PUT /v0/entity?id=e", "v", "set e"),
            ("DELETE /v0/entity?id=e", "", "del e"),
            ("POST /cache/v1/item", "{\"key\":\"i\",\"value\":1,\"ttl\":100}", "new i, json.set i"),
            ("DELETE /cache/v1/item", "{\"key\":\"i\"}", "del i"),
            ("POST /redis", "[\"SET\",\"r\",\"v\"]", "new r, set r"),
            ("POST /redis", "[\"SET\",\"r\",\"v\",\"PXAT\",1]", "set r, expire r, expired r"),
        ] {
            http(request, body);
            // Documents of the item API have a lifetime.
            let events = if on_disk && events.ends_with("json.set i") { "new i, json.set i, expire i" } else { events };
            told(request, events);
        }
        let mut memcached = connect(larder.memcached[0]);
        // A stale entry, and a client that makes it again, have the value that was there. A store has none.
        let stale = [("set m 0 0 1\r\n1", "STORED", "new m, set m"), ("md m I", "HD", ""), ("mg m", "HD X W", "")];
        let stale = stale.into_iter().filter(|_| !on_disk);
        for (line, answer, events) in [
            ("set m 0 0 1\r\n1", "STORED", "new m, set m"),
            ("incr m 1", "2", "set m"),
            ("touch m 100", "TOUCHED", "expire m"),
            ("gat 200 nothing", "END", ""),
            ("touch m 0", "TOUCHED", "persist m"),
            ("set m 0 -1 1\r\n1", "STORED", "del m"),
            ("set m 0 -1 1\r\n1", "STORED", ""),
            ("set m 0 0 1\r\n1", "STORED", "new m, set m"),
            ("delete m", "DELETED", "del m"),
            ("delete m", "NOT_FOUND", ""),
            ("set m 0 0 1\r\n1", "STORED", "new m, set m"),
            ("replace m 0 -1 1\r\n2", "STORED", "del m"),
        ]
        .into_iter()
        .chain(stale)
        {
            memcached.write_all(format!("{line}\r\n").as_bytes()).unwrap();
            super::larder::expect(&mut memcached, format!("{answer}\r\n").as_bytes());
            told(line, events);
        }
    }
}

#[test]
fn they_are_off_by_default() {
    let larder = Larder::start(&["--threads", "2"]);
    let mut server = Observed::new(larder.redis, "AE");
    let value = |server: &mut Observed| {
        let reply = server.ask(&words("CONFIG GET notify-keyspace-events"));
        String::from_utf8(reply.children[1].text.clone()).unwrap()
    };
    assert_eq!(value(&mut server), "AE");
    assert_eq!(server.named(&["SET k v"]), ["set k"]);
    for (classes, error) in [("Eq", "Invalid event class character"), ("KEm", "no event for a miss")] {
        let reply = server.ask(&words(&format!("CONFIG SET notify-keyspace-events {classes}")));
        let text = String::from_utf8_lossy(&reply.text).into_owned();
        assert!(reply.kind == b'-' && text.contains(error), "{text}");
    }
    server.ask(&["CONFIG", "SET", "notify-keyspace-events", ""].map(|word| word.as_bytes().to_vec()));
    assert_eq!(value(&mut server), "");
    assert_eq!(server.events(&[words("SET k v"), words("DEL k")]), []);
    // With a source that other programs change, too.
    let origin = Larder::start(&["--source", "http://127.0.0.1:1/{key}"]);
    let mut client = origin.client();
    wait_until("Larder to answer", || client.command(&["PING"]) == super::common::Reply::Simple("PONG".into()));
    let refused = client.command(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    assert!(refused.error().contains("without a source and with a disk store"), "{refused:?}");
    assert_eq!(client.command(&["CONFIG", "SET", "notify-keyspace-events", ""]), super::common::Reply::ok());
}
