//! Response bodies: counted bytes, and values that are written as JSON or base64 while they are
//! sent.
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use larder_base::buffers::BufferCharge;
use larder_proto::http::{json, text::Sink};
use larder_source::{SourceError, ValueChunks, ValueStream};
use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// A body that is read page by page while it is sent.
pub(crate) trait Pages {
    /// The next page; `None` at the end. After an error there is no more.
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseBody>, SourceError>>;
}

/// A body in pieces, sent in order. A large value is encoded a window at a time, when there is room
/// to send it.
#[derive(Default)]
pub(crate) struct ResponseBody {
    /// The first piece, so that a body of one piece needs no queue.
    first: Option<Piece>,
    rest: VecDeque<Piece>,
    /// Bytes left to send; `None` if that would have to be counted through too much.
    left: Option<u64>,
    /// Produces more pieces when these are sent.
    pages: Option<Box<dyn Pages>>,
    /// It ends with its client.
    is_endless: bool,
    /// All of it, with the trailers at its end.
    frames: Option<tonic::body::Body>,
    /// For a long text.
    _charge: Option<BufferCharge>,
}

#[derive(Debug)]
enum Piece {
    Raw(Bytes),
    /// Handed out as it is.
    Chunk(Bytes),
    /// The inside of a JSON string.
    Json(Bytes),
    Base64(Bytes),
}

/// Bytes encoded at a time; a multiple of 3, so that base64 windows need no padding.
const WINDOW: usize = 48 * 1024;
/// Bytes handed out at a time, though they need no encoding: the server sees that a client stopped
/// taking them when hyper asks for no more.
const PART: usize = 256 * 1024;
/// Capacity that a text may have to spare while it waits.
const SPARE: usize = 4096;
/// Pieces of at least this length are parts of values; no text that is made here is as long.
pub(crate) const REFERENCE: usize = 2 * WINDOW;
/// Values larger than this are not read through just to know how long they are as JSON: HTTP/1.1
/// sends such a body in chunks.
const COUNTED: usize = 1 << 20;

impl ResponseBody {
    pub(crate) fn empty() -> ResponseBody {
        ResponseBody { left: Some(0), ..ResponseBody::default() }
    }

    pub(crate) fn full(bytes: impl Into<Bytes>) -> ResponseBody {
        let mut body = ResponseBody::empty();
        let bytes = bytes.into();
        let len = bytes.len();
        body.add(Piece::Raw(bytes), Some(len));
        body
    }

    /// These pieces; HTTP/1.1 sends each as a chunk of its own.
    pub(crate) fn chunks(chunks: impl Iterator<Item = Bytes>) -> ResponseBody {
        ResponseBody { rest: chunks.map(Piece::Chunk).collect(), ..ResponseBody::default() }
    }

    /// The first page, which has been read, and those that follow.
    pub(crate) fn paged(first: Option<ResponseBody>, pages: impl Pages + 'static) -> ResponseBody {
        ResponseBody { left: None, pages: Some(Box::new(pages)), ..first.unwrap_or_default() }
    }

    /// Pages for as long as the client listens.
    pub(crate) fn endless(first: ResponseBody, pages: impl Pages + 'static) -> ResponseBody {
        ResponseBody { is_endless: true, ..ResponseBody::paged(Some(first), pages) }
    }

    /// Whether how long it takes says nothing.
    pub(crate) fn is_endless(&self) -> bool {
        self.is_endless
    }

    pub(crate) fn streamed(value: ValueStream) -> ResponseBody {
        ResponseBody { left: value.len, pages: Some(Box::new(PassingValue(value.chunks))), ..ResponseBody::default() }
    }

    pub(crate) fn framed(frames: tonic::body::Body) -> ResponseBody {
        ResponseBody { frames: Some(frames), ..ResponseBody::default() }
    }

    fn add(&mut self, piece: Piece, len: Option<usize>) {
        self.left = self.left.zip(len).map(|(left, len)| left + len as u64);
        if self.first.is_none() && self.rest.is_empty() {
            self.first = Some(piece);
        } else {
            self.rest.push_back(piece);
        }
    }

    /// Length of what is left to send, if known.
    pub(crate) fn left(&self) -> Option<u64> {
        self.left
    }

