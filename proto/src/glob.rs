//! Patterns of KEYS, SCAN and CONFIG GET, with the semantics of Redis's `stringmatchlen`: `*`, `?`,
//! `[a-c]`, `[^…]`, `\x`.
//!
//! Every element but `*` matches one byte, so only the last `*` ever needs to be tried again: the
//! time is bounded by pattern times text, whatever the pattern.

use bytes::Bytes;
use std::ops::Bound;

/// Does the whole of `text` match?
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last `*` does not match: (after the star, text it has taken so
    // far).
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if let Some(next) = one(pattern, p, text[t], ignore_case) {
            p = next;
            t += 1;
        } else if let Some((star, taken)) = retry {
            p = star;
            t = taken + 1;
            retry = Some((star, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

/// Where keys that can match begin and end, in the order of their bytes.
pub fn range(pattern: Option<&[u8]>) -> (Bound<Bytes>, Bound<Bytes>) {
    let pattern = pattern.unwrap_or_default();
    let special = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    match &pattern[..special.unwrap_or(pattern.len())] {
        [] => (Bound::Unbounded, Bound::Unbounded),
        prefix => (Bound::Included(Bytes::copy_from_slice(prefix)), behind(prefix)),
    }
}
/// The end of the keys that begin with `prefix`.
pub fn behind(prefix: &[u8]) -> Bound<Bytes> {
    let mut end = prefix.to_vec();
    while end.pop_if(|last| *last == u8::MAX).is_some() {}
    match end.last_mut() {
        None => Bound::Unbounded,
        Some(last) => {
            *last += 1;
            Bound::Excluded(end.into())
        }
    }
}

/// Matches one byte against the element at `p`; where the next element begins, if it matches.
fn one(pattern: &[u8], mut p: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |b: u8| if ignore_case { b.to_ascii_lowercase() } else { b };
    let matched = match *pattern.get(p)? {
        b'?' => true,
        b'[' => {
            p += 1;
            let not = pattern.get(p) == Some(&b'^');
            if not {
                p += 1;
            }
            let mut found = false;
            loop {
                match pattern[p..] {
                    // Never closed: as if it were, here.
                    [] => {
                        p -= 1;
                        break;
                    }
                    [b'\\', escaped, ..] => {
                        found |= escaped == byte;
                        p += 2;
                    }
                    [b']', ..] => break,
                    [a, b'-', b, ..] => {
                        // Bytes are signed in a C `char`, and Redis orders them so.
                        let (a, b) = (a as i8, b as i8);
                        let (low, high) = (a.min(b), a.max(b));
                        let (low, high, it) = match ignore_case {
                            true => (lower(low), lower(high), lower(byte as i8)),
                            false => (low, high, byte as i8),
                        };
                        found |= (low..=high).contains(&it);
                        p += 3;
                    }
                    [single, ..] => {
                        found |= fold(single) == fold(byte);
                        p += 1;
                    }
                }
            }
            found != not
        }
        b'\\' if p + 1 < pattern.len() => {
            p += 1;
            fold(pattern[p]) == fold(byte)
        }
        literal => fold(literal) == fold(byte),
    };
    matched.then_some(p + 1)
}

fn lower(byte: i8) -> i8 {
    (byte as u8).to_ascii_lowercase() as i8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Like Redis's `stringmatchlen`: recursive, on a pattern that ends in a NUL.
    fn reference(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
        let at = |i: usize| pattern.get(i).copied().unwrap_or(0);
        let fold = |b: u8| if ignore_case { b.to_ascii_lowercase() } else { b };
        let (mut p, mut t) = (0, 0);
        while p < pattern.len() && t < text.len() {
            match at(p) {
                b'*' => {
                    while at(p + 1) == b'*' {
                        p += 1;
                    }
                    if p + 1 == pattern.len() {
                        return true;
                    }
                    return (t..text.len()).any(|from| reference(&pattern[p + 1..], &text[from..], ignore_case));
                }
                b'?' => {}
                b'[' => {
                    p += 1;
                    let not = at(p) == b'^';
                    if not {
                        p += 1;
                    }
                    let mut found = false;
                    loop {
                        let left = pattern.len() as isize - p as isize;
                        if at(p) == b'\\' && left >= 2 {
                            p += 1;
                            found |= at(p) == text[t];
                        } else if at(p) == b']' && left > 0 {
                            break;
                        } else if left <= 0 {
                            p -= 1;
                            break;
                        } else if left >= 3 && at(p + 1) == b'-' {
                            let (mut a, mut b, mut c) = (at(p) as i8, at(p + 2) as i8, text[t] as i8);
                            if a > b {
                                std::mem::swap(&mut a, &mut b);
                            }
                            if ignore_case {
                                a = lower(a);
                                b = lower(b);
                                c = lower(c);
                            }
                            p += 2;
                            found |= c >= a && c <= b;
                        } else {
                            found |= fold(at(p)) == fold(text[t]);
                        }
                        p += 1;
                    }
                    if found == not {
                        return false;
                    }
                }
                b'\\' if pattern.len() - p >= 2 => {
                    p += 1;
                    if fold(at(p)) != fold(text[t]) {
                        return false;
                    }
                }
                literal => {
                    if fold(literal) != fold(text[t]) {
                        return false;
                    }
                }
            }
            t += 1;
            p += 1;
            if t == text.len() {
                while at(p) == b'*' {
                    p += 1;
                }
                break;
            }
        }
        p == pattern.len() && t == text.len()
    }

    #[test]
    fn examples() {
        for (pattern, text, expected) in [
            ("*", "abc", true),
            ("h?llo", "hello", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a[\\]]b", "a]b", true),
            ("[abc", "c", true),
            ("a\\", "a\\", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-", false),
            ("[a-", "-", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), false), expected, "{pattern} {text}");
        }
        assert!(matches(b"MAX*", b"maxmemory", true));
        assert!(!matches(b"MAX*", b"maxmemory", false));
    }

    #[test]
    fn no_pattern_takes_forever() {
        let pattern = b"a*".repeat(500);
        let text = [b"a".repeat(2000), b"b".to_vec()].concat();
        let start = std::time::Instant::now();
        assert!(!matches(&[&pattern[..], b"c"].concat(), &text, false));
        assert!(start.elapsed().as_secs() < 5);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        #[test]
        fn as_redis_does(
            pattern in proptest::collection::vec(prop::sample::select(&b"aabbC*?[]^-\\\xff\x01"[..]), 0..10),
            text in proptest::collection::vec(prop::sample::select(&b"aabBc-]\\^\xff\x01"[..]), 1..8),
            ignore_case: bool,
        ) {
            prop_assert_eq!(matches(&pattern, &text, ignore_case), reference(&pattern, &text, ignore_case));
        }
    }
}
