//! An entry as memcached clients see it.
use larder_engine::{Entry, Millis};
use larder_source::{ClientMark, kind_of};
use larder_store::{StoredValue, ValueKind};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A value with what belongs to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryView<'e> {
    pub(crate) value: &'e [u8],
    pub(crate) mark: ClientMark,
    /// The cas unique.
    pub(crate) version: u64,
    pub(crate) expiry: Option<Millis>,
    /// When it was stored, and whether it was read since; unknown for a value of a source.
    pub(crate) stored: Option<Millis>,
    pub(crate) was_read: bool,
}

impl<'e> EntryView<'e> {
    /// An entry of a tier that is the only store.
    pub(crate) fn of(entry: &Entry<'e>) -> EntryView<'e> {
        let mark = mark_of(entry);
        EntryView {
            value: entry.value.as_bytes(),
            mark,
            version: mark.version.unwrap_or_else(|| entry.version()),
            expiry: entry.expiry(),
            stored: Some(entry.stored()),
            was_read: entry.frequency() > 0,
        }
    }

    /// A value at a source.
    pub(crate) fn at_source(value: &'e [u8], mark: ClientMark, expiry: Option<Millis>) -> EntryView<'e> {
        let version = version_of(value, mark.flags);
        EntryView { value, mark, version, expiry, stored: None, was_read: false }
    }

    /// Like `at_source`, as a change of the source reads it.
    pub(crate) fn of_stored(stored: &'e StoredValue) -> EntryView<'e> {
        let flags = if let ValueKind::Flagged(flags) = stored.kind { flags } else { 0 };
        EntryView::at_source(&stored.value, ClientMark::of_flags(flags), stored.expiry)
    }
}

/// The mark of an entry. Without attributes this is one test of a word that is at hand.
#[inline]
pub(crate) fn mark_of(entry: &Entry<'_>) -> ClientMark {
    if entry.has_attributes() { ClientMark::read(entry.metadata()) } else { ClientMark::default() }
}

/// The version of a value at a source: its content. A copy in the memory tier has another version
/// after each fetch, and every Larder its own. In 63 bits, because Java's clients read a signed number.
/// Never 0, which stands for "no version".
pub(crate) fn version_of(value: &[u8], flags: u32) -> u64 {
    (xxh3_64_with_seed(value, flags.into()) >> 1).max(1)
}

/// The kind of a value at a source of this machine.
pub(crate) fn kind_of_mark(mark: ClientMark) -> ValueKind {
    kind_of(&ClientMark::of_flags(mark.flags).encode())
}
