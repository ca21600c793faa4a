//! Paths: JSONPath (`$.a[0]`), RedisJSON's older syntax (`.a[0]`), and JSON pointers (`/a/0`, RFC
//! 6901).
//!
//! A path that names one place is a list of steps. Any other one is a list of segments.
use crate::{
    error::PathError,
    jsonpath::{PathKind, Step},
    path_parser,
};

/// Longest path, bytes.
const MAX_PATH: usize = 16 << 10;

/// A path, read.
#[derive(Debug, Clone)]
pub struct Path {
    is_legacy: bool,
    pub(crate) kind: PathKind,
    /// Queries from the root within its filters.
    pub(crate) from_root: usize,
}

impl Path {
    /// Reads a path in either syntax.
    ///
    /// # Errors
    /// It is in neither.
    pub fn parse(text: &str) -> Result<Path, PathError> {
        if text.len() > MAX_PATH {
            return Err(PathError(format!("the path is longer than {MAX_PATH} bytes")));
        }
        // `$name` is the key of that name in the older syntax.
        let after_root = text.strip_prefix('$').filter(|rest| {
            let rest = rest.trim_start_matches([' ', '\t', '\n', '\r']);
            rest.is_empty() || rest.starts_with(['.', '['])
        });
        let is_legacy = after_root.is_none();
        let (kind, from_root) = match text {
            "." => (PathKind::Steps(Vec::new()), 0),
            _ => path_parser::parse(text, usize::from(!is_legacy))?,
        };
        Ok(Path { is_legacy, kind, from_root })
    }

    /// The whole document, in the older syntax.
    pub fn legacy_root() -> Path {
        Path { is_legacy: true, kind: PathKind::Steps(Vec::new()), from_root: 0 }
    }

    /// Whether it is in RedisJSON's older syntax: replies are then about one value.
    pub fn is_legacy(&self) -> bool {
        self.is_legacy
    }

    /// Whether it is the whole document.
    pub fn is_root(&self) -> bool {
        self.steps().is_some_and(<[Step]>::is_empty)
    }

    /// The steps of a path that names one place.
    pub fn steps(&self) -> Option<&[Step]> {
        match &self.kind {
            PathKind::Steps(steps) => Some(steps),
            PathKind::Segments(_) => None,
        }
    }
}

/// A JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer(pub(crate) Vec<String>);

impl Pointer {
    /// Reads a pointer: empty, or `/` before each token, with `~1` for `/` and `~0` for `~`.
    ///
    /// # Errors
    /// It does not begin with `/`, or has another `~`.
    pub fn parse(text: &str) -> Result<Pointer, PathError> {
        if text.is_empty() {
            return Ok(Pointer(Vec::new()));
        }
        let wrong = |what: &str| PathError(format!("`{text}` is not a JSON pointer: {what}"));
        let tokens = text.strip_prefix('/').ok_or_else(|| wrong("it does not begin with `/`"))?;
        let token = |token: &str| {
            let plain = token.replace("~1", "").replace("~0", "");
            if plain.contains('~') {
                return Err(wrong("`~` is followed by neither 0 nor 1"));
            }
            Ok(token.replace("~1", "/").replace("~0", "~"))
        };
        Ok(Pointer(tokens.split('/').map(token).collect::<Result<_, _>>()?))
    }

