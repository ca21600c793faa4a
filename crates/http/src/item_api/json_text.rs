//! JSON as text: stored values, and the form in which Go's encoder writes it.
use larder_proto::http::{json, text::Sink};
use std::borrow::Cow;

/// Whether [`put_escaped`] would change the text.
pub(super) fn needs_escapes(text: &[u8]) -> bool {
    // No early exit within a chunk, so that the compiler can use vector instructions.
    text.chunks(64).any(|chunk| {
        let is_special = |b: u8| (b == b'<') | (b == b'>') | (b == b'&') | (b == 0xe2);
        chunk.iter().fold(false, |any, &b| any | is_special(b))
    })
}

/// Appends JSON text as Go's encoder does: `<`, `>`, `&` and the line separators U+2028 and U+2029
/// are written as escapes. In valid JSON they stand only in strings, so the value is the same.
pub(super) fn put_escaped(out: &mut impl Sink, text: &[u8]) {
    if !needs_escapes(text) {
        out.put(text);
        return;
    }
    let mut from = 0;
    for (at, byte) in text.iter().enumerate() {
        let (escape, len): (&[u8], usize) = match byte {
            b'<' => (b"\\u003c", 1),
            b'>' => (b"\\u003e", 1),
            b'&' => (b"\\u0026", 1),
            0xe2 if text[at..].starts_with(&[0xe2, 0x80, 0xa8]) => (b"\\u2028", 3),
            0xe2 if text[at..].starts_with(&[0xe2, 0x80, 0xa9]) => (b"\\u2029", 3),
            _ => continue,
        };
        out.put(&text[from..at]);
        out.put(escape);
        from = at + len;
    }
    out.put(&text[from..]);
}

/// Appends bytes as a JSON string in that form; invalid UTF-8 is replaced by U+FFFD.
pub(super) fn put_string(out: &mut impl Sink, bytes: &[u8]) {
    json::write(&mut Escaping(out), bytes);
}

struct Escaping<'s, S>(&'s mut S);
impl<S: Sink> Sink for Escaping<'_, S> {
    fn put(&mut self, bytes: &[u8]) {
        put_escaped(self.0, bytes);
    }
}

/// A stored value that is no document, as compact JSON text: what is not JSON, such as a string
/// that another protocol has stored, is a JSON string.
pub(super) fn of_string(value: &[u8]) -> Cow<'_, [u8]> {
    larder_document::compacted(value).unwrap_or_else(|_| {
        let mut text = Vec::with_capacity(value.len() + 2);
        json::write(&mut text, value);
        Cow::Owned(text)
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn what_is_no_json_is_a_string() {
        assert_eq!(of_string(b" [1, 2]"), b"[1,2]".as_slice());
        assert_eq!(of_string(b"plain \"text\"\xff"), "\"plain \\\"text\\\"\u{fffd}\"".as_bytes());
        assert_eq!(of_string(b""), b"\"\"".as_slice());
        assert_eq!(of_string(b"12"), b"12".as_slice());
        let nested = "[".repeat(100_000) + &"]".repeat(100_000);
        assert!(of_string(nested.as_bytes()).starts_with(b"\"[[["));
    }

    /// JSON values, also with the characters that are escaped.
    pub(in crate::item_api) fn any_json() -> impl Strategy<Value = Value> {
        let text = "[a-c<>& \"\\\\\u{2028}\u{2029}é\u{20ac}\n]{0,6}";
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
            text.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, move |inner| {
            let members = proptest::collection::btree_map(text, inner.clone(), 0..6);
            prop_oneof![
                proptest::collection::vec(inner, 0..6).prop_map(Value::from),
                members.prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn escaped_text_is_the_same_value(value in any_json()) {
            let mut escaped = Vec::new();
            put_escaped(&mut escaped, &serde_json::to_vec(&value).expect("JSON"));
            prop_assert!(!escaped.iter().any(|b| b"<>&".contains(b)));
            prop_assert_eq!(serde_json::from_slice::<Value>(&escaped).expect("JSON"), value);
        }

        #[test]
        fn any_bytes_are_some_json(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = of_string(&bytes).into_owned();
            prop_assert!(serde_json::from_slice::<Value>(&text).is_ok());
        }
    }
}
