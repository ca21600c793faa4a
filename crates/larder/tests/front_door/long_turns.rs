//! No command and no request within the limits keeps a core for long.
//!
//! Larder's own counter is read (`larder_longest_turn_usec`). It counts CPU time, so the tests hold
//! on a busy machine. The inputs are so long that work that grows with their square is far above
//! the bound, and work that grows with their length is far below it.
use super::{
    common::{Client, Reply},
    larder::{Larder, connect, encode},
};
use std::{
    io::{Read, Write},
    net::Shutdown,
    time::Duration,
};

/// The bound of optimised code, and thirty times of it for the tests' build, whose largest crate is
/// not optimised, on a slow machine.
pub const MOST_CPU: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1500 } else { 50 });
/// Arguments of a long command.
const ARGS: usize = 20_000;
/// The longest key is 64 KiB.
const LONG: usize = 60_000;

/// Commands that are not sent, and why.
const NOT_SENT: [(&str, &str); 6] = [
    ("larder.replicate", "the connection becomes a replica's stream"),
    ("replicaof", "the role changes: all writes would be refused"),
    ("slaveof", "the same"),
    ("client|reply", "no reply would come"),
    ("client|pause", "all clients would wait"),
    ("auth", "failed logins have to wait"),
];

/// Commands that may take longer in one turn, and why. `docs/security.md` has the same list.
const LONGER: [(&str, u32, &str); 2] = [
    ("json.", 4, "like RedisJSON, paths and changes run as a whole; they read and copy 1 GiB at most"),
    ("exec", 4, "like Redis, a transaction runs as a whole"),
];

struct Watched {
    larder: Larder,
    failures: Vec<String>,
}

impl Watched {
    fn start() -> Watched {
        let larder = Larder::start(&["--threads=1", "--max-memory=256MiB", "--max-buffers=1GiB"]);
        Watched { larder, failures: Vec::new() }
    }

    /// Checks that no turn of `act` is long.
    fn check(&mut self, name: &str, what: &str, act: impl FnOnce(&Larder)) {
        self.larder.client().command(&["CONFIG", "RESETSTAT"]);
        act(&self.larder);
        let mut client = self.larder.client();
        // The next turn of a client ends the one before.
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
        let took = Duration::from_micros(longest(&mut client));
        let factor = LONGER.iter().find(|(longer, ..)| name.starts_with(longer)).map_or(1, |(_, factor, _)| *factor);
        if took > MOST_CPU * factor {
            self.failures.push(format!("{took:?} of CPU in one turn: {name} {what}"));
        }
    }

    /// Sends commands on one connection, and reads what comes.
    fn commands(&mut self, name: &str, what: &str, commands: &[Vec<Vec<u8>>]) {
        self.check(name, what, |larder| {
            const MARK: &[u8] = b"that-was-all";
            let mut stream = connect(larder.redis);
            let mut writer = stream.try_clone().unwrap();
            let mut input = Vec::new();
            for command in commands {
                let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                input.extend(encode(&args));
            }
            input.extend(encode(&[b"PING", MARK]));
            // A connection that is closed meanwhile is all right.
            let sent = std::thread::spawn(move || writer.write_all(&input));
            let (mut read, mut last) = (vec![0; 1 << 20], Vec::new());
            while let Ok(len @ 1..) = stream.read(&mut read) {
                last.extend_from_slice(&read[..len]);
                if last.windows(MARK.len()).any(|part| part == MARK) {
                    break;
                }
                last.drain(..last.len().saturating_sub(MARK.len()));
            }
            let _ = stream.shutdown(Shutdown::Both);
            let _ = sent.join().unwrap();
        });
    }

    fn end(self) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}

fn longest(client: &mut Client) -> u64 {
    let Reply::Bulk(Some(info)) = client.command(&["INFO", "larder"]) else { panic!("INFO has no text") };
    let info = String::from_utf8(info).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("larder_longest_turn_usec:"));
    line.expect("the counter").parse().unwrap()
}

/// Names and arities of all commands and subcommands.
fn table(larder: &Larder) -> Vec<(String, i64)> {
    fn add(rows: &[Reply], all: &mut Vec<(String, i64)>) {
        for row in rows {
            let Reply::Array(Some(row)) = row else { panic!("{row:?}") };
            let Reply::Bulk(Some(name)) = &row[0] else { panic!("{row:?}") };
            all.push((String::from_utf8(name.clone()).unwrap(), row[1].int()));
            if let Some(Reply::Array(Some(subcommands))) = row.get(9) {
                add(subcommands, all);
            }
        }
    }
    let Reply::Array(Some(rows)) = larder.client().command(&["COMMAND"]) else { panic!("no rows") };
    let mut all = Vec::new();
    add(&rows, &mut all);
    assert!(all.len() > 150, "{all:?}");
    all
}

