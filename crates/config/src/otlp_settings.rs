//! Where metrics and spans are sent by OpenTelemetry's protocol (feature `otlp`).
use super::{sent_header::SentHeader, url_parts::decode};
use http::Uri;
use std::path::PathBuf;

/// The collector, and what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Base URL: messages go to `v1/metrics` and `v1/traces` below it.
    pub endpoint: Uri,
    /// Share of the requests without a parent that are traced, in millionths.
    pub sample: u32,
    /// Certificates of the authorities to trust, PEM.
    pub ca: Option<PathBuf>,
    /// Header fields of each message, for instance the credentials of a vendor.
    pub headers: Vec<SentHeader>,
    /// Attributes of the resource, by name. The last one of a name counts.
    pub attributes: Vec<(String, String)>,
}

/// Header fields that the protocol decides about.
pub(super) const FIXED_HEADERS: [&str; 3] = ["content-encoding", "content-type", "host"];

/// Whether this build can send anything.
pub(super) const IS_BUILT_IN: bool = cfg!(feature = "otlp");

/// The base URL of a collector and the file of its authorities, if the text is `http://HOST:PORT` or
/// `https://HOST:PORT[?ca=FILE]`.
pub(super) fn endpoint(text: &str) -> Option<(Uri, Option<PathBuf>)> {
    let (base, query) = text.split_once('?').unwrap_or((text, ""));
    let url: Uri = base.parse().ok()?;
    let host = url.authority().filter(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    let ca = query.strip_prefix("ca=").map(|file| decode(file, "ca")).transpose().ok()?.map(PathBuf::from);
    let is_right = match url.scheme_str() {
        Some("http") => base == text,
        Some("https") => base == text || ca.is_some(),
        _ => false,
    };
    (is_right && host.is_some()).then_some((url, ca))
}

/// Reads `NAME=VALUE`, as OpenTelemetry's variable `OTEL_RESOURCE_ATTRIBUTES` has it: the value may
/// have percent escapes.
pub(super) fn resource_attribute(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').map(|(name, value)| (name.trim(), value.trim())).unwrap_or_default();
    if name.is_empty() {
        return Err(format!("`{text}` is not an attribute: write deployment.environment.name=production"));
    }
    Ok((name.to_owned(), decode(value, "value of the attribute")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_of_hosts() {
        for url in ["http://127.0.0.1:4318", "https://otel.example.com", "http://[::1]:4318/base/"] {
            assert!(endpoint(url).is_some(), "{url}");
        }
        let (url, ca) = endpoint("https://h:1/base?ca=/a%20b.pem").expect("a collector");
        assert_eq!((url.to_string().as_str(), ca), ("https://h:1/base", Some("/a b.pem".into())));
        for text in [
            "",
            "localhost:4318",
            "grpc://h:1",
            "http://",
            "http:///v1",
            "http://u:p@h:1",
            "http://h/?a=b",
            "http://h?ca=f",
            "https://h?a=b",
            "/a",
        ] {
            assert_eq!(endpoint(text), None, "{text}");
        }
    }

    #[test]
    fn attributes_are_names_with_values() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(resource_attribute("a.b=c d"), pair("a.b", "c d"));
        assert_eq!(resource_attribute(" a = b=c%2C%20d "), pair("a", "b=c, d"));
        assert_eq!(resource_attribute("a="), pair("a", ""));
        for wrong in ["a", "=b", "a=%ff"] {
            assert!(resource_attribute(wrong).is_err(), "{wrong}");
        }
    }
}
