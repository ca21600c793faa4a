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
    /// tags.
    pub fn parse<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Tags> {
        let mut list = Vec::new();
        let mut any = false;
        for line in lines {
            let mut rest = line.trim_ascii();
            if rest == b"*" {
                any = true;
                continue;
            }
            while !rest.is_empty() {
                // Empty elements are ignored (RFC 9110 section 5.6.1.2).
                if let Some(more) = rest.strip_prefix(b",") {
                    rest = more.trim_ascii_start();
                    continue;
                }
                let (weak, quoted) = match rest.strip_prefix(b"W/") {
                    Some(quoted) => (true, quoted),
                    None => (false, rest),
                };
                let inside = quoted.strip_prefix(b"\"")?;
                let end = inside.iter().position(|&b| b == b'"')?;
                if let Some(version) = version(&inside[..end]) {
                    list.push(Tag { version, weak });
                }
                rest = inside[end + 1..].trim_ascii_start();
                if !rest.is_empty() && !rest.starts_with(b",") {
                    return None;
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
/// sent, with its quotes and perhaps `W/`.
pub fn is_listed<'a>(mut lines: impl Iterator<Item = &'a [u8]>, tag: &[u8], weakly: bool) -> bool {
    let (is_weak, wanted) = match tag.strip_prefix(b"W/") {
        Some(opaque) => (true, opaque),
        None => (false, tag),
    };
    lines.any(|line| {
        let mut rest = line.trim_ascii();
        if rest == b"*" {
            return true;
        }
        while let Some(start) = rest.iter().position(|&byte| byte == b'"') {
            let weak = rest[..start].ends_with(b"W/");
            let Some(length) = rest[start + 1..].iter().position(|&byte| byte == b'"') else { break };
            let end = start + 1 + length + 1;
            if &rest[start..end] == wanted && (weakly || !weak && !is_weak) {
                return true;
            }
            rest = &rest[end..];
        }
        false
    })
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
        for bad in ["x", "\"open", "\"a\" \"b\"", "w/\"a\"", "*, \"a\"", "W/"] {
            assert_eq!(parse(&[bad]), None, "{bad}");
        }
        assert_eq!(parse(&[""]), Some(Tags::List(Vec::new())));
    }

    proptest! {
        #[test]
        fn a_tag_comes_back_as_its_version(version: u64, weak: bool) {
            let line = format!("{}{}", if weak { "W/" } else { "" }, text(version));
            prop_assert_eq!(parse(&[&line]), Some(Tags::List(vec![Tag { version, weak }])));
        }

        #[test]
        fn never_panics(line in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Tags::parse([&line[..]].into_iter());
        }
    }
}
