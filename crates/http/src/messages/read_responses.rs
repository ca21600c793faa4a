//! The answer to a read of `/v1/kv/{key}`.
//!
//! An entry of the tier is written in two ways: as bytes straight into the output ([`write_kv`], the
//! fast path), and as a response for hyper ([`insert_found`]). The names, order and values of the
//! headers are the same; hyper adds `content-length` and `date` at the end as [`end_head`] does,
//! unless the source gave a date. Every other answer is a response on both paths. What clients of
//! other servers get instead is in `compat`.
use super::response_writer::{ROOM, insert_own_type};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_engine::{Entry, Millis, Value};
use larder_proto::{
    http::{
        cache_control, etag,
        text::{Date, Sink},
    },
    output::Output,
};
use larder_source::{CopyMetadataView, FreshUntil, ValueStream};
use larder_store::clock;

/// What the headers say about an entry. Times are in whole seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryMetadata {
    pub(crate) version: u64,
    /// Since its origin made it, or since it was stored.
    age: u64,
    /// Until it expires or stops being fresh; `None`: it does not.
    left: Option<u64>,
    /// From the moment from which `age` counts to the end; 0 for what is out of date.
    lifetime: Option<u64>,
    /// Since it is out of date: at least 1, because there is no `ttl=-0`.
    stale: Option<u64>,
    /// It was fetched for this request.
    fetched: bool,
    /// When it was looked at, ms.
    pub(crate) now: Millis,
}
impl EntryMetadata {
    pub(crate) fn hit(entry: &Entry<'_>, now: Millis) -> EntryMetadata {
        let stale = entry.stale_since().map(|since| (now.saturating_sub(since) / 1000).max(1));
        let born = match entry.metadata() {
            [] => None,
            said => CopyMetadataView::read(said).born,
        };
        let age = now.saturating_sub(born.unwrap_or_else(|| entry.stored())) / 1000;
        let left = entry.expiry().map(|at| at.saturating_sub(now) / 1000);
        let (left, lifetime) = match (stale, born) {
            (Some(_), _) => (Some(0), Some(0)),
            (None, Some(born)) => (left, entry.expiry().map(|at| at.saturating_sub(born) / 1000)),
            // The moment of storing is known to a second or so: clients are told the rest exactly.
            (None, None) => (left, left.map(|left| age + left)),
        };
        EntryMetadata { version: entry.version(), age, left, lifetime, stale, fetched: false, now }
    }

    /// An entry that had to be fetched first. `is_new`: the source has just given it, so that it is
    /// not out of date, even if its lifetime is 0.
    pub(crate) fn fetched(entry: &Entry<'_>, now: Millis, is_new: bool) -> EntryMetadata {
        let about = EntryMetadata::hit(entry, now);
        EntryMetadata { fetched: true, stale: about.stale.filter(|_| !is_new), ..about }
    }

    /// `Cache-Status` up to the lifetime that is left, which is negative for what is out of date
    /// (RFC 9211, 2.4).
    #[inline]
    fn status(self) -> &'static [u8] {
        match (self.stale, self.fetched) {
            (None, false) => HIT,
            (None, true) => FETCHED,
            (Some(_), false) => STALE_HIT,
            // The fetch failed or took too long.
            (Some(_), true) => STALE_FETCH,
        }
    }

    #[inline]
    fn before_ttl(self) -> &'static [u8] {
        if self.stale.is_some() { b"; ttl=-" } else { b"; ttl=" }
    }

    /// The longest lifetime, in seconds, that a client is told: none of a copy that is out of date,
    /// whatever the source said about it (it may have been cleared softly).
    #[inline]
    fn at_most(self, said: &CopyMetadataView<'_>) -> Option<u64> {
        if self.stale.is_some() { Some(0) } else { said.max_age }
    }

    /// What follows [`before_ttl`](EntryMetadata::before_ttl): seconds.
    #[inline]
    fn ttl(self) -> Option<u64> {
        self.stale.or(self.left)
    }

    /// Adds the headers, as a 200 and a 304 carry them. `said`: what the source said about the
    /// copy.
    pub(crate) fn insert_into(self, headers: &mut HeaderMap, instance: u64, said: &CopyMetadataView<'_>) {
        headers.insert(header::ETAG, tag(self.version, instance));
        insert_validators(headers, said);
        headers.insert(header::AGE, self.age.into());
        insert_cache_control(headers, said, (self.at_most(said), self.lifetime));
        let mut status = Vec::with_capacity(48);
        status.put(self.status());
        if let Some(ttl) = self.ttl() {
            status.put(self.before_ttl());
            status.put_number(ttl);
        }
        headers.insert(CACHE_STATUS, ascii(status));
    }
}

