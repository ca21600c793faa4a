//! Replies as the generator counts them, found at the beginning of a buffer: RESP2
//! (<https://redis.io/docs/latest/develop/reference/protocol-spec/>), HTTP/1.1 (RFC 9112) over
//! connections that are kept, memcached's text protocol
//! (<https://github.com/memcached/memcached/blob/master/doc/protocol.txt>).
//!
//! Lengths are a stranger's, so they are bounded before they are believed.
use crate::lib::load::{measure::ErrorKind, reply_kinds::ReplyKind};
use anyhow::Context;
use std::str::FromStr;

/// Longest reply, or part of one: the largest value there is.
const MAX_BODY: usize = 512 << 20;
/// Longest head of an HTTP answer, and longest line of a Redis reply.
const MAX_HEAD: usize = 64 * 1024;
/// Longest line of memcached.
const MAX_LINE: usize = 2048;
/// How deep arrays may be within arrays.
const MAX_DEPTH: usize = 8;

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
    /// What it is.
    pub(crate) kind: ReplyKind,
    /// What a cache says of itself (`Cache-Status`, RFC 9211): a hit, or not.
    pub(crate) cache_hit: Option<bool>,
    /// Keys that were asked for and found.
    pub(crate) found: u32,
    /// Keys that were asked for and are not there.
    pub(crate) missing: u32,
    /// The server closes the connection after it.
    pub(crate) close: bool,
}

/// How to read a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    /// A reply as such.
    Plain,
    /// A reply that says which keys were found.
    Lookup,
    /// HTTP: a reply without the body that it announces.
    Head,
}

/// A run of decimal digits, nothing else, that is no more than [`MAX_BODY`].
fn length(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (length <= MAX_BODY).then_some(length)
}

/// Looks for a reply of Redis.
pub(super) fn redis(expect: Expect, bytes: &[u8]) -> ReplyScan {
    let mut reply = ScannedReply::default();
    match element(bytes, 0, &mut reply) {
        Ok(len) => {
            reply.len = len;
            reply.kind = ReplyKind::of_redis(bytes);
            if expect != Expect::Lookup {
                (reply.found, reply.missing) = (0, 0);
            }
            ReplyScan::Done(reply)
        }
        Err(stop) => stop,
    }
}

/// The end of the element at the beginning of `bytes`.
fn element(bytes: &[u8], depth: usize, reply: &mut ScannedReply) -> Result<usize, ReplyScan> {
    let Some(end) = memchr::memchr(b'\n', &bytes[..bytes.len().min(MAX_HEAD)]) else {
        return Err(if bytes.len() < MAX_HEAD {
            ReplyScan::More(bytes.len() + 1)
        } else {
            ReplyScan::Bad("an endless line")
        });
    };
    let line = bytes[..end].strip_suffix(b"\r").ok_or(ReplyScan::Bad("a line without its carriage return"))?;
    let (&kind, rest) = line.split_first().ok_or(ReplyScan::Bad("an empty line"))?;
    let end = end + 1;
    match kind {
        b'+' | b':' => {
            reply.found += 1;
            Ok(end)
        }
        b'-' => {
            reply.error = Some(ErrorKind::Server);
            Ok(end)
        }
        b'$' | b'*' if rest == b"-1" => {
            reply.missing += 1;
            Ok(end)
        }
        b'$' => {
            let total = end + length(rest).ok_or(ReplyScan::Bad("an impossible length"))? + 2;
            if bytes.len() < total {
                return Err(ReplyScan::More(total));
            }
            if &bytes[total - 2..total] != b"\r\n" {
                return Err(ReplyScan::Bad("a string longer than announced"));
            }
            reply.found += 1;
            Ok(total)
        }
        b'*' => {
            let count = length(rest).ok_or(ReplyScan::Bad("an impossible length"))?;
            if depth == MAX_DEPTH {
                return Err(ReplyScan::Bad("arrays too deep"));
            }
            let mut at = end;
            for _ in 0..count {
                at += element(&bytes[at..], depth + 1, reply).map_err(|stop| match stop {
                    ReplyScan::More(least) => ReplyScan::More(at + least),
                    stop => stop,
                })?;
            }
            Ok(at)
        }
        _ => Err(ReplyScan::Bad("a kind of reply that was not asked for")),
    }
}

/// Looks for an answer over HTTP.
pub(super) fn http(expect: Expect, bytes: &[u8], statuses: &Statuses) -> ReplyScan {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    let head = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return ReplyScan::More(bytes.len() + 1),
        Ok(httparse::Status::Partial) => return ReplyScan::Bad("an endless head"),
        Err(_) => return ReplyScan::Bad("no HTTP answer"),
    };
    let status = answer.code.unwrap_or(0);
    let (mut body, mut chunked, mut close) = (None, false, answer.version == Some(0));
    let mut cache_hit = None;
    for header in answer.headers.iter() {
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => match length(header.value.trim_ascii()) {
                Some(length) => body = Some(length),
                None => return ReplyScan::Bad("an impossible Content-Length"),
            },
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => chunked = true,
            12 if header.name.eq_ignore_ascii_case("cache-status") => cache_hit = Some(is_hit(header.value)),
            10 if header.name.eq_ignore_ascii_case("connection") => {
                close = header.value.eq_ignore_ascii_case(b"close");
            }
            _ => {}
        }
    }
    let end = match (body, chunked) {
        // RFC 9112, 6.3: these have no body whatever they announce.
        _ if expect == Expect::Head || matches!(status, 100..=199 | 204 | 304) => Ok(head),
        (_, true) => chunks(bytes, head),
        (Some(body), false) => Ok(head + body),
        (None, false) => Err(ReplyScan::Bad("an answer without a length")),
    };
    match end {
        Ok(end) if bytes.len() < end => ReplyScan::More(end),
        // 100 Continue and other 1xx responses announce the answer.
        Ok(end) if (100..200).contains(&status) => match http(expect, &bytes[end..], statuses) {
            ReplyScan::More(least) => ReplyScan::More(end + least),
            ReplyScan::Done(reply) => ReplyScan::Done(ScannedReply { len: end + reply.len, ..reply }),
            bad => bad,
        },
        Ok(len) => {
            let lookup = expect == Expect::Lookup;
            let (found, missing) = (u32::from(lookup && status < 300), u32::from(lookup && status == 404));
            let (kind, error) = (ReplyKind::Status(status), statuses.error(status));
            ReplyScan::Done(ScannedReply { len, error, kind, cache_hit, found, missing, close })
        }
        Err(stop) => stop,
    }
}

