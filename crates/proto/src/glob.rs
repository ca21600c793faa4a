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

/// The steps of finding out whether a text matches a pattern are at most about so many. A step takes
/// some nanoseconds.
pub fn most_steps(pattern: &[u8], text: &[u8]) -> usize {
    let (pattern, text) = (pattern.len(), text.len());
    let at_each_place = pattern.min(SHORT + pattern / 64);
    // What each byte matches is looked up once, but in a short text that is done at each place.
    text.saturating_mul(at_each_place).saturating_add(text.min(256).saturating_mul(pattern)).max(1)
}

/// Compares many names with one pattern, in groups: a lock is held for a group, and a turn has several.
#[derive(Debug)]
pub struct Pace<'p> {
    pattern: &'p [u8],
    group: usize,
    in_group: usize,
    in_turn: usize,
}

impl<'p> Pace<'p> {
    /// Steps of a group, about, and of a turn: some milliseconds.
    const GROUP: usize = 1 << 18;
    const TURN: usize = 1 << 20;
    /// Visiting a name takes as long as so many steps.
    const VISIT: usize = 16;

    /// For this pattern.
    pub fn new(pattern: &'p [u8]) -> Pace<'p> {
        Pace { pattern, group: 16, in_group: 0, in_turn: 0 }
    }
    /// Names of the next group.
    pub fn group(&self) -> usize {
        self.group
    }
    /// Whether a name matches.
    pub fn matches(&mut self, name: &[u8]) -> bool {
        self.in_group += Pace::VISIT + most_steps(self.pattern, name);
        matches(self.pattern, name, false)
    }
    /// A group is over. Whether the turn is over, too. The next group takes about as many steps as one
    /// should, if its names are as long.
    pub fn is_turn_over(&mut self) -> bool {
        let for_one = (self.in_group / self.group).max(Pace::VISIT);
        self.in_turn += std::mem::take(&mut self.in_group);
        self.group = (Pace::GROUP / for_one).clamp(1, self.group * 4);
        let is_over = self.in_turn > Pace::TURN;
        if is_over {
            self.in_turn = 0;
        }
        is_over
    }
}

/// Notes a step, for tests.
#[inline(always)]
fn step() {
    #[cfg(test)]
    tests::STEPS.set(tests::STEPS.get() + 1);
}

/// Tries the part behind the last `*` at each place: pattern times text steps at most.
fn matches_short(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on if what follows the last `*` does not match: (after the star, text it has taken so
    // far).
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        step();
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
        step();
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
            step();
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

/// What every text that matches begins with.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let special = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..special.unwrap_or(pattern.len())]
}
/// Where keys that can match begin and end, in the order of their bytes.
pub fn range(pattern: Option<&[u8]>) -> (Bound<Bytes>, Bound<Bytes>) {
    match literal_prefix(pattern.unwrap_or_default()) {
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
    step();
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
                step();
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

    thread_local! {
        pub(super) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    }

    /// Steps are counted, because a duration says nothing on a busy machine. Before long patterns had a
    /// way of their own, each of the last four took thousands of millions.
    #[test]
    fn no_pattern_takes_forever() {
        let text = [b"a".repeat(400_000), b"b".to_vec()].concat();
        let part = b"a?".repeat(30_000);
        let class = [b"[".to_vec(), b"x".repeat(60_000), b"]".to_vec()].concat();
        for (pattern, text) in [
            ([b"a*".repeat(500), b"c".to_vec()].concat(), &text[398_000..]),
            ([b"*".to_vec(), b"a".repeat(62), b"c".to_vec()].concat(), &text),
            (b"*a".repeat(30), &text),
            ([b"*".to_vec(), class.clone(), b"*".to_vec()].concat(), &text[399_950..]),
            ([b"*".to_vec(), part.clone(), b"c*".to_vec()].concat(), &text),
            (
                [b"*".to_vec(), part[..30_000].to_vec(), b"c*".to_vec(), part[..30_000].to_vec(), b"*".to_vec()]
                    .concat(),
                &text,
            ),
            ([b"*".to_vec(), class, b"*".to_vec()].concat(), &text),
            (b"*a".repeat(30_000), &text),
        ] {
            STEPS.set(0);
            assert!(!matches(&pattern, text, false));
            let (steps, most) = (STEPS.get(), most_steps(&pattern, text));
            let shown = String::from_utf8_lossy(&pattern[..pattern.len().min(20)]);
            assert!(steps <= 2 * most, "{steps} steps for {shown}… of {} bytes, {most} are expected", pattern.len());
            assert!(most < 1_000_000_000, "{most} steps for {shown}");
        }
    }

    #[test]
    fn groups_and_turns_have_few_steps() {
        let long = b"a".repeat(60_000);
        for (pattern, name, groups) in
            [(&b"*"[..], &b"name"[..], 8), (&b"*aaaaaaaaaaaaaaaaaaaaaaaaaaaac*"[..], &long, 1)]
        {
            let mut pace = Pace::new(pattern);
            let (mut all, mut steps) = (0, 0);
            while all < 100_000 && steps < 1 << 30 {
                let group = pace.group();
                (0..group).for_each(|_| _ = pace.matches(name));
                let taken = pace.in_group;
                assert!(
                    taken <= Pace::GROUP + most_steps(pattern, name) || all == 0,
                    "{taken} steps in a group of {group}"
                );
                all += group;
                steps += taken;
                pace.is_turn_over();
            }
            assert!(pace.group() >= groups);
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
            STEPS.set(0);
            prop_assert_eq!(matches(&pattern, &text, ignore_case), reference(&pattern, &text, ignore_case));
            prop_assert!(STEPS.get() <= 4 * most_steps(&pattern, &text) + 64);
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
