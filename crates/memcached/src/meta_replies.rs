//! Replies to meta commands: a code, then what the flags ask for, in the client's order.
use crate::{entry_view::EntryView, exptime::seconds_left, replies::number};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use larder_engine::Millis;
use larder_proto::{
    memcached::{Meta, MetaCommand},
    output::Output,
};
use smallvec::SmallVec;

/// A key as it is stored.
pub(crate) type Key = SmallVec<[u8; 256]>;

/// The key of a meta command, decoded if it was sent in base64; `None`: that is no base64.
pub(crate) fn key_of(meta: &Meta<'_>) -> Option<Key> {
    if !meta.flags.is_binary {
        return Some(Key::from_slice(meta.key));
    }
    let mut decoded = [0; 256];
    let length = BASE64_STANDARD.decode_slice(meta.key, &mut decoded).ok().filter(|length| *length > 0)?;
    Some(Key::from_slice(&decoded[..length]))
}

/// Writes the flags that go with a status alone: the opaque token, the key, and the version of what
/// was not stored.
pub(crate) fn status(out: &mut Output, code: &str, meta: &Meta<'_>) {
    out.put(code.as_bytes());
    for token in meta.flags.tokens() {
        match token[0] {
            b'O' => opaque(out, token),
            b'k' => key(out, meta),
            // Like in memcached, what was not stored has a size and no version.
            b'c' | b's' if code != "HD" => {
                if let MetaCommand::Set(value) = meta.command {
                    flag(out, &token[..1], if token[0] == b's' { value.len() as u64 } else { 0 });
                }
            }
            _ => {}
        }
    }
    out.put(b"\r\n");
}

/// Writes the flags that a client asks for about an entry.
pub(crate) fn entry_flags(out: &mut Output, meta: &Meta<'_>, allowed: &[u8], entry: &EntryView<'_>, now: Millis) {
    for token in meta.flags.tokens().filter(|token| allowed.contains(&token[0])) {
        match token[0] {
            b'O' => opaque(out, token),
            b'k' => key(out, meta),
            b'c' => flag(out, b"c", entry.version),
            b'f' => flag(out, b"f", entry.mark.flags.into()),
            b's' => flag(out, b"s", entry.value.len() as u64),
            b'h' => flag(out, b"h", entry.was_read.into()),
            b'l' => flag(out, b"l", entry.stored.map_or(0, |stored| now.saturating_sub(stored) / 1000)),
            b't' => {
                out.put(b" t");
                out.put(itoa::Buffer::new().format(seconds_left(entry.expiry, now)).as_bytes());
            }
            _ => {}
        }
    }
}

fn flag(out: &mut Output, letter: &[u8], value: u64) {
    out.put(b" ");
    out.put(letter);
    number(out, value);
}

fn opaque(out: &mut Output, token: &[u8]) {
    out.put(b" ");
    out.put(token);
}

fn key(out: &mut Output, meta: &Meta<'_>) {
    out.put(b" k");
    out.put(meta.key);
    if meta.flags.is_binary {
        out.put(b" b");
    }
}
