//! The header fields of every request: Larder's own, and those of `source-headers`.
use http::{HeaderMap, HeaderValue, header};
use larder_config::{OriginOptions, read_headers};

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("larder/", env!("CARGO_PKG_VERSION")));

/// The fields; those of the settings replace Larder's own of the same name.
///
/// # Errors
/// A text that names the file at fault.
pub(super) fn build(options: &OriginOptions) -> Result<HeaderMap, String> {
    let mut headers = read_headers("source-headers", &options.headers)?;
    headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::{SentHeader, SentValue};

    #[test]
    fn settings_replace_what_larder_sends() {
        let mine = SentHeader { name: "user-agent".into(), value: SentValue::Text("mine".into()) };
        let headers = build(&OriginOptions { headers: vec![mine], ..OriginOptions::default() }).expect("headers");
        assert_eq!(
            (&headers["user-agent"], &headers["accept-encoding"]),
            (&"mine".parse().unwrap(), &"identity".parse().unwrap())
        );
    }
}