fn words(command: &str, of: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    command.split('|').map(|word| word.as_bytes().to_vec()).chain(of).collect()
}

/// Numbers that look random, and are the same each time.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn no_command_has_a_long_turn() {
    let mut watched = Watched::start();
    let mut client = watched.larder.client();
    for number in 0..31 {
        let key = [format!("{number}").into_bytes(), b"a".repeat(LONG)].concat();
        client.command(&[b"SET", &key[..], b"v"]);
    }
    const OPTIONS: [&str; 24] = [
        "ON", "OFF", "BCAST", "PREFIX", "NOLOOP", "MATCH", "COUNT", "TYPE", "ID", "USER", "ADDR", "SKIPME", "NX", "XX",
        "EX", "TAG", "SOFT", "FILTERBY", "PATTERN", "METRICS", "SETNAME", "100", "*a*b*", "-1",
    ];
    let state = &mut 1;
    for (command, arity) in table(&watched.larder) {
        if NOT_SENT.iter().any(|(name, _)| *name == command) {
            continue;
        }
        let named = command.split('|').count();
        let fixed = usize::try_from(arity).ok().map(|arity| arity - named);
        let (many, few) = (fixed.unwrap_or(ARGS), fixed.unwrap_or(31));
        if many == 0 {
            continue;
        }
        let pattern = |i: usize| [b"*".to_vec(), b"a?".repeat(LONG / 2 - 4), format!("{i}*").into_bytes()].concat();
        let mut forms: Vec<(&str, Vec<Vec<u8>>)> = vec![
            ("with long patterns", (0..few).map(pattern).collect()),
            (
                "with one long argument",
                (0..few).map(|i| if i == few / 2 { b"a".repeat(4 << 20) } else { b"1".to_vec() }).collect(),
            ),
        ];
        if fixed.is_none() {
            forms.extend([
                ("with many words", (0..many).map(|i| format!("w{i}").into_bytes()).collect()),
                ("with one word", vec![b"w".to_vec(); many]),
                ("with options", (0..many).map(|_| OPTIONS[random(state) % OPTIONS.len()].into()).collect()),
                // An odd number, for those that take pairs behind one argument.
                (
                    "with triples",
                    (0..many / 3 * 3)
                        .map(|i| if i % 3 == 1 { b"$".to_vec() } else { format!("{i}").into_bytes() })
                        .collect(),
                ),
            ]);
        }
        for (what, args) in forms {
            watched.commands(&command, what, &[words(&command, args)]);
        }
    }
    watched.end();
}

/// Rules, prefixes and subscriptions as clients send them, and their ends.
#[test]
fn no_state_of_a_client_has_a_long_turn() {
    let mut watched = Watched::start();
    let many = |of: &dyn Fn(usize) -> String| (0..ARGS).map(|i| of(i).into_bytes()).collect::<Vec<_>>();
    type Rule<'r> = (&'r str, &'r dyn Fn(usize) -> String);
    let rules: [Rule<'_>; 8] = [
        ("keys", &|i| format!("~k{i}")),
        ("channels", &|i| format!("&c{i}")),
        ("first arguments", &|i| format!("+select|{i}")),
        ("modules' commands", &|i| format!("+module.{i}")),
        ("passwords", &|i| format!(">p{i}")),
        ("categories", &|i| if i % 2 == 0 { "+@read".into() } else { "-@all".into() }),
        ("a selector in parts", &|i| {
            if i == 0 {
                "(~k".into()
            } else if i == ARGS - 1 {
                "+get)".into()
            } else {
                format!("~k{i}")
            }
        }),
        ("passwords that go", &|i| if i < ARGS / 2 { format!(">p{i}") } else { format!("<p{}", i - ARGS / 2) }),
    ];
    for (what, rule) in rules {
        watched.commands("acl|setuser", what, &[words("acl|setuser|u", many(rule)), words("acl|deluser|u", [])]);
    }
    let prefixes: Vec<Vec<u8>> = (0..ARGS).flat_map(|i| [b"PREFIX".to_vec(), format!("p{i}:").into_bytes()]).collect();
    let nested: Vec<Vec<u8>> = (0..1000).flat_map(|i| [b"PREFIX".to_vec(), "a".repeat(i).into_bytes()]).collect();
    let names = || many(&|i| format!("w{i}"));
    let patterns = || many(&|i| format!("w{i}*"));
    let long_names = (0..300).map(|i| [b"a".repeat(LONG), format!("{i}").into_bytes()].concat());
    let long_pattern = [b"*".to_vec(), b"a?".repeat(LONG / 4), b"b*".to_vec()].concat();
    for (name, commands) in [
        ("client|tracking", vec![words("client|tracking|on|bcast", prefixes), words("client|tracking|off", [])]),
        (
            "client|tracking",
            vec![words("client|tracking|on|bcast", nested), words(&format!("set|{}|x", "a".repeat(1000)), [])],
        ),
        ("unsubscribe", vec![words("subscribe", names()), words("unsubscribe", names())]),
        ("unsubscribe", vec![words("subscribe", names()), words("unsubscribe", [])]),
        (
            "punsubscribe",
            vec![words("psubscribe", patterns()), words("publish|w1|m", []), words("punsubscribe", patterns())],
        ),
        ("psubscribe", vec![words("psubscribe", patterns())]),
        (
            "pubsub|channels",
            vec![words("hello|3", []), words("subscribe", long_names), words("pubsub|channels", [long_pattern])],
        ),
        ("watch", vec![words("watch", names()), words("unwatch", [])]),
        ("bitop", vec![words("setrange|long|400000|x", []), words("bitop|or|to|long", names())]),
        ("watch", vec![words("watch", names()), words("multi", []), words("exec", [])]),
        (
            "exec",
            [words("multi", [])]
                .into_iter()
                .chain((0..ARGS).map(|i| words(&format!("set|k{i}|v"), [])))
                .chain([words("exec", [])])
                .collect(),
        ),
    ] {
        watched.commands(name, "and its end", &commands);
    }
    watched.end();
}

