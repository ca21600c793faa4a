//! What a copy carries besides its value: what its source said about it. The memory tier keeps
//! these bytes with the entry and does not read them.
//!
//! ```text
//! field:  kind 1 | length 2 | bytes        in any order; numbers are 8 bytes, little-endian; unknown kinds are skipped
//! ```
use super::client_mark::ClientMark;
use larder_engine::Millis;

const CONTENT_TYPE: u8 = 1;
const ETAG: u8 = 2;
const LAST_MODIFIED: u8 = 3;
const STALE_WHILE_REVALIDATE: u8 = 4;
const STALE_IF_ERROR: u8 = 5;
const FETCH_DURATION: u8 = 6;
const GONE_AT: u8 = 7;
const NOT_KEPT: u8 = 8;
/// Not what a source says: the mark of a document. See [`documents`](super::documents).
pub(super) const DOCUMENT: u8 = 9;
const CACHE_CONTROL: u8 = 10;
const EXPIRES: u8 = 11;
const BORN: u8 = 12;
const MAX_AGE: u8 = 13;
const DATE: u8 = 14;
const CDN_CACHE_CONTROL: u8 = 15;
/// Not what a source says: see [`client_mark`](super::client_mark).
pub(super) const CLIENT_MARK: u8 = 16;
/// A field that is longer is not kept.
pub(super) const LONGEST: usize = 4096;

/// What a source says about a value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyMetadata {
    pub content_type: Option<Box<[u8]>>,
    /// `ETag`, with its quotes.
    pub etag: Option<Box<[u8]>>,
    /// `Last-Modified`, as it was sent.
    pub last_modified: Option<Box<[u8]>>,
    /// `Cache-Control`, as it was sent; several lines are one list.
    pub cache_control: Option<Box<[u8]>>,
    /// `CDN-Cache-Control` (RFC 9213), as it was sent; several lines are one list.
    pub cdn_cache_control: Option<Box<[u8]>>,
    /// `Expires`, as it was sent.
    pub expires: Option<Box<[u8]>>,
    /// `Date`, as it was sent, if it is a date.
    pub date: Option<Box<[u8]>>,
    /// When the origin made it: its age is counted from then (RFC 9111, 4.2.3).
    pub born: Option<Millis>,
    /// A bound on the `max-age` that clients are told, seconds: the policy keeps the copy for less
    /// time than the origin allows.
    pub max_age: Option<u64>,
    /// How long after its freshness the copy may be served while it is renewed, ms; `None`: as the
    /// policy says.
    pub stale_while_revalidate: Option<u64>,
    /// How long after its freshness the copy may be served while the source fails, ms; `None`: as
    /// the policy says.
    pub stale_if_error: Option<u64>,
    /// How long the fetch took, ms; kept only where the policy asks for it.
    pub fetch_duration: Option<u64>,
    /// When the value expires at the source, if that is while the copy may still be served stale.
    pub gone_at: Option<Millis>,
    /// The source forbids to keep it. No copy has this: it is for those who wait for the answer.
    pub is_not_kept: bool,
    /// The value is a JSON document.
    pub is_document: bool,
    /// What memcached clients say about the value.
    pub client: ClientMark,
    /// The tags of the copy. They are kept apart from the other fields.
    pub tags: Vec<Box<[u8]>>,
}

impl CopyMetadata {
    /// This, and of `held` the fields that it lacks: what a source says when a copy is still right
    /// (RFC 9111, 3.2).
    pub(super) fn over(self, held: CopyMetadata) -> CopyMetadata {
        CopyMetadata {
            content_type: self.content_type.or(held.content_type),
            etag: self.etag.or(held.etag),
            last_modified: self.last_modified.or(held.last_modified),
            tags: if self.tags.is_empty() { held.tags } else { self.tags },
            ..self
        }
    }

    /// Clients are told no `max-age` that goes beyond this moment.
    pub fn bound_max_age(&mut self, last: Millis, now: Millis) {
        let at_most = last.saturating_sub(self.born.unwrap_or(now)) / 1000;
        self.max_age = Some(self.max_age.map_or(at_most, |max_age| max_age.min(at_most)));
    }

    /// The bytes that the memory tier keeps; empty if there is nothing to say.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let texts = [
            (CONTENT_TYPE, &self.content_type),
            (ETAG, &self.etag),
            (LAST_MODIFIED, &self.last_modified),
            (CACHE_CONTROL, &self.cache_control),
            (CDN_CACHE_CONTROL, &self.cdn_cache_control),
            (EXPIRES, &self.expires),
            (DATE, &self.date),
        ];
        for (kind, text) in texts {
            if let Some(text) = text.as_deref().filter(|text| text.len() <= LONGEST) {
                put(&mut out, kind, text);
            }
        }
        let numbers = [
            (STALE_WHILE_REVALIDATE, self.stale_while_revalidate),
            (STALE_IF_ERROR, self.stale_if_error),
            (FETCH_DURATION, self.fetch_duration),
            (GONE_AT, self.gone_at),
            (BORN, self.born),
            (MAX_AGE, self.max_age),
        ];
        for (kind, number) in numbers {
            if let Some(number) = number {
                put(&mut out, kind, &number.to_le_bytes());
            }
        }
        if self.is_not_kept {
            put(&mut out, NOT_KEPT, b"");
        }
        if self.is_document {
            put(&mut out, DOCUMENT, b"");
        }
        out.extend_from_slice(&self.client.encode());
        out
    }
}

