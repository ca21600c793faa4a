//! The protocols: requests written into a buffer, replies found in one. No I/O.
//!
//! A request is a text with holes for key and value, made once for each operation. A reply is
//! scanned, not decoded: where it ends, whether it is an error, how many keys it found.
mod replies;
#[cfg(test)]
mod tests;

pub(crate) use replies::{Expect, ReplyScan, ScannedReply, Statuses};

use super::{
    ops::Verb,
    target::{TargetProtocol, TargetUrl},
};
use anyhow::{Context, bail, ensure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// Where keys are if an HTTP URL has no path.
const KV: &str = "/v1/kv/{key}";

/// A part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Key(KeyForm),
    Value,
    /// The length of what is inside, and what is inside.
    Sized(Vec<Piece>, Frame),
}

/// What stands around a length and what has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// A bulk string of Redis.
    Bulk,
    /// memcached's value.
    Line,
    /// The end of an HTTP head, and the body.
    Body,
}

/// How a key is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyForm {
    Verbatim,
    /// In a path or query (RFC 3986).
    Encoded,
    /// Within a JSON string; bytes that are not UTF-8 have no place there and become U+FFFD.
    Json,
}

/// How requests to a target are written and its replies read.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    protocol: TargetProtocol,
    /// By the number of the verb; empty for those that read several keys.
    requests: Vec<Vec<Piece>>,
    /// A write: the second request of an operation that has two.
    write: Vec<Piece>,
    /// HTTP: what all heads have, without the empty line at the end.
    tail: String,
    statuses: Statuses,
}

