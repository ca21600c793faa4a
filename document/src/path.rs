//! Paths: JSONPath (`$.a[0]`), RedisJSON's older syntax (`.a[0]`), and JSON pointers (`/a/0`, RFC
//! 6901).
//!
//! A path that names one place is a list of steps. So is one with wildcards and at most one `..`: it
//! is followed by scanning. Any other JSONPath (slices, filters, several selectors) goes to a library
//! (RFC 9535), after some notations that RedisJSON allows besides are turned into the standard's.
use crate::shape::Shape;
use serde_json_path::JsonPath;
use std::fmt;

/// Longest path, bytes.
const MAX_PATH: usize = 16 << 10;
/// Deepest nesting of brackets in a path that the library reads: it recurses.
const MAX_NESTED: usize = 32;

/// A step from a container to what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the member of an object with this key.
    Key(String),
    /// To the element of an array with this number; negative: from the end.
    Index(i64),
}

/// From some values to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hop {
    /// To a part of each.
    To(Step),
    /// To all parts of each (`*`).
    All,
    /// To each itself and everything in it (`..`).
    Below,
}

/// A path, read.
#[derive(Debug, Clone)]
pub struct Path {
    is_legacy: bool,
    pub(crate) kind: PathKind,
}

#[derive(Debug, Clone)]
pub(crate) enum PathKind {
    /// One place at most.
    Steps(Vec<Step>),
    /// As many as there are, each found once: at most one of them is [`Hop::Below`].
    Hops(Vec<Hop>),
    /// As many as there are.
    Query(Box<JsonPath>, Shape),
}

/// Why a path cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError(String);

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PathError {}

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
        let is_legacy = !(text == "$" || text.starts_with("$.") || text.starts_with("$["));
        let rest = match text {
            "." => String::new(),
            _ if !is_legacy => text[1..].to_owned(),
            _ if text.starts_with(['.', '[']) => text.to_owned(),
            _ => format!(".{text}"),
        };
        let kind = match hops(&rest) {
            Some(hops) => simplest(hops),
            None => query(&rest)?,
        };
        Ok(Path { is_legacy, kind })
    }

    /// The whole document, in the older syntax.
    pub fn legacy_root() -> Path {
        Path { is_legacy: true, kind: PathKind::Steps(Vec::new()) }
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
            PathKind::Hops(_) | PathKind::Query(..) => None,
        }
    }
}

fn simplest(hops: Vec<Hop>) -> PathKind {
    let step = |hop: &Hop| match hop {
        Hop::To(step) => Some(step.clone()),
        Hop::All | Hop::Below => None,
    };
    hops.iter().map(step).collect::<Option<_>>().map_or_else(|| PathKind::Hops(hops), PathKind::Steps)
}

/// A name after a dot goes on with these.
fn is_name(character: char) -> bool {
    character.is_alphanumeric() || "-_`+#%$^/:".contains(character) || !character.is_ascii()
}

/// The hops of a path; `None`: it takes more than that, or is wrong.
fn hops(mut rest: &str) -> Option<Vec<Hop>> {
    let mut hops = Vec::new();
    while !rest.is_empty() {
        let below = rest.strip_prefix("..").filter(|_| !hops.contains(&Hop::Below));
        if let Some(after) = below {
            hops.push(Hop::Below);
            // What follows is a name, or a bracket without a dot.
            rest = if after.starts_with('[') { after } else { &rest[1..] };
        }
        let inside = rest.strip_prefix('[').or_else(|| rest.strip_prefix(".[").filter(|_| below.is_none()));
        if let Some(inside) = inside {
            let inside = inside.trim_start_matches(' ');
            let (hop, after) = match inside.chars().next()? {
                '*' => (Hop::All, &inside[1..]),
                quote @ ('"' | '\'') => {
                    let (key, after) = quoted(&inside[1..], quote)?;
                    (Hop::To(Step::Key(key)), after)
                }
                _ => {
                    let end = inside.find([']', ' '])?;
                    let digits = inside[..end].strip_prefix('-').unwrap_or(&inside[..end]);
                    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
                    let index = inside[..end].parse().ok().filter(|_| is_number)?;
                    (Hop::To(Step::Index(index)), &inside[end..])
                }
            };
            hops.push(hop);
            rest = after.trim_start_matches(' ').strip_prefix(']')?;
        } else if let Some(after) = rest.strip_prefix(".*") {
            hops.push(Hop::All);
            rest = after;
        } else {
            let name = rest.strip_prefix('.')?;
            let end = name.find(|character| !is_name(character)).unwrap_or(name.len());
            if end == 0 {
                return None;
            }
            hops.push(Hop::To(Step::Key(name[..end].to_owned())));
            rest = &name[end..];
        }
    }
    Some(hops)
}

/// A quoted key up to its closing quote, and what comes after it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find([quote, '\\'])?;
        if text.as_bytes()[at] != b'\\' {
            let key = crate::string::unescaped(&text.as_bytes()[..at]).into_owned();
            return Some((String::from_utf8(key).ok()?, &text[at + 1..]));
        }
        from = at + 1 + text[at + 1..].chars().next()?.len_utf8();
    }
}