fn put(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// [`CopyMetadata`] read in place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyMetadataView<'a> {
    pub content_type: Option<&'a [u8]>,
    pub etag: Option<&'a [u8]>,
    pub last_modified: Option<&'a [u8]>,
    pub cache_control: Option<&'a [u8]>,
    pub cdn_cache_control: Option<&'a [u8]>,
    pub expires: Option<&'a [u8]>,
    pub date: Option<&'a [u8]>,
    pub born: Option<Millis>,
    pub max_age: Option<u64>,
    pub stale_while_revalidate: Option<u64>,
    pub stale_if_error: Option<u64>,
    pub fetch_duration: Option<u64>,
    pub gone_at: Option<Millis>,
    pub is_not_kept: bool,
    pub is_document: bool,
    pub client: ClientMark,
}

impl<'a> CopyMetadataView<'a> {
    /// Reads what [`CopyMetadata::encode`] wrote. Other bytes give no fields.
    pub fn read(mut bytes: &'a [u8]) -> CopyMetadataView<'a> {
        let mut view = CopyMetadataView::default();
        while let [kind, low, high, rest @ ..] = bytes {
            let Some((field, rest)) = rest.split_at_checked(u16::from_le_bytes([*low, *high]).into()) else { break };
            let number = || field.try_into().ok().map(u64::from_le_bytes);
            match *kind {
                CONTENT_TYPE => view.content_type = Some(field),
                ETAG => view.etag = Some(field),
                LAST_MODIFIED => view.last_modified = Some(field),
                STALE_WHILE_REVALIDATE => view.stale_while_revalidate = number(),
                STALE_IF_ERROR => view.stale_if_error = number(),
                FETCH_DURATION => view.fetch_duration = number(),
                GONE_AT => view.gone_at = number(),
                CACHE_CONTROL => view.cache_control = Some(field),
                CDN_CACHE_CONTROL => view.cdn_cache_control = Some(field),
                EXPIRES => view.expires = Some(field),
                DATE => view.date = Some(field),
                BORN => view.born = number(),
                MAX_AGE => view.max_age = number(),
                NOT_KEPT => view.is_not_kept = true,
                DOCUMENT => view.is_document = true,
                CLIENT_MARK => view.client = ClientMark::decode(field),
                _ => {}
            }
            bytes = rest;
        }
        view
    }

    /// The `Content-Type` to send; `None`: the value is bytes of no known type.
    pub fn shown_type(&self) -> Option<&'a [u8]> {
        self.content_type.or(self.is_document.then_some(b"application/json"))
    }

    /// An owned copy, without tags.
    pub fn to_owned(self) -> CopyMetadata {
        CopyMetadata {
            content_type: self.content_type.map(Box::from),
            etag: self.etag.map(Box::from),
            last_modified: self.last_modified.map(Box::from),
            cache_control: self.cache_control.map(Box::from),
            cdn_cache_control: self.cdn_cache_control.map(Box::from),
            expires: self.expires.map(Box::from),
            date: self.date.map(Box::from),
            born: self.born,
            max_age: self.max_age,
            stale_while_revalidate: self.stale_while_revalidate,
            stale_if_error: self.stale_if_error,
            fetch_duration: self.fetch_duration,
            gone_at: self.gone_at,
            is_not_kept: self.is_not_kept,
            is_document: self.is_document,
            client: self.client,
            tags: Vec::new(),
        }
    }
}

/// What a conditional request asks with (RFC 9110, 13.1), and what holds on after a 304 that does
/// not replace it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// For `If-None-Match`.
    pub etag: Option<Box<[u8]>>,
    /// For `If-Modified-Since`.
    pub last_modified: Option<Box<[u8]>>,
    /// The `Cache-Control` of the copy.
    pub cache_control: Option<Box<[u8]>>,
    /// The `CDN-Cache-Control` of the copy.
    pub cdn_cache_control: Option<Box<[u8]>>,
    /// The `Expires` of the copy.
    pub expires: Option<Box<[u8]>>,
}

/// Until when a source says that its answer is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreshUntil {
    /// The source does not say; the policy's `ttl` (or `negative-ttl`) decides.
    Policy,
    /// This moment, which may be past: the copy is then kept only to be served stale or renewed.
    At(Millis),
    /// The answer must not be kept.
    NotKept,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Option<Box<[u8]>>> {
        proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300).prop_map(Vec::into_boxed_slice))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            (content_type, etag, last_modified) in (text(), text(), text()),
            (stale_while_revalidate, stale_if_error) in any::<(Option<u64>, Option<u64>)>(),
            (fetch_duration, gone_at, is_not_kept, is_document) in any::<(Option<u64>, Option<u64>, bool, bool)>(),
            (cache_control, cdn_cache_control, expires, date) in (text(), text(), text(), text()),
            (born, max_age) in any::<(Option<u64>, Option<u64>)>(),
        ) {
            let (tags, client) = (Vec::new(), ClientMark::default());
            let whole = CopyMetadata { content_type, etag, last_modified, cache_control, cdn_cache_control, expires, date, born, max_age, stale_while_revalidate, stale_if_error, fetch_duration, gone_at, is_not_kept, is_document, client, tags };
            prop_assert_eq!(CopyMetadataView::read(&whole.encode()).to_owned(), whole);
        }

        #[test]
        fn any_bytes_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            CopyMetadataView::read(&bytes);
        }
    }

    #[test]
    fn a_field_that_is_too_long_is_left_out() {
        let long = CopyMetadata { etag: Some(vec![b'x'; 5000].into()), ..CopyMetadata::default() };
        assert_eq!(long.encode(), b"");
    }
}