#[test]
fn no_document_has_a_long_turn() {
    let mut watched = Watched::start();
    let flat = format!("[{}1]", "1,".repeat(500_000));
    let members: Vec<String> = (0..ARGS).map(|i| format!("\"k{i}\":1")).collect();
    let members = format!("{{{}}}", members.join(","));
    let deep = format!("{}1{}", "{\"a\":[".repeat(63), "]}".repeat(63));
    let state = &mut 1;
    let strings: Vec<String> = (0..2_000)
        .map(|_| (0..300).map(|_| if random(state).is_multiple_of(2) { 'a' } else { 'b' }).collect::<String>())
        .map(|text| format!("\"{text}\""))
        .collect();
    let strings = format!("[{}]", strings.join(","));
    let patterns =
        ["(a|b)*a(a|b){300}c", "(a*)*c", "(a|b)+$", "^(.{100})+$"].map(|pattern| format!("$[?@ =~ '{pattern}']"));
    let paths: Vec<String> =
        ["$..*", "$..a", "$[*]", "$..[-1]", "$[?@ == 2]", "$..[?count(@..*) > 1]"].map(String::from).into();
    for document in [&flat, &members, &deep, &strings] {
        for path in paths.iter().chain(&patterns) {
            for (command, more) in
                [("json.type", &[][..]), ("json.numincrby", &["1"]), ("json.clear", &[]), ("json.del", &[])]
            {
                let set = words("json.set|d|$", [document.clone().into_bytes()]);
                let args = [path.as_str()].iter().chain(more).map(|arg| arg.as_bytes().to_vec()).collect::<Vec<_>>();
                let what = format!("{path} of {} bytes", document.len());
                watched.commands(command, &what, &[set, words(&format!("{command}|d"), args)]);
            }
        }
        let set = words("json.set|d|$", [document.clone().into_bytes()]);
        let each = |path: &str| (0..ARGS).map(|i| path.replace("{}", &i.to_string()).into_bytes()).collect::<Vec<_>>();
        let twice = |command: Vec<Vec<u8>>| [set.clone(), command];
        watched.commands("json.get", "many paths", &twice(words("json.get|d", each("$..x{}"))));
        watched.commands("json.get", "few paths", &twice(words("json.get|d", each("$..x{}").into_iter().take(60))));
        let mut keys = vec![b"d".to_vec(); ARGS];
        keys.push(b"$..x".to_vec());
        watched.commands("json.mget", "one document", &twice(words("json.mget", keys)));
        let triples = |key: &dyn Fn(usize) -> String| -> Vec<Vec<u8>> {
            (0..ARGS).flat_map(|i| [key(i).into_bytes(), b"$".to_vec(), b"1".to_vec()]).collect()
        };
        watched.commands("json.mset", "many documents", &twice(words("json.mset", triples(&|i| format!("m{i}")))));
        let changes = (0..ARGS).flat_map(|i| [b"d".to_vec(), format!("$.n{i}").into_bytes(), b"1".to_vec()]);
        watched.commands("json.mset", "one document", &twice(words("json.mset", changes)));
        watched.commands("json.merge", "many members", &twice(words("json.merge|d|$", [members.clone().into_bytes()])));
    }
    watched.end();
}

