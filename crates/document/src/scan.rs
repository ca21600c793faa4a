//! Finds the parts of a compact text without building anything: blocks of 64 bytes, of which vector
//! instructions make masks.
//!
//! The texts were made by [`compact`](crate::compact()). Other bytes give wrong places, but never a
//! panic or an endless loop.
use crate::string::push_key;
use std::ops::Range;
use wide::u8x64;

/// A place in a text.
pub type Span = Range<usize>;

/// A value that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it lies in the text.
    pub span: Span,
    /// How many containers are around it.
    pub depth: usize,
}

impl Found {
    /// The whole document.
    pub fn root(text: &[u8]) -> Found {
        Found { span: 0..text.len(), depth: 0 }
    }
}

const BLOCK: usize = 64;

/// What a block has outside of strings, one bit for each byte.
struct Masks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
    commas: u64,
}

impl Masks {
    #[inline]
    fn of(block: [u8; BLOCK]) -> Masks {
        let bytes = u8x64::new(block);
        let are = |of: u8x64, wanted: u8| of.simd_eq(u8x64::splat(wanted)).to_bitmask();
        // `[` and `{` differ in this bit, and so do `]` and `}`.
        let folded = bytes | u8x64::splat(0x20);
        Masks {
            quotes: are(bytes, b'"'),
            backslashes: are(bytes, b'\\'),
            opens: are(folded, b'{'),
            closes: are(folded, b'}'),
            commas: are(bytes, b','),
        }
    }
}

/// Which bytes lie within strings, block after block.
#[derive(Default)]
struct Strings {
    /// All bits set: the block before ended within a string.
    inside: u64,
    /// The first byte is escaped by the last one of the block before.
    escaped: u64,
}

impl Strings {
    /// The bytes within strings, opening quotes included and closing ones not.
    #[inline]
    fn of(&mut self, quotes: u64, backslashes: u64) -> u64 {
        let escaped = if backslashes == 0 { std::mem::take(&mut self.escaped) } else { self.escapes(backslashes) };
        let mut inside = quotes & !escaped;
        for shift in [1, 2, 4, 8, 16, 32] {
            inside ^= inside << shift;
        }
        inside ^= self.inside;
        self.inside = ((inside as i64) >> 63) as u64;
        inside
    }

    /// The bytes that a backslash escapes. Of a run of backslashes each second one is escaped
    /// itself; adding along the runs finds them all at once.
    fn escapes(&mut self, backslashes: u64) -> u64 {
        const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
        let escaping = backslashes & !self.escaped;
        let after = escaping << 1 | ODD;
        let ends = after.wrapping_sub(escaping) ^ ODD;
        let escaped = ends ^ (backslashes | self.escaped);
        self.escaped = (ends & backslashes) >> 63;
        escaped
    }
}

/// The blocks from `at` on, each with its place.
#[inline]
fn blocks(text: &[u8], at: usize) -> impl Iterator<Item = (usize, Masks)> {
    let mut strings = Strings::default();
    (at..text.len()).step_by(BLOCK).map(move |base| {
        let mut block = [0; BLOCK];
        match text[base..].first_chunk() {
            Some(whole) => block = *whole,
            None => block[..text.len() - base].copy_from_slice(&text[base..]),
        }
        let all = Masks::of(block);
        let outside = !strings.of(all.quotes, all.backslashes);
        let (opens, closes, commas) = (all.opens & outside, all.closes & outside, all.commas & outside);
        (base, Masks { opens, closes, commas, ..all })
    })
}

/// Walks through the container that begins at `at`, and tells `commas` where those are that
/// separate its own elements: the place of a block, and a mask. It stops where `commas` returns
/// false. The end of the container; `None`: it was stopped, or there is no end.
#[inline]
fn walk(text: &[u8], at: usize, mut commas: impl FnMut(usize, u64) -> bool) -> Option<usize> {
    let mut depth = 0_usize;
    for (base, Masks { opens, closes, commas: own, .. }) in blocks(text, at) {
        let closed = closes.count_ones() as usize;
        if depth > 1 + closed {
            // Deep inside, whatever the order.
            depth = depth + opens.count_ones() as usize - closed;
        } else if depth == 1 && opens | closes == 0 {
            if own != 0 && !commas(base, own) {
                return None;
            }
        } else {
            let mut events = opens | closes | own;
            while events != 0 {
                let bit = events & events.wrapping_neg();
                if opens & bit != 0 {
                    depth += 1;
                } else if closes & bit != 0 {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(base + bit.trailing_zeros() as usize + 1);
                    }
                } else if depth == 1 && !commas(base, bit) {
                    return None;
                }
                events ^= bit;
            }
        }
    }
    None
}

