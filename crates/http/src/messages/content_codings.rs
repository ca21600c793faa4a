//! Content codings (RFC 9110, 8.4): which of them a client accepts, and a value without its coding
//! for other clients.
use bytes::Bytes;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use larder_source::{SourceError, ValueChunks, ValueStream};
use std::{
    io::{self, Write},
    mem,
    task::{Context, Poll, ready},
};

/// Bytes that are decoded at a time: at most about a mebibyte comes of them.
const AT_ONCE: usize = 1024;

/// Whether a client with this `Accept-Encoding` accepts all the codings of a `Content-Encoding`. It
/// must name them: clients that say nothing seldom decode.
pub(crate) fn accepts(accept_encoding: &[u8], codings: &[u8]) -> bool {
    codings.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).all(|coding| {
        let listed = |name: &[u8]| {
            let mut members = accept_encoding.split(|&byte| byte == b',').filter_map(|member| {
                let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
                let is_named = parts.next().is_some_and(|named| is_same(named, name));
                is_named.then(|| !parts.any(is_zero))
            });
            members.next()
        };
        is_same(coding, b"identity") || listed(coding).or_else(|| listed(b"*")).unwrap_or(false)
    })
}

/// `x-gzip` is `gzip` (RFC 9110, 8.4.1.3).
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let plain = |name: &[u8]| if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip".to_vec() } else { name.to_vec() };
    plain(one).eq_ignore_ascii_case(&plain(other))
}

/// `q=0`, `q=0.000`
fn is_zero(weight: &[u8]) -> bool {
    let value = match weight {
        [b'q' | b'Q', b'=', value @ ..] => value,
        _ => return false,
    };
    value.starts_with(b"0") && value.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

/// The value as a client with this `Accept-Encoding` gets it: encoded if the client accepts that,
/// else decoded.
///
/// # Errors
/// `Refused` for a coding that Larder cannot decode.
pub(crate) fn for_client(mut value: ValueStream, accept_encoding: &[u8]) -> Result<ValueStream, SourceError> {
    let Some(codings) = value.encoding.as_deref().filter(|codings| !accepts(accept_encoding, codings)) else {
        return Ok(value);
    };
    let decoder = match codings {
        codings if is_same(codings, b"gzip") => Decoder::Gzip(MultiGzDecoder::new(Vec::new())),
        codings if codings.eq_ignore_ascii_case(b"deflate") => Decoder::Deflate(ZlibDecoder::new(Vec::new())),
        other => {
            let other = other.escape_ascii();
            let text = format!("ERR the source's value is encoded as `{other}`, which the client does not accept");
            return Err(SourceError::Refused(text.into()));
        }
    };
    // A strong tag is that of the encoded bytes.
    if let Some(tag) = value.metadata.etag.as_mut().filter(|tag| !tag.starts_with(b"W/")) {
        *tag = [b"W/", &**tag].concat().into();
    }
    value.len = None;
    value.encoding = Some((*b"identity").into());
    value.chunks = Box::new(DecodedChunks { chunks: value.chunks, decoder, input: Bytes::new(), has_ended: false });
    Ok(value)
}

enum Decoder {
    Gzip(MultiGzDecoder<Vec<u8>>),
    Deflate(ZlibDecoder<Vec<u8>>),
}
impl Decoder {
    /// What comes of these bytes; of none, what is left at the end.
    fn decode(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Decoder::Gzip(decoder) if bytes.is_empty() => decoder.try_finish()?,
            Decoder::Gzip(decoder) => decoder.write_all(bytes)?,
            Decoder::Deflate(decoder) if bytes.is_empty() => decoder.try_finish()?,
            Decoder::Deflate(decoder) => decoder.write_all(bytes)?,
        }
        Ok(mem::take(match self {
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Deflate(decoder) => decoder.get_mut(),
        }))
    }
}