impl Wire {
    /// The wire of a target for these operations. `headers` go with each HTTP request; `statuses`
    /// tells which answers are errors.
    pub(crate) fn new<'a>(
        target: &TargetUrl,
        verbs: impl Iterator<Item = &'a Verb>,
        headers: &[String],
        statuses: Statuses,
    ) -> anyhow::Result<Wire> {
        let mut tail = format!(" HTTP/1.1\r\nHost: {}\r\n", target.authority);
        for header in headers {
            let (name, value) = header.split_once(':').with_context(|| format!("--header {header:?} has no colon"))?;
            ensure!(!header.contains(['\r', '\n']), "--header {header:?} breaks the line");
            tail.push_str(&format!("{}: {}\r\n", name.trim(), value.trim()));
        }
        let protocol = target.protocol;
        let mut wire = Wire { protocol, requests: Vec::new(), write: Vec::new(), tail, statuses };
        wire.write = wire.request(target, &Verb::Set)?;
        wire.requests = verbs.map(|verb| wire.request(target, verb)).collect::<anyhow::Result<_>>()?;
        Ok(wire)
    }

    fn request(&self, target: &TargetUrl, verb: &Verb) -> anyhow::Result<Vec<Piece>> {
        Ok(match (self.protocol, verb) {
            (_, Verb::Mget(_) | Verb::Scan(_)) => Vec::new(),
            (TargetProtocol::Redis, Verb::Raw(text)) => {
                let arguments: Vec<&str> = text.split_ascii_whitespace().collect();
                ensure!(!arguments.is_empty(), "a raw command is empty");
                command(&arguments)
            }
            (TargetProtocol::Redis, Verb::Get | Verb::ReadModifyWrite) => command(&["GET", "{key}"]),
            (TargetProtocol::Redis, Verb::Set | Verb::Insert) => command(&["SET", "{key}", "{value}"]),
            (TargetProtocol::Redis, Verb::Del) => command(&["DEL", "{key}"]),
            (TargetProtocol::Http, Verb::Raw(text)) => {
                // METHOD path body; a path has no blanks.
                let mut parts = text.splitn(3, ' ');
                let method = parts.next().unwrap_or_default();
                let path = parts.next().with_context(|| format!("raw request {text:?} has no path"))?;
                ensure!(path.starts_with('/'), "raw request {text:?}: the path begins with /");
                self.http(method, path, parts.next())
            }
            (TargetProtocol::Http, verb) => {
                let path = match target.path.as_str() {
                    "" | "/" => KV.to_owned(),
                    path if path.starts_with('?') => format!("/{path}"),
                    path => path.to_owned(),
                };
                match verb {
                    Verb::Get | Verb::ReadModifyWrite => self.http("GET", &path, None),
                    Verb::Del => self.http("DELETE", &path, None),
                    _ => self.http("PUT", &path, Some("{value}")),
                }
            }
            (TargetProtocol::Memcache, Verb::Raw(text)) => {
                bail!("raw requests such as {text:?} are for http and redis targets")
            }
            (TargetProtocol::Memcache, Verb::Get | Verb::ReadModifyWrite) => pieces("get {key}\r\n", KeyForm::Verbatim),
            (TargetProtocol::Memcache, Verb::Del) => pieces("delete {key}\r\n", KeyForm::Verbatim),
            (TargetProtocol::Memcache, _) => {
                let mut set = pieces("set {key} 0 0 ", KeyForm::Verbatim);
                set.push(Piece::Sized(vec![Piece::Value], Frame::Line));
                set
            }
        })
    }

    fn http(&self, method: &str, path: &str, body: Option<&str>) -> Vec<Piece> {
        let mut request = pieces(&format!("{method} {path}{}", self.tail), KeyForm::Encoded);
        match body {
            None => request.push(Piece::Text(b"\r\n".to_vec())),
            Some(body) => {
                request.push(Piece::Text(b"Content-Length: ".to_vec()));
                request.push(Piece::Sized(pieces(body, KeyForm::Json), Frame::Body));
            }
        }
        request
    }

    /// What is sent first on a connection, and how many replies it gets.
    pub(crate) fn greeting(&self, target: &TargetUrl) -> (Vec<u8>, usize) {
        let (mut out, mut replies) = (Vec::new(), 0);
        let mut say = |arguments: &[&str]| {
            fill(&command(arguments), b"", b"", &mut Vec::new(), &mut out);
            replies += 1;
        };
        match &target.login {
            Some((user, password)) if user.is_empty() => say(&["AUTH", password]),
            Some((user, password)) => say(&["AUTH", user, password]),
            None => {}
        }
        if target.database != 0 {
            say(&["SELECT", &target.database.to_string()]);
        }
        (out, replies)
    }

    /// The request of the verb with this number, about one key.
    pub(crate) fn one(&self, verb: usize, key: &[u8], value: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        fill(&self.requests[verb], key, value, scratch, out);
    }

    /// Writes one key.
    pub(crate) fn write(&self, key: &[u8], value: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        fill(&self.write, key, value, scratch, out);
    }

    /// Reads several keys at once; over HTTP by Larder's `POST /v1/mget`.
    pub(crate) fn many(&self, keys: &[Vec<u8>], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self.protocol {
            TargetProtocol::Redis => {
                out.extend_from_slice(b"*");
                number(keys.len() + 1, out);
                out.extend_from_slice(b"\r\n$4\r\nMGET\r\n");
                keys.iter().for_each(|key| bulk(key, out));
            }
            TargetProtocol::Memcache => {
                out.extend_from_slice(b"get");
                for key in keys {
                    out.push(b' ');
                    out.extend_from_slice(key);
                }
                out.extend_from_slice(b"\r\n");
            }
            TargetProtocol::Http => {
                scratch.clear();
                scratch.extend_from_slice(b"{\"keys\":[");
                for (index, key) in keys.iter().enumerate() {
                    scratch.extend_from_slice(if index == 0 { b"\"" } else { b",\"" });
                    KeyForm::Json.write(key, scratch);
                    scratch.push(b'"');
                }
                scratch.extend_from_slice(b"]}");
                out.extend_from_slice(b"POST /v1/mget");
                out.extend_from_slice(self.tail.as_bytes());
                out.extend_from_slice(b"Content-Length: ");
                number(scratch.len(), out);
                out.extend_from_slice(b"\r\n\r\n");
                out.extend_from_slice(scratch);
            }
        }
    }

    /// How the reply to this verb is read.
    pub(crate) fn expect(verb: &Verb) -> Expect {
        match verb {
            Verb::Get | Verb::Mget(_) | Verb::Scan(_) | Verb::ReadModifyWrite => Expect::Lookup,
            Verb::Raw(text) if text.starts_with("HEAD ") => Expect::Head,
            Verb::Raw(text) if text.starts_with("GET ") => Expect::Lookup,
            _ => Expect::Plain,
        }
    }

    /// Looks for a reply to `asked` keys at the beginning of `bytes`.
    pub(crate) fn scan(&self, expect: Expect, asked: u32, bytes: &[u8]) -> ReplyScan {
        match self.protocol {
            TargetProtocol::Redis => replies::redis(expect, bytes),
            TargetProtocol::Http => replies::http(expect, bytes, &self.statuses),
            TargetProtocol::Memcache => replies::memcache(expect, asked, bytes),
        }
    }
}

