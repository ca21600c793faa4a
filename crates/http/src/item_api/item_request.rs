//! What a request of the item API asks for: the fields of its JSON body, and those of its query
//! that the body does not have.
//!
//! The body is read as Go's `encoding/json` reads it: field names in any case, unknown fields
//! ignored, `null` as if the field were not there (but as a value it is one), and nothing after the
//! object is looked at.
use super::item_error::{ErrorCode, ItemError};
use larder_document::{JsonError, MAX_DEPTH};
use larder_proto::http::target;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, ops::Range};

/// The fields of a request; those that were not given are empty or 0.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ItemRequest<'r> {
    pub(super) key: Cow<'r, str>,
    /// JSON, as it was sent.
    pub(super) value: Option<Cow<'r, str>>,
    pub(super) subkey: Cow<'r, str>,
    pub(super) subindex: i64,
    /// Seconds.
    pub(super) ttl: i64,
}

impl<'r> ItemRequest<'r> {
    /// Reads a request. The key is there and not empty.
    ///
    /// # Errors
    /// `BadRequest` if the body cannot be read, or if neither body nor query says anything;
    /// `NoKey`.
    pub(super) fn parse(body: &'r [u8], query: &'r [u8]) -> Result<ItemRequest<'r>, ItemError> {
        let has_body = !body.is_empty();
        if !has_body && query.is_empty() {
            return Err(ErrorCode::BadRequest.into());
        }
        let mut request = ItemRequest::default();
        if has_body {
            let mut input = serde_json::Deserializer::from_slice(body);
            request = ItemRequest::deserialize(&mut input).map_err(|_| ItemError::from(ErrorCode::BadRequest))?;
        }
        if !query.is_empty() {
            request.add_query(query)?;
        }
        if request.key.is_empty() {
            return Err(if has_body || target::parameter(query, "key").is_some() {
                ErrorCode::NoKey
            } else {
                ErrorCode::BadRequest
            }
            .into());
        }
        Ok(request)
    }

    fn add_query(&mut self, query: &'r [u8]) -> Result<(), ItemError> {
        let number = |name| -> Result<i64, ItemError> {
            let text = parameter(query, name)?.unwrap_or_default();
            if text.is_empty() { Ok(0) } else { text.parse().map_err(|_| ErrorCode::BadRequest.into()) }
        };
        if self.key.is_empty() {
            self.key = parameter(query, "key")?.unwrap_or_default();
        }
        if self.subkey.is_empty() {
            self.subkey = parameter(query, "subkey")?.unwrap_or_default();
        }
        if self.subindex == 0 {
            self.subindex = number("subindex")?;
        }
        if self.ttl == 0 {
            self.ttl = number("ttl")?;
        }
        if self.value.is_none()
            && let Some(text) = parameter(query, "value")?.filter(|text| !text.is_empty())
        {
            serde_json::from_str::<&RawValue>(&text).map_err(|_| ItemError::from(ErrorCode::BadRequest))?;
            self.value = Some(text);
        }
        Ok(())
    }

    /// What the answer to a read repeats.
    pub(super) fn echoed(&self) -> ItemRequest<'_> {
        let subindex = if self.subkey.is_empty() { self.subindex } else { 0 };
        ItemRequest {
            key: Cow::Borrowed(&self.key),
            subkey: Cow::Borrowed(&self.subkey),
            subindex,
            ..ItemRequest::default()
        }
    }

    /// Where in a value, which is JSON, the part is that a read asks for: an element, or all of it.
    ///
    /// # Errors
    /// `NotFound`: there is no such element.
    pub(super) fn part_of(&self, text: &[u8]) -> Result<Range<usize>, ErrorCode> {
        let part = if !self.subkey.is_empty() {
            larder_document::find_member(text, &self.subkey)
        } else if self.subindex != 0 {
            let index = self.subindex.checked_sub(1).and_then(|index| usize::try_from(index).ok());
            index.and_then(|index| larder_document::find_element(text, index))
        } else {
            Some(0..text.len())
        };
        part.ok_or(ErrorCode::NotFound)
    }

    /// The value as it is stored: compact JSON.
    ///
    /// # Errors
    /// `NoValue`; `CannotSet` if it is nested too deep; `BadRequest` if it is not JSON after all
    /// (half a surrogate pair, for example).
    pub(super) fn compact_value(&self) -> Result<Vec<u8>, ItemError> {
        let text = self.value.as_deref().ok_or(ErrorCode::NoValue)?;
        larder_document::compact(text.as_bytes()).map_err(|error| match error {
            JsonError::TooDeep => {
                ItemError::of(ErrorCode::CannotSet, format!("the value is nested deeper than {MAX_DEPTH} levels"))
            }
            _ => ErrorCode::BadRequest.into(),
        })
    }
}

