//! Glob patterns as Redis has them: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`, and `\` before a character that means itself.

/// Does `text` match `pattern`? Time is at most the product of their lengths, whatever the pattern.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on after the last `*`, should what follows it not match: with one more byte left to the star.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        let step = match text.get(t) {
            None if p == pattern.len() => return true,
            None => None,
            Some(&byte) => one(&pattern[p..], byte),
        };
        match (step, star) {
            (Some(used), _) => {
                p += used;
                t += 1;
            }
            // More text for the last star, as long as there is any.
            (None, Some((after, from))) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// Matches one byte against the front of a pattern; the length of the part used.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => class(&pattern[1..], byte).map(|used| used + 1),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

/// Matches a byte against a class, after its `[`. One that is not closed ends with the pattern.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= literal == byte;
                at += 2;
            }
            [a, b'-', b, ..] => {
                found |= (a.min(b)..=a.max(b)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn as_redis_matches() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("[\\]]", "]", true),
            ("[ab", "b", true),
            ("[]", "a", false),
            ("a*b*c", "a__b__b__c", true),
            ("a*b*c", "a__b__b__", false),
            ("*a", "ba", true),
            ("a*", "ab", true),
            ("\\", "\\", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    proptest! {
        /// Against the definition, by recursion.
        #[test]
        fn stars_and_marks(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            fn slow(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern, text) {
                    ([], text) => text.is_empty(),
                    ([b'*', rest @ ..], text) => slow(rest, text) || (!text.is_empty() && slow(pattern, &text[1..])),
                    ([p, rest @ ..], [t, more @ ..]) => (*p == b'?' || p == t) && slow(rest, more),
                    _ => false,
                }
            }
            prop_assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), slow(pattern.as_bytes(), text.as_bytes()));
        }

        #[test]
        fn never_panics(pattern: Vec<u8>, text: Vec<u8>) {
            matches(&pattern, &text);
        }
    }
}
