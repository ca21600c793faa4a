//! Finds the values of a path in a document.
use crate::{
    compact::MAX_DEPTH,
    path::{Hop, Path, PathKind, Pointer, Step, array_index},
    scan::{Span, count, element, key_and_value, member, parts},
    string::push_key,
    tree,
};
use std::fmt;

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

/// Why no value was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocateError {
    /// The path takes a tree, and the document is larger than this many bytes.
    TooLarge(usize),
    /// The path may come to more values than this: it finds values again and again.
    TooMany(u64),
}

impl fmt::Display for LocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocateError::TooLarge(most) => {
                write!(
                    f,
                    "a path with filters, slices, several selectors or several `..` is for documents of up to {most} bytes"
                )
            }
            LocateError::TooMany(most) => {
                write!(f, "the path may come to more than {most} values of this document, the same ones repeatedly")
            }
        }
    }
}

impl std::error::Error for LocateError {}

/// All values that a path finds, in the order of RFC 9535, with duplicates. `max_tree`: the largest
/// text for which a tree is built, bytes.
///
/// # Errors
/// The path needs a tree, and the text is larger. Or it may find values too often.
pub fn find(text: &[u8], path: &Path, max_tree: usize) -> Result<Vec<Found>, LocateError> {
    match &path.kind {
        PathKind::Steps(steps) => Ok(follow(text, steps).into_iter().collect()),
        PathKind::Hops(hops) => Ok(hops.iter().fold(vec![Found::root(text)], |from, hop| follow_all(text, from, hop))),
        PathKind::Query(..) if text.len() > max_tree => Err(LocateError::TooLarge(max_tree)),
        PathKind::Query(query, shape) => tree::query(text, query, *shape),
    }
}

/// The value at the end of the steps.
pub(crate) fn follow(text: &[u8], steps: &[Step]) -> Option<Found> {
    steps.iter().try_fold(Found::root(text), |from, step| part(text, &from, step))
}

/// The part of a value to which a step goes.
fn part(text: &[u8], from: &Found, step: &Step) -> Option<Found> {
    let at = from.span.start;
    let span = match (step, text.get(at)?) {
        (Step::Key(key), b'{') => child(text, at, key),
        (Step::Index(index), b'[') => {
            let index = match index {
                0.. => usize::try_from(*index).ok()?,
                _ => usize::try_from(i64::try_from(count(text, at)).ok()? + index).ok()?,
            };
            element(text, at, index)
        }
        _ => None,
    };
    Some(Found { span: span?, depth: from.depth + 1 })
}

/// The values to which a hop goes from each of these, in the order of RFC 9535.
fn follow_all(text: &[u8], from: Vec<Found>, hop: &Hop) -> Vec<Found> {
    match hop {
        Hop::To(step) => from.iter().filter_map(|from| part(text, from, step)).collect(),
        Hop::All => from.iter().flat_map(|from| children(text, from)).collect(),
        Hop::Below => {
            // Those that come next are last.
            let mut waiting = from;
            waiting.reverse();
            let mut found = Vec::new();
            while let Some(next) = waiting.pop() {
                if next.depth < MAX_DEPTH {
                    let already = waiting.len();
                    waiting.extend(children(text, &next));
                    waiting[already..].reverse();
                }
                found.push(next);
            }
            found
        }
    }
}

/// The elements of an array, or the values of an object's members.
fn children(text: &[u8], of: &Found) -> impl Iterator<Item = Found> {
    let at = of.span.start;
    let (parts, is_object) = match text.get(at) {
        Some(b'[') => (parts(text, at), false),
        Some(b'{') => (parts(text, at), true),
        _ => (Vec::new(), false),
    };
    let depth = of.depth + 1;
    parts.into_iter().filter_map(move |part| {
        let span = if is_object { key_and_value(text, part)?.1 } else { part };
        Some(Found { span, depth })
    })
}

/// The value of the member with this key of the object at `at`.
pub(crate) fn child(text: &[u8], at: usize, key: &str) -> Option<Span> {
    let mut needle = Vec::with_capacity(key.len() + 3);
    push_key(&mut needle, key.as_bytes());
    needle.push(b':');
    member(text, at, &needle)
}

/// Where a value that is not there yet would go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place<'p> {
    /// Into this object, with this key.
    Member(Found, &'p str),
    /// Nowhere: there is no such element of this array.
    NoElement,
    /// Nowhere.
    None,
}

/// Where the value of a path would go that finds nothing.
pub fn place_for<'p>(text: &[u8], path: &'p Path) -> Place<'p> {
    match path.steps().and_then(<[Step]>::split_last) {
        Some((Step::Key(key), before)) => match follow(text, before) {
            Some(parent) if text[parent.span.start] == b'{' => Place::Member(parent, key),
            _ => Place::None,
        },
        Some((Step::Index(_), _)) => Place::NoElement,
        None => Place::None,
    }
}

/// The value of the member `name`, if the document is an object that has it.
pub fn find_member(text: &[u8], name: &str) -> Option<Span> {
    if text.first() == Some(&b'{') { child(text, 0, name) } else { None }
}

/// The element `index`, from 0, if the document is an array that has it.
pub fn find_element(text: &[u8], index: usize) -> Option<Span> {
    if text.first() == Some(&b'[') { element(text, 0, index) } else { None }
}

