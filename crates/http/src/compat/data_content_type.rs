//! The content type of `/data/{id}`.
use larder_source::CopyMetadataView;

const JSON: &[u8] = b"application/json";
const TEXT: &[u8] = b"text/plain; charset=utf-8";

/// What the source said the value is (`said`), else JSON if it begins and ends like an object or an
/// array, else text; and whether the source said nothing.
#[inline]
pub(crate) fn of<'e>(said: &'e [u8], value: &[u8]) -> (&'e [u8], bool) {
    let said = if said.is_empty() { None } else { CopyMetadataView::read(said).shown_type() };
    let is_json = || {
        let value = value.trim_ascii();
        matches!((value.first(), value.last()), (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')))
    };
    said.map_or_else(|| (if is_json() { JSON } else { TEXT }, true), |said| (said, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_source::CopyMetadata;

    #[test]
    fn the_source_knows_best() {
        let said = CopyMetadata { content_type: Some(b"image/png".as_slice().into()), ..CopyMetadata::default() };
        assert_eq!(of(&said.encode(), b"{}"), (&b"image/png"[..], false));
        let nothing = CopyMetadata { etag: Some(b"\"1\"".as_slice().into()), ..CopyMetadata::default() };
        for said in [&nothing.encode()[..], b""] {
            assert!([&b"{}"[..], b"[1]", b" {\"a\":1}\n"].iter().all(|value| of(said, value) == (JSON, true)));
            assert!(
                [&b""[..], b"abc", b"[note] all is well", b"1", b"{"]
                    .iter()
                    .all(|value| of(said, value) == (TEXT, true))
            );
        }
    }
}
