//! Reads named fields and values of parsed replies.
use larder_proto::resp::{Values, View};

/// The values of an aggregate; none for other types.
pub(crate) fn values(of: Option<View<'_>>) -> Values<'_> {
    match of {
        Some(View::Array(values) | View::Set(values) | View::Map(values)) => values,
        _ => Values::default(),
    }
}
pub(crate) fn text_of<'a>(of: &View<'a>) -> &'a [u8] {
    match of {
        View::Bulk(text) | View::Simple(text) => text,
        _ => b"",
    }
}
/// The value of a name in a map. RESP2 sends maps as arrays.
pub(crate) fn named<'a>(of: Option<View<'a>>, name: &[u8]) -> Option<View<'a>> {
    let mut pairs = values(of);
    while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
        if text_of(&key) == name {
            return Some(value);
        }
    }
    None
}
pub(crate) fn number(of: Option<View<'_>>, name: &[u8]) -> i64 {
    match named(of, name) {
        Some(View::Integer(number)) => number,
        _ => 0,
    }
}