/// The value that a pointer names.
pub fn find_pointer(text: &[u8], pointer: &Pointer) -> Option<Found> {
    pointer.0.iter().try_fold(Found::root(text), |from, token| {
        let at = from.span.start;
        let span = match text.get(at)? {
            b'{' => child(text, at, token),
            b'[' => element(text, at, array_index(token)?),
            _ => None,
        };
        Some(Found { span: span?, depth: from.depth + 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{compact, scan::tests::document, shape::Shape};
    use proptest::prelude::*;
    use serde_json_path::JsonPath;

    const TEXT: &[u8] = br#"{"a":[1,{"b":"x"},[]],"b":{"b":2.50},"c d":null,"":7}"#;

    fn found(path: &str) -> Vec<&'static str> {
        let path = Path::parse(path).expect("a path");
        let found = find(TEXT, &path, usize::MAX).expect("it is small");
        found.iter().map(|found| std::str::from_utf8(&TEXT[found.span.clone()]).expect("text")).collect()
    }

    #[test]
    fn paths_find_values_in_the_order_of_the_standard() {
        assert_eq!(found("$.a[1].b"), ["\"x\""]);
        assert_eq!(found("$.a[-1]"), ["[]"]);
        assert_eq!(found("$['c d']"), ["null"]);
        assert_eq!(found("$[\"\"]"), ["7"]);
        assert_eq!(found("$..b"), ["{\"b\":2.50}", "\"x\"", "2.50"]);
        assert_eq!(found("$.*"), ["[1,{\"b\":\"x\"},[]]", "{\"b\":2.50}", "null", "7"]);
        assert_eq!(found("$..*")[3..], ["7", "1", "{\"b\":\"x\"}", "[]", "\"x\"", "2.50"]);
        assert_eq!(found("$.a[2,0]"), ["[]", "1"]);
        assert_eq!(found("$.a[0:2]"), ["1", "{\"b\":\"x\"}"]);
        assert_eq!(found("$.*[?@.b == 'x']"), ["{\"b\":\"x\"}"]);
        assert_eq!(found("$.a[0,0]"), ["1", "1"]);
        for nothing in ["$.x", "$.a.b", "$.a[3]", "$.a[-4]", "$.b[0]", "$.a[0].x", "$..zz"] {
            assert_eq!(found(nothing), [""; 0], "{nothing}");
        }
    }

    #[test]
    fn pointers_name_one_value() {
        let at = |pointer: &str| {
            let found = find_pointer(TEXT, &Pointer::parse(pointer).expect("a pointer"))?;
            Some((std::str::from_utf8(&TEXT[found.span]).expect("text"), found.depth))
        };
        assert_eq!(at("/a/1/b"), Some(("\"x\"", 3)));
        assert_eq!(at("/"), Some(("7", 1)));
        assert_eq!(at("").map(|(text, depth)| (text.len(), depth)), Some((TEXT.len(), 0)));
        assert_eq!((at("/a/01"), at("/a/-"), at("/b/x"), at("/a/-1")), (None, None, None, None));
    }

    #[test]
    fn a_path_does_not_come_to_the_same_values_without_bound() {
        let text = "[".repeat(40) + &"]".repeat(40);
        let found = |path: String| find(text.as_bytes(), &Path::parse(&path).expect("a path"), usize::MAX);
        for path in [
            "[0,0]".repeat(20),
            "[0,0]".repeat(39),
            "..*".repeat(9),
            "..*".repeat(39),
            format!("[?@{}]", "[*,*]".repeat(30)),
        ] {
            assert_eq!(found(format!("${path}")), Err(LocateError::TooMany(1_000_000)), "{path}");
        }
        assert_eq!(found(format!("${}", "[0,0]".repeat(10))).map(|found| found.len()), Ok(1024));
        assert_eq!(found("$..*..*".into()).map(|found| found.len()), Ok(39 * 38 / 2));
    }

    #[test]
    fn a_tree_is_not_built_of_a_text_that_is_too_large() {
        let path = Path::parse("$..b[0,1]").expect("a path");
        assert_eq!(find(TEXT, &path, TEXT.len() - 1), Err(LocateError::TooLarge(TEXT.len() - 1)));
    }

    proptest! {
        /// Of a text that is small enough, the library finds the same by its tree.
        #[test]
        fn a_scan_finds_what_the_library_finds(
            value in document(),
            path in "(\\.[a-c]|\\[\"[a-c]\"\\]|\\[(-[1-3]|[0-3])\\]|\\.\\*|\\[\\*\\]){0,3}((\\.\\.[a-c]|\\.\\.\\*|\\.\\.\\[(-[1-2]|[0-2])\\]|\\.\\.\\[\\*\\])(\\.[a-c]|\\.\\*|\\[[0-2]\\]){0,2})?"
        ) {
            let text = compact(value.to_string().as_bytes()).expect("it is JSON");
            let path = format!("${path}");
            let parsed = Path::parse(&path).expect("a path");
            prop_assert!(!matches!(parsed.kind, PathKind::Query(..)), "{}", path);
            let library = JsonPath::parse(&path).expect("a path of the standard");
            let expected = tree::query(&text, &library, Shape::of(&path)).expect("few values");
            prop_assert_eq!(find(&text, &parsed, 0).expect("no tree"), expected);
        }
    }
}
