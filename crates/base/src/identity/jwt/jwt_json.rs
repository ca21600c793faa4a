//! JSON and base64 of tokens, read strictly.
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{collections::BTreeMap, fmt};

/// The members of a JSON object, as text. A name that is there twice is an error: readers that take
/// the first and readers that take the last would see different tokens (RFC 7519 section 4).
pub(super) struct JsonMembers<'j>(BTreeMap<String, &'j RawValue>);

impl<'j> JsonMembers<'j> {
    /// `None`: the text is no object, or a name is there twice. Values that are not asked for are
    /// not parsed, so nothing nests.
    pub(super) fn parse(text: &'j [u8]) -> Option<JsonMembers<'j>> {
        serde_json::from_slice(text).ok()
    }
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
    /// The value of a member: `Ok(None)`, there is none.
    ///
    /// # Errors
    /// It is of another type.
    pub(super) fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, serde_json::Error> {
        self.0.get(name).map(|raw| serde_json::from_str(raw.get())).transpose()
    }
}

impl<'de> Deserialize<'de> for JsonMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = JsonMembers<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    if members.insert(name, value).is_some() {
                        return Err(A::Error::custom("a name is there twice"));
                    }
                }
                Ok(JsonMembers(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The bytes of base64url (RFC 4648 section 5) without padding. The bits that no byte takes must be
/// 0, so that bytes have one form alone.
pub(super) fn decode_base64url(text: impl AsRef<[u8]>) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
