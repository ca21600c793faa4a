//! `RateLimit-Policy` and `RateLimit`: what a client may ask, and what is left of it
//! (draft-ietf-httpapi-ratelimit-headers-11).
use http::{HeaderMap, HeaderName, HeaderValue};
use larder_base::lifecycle::throttle::Allowance;
use std::time::Duration;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Describes the budget that is closest to being used up. The setting is the policy's name.
///
/// `q` is the burst, `w` the seconds in which a used-up budget is whole again, `r` what is left of
/// it and `t` the seconds until it is whole.
pub(crate) fn insert(headers: &mut HeaderMap, allowance: &Allowance) {
    let Allowance { setting, burst, window, remaining } = allowance;
    let policy = format!("\"{setting}\";q={burst};w={}", whole_seconds(*window));
    let limit = format!("\"{setting}\";r={remaining};t={}", whole_seconds(allowance.whole_again()));
    for (name, value) in [(POLICY, policy), (LIMIT, limit)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

/// Rounded up.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_draft() {
        let mut headers = HeaderMap::new();
        let window = Duration::from_millis(2500);
        insert(&mut headers, &Allowance { setting: "throttle", burst: 50, window, remaining: 30 });
        assert_eq!(headers[POLICY], "\"throttle\";q=50;w=3");
        assert_eq!(headers[LIMIT], "\"throttle\";r=30;t=1");
    }
}
