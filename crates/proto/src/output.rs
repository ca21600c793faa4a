//! The output buffer of a connection: small bytes are copied, large values are linked by reference.
use bytes::Bytes;
use std::{fmt, io::IoSlice, rc::Rc};

/// Capacity that an emptied [`Output`] keeps; more is given back, so that one large reply does not
/// stay with an idle connection.
const KEPT_CAPACITY: usize = 64 * 1024;
/// Likewise for the list of linked buffers.
const KEPT_CHUNKS: usize = 64;

/// Bytes from this length on are linked where they are counted already; shorter ones are copied,
/// since one more slice in the vectored write costs about as much.
pub(super) const SHARED_FROM: usize = 16 * 1024;

/// Up to this length an [`Output`] grows without asking for room.
pub const UNCHECKED: usize = 1 << 20;

/// Beyond that it grows by one in so many parts: what it asks for is what it takes.
const GROWTH: usize = 8;

/// Decides how much memory an [`Output`] may take.
pub trait Room: fmt::Debug {
    /// Whether an output may now take this many bytes in all.
    fn take(&self, bytes: usize) -> bool;
}

/// Ordered bytes to send: one growing buffer with counted chunks spliced in, of which a prefix may
/// already be sent.
#[derive(Debug, Default)]
pub struct Output {
    buf: Vec<u8>,
    /// A counted buffer and the position in `buf` before which it goes; positions never decrease.
    chunks: Vec<(usize, Bytes)>,
    /// How much of `buf` is sent.
    sent: usize,
    /// The chunks before this one are sent; a partly sent chunk has been cut to what is left.
    next: usize,
    /// Unsent bytes in `chunks`.
    linked: usize,
    /// Asked before `buf` grows.
    room: Option<Rc<dyn Room>>,
    /// There was no room. What is appended may be incomplete.
    is_refused: bool,
}

/// A position to which an [`Output`] can be cut back or split: see [`Output::mark`].
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    buf: usize,
    chunks: usize,
}

impl Output {
    /// An empty output that takes memory from the same room.
    pub fn beside(&self) -> Output {
        Output { room: self.room.clone(), ..Output::default() }
    }

    /// From now on `room` is asked before the output grows. Returns what was asked before.
    #[inline]
    pub fn ask(&mut self, room: Option<Rc<dyn Room>>) -> Option<Rc<dyn Room>> {
        std::mem::replace(&mut self.room, room)
    }

