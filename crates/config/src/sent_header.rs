//! A header field that is sent with each request to an HTTP API: `Name: value`, or `Name: @FILE`
//! for what must not be in a command line.
use super::secret::Secret;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// Fields that belong to the connection, the message or the cache.
const OURS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "proxy-connection",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// A header field that is sent with each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentHeader {
    /// Its name, in lower case.
    pub name: String,
    /// Its value.
    pub value: SentValue,
}

/// Where the value of a field is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentValue {
    /// Here; it may be a secret, so it is not shown.
    Text(Secret),
    /// In this file, without the line end.
    File(PathBuf),
}

impl SentHeader {
    /// Reads `Name: value` or `Name: @FILE`.
    pub(super) fn parse(text: &str) -> Result<SentHeader, String> {
        // The value never appears in an error: it may be a secret.
        let (name, value) = text.split_once(':').ok_or("write `Name: value` or `Name: @FILE`")?;
        let name = HeaderName::try_from(name.trim()).map_err(|_| format!("`{name}` is not the name of a header"))?;
        if OURS.contains(&name.as_str()) {
            return Err(format!("Larder itself decides about `{name}`"));
        }
        let name = name.as_str().to_owned();
        let value = match value.trim() {
            "" | "@" => return Err(format!("`{name}` has no value: write `{name}: value` or `{name}: @FILE`")),
            value => match value.strip_prefix('@') {
                Some(file) => SentValue::File(file.into()),
                None if HeaderValue::try_from(value).is_err() => {
                    return Err(format!("the value of `{name}` has characters that a header cannot have"));
                }
                None => SentValue::Text(value.into()),
            },
        };
        Ok(SentHeader { name, value })
    }
}

/// Without the value, unless it is the name of a file.
impl fmt::Display for SentHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            SentValue::Text(_) => write!(f, "{}: ***", self.name),
            SentValue::File(file) => write!(f, "{}: @{}", self.name, file.display()),
        }
    }
}

/// The fields of this setting with their values, which are marked as sensitive.
///
/// # Errors
/// A text that names the setting, the field, and the file at fault.
pub fn read_headers(setting: &str, fields: &[SentHeader]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for SentHeader { name, value } in fields {
        let at_fault = |reason: &str| format!("{setting}: {name}: {reason}");
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
    fn a_name_and_a_value_that_is_not_shown() {
        let shown = |text: &str| SentHeader::parse(text).map(|header| (header.to_string(), format!("{header:?}")));
        let (text, debug) = shown("Authorization:  Bearer hunter2 ").expect("a header");
        assert_eq!(text, "authorization: ***");
        assert!(!debug.contains("hunter2"), "{debug}");
        assert_eq!(shown("X-Key: @/run/a: b").expect("a header").0, "x-key: @/run/a: b");
        assert_eq!(SentHeader::parse("x-key: a:b").map(|header| header.value), Ok(SentValue::Text("a:b".into())));
        for (text, expected) in [
            ("hunter2", "write `Name: value`"),
            (": hunter2", "`` is not the name of a header"),
            ("x y: hunter2", "`x y` is not the name of a header"),
            ("x: ", "`x` has no value"),
            ("x: @", "`x` has no value"),
            ("x: hunter2\n", "`x`"),
            ("x: a\u{7f}", "the value of `x` has characters"),
            ("Content-Length: 5", "Larder itself decides about `content-length`"),
            ("Range: bytes=0-1", "Larder itself decides"),
        ] {
            match SentHeader::parse(text) {
                Err(error) => assert!(error.contains(expected) && !error.contains("hunter2"), "{text}: {error}"),
                Ok(header) => assert_eq!((text, &*header.to_string()), ("x: hunter2\n", "x: ***")),
            }
        }
    }

    #[test]
    fn files_lose_their_line_end_and_values_are_not_shown() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            SentHeader { name: "x-key".into(), value: SentValue::File(path) }
        };
        let second = SentHeader { name: "x-key".into(), value: SentValue::Text("second".into()) };
        let headers = read_headers("source-headers", &[file("key", b"hunter2\r\n"), second]).expect("headers");
        assert_eq!(headers.get_all("x-key").iter().collect::<Vec<_>>(), ["hunter2", "second"]);
        assert!(!format!("{headers:?}").contains("hunter2"));
        for (header, expected) in [
            (file("empty", b"\n"), "it is empty"),
            (file("binary", b"a\0"), "it has characters that a header cannot have"),
            (SentHeader { name: "x-key".into(), value: SentValue::File("/nowhere".into()) }, "/nowhere: "),
        ] {
            let error = read_headers("otlp-headers", &[header]).expect_err("a file that will not do");
            assert!(error.starts_with("otlp-headers: x-key: ") && error.contains(expected), "{error}");
        }
    }
}
