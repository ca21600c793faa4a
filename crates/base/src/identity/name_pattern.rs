//! Patterns of keys and channels, with what a user may do with the keys.
use larder_proto::glob;

/// What a command does with a key, or a rule allows: read it, change it, both. Commands that only
/// look whether a key exists do neither.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyAccess(u8);
impl KeyAccess {
    /// Neither reads nor changes the value.
    pub const NONE: KeyAccess = KeyAccess(0);
    /// Reads the value (`%R`).
    pub const READ: KeyAccess = KeyAccess(1);
    /// Changes the value or the key (`%W`).
    pub const WRITE: KeyAccess = KeyAccess(2);
    /// Reads and changes.
    pub const BOTH: KeyAccess = KeyAccess(3);

    /// Either.
    #[must_use]
    pub const fn with(self, other: KeyAccess) -> KeyAccess {
        KeyAccess(self.0 | other.0)
    }
    #[inline]
    fn covers(self, needed: KeyAccess) -> bool {
        self.0 & needed.0 == needed.0
    }
}

/// A pattern of names, as in KEYS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NamePattern {
    text: Box<[u8]>,
    form: Form,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    Exact,
    Prefix,
    Glob,
}
impl NamePattern {
    pub(super) fn new(text: &[u8]) -> NamePattern {
        let special = |part: &[u8]| part.iter().any(|byte| b"*?[\\".contains(byte));
        let form = match text.split_last() {
            Some((b'*', before)) if !special(before) => Form::Prefix,
            _ if special(text) => Form::Glob,
            _ => Form::Exact,
        };
        NamePattern { text: text.into(), form }
    }
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }
    #[inline]
    pub(super) fn matches(&self, name: &[u8]) -> bool {
        match self.form {
            Form::Exact => *self.text == *name,
            Form::Prefix => name.starts_with(&self.text[..self.text.len() - 1]),
            Form::Glob => glob::matches(&self.text, name, false),
        }
    }
}

/// `~pattern`, `%R~pattern`, `%W~pattern`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub(super) pattern: NamePattern,
    pub(super) access: KeyAccess,
}
impl KeyPattern {
    #[inline]
    pub(super) fn allows(&self, key: &[u8], needed: KeyAccess) -> bool {
        self.access.covers(needed) && self.pattern.matches(key)
    }
    pub(super) fn text(&self) -> Vec<u8> {
        let before: &[u8] = match self.access {
            KeyAccess::READ => b"%R~",
            KeyAccess::WRITE => b"%W~",
            _ => b"~",
        };
        [before, self.pattern.text()].concat()
    }
}
