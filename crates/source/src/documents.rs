//! JSON documents as entries: the value is compact JSON text, and the entry's metadata has the mark
//! of a document.
//!
//! Every route and command that stores a document does it in one of these ways, so that all others
//! recognise it:
//! - `Group::put_document` stores a text that a client sent,
//!   with any source that keeps documents. It makes the text compact and checks it first
//!   (`larder_document::compact`).
//! - A command on the memory tier writes with [`DOCUMENT_METADATA`] as the entry's metadata.
//! - A store of this machine keeps the mark as [`ValueKind::Document`]; [`metadata_of`] and
//!   [`kind_of`] translate. They do the same for the flags of memcached clients.
//!
//! [`is_document`] tells documents from strings. Other sources than a store of this machine have no
//! documents: a Redis source keeps its own (RedisJSON), and Larder forwards the commands.
use super::{
    client_mark::{ClientMark, EncodedMark},
    copy_metadata::{CopyMetadataView, DOCUMENT},
};
use larder_engine::Attributes;
use larder_store::ValueKind;

/// The metadata of a document that carries nothing else.
pub const DOCUMENT_METADATA: &[u8] = &[DOCUMENT, 0, 0];

/// The attributes of a document that carries nothing else.
pub const DOCUMENT_ATTRIBUTES: Attributes<'static> = Attributes { tags: &[], metadata: DOCUMENT_METADATA };

#[inline]
pub fn is_document(metadata: &[u8]) -> bool {
    !metadata.is_empty() && (metadata == DOCUMENT_METADATA || CopyMetadataView::read(metadata).is_document)
}

pub fn kind_of(metadata: &[u8]) -> ValueKind {
    match ClientMark::read(metadata).flags {
        _ if is_document(metadata) => ValueKind::Document,
        0 => ValueKind::String,
        flags => ValueKind::Flagged(flags),
    }
}

/// The metadata of an entry of this kind.
pub fn metadata_of(kind: ValueKind) -> KindMetadata {
    match kind {
        ValueKind::String => KindMetadata::Client(ClientMark::default().encode()),
        ValueKind::Flagged(flags) => KindMetadata::Client(ClientMark::of_flags(flags).encode()),
        ValueKind::Document => KindMetadata::Document,
    }
}

/// The metadata of an entry, by the kind of its value.
#[derive(Debug, Clone, Copy)]
pub enum KindMetadata {
    Client(EncodedMark),
    Document,
}

impl KindMetadata {
    /// The attributes of an entry that carries nothing else.
    pub fn attributes(&self) -> Attributes<'_> {
        match self {
            KindMetadata::Client(mark) => mark.attributes(),
            KindMetadata::Document => DOCUMENT_ATTRIBUTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CopyMetadata;

    #[test]
    fn documents_are_told_from_strings() {
        let document = CopyMetadata { is_document: true, ..CopyMetadata::default() };
        assert_eq!(document.encode(), DOCUMENT_METADATA);
        let with_more = CopyMetadata { gone_at: Some(7), ..document };
        assert!(is_document(DOCUMENT_METADATA) && is_document(&with_more.encode()));
        let other = CopyMetadata { content_type: Some((*b"application/json").into()), ..CopyMetadata::default() };
        assert!(!is_document(b"") && !is_document(&other.encode()));
        for kind in [ValueKind::String, ValueKind::Document, ValueKind::Flagged(7)] {
            assert_eq!(kind_of(metadata_of(kind).attributes().metadata), kind);
        }
    }
}
