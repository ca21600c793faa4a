//! RESP2 (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
use super::{
    request_template::{Piece, fill, number, pieces, verbatim},
    scanned_reply::{Expect, ReplyScan, ScannedReply, length},
};
use crate::lib::load::{measure::ErrorKind, ops::Verb, reply_kinds::ReplyKind, target::TargetUrl};
use anyhow::ensure;

/// How deep arrays may be within arrays.
const MAX_DEPTH: usize = 8;
/// Longest line.
const MAX_LINE: usize = 64 * 1024;

/// Raw commands, cut into their arguments; empty for the other verbs.
#[derive(Debug, Clone)]
pub(crate) struct RedisRequests {
    raw: Vec<Vec<Vec<Piece>>>,
}

impl RedisRequests {
    pub(super) fn new<'a>(verbs: impl Iterator<Item = &'a Verb>) -> anyhow::Result<RedisRequests> {
        let raw = verbs.map(|verb| match verb {
            Verb::Raw(text) => {
                let arguments: Vec<_> = text.split_ascii_whitespace().map(pieces).collect();
                ensure!(!arguments.is_empty(), "a raw command is empty");
                Ok(arguments)
            }
            _ => Ok(Vec::new()),
        });
        Ok(RedisRequests { raw: raw.collect::<anyhow::Result<_>>()? })
    }

    pub(super) fn raw(&self, verb: usize, key: &[u8], value: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
        let arguments = &self.raw[verb];
        array(arguments.len(), out);
        for argument in arguments {
            scratch.clear();
            fill(argument, key, value, verbatim, scratch);
            bulk(scratch, out);
        }
    }
}

pub(super) fn greeting(target: &TargetUrl) -> (Vec<u8>, usize) {
    let (mut out, mut replies) = (Vec::new(), 0);
    if let Some((user, password)) = &target.login {
        match user.is_empty() {
            true => command(&[b"AUTH", password.as_bytes()], &mut out),
            false => command(&[b"AUTH", user.as_bytes(), password.as_bytes()], &mut out),
        }
        replies += 1;
    }
    if target.database != 0 {
        command(&[b"SELECT", target.database.to_string().as_bytes()], &mut out);
        replies += 1;
    }
    (out, replies)
}

fn array(count: usize, out: &mut Vec<u8>) {
    out.push(b'*');
    number(count, out);
    out.extend_from_slice(b"\r\n");
}

fn bulk(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'$');
    number(bytes.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn get(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    bulk(key, out);
}

pub(super) fn command(arguments: &[&[u8]], out: &mut Vec<u8>) {
    array(arguments.len(), out);
    arguments.iter().for_each(|argument| bulk(argument, out));
}

pub(super) fn mget<'a>(keys: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    array(keys.len() + 1, out);
    bulk(b"MGET", out);
    keys.for_each(|key| bulk(key, out));
}

/// Looks for a reply, or a request of the same form, at the beginning of `bytes`.
pub(crate) fn scan(expect: Expect, bytes: &[u8]) -> ReplyScan {
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
    let Some(end) = memchr::memchr(b'\n', &bytes[..bytes.len().min(MAX_LINE)]) else {
        return Err(if bytes.len() < MAX_LINE {
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