/// The library's path.
fn query(rest: &str) -> Result<PathKind, PathError> {
    let mut nested = 0_usize;
    for byte in rest.bytes() {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested = nested.saturating_sub(1),
            _ => {}
        }
        if nested > MAX_NESTED {
            return Err(PathError(format!("brackets are nested deeper than {MAX_NESTED}")));
        }
    }
    let standard = format!("${}", standard(rest));
    // No path ends like this, and the library panics on one: it waits for the rest of the escape.
    if ["\\u", "\\ud", "\\uD"].iter().any(|cut| standard.ends_with(cut)) {
        return Err(PathError("an escape is cut off".to_owned()));
    }
    let path = JsonPath::parse(&standard).map_err(|error| PathError(error.to_string()))?;
    Ok(PathKind::Query(Box::new(path), Shape::of(&standard)))
}

/// Turns what RedisJSON allows beyond the standard into the standard's notation: names like `.a-b`,
/// `.[…]`, and `=~` for a regular expression.
fn standard(rest: &str) -> String {
    let rest = with_searches(rest);
    let mut out = String::with_capacity(rest.len());
    let mut characters = rest.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' | '\'' => {
                out.push(character);
                let mut is_escaped = false;
                for (_, inside) in characters.by_ref() {
                    out.push(inside);
                    if inside == character && !is_escaped {
                        break;
                    }
                    is_escaped = inside == '\\' && !is_escaped;
                }
            }
            '.' if !rest[..at].ends_with(|before: char| before.is_ascii_digit()) || !is_in_filter(&rest[..at]) => {
                let name: String = rest[at + 1..].chars().take_while(|next| is_name(*next)).collect();
                let is_standard =
                    name.chars().all(|part| part == '_' || part.is_ascii_alphabetic() || !part.is_ascii())
                        || name.chars().next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                            && name.chars().all(|part| part == '_' || part.is_ascii_alphanumeric());
                if is_standard {
                    let is_bracket = rest[at + 1..].starts_with('[') && !rest[..at].ends_with('.');
                    if !is_bracket {
                        out.push('.');
                    }
                } else {
                    if rest[..at].ends_with('.') {
                        out.push('.');
                    }
                    out.push_str("[\"");
                    out.push_str(&name);
                    out.push_str("\"]");
                    for _ in name.chars() {
                        characters.next();
                    }
                }
            }
            _ => out.push(character),
        }
    }
    out
}

/// Whether the text ends within a filter, where a digit before a dot may be a number's.
fn is_in_filter(before: &str) -> bool {
    before.rfind('?').is_some_and(|filter| !before[filter..].contains(']'))
}

/// `A =~ B` as `search(A, B)`.
fn with_searches(rest: &str) -> String {
    let mut out = rest.to_owned();
    while let Some(at) = out.find("=~") {
        let left_end = out[..at].trim_end().len();
        let left = out[..left_end].rfind([' ', '(', '&', '|', '!', '?']).map_or(0, |before| before + 1);
        let right = at + 2 + (out[at + 2..].len() - out[at + 2..].trim_start().len());
        let right_end = match out[right..].chars().next() {
            Some(quote @ ('"' | '\'')) => out[right + 1..].find(quote).map_or(out.len(), |close| right + 1 + close + 1),
            _ => out[right..].find([' ', ')', ']', '&', '|']).map_or(out.len(), |end| right + end),
        };
        let search = format!("search({}, {})", &out[left..left_end], &out[right..right_end]);
        out.replace_range(left..right_end, &search);
    }
    out
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
    fn other_paths_are_the_librarys_after_a_translation() {
        for (text, standard_text) in [
            ("..a", "..a"),
            (".*", ".*"),
            ("..a-b[*]", "..[\"a-b\"][*]"),
            (".[*].x", "[*].x"),
            ("[?(@.price < 1.5)]", "[?(@.price < 1.5)]"),
            ("[?(@.a =~ \"x.y\")]", "[?(search(@.a, \"x.y\"))]"),
            ("..[?(@.a=~@.b && @.c)]", "..[?(search(@.a, @.b) && @.c)]"),
            (".v1.*", ".v1.*"),
        ] {
            assert_eq!(standard(text), standard_text);
            assert!(Path::parse(&format!("${text}")).expect(text).steps().is_none());
        }
        for wrong in ["$.", "$.a.", "$[", "$[a]", "$['a", "$.a b", "", "$..", "$[?(@.a =~ )]"] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_escape_that_is_cut_off_is_an_error() {
        // Found by fuzzing: the library panicked.
        for text in [
            "$..[\"\\u",
            "$..['\\ud",
            "$..[\"\\uD83D\\u",
            "$..[\"\\uD83D\\uD",
            "$[?@ == '\\uD",
            "..[\"(?-\\\\`]\\\\&\\u",
        ] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
        assert!(Path::parse("$..[\"\\u0061\", '\\uD83D\\uDE00']").is_ok());
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