pub(super) fn parameter<'q>(query: &'q [u8], name: &str) -> Result<Option<Cow<'q, str>>, ItemError> {
    let Some(raw) = target::parameter(query, name) else { return Ok(None) };
    let mut scratch = Vec::new();
    let bad = || ItemError::from(ErrorCode::BadRequest);
    let decoded = target::decode_query(raw, &mut scratch).map_err(|_| bad())?;
    let text = match std::ptr::eq(decoded, raw) {
        true => Cow::Borrowed(std::str::from_utf8(raw).map_err(|_| bad())?),
        false => Cow::Owned(String::from_utf8(scratch).map_err(|_| bad())?),
    };
    Ok(Some(text))
}

/// The `mask` of a request for keys. GCache lists all keys if it cannot read the body.
pub(super) fn mask_of<'r>(body: &'r [u8], query: &'r [u8]) -> Result<Cow<'r, str>, ItemError> {
    let mut input = serde_json::Deserializer::from_slice(body);
    match KeysRequest::deserialize(&mut input) {
        Ok(KeysRequest(mask)) if !mask.is_empty() => Ok(mask),
        _ => Ok(parameter(query, "mask")?.unwrap_or_default()),
    }
}

/// Text that is borrowed from the request if it has no escapes.
#[derive(Deserialize)]
struct Text<'r>(#[serde(borrow)] Cow<'r, str>);

struct FieldName(Option<&'static str>);
const FIELDS: [&str; 7] = ["key", "value", "ttl", "subkey", "subindex", "mask", "keys"];
impl<'de> Deserialize<'de> for FieldName {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<FieldName, D::Error> {
        struct AnyCase;
        impl Visitor<'_> for AnyCase {
            type Value = FieldName;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a field")
            }
            fn visit_str<E>(self, name: &str) -> Result<FieldName, E> {
                Ok(FieldName(FIELDS.into_iter().find(|field| is_same_name(field, name))))
            }
        }
        input.deserialize_str(AnyCase)
    }
}

/// In any case, by Unicode's simple folding, which takes the Kelvin sign and the long s for letters.
fn is_same_name(field: &str, name: &str) -> bool {
    let fold = |char| match char {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        other => other.to_ascii_lowercase(),
    };
    field.eq_ignore_ascii_case(name) || !name.is_ascii() && name.chars().map(fold).eq(field.chars())
}

/// A whole number; `None` for `null`. `-0` is one, `1.0` and `1e2` are none.
fn next_integer<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<i64>, A::Error> {
    match map.next_value::<&'de RawValue>()?.get() {
        "null" => Ok(None),
        text => text.parse().map(Some).map_err(|_| A::Error::custom("not a 64-bit integer")),
    }
}

