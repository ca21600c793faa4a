//! The messages of groupcache, as its nodes send them over HTTP, with the fields that Larders add.
//! Others skip those.
//!
//! Source: `groupcache.proto` of groupcache-go v3 (proto2); `expire` is in nanoseconds since 1970,
//! and 0 means none.
use bytes::Bytes;
use larder_engine::{Entry, Millis};
use larder_proto::http::text::Sink;
use larder_source::{CopyMetadata, CopyMetadataView};
use larder_store::clock;
use prost::Message;

/// The media type of the messages.
pub const PROTOBUF: &str = "application/x-protobuf";
const NANOS: i64 = 1_000_000;

#[derive(Clone, PartialEq, Message)]
pub struct GetResponse {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub value: Option<Bytes>,
    /// When it stops being fresh, by the owner's clock, ns.
    #[prost(int64, optional, tag = "3")]
    pub expire: Option<i64>,
    /// For how long it is fresh, ms; negative: since when it is not. A Larder's; it does not depend
    /// on clocks.
    #[prost(sint64, optional, tag = "100")]
    pub fresh_for: Option<i64>,
    /// What its source said about it ([`CopyMetadata::encode`]). A Larder's.
    #[prost(bytes = "bytes", optional, tag = "101")]
    pub metadata: Option<Bytes>,
    /// Its tags. A Larder's.
    #[prost(bytes = "bytes", repeated, tag = "102")]
    pub tags: Vec<Bytes>,
    /// It must not be kept. A Larder's.
    #[prost(bool, optional, tag = "103")]
    pub not_kept: Option<bool>,
    /// Since its origin made it, or since it was stored, ms. A Larder's; it does not depend on
    /// clocks.
    #[prost(uint64, optional, tag = "104")]
    pub age: Option<u64>,
    /// For how long there is such a key, ms; unset: longer than copies are served. A Larder's; it
    /// does not depend on clocks.
    #[prost(sint64, optional, tag = "105")]
    pub gone_in: Option<i64>,
}

/// The body of a `PUT`.
#[derive(Clone, PartialEq, Message)]
pub struct SetRequest {
    /// The group; the path says it as well.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub group: Option<Bytes>,
    /// The key, which need not be UTF-8.
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub key: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub value: Option<Bytes>,
    /// As in [`GetResponse`].
    #[prost(int64, optional, tag = "4")]
    pub expire: Option<i64>,
}

/// The answer to a `POST` to `_hottest/`. A Larder's.
#[derive(Clone, PartialEq, Message)]
pub struct HottestKeys {
    /// The hottest first. Its number is none of [`GetResponse`], in case that another program
    /// answers with one.
    #[prost(bytes = "bytes", repeated, tag = "200")]
    pub keys: Vec<Bytes>,
}

/// The body of a `POST` to `_remove-keys/`, as JSON.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(super) struct RemoveKeysRequest {
    /// The group; the path says it as well.
    #[serde(default)]
    pub group: String,
    #[serde(default)]
    pub keys: Vec<String>,
}

/// The body of a `POST` to `_get-keys/`: several keys at once, from a Larder.
#[derive(Clone, PartialEq, Message)]
pub struct GetKeysRequest {
    /// At most [`MOST_KEYS`].
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub keys: Vec<Bytes>,
    /// Nothing is fetched for it.
    #[prost(bool, optional, tag = "2")]
    pub held_only: Option<bool>,
}

