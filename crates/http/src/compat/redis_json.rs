//! Commands and replies of the Redis protocol as JSON, as `@upstash/redis` speaks it.
use base64::{Engine as _, prelude::BASE64_STANDARD};
use larder_base::buffers::BufferCharge;
use larder_proto::{
    http::{json, text::Sink},
    resp::{Args, Scanner, Values, View, view},
};
use larder_redis::{Flags, FoundCommand, find_for};
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::{fmt, ops::Range};

/// Replies are nested as deep as scripts nest them. Redis's own commands need four levels.
const DEEPEST: usize = 64;

/// The commands of a request as RESP, each complete and with one reply.
pub(crate) struct Commands {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
    /// All of them only read.
    pub(crate) only_read: bool,
    /// They are within MULTI and EXEC.
    pub(crate) is_transaction: bool,
    pub(crate) charge: BufferCharge,
}

/// What a JSON value stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// `[["SET", "key", 1], ["GET", "key"]]`
    Commands,
    /// `["SET", "key", 1]`
    Command,
}

impl Commands {
    pub(crate) fn new(charge: BufferCharge) -> Commands {
        Commands { bytes: Vec::new(), count: 0, only_read: true, is_transaction: false, charge }
    }

    /// Reads a command, or several.
    ///
    /// # Errors
    /// The text for the client.
    pub(crate) fn read(&mut self, body: &[u8], part: Part) -> Result<(), String> {
        let mut deserializer = serde_json::Deserializer::from_slice(body);
        let read = Seed { commands: self, part }.deserialize(&mut deserializer);
        read.and_then(|()| deserializer.end()).map_err(|error| match error.to_string() {
            // Words for the client, behind which serde writes a place.
            text if text.starts_with("ERR ") => text.split(" at line ").next().unwrap_or_default().to_owned(),
            text => format!("ERR failed to parse the command: {text}"),
        })
    }

    /// Appends a command of these parts.
    ///
    /// # Errors
    /// Like [`Self::read`].
    pub(crate) fn push(&mut self, parts: &[Vec<u8>]) -> Result<(), String> {
        let mut command = Command::new(self.bytes.len());
        parts.iter().try_for_each(|part| command.put(self, part))?;
        command.end(self)
    }
}

/// A command that is being written. Its head comes last, because it has the number of arguments.
struct Command {
    start: usize,
    count: usize,
    /// The name, and what may be the name of a subcommand, from `start`.
    names: [Range<u32>; 2],
}

impl Command {
    fn new(start: usize) -> Command {
        Command { start, count: 0, names: [0..0, 0..0] }
    }

    fn put(&mut self, commands: &mut Commands, argument: &[u8]) -> Result<(), String> {
        let out = &mut commands.bytes;
        // Twice: a vector grows to twice its length.
        if !commands.charge.try_resize(2 * (out.len() + argument.len() + 32)) {
            return Err("ERR the commands do not fit into the buffers now (max-buffers)".to_owned());
        }
        out.push(b'$');
        out.extend_from_slice(itoa::Buffer::new().format(argument.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        if let Some(name) = self.names.get_mut(self.count) {
            let at = (out.len() - self.start) as u32;
            *name = at..at + argument.len() as u32;
        }
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
        self.count += 1;
        Ok(())
    }

    fn end(self, commands: &mut Commands) -> Result<(), String> {
        if self.count == 0 {
            return Err("ERR failed to parse the command: it is empty".to_owned());
        }
        let names = &self.names[..self.count.min(2)];
        match find_for(Args::new(&commands.bytes[self.start..], names)) {
            FoundCommand::Command(command) if command.flags.has(Flags::CONNECTION) => {
                let name = command.name.replace('|', " ");
                return Err(format!("ERR '{name}' concerns a connection, and requests over HTTP have none"));
            }
            FoundCommand::Command(command) if commands.is_transaction && command.flags.has(Flags::NOT_QUEUED) => {
                return Err(format!("ERR '{}' cannot be a part of a transaction over HTTP", command.name));
            }
            FoundCommand::Command(command) => commands.only_read &= command.flags.has(Flags::READONLY),
            FoundCommand::Unknown | FoundCommand::UnknownSub(_) => commands.only_read = false,
        }
        let head = format!("*{}\r\n", self.count);
        commands.bytes.splice(self.start..self.start, head.bytes());
        commands.count += 1;
        Ok(())
    }
}

struct Seed<'c> {
    commands: &'c mut Commands,
    part: Part,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.part {
            Part::Commands => "an array of commands, which are arrays themselves",
            Part::Command => "a command: an array of its name and its arguments",
        })
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let Seed { commands, part } = self;
        if part == Part::Commands {
            while values.next_element_seed(Seed { commands: &mut *commands, part: Part::Command })?.is_some() {}
            return Ok(());
        }
        let mut command = Command::new(commands.bytes.len());
        let mut put = |argument: &[u8]| command.put(commands, argument);
        while values.next_element_seed(ArgumentSeed(&mut put))?.is_some() {}
        command.end(commands).map_err(A::Error::custom)
    }
}

