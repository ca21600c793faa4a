//! From a key to the request target: the URL's path and query with the key, percent-encoded, in its
//! place.
use http::Uri;
use larder_config::OriginUrl;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// What is encoded: all but the unreserved characters (RFC 3986 section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The request target of a key.
///
/// # Errors
/// The key has no URL of its own.
pub(super) fn request_target(url: &OriginUrl, key: &[u8]) -> Result<Uri, String> {
    let OriginUrl { before_key, after_key, .. } = url;
    if key.is_empty() {
        return Err("the empty key has no URL: it would be that of all keys".to_owned());
    }
    let encoded = percent_encode(key, ENCODED);
    if is_dot_segment(before_key, key, after_key) {
        return Err(format!("the key `{encoded}` would be a step within the path, and not a name"));
    }
    let target = format!("{before_key}{encoded}{after_key}");
    let length = target.len();
    Uri::try_from(target).map_err(|error| format!("the key makes a URL of {length} bytes: {error}"))
}

/// Whether the key makes a segment `.` or `..`, with which it would name the folder or its parent
/// instead (RFC 3986 section 5.2.4). Its dots are unreserved, so that escapes would not help.
fn is_dot_segment(before_key: &str, key: &[u8], after_key: &str) -> bool {
    if key.len() > 2 || before_key.contains('?') {
        return false;
    }
    let before = before_key.rsplit('/').next().unwrap_or_default();
    let after = after_key.split(['/', '?']).next().unwrap_or_default();
    matches!(&[before.as_bytes(), key, after.as_bytes()].concat()[..], b"." | b"..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::SourceUrl;

    fn target(url: &str, key: &[u8]) -> Result<String, String> {
        let Ok(SourceUrl::Http(url)) = url.parse() else { panic!("{url}") };
        request_target(&url, key).map(|uri| uri.to_string())
    }

    #[test]
    fn a_key_is_one_segment_whatever_its_bytes() {
        let all: Vec<u8> = (0..=255).collect();
        for (key, expected) in [
            (&b"user:1"[..], "/v/user%3A1"),
            (b"a/b?c#d", "/v/a%2Fb%3Fc%23d"),
            (b"Az09-._~", "/v/Az09-._~"),
            (b"\x00 %+\xff", "/v/%00%20%25%2B%FF"),
            (b"...", "/v/..."),
        ] {
            assert_eq!(target("http://h/v/{key}", key), Ok(expected.to_owned()));
        }
        let encoded = target("http://h/v/{key}", &all).expect("a target");
        assert_eq!(*larder_proto::percent::decode(&encoded.as_bytes()[3..]), all);
        assert_eq!(target("http://h/?id={key}&v=1", b"a&b=c"), Ok("/?id=a%26b%3Dc&v=1".to_owned()));
    }

    #[test]
    fn a_key_without_a_url_of_its_own_is_refused() {
        // A `DELETE` of it would be one of the folder.
        for url in ["http://h/v/{key}", "http://h/v?id={key}", "http://h/v/x{key}"] {
            assert_eq!(
                target(url, b"").expect_err("no name"),
                "the empty key has no URL: it would be that of all keys"
            );
        }
        for key in [&b"."[..], b".."] {
            let error = target("http://h/v/{key}", key).expect_err("no name");
            assert!(error.contains("would be a step within the path"), "{error}");
            assert!(target("http://h/v/{key}?q", key).is_err() && target("http://h/v/{key}/w", key).is_err());
            assert!(target("http://h/v/x{key}", key).is_ok() && target("http://h/v?id={key}", key).is_ok());
        }
        assert!(target("http://h/v/.{key}", b".").is_err());
        assert!(target("http://h/v/.{key}", b"").is_err());
        let error = target("http://h/{key}", &[0; 30_000]).expect_err("too long");
        assert_eq!(error, "the key makes a URL of 90001 bytes: uri too long");
    }
}
