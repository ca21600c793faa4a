//! Finds the values of a path in a document.
use crate::{
    error::LocateError,
    jsonpath::{PathKind, Step},
    path::{Path, Pointer, array_index},
    query::{Evaluation, follow, is_bounded, max_work},
    scan::{Found, Span, child, element},
};

/// All values that a path finds, in the order of RFC 9535, with duplicates. `max_len`: the longest
/// text for a path with filters, slices, several selectors or several `..`, bytes.
///
/// # Errors
/// The path is such a one, and the text is longer. Or it reads or finds too many values.
pub fn find(text: &[u8], path: &Path, max_len: usize) -> Result<Vec<Found>, LocateError> {
    find_within(text, path, max_len, &mut 0)
}

/// Like `find`, for one of the paths, or one of the documents, of a command. `work`: the bytes that
/// those before it have read, to which this adds its own.
///
/// # Errors
/// As [`find`], or those before it have read too much already.
pub fn find_within(text: &[u8], path: &Path, max_len: usize, work: &mut usize) -> Result<Vec<Found>, LocateError> {
    let most = max_work(text);
    if *work > most {
        return Err(LocateError::TooMuchWork(most));
    }
    match &path.kind {
        PathKind::Steps(steps) => {
            let found = follow(text, steps);
            *work += found.as_ref().map_or(text.len(), |found| found.span.end);
            Ok(found.into_iter().collect())
        }
        PathKind::Segments(segments) => {
            let is_bounded = is_bounded(segments);
            if !is_bounded && text.len() > max_len {
                return Err(LocateError::TooLarge(max_len));
            }
            let mut run = Evaluation::new(text, path.from_root, is_bounded);
            let found = run.select(Found::root(text), segments);
            *work = work.saturating_add(run.work);
            found
        }
    }
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
    use crate::{compact, scan::tests::document};
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

    #[test]
    fn a_path_does_not_read_the_same_values_without_bound() {
        let (text, value) = ("[".repeat(100) + &"]".repeat(100), format!("[{}]", "1,".repeat(4000) + "1"));
        let wide = text.replace("[]", &value);
        let found = |path: &str, text: &str| find(text.as_bytes(), &Path::parse(path).expect("a path"), usize::MAX);
        let many = "$..[?count(@..*) > 1 && count(@..*) > 2 && @..[?@..* && @..*]]";
        assert_eq!(found(many, &wide), Err(LocateError::TooMuchWork(1 << 30)));
        assert_eq!(found("$..[?count(@..*) == 1]", &text).map(|found| found.len()), Ok(1));
        // What is found from the root is found once.
        let root = "$..[?count($..*) > 1 && $..[?@ == 1] && value($..[4000]) == 1]";
        assert_eq!(found(root, &wide).map(|found| found.len()), Ok(99 + 4001));
        // And kept, so that many of them are too much.
        let zeros = format!("[{}0]", "0,".repeat(200_000));
        let roots =
            |count: usize| found(&format!("$[?{}]", vec!["$.*"; count].join("&&")), &zeros).map(|found| found.len());
        assert_eq!((roots(1), roots(10)), (Ok(200_001), Err(LocateError::TooMuchWork(1 << 30))));
        let strings = format!("[{}]", vec![format!("\"{}\"", "ab".repeat(40_000)); 10].join(","));
        assert_eq!(found("$[?@ =~ '^(.{100}){9}b$']", &strings).map(|found| found.len()), Ok(0));
    }

    /// In the text and in the order of the standard, at any depth, with one reading of the text.
    #[test]
    fn one_descent_reads_a_text_once() {
        let deep = format!("{}[1,2]{}", "{\"a\":[0,".repeat(63), "]}".repeat(63));
        for (path, count) in [("$..a", 63), ("$..[1]", 64), ("$..[-1]", 64), ("$..*", 63 * 3 + 2), ("$..b", 0)] {
            let mut work = 0;
            let path = Path::parse(path).expect("a path");
            let found = find_within(deep.as_bytes(), &path, 0, &mut work).expect("few values");
            assert_eq!(found.len(), count, "{path:?}");
            assert!(work < 5 * deep.len(), "{path:?} reads {work} bytes of {}", deep.len());
        }
    }

    #[test]
    fn what_is_found_has_a_bound_in_memory() {
        let list = format!("[{}0]", "0,".repeat(1_000_000));
        let found = |path: &str, text: &str| find(text.as_bytes(), &Path::parse(path).expect("a path"), 0);
        for path in ["$[*]", "$..*"] {
            assert_eq!(found(path, &list), Err(LocateError::TooMany(1_000_000)), "{path}");
            assert_eq!(found(path, &format!("[{}", &list[3..])).map(|found| found.len()), Ok(1_000_000));
        }
    }

    #[test]
    fn the_paths_of_a_command_share_their_work() {
        let text = format!("[{}0]", "0,".repeat(1 << 20));
        let path = Path::parse("$.x").expect("a path");
        let mut work = 0;
        let runs = (0..).take_while(|_| find_within(text.as_bytes(), &path, 0, &mut work).is_ok()).count();
        assert_eq!(runs, (1 << 30) / text.len() + 1);
    }

    /// The steps are counted: each byte of this text takes a new state of hundreds of the pattern's.
    #[test]
    fn no_regular_expression_runs_without_bound() {
        let mut random = 1_u32;
        let text: String = (0..300_000)
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if random >> 31 == 0 { 'a' } else { 'b' }
            })
            .collect();
        let found = |pattern: &str, text: &str| {
            let document = format!("[\"{text}\"]");
            let paths = [format!("$[?@ =~ '{pattern}']"), "$[?search(@, value($[1]))]".to_owned()];
            let documents = [document, format!("[\"{text}\",\"{pattern}\"]")];
            let found = |(path, text): (&String, &String)| {
                find(text.as_bytes(), &Path::parse(path).expect("a path"), usize::MAX).map(|found| found.len())
            };
            paths.iter().zip(&documents).map(found).collect::<Vec<_>>()
        };
        let too_much = Err(LocateError::TooMuchWork(1 << 30));
        for pattern in ["(a|b)*a(a|b){300}c", "(a|b)*a(a|b){3000}c", "(a|b)*\\\\b(a|b){300}cé"] {
            assert_eq!(found(pattern, &(text.clone() + "é")), [too_much.clone(), too_much.clone()], "{pattern}");
        }
        for (pattern, count) in
            [("ab+a", 1), ("(a|b)+$", 1), ("\\\\w+ \\\\w", 0), ("^b*c", 0), ("[^ab]", 0), ("\\\\bx", 0)]
        {
            assert_eq!(found(pattern, &text)[0], Ok(count), "{pattern}");
        }
    }

    #[test]
    fn filters_compare_numbers_by_their_digits() {
        let text = br#"[{"id":1152921504606846975},{"id":1152921504606846976},{"id":1152921504606846977},{"id":1e400},{"id":null},{"id":0.1},{"id":[1.0,{"a":18446744073709551615}]}]"#;
        let found = |filter: &str| {
            let path = Path::parse(&format!("$[?{filter}].id")).expect(filter);
            let found = find(text, &path, usize::MAX).expect("it is small");
            found
                .iter()
                .map(|found| String::from_utf8_lossy(&text[found.span.clone()]).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("@.id == 1152921504606846977"), ["1152921504606846977"]);
        assert_eq!(found("1152921504606846977 == @.id"), ["1152921504606846977"]);
        assert_eq!(found("@.id == 115292150460684697.7e1"), ["1152921504606846977"]);
        assert_eq!(found("@.id > 1152921504606846976"), ["1152921504606846977", "1e400"]);
        assert_eq!(found("@.id < 1152921504606846976"), ["1152921504606846975", "0.1"]);
        assert_eq!(found("@.id >= 1152921504606846977 && @.id < 1e400"), ["1152921504606846977"]);
        assert_eq!(found("@.id <= 0.10000000000000001"), ["0.1"]);
        assert_eq!(found("@.id < 0.1"), [""; 0]);
        assert_eq!(found("@.id == null"), ["null"]);
        assert_eq!(found("@.id == 1E+400"), ["1e400"]);
        assert_eq!(found("@.id == $[6].id"), ["[1.0,{\"a\":18446744073709551615}]"]);
        assert_eq!(found("@.id[1].a == 18446744073709551614"), [""; 0]);
        assert_eq!(
            found("@.id != 1152921504606846977 && @.id > 5"),
            ["1152921504606846975", "1152921504606846976", "1e400"]
        );
    }

    #[test]
    fn patterns_match_in_a_part_or_as_a_whole() {
        let text = br#"["abc","ab","b\nc","\u00e9","x=~y",1,{"a":"abc","b":"^a"}]"#;
        let found = |path: &str| {
            let path = Path::parse(path).expect(path);
            find(text, &path, usize::MAX).expect("it is small").len()
        };
        for (path, count) in [
            ("$[?@ =~ 'b']", 3),
            ("$[?match(@, 'ab')]", 1),
            ("$[?match(@, 'a|ab')]", 1),
            ("$[?match(@, 'b.c')]", 0),
            ("$[?search(@, '[')]", 0),
            ("$[?match(@, 'a)|(ab')]", 0),
            ("$[?match(@, '\\\\p{Ll}')]", 1),
            ("$[?length(@) == 1]", 1),
            ("$[?@ == 'x=~y']", 1),
            ("$[?@.a =~ @.b]", 1),
            ("$[?match(@.a, @.b)]", 0),
            ("$[?match(@.a, @.c)]", 0),
            ("$[?@ =~ 1]", 0),
        ] {
            assert_eq!(found(path), count, "{path}");
        }
    }

    /// Each value costs its text, and each new pattern its own, whether they match or not.
    #[test]
    fn texts_and_patterns_that_match_nothing_are_counted() {
        let counted = |path: &str, text: &str| {
            let mut work = 0;
            find_within(text.as_bytes(), &Path::parse(path).expect(path), usize::MAX, &mut work).map(|_| work)
        };
        let texts = format!("[\"{0}\",\"{0}\"]", "a".repeat(100_000));
        assert!(counted("$[?search(@, '[')]", &texts).is_ok_and(|work| work > 2 * texts.len()));
        let dead = format!("[\"{}\"{}]", "[".repeat(3000), ",0".repeat(2000));
        assert!(counted("$[?search('a', $[0])]", &dead).is_ok_and(|work| work > 2000 * 3000));
        let blanks = |number: usize| format!("\"(?x){number}{}\"", " ".repeat(4000));
        let patterns = |count: usize| format!("[{}]", (0..count).map(blanks).collect::<Vec<_>>().join(","));
        assert!(counted("$[?search('a', @)]", &patterns(100)).is_ok());
        assert_eq!(counted("$[?search('a', @)]", &patterns(300)), Err(LocateError::TooMuchWork(1 << 30)));
    }

    /// What the library finds, by the places that it names.
    fn expected(text: &[u8], path: &str) -> Vec<Found> {
        let value: serde_json::Value = serde_json::from_slice(text).expect("it is JSON");
        let library = JsonPath::parse(path).expect("a path of the standard");
        let places = library.query_located(&value);
        let place = |place: &serde_json_path::LocatedNode<'_>| {
            let pointer = Pointer::parse(&place.location().to_json_pointer()).expect("a pointer");
            find_pointer(text, &pointer).expect("a value")
        };
        places.iter().map(place).collect()
    }

    proptest! {
        #[test]
        fn a_path_finds_what_a_library_finds(
            value in document(),
            path in "(\\.[a-c]|\\[\"[a-c]\"\\]|\\[(-[1-3]|[0-3])\\]|\\.\\*|\\[\\*\\]|\\.\\.[a-c]|\\.\\.\\*|\\.\\.\\[(-[1-2]|[0-2])\\]){0,4}"
        ) {
            let text = compact(value.to_string().as_bytes()).expect("it is JSON");
            let path = format!("${path}");
            let parsed = Path::parse(&path).expect("a path");
            prop_assert_eq!(find(&text, &parsed, usize::MAX).expect("few values"), expected(&text, &path));
        }

        #[test]
        fn any_path_and_any_text_can_be_taken(
            path in proptest::collection::vec(prop::sample::select(vec![
                "$", "@", ".", "..", "[", "]", "(", ")", "?", "*", ",", ":", "'", "\"", "\\", "\\u", "d83d", "0", "-1", "9", "a", "b",
                "&&", "||", "!", "==", "<=", ">", "=~", "length(", "count(", "value(", "match(", "search(", "null", "1e", " ", "é",
            ]), 0..24),
            text in "[\\[\\]{}\",:0-9a-c.e\\\\-]{0,40}",
            value in document(),
        ) {
            let path = path.concat();
            for path in [format!("$[?{path}]"), path] {
                let Ok(path) = Path::parse(&path) else { continue };
                let _ = find(text.as_bytes(), &path, usize::MAX);
                let text = compact(value.to_string().as_bytes()).expect("it is JSON");
                for found in find(&text, &path, usize::MAX).unwrap_or_default() {
                    let value = &text[found.span];
                    prop_assert_eq!(compact(value), Ok(value.to_vec()));
                }
            }
        }

        /// Without an order of truth values and of what is not there: the library's is not the RFC's.
        #[test]
        fn selectors_find_what_a_library_finds(
            value in document(),
            segments in "(\\.\\.)?\\[(0|-1|\\*|'a'|(|[0-3]|-[1-4]):(|[0-3]|-[1-4]):(|[0-3]|-[1-3])|\\?(@|@\\.a|@\\[0\\]|@\\.\\.b|!@\\.\\*)(|[ ]&&[ ]!?@\\[[01]\\]|[ ]\\|\\|[ ]length\\(@\\)[ ](<|<=|==|>)[ ][0-4])|\\?(@|@\\.[ab]|@\\[1\\]|\\$\\[0\\])[ ]((==|!=)[ ](@|@\\.b|@\\[0\\]|null|true)|(==|!=|<|<=|>|>=)[ ]('a,'|17|-1)))(,1|,'b'|,\\*)?\\](\\.a|\\.\\*)?"
        ) {
            let text = compact(value.to_string().as_bytes()).expect("it is JSON");
            let path = format!("${segments}");
            let parsed = Path::parse(&path).expect("a path");
            prop_assert_eq!(find(&text, &parsed, usize::MAX).expect("few values"), expected(&text, &path));
        }
    }
}
