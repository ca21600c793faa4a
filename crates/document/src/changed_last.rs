//! Which of several arrays RedisJSON answers for.
use crate::{
    scan::{Found, Span, key_and_value, parts},
    string::unescaped,
};
use std::borrow::Cow;

/// Of the values that were found, the array that RedisJSON changes last, and answers for where a
/// path in the older syntax finds several: it changes members by their keys, elements from the last
/// to the first, and what is in an array before the array.
pub fn changed_last(text: &[u8], found: &[Found]) -> Option<usize> {
    let start = |index: &usize| found[*index].span.start;
    let mut arrays: Vec<usize> = (0..found.len()).filter(|index| text.get(start(index)) == Some(&b'[')).collect();
    arrays.sort_by_key(start);
    let mut left = &arrays[..];
    // From the whole document into the part that has the last one.
    let mut at = 0;
    while left.len() > 1 && left.first().map(start) != Some(at) {
        let within = |value: &Span| {
            left.partition_point(|index| start(index) < value.start)
                ..left.partition_point(|index| start(index) < value.end)
        };
        let is_object = text[at] == b'{';
        let mut last: Option<(Cow<'_, [u8]>, Span)> = None;
        for part in parts(text, at) {
            let (key, value) = if is_object { key_and_value(text, part)? } else { (0..0, part) };
            let key = unescaped(&text[key]);
            if !within(&value).is_empty() && last.as_ref().is_none_or(|(last, _)| key > *last) {
                last = Some((key, value));
            }
        }
        let (_, value) = last?;
        left = &left[within(&value)];
        at = value.start;
    }
    left.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Path, find};

    fn last(text: &str, path: &str) -> Option<String> {
        let found = find(text.as_bytes(), &Path::parse(path).expect("a path"), usize::MAX).expect("it is small");
        changed_last(text.as_bytes(), &found).map(|last| text[found[last].span.clone()].to_owned())
    }

    #[test]
    fn the_greatest_key_the_first_element_and_the_outermost_come_last() {
        let said = |text: &str, path: &str| last(text, path).expect("there is an array");
        assert_eq!(said(r#"{"a":[1],"n":{"a":[2]},"b":{"a":3}}"#, "..a"), "[2]");
        assert_eq!(said(r#"{"z":{"a":[1]},"y":{"a":[2]},"zz":{"a":3}}"#, "..a"), "[1]");
        assert_eq!(said("[[1],[2,3]]", "[*]"), "[1]");
        assert_eq!(said("[[1],[2,3],[4]]", "[2,1,2]"), "[2,3]");
        assert_eq!(said(r#"{"a":[{"a":[1]}],"b":1}"#, "..a"), r#"[{"a":[1]}]"#);
        assert_eq!(said(r#"{"l":[{"x":[1],"w":[2]},{"y":[3]}]}"#, ".l[*].*"), "[1]");
        assert_eq!(last(r#"{"a":1}"#, "..a"), None);
    }
}
