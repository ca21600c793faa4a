//! A reply as the generator counts it, found at the beginning of a buffer.
use crate::lib::load::{measure::ErrorKind, reply_kinds::ReplyKind};

/// Longest reply, or part of one: the largest value there is.
pub(super) const MAX_BODY: usize = 512 << 20;

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
pub(super) fn length(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0'));
    (length <= MAX_BODY).then_some(length)
}
