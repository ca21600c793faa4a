//! Which values are equal, which of two is greater, and where a list has one.
use crate::{
    compact::MAX_DEPTH,
    decimal::Decimal,
    error::LocateError,
    query::max_work,
    scan::{Span, key_and_value, parts},
    string::unescaped,
};
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use std::{borrow::Cow, cmp::Ordering};

/// The number of the first element that equals a value, from `start` up to `stop`, which is not
/// included (0: to the end). Negative numbers count from the end. `None`: there is no such element.
/// As in RedisJSON, 1 and 1.0 are different values. `work`: the bytes that the command has compared in
/// other arrays of the text, to which this adds its own.
///
/// # Errors
/// The comparisons read too many bytes.
pub fn index_of(
    text: &[u8],
    array: &Span,
    wanted: &[u8],
    (start, stop): (i64, i64),
    work: &mut usize,
) -> Result<Option<usize>, LocateError> {
    let elements = parts(text, array.start);
    let len = elements.len() as i64;
    let start = if start < 0 { (len + start).max(0) } else { start.min(len - 1) };
    let stop = match stop {
        0 => len,
        ..0 => (len + stop).max(0),
        _ => stop.min(len),
    };
    let place = |number: i64| usize::try_from(number).unwrap_or(0);
    let (mut comparison, most) = (Comparison { kinds_differ: true, work: *work }, max_work(text));
    let mut found = None;
    for (index, element) in elements.into_iter().enumerate().take(place(stop)).skip(place(start)) {
        if comparison.are_equal(&text[element], wanted) {
            found = Some(index);
            break;
        }
        if comparison.work > most {
            return Err(LocateError::TooMuchWork(most));
        }
    }
    *work = comparison.work;
    Ok(found)
}

/// Comparisons of compact texts.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// 1 and 1.0 are different values: one is written as an integer, the other is not.
    kinds_differ: bool,
    /// Bytes that were read.
    pub(crate) work: usize,
}

impl Comparison {
    /// Whether two texts are the same value: the order of members, escapes, and the notation of numbers
    /// do not matter.
    pub(crate) fn are_equal(&mut self, a: &[u8], b: &[u8]) -> bool {
        self.are_equal_below(a, b, 0)
    }

    fn are_equal_below(&mut self, a: &[u8], b: &[u8], depth: usize) -> bool {
        let kind = |text: &[u8]| text.first().map(|first| if first.is_ascii_digit() { b'-' } else { *first });
        if kind(a) != kind(b) || depth > MAX_DEPTH {
            return false;
        }
        self.work += a.len().min(b.len());
        if a == b {
            return true;
        }
        match kind(a) {
            Some(b'-') => {
                let is_integer = |number: &[u8]| memchr::memchr3(b'.', b'e', b'E', number).is_none();
                let is_same_kind = !self.kinds_differ || is_integer(a) == is_integer(b);
                self.work += a.len() + b.len();
                is_same_kind && Decimal::of(a).order(&Decimal::of(b)).is_eq()
            }
            // An escape makes a character up to six times as long: the lengths are too different.
            Some(b'"') if a.len() > 6 * b.len() || b.len() > 6 * a.len() => false,
            Some(b'"') => {
                self.work += a.len() + b.len();
                string(a) == string(b)
            }
            Some(b'[') => {
                let (a_parts, b_parts) = self.parts(a, b);
                a_parts.len() == b_parts.len()
                    && a_parts.into_iter().zip(b_parts).all(|(at, bt)| self.are_equal_below(&a[at], &b[bt], depth + 1))
            }
            Some(b'{') => self.are_objects_equal(a, b, depth),
            _ => false,
        }
    }

    fn are_objects_equal(&mut self, a: &[u8], b: &[u8], depth: usize) -> bool {
        let (a_parts, b_parts) = self.parts(a, b);
        if a_parts.len() != b_parts.len() {
            return false;
        }
        let of = |text: &[u8], parts: Vec<Span>| -> Vec<(Span, Span)> {
            parts.into_iter().filter_map(|member| key_and_value(text, member)).collect()
        };
        let (a_members, b_members) = (of(a, a_parts), of(b, b_parts));
        // Mostly the members have the same order. A key has one spelling.
        let is_in_order = a_members.iter().zip(&b_members).all(|((ak, _), (bk, _))| a[ak.clone()] == b[bk.clone()]);
        if is_in_order {
            return a_members
                .into_iter()
                .zip(b_members)
                .all(|((_, at), (_, bt))| self.are_equal_below(&a[at], &b[bt], depth + 1));
        }
        let index: HashMap<&[u8], Span, RandomState> =
            b_members.into_iter().map(|(key, value)| (&b[key], value)).collect();
        a_members.into_iter().all(|(key, at)| {
            let held = index.get(&a[key]).cloned();
            held.is_some_and(|bt| self.are_equal_below(&a[at], &b[bt], depth + 1))
        })
    }

    fn parts(&mut self, a: &[u8], b: &[u8]) -> (Vec<Span>, Vec<Span>) {
        self.work += a.len() + b.len();
        (parts(a, 0), parts(b, 0))
    }

    /// Which of two numbers or two strings is greater; `None`: the values have no order.
    pub(crate) fn order(&mut self, a: &[u8], b: &[u8]) -> Option<Ordering> {
        self.work += a.len() + b.len();
        match (a.first()?, b.first()?) {
            (b'-' | b'0'..=b'9', b'-' | b'0'..=b'9') => Some(Decimal::of(a).order(&Decimal::of(b))),
            // The order of UTF-8 is that of the characters.
            (b'"', b'"') => Some(string(a).cmp(&string(b))),
            _ => None,
        }
    }
}

