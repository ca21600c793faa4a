//! A line of JSON: an object, of which two fields count.
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// What a line has in the fields of these names.
pub(super) struct JsonLine<'n> {
    pub(super) key: &'n str,
    pub(super) value: &'n str,
}

/// Key and value; `None`: the field is null.
type Fields<'a> = (Option<Cow<'a, [u8]>>, Option<Cow<'a, [u8]>>);

impl<'n> JsonLine<'n> {
    /// Strings are their text, other values their JSON.
    pub(super) fn read<'a>(&self, line: &'a [u8]) -> Result<Fields<'a>, String> {
        let mut json = serde_json::Deserializer::from_slice(line);
        let read = JsonLine { ..*self }.deserialize(&mut json).and_then(|found| json.end().map(|()| found));
        let [key, value] = read.map_err(|error| format!("it is not a JSON object: {error}"))?;
        let field = |name: &str, raw: Option<&'a RawValue>| match raw.map(RawValue::get) {
            None => Err(format!("it has no field `{name}`")),
            Some("null") => Ok(None),
            Some(text) if text.starts_with('"') => {
                let text: String = serde_json::from_str(text).map_err(|error| format!("`{name}`: {error}"))?;
                Ok(Some(Cow::Owned(text.into_bytes())))
            }
            Some(other) => Ok(Some(Cow::Borrowed(other.as_bytes()))),
        };
        Ok((field(self.key, key)?, field(self.value, value)?))
    }
}

impl<'a> DeserializeSeed<'a> for JsonLine<'_> {
    type Value = [Option<&'a RawValue>; 2];
    fn deserialize<D: Deserializer<'a>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for JsonLine<'_> {
    type Value = [Option<&'a RawValue>; 2];
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'a>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; 2];
        while let Some(name) = object.next_key::<String>()? {
            let raw: &RawValue = object.next_value()?;
            for (wanted, field) in [self.key, self.value].into_iter().zip(&mut found) {
                // Which of the two is meant is not known.
                if name == wanted && field.replace(raw).is_some() {
                    return Err(A::Error::custom(format_args!("the field `{name}` is there twice")));
                }
            }
        }
        Ok(found)
    }
}
