//! Entity tags (RFC 9110 section 8.8.3): the version of an entry, in hexadecimal between quotes.
use super::text::Sink;

/// Writes the (strong) tag of a version.
pub fn write(out: &mut impl Sink, version: u64) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'"'; 18];
    for (i, digit) in text[1..17].iter_mut().enumerate() {
        *digit = DIGITS[(version >> (60 - 4 * i)) as usize & 15];
    }
    out.put(&text);
}

/// A parsed `If-Match` or `If-None-Match`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any current representation.
    Any,
    /// One of these. Tags that no version of ours has are left out, so the list may be empty.
    List(Vec<Tag>),
}

/// A tag of ours, as a client sent it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// The version.
    pub version: u64,
    /// `W/"…"`
    pub weak: bool,
}

impl Tags {
    /// Parses the values of all the header lines of one name; `None` if they are not a list of
    /// tags. A tag may lack its quotes: some clients strip them.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Tags> {
        let mut list = Vec::new();
        let mut any = false;
        for line in lines {
            if line.trim_ascii() == b"*" {
                any = true;
                continue;
            }
            for element in elements(line) {
                let (weak, opaque) = parts(element);
                if !is_tag(element) || opaque.is_empty() && !element.ends_with(b"\"") || element == b"*" {
                    return None;
                }
                if let Some(version) = version(opaque) {
                    list.push(Tag { version, weak });
                }
            }
        }
        Some(if any { Tags::Any } else { Tags::List(list) })
    }

    /// Weak comparison, for `If-None-Match`: is `version` (`None`: no entry) among them?
    pub fn match_weakly(&self, version: Option<u64>) -> bool {
        self.matches(version, |_| true)
    }

    /// Strong comparison, for `If-Match`: weak tags never match.
    pub fn match_strongly(&self, version: Option<u64>) -> bool {
        self.matches(version, |tag| !tag.weak)
    }

    fn matches(&self, version: Option<u64>, counts: impl Fn(&Tag) -> bool) -> bool {
        match (self, version) {
            (_, None) => false,
            (Tags::Any, Some(_)) => true,
            (Tags::List(tags), Some(version)) => tags.iter().any(|tag| tag.version == version && counts(tag)),
        }
    }
}

/// Whether a list that [`Tags::parse`] takes has this tag, which is not one of ours: as it was
/// sent, whether the two have quotes or not.
pub fn is_listed<'a>(mut lines: impl Iterator<Item = &'a [u8]>, tag: &[u8], weakly: bool) -> bool {
    let (is_weak, wanted) = parts(tag);
    lines.any(|line| {
        line.trim_ascii() == b"*"
            || elements(line).any(|element| {
                let (weak, opaque) = parts(element);
                opaque == wanted && (weakly || !weak && !is_weak)
            })
    })
}

/// The elements of a list that are not empty (RFC 9110 section 5.6.1.2). A comma within quotes does
/// not end one.
fn elements(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut quoted = false;
    line.split(move |&byte| {
        quoted ^= byte == b'"';
        byte == b',' && !quoted
    })
    .map(<[u8]>::trim_ascii)
    .filter(|element| !element.is_empty())
}

/// Whether a tag is weak, and what it says without quotes.
fn parts(tag: &[u8]) -> (bool, &[u8]) {
    let (weak, opaque) = match tag {
        [b'W' | b'w', b'/', opaque @ ..] => (true, opaque),
        opaque => (false, opaque),
    };
    match opaque {
        [b'"', inside @ .., b'"'] => (weak, inside),
        bare => (weak, bare),
    }
}

/// Whether the quotes of an element are closed, and it is one word.
fn is_tag(element: &[u8]) -> bool {
    let mut quoted = false;
    let one_word = element.iter().all(|&byte| {
        quoted ^= byte == b'"';
        quoted || !byte.is_ascii_whitespace()
    });
    one_word && !quoted
}

/// Exactly what [`write()`] writes between the quotes.
fn version(digits: &[u8]) -> Option<u64> {
    if digits.len() != 16 {
        return None;
    }
    digits.iter().try_fold(0, |version, &digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(version << 4 | u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(version: u64) -> String {
        let mut out = Vec::new();
        write(&mut out, version);
        String::from_utf8(out).expect("tags are ASCII")
    }

    fn parse(lines: &[&str]) -> Option<Tags> {
        Tags::parse(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn tags_of_others_are_compared_byte_for_byte() {
        let listed = |lines: &[&str], tag: &str, weakly| {
            is_listed(lines.iter().map(|line| line.as_bytes()), tag.as_bytes(), weakly)
        };
        for (lines, tag, weak, strong) in [
            (&["\"a\""][..], "\"a\"", true, true),
            (&["\"b\", W/\"a\""], "\"a\"", true, false),
            (&["\"b\"", "\"a,b\",\"a\""], "W/\"a\"", true, false),
            (&["\"a,b\""], "\"b\"", false, false),
            (&["*"], "\"b\"", true, true),
            (&["\"A\""], "\"a\"", false, false),
            (&["\"a"], "\"a\"", false, false),
            (&["a"], "\"a\"", true, true),
            (&["\"a\""], "a", true, true),
            (&["b, a"], "a", true, true),
            (&["W/a"], "\"a\"", true, false),
            (&["w/\"a\""], "w/\"a\"", true, false),
            (&["W\"a\""], "W\"a\"", true, true),
            (&["\"\""], "\"\"", true, true),
            (&["a\\"], "\"a\\\"", true, true),
            (&[], "\"a\"", false, false),
        ] {
            assert_eq!((listed(lines, tag, true), listed(lines, tag, false)), (weak, strong), "{lines:?} {tag}");
        }
    }

    #[test]
    fn lists_weak_strong_and_foreign_tags() {
        let tags = parse(&[&format!(" {},, W/{} ,\"other\"", text(7), text(0xabc)), &text(9)]);
        let expected = [(7, false), (0xabc, true), (9, false)];
        let expected = expected.map(|(version, weak)| Tag { version, weak });
        assert_eq!(tags, Some(Tags::List(expected.to_vec())));
        let tags = tags.expect("just compared");
        assert!(tags.match_weakly(Some(0xabc)) && !tags.match_strongly(Some(0xabc)));
        assert!(tags.match_strongly(Some(9)) && !tags.match_weakly(Some(8)) && !tags.match_weakly(None));
    }

    #[test]
    fn star() {
        let tags = parse(&[" * "]).expect("a star is fine");
        assert!(tags.match_strongly(Some(1)) && !tags.match_strongly(None));
    }

    #[test]
    fn malformed_lists() {
        for bad in ["\"open", "x\"", "\"a\" \"b\"", "a b", "*, \"a\"", "W/"] {
            assert_eq!(parse(&[bad]), None, "{bad}");
        }
        assert_eq!(parse(&[""]), Some(Tags::List(Vec::new())));
    }

    proptest! {
        #[test]
        fn a_tag_comes_back_as_its_version(version: u64, weak: bool) {
            let line = format!("{}{}", if weak { "W/" } else { "" }, text(version));
            let expected = Some(Tags::List(vec![Tag { version, weak }]));
            prop_assert_eq!(parse(&[&line.replace('"', "")]), expected.clone(), "without quotes");
            prop_assert_eq!(parse(&[&line]), expected);
        }

        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Tags::parse([&line[..]].into_iter());
        }
    }
}