    /// The next bytes that are here to be sent; never empty. More may follow: see
    /// [`poll_more`](ResponseBody::poll_more).
    pub(crate) fn next(&mut self) -> Option<Bytes> {
        loop {
            let piece = match self.first.take() {
                Some(piece) => piece,
                None => self.rest.pop_front()?,
            };
            let bytes = match piece {
                Piece::Raw(mut bytes) => {
                    let part = bytes.split_to(bytes.len().min(PART));
                    if !bytes.is_empty() {
                        self.first = Some(Piece::Raw(bytes));
                    }
                    part
                }
                Piece::Chunk(bytes) => bytes,
                Piece::Json(mut value) => {
                    let end = match value.len() {
                        len if len <= WINDOW => len,
                        _ => json::splittable(&value[..WINDOW]),
                    };
                    let window = value.split_to(end);
                    if !value.is_empty() {
                        self.first = Some(Piece::Json(value));
                    }
                    let mut text = Vec::with_capacity(window.len() + window.len() / 8);
                    json::write_escaped(&mut text, &window);
                    text.into()
                }
                Piece::Base64(mut value) => {
                    let window = value.split_to(value.len().min(WINDOW));
                    if !value.is_empty() {
                        self.first = Some(Piece::Base64(value));
                    }
                    BASE64_STANDARD.encode(&window).into()
                }
            };
            self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
            if !bytes.is_empty() {
                return Some(bytes);
            }
        }
    }
}

impl ResponseBody {
    /// When all that was here is sent: whether there is more now, or the end is reached.
    pub(crate) fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, SourceError>> {
        let Some(pages) = &mut self.pages else { return Poll::Ready(Ok(false)) };
        let page = ready!(pages.poll_page(cx));
        if !matches!(page, Ok(Some(_))) {
            self.pages = None;
        }
        Poll::Ready(page.map(|page| match page {
            Some(page) => {
                (self.first, self.rest) = (page.first, page.rest);
                true
            }
            None => false,
        }))
    }
}

struct PassingValue(Box<dyn ValueChunks>);
impl Pages for PassingValue {
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseBody>, SourceError>> {
        let chunk = ready!(self.0.poll_chunk(cx)).transpose();
        Poll::Ready(chunk.map(|chunk| chunk.map(ResponseBody::full)))
    }
}

/// Composes a body of text with values in it: small values are encoded at once, large ones when
/// they are sent.
pub(crate) struct BodyWriter {
    text: Vec<u8>,
    /// Bytes of text before that.
    texts: usize,
    /// Bytes that are linked.
    links: usize,
    body: ResponseBody,
}

impl BodyWriter {
    /// An empty body, with room for this much text.
    pub(crate) fn with_capacity(bytes: usize) -> BodyWriter {
        BodyWriter { text: Vec::with_capacity(bytes), texts: 0, links: 0, body: ResponseBody::empty() }
    }

    /// Appends a JSON string: `value` with invalid UTF-8 replaced.
    pub(crate) fn put_json(&mut self, value: Bytes) {
        if value.len() <= WINDOW {
            json::write(&mut self.text, &value);
            self.cut_long();
            return;
        }
        self.put(b"\"");
        let len = (value.len() <= COUNTED).then(|| json::len(&value) - 2);
        self.link(Piece::Json(value), len);
        self.put(b"\"");
    }

    /// Appends base64 (RFC 4648 section 4, padded).
    pub(crate) fn put_base64(&mut self, value: Bytes) {
        if value.len() <= WINDOW {
            self.text.extend_from_slice(BASE64_STANDARD.encode(&value).as_bytes());
            return;
        }
        let len = value.len().div_ceil(3) * 4;
        self.link(Piece::Base64(value), Some(len));
    }

    /// Appends bytes as JSON without losing any: a string if they are UTF-8, otherwise
    /// `{"base64":"…"}`.
    pub(crate) fn put_json_or_base64(&mut self, bytes: Bytes) {
        if std::str::from_utf8(&bytes).is_ok() {
            self.put_json(bytes);
        } else {
            self.put(b"{\"base64\":\"");
            self.put_base64(bytes);
            self.put(b"\"}");
        }
    }

