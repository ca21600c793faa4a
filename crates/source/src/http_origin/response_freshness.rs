//! How long a response stays fresh and how long it may be served stale after that (RFC 9111, RFC
//! 5861), as a shared cache sees it.
//!
//! The parser is our own. The one of the crate `headers` takes directives in lower case only,
//! ignores `no-cache` and `private` that name fields, and drops the whole header where one number
//! is wrong: each would keep what must not be kept.
use super::http_date::parse_date;
use crate::copy_metadata::FreshUntil;
use http::{HeaderMap, HeaderName, header};
use larder_engine::Millis;
use larder_proto::http::cache_control::{members, name_and_value, seconds};
use larder_store::clock;

/// `Cache-Control` for caches in front of the origin only (RFC 9213).
pub(super) const CDN_CACHE_CONTROL: HeaderName = HeaderName::from_static("cdn-cache-control");

/// What the headers say about keeping the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResponseFreshness {
    pub(super) fresh: FreshUntil,
    /// When the origin made it: its age is counted from then.
    pub(super) born: Millis,
    /// Whether clients may learn its `Cache-Control`: it is not forbidden to share it.
    pub(super) is_shared: bool,
    /// How long afterwards it may be served while it is renewed, ms; `None`: not said.
    pub(super) stale_while_revalidate: Option<u64>,
    /// How long afterwards it may be served while the origin fails, ms; `None`: not said.
    pub(super) stale_if_error: Option<u64>,
}

impl ResponseFreshness {
    /// Of a response to a request that was sent at `asked`: the time in transit counts as age (RFC
    /// 9111 section 4.2.3). It may depend on the request's fields `vary`.
    pub(super) fn of(headers: &HeaderMap, asked: Millis, vary: &[String]) -> ResponseFreshness {
        let targeted = targeted(headers);
        let directives = targeted.unwrap_or_else(|| CacheControl::of(headers, &header::CACHE_CONTROL));
        let bound = |stated: Option<u64>| match directives.revalidates(stated) {
            true => Some(0),
            false => stated.map(|seconds| seconds.saturating_mul(1000)),
        };
        let is_shared = !directives.forbids && !varies(headers, vary);
        let born = asked.saturating_sub(age(headers).saturating_mul(1000));
        ResponseFreshness {
            fresh: if is_shared { directives.fresh(headers, asked, born) } else { FreshUntil::NotKept },
            born,
            is_shared,
            stale_while_revalidate: bound(directives.stale_while_revalidate),
            stale_if_error: bound(directives.stale_if_error),
        }
    }
}

/// The directives of `Cache-Control` that concern a shared cache. Of two numbers the first counts.
#[derive(Debug, Default)]
struct CacheControl {
    /// `no-store` or `private`, with or without fields.
    forbids: bool,
    /// `no-cache`, with or without fields.
    no_cache: bool,
    /// `must-revalidate` or `proxy-revalidate`.
    must_revalidate: bool,
    /// The field is `CDN-Cache-Control`, beside which `Expires` does not count.
    is_targeted: bool,
    /// Seconds, like those that follow.
    s_maxage: Option<u64>,
    max_age: Option<u64>,
    stale_while_revalidate: Option<u64>,
    stale_if_error: Option<u64>,
}
impl CacheControl {
    fn of(headers: &HeaderMap, name: &HeaderName) -> CacheControl {
        let mut found = CacheControl::default();
        for line in headers.get_all(name) {
            for directive in members(line.as_bytes()) {
                let (name, value) = name_and_value(directive);
                // What is not a number makes the response stale (RFC 9111 section 4.2.1).
                let number = || Some(seconds(value).unwrap_or(0));
                match name.to_ascii_lowercase().as_slice() {
                    b"no-store" | b"private" => found.forbids = true,
                    b"no-cache" => found.no_cache = true,
                    b"must-revalidate" | b"proxy-revalidate" => found.must_revalidate = true,
                    b"s-maxage" => found.s_maxage = found.s_maxage.or_else(number),
                    b"max-age" => found.max_age = found.max_age.or_else(number),
                    b"stale-while-revalidate" => {
                        found.stale_while_revalidate = found.stale_while_revalidate.or_else(number);
                    }
                    b"stale-if-error" => found.stale_if_error = found.stale_if_error.or_else(number),
                    _ => {}
                }
            }
        }
        found
    }

    /// Whether nothing may be served stale. `s-maxage` says so too (RFC 9111 section 5.2.2.10),
    /// unless the bound stands beside it.
    fn revalidates(&self, stated: Option<u64>) -> bool {
        self.must_revalidate || self.no_cache || self.s_maxage.is_some() && stated.is_none()
    }

