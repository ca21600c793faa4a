//! Patterns of KEYS, SCAN and CONFIG GET, with the semantics of Redis's `stringmatchlen`: `*`, `?`,
//! `[a-c]`, `[^…]`, `\x`.
//!
//! Every element but `*` matches one byte, so `*` divides a pattern into parts of fixed lengths. Each
//! part is found at its first place behind the part before it, and is never moved again. A short
//! pattern is tried at each place. In a long one, a step compares 64 elements (Shift-And: Baeza-Yates,
//! Gonnet: A new approach to text searching, CACM 35(10), 1992), so the time is that of reading the
//! text once for each 64 elements of the longest part.

use bytes::Bytes;
use std::ops::Bound;

/// Patterns up to this length are tried at each place, which allocates nothing.
const SHORT: usize = 64;

/// Does the whole of `text` match?
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    match pattern.len() <= SHORT || text.len() <= SHORT {
        true => matches_short(pattern, text, ignore_case),
        false => matches_long(pattern, text, ignore_case),
    }
}

/// Tries the part behind the last `*` at each place: pattern times text steps at most.
fn matches_short(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
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

fn matches_long(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let Some(parts) = parts(pattern, text.len()) else { return false };
    let [first, floating @ .., last] = &parts[..] else {
        return parts[0].len() == text.len() && fits(pattern, &parts[0], text, ignore_case);
    };
    let (begin, rest) = text.split_at(first.len());
    let (mut rest, end) = rest.split_at(rest.len() - last.len());
    if !fits(pattern, first, begin, ignore_case) || !fits(pattern, last, end, ignore_case) {
        return false;
    }
    for part in floating {
        match find(pattern, part, rest, ignore_case) {
            Some(behind) => rest = &rest[behind..],
            None => return false,
        }
    }
    true
}

/// The elements between the stars of a pattern, each by where it begins: one part more than there are
/// stars, but for stars in a row. `None`: there are more elements than `most`.
fn parts(pattern: &[u8], most: usize) -> Option<Vec<Vec<usize>>> {
    let mut parts = vec![Vec::new()];
    let (mut at, mut elements) = (0, 0);
    while at < pattern.len() {
        let part = parts.last_mut().expect("never empty");
        match pattern[at] {
            b'*' if part.is_empty() && at > 0 => at += 1,
            b'*' => {
                parts.push(Vec::new());
                at += 1;
            }
            _ if elements == most => return None,
            _ => {
                part.push(at);
                elements += 1;
                at = element_end(pattern, at);
            }
        }
    }
    Some(parts)
}

/// Do these elements match a text of the same length?
fn fits(pattern: &[u8], part: &[usize], text: &[u8], ignore_case: bool) -> bool {
    part.iter().zip(text).all(|(at, byte)| one(pattern, *at, *byte, ignore_case).is_some())
}

/// Behind the first place at which these elements match.
fn find(pattern: &[u8], part: &[usize], text: &[u8], ignore_case: bool) -> Option<usize> {
    let Some(last) = part.len().checked_sub(1) else { return Some(0) };
    // Bit i of `masks[byte]`: element i matches the byte. Bit i of `matching`: elements 0 to i match what was just read.
    let mut masks: [Option<Box<[u64]>>; 256] = [const { None }; 256];
    let mut matching = vec![0u64; part.len().div_ceil(64)];
    for (place, &byte) in text.iter().enumerate() {
        let mask = masks[usize::from(byte)].get_or_insert_with(|| {
            let fits = |at: &usize| u64::from(one(pattern, *at, byte, ignore_case).is_some());
            part.chunks(64).map(|word| word.iter().rev().fold(0, |bits, at| bits << 1 | fits(at))).collect()
        });
        let mut carry = 1;
        for (word, mask) in matching.iter_mut().zip(&**mask) {
            let carried = *word >> 63;
            *word = (*word << 1 | carry) & mask;
            carry = carried;
        }
        if matching[last / 64] >> (last % 64) & 1 == 1 {
            return Some(place + 1);
        }
    }
    None
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

/// Where the element at `at`, which is no `*`, ends.
fn element_end(pattern: &[u8], at: usize) -> usize {
    match pattern[at..] {
        [b'[', ..] => {
            let mut end = at + if pattern.get(at + 1) == Some(&b'^') { 2 } else { 1 };
            loop {
                match pattern[end..] {
                    [] => return end,
                    [b']', ..] => return end + 1,
                    [b'\\', _, ..] => end += 2,
                    [_, b'-', _, ..] => end += 3,
                    [_, ..] => end += 1,
                }
            }
        }
        [b'\\', _, ..] => at + 2,
        _ => at + 1,
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

    const PIECES: &[&str] = &["a", "b", "?", "[^b]", "[a-b]", "[ab", "\\", "*", "aaaaaaaaaaaa"];

    #[test]
    fn no_pattern_takes_forever() {
        let pattern = b"a*".repeat(500);
        let text = [b"a".repeat(2000), b"b".to_vec()].concat();
        let start = std::time::Instant::now();
        assert!(!matches(&[&pattern[..], b"c"].concat(), &text, false));
        assert!(start.elapsed().as_secs() < 5);
    }

    /// Before long patterns had a way of their own, each of these took minutes.
    #[test]
    fn no_long_pattern_takes_forever() {
        let text = [b"a".repeat(400_000), b"b".to_vec()].concat();
        let part = b"a?".repeat(30_000);
        let class = [b"[".to_vec(), b"x".repeat(60_000), b"]".to_vec()].concat();
        for pattern in [
            [b"*".to_vec(), part.clone(), b"c*".to_vec()].concat(),
            [b"*".to_vec(), part[..30_000].to_vec(), b"c*".to_vec(), part[..30_000].to_vec(), b"*".to_vec()].concat(),
            [b"*".to_vec(), class, b"*".to_vec()].concat(),
            b"*a".repeat(30_000),
        ] {
            assert!(!matches(&pattern, &text, false));
        }
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

        #[test]
        fn long_patterns_match_what_short_ones_do(
            pattern in proptest::collection::vec(prop::sample::select(PIECES), 0..30),
            text in proptest::collection::vec(prop::sample::select(&["a", "b", "aaaaaaaaaaaa", "aaaaab"][..]), 0..40),
            ignore_case: bool,
        ) {
            let (pattern, text) = (pattern.concat(), text.concat());
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(matches_long(pattern, text, ignore_case), matches_short(pattern, text, ignore_case));
        }
    }
}
