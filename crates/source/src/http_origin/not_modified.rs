//! What a 304 says about the copy that was asked about (RFC 9111, 4.3.4).
use super::response_freshness::CDN_CACHE_CONTROL;
use crate::copy_metadata::Validators;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Whether a 304 is about another value than the copy: its tag differs, or its date where it has no
/// tag. The copy must then be fetched whole.
pub(super) fn names_other_value(headers: &HeaderMap, held: &Validators) -> bool {
    let said = |name: HeaderName| headers.get(name).map(HeaderValue::as_bytes);
    match (said(header::ETAG), said(header::LAST_MODIFIED), held.last_modified.as_deref()) {
        (Some(tag), _, _) => held.etag.as_deref().map(opaque) != Some(opaque(tag)),
        (None, Some(modified), Some(held)) => modified != held,
        (None, _, _) => false,
    }
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Adds the fields of the copy that a 304 does not replace.
pub(super) fn add_held(headers: &mut HeaderMap, held: &Validators) {
    let fields = [
        (header::ETAG, &held.etag),
        (header::LAST_MODIFIED, &held.last_modified),
        (header::CACHE_CONTROL, &held.cache_control),
        (CDN_CACHE_CONTROL, &held.cdn_cache_control),
        (header::EXPIRES, &held.expires),
    ];
    for (name, value) in fields {
        if !headers.contains_key(&name)
            && let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_bytes(value).ok())
        {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(etag: Option<&str>, last_modified: Option<&str>) -> Validators {
        let text = |text: Option<&str>| text.map(|text| Box::from(text.as_bytes()));
        Validators {
            etag: text(etag),
            last_modified: text(last_modified),
            cache_control: text(Some("max-age=60, must-revalidate")),
            cdn_cache_control: None,
            expires: None,
        }
    }
    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn another_validator_is_another_value() {
        for (said, etag, modified, expected) in [
            (&[][..], Some("\"a\""), None, false),
            (&[("etag", "\"a\"")], Some("\"a\""), None, false),
            (&[("etag", "\"b\"")], Some("\"a\""), None, true),
            (&[("etag", "W/\"a\"")], Some("\"a\""), None, false),
            (&[("etag", "W/\"b\"")], Some("W/\"a\""), None, true),
            (&[("etag", "\"a\"")], None, Some("x"), true),
            (&[("etag", "\"a\""), ("last-modified", "y")], Some("\"a\""), Some("x"), false),
            (&[("last-modified", "y")], None, Some("x"), true),
            (&[("last-modified", "x")], None, Some("x"), false),
            (&[("last-modified", "y")], Some("\"a\""), None, false),
        ] {
            assert_eq!(
                names_other_value(&headers(said), &held(etag, modified)),
                expected,
                "{said:?} {etag:?} {modified:?}"
            );
        }
    }

    #[test]
    fn fields_of_the_copy_stay_unless_the_answer_has_them() {
        let mut kept = headers(&[("date", "d")]);
        add_held(&mut kept, &held(Some("\"a\""), None));
        assert_eq!(
            kept,
            headers(&[("date", "d"), ("etag", "\"a\""), ("cache-control", "max-age=60, must-revalidate")])
        );
        let mut replaced = headers(&[("cache-control", "no-store")]);
        add_held(&mut replaced, &held(None, None));
        assert_eq!(replaced, headers(&[("cache-control", "no-store")]));
    }
}
