//! Where metrics and spans are sent by OpenTelemetry's protocol (feature `otlp`).
use super::sent_header::SentHeader;
use http::Uri;
use std::{path::PathBuf, time::Duration};

/// The collector, and what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpSettings {
    /// Base URL: messages go to `v1/metrics` and `v1/traces` below it.
    pub endpoint: Uri,
    /// Share of the requests without a parent that are traced, in millionths.
    pub sample: u32,
    /// Between two messages with metrics.
    pub interval: Duration,
    /// Certificates of the authorities to trust, PEM.
    pub ca: Option<PathBuf>,
    /// Header fields of each message, for instance the credentials of a vendor.
    pub headers: Vec<SentHeader>,
}

/// Header fields that the protocol decides about.
pub(super) const FIXED_HEADERS: [&str; 3] = ["content-encoding", "content-type", "host"];

/// Whether this build can send anything.
pub(super) const IS_BUILT_IN: bool = cfg!(feature = "otlp");

/// The base URL of a collector, if the text is one.
pub(super) fn endpoint(text: &str) -> Option<Uri> {
    let url: Uri = text.parse().ok()?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let host = url.authority().filter(|authority| !authority.host().is_empty() && !authority.as_str().contains('@'));
    (is_http && host.is_some() && url.query().is_none()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_of_hosts() {
        for url in ["http://127.0.0.1:4318", "https://otel.example.com", "http://[::1]:4318/base/"] {
            assert!(endpoint(url).is_some(), "{url}");
        }
        for text in
            ["", "localhost:4318", "grpc://h:1", "http://", "http:///v1", "http://u:p@h:1", "http://h/?a=b", "/a"]
        {
            assert_eq!(endpoint(text), None, "{text}");
        }
    }
}
