//! What a client asks for.
#![expect(missing_docs, reason = "fields have the names that memcached's `doc/protocol.txt` gives them")]
use super::meta::Meta;

/// Longest key.
pub const MAX_KEY: usize = 250;

/// One command with its value, if it has one. `is_quiet`: the client wants no reply (`noreply`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'i> {
    /// `get`, `gets`; `gat` and `gats` with `exptime`.
    Get { keys: Keys<'i>, with_version: bool, exptime: Option<i64> },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store(Store<'i>),
    /// `incr`, `decr`.
    Arithmetic { key: &'i [u8], delta: u64, is_increment: bool, is_quiet: bool },
    /// `delete`.
    Delete { key: &'i [u8], is_quiet: bool },
    /// `touch`.
    Touch { key: &'i [u8], exptime: i64, is_quiet: bool },
    /// `flush_all`, after so many seconds.
    Flush { delay: i64, is_quiet: bool },
    /// `stats` with its argument, empty if there is none.
    Stats(&'i [u8]),
    /// `verbosity`.
    Verbosity { is_quiet: bool },
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// `mg`, `ms`, `md`, `ma`, `me`.
    Meta(Meta<'i>),
    /// `mn`.
    MetaNothing,
}

/// A classic command that stores a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Store<'i> {
    pub key: &'i [u8],
    pub mode: StoreMode,
    pub flags: u32,
    pub exptime: i64,
    pub value: &'i [u8],
    pub is_quiet: bool,
}

/// When a value is stored, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    Set,
    /// Only if the key is absent.
    Add,
    /// Only if the key exists.
    Replace,
    /// Behind the value that there is.
    Append,
    /// Before the value that there is.
    Prepend,
    /// Only if the entry has this version.
    Cas(u64),
}

/// The keys of one command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys<'i>(pub(super) &'i [u8]);

impl<'i> Keys<'i> {
    /// The keys of this text, if each of them may be one.
    pub(super) fn checked(text: &'i [u8]) -> Option<Keys<'i>> {
        let keys = Keys(text);
        keys.into_iter().all(is_key).then_some(keys)
    }
}

impl<'i> IntoIterator for Keys<'i> {
    type Item = &'i [u8];
    type IntoIter = Tokens<'i>;
    #[inline]
    fn into_iter(self) -> Tokens<'i> {
        Tokens(self.0)
    }
}

/// Whether this may be a key: not too long, and without control characters.
#[inline]
pub(super) fn is_key(token: &[u8]) -> bool {
    token.len() <= MAX_KEY && token.iter().all(|byte| *byte > b' ' && *byte != 0x7f)
}

/// The tokens of a line.
#[derive(Debug, Clone)]
pub struct Tokens<'i>(pub(super) &'i [u8]);

impl<'i> Tokens<'i> {
    /// What follows the tokens that were taken.
    pub(super) fn rest(&self) -> &'i [u8] {
        self.0
    }
}

impl<'i> Iterator for Tokens<'i> {
    type Item = &'i [u8];
    #[inline]
    fn next(&mut self) -> Option<&'i [u8]> {
        let begin = self.0.iter().position(|byte| *byte != b' ')?;
        let rest = &self.0[begin..];
        let length = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (token, rest) = rest.split_at(length);
        self.0 = rest;
        Some(token)
    }
}
