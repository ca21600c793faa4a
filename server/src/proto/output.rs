//! The output buffer of a connection: small bytes are copied, large values are linked by reference.
use bytes::Bytes;
/// Ordered bytes to send: one growing buffer with counted chunks spliced in.
#[derive(Debug, Default)]
pub struct Output {
    buf: Vec<u8>,
    chunks: Vec<(usize, Bytes)>,
}
impl Output {
    /// Appends bytes (copied).
    pub fn put(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }
    /// Appends a counted buffer without copying it.
    pub fn put_shared(&mut self, bytes: Bytes) {
        self.chunks.push((self.buf.len(), bytes));
    }
    /// Nothing to send?
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty() && self.chunks.is_empty()
    }
    // len(), append(&mut Output), io_slices(from, &mut [IoSlice]) / advance(n), clear() keeping capacity: proto owner
}