    /// Whether there was no room for something: cut the output back to a [`mark`](Output::mark).
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Appends bytes (copied).
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if self.has_capacity(bytes.len()) {
            self.buf.extend_from_slice(bytes);
        }
    }

    /// Makes room for `bytes` to be copied.
    #[inline]
    pub fn reserve(&mut self, bytes: usize) {
        self.has_capacity(bytes);
    }

    #[inline]
    fn has_capacity(&mut self, more: usize) -> bool {
        more <= self.buf.capacity() - self.buf.len() || self.grow(more)
    }

    #[cold]
    fn grow(&mut self, more: usize) -> bool {
        let needed = self.buf.len() + more;
        match &self.room {
            Some(room) if needed > UNCHECKED => {
                let capacity = needed + needed / GROWTH;
                self.is_refused = self.is_refused || !room.take(capacity);
                if !self.is_refused {
                    self.buf.reserve_exact(capacity - self.buf.len());
                }
            }
            _ if needed > UNCHECKED => self.buf.reserve_exact(more + needed / GROWTH),
            _ => self.buf.reserve(more),
        }
        !self.is_refused
    }

    /// Appends a counted buffer without copying it.
    pub fn put_shared(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.linked += bytes.len();
            self.chunks.push((self.buf.len(), bytes));
        }
    }

    /// Appends a counted buffer: linked where that costs less than copying.
    pub fn put_bytes(&mut self, bytes: Bytes) {
        match bytes.len() {
            SHARED_FROM.. => self.put_shared(bytes),
            _ => self.put(&bytes),
        }
    }

    /// Moves all that `other` has yet to send to the end of this one.
    pub fn append(&mut self, other: &mut Output) {
        let shift = self.buf.len();
        if other.is_refused {
            self.is_refused = true;
            other.clear();
            return;
        }
        if other.buf.len() > SHARED_FROM.max(self.buf.len()) {
            // The longer one stays where it is.
            std::mem::swap(&mut self.buf, &mut other.buf);
            self.buf.reserve_exact(other.buf.len().saturating_sub(other.sent));
            self.buf.splice(..other.sent, other.buf.drain(..));
        } else {
            self.put(&other.buf[other.sent..]);
        }
        for (at, bytes) in other.chunks.drain(..).skip(other.next) {
            self.chunks.push((shift + at - other.sent, bytes));
        }
        self.linked += other.linked;
        other.clear();
    }

    /// Nothing to send?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buf.len() == self.sent && self.linked == 0
    }

    /// Bytes to send.
    #[inline]
    pub fn len(&self) -> usize {
        self.buf.len() - self.sent + self.linked
    }

    /// Bytes of memory that it occupies: not those that it refers to, nor room in a long buffer
    /// that has not been touched.
    #[inline]
    pub fn owned(&self) -> usize {
        self.buf.capacity().min(self.buf.len().max(2 * KEPT_CAPACITY))
            + self.chunks.capacity() * size_of::<(usize, Bytes)>()
    }

    /// Referenced bytes that are not sent yet.
    #[inline]
    pub fn referred(&self) -> usize {
        self.linked
    }

    /// The end as it is now, for [`truncate`](Output::truncate) and
    /// [`split_off`](Output::split_off). Good until bytes are sent.
    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { buf: self.buf.len(), chunks: self.chunks.len() }
    }

    /// Takes back what was appended after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.buf.truncate(mark.buf);
        if std::mem::take(&mut self.is_refused) {
            self.buf.shrink_to(KEPT_CAPACITY);
        }
        self.linked -= linked(&self.chunks[mark.chunks..]);
        self.chunks.truncate(mark.chunks);
    }

    /// Takes what was appended after `mark` out into an output of its own.
    pub fn split_off(&mut self, mark: Mark) -> Output {
        let mut chunks = self.chunks.split_off(mark.chunks);
        for (at, _) in &mut chunks {
            *at -= mark.buf;
        }
        let linked = linked(&chunks);
        self.linked -= linked;
        Output { buf: self.buf.split_off(mark.buf), chunks, linked, ..Output::default() }
    }

    /// Fills `slices` with the next bytes to send, in order, and returns how many slices it used.
    pub fn io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut used = 0;
        let mut at = self.sent;
        let mut push = |bytes: &'a [u8]| {
            if !bytes.is_empty() && used < slices.len() {
                slices[used] = IoSlice::new(bytes);
                used += 1;
            }
            used < slices.len()
        };
        for (position, bytes) in &self.chunks[self.next..] {
            if !push(&self.buf[at..*position]) || !push(bytes) {
                return used;
            }
            at = *position;
        }
        push(&self.buf[at..]);
        used
    }

    /// Notes that the first `bytes` bytes were sent. When that is all, the buffer is empty again,
    /// as after [`clear`](Output::clear).
    pub fn advance(&mut self, mut bytes: usize) {
        debug_assert!(bytes <= self.len(), "cannot have sent what was not there");
        while let Some((position, chunk)) = self.chunks.get_mut(self.next) {
            let before = *position - self.sent;
            if bytes < before {
                break;
            }
            self.sent = *position;
            bytes -= before;
            let part = bytes.min(chunk.len());
            // Dropping a chunk's reference as soon as it is sent lets the engine free the value.
            drop(chunk.split_to(part));
            self.linked -= part;
            bytes -= part;
            if !chunk.is_empty() {
                return;
            }
            *chunk = Bytes::new();
            self.next += 1;
        }
        self.sent += bytes;
        if self.is_empty() {
            self.clear();
        }
    }

    /// Forgets everything, keeping a bounded capacity for the next replies.
    pub fn clear(&mut self) {
        self.buf.clear();
        if self.buf.capacity() > KEPT_CAPACITY {
            self.buf.shrink_to(KEPT_CAPACITY);
        }
        self.chunks.clear();
        if self.chunks.capacity() > KEPT_CHUNKS {
            self.chunks.shrink_to(KEPT_CHUNKS);
        }
        self.sent = 0;
        self.next = 0;
        self.linked = 0;
        self.is_refused = false;
    }

    /// The unsent bytes, as one vector (for tests and logs).
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        let mut at = self.sent;
        for (position, bytes) in &self.chunks[self.next..] {
            all.extend_from_slice(&self.buf[at..*position]);
            all.extend_from_slice(bytes);
            at = *position;
        }
        all.extend_from_slice(&self.buf[at..]);
        all
    }
}

