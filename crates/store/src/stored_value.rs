//! A value of a source, such as the disk store, and what kind of value it is.
use bytes::Bytes;
use larder_engine::Millis;

/// What a value is to clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ValueKind {
    /// Bytes.
    #[default]
    String,
    /// Bytes with the flags that a memcached client gave them, not 0.
    Flagged(u32),
    /// A JSON document: compact JSON text.
    Document,
}

/// A value with its expiry and its kind, read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// The bytes.
    pub value: Bytes,
    /// When it expires, milliseconds since the Unix epoch; `None`: never.
    pub expiry: Option<Millis>,
    /// What it is. Only a store of this machine has other values than strings.
    pub kind: ValueKind,
}

impl StoredValue {
    /// A string.
    pub fn string(value: impl Into<Bytes>, expiry: Option<Millis>) -> StoredValue {
        StoredValue { value: value.into(), expiry, kind: ValueKind::String }
    }
}