    fn fresh(&self, headers: &HeaderMap, asked: Millis, born: Millis) -> FreshUntil {
        if self.no_cache {
            // It is useful only if it can be revalidated without a whole response.
            return match headers.contains_key(header::ETAG) || headers.contains_key(header::LAST_MODIFIED) {
                true => FreshUntil::At(asked),
                false => FreshUntil::NotKept,
            };
        }
        let lifetime = match (self.s_maxage.or(self.max_age), headers.get(header::EXPIRES)) {
            (Some(seconds), _) => seconds.saturating_mul(1000),
            (None, Some(_)) if !self.is_targeted => {
                let date = date(headers, &header::DATE).unwrap_or(asked);
                // What is no date, `0` above all, is in the past (RFC 9111 section 5.3).
                date_of_expiry(headers).saturating_sub(date)
            }
            (None, _) => return FreshUntil::Policy,
        };
        FreshUntil::At(born.saturating_add(lifetime))
    }
}

/// What `CDN-Cache-Control` says, if it is a dictionary of structured fields (RFC 8941) with
/// directives of the right types.
fn targeted(headers: &HeaderMap) -> Option<CacheControl> {
    let mut directives = headers.get_all(CDN_CACHE_CONTROL).iter().flat_map(|line| members(line.as_bytes())).peekable();
    directives.peek()?;
    let is_valid = directives.all(|directive| {
        let (name, value) = name_and_value(directive);
        let is_key = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte);
        let starts = |byte: &u8| byte.is_ascii_lowercase() || *byte == b'*';
        let is_number = matches!(name, b"max-age" | b"s-maxage" | b"stale-while-revalidate" | b"stale-if-error");
        let has_type =
            if is_number { (1..=15).contains(&value.len()) && value.iter().all(u8::is_ascii_digit) } else { true };
        name.first().is_some_and(starts) && name.iter().all(is_key) && has_type
    });
    is_valid.then(|| CacheControl { is_targeted: true, ..CacheControl::of(headers, &CDN_CACHE_CONTROL) })
}

/// The age that the origin states, seconds. The first of several counts. Anything but a number is
/// ignored (RFC 9111 section 5.1).
fn age(headers: &HeaderMap) -> u64 {
    let first = headers.get(header::AGE).and_then(|age| members(age.as_bytes()).next());
    first.filter(|age| !age.starts_with(b"\"")).and_then(seconds).unwrap_or(0)
}

/// Whether the response depends on other fields of the request than these and `Accept-Encoding`.
fn varies(headers: &HeaderMap, among: &[String]) -> bool {
    let lines = headers.get_all(header::VARY).iter();
    let mut fields = lines.flat_map(|line| members(line.as_bytes()));
    let same = |field: &[u8], name: &str| field.eq_ignore_ascii_case(name.as_bytes());
    fields.any(|field| {
        !field.is_empty() && !same(field, "accept-encoding") && !among.iter().any(|name| same(field, name))
    })
}