/// Adds what the source said about a value that the tier does not hold, but for its content type.
/// `fresh_for`: until the end of its freshness, ms.
pub(crate) fn insert_said(
    headers: &mut HeaderMap,
    said: &CopyMetadataView<'_>,
    fresh_for: Option<Millis>,
    now: Millis,
) {
    insert_validators(headers, said);
    let age = said.born.map(|born| now.saturating_sub(born));
    // An answer that no cache has kept has no age.
    if let Some(age) = age.filter(|age| *age >= 1000 || !said.is_not_kept) {
        headers.insert(header::AGE, (age / 1000).into());
    }
    match said {
        CopyMetadataView { is_not_kept: true, cache_control: None, .. } => {
            headers.insert(header::CACHE_CONTROL, NO_STORE);
        }
        said => {
            let lifetime = fresh_for.map(|left| (age.unwrap_or(0) + left) / 1000);
            insert_cache_control(headers, said, (said.max_age, lifetime));
        }
    }
}

/// Other clients get other bytes of an encoded value.
pub(crate) fn insert_vary(headers: &mut HeaderMap, value: &ValueStream) {
    if value.encoding.is_some() {
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
}

fn insert_validators(headers: &mut HeaderMap, said: &CopyMetadataView<'_>) {
    let text = |field: Option<&[u8]>| field.and_then(|field| HeaderValue::from_bytes(field).ok());
    if let Some(tag) = text(said.etag) {
        headers.insert(header::ETAG, tag);
    }
    if let Some(date) = text(said.last_modified) {
        headers.insert(header::LAST_MODIFIED, date);
    }
    // A cache keeps the date of the answer (RFC 9110, 6.6.1); `Age` is what tells how old that is.
    if let Some(date) = text(said.date) {
        headers.insert(header::DATE, date);
    }
}

fn insert_cache_control(
    headers: &mut HeaderMap,
    said: &CopyMetadataView<'_>,
    (at_most, lifetime): (Option<u64>, Option<u64>),
) {
    let mut text = Vec::with_capacity(28);
    let says = cache_control::write(&mut text, b"", said.cache_control.unwrap_or_default(), at_most, lifetime);
    if says && let Ok(text) = HeaderValue::from_maybe_shared(Bytes::from(text)) {
        headers.insert(header::CACHE_CONTROL, text);
    }
}

/// The entity tag of a version. Versions start again with each process, so the instance number is
/// mixed in: a tag from another run of this server, or from another server, does not match.
pub(crate) fn tag(version: u64, instance: u64) -> HeaderValue {
    let mut text = Vec::with_capacity(18);
    etag::write(&mut text, version ^ instance);
    ascii(text)
}

/// RFC 9211.
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const HIT: &[u8] = b"larder; hit";
const FETCHED: &[u8] = b"larder; fwd=miss; stored";
const STALE_HIT: &[u8] = b"larder; hit; detail=stale";
const STALE_FETCH: &[u8] = b"larder; fwd=stale; detail=stale";
const PASSED_THROUGH: HeaderValue = HeaderValue::from_static("larder; fwd=miss; detail=too-large");
const ENCODED: HeaderValue = HeaderValue::from_static("larder; fwd=miss; detail=encoded");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NOT_STORED: HeaderValue = HeaderValue::from_static("larder; fwd=miss");

fn ascii(text: Vec<u8>) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("made of visible ASCII")
}