struct DecodedChunks {
    chunks: Box<dyn ValueChunks>,
    decoder: Decoder,
    input: Bytes,
    has_ended: bool,
}
impl ValueChunks for DecodedChunks {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>> {
        loop {
            if self.input.is_empty() {
                match (self.has_ended, &mut self.chunks) {
                    (true, _) => return Poll::Ready(None),
                    (false, chunks) => match ready!(chunks.poll_chunk(context)) {
                        Some(Ok(bytes)) if bytes.is_empty() => continue,
                        Some(Ok(bytes)) => self.input = bytes,
                        Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                        None => self.has_ended = true,
                    },
                }
            }
            let piece = self.input.split_to(AT_ONCE.min(self.input.len()));
            match self.decoder.decode(&piece) {
                Ok(decoded) if decoded.is_empty() => {}
                Ok(decoded) => return Poll::Ready(Some(Ok(decoded.into()))),
                Err(error) => {
                    let text = format!("the source's value cannot be decoded: {error}");
                    return Poll::Ready(Some(Err(SourceError::Unavailable(text.into()))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder, write::ZlibEncoder};
    use larder_source::{CopyMetadata, FreshUntil};
    use std::task::Waker;

    #[test]
    fn what_a_client_accepts() {
        for (accept, codings, expected) in [
            ("gzip", "gzip", true),
            ("GZIP;q=0.5, br", "gzip", true),
            ("x-gzip", "gzip", true),
            ("deflate, gzip;q=1.0, *;q=0.5", "br", true),
            ("*", "zstd", true),
            ("*;q=0", "gzip", false),
            ("gzip;q=0, *", "gzip", false),
            ("gzip; q=0.000", "gzip", false),
            ("gzip", "gzip, br", false),
            ("gzip, br", "gzip, br", true),
            ("identity", "gzip", false),
            ("", "gzip", false),
            ("", "identity", true),
            ("gzipped", "gzip", false),
        ] {
            assert_eq!(accepts(accept.as_bytes(), codings.as_bytes()), expected, "{accept} {codings}");
        }
    }

    /// The bytes in pieces of this size.
    struct Pieces(Bytes, usize);
    impl ValueChunks for Pieces {
        fn poll_chunk(&mut self, _context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>> {
            let len = self.1.min(self.0.len());
            Poll::Ready((len > 0).then(|| Ok(self.0.split_to(len))))
        }
    }
    fn given(bytes: &[u8], piece: usize, codings: &str, accept: &str) -> Result<Vec<u8>, SourceError> {
        let value = ValueStream {
            len: Some(bytes.len() as u64),
            fresh: FreshUntil::Policy,
            metadata: CopyMetadata::default(),
            encoding: Some(codings.as_bytes().into()),
            chunks: Box::new(Pieces(Bytes::copy_from_slice(bytes), piece)),
        };
        let mut value = for_client(value, accept.as_bytes())?;
        let mut all = Vec::new();
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(chunk)) = value.chunks.poll_chunk(&mut context) {
            let chunk = chunk?;
            assert!(chunk.len() < 2 << 20, "a piece of {} bytes", chunk.len());
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }

    #[test]
    fn a_value_is_decoded_for_a_client_that_does_not_accept_it() {
        // Most of it is very small when it is encoded.
        let plain = [&b"first"[..], &vec![b'x'; 8 << 20], b"last"].concat();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&plain).expect("memory");
        let gzip = gzip.finish().expect("memory");
        let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
        deflate.write_all(&plain).expect("memory");
        let deflate = deflate.finish().expect("memory");
        for piece in [1, 7, 1 << 20] {
            assert!(given(&gzip, piece, "gzip", "").expect("decoded") == plain);
            assert!(given(&deflate, piece, "Deflate", "identity").expect("decoded") == plain);
            assert!(given(&gzip, piece, "gzip", "gzip").expect("as it is") == gzip);
        }
        assert!(given(&gzip[..gzip.len() - 9], 100, "gzip", "").is_err(), "cut");
        assert!(given(b"no gzip", 100, "gzip", "").is_err());
        assert!(given(b"any", 100, "br", "gzip").is_err(), "unknown here");
    }
}
