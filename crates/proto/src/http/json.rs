//! JSON strings (RFC 8259 section 7) of bytes that need not be UTF-8.
//!
//! Each maximal invalid sequence becomes one U+FFFD, as `String::from_utf8_lossy` and web browsers
//! do. `"`, `\` and the control characters are escaped; all other characters stand as UTF-8.
use super::text::Sink;

const REPLACEMENT: &str = "\u{fffd}";

/// Bytes that stand for themselves whatever surrounds them: printable ASCII except `"` and `\`.
fn is_clean(bytes: &[u8]) -> bool {
    // No early exit within a chunk, so that the compiler can use vector instructions.
    bytes.chunks(64).all(|chunk| {
        let is_dirty = |b: u8| !(0x20..0x7f).contains(&b) | (b == b'"') | (b == b'\\');
        !chunk.iter().fold(false, |dirty, &b| dirty | is_dirty(b))
    })
}

/// Length of what [`write()`] appends.
pub fn len(bytes: &[u8]) -> usize {
    if is_clean(bytes) {
        return bytes.len() + 2;
    }
    let mut counted = Counter(2);
    write_escaped(&mut counted, bytes);
    counted.0
}

/// Appends `bytes` as a JSON string, quotes included.
pub fn write(out: &mut impl Sink, bytes: &[u8]) {
    out.put(b"\"");
    if is_clean(bytes) {
        out.put(bytes);
    } else {
        write_escaped(out, bytes);
    }
    out.put(b"\"");
}

/// Appends the inside of a JSON string.
pub fn write_escaped(out: &mut impl Sink, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        write_valid(out, chunk.valid());
        if !chunk.invalid().is_empty() {
            out.put(REPLACEMENT.as_bytes());
        }
    }
}

/// How many of the first bytes of `bytes` can be written apart from the rest without changing the
/// result: all of them, unless they end within a character.
pub fn splittable(bytes: &[u8]) -> usize {
    // A character is cut if a lead byte among the last three announces more than follows it.
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let announced = match byte {
            0x00..=0x7f => 1,
            0x80..=0xbf => continue,
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
        };
        return if announced > back { bytes.len() - back } else { bytes.len() };
    }
    bytes.len()
}

fn write_valid(out: &mut impl Sink, text: &str) {
    let bytes = text.as_bytes();
    let mut from = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0x00..0x20 => 0,
            _ => continue,
        };
        out.put(&bytes[from..at]);
        from = at + 1;
        if short != 0 {
            out.put(&[b'\\', short]);
        } else {
            let low = byte & 15;
            let digit = if low < 10 { b'0' + low } else { b'a' + low - 10 };
            out.put(&[b'\\', b'u', b'0', b'0', b'0' + (byte >> 4), digit]);
        }
    }
    out.put(&bytes[from..]);
}

struct Counter(usize);
impl Sink for Counter {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn json(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        write(&mut out, bytes);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn escapes_and_replacements() {
        assert_eq!(json(b"plain 0"), r#""plain 0""#);
        assert_eq!(json(b"q\" b\\ \n\r\t\x08\x0c\x01\x1f\x7f"), "\"q\\\" b\\\\ \\n\\r\\t\\b\\f\\u0001\\u001f\x7f\"");
        assert_eq!(json("é☃😀".as_bytes()), "\"é☃😀\"");
        assert_eq!(json(b"a\xffb\xe2\x98c\xf0\x9f\x98"), "\"a\u{fffd}b\u{fffd}c\u{fffd}\"");
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let text = "[a\"\\\\\u{0}-\u{1f}é☃😀]{0,30}".prop_map(String::into_bytes);
        let mixed = (text.clone(), proptest::collection::vec(any::<u8>(), 0..6), text.clone());
        prop_oneof![text, proptest::collection::vec(any::<u8>(), 0..80), mixed.prop_map(|(a, b, c)| [a, b, c].concat()),]
    }

    proptest! {
        #[test]
        fn a_json_parser_reads_back_the_lossy_text(bytes in bytes()) {
            let written = json(&bytes);
            prop_assert_eq!(written.len(), len(&bytes));
            let read: String = serde_json::from_str(&written).expect("valid JSON");
            prop_assert_eq!(read, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn windows_write_the_same(bytes in bytes(), window in 4_usize..9) {
            let mut whole = Vec::new();
            write_escaped(&mut whole, &bytes);
            let (mut pieces, mut rest) = (Vec::new(), &bytes[..]);
            while !rest.is_empty() {
                let end = if rest.len() <= window { rest.len() } else { splittable(&rest[..window]) };
                prop_assert!(end > 0);
                write_escaped(&mut pieces, &rest[..end]);
                rest = &rest[end..];
            }
            prop_assert_eq!(whole, pieces);
        }
    }
}
