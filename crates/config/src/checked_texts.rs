//! Texts that are kept as they are once their form is checked.
use http::HeaderName;
use tokio_rustls::rustls::pki_types::ServerName;

pub(super) fn host_and_port(text: &str) -> Result<String, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_port = || port.parse::<u16>().is_ok_and(|port| port > 0);
    match !host.is_empty() && !text.contains(char::is_whitespace) && is_port() {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is not a host and port: write larder.example:6380")),
    }
}

pub(super) fn hostname(text: &str) -> Result<String, String> {
    match ServerName::try_from(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => Err(format!("`{text}` is not the name of a host")),
    }
}

/// In lower case.
pub(super) fn header_name(text: &str) -> Result<String, String> {
    match HeaderName::try_from(text) {
        Ok(name) => Ok(name.to_string()),
        Err(_) => Err(format!("`{text}` is not the name of a header")),
    }
}

/// A path that no other route begins with. GCache writes it without slashes around it.
pub(super) fn route_prefix(text: &str) -> Result<String, String> {
    let bare = text.trim_matches('/');
    let mut segments = bare.split('/');
    let is_plain = |segment: &str| {
        let is_unreserved = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        !segment.is_empty() && segment.bytes().all(is_unreserved) && !matches!(segment, "." | "..")
    };
    if !segments.clone().all(is_plain) {
        return Err(format!("`{text}` is not a path of letters, digits, `-`, `.`, `_` and `~`: write /cache/v1"));
    }
    match segments.next().filter(|first| RESERVED_SEGMENTS.contains(first)) {
        Some(first) => Err(format!("paths below /{first} belong to other routes: choose another, such as /cache/v1")),
        None => Ok(format!("/{bare}")),
    }
}

/// A path like that of [`route_prefix`], `/redis`, or `/`.
pub(super) fn redis_prefix(text: &str) -> Result<String, String> {
    match text.trim_matches('/') {
        _ if text.is_empty() => Err("`` is no path: write /redis, `/` or off".to_owned()),
        "" => Ok("/".to_owned()),
        "redis" => Ok("/redis".to_owned()),
        _ => route_prefix(text),
    }
}

/// First segments of the paths of other routes.
pub const RESERVED_SEGMENTS: [&str; 14] = [
    "redis",
    "_groupcache",
    "larder.peers.v1.Peers",
    "data",
    "docs",
    "healthz",
    "lookup",
    "metrics",
    "openapi.json",
    "problems",
    "readyz",
    "stats",
    "v0",
    "v1",
];