/// Walks once through everything that the container at `at` has in it, and tells `visit` each `[`, `{`,
/// `]`, `}` and `,` outside of strings with its place, until the container ends or `visit` fails.
pub(crate) fn walk_all<E>(text: &[u8], at: usize, mut visit: impl FnMut(usize, u8) -> Result<(), E>) -> Result<(), E> {
    let mut depth = 0_usize;
    for (base, masks) in blocks(text, at) {
        let mut events = masks.opens | masks.closes | masks.commas;
        while events != 0 {
            let bit = events & events.wrapping_neg();
            let place = base + bit.trailing_zeros() as usize;
            visit(place, text[place])?;
            if masks.opens & bit != 0 {
                depth += 1;
            } else if masks.closes & bit != 0 {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(());
                }
            }
            events ^= bit;
        }
    }
    Ok(())
}

/// Where the value that begins at `at` ends.
pub fn value_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        _ if at == 0 => Some(text.len()),
        b'"' => string_end(text, at),
        b'{' | b'[' => walk(text, at, |_, _| true),
        _ => Some(memchr::memchr3(b',', b']', b'}', &text[at..]).map_or(text.len(), |len| at + len)),
    }
}

/// Where the string that begins at `at` ends, its quotes included.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut from = at + 1;
    loop {
        from += memchr::memchr2(b'"', b'\\', text.get(from..)?)?;
        if text[from] == b'"' {
            return Some(from + 1);
        }
        from += 2;
    }
}

/// Where the string that begins at `at` ends; the text's end if it does not.
pub(crate) fn value_end_of_string(text: &[u8], at: usize) -> usize {
    string_end(text, at).unwrap_or(text.len())
}

/// The value of a member of the object at `at`. `needle` is the key as it stands in the text, with
/// quotes and colon.
pub(crate) fn member(text: &[u8], at: usize, needle: &[u8]) -> Option<Span> {
    let is_there = |from: usize| text.get(from..).is_some_and(|rest| rest.starts_with(needle));
    let mut found = is_there(at + 1).then_some(at + 1);
    if found.is_none() {
        walk(text, at, |base, mut commas| {
            while commas != 0 {
                let from = base + commas.trailing_zeros() as usize + 1;
                if is_there(from) {
                    found = Some(from);
                    return false;
                }
                commas &= commas - 1;
            }
            true
        });
    }
    let begin = found? + needle.len();
    Some(begin..value_end(text, begin)?)
}

/// The value of the member with this key of the object at `at`.
pub(crate) fn child(text: &[u8], at: usize, key: &str) -> Option<Span> {
    member(text, at, &needle(key))
}

/// A key as it stands before its value.
pub(crate) fn needle(key: &str) -> Vec<u8> {
    let mut needle = Vec::with_capacity(key.len() + 3);
    push_key(&mut needle, key.as_bytes());
    needle.push(b':');
    needle
}

/// Whether the container at `at` has nothing in it.
pub fn is_empty(text: &[u8], at: usize) -> bool {
    matches!(text.get(at + 1), Some(b']' | b'}') | None)
}

/// The number of elements of the array, or members of the object, at `at`.
pub fn count(text: &[u8], at: usize) -> usize {
    if is_empty(text, at) {
        return 0;
    }
    let mut count = 1;
    walk(text, at, |_, commas| {
        count += commas.count_ones() as usize;
        true
    });
    count
}

/// The element number `index` of the array at `at`.
pub(crate) fn element(text: &[u8], at: usize, index: usize) -> Option<Span> {
    if is_empty(text, at) {
        return None;
    }
    let mut begin = (index == 0).then_some(at + 1);
    let mut left = index;
    if begin.is_none() {
        walk(text, at, |base, mut commas| {
            let here = commas.count_ones() as usize;
            if left > here {
                left -= here;
                return true;
            }
            for _ in 1..left {
                commas &= commas - 1;
            }
            begin = Some(base + commas.trailing_zeros() as usize + 1);
            false
        });
    }
    let begin = begin?;
    Some(begin..value_end(text, begin)?)
}

