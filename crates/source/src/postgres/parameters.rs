//! Parts of a key, and values, as parameters of statements. They are sent as text, which the
//! database reads by the parameter's own type.
use bytes::{BufMut, BytesMut};
use std::{borrow::Cow, error::Error, fmt::Write as _};
use tokio_postgres::types::{Format, IsNull, ToSql, Type, to_sql_checked};

/// What a parameter's type takes. A text that it surely does not take is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterKind {
    /// Between these, both included.
    Integer(i64, i64),
    /// Any bytes.
    Bytes,
    /// Any text, as far as is known here.
    Text,
}

impl ParameterKind {
    /// By the name of the type, as `format_type` gives it.
    pub(super) fn of(type_name: &str) -> ParameterKind {
        match type_name {
            "smallint" => ParameterKind::Integer(i16::MIN.into(), i16::MAX.into()),
            "integer" => ParameterKind::Integer(i32::MIN.into(), i32::MAX.into()),
            "bigint" => ParameterKind::Integer(i64::MIN, i64::MAX),
            "bytea" => ParameterKind::Bytes,
            _ => ParameterKind::Text,
        }
    }

    /// The parameter for these bytes; `None`: the type has no such value. No text of the database
    /// has a NUL or is not UTF-8.
    pub(super) fn text<'b>(self, bytes: &'b [u8]) -> Option<Cow<'b, str>> {
        if self == ParameterKind::Bytes {
            let mut hex = String::with_capacity(2 + 2 * bytes.len());
            hex.push_str("\\x");
            // Writing to a String cannot fail.
            for byte in bytes {
                let _ = write!(hex, "{byte:02x}");
            }
            return Some(hex.into());
        }
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))?;
        match self {
            ParameterKind::Integer(least, most) => {
                text.parse().ok().filter(|number: &i64| (least..=most).contains(number))?;
            }
            ParameterKind::Bytes | ParameterKind::Text => {}
        }
        Some(text.into())
    }
}

/// A parameter that is sent as text, whatever its type.
#[derive(Debug)]
pub(super) struct TextParameter<'t>(pub(super) &'t str);
impl ToSql for TextParameter<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
    to_sql_checked!();
}

/// The text of an array of these.
pub(super) fn array_text<'t>(elements: impl Iterator<Item = &'t str>) -> String {
    let mut text = String::from("{");
    for element in elements {
        if text.len() > 1 {
            text.push(',');
        }
        text.push('"');
        for c in element.chars() {
            if matches!(c, '"' | '\\') {
                text.push('\\');
            }
            text.push(c);
        }
        text.push('"');
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_cannot_have_is_not_sent() {
        for (type_name, bytes, text) in [
            ("integer", &b"42"[..], Some("42")),
            ("integer", b"-7", Some("-7")),
            ("integer", b"2147483648", None),
            ("bigint", b"2147483648", Some("2147483648")),
            ("smallint", b"32768", None),
            ("integer", b"1; DROP TABLE users", None),
            ("integer", b" 1", None),
            ("integer", b"", None),
            ("text", b"1; DROP TABLE users", Some("1; DROP TABLE users")),
            ("text", b"a\0b", None),
            ("text", b"a\xff", None),
            ("bytea", b"a\0\xff", Some("\\x6100ff")),
            ("uuid", b"x", Some("x")),
        ] {
            let found = ParameterKind::of(type_name).text(bytes);
            assert_eq!(found.as_deref(), text, "{type_name} {}", bytes.escape_ascii());
        }
    }

    #[test]
    fn arrays_are_quoted() {
        assert_eq!(array_text(["a", "", "b\"\\,{}"].into_iter()), r#"{"a","","b\"\\,{}"}"#);
        assert_eq!(array_text([].into_iter()), "{}");
    }
}
