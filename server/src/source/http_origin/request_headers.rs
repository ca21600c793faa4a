//! The header fields of every request: Larder's own, and those of `source-headers`.
use crate::config::{OriginOptions, SentHeader, SentValue};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use std::path::Path;

const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("larder/", env!("CARGO_PKG_VERSION")));

/// The fields; those of the settings replace Larder's own of the same name.
///
/// # Errors
/// A text that names the file at fault.
pub(super) fn build(options: &OriginOptions) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for SentHeader { name, value } in &options.headers {
        let at_fault = |reason: &str| format!("source-headers: {name}: {reason}");
        let mut value = match value {
            SentValue::Text(text) => {
                HeaderValue::from_str(text).map_err(|_| at_fault("it is not a valid header value"))?
            }
            SentValue::File(file) => from_file(file).map_err(|reason| at_fault(&reason))?,
        };
        value.set_sensitive(true);
        let name = HeaderName::try_from(name.as_str()).map_err(|_| at_fault("it is not a valid header name"))?;
        headers.append(name, value);
    }
    headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(headers)
}

/// What the file holds, without the line end.
fn from_file(file: &Path) -> Result<HeaderValue, String> {
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = text.trim_ascii_end();
    match HeaderValue::from_bytes(text) {
        Ok(value) if !text.is_empty() => Ok(value),
        Ok(_) => Err(format!("{}: it is empty", file.display())),
        Err(_) => Err(format!("{}: it has characters that a header cannot have", file.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_replace_what_larder_sends_and_files_lose_their_line_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            SentHeader { name: "x-key".into(), value: SentValue::File(path) }
        };
        let options = |headers| OriginOptions { headers, ..OriginOptions::default() };
        let text = |name: &str, text: &str| SentHeader { name: name.into(), value: SentValue::Text(text.into()) };
        let headers =
            build(&options(vec![file("key", b"hunter2\r\n"), text("user-agent", "mine"), text("x-key", "second")]))
                .expect("headers");
        assert_eq!(headers.get_all("x-key").iter().collect::<Vec<_>>(), ["hunter2", "second"]);
        assert_eq!(
            (&headers["user-agent"], &headers["accept-encoding"]),
            (&"mine".parse().unwrap(), &"identity".parse().unwrap())
        );
        assert!(!format!("{headers:?}").contains("hunter2"));
        for (header, expected) in [
            (file("empty", b"\n"), "it is empty"),
            (file("binary", b"a\0"), "it has characters that a header cannot have"),
            (SentHeader { name: "x-key".into(), value: SentValue::File("/nowhere".into()) }, "/nowhere: "),
        ] {
            let error = build(&options(vec![header])).expect_err("a file that will not do");
            assert!(error.starts_with("source-headers: x-key: ") && error.contains(expected), "{error}");
        }
    }
}
