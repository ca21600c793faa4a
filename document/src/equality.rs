//! Which values are equal, and where a list has one.
use crate::{locate::Found, scan::parts, tree};
use serde_json::Value;

/// The number of the first element that equals a value, from `start` up to `stop`, which is not
/// included (0: to the end). Negative numbers count from the end. `None`: there is no such element.
/// As in RedisJSON, 1 and 1.0 are different values.
pub fn index_of(text: &[u8], array: &Found, wanted: &[u8], start: i64, stop: i64) -> Option<usize> {
    let elements = parts(text, array.span.start);
    let len = elements.len() as i64;
    let start = if start < 0 { (len + start).max(0) } else { start.min(len - 1) };
    let stop = match stop {
        0 => len,
        ..0 => (len + stop).max(0),
        _ => stop.min(len),
    };
    let range = usize::try_from(start).ok()?..usize::try_from(stop).ok()?;
    let mut within = elements.into_iter().enumerate().take(range.end).skip(range.start);
    let is_wanted = |element: &[u8]| are_equal(element, wanted, Numbers::ByKind);
    within.find(|(_, element)| is_wanted(&text[element.clone()])).map(|(index, _)| index)
}

/// Whether two texts are the same value: order of members and notation of numbers do not matter.
pub(crate) fn is_equal(a: &[u8], b: &[u8]) -> bool {
    are_equal(a, b, Numbers::ByValue)
}

/// How numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Numbers {
    /// 1 and 1.0 are equal.
    ByValue,
    /// They are not: one is a whole number, the other is not written as one.
    ByKind,
}

fn are_equal(a: &[u8], b: &[u8], numbers: Numbers) -> bool {
    let kind = |text: &[u8]| text.first().map(|first| if first.is_ascii_digit() { b'-' } else { *first });
    if a == b {
        return true;
    }
    if kind(a) != kind(b) {
        return false;
    }
    tree::value(a).zip(tree::value(b)).is_some_and(|(a, b)| is_same(&a, &b, numbers))
}

fn is_same(a: &Value, b: &Value, numbers: Numbers) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if numbers == Numbers::ByKind && a.is_f64() != b.is_f64() => false,
        (Value::Number(a), Value::Number(b)) => a == b || !(a.is_i64() && b.is_i64()) && a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b, numbers))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b, numbers)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_equal_by_value_or_by_kind() {
        let list = b"[1.0,[1.0],{\"a\":1e0},10e-1,1,[1],{\"a\":1}]";
        let index = |wanted: &[u8]| index_of(list, &Found::root(list), wanted, 0, 0);
        assert_eq!((index(b"1"), index(b"1.00")), (Some(4), Some(0)));
        assert_eq!((index(b"[1]"), index(b"[1e0]")), (Some(5), Some(1)));
        assert_eq!((index(b"{\"a\":1}"), index(b"{\"a\":1.0}")), (Some(6), Some(2)));
        assert!(is_equal(b"1", b"1.0") && is_equal(b"[1]", b"[1e0]") && !is_equal(b"1", b"\"1\""));
    }
}