impl<'de> Deserialize<'de> for ItemRequest<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<ItemRequest<'de>, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = ItemRequest<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            /// Go reads `null` into anything, and changes nothing.
            fn visit_unit<E>(self) -> Result<ItemRequest<'de>, E> {
                Ok(ItemRequest::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ItemRequest<'de>, A::Error> {
                let mut request = ItemRequest::default();
                while let Some(FieldName(name)) = map.next_key()? {
                    match name {
                        Some("key") => set(&mut request.key, map.next_value::<Option<Text<'de>>>()?.map(|text| text.0)),
                        Some("subkey") => {
                            set(&mut request.subkey, map.next_value::<Option<Text<'de>>>()?.map(|text| text.0));
                        }
                        Some("subindex") => set(&mut request.subindex, next_integer(&mut map)?),
                        Some("ttl") => set(&mut request.ttl, next_integer(&mut map)?),
                        Some("value") => request.value = Some(map.next_value::<&'de RawValue>()?.get().into()),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(request)
            }
        }
        input.deserialize_any(Fields)
    }
}

fn set<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

struct KeysRequest<'r>(Cow<'r, str>);
impl<'de> Deserialize<'de> for KeysRequest<'de> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<KeysRequest<'de>, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = KeysRequest<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeysRequest<'de>, A::Error> {
                let mut mask = Cow::default();
                while let Some(FieldName(name)) = map.next_key()? {
                    match name {
                        Some("mask") => set(&mut mask, map.next_value::<Option<Text<'de>>>()?.map(|text| text.0)),
                        // Not used, but of the wrong type the body cannot be read.
                        Some("keys") => drop(map.next_value::<Option<Vec<Option<Text<'de>>>>>()?),
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(KeysRequest(mask))
            }
        }
        input.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse<'r>(body: &'r str, query: &'r str) -> Result<ItemRequest<'r>, u8> {
        ItemRequest::parse(body.as_bytes(), query.as_bytes()).map_err(|error| error.code() as u8)
    }

    #[test]
    fn bodies_are_read_as_go_reads_them() {
        let whole = parse(r#" {"KEY":"k","value": {"a" : 1},"subkey":"s","SubIndex":-3,"ttl":60,"x":[{}]} rest"#, "");
        let whole = whole.expect("a request");
        assert_eq!((&*whole.key, &*whole.subkey, whole.subindex, whole.ttl), ("k", "s", -3, 60));
        assert_eq!(whole.value.as_deref(), Some(r#"{"a" : 1}"#));
        assert_eq!(whole.compact_value().expect("a value"), br#"{"a":1}"#);
        // The last one counts, and null changes nothing.
        assert_eq!(
            parse(r#"{"key":"a","Key":"b","key":null,"ttl":7,"ttl":null}"#, "").map(|r| (r.key.into_owned(), r.ttl)),
            Ok(("b".into(), 7))
        );
        assert_eq!(parse(r#"{"key":"a","value":null}"#, "").map(|r| r.value), Ok(Some("null".into())));
        for bad in [
            "",
            "{bad",
            "[1]",
            "1",
            "\"k\"",
            r#"{"key":1}"#,
            r#"{"key":"k","ttl":"60"}"#,
            r#"{"key":"k","ttl":60.0}"#,
            r#"{"key":"k","ttl":-0.0}"#,
            r#"{"key":"k","ttl":6e1}"#,
            r#"{"key":"k","ttl":9223372036854775808}"#,
            r#"{"key":"k","subindex":true}"#,
            r#"{"key":"k"#,
        ] {
            assert_eq!(parse(bad, "").err(), Some(2), "{bad}");
        }
        // Letters that fold to those of the name; a whole number in a form that serde takes for a float.
        let folded = parse(r#"{"\u212aey":"k","ſubKey":"s","ttl":-0,"subindex":-0}"#, "").expect("a request");
        assert_eq!((&*folded.key, &*folded.subkey, folded.subindex, folded.ttl), ("k", "s", 0, 0));
        for none in ["{}", "null", r#"{"key":""}"#, r#"{"key":null}"#] {
            assert_eq!(parse(none, "").err(), Some(10), "{none}");
        }
    }

    #[test]
    fn the_query_fills_what_the_body_lacks() {
        let request =
            parse("", "key=a+b%2B&subkey=%C3%A9&subindex=2&ttl=60&value=%7B%22a%22%3A1%7D").expect("a request");
        assert_eq!((&*request.key, &*request.subkey, request.subindex, request.ttl), ("a b+", "é", 2, 60));
        assert_eq!(request.value.as_deref(), Some(r#"{"a":1}"#));
        assert_eq!(
            parse(r#"{"key":"body","ttl":5}"#, "key=query&ttl=9&subindex=1").map(|r| (
                r.key.into_owned(),
                r.ttl,
                r.subindex
            )),
            Ok(("body".into(), 5, 1))
        );
        for bad in ["x=1", "key=%zz", "key=%FF", "key=k&ttl=x", "key=k&value=%7B"] {
            assert_eq!(parse("", bad).err(), Some(2), "{bad}");
        }
        assert_eq!(parse("", "key=").err(), Some(10));
    }

    #[test]
    fn a_mask_that_cannot_be_read_is_none() {
        let mask = |body: &str, query: &str| mask_of(body.as_bytes(), query.as_bytes()).expect("a mask").into_owned();
        assert_eq!(mask(r#"{"mask":"a*"}"#, "mask=b"), "a*");
        for none in ["", "{}", "{bad", "[]", r#"{"mask":5}"#, r#"{"mask":"a","keys":5}"#] {
            assert_eq!(mask(none, ""), "", "{none}");
            assert_eq!(mask(none, "mask=b"), "b", "{none}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..80), query in "[a-z=&%0-9]{0,40}") {
            if let Ok(request) = ItemRequest::parse(&body, query.as_bytes()) {
                prop_assert!(!request.key.is_empty());
            }
            let _ = mask_of(&body, query.as_bytes());
        }
    }
}
