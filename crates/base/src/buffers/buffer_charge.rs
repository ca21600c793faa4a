//! Bytes that belong to no single connection.
use super::buffer_budget::{BufferKind, Buffers, STEP};
use bytes::Bytes;
use std::sync::{Arc, atomic::Ordering::Relaxed};

/// Shorter byte strings are not counted by themselves: their connections count them, and what
/// becomes of them after that is bounded.
const COUNTED_FROM: usize = 4096;

/// Bytes on the account, until this is dropped, on whatever thread.
#[derive(Debug)]
pub struct BufferCharge {
    buffers: Arc<Buffers>,
    kind: BufferKind,
    bytes: usize,
}

impl BufferCharge {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes how much it is.
    pub fn resize(&mut self, bytes: usize) {
        let count = &self.buffers.shared[self.kind as usize];
        // Wrapping addition of the difference is subtraction where it is negative.
        count.fetch_add(bytes.wrapping_sub(self.bytes), Relaxed);
        let before = std::mem::replace(&mut self.bytes, bytes);
        // A charge that grows by little at a time looks at each step that it passes.
        if bytes / STEP > before / STEP {
            self.buffers.check();
        }
    }

    /// Like `resize`, for what changes all the time: steps that do not matter are left out.
    pub fn settle(&mut self, bytes: usize) {
        if bytes == 0 || bytes.abs_diff(self.bytes) >= STEP {
            self.resize(bytes);
        }
    }

    /// Like `resize`, if it fits into what is free; false: it does not, and nothing has changed.
    pub fn try_resize(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && bytes - self.bytes > self.buffers.room() {
            self.buffers.note_refused();
            return false;
        }
        self.resize(bytes);
        true
    }
}
impl Drop for BufferCharge {
    fn drop(&mut self) {
        self.buffers.shared[self.kind as usize].fetch_sub(self.bytes, Relaxed);
    }
}

/// The share of `max-buffers` that one table may occupy.
const TABLE_SHARE: usize = 8;

/// A table that all clients fill. It is on the account, and has an eighth of `max-buffers`: no
/// connection that could be closed owns it, so it forgets or refuses instead.
#[derive(Debug)]
pub struct TableShare {
    charge: BufferCharge,
    max: usize,
}
impl TableShare {
    /// The most bytes that the table may occupy.
    pub fn max(&self) -> usize {
        self.max
    }
    /// Notes what it occupies now.
    pub fn settle(&mut self, bytes: usize) {
        self.charge.settle(bytes);
    }
}

/// Bytes and their charge.
struct Counted {
    bytes: Bytes,
    _charge: BufferCharge,
}
impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Buffers {
    /// An empty charge.
    pub fn charge(self: &Arc<Self>, kind: BufferKind) -> BufferCharge {
        BufferCharge { buffers: self.clone(), kind, bytes: 0 }
    }

    /// The share of a table that occupies nothing yet.
    pub fn table(self: &Arc<Self>, kind: BufferKind) -> TableShare {
        TableShare { charge: self.charge(kind), max: self.limit / TABLE_SHARE }
    }

    /// Counts these bytes until the last reference to them is gone, if they are worth it.
    pub fn count(self: &Arc<Self>, kind: BufferKind, bytes: impl Into<Bytes>) -> Bytes {
        let bytes = bytes.into();
        if bytes.len() < COUNTED_FROM { bytes } else { self.count_always(kind, bytes) }
    }

    /// Like `count`, for bytes of any length that many may refer to.
    pub fn count_always(self: &Arc<Self>, kind: BufferKind, bytes: Bytes) -> Bytes {
        let mut charge = self.charge(kind);
        charge.resize(bytes.len() + size_of::<Counted>());
        Bytes::from_owner(Counted { bytes, _charge: charge })
    }
}