fn linked(chunks: &[(usize, Bytes)]) -> usize {
    chunks.iter().map(|(_, bytes)| bytes.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a test appends: copied or linked bytes.
    fn pieces() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
        proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..20)), 0..12)
    }
    fn fill(out: &mut Output, pieces: &[(bool, Vec<u8>)]) -> Vec<u8> {
        let mut flat = Vec::new();
        for (shared, bytes) in pieces {
            flat.extend_from_slice(bytes);
            if *shared {
                out.put_shared(Bytes::copy_from_slice(bytes));
            } else {
                out.put(bytes);
            }
        }
        flat
    }

    proptest! {
        #[test]
        fn sends_in_order_whatever_is_accepted(
            first in pieces(),
            second in pieces(),
            width in 1usize..6,
            steps in proptest::collection::vec(1usize..30, 1..40),
        ) {
            let mut out = Output::default();
            let mut expected = fill(&mut out, &first);
            let mut sent = Vec::new();
            let mut steps = steps.into_iter().cycle();
            let mut added = false;
            loop {
                prop_assert_eq!(out.len(), expected.len() - sent.len());
                prop_assert_eq!(out.is_empty(), expected.len() == sent.len());
                prop_assert_eq!(&out.to_vec()[..], &expected[sent.len()..]);
                if out.is_empty() && added {
                    break;
                }
                let mut slices = vec![IoSlice::new(&[]); width];
                let used = out.io_slices(&mut slices);
                let offered: Vec<u8> = slices[..used].iter().flat_map(|s| s.to_vec()).collect();
                let step = steps.next().expect("cycles").min(offered.len());
                sent.extend_from_slice(&offered[..step]);
                prop_assert_eq!(&sent[..], &expected[..sent.len()]);
                out.advance(step);
                if !added && sent.len() * 2 >= expected.len() {
                    // Appending while partly sent, as a connection does.
                    added = true;
                    let mut other = Output::default();
                    let more = fill(&mut other, &second);
                    out.append(&mut other);
                    prop_assert!(other.is_empty());
                    expected.extend_from_slice(&more);
                }
            }
            prop_assert_eq!(sent, expected);
        }

        #[test]
        fn marks_cut_and_split(first in pieces(), second in pieces()) {
            let mut out = Output::default();
            let head = fill(&mut out, &first);
            let mark = out.mark();
            let tail = fill(&mut out, &second);
            let split = out.split_off(mark);
            prop_assert_eq!(out.to_vec(), head.clone());
            prop_assert_eq!(out.len(), head.len());
            prop_assert_eq!(split.to_vec(), tail.clone());
            prop_assert_eq!(split.len(), tail.len());
            let mark = out.mark();
            fill(&mut out, &second);
            out.truncate(mark);
            prop_assert_eq!(out.to_vec(), head.clone());
            prop_assert_eq!(out.len(), head.len());
        }
    }

    #[test]
    fn keeps_a_bounded_capacity() {
        let mut out = Output::default();
        out.put(&vec![0; 10 * KEPT_CAPACITY]);
        let all = out.len();
        out.advance(all);
        assert!(out.is_empty());
        assert!(out.buf.capacity() <= KEPT_CAPACITY);
        out.put(&[0; 100]);
        out.clear();
        assert!(out.buf.capacity() >= 100, "small buffers are kept");
    }

    /// Takes so many bytes.
    #[derive(Debug)]
    struct Most(usize);
    impl Room for Most {
        fn take(&self, bytes: usize) -> bool {
            bytes <= self.0
        }
    }

    #[test]
    fn an_output_without_room_stays_small_until_it_is_cut_back() {
        let mut out = Output::default();
        out.put(b"before");
        let mark = out.mark();
        let none = out.ask(Some(Rc::new(Most(4 * UNCHECKED))));
        assert!(none.is_none());
        let mut beside = out.beside();
        for _ in 0..1000 {
            beside.put(&[7; 100_000]);
        }
        assert!(beside.is_refused() && beside.buf.capacity() <= 4 * UNCHECKED);
        out.append(&mut beside);
        assert!(out.is_refused());
        out.truncate(mark);
        out.put(b", after");
        assert!(!out.is_refused());
        assert_eq!(out.to_vec(), b"before, after");
        let most = out.ask(None);
        assert!(most.is_some());
        out.put(&vec![7; 8 * UNCHECKED]);
        assert!(!out.is_refused());
    }

    #[test]
    fn a_sent_chunk_is_released_at_once() {
        let value = Bytes::from(vec![1u8; 100]);
        let mut out = Output::default();
        out.put_shared(value.clone());
        out.put(b"tail");
        out.advance(100);
        assert!(value.is_unique());
        assert_eq!(out.to_vec(), b"tail");
    }
}