/// The date in a field, if it is one.
pub(super) fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Millis> {
    parse_date(headers.get(name)?.to_str().ok()?).map(clock::of_wall)
}
fn date_of_expiry(headers: &HeaderMap) -> Millis {
    date(headers, &header::EXPIRES).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{
        FreshUntil::{At, NotKept, Policy},
        *,
    };
    use proptest::prelude::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const ASKED: Millis = 784_111_777_000;

    fn whole(fields: &[(&'static str, &str)]) -> ResponseFreshness {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a value"));
        }
        ResponseFreshness::of(&headers, ASKED, &["accept".to_owned(), "x-tenant".to_owned()])
    }
    fn of(fields: &[(&'static str, &str)]) -> FreshUntil {
        whole(fields).fresh
    }
    fn cache_control(value: &str) -> FreshUntil {
        of(&[("cache-control", value)])
    }
    fn fresh(seconds: u64) -> FreshUntil {
        At(ASKED + seconds * 1000)
    }

    #[test]
    fn directives() {
        for (value, expected) in [
            ("", Policy),
            ("public", Policy),
            ("must-revalidate, immutable", Policy),
            ("max-age=60", fresh(60)),
            ("MAX-AGE = 60", fresh(60)),
            ("max-age=\"60\"", fresh(60)),
            ("public,,max-age=60,", fresh(60)),
            ("max-age=60, s-maxage=10", fresh(10)),
            ("s-maxage=10, max-age=60", fresh(10)),
            ("max-age=60, max-age=10", fresh(60)),
            ("max-age=99999999999999999999999", fresh(1 << 31)),
            ("max-age=0", fresh(0)),
            ("s-maxage=0, max-age=60", fresh(0)),
            ("max-age=-1", fresh(0)),
            ("max-age=soon", fresh(0)),
            ("max-age", fresh(0)),
            ("max-age=1.5", fresh(0)),
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
            (&[("cache-control", "max-age=60"), ("age", "60")], fresh(0)),
            (&[("cache-control", "max-age=60"), ("age", "90")], At(ASKED - 30_000)),
            (&[("cache-control", "max-age=60"), ("age", "young")], fresh(60)),
            (&[("cache-control", "max-age=60"), ("age", "20, 50")], fresh(40)),
            (&[expires, date], fresh(30)),
            (&[expires], fresh(30)),
            // The origin's clock is a minute behind: its own two moments are compared.
            (&[expires, earlier], fresh(90)),
            (&[expires, date, ("age", "10")], fresh(20)),
            (&[("expires", "0"), date], fresh(0)),
            (&[("expires", "Sun, 06 Nov 1994 08:49:37 GMT"), date], fresh(0)),
            (&[expires, date, ("cache-control", "max-age=5")], fresh(5)),
            (&[expires, date, ("cache-control", "public")], fresh(30)),
        ] {
            assert_eq!(of(fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn only_what_is_always_the_same_may_vary() {
        for (vary, expected) in [
            ("Accept-Encoding", fresh(60)),
            ("accept-encoding, Accept-Encoding", fresh(60)),
            ("", fresh(60)),
            ("X-Tenant,Accept", fresh(60)),
            ("*", NotKept),
            ("Accept-Encoding, Cookie", NotKept),
            ("Origin", NotKept),
        ] {
            assert_eq!(of(&[("cache-control", "max-age=60"), ("vary", vary)]), expected, "{vary}");
        }
        assert_eq!(of(&[("vary", "Cookie")]), NotKept);
    }

    #[test]
    fn what_must_be_asked_for_anew_is_kept_if_that_can_be_cheap() {
        assert_eq!(of(&[("cache-control", "no-cache, max-age=60"), ("etag", "\"a\"")]), fresh(0));
        let date = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(of(&[("cache-control", "No-Cache"), date]), fresh(0));
        assert_eq!(of(&[("cache-control", "no-cache, no-store"), date]), NotKept);
    }

    #[test]
    fn caches_in_front_of_the_origin_may_be_told_something_else() {
        let expires = ("expires", "Sun, 06 Nov 1994 08:50:07 GMT");
        for (targeted, other, expected) in [
            ("max-age=60", "max-age=5", fresh(60)),
            ("max-age=60", "no-store", fresh(60)),
            ("foobar, max-age=60", "max-age=5", fresh(60)),
            ("max-age=0", "max-age=60", fresh(0)),
            ("no-store", "max-age=60", NotKept),
            ("private", "max-age=60", NotKept),
            ("public", "max-age=60", Policy),
            // What cannot be read is not there.
            ("max-age=\"60\"", "max-age=5", fresh(5)),
            ("max-age=60, &&&&&", "no-store", NotKept),
            ("MaX-aGe=60", "max-age=5", fresh(5)),
            ("max-age=-1", "max-age=5", fresh(5)),
            ("", "max-age=5", fresh(5)),
        ] {
            let fields = [("cdn-cache-control", targeted), ("cache-control", other), expires];
            assert_eq!(of(&fields), expected, "{targeted} {other}");
        }
    }

    #[test]
    fn how_long_it_may_be_served_stale() {
        for (value, expected) in [
            ("max-age=60", (None, None)),
            ("max-age=60, stale-while-revalidate=5, Stale-If-Error=\"7\"", (Some(5000), Some(7000))),
            ("stale-if-error=9999999999999999", (None, Some((1 << 31) * 1000))),
            ("stale-if-error=-1, stale-while-revalidate", (Some(0), Some(0))),
            ("max-age=60, must-revalidate, stale-if-error=7", (Some(0), Some(0))),
            ("max-age=60, proxy-revalidate", (Some(0), Some(0))),
            ("no-cache, stale-while-revalidate=5", (Some(0), Some(0))),
            ("s-maxage=60", (Some(0), Some(0))),
            ("s-maxage=60, stale-while-revalidate=5", (Some(5000), Some(0))),
            ("max-age=60, immutable", (None, None)),
        ] {
            let found = whole(&[("cache-control", value)]);
            assert_eq!((found.stale_while_revalidate, found.stale_if_error), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_an_answer(value in "[ -~]{0,60}", other in "(no-store|max-age=|s-maxage=|\"|,|=|[0-9]|\\\\){0,8}") {
            let found = cache_control(&format!("{value},{other}"));
            let stated = cache_control(&format!("no-store,{value}"));
            prop_assert!(found == NotKept || found == Policy || matches!(found, At(at) if at >= ASKED));
            prop_assert_eq!(stated, NotKept);
        }
    }
}