struct ArgumentSeed<F>(F);

impl<'de, F: FnMut(&[u8]) -> Result<(), String>> DeserializeSeed<'de> for ArgumentSeed<F> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<F: FnMut(&[u8]) -> Result<(), String>> Visitor<'_> for ArgumentSeed<F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a number")
    }
    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        (self.0)(text.as_bytes()).map_err(E::custom)
    }
    fn visit_bool<E: Error>(self, is: bool) -> Result<(), E> {
        self.visit_str(if is { "true" } else { "false" })
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.visit_str(itoa::Buffer::new().format(number))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.visit_str(itoa::Buffer::new().format(number))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.visit_str(&number.to_string())
    }
}
/// How strings of replies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strings {
    Text,
    /// In base64, for values that are not UTF-8. `OK` stays: clients expect that.
    Base64,
}

impl Strings {
    /// Length of what [`Self::write`] appends.
    pub(crate) fn len(self, text: &[u8]) -> usize {
        match self {
            Strings::Text => json::len(text),
            Strings::Base64 => 4 * text.len().div_ceil(3) + 2,
        }
    }

    /// Appends a string of a reply.
    pub(crate) fn write(self, out: &mut impl Sink, text: &[u8]) {
        /// A multiple of 3, so that only the last one is padded.
        const PART: usize = 768;
        match self {
            Strings::Text => json::write(out, text),
            Strings::Base64 => {
                out.put(b"\"");
                for part in text.chunks(PART) {
                    let mut encoded = [0; PART / 3 * 4];
                    let len = BASE64_STANDARD.encode_slice(part, &mut encoded).expect("there is room for a part");
                    out.put(&encoded[..len]);
                }
                out.put(b"\"");
            }
        }
    }
}

/// The key of `["GET","key"]`. Strings with escapes are left to [`Commands::read`].
pub(crate) fn key_of_get(body: &[u8]) -> Option<&[u8]> {
    let (name, rest) = plain_string(token(body, b'[')?)?;
    let (key, rest) = plain_string(token(rest, b',')?)?;
    let rest = token(rest, b']')?;
    (name.eq_ignore_ascii_case(b"get") && trimmed(rest).is_empty()).then_some(key)
}

/// What follows white space and this byte.
fn token(text: &[u8], byte: u8) -> Option<&[u8]> {
    trimmed(text).strip_prefix(&[byte])
}

fn trimmed(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
    &text[begin.unwrap_or(text.len())..]
}

/// A string whose characters stand for themselves, and what follows it.
fn plain_string(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = token(text, b'"')?;
    let end = text.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20))?;
    let (string, rest) = text.split_at(end);
    Some((string, rest.strip_prefix(b"\"")?)).filter(|_| str::from_utf8(string).is_ok())
}