    /// Whether this is the whole document.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

/// The number in a pointer's token; `None`: it is none.
pub(crate) fn array_index(token: &str) -> Option<usize> {
    let is_number = token == "0" || !token.starts_with('0') && token.bytes().all(|digit| digit.is_ascii_digit());
    token.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Step {
        Step::Key(name.into())
    }

    #[test]
    fn paths_to_one_place_are_lists_of_steps() {
        for (text, is_legacy, steps) in [
            ("$", false, vec![]),
            (".", true, vec![]),
            ("$.a.b-c[0][-1]", false, vec![key("a"), key("b-c"), Step::Index(0), Step::Index(-1)]),
            (".a.b", true, vec![key("a"), key("b")]),
            ("a.b", true, vec![key("a"), key("b")]),
            ("$a", true, vec![key("$a")]),
            ("[\"x y\"]['it\\'s']", true, vec![key("x y"), key("it's")]),
            ("$[\"a\\\"b\"].[\"c\"]", false, vec![key("a\"b"), key("c")]),
            ("$.größe", false, vec![key("größe")]),
        ] {
            let path = Path::parse(text).expect(text);
            assert_eq!((path.is_legacy(), path.steps()), (is_legacy, Some(&*steps)), "{text}");
        }
    }

    #[test]
    fn notations_of_redisjson_are_read() {
        for (text, standard) in [
            ("$..a-b[*]", "$..['a-b'][*]"),
            ("$.[*].x", "$[*].x"),
            ("$.v1.*", "$['v1'].*"),
            ("$.1.*", "$['1'].*"),
            ("$[?(@.a =~ \"x.y\")]", "$[?search(@['a'], 'x.y')]"),
            ("$..[?(@.a=~@.b && @.c)]", "$..[?search(@.a, @.b) && @.c]"),
            ("$[?'=~' == @.a =~ 'b']", ""),
            ("$[?@.a == ' =~ ']", "$[?@.a == \" =~ \"]"),
            ("$\n ..a", "$..a"),
        ] {
            let read = |text: &str| Path::parse(text).map(|path| format!("{path:?}"));
            if standard.is_empty() {
                assert!(read(text).is_err(), "{text}");
            } else {
                assert_eq!(read(text).expect(text), read(standard).expect(standard), "{text}");
            }
        }
        assert!(Path::parse("..a[1,2]").is_ok_and(|path| path.is_legacy()));
    }

    #[test]
    fn other_texts_are_no_paths() {
        for wrong in [
            "$.",
            "$.a.",
            "$[",
            "$[a]",
            "$['a",
            "$.a b",
            "",
            "$..",
            "$[?(@.a =~ )]",
            "$ ",
            " $",
            "$.a ",
            "$. a",
            "$[01]",
            "$[-0]",
            "$[-01]",
            "$[1-]",
            "$[9007199254740992]",
            "$[-9007199254740992]",
            "$[0:9007199254740992]",
            "$[1:2:03]",
            "$['\\\"']",
            "$[\"\\'\"]",
            "$['\\x']",
            "$['\t']",
            "$[\"\0\"]",
            "$['\\ud800']",
            "$['\\udc00']",
            "$['\\ud800\\u0061']",
            "$[?@.a == 01]",
            "$[?@.a == 1.]",
            "$[?@.a == .1]",
            "$[?@.a == +1]",
            "$[?@.a == True]",
            "$[?1]",
            "$[?@.a == @.*]",
            "$[?@..a == 1]",
            "$[?length(@.a)]",
            "$[?count(1) == 1]",
            "$[?length(@.*) == 1]",
            "$[?match(@.a, 'b') == true]",
            "$[?nope(@.a)]",
            "$[?(@.a) == 1]",
            "$[?!@.a == 1]",
            "$[?!!@.a]",
            "$[?@.a &&]",
            "$[?@.a = 1]",
            "$[?@.a == 1 == 2]",
            "$[?length (@.a) == 1]",
            "$[]",
            "$[,1]",
            "$[1,]",
            "$..['a'",
            "$[?@.a == 'b]",
        ] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
        for cut in ["$..[\"\\u", "$..['\\ud", "$..[\"\\uD83D\\u", "$..[\"\\uD83D\\uD", "$[?@ == '\\uD"] {
            assert!(Path::parse(cut).is_err(), "{cut}");
        }
        assert!(Path::parse("$..[\"\\u0061\", '\\uD83D\\uDE00']").is_ok());
    }

    #[test]
    fn the_size_of_a_path_is_bounded() {
        let read = |text: String| Path::parse(&text).map(|_| ()).map_err(|error| error.to_string());
        assert!(read(format!("$.{}", "a".repeat(16 << 10))).is_err());
        let nested = |times: usize| read(format!("$[?{}@.a{}]", "(".repeat(times), ")".repeat(times)));
        assert_eq!((nested(31), nested(32)), (Ok(()), Err("brackets are nested deeper than 32".into())));
        assert!(read(format!("${}", "[?@".repeat(5_000))).is_err());
        // Brackets in strings are not nested.
        assert_eq!(read(format!("$['{}', 1]", "[(".repeat(1_000))), Ok(()));
        let patterns = |times: usize| read(format!("$[?{}@.a]", "@.a =~ 'b' || ".repeat(times)));
        assert!(patterns(32).is_ok() && patterns(33).is_err());
        // All together have few large classes.
        let classes = |times: usize| read(format!("$[?{}@.a]", "@.a =~ '(?i)\\\\pL' || ".repeat(times)));
        assert!(classes(15).is_ok() && classes(16).is_err_and(|error| error.contains("too large")));
        assert!(read("$[?@.a =~ '((a{99}){99}){99}']".into()).is_err_and(|error| error.contains("too large")));
    }

    #[test]
    fn pointers_are_read() {
        let tokens = |text: &str| Pointer::parse(text).map(|pointer| pointer.0).ok();
        assert_eq!(tokens(""), Some(vec![]));
        assert_eq!(tokens("/"), Some(vec![String::new()]));
        assert_eq!(tokens("/a~1b/~01/0"), Some(vec!["a/b".into(), "~1".into(), "0".into()]));
        assert_eq!((tokens("a"), tokens("/~2"), tokens("/~")), (None, None, None));
        assert_eq!(
            (array_index("0"), array_index("01"), array_index("-"), array_index("")),
            (Some(0), None, None, None)
        );
    }
}
