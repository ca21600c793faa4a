//! memcached's text protocol (<https://github.com/memcached/memcached/blob/master/doc/protocol.txt>).
use super::{
    request_template::number,
    scanned_reply::{Expect, ReplyScan, ScannedReply, length},
};
use crate::lib::load::{measure::ErrorKind, reply_kinds::ReplyKind};

/// Longest line.
const MAX_LINE: usize = 2048;

pub(super) fn get<'a>(keys: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"get");
    for key in keys {
        out.push(b' ');
        out.extend_from_slice(key);
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn set(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"set ");
    out.extend_from_slice(key);
    out.extend_from_slice(b" 0 0 ");
    number(value.len(), out);
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn del(key: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"delete ");
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn scan(expect: Expect, asked: u32, bytes: &[u8]) -> ReplyScan {
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