#[test]
fn no_request_has_a_long_turn() {
    let mut watched = Watched::start();
    let mut client = watched.larder.client();
    client.command(&["SET", "k", &"v".repeat(1 << 20)]);
    client.command(&["JSON.SET", "d", "$", &format!("{{\"a\":\"{}\",\"l\":[]}}", "x".repeat(4 << 20))]);
    for number in 0..31 {
        let key = [format!("{number}").into_bytes(), b"a".repeat(LONG)].concat();
        client.command(&[b"SET", &key[..], b"v"]);
    }
    let (_, _, description) = watched.larder.http("GET /openapi.json HTTP/1.1\r\nHost: l\r\nConnection: close\r\n\r\n");
    let description: serde_json::Value = serde_json::from_slice(&description).unwrap();
    /// Not sent: the answer of the first has no end, and the others write files.
    const NOT_REQUESTED: [&str; 4] = ["/v1/live", "/v1/record", "/v1/store/backup", "/v1/snapshot"];
    let list = |part: &str| part.repeat(14_000 / part.len());
    let headers = [
        format!("If-None-Match: {}\"z\"", list("\"abc\", ")),
        format!("If-Match: {}\"z\"", list("W/\"a\",")),
        format!("Range: bytes={}5-6", list("0-1000000,")),
        format!("Accept: {}a/b", list("a/b;q=0.1,")),
        format!("Accept-Encoding: {}x", list("gzip;q=0.5,")),
        format!("X-Forwarded-For: {}1.1.1.1", list("1.1.1.1,")),
        format!("Cookie: {}a=b", list("a=b; ")),
        format!("Cache-Control: {}no-cache", list("max-age=1,")),
        format!("Larder-Tags: {}x", list("ab,")),
        list("X-A: b\r\n").trim_end().to_owned(),
    ];
    let operations = |operation: &str| format!("[{}]", vec![operation; ARGS].join(","));
    let keys: Vec<String> = (0..ARGS).map(|i| format!("\"k{i}\"")).collect();
    let bodies = [
        operations(r#"{"op":"add","path":"/l/-","value":1}"#),
        operations(r#"{"op":"test","path":"/l","value":[]}"#),
        format!("{{\"keys\":[{}]}}", keys.join(",")),
        format!("{{\"key\":\"k\",\"mask\":\"{}b\",\"subkey\":\"{}\"}}", "*a".repeat(5_000), "a".repeat(5_000)),
        "[".repeat(100_000),
    ];
    let pattern = format!("match=*{}c*&mask=*&prefix=a&key=k&id=k", "a%3f".repeat(2_000));
    let mut sent = 0;
    for (path, methods) in description["paths"].as_object().unwrap() {
        if NOT_REQUESTED.contains(&path.as_str()) {
            continue;
        }
        let path = path.replace("{key}", if path.contains("kv") { "d" } else { "k" }).replace("{group}", "default");
        for method in methods
            .as_object()
            .unwrap()
            .keys()
            .filter(|name| ["get", "put", "post", "patch", "delete"].contains(&name.as_str()))
        {
            let method = method.to_uppercase();
            let head = |query: &str, header: &str, len: usize| {
                format!(
                    "{method} {path}?{query} HTTP/1.1\r\nHost: l\r\nConnection: close\r\nContent-Type: application/json-patch+json\r\nContent-Length: {len}\r\n{header}\r\n"
                )
            };
            let mut requests: Vec<(String, String)> = vec![("a long query".into(), head(&pattern, "", 0))];
            match method.as_str() {
                "GET" | "DELETE" => {
                    requests.extend(headers.iter().map(|header| {
                        (header.split(':').next().unwrap().into(), head("", &format!("{header}\r\n"), 0))
                    }))
                }
                _ => requests.extend(
                    bodies.iter().map(|body| (format!("a body {:.30}…", body), head("", "", body.len()) + body)),
                ),
            }
            for (what, request) in requests {
                sent += 1;
                watched.check(&format!("{method} {path}"), &what, |larder| {
                    for port in [larder.http, larder.admin] {
                        let mut stream = connect(port);
                        // The answer may come before the end of the request.
                        let _ = stream.write_all(request.as_bytes());
                        let _ = stream.read_to_end(&mut Vec::new());
                    }
                });
            }
        }
    }
    assert!(sent > 200, "{sent}");
    watched.end();
}
