//! `Retry-After` (RFC 9110, 10.2.3): how long an origin asks not to be asked again.
use super::http_date::parse_date;
use http::{HeaderMap, header};
use larder_engine::Millis;
use larder_store::clock;
use std::time::Duration;

/// The longest wait that is honoured: a mistake at the origin must not shut it off for a day.
const LONGEST: Duration = Duration::from_secs(60);

/// How long the response asks to wait, from `now`; `None` if it does not say.
pub(super) fn retry_after(headers: &HeaderMap, now: Millis) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Duration::from_secs(text.parse().unwrap_or(u64::MAX)),
        false => {
            let at = clock::of_wall(parse_date(text)?);
            Duration::from_millis(at.saturating_sub(now))
        }
    };
    (!wait.is_zero()).then_some(wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_or_a_date_and_never_too_long() {
        // Sun, 06 Nov 1994 08:49:37 GMT.
        let now = 784_111_777_000;
        for (text, expected) in [
            ("5", Some(5)),
            (" 59 ", Some(59)),
            ("3600", Some(60)),
            ("99999999999999999999999999", Some(60)),
            ("0", None),
            ("-1", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:00:00 GMT", None),
            ("Sat, 06 Nov 1999 08:49:37 GMT", Some(60)),
        ] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().expect("a value"))]);
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
