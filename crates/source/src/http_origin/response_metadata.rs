//! What is kept of a response besides its body: content type, validators, bounds of staleness,
//! tags.
use super::response_freshness::{CDN_CACHE_CONTROL, ResponseFreshness, date};
use crate::copy_metadata::{CopyMetadata, LONGEST};
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Tags of one response. One that has more is not kept: to clear by a tag that was dropped would
/// miss it.
const MOST_TAGS: usize = 128;
/// Bytes of one tag; likewise.
const LONGEST_TAG: usize = 1024;
const CACHE_TAG: HeaderName = HeaderName::from_static("cache-tag");
const SURROGATE_KEY: HeaderName = HeaderName::from_static("surrogate-key");

/// The metadata; `None` if the response cannot be kept because of it.
pub(super) fn metadata(headers: &HeaderMap, freshness: &ResponseFreshness) -> Option<CopyMetadata> {
    let list = |name| lines(headers, name).filter(|_| freshness.is_shared);
    let (cache_control, cdn_cache_control) = (list(header::CACHE_CONTROL), list(CDN_CACHE_CONTROL));
    // What they forbid would be forgotten.
    if [&cache_control, &cdn_cache_control].into_iter().flatten().any(|text| text.len() > LONGEST) {
        return None;
    }
    let text = |name| headers.get(name).map(|value: &HeaderValue| Box::<[u8]>::from(value.as_bytes()));
    // A value without a content type is given back as this.
    let is_plain = |value: &[u8]| value.eq_ignore_ascii_case(b"application/octet-stream");
    Some(CopyMetadata {
        content_type: text(header::CONTENT_TYPE).filter(|value| !is_plain(value)),
        etag: text(header::ETAG),
        last_modified: text(header::LAST_MODIFIED),
        cache_control,
        cdn_cache_control,
        date: text(header::DATE).filter(|_| date(headers, &header::DATE).is_some()),
        expires: text(header::EXPIRES),
        born: Some(freshness.born),
        max_age: None,
        stale_while_revalidate: freshness.stale_while_revalidate,
        stale_if_error: freshness.stale_if_error,
        fetch_duration: None,
        gone_at: None,
        is_not_kept: false,
        tags: tags(headers)?,
        is_document: false,
        client: Default::default(),
    })
}

/// All lines of a field, as one list.
fn lines(headers: &HeaderMap, name: HeaderName) -> Option<Box<[u8]>> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]).into())
}

/// `Cache-Tag: a,b` and `Surrogate-Key: a b`.
fn tags(headers: &HeaderMap) -> Option<Vec<Box<[u8]>>> {
    let mut tags: Vec<Box<[u8]>> = Vec::new();
    let by_comma = headers.get_all(CACHE_TAG).into_iter().flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    let by_space =
        headers.get_all(SURROGATE_KEY).into_iter().flat_map(|line| line.as_bytes().split(u8::is_ascii_whitespace));
    for tag in by_comma.chain(by_space).map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty()) {
        if tags.iter().any(|known| **known == *tag) {
            continue;
        }
        if tags.len() == MOST_TAGS || tag.len() > LONGEST_TAG {
            return None;
        }
        tags.push(tag.into());
    }
    Some(tags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy_metadata::FreshUntil;

    fn of(fields: &[(&'static str, &str)]) -> Option<CopyMetadata> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a value"));
        }
        let (stale_while_revalidate, stale_if_error) = (Some(1), None);
        let (fresh, born, is_shared) = (FreshUntil::Policy, 7, true);
        metadata(&headers, &ResponseFreshness { fresh, born, is_shared, stale_while_revalidate, stale_if_error })
    }

    #[test]
    fn headers_that_are_kept() {
        let found = of(&[
            ("content-type", "application/json"),
            ("etag", "W/\"a\""),
            ("last-modified", "yesterday"),
            ("cache-tag", "a, b c,,"),
            ("Cache-Tag", "d,a"),
            ("surrogate-key", " e  f "),
        ])
        .expect("metadata");
        assert_eq!(found.content_type.as_deref(), Some(&b"application/json"[..]));
        assert_eq!(
            (found.etag.as_deref(), found.last_modified.as_deref()),
            (Some(&b"W/\"a\""[..]), Some(&b"yesterday"[..]))
        );
        assert_eq!((found.stale_while_revalidate, found.stale_if_error), (Some(1), None));
        let tags: Vec<&[u8]> = found.tags.iter().map(|tag| &**tag).collect();
        assert_eq!(tags, [&b"a"[..], b"b c", b"d", b"e", b"f"]);
        let plain = of(&[("content-type", "application/octet-stream")]).expect("metadata");
        assert_eq!((plain.content_type, plain.tags), (None, Vec::new()));
    }

    #[test]
    fn more_tags_than_can_be_kept_keep_the_response_out() {
        let many = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        assert_eq!(of(&[("cache-tag", &many(128))]).expect("metadata").tags.len(), 128);
        assert_eq!(of(&[("cache-tag", &many(129))]), None);
        assert_eq!(of(&[("surrogate-key", &"x".repeat(1025))]), None);
    }
}
