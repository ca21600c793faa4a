//! Masks of keys, with the syntax of Go's gobwas/glob, which is GCache's and not that of Redis
//! globs.
//!
//! ```text
//! *  **       any characters                [abc]  [!abc]   one of these characters, or none of them
//! ?           one character                 [a-c]  [!a-c]   one range only
//! {a*,b}      alternatives, also nested     \x              x itself
//! ```
//!
//! The mask becomes a regular expression. An automaton compares, and its work is counted: some
//! masks take as many steps for each byte of a key as they are long.
use larder_document::Pattern;

/// Bytes of the compiled form; a mask of some thousand characters fits.
const MAX_COMPILED: usize = 1 << 20;
/// Most work for one key: some ten milliseconds.
const MOST_WORK: usize = 1 << 27;

/// A mask that was read.
#[derive(Debug)]
pub(crate) struct KeyMask(Box<Pattern>);

/// Not a mask, or one that is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadMask;

impl KeyMask {
    /// Reads a mask.
    ///
    /// # Errors
    /// It is none, its expression has more than 64 KiB, or the compiled form of that more than 1 MiB.
    pub(crate) fn parse(mask: &str) -> Result<KeyMask, BadMask> {
        let pattern = Pattern::new(&to_regex(mask)?, false, MAX_COMPILED).ok().flatten();
        pattern.map(KeyMask).ok_or(BadMask)
    }

    /// Whether the whole key is as the mask says. `work` becomes more by what that takes, in bytes
    /// that could be read instead. `None`: it takes too much.
    pub(crate) fn matches(&self, key: &str, work: &mut usize) -> Option<bool> {
        let most = work.saturating_add(MOST_WORK);
        self.0.is_match(key, |more| {
            *work = work.saturating_add(more);
            *work <= most
        })
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
        literal(regex, first);
        regex.push('-');
        literal(regex, last);
        *rest = after;
    } else {
        let (mut c, mut is_empty) = (first, true);
        while c != ']' {
            if c == '\\' {
                c = rest.next().ok_or(BadMask)?;
            }
            literal(regex, c);
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

/// A character that stands for itself, in a class or outside.
fn literal(regex: &mut String, c: char) {
    if r"\.+*?()|[]{}^$#&-~".contains(c) {
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
            ("[<%>]<", &["<<", "%<"], &["a<"]),
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
            yes.iter().for_each(|key| assert_eq!(read.matches(key, &mut 0), Some(true), "{mask} {key}"));
            no.iter().for_each(|key| assert_eq!(read.matches(key, &mut 0), Some(false), "{mask} {key}"));
        }
        for bad in
            ["[", "[]", "[!]", "[a", "[a-", "[a-]", "[c-a]", "[a-cx]", "a[", "{[}", "{a,b", "{a{b}", "a\\", "\u{fffd}"]
        {
            assert_eq!(KeyMask::parse(bad).err(), Some(BadMask), "{bad}");
        }
        assert!(KeyMask::parse(&"?".repeat(1 << 20)).is_err());
        assert!(KeyMask::parse(&"{".repeat(10_000)).is_err());
        // This compiles to nothing, so only its length tells what reading it takes.
        assert!(KeyMask::parse(&"{}".repeat(16_000)).is_ok());
        assert_eq!(KeyMask::parse(&"{}".repeat(17_000)).err(), Some(BadMask));
    }

    /// Each byte of the key leads to a new state of the automaton, and each of them has all states of
    /// the mask.
    #[test]
    fn masks_that_take_long_stop() {
        let slow = KeyMask::parse(&format!("*a{}", "?".repeat(2000))).expect("a mask");
        let key: String = (0..60_000u32).map(|n| if n.wrapping_mul(n) % 7 < 3 { 'a' } else { 'b' }).collect();
        let mut work = 5;
        assert_eq!(slow.matches(&key, &mut work), None);
        assert!((MOST_WORK..2 * MOST_WORK).contains(&work), "{work}");
        assert_eq!(slow.matches("b", &mut work), Some(false), "another key is compared");
    }

    /// Matches like `KeyMask`, by trying every way: the masks are short.
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
            prop_assert_eq!(KeyMask::parse(&mask).expect("a mask").matches(&key, &mut 0), Some(slow(&chars(&mask), &chars(&key))));
        }

        #[test]
        fn any_text_is_a_mask_or_none(mask in "[\\[\\]!a-c{},*?\\\\^&~| é-]{0,12}", key in "[a-c\\[\\]]{0,5}") {
            if let Ok(read) = KeyMask::parse(&mask) {
                read.matches(&key, &mut 0);
            }
        }
    }
}