/// Does the last cache of a `Cache-Status` field say `hit`? That is the one nearest to the client
/// (RFC 9211, 2).
fn is_hit(field: &[u8]) -> bool {
    let nearest = field.rsplit(|&byte| byte == b',').next().unwrap_or_default();
    nearest.split(|&byte| byte == b';').skip(1).any(|parameter| parameter.trim_ascii() == b"hit")
}

/// The end of a chunked body (RFC 9112, 7.1) that begins at `at`.
fn chunks(bytes: &[u8], mut at: usize) -> Result<usize, ReplyScan> {
    loop {
        let Some(end) = memchr::memchr(b'\n', &bytes[at..]) else {
            return Err(match bytes.len() - at {
                0..1024 => ReplyScan::More(bytes.len() + 1),
                _ => ReplyScan::Bad("an endless chunk head"),
            });
        };
        let line = bytes[at..at + end].trim_ascii();
        let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let size = std::str::from_utf8(digits).ok().and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let size = size.filter(|&size| size <= MAX_BODY).ok_or(ReplyScan::Bad("an impossible chunk"))?;
        at += end + 1;
        if size == 0 {
            // Trailers, which no server here sends: only the empty line is taken.
            return match bytes.get(at..at + 2) {
                Some(b"\r\n") => Ok(at + 2),
                Some(_) => Err(ReplyScan::Bad("trailers")),
                None => Err(ReplyScan::More(at + 2)),
            };
        }
        at += size + 2;
        if bytes.len() < at {
            return Err(ReplyScan::More(at));
        }
    }
}

/// Looks for a reply of memcached to `asked` keys.
pub(super) fn memcache(expect: Expect, asked: u32, bytes: &[u8]) -> ReplyScan {
    let (mut at, mut found) = (0, 0);
    loop {
        let rest = &bytes[at..];
        let Some(end) = memchr::memchr(b'\n', &rest[..rest.len().min(MAX_LINE)]) else {
            return if rest.len() < MAX_LINE {
                ReplyScan::More(bytes.len() + 1)
            } else {
                ReplyScan::Bad("an endless line")
            };
        };
        let Some(line) = rest[..end].strip_suffix(b"\r") else {
            return ReplyScan::Bad("a line without its carriage return");
        };
        at += end + 1;
        if let Some(value) = line.strip_prefix(b"VALUE ") {
            // VALUE key flags bytes
            let digits = value.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
            let Some(length) = length(digits) else { return ReplyScan::Bad("an impossible length") };
            at += length + 2;
            if bytes.len() < at + 5 {
                return ReplyScan::More(at + 5);
            }
            if &bytes[at - 2..at] != b"\r\n" {
                return ReplyScan::Bad("a value longer than announced");
            }
            found += 1;
            continue;
        }
        let word = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        let error = match word {
            b"END" | b"STORED" | b"DELETED" | b"NOT_FOUND" | b"NOT_STORED" | b"EXISTS" => None,
            b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR" => Some(ErrorKind::Server),
            _ => return ReplyScan::Bad("a reply that was not asked for"),
        };
        let missing = if expect == Expect::Lookup && error.is_none() { asked.saturating_sub(found) } else { 0 };
        let kind = ReplyKind::of_memcache(word, found);
        return ReplyScan::Done(ScannedReply { len: at, error, kind, found, missing, ..ScannedReply::default() });
    }
}

/// Which HTTP status codes are errors: `5xx,4xx,!404`; what stands later wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statuses(Vec<(u16, u16, bool)>);

impl FromStr for Statuses {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Statuses> {
        let rule = |part: &str| -> anyhow::Result<(u16, u16, bool)> {
            let (is_error, code) = part.strip_prefix('!').map_or((true, part), |code| (false, code));
            let (low, high) = match code.strip_suffix("xx") {
                Some(class) => (class.parse::<u16>().ok().map(|class| class * 100), 99),
                None => (code.parse().ok(), 0),
            };
            let low = low.filter(|low| (100..600).contains(low));
            let low = low.with_context(|| format!("{part:?} is no status such as 404, 5xx, !404"))?;
            Ok((low, low + high, is_error))
        };
        Ok(Statuses(text.split(',').filter(|part| !part.is_empty()).map(rule).collect::<anyhow::Result<_>>()?))
    }
}

impl Statuses {
    pub(super) fn error(&self, status: u16) -> Option<ErrorKind> {
        let rule = self.0.iter().rev().find(|(low, high, _)| (*low..=*high).contains(&status))?;
        rule.2.then_some(match status {
            400..=499 => ErrorKind::Http4xx,
            _ => ErrorKind::Http5xx,
        })
    }
}