pub(crate) const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// Writes a whole response for an entry, from inside the engine's lookup.
#[inline]
pub(crate) fn write_kv(
    out: &mut Output,
    entry: &Entry<'_>,
    about: EntryMetadata,
    version: u64,
    date: &[u8; Date::LEN],
) {
    let value = entry.value.as_bytes();
    let mut date = Some(date);
    match entry.metadata() {
        [] => {
            out.reserve(ROOM + value.len());
            out.put(b"HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\nx-content-type-options: nosniff\r\netag: ");
            etag::write(out, version);
            out.put(b"\r\nage: ");
            out.put_number(about.age);
            if let Some(seconds) = about.lifetime {
                out.put(b"\r\ncache-control: max-age=");
                out.put_number(seconds);
            }
        }
        said => {
            out.reserve(ROOM + said.len() + value.len());
            out.put(b"HTTP/1.1 200 OK\r\ncontent-type: ");
            date = date.filter(|_| !put_said(out, said, &about, version));
        }
    }
    out.put(b"\r\ncache-status: ");
    out.put(about.status());
    if let Some(ttl) = about.ttl() {
        out.put(about.before_ttl());
        out.put_number(ttl);
    }
    end_dated_head(out, value.len(), date);
    put_value(out, &entry.value);
}

/// The fields of a value that was found. `about` is `None` if the tier does not hold it.
pub(crate) fn insert_found(
    headers: &mut HeaderMap,
    about: Option<EntryMetadata>,
    said: &CopyMetadataView<'_>,
    instance: u64,
) {
    insert_type(headers, said.shown_type());
    match about {
        Some(about) => about.insert_into(headers, instance, said),
        None => {
            insert_said(headers, said, None, clock::now());
            headers.insert(CACHE_STATUS, NOT_STORED);
        }
    }
}

pub(crate) fn insert_passed(headers: &mut HeaderMap, value: &ValueStream, now: Millis) {
    let said = value.metadata.encode();
    let mut said = CopyMetadataView::read(&said);
    said.is_not_kept |= value.fresh == FreshUntil::NotKept;
    insert_type(headers, said.shown_type());
    let fresh_for = match value.fresh {
        FreshUntil::At(until) => Some(until.saturating_sub(now)),
        FreshUntil::Policy | FreshUntil::NotKept => None,
    };
    insert_said(headers, &said, fresh_for, now);
    headers.insert(CACHE_STATUS, if value.encoding.is_some() { ENCODED } else { PASSED_THROUGH });
}

/// The type that the source said, or else Larder's own.
pub(crate) fn insert_type(headers: &mut HeaderMap, said: Option<&[u8]>) {
    match said.and_then(|text| HeaderValue::from_bytes(text).ok()) {
        Some(said) => drop(headers.insert(header::CONTENT_TYPE, said)),
        None => insert_own_type(headers, OCTETS),
    }
}

/// Content type, validators, age and `Cache-Control` of an entry whose source said something about
/// it, up to the end of the line. True if that has a `Date`.
#[cold]
fn put_said(out: &mut Output, said: &[u8], about: &EntryMetadata, version: u64) -> bool {
    let said = CopyMetadataView::read(said);
    out.put(said.shown_type().unwrap_or(b"application/octet-stream\r\nx-content-type-options: nosniff"));
    out.put(b"\r\netag: ");
    match said.etag {
        Some(text) => out.put(text),
        None => etag::write(out, version),
    }
    if let Some(date) = said.last_modified {
        out.put(b"\r\nlast-modified: ");
        out.put(date);
    }
    if let Some(date) = said.date {
        out.put(b"\r\ndate: ");
        out.put(date);
    }
    out.put(b"\r\nage: ");
    out.put_number(about.age);
    let origin = said.cache_control.unwrap_or_default();
    cache_control::write(out, b"\r\ncache-control: ", origin, about.at_most(&said), about.lifetime);
    said.date.is_some()
}

pub(crate) fn end_head(out: &mut Output, len: usize, date: &[u8; Date::LEN]) {
    end_dated_head(out, len, Some(date));
}

pub(crate) fn end_dated_head(out: &mut Output, len: usize, date: Option<&[u8; Date::LEN]>) {
    out.put(b"\r\ncontent-length: ");
    out.put_number(len as u64);
    if let Some(date) = date {
        out.put(b"\r\ndate: ");
        out.put(date);
    }
    out.put(b"\r\n\r\n");
}

pub(crate) fn put_value(out: &mut Output, value: &Value<'_>) {
    match value {
        Value::Inline(bytes) => out.put(bytes),
        Value::Large(_) => out.put_shared(value.to_bytes()),
    }
}
