//! The protocols: requests written into a buffer, replies found in one. No I/O.
//!
//! A reply is scanned, not decoded: where it ends, whether it is an error, how many keys it found. Lengths are a stranger's, so they are
//! bounded before they are believed.
mod http;
mod memcache;
mod resp;
#[cfg(test)]
mod tests;

pub(crate) use http::Statuses;

use super::{
    measure::ErrorKind,
    ops::Verb,
    target::{TargetProtocol, TargetUrl},
};
use anyhow::bail;

/// Longest reply, or part of one: the largest value there is.
const MAX_BODY: usize = 512 << 20;

/// What the beginning of a buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyScan {
    /// Less than a reply: look again when the buffer has at least so many bytes.
    More(usize),
    /// A reply.
    Done(ScannedReply),
    /// Nothing that the protocol knows; the connection is of no more use.
    Bad(&'static str),
}

/// A reply as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ScannedReply {
    /// Its bytes.
    pub(crate) len: usize,
    /// What it says went wrong.
    pub(crate) error: Option<ErrorKind>,
    /// Keys that were asked for and found.
    pub(crate) found: u32,
    /// Keys that were asked for and are not there.
    pub(crate) missing: u32,
    /// The server closes the connection after it.
    pub(crate) close: bool,
}

/// What tells how a reply is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// A reply as such.
    Plain,
    /// A reply that says which keys were found.
    Lookup,
    /// HTTP: a reply without the body that it announces.
    Head,
}

/// A text with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Key,
    Value,
}

fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((at, piece, length)) = [("{key}", Piece::Key), ("{value}", Piece::Value)]
        .into_iter()
        .filter_map(|(name, piece)| Some((rest.find(name)?, piece, name.len())))
        .min_by_key(|&(at, ..)| at)
    {
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].into()));
        }
        pieces.push(piece);
        rest = &rest[at + length..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    pieces
}

fn fill(pieces: &[Piece], key: &[u8], value: &[u8], write_key: fn(&[u8], &mut Vec<u8>), out: &mut Vec<u8>) {
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Key => write_key(key, out),
            Piece::Value => out.extend_from_slice(value),
        }
    }
}

fn verbatim(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
}

fn number(number: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A run of decimal digits, nothing else, that is no more than [`MAX_BODY`].
fn length(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (length <= MAX_BODY).then_some(length)
}

/// How requests to a target are written and its replies read.
#[derive(Debug, Clone)]
pub(crate) enum Wire {
    /// RESP2
    Redis(resp::RedisRequests),
    /// HTTP/1.1
    Http(Box<http::HttpRequests>),
    /// memcached's text protocol
    Memcache,
}

/// Several keys, one behind the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeyBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyBatch {
    /// Makes it empty.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Adds the key that `write` appends.
    pub(crate) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let start = |index: usize| index.checked_sub(1).map_or(0, |before| self.ends[before]);
        (0..self.ends.len()).map(move |index| &self.bytes[start(index)..self.ends[index]])
    }
}

impl Wire {
    /// The wire of a target for these operations. `headers` go with each HTTP request; `statuses` tells which answers are errors.
    pub(crate) fn new<'a>(
        target: &TargetUrl,
        verbs: impl Iterator<Item = &'a Verb>,
        headers: &[String],
        statuses: Statuses,
    ) -> anyhow::Result<Wire> {
        Ok(match target.protocol {
            TargetProtocol::Redis => Wire::Redis(resp::RedisRequests::new(verbs)?),
            TargetProtocol::Http => Wire::Http(Box::new(http::HttpRequests::new(target, verbs, headers, statuses)?)),
            TargetProtocol::Memcache => {
                for verb in verbs {
                    if let Verb::Raw(text) = verb {
                        bail!("raw requests such as {text:?} are for http and redis targets");
                    }
                }
                Wire::Memcache
            }
        })
    }

    /// What is sent first on a connection, and how many replies it gets.
    pub(crate) fn greeting(&self, target: &TargetUrl) -> (Vec<u8>, usize) {
        match self {
            Wire::Redis(_) => resp::greeting(target),
            _ => (Vec::new(), 0),
        }
    }

    /// Reads one key.
    pub(crate) fn get(&self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::get(key, out),
            Wire::Http(http) => http.get(key, out),
            Wire::Memcache => memcache::get([key].into_iter(), out),
        }
    }

    /// Writes one key.
    pub(crate) fn set(&self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::command(&[b"SET", key, value], out),
            Wire::Http(http) => http.set(key, value, out),
            Wire::Memcache => memcache::set(key, value, out),
        }
    }

    /// Removes one key.
    pub(crate) fn del(&self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::command(&[b"DEL", key], out),
            Wire::Http(http) => http.del(key, out),
            Wire::Memcache => memcache::del(key, out),
        }
    }

    /// Reads several keys at once.
    pub(crate) fn mget(&self, keys: &KeyBatch, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Wire::Redis(_) => resp::mget(keys.iter(), out),
            Wire::Http(http) => http.mget(keys.iter(), scratch, out),
            Wire::Memcache => memcache::get(keys.iter(), out),
        }
    }

    /// The raw request of the verb with this number.
    pub(crate) fn raw(&self, verb: usize, key: &[u8], value: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        match self {
            Wire::Redis(resp) => resp.raw(verb, key, value, scratch, out),
            Wire::Http(http) => http.raw(verb, key, value, scratch, out),
            Wire::Memcache => {}
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
        match self {
            Wire::Redis(_) => resp::scan(expect, bytes),
            Wire::Http(http) => http.scan(expect, bytes),
            Wire::Memcache => memcache::scan(expect, asked, bytes),
        }
    }
}