/// The elements of the array at `at`, or the members of the object with their keys.
pub fn parts(text: &[u8], at: usize) -> Vec<Span> {
    if is_empty(text, at) {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut begin = at + 1;
    let end = walk(text, at, |base, mut commas| {
        while commas != 0 {
            let comma = base + commas.trailing_zeros() as usize;
            parts.push(begin..comma);
            begin = comma + 1;
            commas &= commas - 1;
        }
        true
    });
    if let Some(end) = end {
        parts.push(begin..end - 1);
    }
    parts
}

/// A member as its key, quotes included, and its value.
pub fn key_and_value(text: &[u8], member: Span) -> Option<(Span, Span)> {
    let end = string_end(text, member.start).filter(|end| *end < member.end)?;
    Some((member.start..end, end + 1..member.end))
}

/// The place of the value within its container: the member with its key where the container is an
/// object. Not for the root.
pub(crate) fn place_of(text: &[u8], value: &Span) -> Span {
    if value.start < 2 || text[value.start - 1] != b':' {
        return value.clone();
    }
    // Back to the key's opening quote: the quotes within it are escaped.
    let mut at = value.start - 2;
    while let Some(quote) = memchr::memrchr(b'"', &text[..at]) {
        let escapes = text[..quote].iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return quote..value.end;
        }
        at = quote;
    }
    value.clone()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::compact;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Any document, with much in it that looks like structure.
    pub(crate) fn document() -> impl Strategy<Value = Value> {
        let text = prop_oneof!["[a-c\\\\\",{}\\[\\]: é\n]{0,12}", "[x\\\\]{50,90}", "[\\\\\"]{0,9}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 60, 8, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..9).prop_map(Value::from),
                proptest::collection::vec((text.clone(), inner), 0..7)
                    .prop_map(|members| Value::from(members.into_iter().collect::<serde_json::Map<_, _>>())),
            ]
        })
    }

    fn check(text: &[u8], span: &Span, value: &Value) {
        let begin = span.start;
        assert_eq!(value_end(text, begin), Some(span.end));
        assert_eq!(&serde_json::from_slice::<Value>(&text[span.clone()]).expect("a value"), value);
        match value {
            Value::Array(values) => {
                let elements = parts(text, begin);
                assert_eq!((elements.len(), count(text, begin)), (values.len(), values.len()));
                for (index, (span, value)) in elements.iter().zip(values).enumerate() {
                    assert_eq!(element(text, begin, index).as_ref(), Some(span));
                    assert_eq!(place_of(text, span), *span);
                    check(text, span, value);
                }
                assert_eq!(element(text, begin, values.len()), None);
            }
            Value::Object(members) => {
                let places = parts(text, begin);
                assert_eq!((places.len(), count(text, begin)), (members.len(), members.len()));
                for place in places {
                    let (key, value) = key_and_value(text, place.clone()).expect("a member");
                    let name: String = serde_json::from_slice(&text[key.clone()]).expect("a string");
                    assert_eq!(place_of(text, &value), place);
                    assert_eq!(member(text, begin, &text[key.start..key.end + 1]), Some(value.clone()));
                    check(text, &value, &members[&name]);
                }
                assert_eq!(member(text, begin, b"\"not there\":"), None);
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn every_part_is_found(value in document()) {
            let text = compact(value.to_string().as_bytes()).expect("it is JSON");
            check(&text, &(0..text.len()), &value);
        }

        #[test]
        fn any_bytes_can_be_scanned(text in proptest::collection::vec(prop::sample::select(b"{}[]\",:\\a1".to_vec()), 0..200)) {
            for at in 0..text.len() {
                value_end(&text, at);
                member(&text, at, b"\"a\":");
                count(&text, at);
                element(&text, at, 2);
                place_of(&text, &(at..text.len()));
                for part in parts(&text, at) {
                    key_and_value(&text, part);
                }
            }
        }
    }
}
