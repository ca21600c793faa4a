//! The field `Cache-Control` (RFC 9111 section 5.2): its directives, and the field that is sent on.
use super::text::Sink;

/// The longest time that is told apart from longer ones, seconds (RFC 9111 section 1.2.2).
pub const MOST_SECONDS: u64 = 1 << 31;

/// The members of a list; a comma within quotes does not end one.
pub fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    line.split(move |&byte| {
        let ends = byte == b',' && !quoted;
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
        ends
    })
    .map(<[u8]>::trim_ascii)
}

/// The name and the value of a directive; without a value it is empty.
pub fn name_and_value(directive: &[u8]) -> (&[u8], &[u8]) {
    match directive.iter().position(|&byte| byte == b'=') {
        Some(at) => (directive[..at].trim_ascii(), directive[at + 1..].trim_ascii()),
        None => (directive.trim_ascii(), b""),
    }
}

/// A number of seconds, with quotes or without. One that is too large is [`MOST_SECONDS`].
pub fn seconds(value: &[u8]) -> Option<u64> {
    let inside = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let digits = inside.unwrap_or(value);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add = |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add).min(MOST_SECONDS))
}

/// Writes the field of a copy: the directives of its origin. `max-age` and `s-maxage` are at most
/// `at_most`, which is less if the copy must not live as long as its origin allows. If the origin
/// says nothing of a lifetime, `max-age` is `lifetime`. False: there is nothing to say.
pub fn write(out: &mut impl Sink, before: &[u8], origin: &[u8], at_most: Option<u64>, lifetime: Option<u64>) -> bool {
    let mut says_lifetime = false;
    let mut between = before;
    for directive in members(origin).filter(|directive| !directive.is_empty()) {
        out.put(between);
        between = b", ";
        let (name, value) = name_and_value(directive);
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        let is_number = is(b"max-age") || is(b"s-maxage");
        says_lifetime |= is_number || is(b"no-cache") || is(b"no-store") || is(b"private");
        match at_most.filter(|at_most| is_number && seconds(value).is_some_and(|stated| stated > *at_most)) {
            Some(at_most) => {
                out.put(name);
                out.put(b"=");
                out.put_number(at_most);
            }
            None => out.put(directive),
        }
    }
    let lifetime = at_most.or(lifetime).filter(|_| !says_lifetime);
    if let Some(lifetime) = lifetime {
        out.put(between);
        between = b", ";
        out.put(b"max-age=");
        out.put_number(lifetime);
    }
    between != before
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(origin: &str, at_most: Option<u64>, lifetime: Option<u64>) -> String {
        let mut out = Vec::new();
        let has_written = write(&mut out, b"", origin.as_bytes(), at_most, lifetime);
        assert_eq!(has_written, !out.is_empty());
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn the_directives_of_the_origin_are_sent_on() {
        for (origin, at_most, lifetime, expected) in [
            ("", None, None, ""),
            ("", None, Some(7), "max-age=7"),
            ("", Some(5), Some(7), "max-age=5"),
            ("max-age=60", None, Some(7), "max-age=60"),
            ("max-age=60", Some(50), None, "max-age=50"),
            ("max-age=60", Some(70), None, "max-age=60"),
            ("Max-Age=\"60\",public", Some(50), None, "Max-Age=50, public"),
            ("s-maxage=600, max-age=60", Some(100), None, "s-maxage=100, max-age=60"),
            ("s-maxage=600", None, Some(600), "s-maxage=600"),
            ("public, must-revalidate", None, Some(7), "public, must-revalidate, max-age=7"),
            ("no-cache", Some(5), Some(0), "no-cache"),
            ("no-cache=\"a, b\",,x", None, Some(0), "no-cache=\"a, b\", x"),
            ("max-age=soon", Some(5), Some(7), "max-age=soon"),
        ] {
            assert_eq!(written(origin, at_most, lifetime), expected, "{origin}");
        }
    }

    #[test]
    fn numbers_of_seconds() {
        for (text, expected) in [
            ("0", Some(0)),
            ("003600", Some(3600)),
            ("\"60\"", Some(60)),
            ("99999999999999999999999", Some(MOST_SECONDS)),
            ("", None),
            ("\"\"", None),
            ("\"60", None),
            ("-1", None),
            ("+1", None),
            ("1.5", None),
            ("'60'", None),
            ("6 0", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_says_the_same(origin in "[ !#-~]{0,40}", at_most in 0u64..100) {
            let once = written(&origin, Some(at_most), None);
            prop_assert_eq!(written(&once, Some(at_most), None), once);
        }
    }
}
