//! What callers see of an entry, and how they say what to write.

use crate::{
    attributes::{self, Attributes},
    large::Large,
    record::{self, Body, End, Meta},
    tag_table::TagTable,
    time::Millis,
    version_clock::Clock,
};
use bytes::Bytes;

/// An entry as seen under its shard's lock.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Value<'a>,
    /// What is seldom asked for is read from the record when it is.
    pub(crate) record: &'a [u8],
    pub(crate) meta: Meta,
    pub(crate) clock: &'a Clock,
    /// The shard's tags; an entry from outside has none.
    pub(crate) tags: Option<&'a TagTable>,
    /// Set where an entry is served although it is out of date.
    pub(crate) stale_since: Option<Millis>,
}

impl<'a> Entry<'a> {
    /// When it expires, or stops being fresh.
    pub fn expiry(&self) -> Option<Millis> {
        record::expiry(self.record, self.meta)
    }

    /// When it expires, or stops being fresh, and which of the two.
    pub fn end(&self) -> Option<End> {
        record::end(self.record, self.meta)
    }

    /// Since when it is out of date; `None`: it is not, as far as the cache knows.
    pub fn stale_since(&self) -> Option<Millis> {
        self.stale_since
    }

    /// Whether it ends at `now` or before.
    #[inline]
    pub(crate) fn ends_by(&self, now: Millis) -> bool {
        self.expiry().is_some_and(|at| at <= now)
    }

    /// What the last change left about a large value ([`Change::Part`]), if nothing has changed it
    /// since.
    pub fn note(&self) -> Option<u64> {
        match self.value {
            Value::Large(large) => large.0.note(record::version(self.record)),
            Value::Inline(_) => None,
        }
    }

    /// Whether it has tags or metadata.
    #[inline]
    pub fn has_attributes(&self) -> bool {
        self.meta.has_attributes()
    }

    /// Its [metadata](Attributes::metadata); empty where none were given.
    pub fn metadata(&self) -> &'a [u8] {
        if self.meta.has_attributes() { attributes::metadata(self.word(), self.attributes()) } else { &[] }
    }

    /// See [`crate::attributes`].
    pub(crate) fn word(&self) -> u32 {
        record::word(self.record, self.meta)
    }

    /// The attributes as they lie in the entry.
    pub(crate) fn attributes(&self) -> &'a [u8] {
        match self.value {
            _ if !self.meta.has_attributes() => &[],
            Value::Large(large) => large.0.attributes(),
            Value::Inline(_) => match record::body(self.record, self.meta) {
                Body::Small { attributes, .. } => attributes,
                Body::Large { .. } => &[],
            },
        }
    }

    /// Changes with every write of the key; never 0, which stands for "no entry".
    pub fn version(&self) -> u64 {
        self.clock.widen(record::version(self.record))
    }

    /// The policy's access count (0 to 7).
    pub fn frequency(&self) -> u8 {
        self.meta.policy()
    }

    /// When it was stored: up to a second early, for old entries up to an eighth of their age.
    pub fn stored(&self) -> Millis {
        self.clock.when(self.version())
    }

    /// Bytes of the memory bound that it occupies, its share of the index (about 8) included.
    pub fn footprint(&self) -> usize {
        let large = if let Value::Large(LargeValue(large)) = self.value { large.bytes() } else { 0 };
        self.meta.len() + large + 8
    }
}

/// A value: small ones lie in the log and are copied, large ones have an allocation of their own
/// and can leave by reference.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// Bytes inside the log.
    Inline(&'a [u8]),
    /// A counted allocation.
    Large(LargeValue<'a>),
}

/// A value in its own allocation.
#[derive(Debug, Clone, Copy)]
pub struct LargeValue<'a>(pub(crate) &'a Large);

impl LargeValue<'_> {
    /// The value by reference: costs no copy, keeps the bytes alive after the entry has gone.
    pub fn share(&self) -> Bytes {
        self.0.share()
    }
}

impl<'a> Value<'a> {
    /// The bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        match self {
            Value::Inline(bytes) => bytes,
            Value::Large(large) => large.0.value(),
        }
    }

    /// The bytes as an owned, counted buffer: a copy for small values, a reference for large ones.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Value::Inline(bytes) => Bytes::copy_from_slice(bytes),
            Value::Large(large) => large.share(),
        }
    }
}

/// What a write does to the expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// The cache's default lifetime (with jitter), or none.
    Default,
    /// Never expires.
    Never,
    /// At this moment. A moment already past stores nothing and deletes what was there.
    At(Millis),
    /// As the entry that is replaced has it; never, if there is none.
    Keep,
    /// Fresh for so many milliseconds (with the cache's jitter), then out of date: it may be served
    /// as [`StaleRules`](crate::StaleRules) say.
    FreshFor(u64),
    /// Like `FreshFor`, up to a moment, which may be past.
    FreshUntil(Millis),
}

/// When a `set` applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    Always,
    /// Only if the key has no entry.
    IfAbsent,
    /// Only if the key has an entry.
    IfPresent,
    /// Only if the entry has this version (0: no entry).
    IfVersion(u64),
}

/// A write.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The new value.
    pub value: &'a [u8],
    /// Its expiry.
    pub expiry: Expiry,
    /// What it carries besides; an entry that is replaced loses what it had.
    pub attributes: Attributes<'a>,
    /// When it applies.
    pub condition: Condition,
}

impl<'a> Write<'a> {
    /// An unconditional write that never expires.
    pub fn new(value: &'a [u8]) -> Write<'a> {
        Write { value, expiry: Expiry::Never, attributes: Attributes::NONE, condition: Condition::Always }
    }
}

/// What a `set` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// There was no entry; this is the new version.
    Created(u64),
    /// There was one; this is the new version.
    Replaced(u64),
    /// The condition did not hold; nothing changed.
    Unmet,
}

/// The entry could never be held, whatever is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// Bytes that the entry needs.
    pub needed: usize,
    /// The bound.
    pub max_memory: usize,
}

impl std::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "entry of {} bytes is larger than the memory tier holds (max-memory {})",
            self.needed, self.max_memory
        )
    }
}

impl std::error::Error for TooLarge {}

/// What [`Tier::update`](crate::Tier::update)'s closure asks for. Everything but `Delete` and
/// `Replace` keeps the attributes, `Append`, `Splice` and `Part` the expiry as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'c> {
    /// Nothing.
    Keep,
    /// Remove the entry.
    Delete,
    /// The contents of the scratch buffer become the value.
    Put(Expiry),
    /// Like `Put`, with these attributes in place of those that the entry had.
    Replace(Expiry, Attributes<'c>),
    /// Append to the value (creates the entry if there is none); a large value grows in place.
    Append(&'c [u8]),
    /// Overwrite from an offset, padding with zero bytes (creates the entry if there is none).
    Splice(usize, &'c [u8]),
    /// The contents of the scratch buffer replace the bytes from the first of these positions up to
    /// the second; a large value is changed in place. The note is for [`Entry::note`].
    Part(usize, usize, Option<u64>),
    /// Add these tags to those that the entry has; nothing else changes.
    AddTags(&'c [&'c [u8]]),
    /// Change the expiry only.
    Expire(Expiry),
}