/// The answer to [`GetKeysRequest`], in the order of the keys.
#[derive(Clone, PartialEq, Message)]
pub struct GetKeysResponse {
    #[prost(message, repeated, tag = "1")]
    pub answers: Vec<KeyAnswer>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyAnswer {
    /// As the status of a `GET` of the key: 200, 404, 503; 413, or 202 where it is not held: ask
    /// for it alone.
    #[prost(uint32, tag = "1")]
    pub status: u32,
    /// A [`GetResponse`], encoded; or why there is none, as text.
    #[prost(bytes = "bytes", tag = "2")]
    pub body: Bytes,
}

/// What the owner of a key is to do. Commands, or a write over HTTP. A Larder's.
#[derive(Clone, PartialEq, Message)]
pub struct OwnerRequest {
    /// Redis commands as a client sends them, all on keys of one owner.
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub commands: Option<Bytes>,
    /// The commands are one step, and the reply is that to EXEC.
    #[prost(bool, tag = "2")]
    pub is_transaction: bool,
    /// The replies must be RESP3.
    #[prost(bool, tag = "3")]
    pub resp3: bool,
    /// A write of one key over HTTP.
    #[prost(message, optional, tag = "4")]
    pub write: Option<HttpWrite>,
}

/// A request that writes one key of the group.
#[derive(Clone, PartialEq, Message)]
pub struct HttpWrite {
    /// `PUT`, `PATCH` or `DELETE`.
    #[prost(string, tag = "1")]
    pub method: String,
    /// The key as it stands in the path.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub query: Bytes,
    /// The header fields that the write depends on.
    #[prost(message, repeated, tag = "4")]
    pub fields: Vec<HeaderField>,
    /// The value, or the patch.
    #[prost(bytes = "bytes", tag = "5")]
    pub body: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct HeaderField {
    /// In lower case.
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// The outcome of an [`OwnerRequest`]. Its field numbers differ from those of [`GetResponse`],
/// because another program may answer with one.
#[derive(Clone, PartialEq, Message)]
pub struct OwnerAnswer {
    /// Of the response over HTTP; 200 for commands. 421: that node does not own all the keys, and
    /// has changed nothing.
    #[prost(uint32, tag = "201")]
    pub status: u32,
    /// Of the response over HTTP.
    #[prost(message, repeated, tag = "202")]
    pub fields: Vec<HeaderField>,
    /// The replies of the commands, or the body of the response.
    #[prost(bytes = "bytes", tag = "203")]
    pub body: Bytes,
}

impl OwnerAnswer {
    /// The node does not own the keys.
    pub const NOT_THE_OWNER: u32 = 421;
}

/// Keys that are asked for at once.
pub const MOST_KEYS: usize = 128;

/// A moment as groupcache writes it.
pub(super) fn to_expire(at: Option<Millis>) -> i64 {
    at.map_or(0, |at| i64::try_from(clock::to_wall(at)).unwrap_or(i64::MAX).saturating_mul(NANOS))
}

/// A moment as groupcache writes it; `None`: none.
pub fn of_expire(expire: Option<i64>) -> Option<Millis> {
    expire.filter(|expire| *expire != 0).map(|expire| clock::of_wall(u64::try_from(expire / NANOS).unwrap_or(0)))
}

impl GetResponse {
    /// The answer that is not held: `said` is what its source said about it, encoded.
    pub fn not_held(value: Bytes, said: &[u8], now: Millis) -> GetResponse {
        GetResponse {
            value: Some(value),
            expire: Some(0),
            not_kept: Some(true),
            metadata: (!said.is_empty()).then(|| Bytes::copy_from_slice(said)),
            age: CopyMetadataView::read(said).born.map(|born| now.saturating_sub(born)),
            ..GetResponse::default()
        }
    }

    /// When the value stops being fresh, by our clock; `None`: unknown.
    pub fn fresh_until(&self, now: Millis) -> Option<Millis> {
        match self.fresh_for {
            Some(left) => Some(now.saturating_add_signed(left)),
            None => of_expire(self.expire),
        }
    }

    /// What the answer says about the value, tags included.
    pub fn copy_metadata(&self, now: Millis) -> CopyMetadata {
        let said = self.metadata.as_deref().map(CopyMetadataView::read).unwrap_or_default();
        let tags = self.tags.iter().map(|tag| Box::from(&**tag)).collect();
        let gone_at = self.gone_in.map(|left| now.saturating_add_signed(left)).or(said.gone_at);
        CopyMetadata { tags, gone_at, born: self.age.map(|age| now.saturating_sub(age)), ..said.to_owned() }
    }
}

/// The encoded answer for an entry, without a copy of its value: what stands before the value, and
/// what follows it.
pub struct EncodedEntry {
    before: Vec<u8>,
    after: Vec<u8>,
    value_len: usize,
}

impl EncodedEntry {
    /// The answer for an entry. `etag` is what tells this version from others if its source gave it
    /// no tag.
    pub fn new(entry: &Entry<'_>, etag: impl FnOnce() -> Box<[u8]>, now: Millis) -> EncodedEntry {
        let signed = |at: Millis| i64::try_from(at).unwrap_or(i64::MAX);
        let end = entry.stale_since().or_else(|| entry.expiry());
        let said = CopyMetadataView::read(entry.metadata());
        // The end that an owner has of a copy becomes the end of freshness at the other node.
        let gone_at = entry.end().filter(|end| !end.is_soft).map(|end| end.at).or(said.gone_at);
        let metadata = match said.etag {
            Some(_) => Bytes::copy_from_slice(entry.metadata()),
            None => CopyMetadata { etag: Some(etag()), ..said.to_owned() }.encode().into(),
        };
        let rest = GetResponse {
            expire: Some(to_expire(end)),
            fresh_for: end.map(|end| signed(end) - signed(now)),
            gone_in: gone_at.map(|at| signed(at) - signed(now)),
            metadata: Some(metadata),
            tags: entry.tags().map(Bytes::copy_from_slice).collect(),
            age: Some(now.saturating_sub(said.born.unwrap_or_else(|| entry.stored()))),
            ..GetResponse::default()
        };
        let value_len = entry.value.as_bytes().len();
        let mut before = Vec::with_capacity(12);
        prost::encoding::encode_key(1, prost::encoding::WireType::LengthDelimited, &mut before);
        prost::encoding::encode_varint(value_len as u64, &mut before);
        EncodedEntry { before, after: rest.encode_to_vec(), value_len }
    }

    /// Bytes of the whole message.
    pub fn encoded_len(&self) -> usize {
        self.before.len() + self.value_len + self.after.len()
    }

    /// Writes the message around the value.
    pub fn put<S: Sink>(&self, out: &mut S, value: impl FnOnce(&mut S)) {
        out.put(&self.before);
        value(out);
        out.put(&self.after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_engine::{Attributes, Cache, Condition, Config, Expiry, Write};

    /// What groupcache-go v3 writes for a value of three bytes and no expiry.
    const AS_SENT: &[u8] = b"\x0a\x03abc\x18\x00";

    #[test]
    fn a_message_of_another_node_is_read() {
        let message = GetResponse::decode(AS_SENT).expect("a message");
        assert_eq!(message.value.as_deref(), Some(&b"abc"[..]));
        assert_eq!((message.fresh_until(5), message.not_kept), (None, None));
        let message = GetResponse { expire: Some(7_000_000), ..message };
        assert_eq!(message.fresh_until(5), Some(7));
        let message = GetResponse { fresh_for: Some(-3), ..message };
        assert_eq!(message.fresh_until(5), Some(2), "the time left counts, not the owner's clock");
    }

    #[test]
    fn an_entry_is_written_as_a_message() {
        let cache = Cache::new(Config { max_memory: 1 << 20, ..Config::default() });
        let said = CopyMetadata { content_type: Some(b"text/x".as_slice().into()), ..CopyMetadata::default() };
        let encoded = said.encode();
        let write = Write {
            value: b"abc",
            expiry: Expiry::At(10_000),
            attributes: Attributes { tags: &[b"t"], metadata: &encoded },
            condition: Condition::Always,
        };
        cache.tier().set(cache.key(b"k"), write, 1000).expect("room");
        let written = cache.tier().peek(cache.key(b"k"), 1000, |entry| {
            let message = EncodedEntry::new(&entry, || b"\"1\"".as_slice().into(), 1000);
            let mut out = Vec::new();
            message.put(&mut out, |out: &mut Vec<u8>| out.put(entry.value.as_bytes()));
            assert_eq!(out.len(), message.encoded_len());
            out
        });
        let message = GetResponse::decode(&*written.expect("the entry")).expect("a message");
        assert_eq!(message.value.as_deref(), Some(&b"abc"[..]));
        assert_eq!((message.expire, message.fresh_for), (Some(10_000_000_000), Some(9000)));
        let expected = CopyMetadata {
            etag: Some(b"\"1\"".as_slice().into()),
            tags: vec![b"t".as_slice().into()],
            born: Some(7000),
            gone_at: Some(16_000),
            ..said
        };
        assert_eq!(message.copy_metadata(7000), expected);
    }
}
