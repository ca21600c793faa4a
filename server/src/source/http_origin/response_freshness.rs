//! How long a response stays fresh (RFC 9111), as a shared cache sees it.
//!
//! The parser is our own. The one of the crate `headers` takes directives in lower case only, ignores `no-cache` and `private` that name
//! fields, and drops the whole header where one number is wrong: each would keep what must not be kept.
use http::{HeaderMap, HeaderName, header};
use larder_engine::Millis;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the headers say about keeping the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseFreshness {
    /// Nothing: the group's settings decide.
    Unstated,
    /// It may not be kept, or it is stale already.
    NotKept,
    /// It is fresh until then.
    Until(Millis),
}

impl ResponseFreshness {
    /// Of a response to a request that was sent at `asked`: the time in transit counts as age (RFC 9111 section 4.2.3).
    pub(super) fn of(headers: &HeaderMap, asked: Millis) -> ResponseFreshness {
        let directives = CacheControl::of(headers);
        if directives.forbids || varies(headers) {
            return ResponseFreshness::NotKept;
        }
        let lifetime = match (directives.s_maxage.or(directives.max_age), headers.get(header::EXPIRES)) {
            (Some(seconds), _) => seconds.saturating_mul(1000),
            (None, Some(_)) => {
                let date = date(headers, &header::DATE).unwrap_or(asked);
                // What is no date, `0` above all, is in the past (RFC 9111 section 5.3).
                date_of_expiry(headers).saturating_sub(date)
            }
            (None, None) => return ResponseFreshness::Unstated,
        };
        let age = headers.get(header::AGE).and_then(|age| age.to_str().ok());
        // An invalid age is ignored (RFC 9111 section 5.1).
        let age = age.and_then(|age| seconds(age.split(',').next().unwrap_or_default().trim())).unwrap_or(0);
        match lifetime.saturating_sub(age.saturating_mul(1000)) {
            0 => ResponseFreshness::NotKept,
            left => ResponseFreshness::Until(asked.saturating_add(left)),
        }
    }
}

/// The directives of `Cache-Control` that concern a shared cache.
#[derive(Debug, Default)]
struct CacheControl {
    /// `no-store`, `private` or `no-cache`, with or without fields: without revalidation `no-cache` means that nothing can be kept.
    forbids: bool,
    /// Seconds; of two the first counts.
    s_maxage: Option<u64>,
    max_age: Option<u64>,
}
impl CacheControl {
    fn of(headers: &HeaderMap) -> CacheControl {
        let mut found = CacheControl::default();
        for line in headers.get_all(header::CACHE_CONTROL) {
            for directive in members(line.as_bytes()) {
                let (name, value) = match directive.iter().position(|&byte| byte == b'=') {
                    Some(at) => (&directive[..at], &directive[at + 1..]),
                    None => (directive, &b""[..]),
                };
                // What is no number makes the response stale (RFC 9111 section 4.2.1).
                let number = || seconds(&String::from_utf8_lossy(value).trim().replace('"', "")).unwrap_or(0);
                match name.trim_ascii().to_ascii_lowercase().as_slice() {
                    b"no-store" | b"no-cache" | b"private" => found.forbids = true,
                    b"s-maxage" => found.s_maxage = found.s_maxage.or_else(|| Some(number())),
                    b"max-age" => found.max_age = found.max_age.or_else(|| Some(number())),
                    _ => {}
                }
            }
        }
        found
    }
}

/// The members of a list; a comma within quotes does not end one.
fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
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

/// Whether the response depends on more of the request than Larder always sends alike. `Accept-Encoding` is such a field.
fn varies(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::VARY).iter();
    let mut fields = lines.flat_map(|line| members(line.as_bytes()));
    fields.any(|field| !field.is_empty() && !field.eq_ignore_ascii_case(b"accept-encoding"))
}

