//! Masks of keys, with the syntax of Go's gobwas/glob, which is GCache's and not that of Redis
//! globs ([`glob`](crate::glob)).
//!
//! ```text
//! *  **       any characters                [abc]  [!abc]   one of these characters, or none of them
//! ?           one character                 [a-c]  [!a-c]   one range only
//! {a*,b}      alternatives, also nested     \x              x itself
//! ```
//!
//! The mask becomes a regular expression of the `regex` crate, whose time grows with the length of
//! a key and not with the mask's stars.
use regex::{Regex, RegexBuilder};

/// Bytes of the compiled form; a mask of some thousand characters fits.
const MAX_COMPILED: usize = 1 << 20;

/// A mask that was read.
#[derive(Debug)]
pub struct KeyMask(Regex);

/// Not a mask, or one that is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadMask;

impl KeyMask {
    /// Reads a mask.
    ///
    /// # Errors
    /// It is none, or its compiled form takes more than 1 MiB.
    pub fn parse(mask: &str) -> Result<KeyMask, BadMask> {
        let expression = to_regex(mask)?;
        let built = RegexBuilder::new(&expression).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build();
        built.map(KeyMask).map_err(|_| BadMask)
    }

    /// Whether the whole key is as the mask says.
    pub fn matches(&self, key: &str) -> bool {
        self.0.is_match(key)
    }
}

fn to_regex(mask: &str) -> Result<String, BadMask> {
    // Go's decoder cannot tell this character from a wrong byte.
    if mask.contains(char::REPLACEMENT_CHARACTER) {
        return Err(BadMask);
    }
    let mut regex = String::from(r"(?s)\A(?:");
    let mut depth = 0;
    let mut rest = mask.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => class(&mut rest, &mut regex)?,
            '{' => {
                depth += 1;
                regex.push_str("(?:");
            }
            ',' if depth > 0 => regex.push('|'),
            '}' if depth > 0 => {
                depth -= 1;
                regex.push(')');
            }
            '\\' => literal(&mut regex, rest.next().ok_or(BadMask)?),
            c => literal(&mut regex, c),
        }
    }
    if depth > 0 {
        return Err(BadMask);
    }
    regex.push_str(r")\z");
    Ok(regex)
}

/// A class, after its `[`: `!` or not, then one range or some characters.
fn class(rest: &mut std::str::Chars<'_>, regex: &mut String) -> Result<(), BadMask> {
    regex.push('[');
    let mut first = rest.next().ok_or(BadMask)?;
    if first == '!' {
        regex.push('^');
        first = rest.next().ok_or(BadMask)?;
    }
    let mut after = rest.clone();
    if after.next() == Some('-') {
        // Neither end can be escaped.
        let last = after.next().ok_or(BadMask)?;
        if last < first || after.next() != Some(']') {
            return Err(BadMask);
        }
        member(regex, first);
        regex.push('-');
        member(regex, last);
        *rest = after;
    } else {
        let (mut c, mut is_empty) = (first, true);
        while c != ']' {
            if c == '\\' {
                c = rest.next().ok_or(BadMask)?;
            }
            member(regex, c);
            is_empty = false;
            c = rest.next().ok_or(BadMask)?;
        }
        if is_empty {
            return Err(BadMask);
        }
    }
    regex.push(']');
    Ok(())
}

fn literal(regex: &mut String, c: char) {
    regex.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

/// Within a class every sign of ASCII may be escaped, and some must be.
fn member(regex: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Masks, keys that match, keys that do not: all compared with gobwas/glob 1.1.
    #[test]
    fn masks_are_those_of_gobwas_glob() {
        for (mask, yes, no) in [
            ("*", &["", "a", "a/b", "é\n"][..], &[][..]),
            ("k?", &["k1", "ké"], &["k", "k12"]),
            ("k[13]", &["k1", "k3"], &["k2", "k", "k13"]),
            ("k[1-3]", &["k1", "k2", "k3"], &["k4"]),
            ("k[!1-3]", &["k4", "ka"], &["k1", "k"]),
            ("k[!ab]", &["kc"], &["ka"]),
            ("[ab-]", &["a", "b", "-"], &["c"]),
            ("[\\]a]", &["]", "a"], &["\\"]),
            ("[a^&&b]", &["a", "^", "&", "b"], &["c"]),
            ("{d,l}", &["d", "l"], &["dl", ""]),
            ("{a*,b?}c", &["ac", "axyc", "bxc"], &["bc", "b"]),
            ("{a,{b,c}d}", &["a", "bd", "cd"], &["d"]),
            ("{a,}", &["a", ""], &[","]),
            ("a}b,c]", &["a}b,c]"], &["ab"]),
            ("a\\*b\\é", &["a*bé"], &["axbé"]),
            ("user:**:1", &["user:a:b:1", "user::1"], &["user:1"]),
            ("a.c+(d)|$^", &["a.c+(d)|$^"], &["abc"]),
        ] {
            let read = KeyMask::parse(mask).expect(mask);
            yes.iter().for_each(|key| assert!(read.matches(key), "{mask} {key}"));
            no.iter().for_each(|key| assert!(!read.matches(key), "{mask} {key}"));
        }
        for bad in
            ["[", "[]", "[!]", "[a", "[a-", "[a-]", "[c-a]", "[a-cx]", "a[", "{[}", "{a,b", "{a{b}", "a\\", "\u{fffd}"]
        {
            assert_eq!(KeyMask::parse(bad).err(), Some(BadMask), "{bad}");
        }
        assert!(KeyMask::parse(&"?".repeat(1 << 20)).is_err());
        assert!(KeyMask::parse(&"{".repeat(10_000)).is_err());
    }

    /// The same by trying every way: the masks are short.
    fn slow(mask: &[char], key: &[char]) -> bool {
        match mask {
            [] => key.is_empty(),
            ['*', rest @ ..] => (0..=key.len()).any(|taken| slow(rest, &key[taken..])),
            ['?', rest @ ..] => !key.is_empty() && slow(rest, &key[1..]),
            ['[', lo, '-', hi, ']', rest @ ..] => {
                key.first().is_some_and(|c| (lo..=hi).contains(&c)) && slow(rest, &key[1..])
            }
            ['{', a, ',', b, '}', rest @ ..] => {
                key.first().is_some_and(|c| [a, b].contains(&c)) && slow(rest, &key[1..])
            }
            [c, rest @ ..] => key.first() == Some(c) && slow(rest, &key[1..]),
        }
    }

    proptest! {
        #[test]
        fn masks_match_as_trying_every_way_does(
            parts in proptest::collection::vec(prop_oneof!["[ab.é]", Just("*".into()), Just("?".into()), Just("[a-b]".into()), Just("{a,é}".into())], 0..8),
            key in "[abcé.\n]{0,8}",
        ) {
            let mask: String = parts.concat();
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            prop_assert_eq!(KeyMask::parse(&mask).expect("a mask").matches(&key), slow(&chars(&mask), &chars(&key)));
        }

        #[test]
        fn any_text_is_a_mask_or_none(mask in "[\\[\\]!a-c{},*?\\\\^&~| é-]{0,12}", key in "[a-c\\[\\]]{0,5}") {
            if let Ok(read) = KeyMask::parse(&mask) {
                read.matches(&key);
            }
        }
    }
}
