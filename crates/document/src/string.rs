//! The inside of JSON strings: what it stands for, and how text is written there.
use std::borrow::Cow;

/// The text that the inside of a JSON string stands for. What is no escape stands for itself.
pub fn unescaped(inside: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'\\', inside) else { return Cow::Borrowed(inside) };
    let mut out = inside[..first].to_vec();
    let mut rest = &inside[first..];
    while let [byte, after @ ..] = rest {
        if *byte != b'\\' {
            out.push(*byte);
            rest = after;
            continue;
        }
        let (character, taken) = match after {
            [b'u', digits @ ..] => escaped_character(digits),
            [b'b', ..] => ('\u{8}', 1),
            [b'f', ..] => ('\u{c}', 1),
            [b'n', ..] => ('\n', 1),
            [b'r', ..] => ('\r', 1),
            [b't', ..] => ('\t', 1),
            [other, ..] => (char::from(*other), 1),
            [] => ('\\', 0),
        };
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &after[taken..];
    }
    Cow::Owned(out)
}

/// The character of `XXXX`, or of `XXXX\uXXXX`, and how many bytes it takes, the `u` before
/// included.
fn escaped_character(digits: &[u8]) -> (char, usize) {
    let Some(first) = digits.get(..4).and_then(unit) else { return ('u', 1) };
    let second = digits.get(4..10).filter(|next| next.starts_with(b"\\u")).and_then(|next| unit(&next[2..]));
    let pair = second.map(|second| char::decode_utf16([first, second]).collect::<Result<Vec<char>, _>>());
    match pair {
        Some(Ok(characters)) if characters.len() == 1 => (characters[0], 11),
        _ => (char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER), 5),
    }
}

/// The number of four hexadecimal digits.
pub(crate) fn unit(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0_u16, |number, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(number << 4 | digit as u16)
    })
}

/// Appends text as the inside of a JSON string, with no more escapes than JSON demands.
pub fn push_escaped(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len());
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..0x20 => {
                let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0') as u8;
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
}

/// Appends text as a key of a document, quotes included: the one spelling that a key has.
pub fn push_key(out: &mut Vec<u8>, key: &[u8]) {
    out.push(b'"');
    push_escaped(out, key);
    out.push(b'"');
}

/// The number of bytes of the text that the inside of a string stands for.
pub fn unescaped_len(inside: &[u8]) -> usize {
    unescaped(inside).len()
}