/// Replies that came one after the other.
pub(crate) struct Replies<'r>(pub(crate) &'r [u8]);
impl<'r> Iterator for Replies<'r> {
    type Item = View<'r>;
    fn next(&mut self) -> Option<View<'r>> {
        let len = Scanner::new(usize::MAX).scan(self.0).ok()??;
        let (reply, rest) = self.0.split_at(len);
        self.0 = rest;
        view(reply).ok()
    }
}

/// Appends `{"result":…}` or `{"error":…}`. Returns whether it is a result.
pub(crate) fn write_reply(out: &mut Vec<u8>, reply: View<'_>, strings: Strings) -> bool {
    let start = out.len();
    out.extend_from_slice(b"{\"result\":");
    let error = match reply {
        View::Error(text) => text,
        reply => match write_value(out, reply, strings, DEEPEST) {
            Ok(()) => {
                out.push(b'}');
                return true;
            }
            Err(TooDeep) => b"ERR the reply is nested too deeply for JSON",
        },
    };
    out.truncate(start);
    write_error(out, error);
    false
}

/// Appends `{"error":…}`.
pub(crate) fn write_error(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(b"{\"error\":");
    json::write(out, text);
    out.push(b'}');
}

struct TooDeep;

fn write_value(out: &mut Vec<u8>, value: View<'_>, strings: Strings, depth: usize) -> Result<(), TooDeep> {
    match value {
        View::Null => out.extend_from_slice(b"null"),
        View::Integer(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        View::Simple(b"OK") => out.extend_from_slice(b"\"OK\""),
        View::Simple(text) | View::Bulk(text) | View::Double(text) | View::BigNumber(text) => strings.write(out, text),
        View::Boolean(is) => out.extend_from_slice(if is { b"true" } else { b"false" }),
        // Within EXEC and scripts.
        View::Error(text) => json::write(out, text),
        View::Array(values) | View::Map(values) | View::Set(values) | View::Push(values) => {
            return write_values(out, values, strings, depth);
        }
    }
    Ok(())
}

fn write_values(out: &mut Vec<u8>, values: Values<'_>, strings: Strings, depth: usize) -> Result<(), TooDeep> {
    let depth = depth.checked_sub(1).ok_or(TooDeep)?;
    out.push(b'[');
    for (number, value) in values.enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_value(out, value, strings, depth)?;
    }
    out.push(b']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_base::buffers::{BufferKind, Buffers};
    use larder_proto::resp::encode;
    use proptest::prelude::*;

    fn commands() -> Commands {
        Commands::new(Buffers::new(1 << 20, 1, Vec::new()).charge(BufferKind::HttpInput))
    }

    fn command(json: &str) -> Result<String, String> {
        let mut commands = commands();
        commands.read(json.as_bytes(), Part::Command)?;
        Ok(String::from_utf8(commands.bytes).expect("ASCII"))
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(command(r#"["GET","k"]"#).as_deref(), Ok("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
        let mixed = command(r#" ["SET","k",-1.5,true,7] "#).expect("a command");
        assert!(mixed.ends_with("$4\r\n-1.5\r\n$4\r\ntrue\r\n$1\r\n7\r\n"), "{mixed}");
        for bad in ["", "{}", "[]", "[[1]]", r#"["a",null]"#, r#"["a",{}]"#, r#"["a"] x"#, r#"["a""#, "7"] {
            let error = command(bad).expect_err(bad);
            assert!(error.starts_with("ERR failed to parse the command: "), "{bad}: {error}");
        }
        let refused = command(r#"["client","REPLY","OFF"]"#);
        assert_eq!(refused, Err("ERR 'client reply' concerns a connection, and requests over HTTP have none".into()));
        let mut several = commands();
        assert_eq!(several.read(br#"[["PING"],["GET","k"]]"#, Part::Commands), Ok(()));
        assert_eq!(several.bytes, b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
        assert_eq!(several.count, 2);
        assert!(commands().read(br#"["PING"]"#, Part::Commands).is_err());
    }

    #[test]
    fn room_is_taken_before_commands_are_kept() {
        let body = format!("[{}]", vec!["1"; 300_000].join(","));
        let mut commands = commands();
        let refused = commands.read(body.as_bytes(), Part::Command);
        assert_eq!(refused, Err("ERR the commands do not fit into the buffers now (max-buffers)".into()));
        assert!(commands.bytes.capacity() <= 1 << 20);
    }

    fn written(resp: &[u8], strings: Strings) -> String {
        let mut out = Vec::new();
        Replies(resp).for_each(|reply| _ = write_reply(&mut out, reply, strings));
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn replies() {
        for (resp, text, base64) in [
            ("+OK\r\n", r#"{"result":"OK"}"#, r#"{"result":"OK"}"#),
            ("+PONG\r\n", r#"{"result":"PONG"}"#, r#"{"result":"UE9ORw=="}"#),
            ("$2\r\nOK\r\n", r#"{"result":"OK"}"#, r#"{"result":"T0s="}"#),
            ("$-1\r\n", r#"{"result":null}"#, r#"{"result":null}"#),
            (":-7\r\n", r#"{"result":-7}"#, r#"{"result":-7}"#),
            ("-ERR \"no\"\r\n", r#"{"error":"ERR \"no\""}"#, r#"{"error":"ERR \"no\""}"#),
            ("*2\r\n$1\r\na\r\n*0\r\n", r#"{"result":["a",[]]}"#, r#"{"result":["YQ==",[]]}"#),
        ] {
            assert_eq!(written(resp.as_bytes(), Strings::Text), text);
            assert_eq!(written(resp.as_bytes(), Strings::Base64), base64);
        }
        let deep = [b"*1\r\n".repeat(10_000), b":1\r\n".to_vec()].concat();
        assert_eq!(written(&deep, Strings::Text), r#"{"error":"ERR the reply is nested too deeply for JSON"}"#);
    }

    proptest! {
        /// Whatever strings a command has, they come back out of the RESP that it becomes.
        #[test]
        fn strings_of_commands_arrive(parts in prop::collection::vec(any::<String>(), 1..5)) {
            let mut read = commands();
            let json = serde_json::to_string(&parts).expect("JSON");
            let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
            read.read(json.as_bytes(), Part::Command).expect("a command");
            prop_assert_eq!(read.bytes, encode(&parts));
        }

        /// The short way reads what the long one reads, or nothing.
        #[test]
        fn a_get_is_read_in_the_same_way(
            body in prop_oneof![
                prop::collection::vec(
                    prop::sample::select(vec!["[", "]", "\"", ",", "get", "GET", "k", " ", "\n", "\x0c", "\\", "\\n", "é", "1"]),
                    0..12,
                ).prop_map(|parts| parts.concat().into_bytes()),
                (any::<Vec<u8>>(), "[ \t\r\n]{0,2}").prop_map(|(key, space)| {
                    [b"[\"GeT\",", space.as_bytes(), b"\"", &key, b"\"]", space.as_bytes()].concat()
                }),
            ],
        ) {
            let mut read = commands();
            let long = read.read(&body, Part::Command);
            if let Some(key) = key_of_get(&body) {
                prop_assert_eq!(long, Ok(()));
                let name = &body[body.iter().position(|byte| byte.eq_ignore_ascii_case(&b'g')).expect("a name")..][..3];
                prop_assert_eq!(read.bytes, encode(&[name, key]));
            }
        }

        #[test]
        fn strings_have_their_length(text: Vec<u8>) {
            for strings in [Strings::Text, Strings::Base64] {
                let (mut out, text) = (Vec::new(), text.repeat(20));
                strings.write(&mut out, &text);
                prop_assert_eq!(out.len(), strings.len(&text));
                if strings == Strings::Base64 {
                    prop_assert_eq!(out, format!("\"{}\"", BASE64_STANDARD.encode(&text)).into_bytes());
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = commands().read(&bytes, Part::Commands);
            let mut read = commands();
            if read.read(&bytes, Part::Command).is_ok() {
                prop_assert!(read.bytes.starts_with(b"*"));
            }
        }
    }
}
