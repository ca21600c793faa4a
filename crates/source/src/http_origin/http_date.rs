//! Dates in header fields (RFC 9110, 5.6.7).
use larder_engine::Millis;
use std::time::UNIX_EPOCH;

/// The moment that a date names; `None` if it is none, or is before 1970.
pub(super) fn parse_date(text: &str) -> Option<Millis> {
    let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(at.as_millis() as Millis)
}
