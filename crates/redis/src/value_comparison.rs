//! Conditions on the value that a key has: `SET … IFEQ`, DELEX, DELIFEQ.
use crate::command_outcome::CommandError;
use larder_engine::Entry;
use xxhash_rust::xxh3::xxh3_64;

const BAD_DIGEST: CommandError = CommandError::Static("ERR digest must be exactly 16 hexadecimal characters");
const BAD_CONDITION: CommandError = CommandError::Static("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");

/// The options of SET that compare the value of the key, whether each compares digests, and whether
/// it asks for equality. The value or digest follows.
const COMPARISONS: [(&str, bool, bool); 4] =
    [("IFEQ", false, true), ("IFNE", false, false), ("IFDEQ", true, true), ("IFDNE", true, false)];

/// Whether an option is one of them.
pub(super) fn is_comparison(option: &[u8]) -> bool {
    COMPARISONS.iter().any(|(name, ..)| option.eq_ignore_ascii_case(name.as_bytes()))
}

/// A condition on the value of a key. A key without an entry has a value that equals no other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'a> {
    with: With<'a>,
    /// Whether it holds if both are equal.
    equal: bool,
}

#[derive(Debug, Clone, Copy)]
enum With<'a> {
    Value(&'a [u8]),
    /// `None`: sixteen characters that are no digest, and equal none.
    Digest(Option<u64>),
}

impl<'a> Comparison<'a> {
    pub(crate) fn parse(name: &[u8], with: &'a [u8]) -> Result<Comparison<'a>, CommandError> {
        let found = COMPARISONS.iter().find(|(known, ..)| name.eq_ignore_ascii_case(known.as_bytes()));
        let (_, of_digests, equal) = *found.ok_or(BAD_CONDITION)?;
        let with = match of_digests {
            false => With::Value(with),
            true if with.len() != 16 => return Err(BAD_DIGEST),
            // A sign is no hexadecimal digit, though a number may begin with it.
            true if !with.iter().all(u8::is_ascii_hexdigit) => With::Digest(None),
            true => With::Digest(str::from_utf8(with).ok().and_then(|text| u64::from_str_radix(text, 16).ok())),
        };
        Ok(Comparison { with, equal })
    }
    pub(crate) fn holds(&self, entry: Option<&Entry<'_>>) -> bool {
        let value = entry.map(|entry| entry.value.as_bytes());
        let is_equal = value.is_some_and(|value| match self.with {
            With::Value(with) => value == with,
            With::Digest(digest) => digest == Some(xxh3_64(value)),
        });
        is_equal == self.equal
    }
}