/// A number of seconds. One that is too large is a very large one (RFC 9111 section 1.2.2).
fn seconds(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX).min(1 << 31))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Millis> {
    let date: SystemTime = httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_millis() as Millis)
}
fn date_of_expiry(headers: &HeaderMap) -> Millis {
    date(headers, &header::EXPIRES).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{ResponseFreshness::*, *};
    use proptest::prelude::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const ASKED: Millis = 784_111_777_000;

    fn of(fields: &[(&'static str, &str)]) -> ResponseFreshness {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a value"));
        }
        ResponseFreshness::of(&headers, ASKED)
    }
    fn cache_control(value: &str) -> ResponseFreshness {
        of(&[("cache-control", value)])
    }
    fn fresh(seconds: u64) -> ResponseFreshness {
        Until(ASKED + seconds * 1000)
    }

    #[test]
    fn directives() {
        for (value, expected) in [
            ("", Unstated),
            ("public", Unstated),
            ("must-revalidate, immutable", Unstated),
            ("max-age=60", fresh(60)),
            ("MAX-AGE = 60", fresh(60)),
            ("max-age=\"60\"", fresh(60)),
            ("public,,max-age=60,", fresh(60)),
            ("max-age=60, s-maxage=10", fresh(10)),
            ("s-maxage=10, max-age=60", fresh(10)),
            ("max-age=60, max-age=10", fresh(60)),
            ("max-age=99999999999999999999999", fresh(1 << 31)),
            ("max-age=0", NotKept),
            ("s-maxage=0, max-age=60", NotKept),
            ("max-age=-1", NotKept),
            ("max-age=soon", NotKept),
            ("max-age", NotKept),
            ("max-age=1.5", NotKept),
            ("no-store", NotKept),
            ("max-age=60, No-Store", NotKept),
            ("no-cache, max-age=60", NotKept),
            ("no-cache=\"a, b\", max-age=60", NotKept),
            ("private, max-age=60", NotKept),
            ("private=\"set-cookie\", max-age=60", NotKept),
            ("x=\"no-store, private\", max-age=60", fresh(60)),
            ("x=\"\\\", no-store\", max-age=60", fresh(60)),
            ("x-no-store, max-age=60", fresh(60)),
        ] {
            assert_eq!(cache_control(value), expected, "{value}");
        }
        assert_eq!(of(&[("cache-control", "max-age=60"), ("cache-control", "no-store")]), NotKept);
    }

    #[test]
    fn ages_and_dates() {
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        let earlier = ("date", "Sun, 06 Nov 1994 08:48:37 GMT");
        let expires = ("expires", "Sun, 06 Nov 1994 08:50:07 GMT");
        for (fields, expected) in [
            (&[("cache-control", "max-age=60"), ("age", "20")][..], fresh(40)),
            (&[("cache-control", "max-age=60"), ("age", "60")], NotKept),
            (&[("cache-control", "max-age=60"), ("age", "young")], fresh(60)),
            (&[("cache-control", "max-age=60"), ("age", "20, 50")], fresh(40)),
            (&[expires, date], fresh(30)),
            (&[expires], fresh(30)),
            // The origin's clock is a minute behind: its own two moments are compared.
            (&[expires, earlier], fresh(90)),
            (&[expires, date, ("age", "10")], fresh(20)),
            (&[("expires", "0"), date], NotKept),
            (&[("expires", "Sun, 06 Nov 1994 08:49:37 GMT"), date], NotKept),
            (&[expires, date, ("cache-control", "max-age=5")], fresh(5)),
            (&[expires, date, ("cache-control", "public")], fresh(30)),
        ] {
            assert_eq!(of(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn only_accept_encoding_may_vary() {
        for (vary, expected) in [
            ("Accept-Encoding", fresh(60)),
            ("accept-encoding, Accept-Encoding", fresh(60)),
            ("", fresh(60)),
            ("*", NotKept),
            ("Accept-Encoding, Cookie", NotKept),
            ("Origin", NotKept),
        ] {
            assert_eq!(of(&[("cache-control", "max-age=60"), ("vary", vary)]), expected, "{vary}");
        }
        assert_eq!(of(&[("vary", "Cookie")]), NotKept);
    }

    proptest! {
        #[test]
        fn any_header_is_an_answer(value in "[ -~]{0,60}", other in "(no-store|max-age=|s-maxage=|\"|,|=|[0-9]|\\\\){0,8}") {
            let found = cache_control(&format!("{value},{other}"));
            let stated = cache_control(&format!("no-store,{value}"));
            prop_assert!(!matches!(found, Until(at) if at <= ASKED));
            prop_assert_eq!(stated, NotKept);
        }
    }
}