/// What a string's text, quotes included, stands for.
pub(crate) fn string(text: &[u8]) -> Cow<'_, [u8]> {
    unescaped(text.get(1..text.len().saturating_sub(1)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MOST_WORK, compact, scan::tests::document};
    use proptest::prelude::*;
    use serde_json::Value;

    fn are_equal(a: &str, b: &str) -> bool {
        Comparison::default().are_equal(a.as_bytes(), b.as_bytes())
    }

    #[test]
    fn numbers_are_equal_by_value_or_by_kind() {
        let list = b"[1.0,[1.0],{\"a\":1e0},10e-1,1,[1],{\"a\":1}]";
        let index = |wanted: &[u8]| index_of(list, &(0..list.len()), wanted, (0, 0), &mut 0).expect("little work");
        assert_eq!((index(b"1"), index(b"1.00")), (Some(4), Some(0)));
        assert_eq!((index(b"[1]"), index(b"[1e0]")), (Some(5), Some(1)));
        assert_eq!((index(b"{\"a\":1}"), index(b"{\"a\":1.0}")), (Some(6), Some(2)));
        assert!(are_equal("1", "1.0") && are_equal("[1]", "[1e0]") && !are_equal("1", "\"1\""));
    }

    #[test]
    fn values_are_compared_as_a_whole() {
        let (id, next) = ("18446744073709551614", "18446744073709551615");
        for (a, b, is_same) in [
            (r#"{"a":1,"b":[1.0,{}]}"#, r#"{"b":[1,{}],"a":1e0}"#, true),
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"c":2}"#, false),
            (r#"{"a":1,"b":2}"#, r#"{"b":1,"a":2}"#, false),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false),
            ("[1,2]", "[2,1]", false),
            ("[1]", "[1,1]", false),
            (r#""\u0041\/""#, r#""A/""#, true),
            ("1e400", "null", false),
            ("1e400", "1E+400", true),
            ("[1e400]", "[1e401]", false),
            ("{}", "[]", false),
            ("true", "false", false),
        ] {
            assert_eq!((are_equal(a, b), are_equal(b, a)), (is_same, is_same), "{a} and {b}");
        }
        assert!(!are_equal(&format!("{{\"a\":[{id}]}}"), &format!("{{\"a\":[{next}]}}")));
        let list = format!("[{next},{id}]").into_bytes();
        assert_eq!(index_of(&list, &(0..list.len()), id.as_bytes(), (0, 0), &mut 0), Ok(Some(1)));
    }

    #[test]
    fn comparisons_count_the_bytes_that_they_read() {
        let zeros = format!("0.{}1", "0".repeat(1000));
        let (escaped, plain) = (format!("\"\\n{}\"", "x".repeat(1000)), format!("\"{}\"", "x".repeat(300)));
        let work = |a: &str, b: &str| {
            let mut comparison = Comparison::default();
            assert!(!comparison.are_equal(a.as_bytes(), b.as_bytes()));
            comparison.work
        };
        for (a, b) in [(&*zeros, "1"), (&*escaped, &*plain)] {
            assert!(work(a, b) >= a.len() + b.len() && work(b, a) >= a.len() + b.len(), "{a} and {b}");
        }
        // The lengths alone tell that these differ.
        assert!(work(&escaped, "\"x\"") < 10 && work("\"x\"", &escaped) < 10);
        // The arrays of a command share their work.
        let mut work = MOST_WORK - 2 * zeros.len();
        let index = |work: &mut usize| index_of(b"[1,1,1]", &(0..7), zeros.as_bytes(), (0, 0), work);
        assert_eq!(index(&mut work), Err(LocateError::TooMuchWork(MOST_WORK)));
        let mut work = MOST_WORK - 4 * zeros.len();
        assert_eq!(index(&mut work), Ok(None));
        assert!(work > MOST_WORK - zeros.len());
    }

    #[test]
    fn what_is_nested_too_deep_is_no_document() {
        let nested = |inside: &str| format!("{}{inside}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(!are_equal(&nested("1"), &nested("2")));
    }

    proptest! {
        #[test]
        fn a_value_equals_itself_in_another_order(value in document(), other in document()) {
            let text = compact(value.to_string().as_bytes()).expect("it is JSON");
            let turned = compact(turned(&value).as_bytes()).expect("it is JSON");
            let mut comparison = Comparison::default();
            prop_assert!(comparison.are_equal(&text, &turned));
            let other_text = compact(other.to_string().as_bytes()).expect("it is JSON");
            prop_assert_eq!(comparison.are_equal(&text, &other_text), value == other);
        }
    }

    /// The text with the members of objects from the last to the first.
    fn turned(value: &Value) -> String {
        match value {
            Value::Array(values) => format!("[{}]", values.iter().map(turned).collect::<Vec<_>>().join(",")),
            Value::Object(members) => {
                let member =
                    |(key, value): (&String, &Value)| format!("{}:{}", Value::from(key.as_str()), turned(value));
                format!("{{{}}}", members.iter().rev().map(member).collect::<Vec<_>>().join(","))
            }
            leaf => leaf.to_string(),
        }
    }
}