    /// Appends bytes as they are; many are not copied.
    pub(crate) fn put_bytes(&mut self, value: Bytes) {
        match value.len() {
            len if len <= WINDOW => self.put(&value),
            len => self.link(Piece::Raw(value), Some(len)),
        }
    }

    pub(crate) fn text(&self) -> usize {
        self.texts + self.text.len()
    }

    /// Charges all bytes so far, of which those that are linked were made for this body. False: the
    /// buffers have no room for them.
    pub(crate) fn charge_all(&self, charge: &mut BufferCharge) -> bool {
        /// Bytes between two updates of the account.
        const STEP: usize = 256 * 1024;
        let bytes = self.text() + self.links;
        bytes <= charge.bytes() || charge.try_resize(bytes + STEP)
    }

    /// The body, with what its text is on the account.
    pub(crate) fn finish_charged(self, charge: BufferCharge) -> ResponseBody {
        ResponseBody { _charge: Some(charge), ..self.finish() }
    }

    pub(crate) fn finish(mut self) -> ResponseBody {
        self.cut();
        self.body
    }

    fn link(&mut self, piece: Piece, len: Option<usize>) {
        self.cut();
        self.links += match &piece {
            Piece::Raw(bytes) | Piece::Chunk(bytes) | Piece::Json(bytes) | Piece::Base64(bytes) => bytes.len(),
        };
        self.body.add(piece, len);
    }

    /// A long text is in parts, none of which grows by half of it.
    #[inline]
    fn cut_long(&mut self) {
        if self.text.len() >= PART {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if !self.text.is_empty() {
            let mut text = std::mem::take(&mut self.text);
            if text.capacity() - text.len() > SPARE {
                text.shrink_to_fit();
            }
            let len = text.len();
            self.texts += len;
            self.body.add(Piece::Raw(text.into()), Some(len));
        }
    }
}
impl Sink for BodyWriter {
    fn put(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        self.cut_long();
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    /// A page that cannot be read: the client must see that the body is not complete.
    type Error = SourceError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, SourceError>>> {
        if let Some(frames) = &mut self.frames {
            let frame = ready!(Pin::new(frames).poll_frame(cx));
            let broken = |status: tonic::Status| SourceError::Unavailable(status.message().into());
            return Poll::Ready(frame.map(|frame| frame.map_err(broken)));
        }
        loop {
            if let Some(bytes) = self.next() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            match ready!(self.poll_more(cx)) {
                Ok(true) => {}
                Ok(false) => return Poll::Ready(None),
                Err(error) => {
                    tracing::warn!(%error, "a response breaks off");
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(mut body: ResponseBody) -> Vec<u8> {
        std::iter::from_fn(|| body.next()).flatten().collect()
    }

    #[test]
    fn small_values_are_one_piece() {
        let mut writer = BodyWriter::with_capacity(8);
        writer.put(b"a");
        writer.put_json(Bytes::from_static(b"q\"\xff"));
        writer.put_base64(Bytes::from_static(b"\xff\x00\x01\x02"));
        writer.put(b"z");
        let mut body = writer.finish();
        let expected = "a\"q\\\"\u{fffd}\"/wABAg==z";
        assert_eq!(body.left(), Some(expected.len() as u64));
        assert_eq!(body.next().as_deref(), Some(expected.as_bytes()));
        assert_eq!((body.next(), body.left()), (None, Some(0)));
    }

    #[test]
    fn large_values_are_encoded_by_windows() {
        for size in [WINDOW + 1, COUNTED, 3 * COUNTED + 1] {
            let value: Vec<u8> = (0..size).map(|i| ((i * 31) >> 7) as u8).collect();
            let mut writer = BodyWriter::with_capacity(0);
            writer.put(b"[");
            writer.put_json(value.clone().into());
            writer.put(b",\"");
            writer.put_base64(value.clone().into());
            writer.put(b"\"]");
            let body = writer.finish();
            let announced = body.left();
            let bytes = drain(body);
            if size <= COUNTED {
                assert_eq!(announced, Some(bytes.len() as u64));
            } else {
                assert_eq!(announced, None);
            }
            let [text, base64]: [String; 2] = serde_json::from_slice(&bytes).expect("valid JSON");
            assert!(text == String::from_utf8_lossy(&value));
            assert!(base64 == BASE64_STANDARD.encode(&value));
        }
    }
}