/// A text with `{key}` and `{value}` as pieces.
fn pieces(text: &str, form: KeyForm) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((at, piece, length)) = [("{key}", Piece::Key(form)), ("{value}", Piece::Value)]
        .into_iter()
        .filter_map(|(name, piece)| Some((rest.find(name)?, piece, name.len())))
        .min_by_key(|&(at, ..)| at)
    {
        pieces.extend((at > 0).then(|| Piece::Text(rest[..at].into())));
        pieces.push(piece);
        rest = &rest[at + length..];
    }
    pieces.extend((!rest.is_empty()).then(|| Piece::Text(rest.into())));
    pieces
}

/// A command of the Redis protocol. What has no holes is one text.
fn command(arguments: &[&str]) -> Vec<Piece> {
    let mut command = Vec::new();
    let mut text = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        match &pieces(argument, KeyForm::Verbatim)[..] {
            [] | [Piece::Text(_)] => bulk(argument.as_bytes(), &mut text),
            holes => {
                command.extend((!text.is_empty()).then(|| Piece::Text(std::mem::take(&mut text))));
                command.push(Piece::Sized(holes.to_vec(), Frame::Bulk));
            }
        }
    }
    command.extend((!text.is_empty()).then_some(Piece::Text(text)));
    command
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    number(bytes.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn fill(pieces: &[Piece], key: &[u8], value: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Key(form) => form.write(key, out),
            Piece::Value => out.extend_from_slice(value),
            Piece::Sized(inside, frame) => {
                let whole = match inside[..] {
                    [Piece::Key(KeyForm::Verbatim)] => key,
                    [Piece::Value] => value,
                    _ => {
                        scratch.clear();
                        fill(inside, key, value, &mut Vec::new(), scratch);
                        &scratch[..]
                    }
                };
                match frame {
                    Frame::Bulk => bulk(whole, out),
                    Frame::Line => {
                        number(whole.len(), out);
                        out.extend_from_slice(b"\r\n");
                        out.extend_from_slice(whole);
                        out.extend_from_slice(b"\r\n");
                    }
                    Frame::Body => {
                        number(whole.len(), out);
                        out.extend_from_slice(b"\r\n\r\n");
                        out.extend_from_slice(whole);
                    }
                }
            }
        }
    }
}

fn number(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Bytes of a key that a path or query does not take as they are. `&`, `+` and `=` mean something in
/// queries.
const ENCODED_IN_KEYS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':')
    .remove(b'/')
    .remove(b'@')
    .remove(b',');

impl KeyForm {
    fn write(self, key: &[u8], out: &mut Vec<u8>) {
        let plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'"' && *byte != b'\\';
        match self {
            KeyForm::Encoded => {
                percent_encode(key, ENCODED_IN_KEYS).for_each(|part| out.extend_from_slice(part.as_bytes()));
            }
            KeyForm::Json if !key.iter().all(plain) => {
                let quoted = serde_json::Value::from(String::from_utf8_lossy(key)).to_string();
                out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
            }
            _ => out.extend_from_slice(key),
        }
    }
}
