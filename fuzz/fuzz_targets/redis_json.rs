//! Redis over HTTP: any body is commands or a refusal, the commands that a client writes are the
//! commands that are read, and any reply becomes JSON.
//!
//! The parser is a file of the server; it alone is built with it.
#![no_main]
#![allow(dead_code, reason = "the server uses the rest")]
// The parser asks the crate of this name for a command's flags. Here three commands are its table.
extern crate self as larder_redis;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use larder_base::buffers::{BufferKind, Buffers};
use larder_proto::resp::{Args, Limits, Parsed, Parser};
use libfuzzer_sys::fuzz_target;
use redis_json::{Commands, Part, Replies, Strings, key_of_get, write_reply};
use serde_json::{Value, json};

#[path = "../../crates/http/src/compat/redis_json.rs"]
mod redis_json;

#[derive(PartialEq)]
struct Flags(u8);
impl Flags {
    const CONNECTION: Flags = Flags(1);
    const NOT_QUEUED: Flags = Flags(2);
    const READONLY: Flags = Flags(3);
    fn has(&self, other: Flags) -> bool {
        *self == other
    }
}
struct Command {
    name: &'static str,
    flags: Flags,
}
static COMMANDS: [Command; 3] = [
    Command { name: "client|reply", flags: Flags::CONNECTION },
    Command { name: "exec", flags: Flags::NOT_QUEUED },
    Command { name: "get", flags: Flags::READONLY },
];
enum FoundCommand {
    Command(&'static Command),
    UnknownSub(&'static Command),
    Unknown,
}
fn find_for(args: Args<'_>) -> FoundCommand {
    let has = |(at, name): (usize, &str)| args.get(at).is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()));
    let found = COMMANDS.iter().find(|command| command.name.split('|').enumerate().all(has));
    found.map_or(FoundCommand::Unknown, FoundCommand::Command)
}

/// The parts of the commands of a body, from the RESP that it becomes.
fn read(body: &[u8], part: Part, is_transaction: bool) -> Result<Vec<Vec<Vec<u8>>>, String> {
    let mut commands = Commands::new(Buffers::new(1 << 20, 1, Vec::new()).charge(BufferKind::HttpInput));
    commands.is_transaction = is_transaction;
    commands.read(body, part)?;
    let (mut parser, limits, mut rest) = (Parser::default(), Limits::new(1 << 20), &commands.bytes[..]);
    let mut read: Vec<Vec<Vec<u8>>> = Vec::new();
    while !rest.is_empty() {
        let Ok(Parsed::Command { consumed }) = parser.parse(rest, &limits) else { panic!("no command: {rest:?}") };
        read.push(parser.args(rest).from(0).map(<[u8]>::to_vec).collect());
        rest = &rest[consumed..];
    }
    assert_eq!(read.len(), commands.count);
    Ok(read)
}

fuzz_target!(|input: (&[u8], Vec<Vec<&str>>, &[u8], bool)| {
    let (body, written, replies, is_transaction) = input;
    for part in [Part::Command, Part::Commands] {
        if let Err(error) = read(body, part, is_transaction) {
            assert!(error.starts_with("ERR "), "{error}");
        }
    }
    if let Some(key) = key_of_get(body) {
        let found = read(body, Part::Command, is_transaction).expect("it is a command");
        assert_eq!((found.len(), found[0].len()), (1, 2));
        assert!(found[0][0].eq_ignore_ascii_case(b"get"));
        assert_eq!(found[0][1], key);
    }
    let is_refused = |command: &Vec<&str>| match command[..] {
        [] => true,
        [name, sub, ..] if name.eq_ignore_ascii_case("client") => sub.eq_ignore_ascii_case("reply"),
        [name, ..] => is_transaction && name.eq_ignore_ascii_case("exec"),
    };
    let found = read(json!(written).to_string().as_bytes(), Part::Commands, is_transaction);
    assert_eq!(found.is_err(), written.iter().any(is_refused), "{found:?}");
    if let Ok(found) = found {
        let written: Vec<Vec<&[u8]>> =
            written.iter().map(|command| command.iter().map(|part| part.as_bytes()).collect()).collect();
        assert_eq!(found, written);
    }
    for strings in [Strings::Text, Strings::Base64] {
        for reply in Replies(replies) {
            let mut out = Vec::new();
            let is_result = write_reply(&mut out, reply, strings);
            let shown: Value = serde_json::from_slice(&out).expect("it is JSON");
            let names: Vec<&str> =
                shown.as_object().into_iter().flat_map(|object| object.keys()).map(String::as_str).collect();
            assert_eq!(names, [if is_result { "result" } else { "error" }]);
        }
        let mut out = Vec::new();
        strings.write(&mut out, body);
        assert_eq!(out.len(), strings.len(body));
        let shown: String = serde_json::from_slice(&out).expect("it is a string");
        let text = match strings {
            Strings::Text => String::from_utf8_lossy(body).into_owned(),
            Strings::Base64 => BASE64_STANDARD.encode(body),
        };
        assert_eq!(shown, text);
    }
});
