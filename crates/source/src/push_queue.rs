//! The queue of push messages on a client's dedicated connection.
use super::source_error::SourceError;
use bytes::{Bytes, BytesMut};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    task::{Context, Waker},
};

/// Smallest and largest block for several messages. An allocation for each message would occupy
/// several times its bytes when clients read slowly: freed ones leave holes between others.
const BLOCK: (usize, usize) = (1024, 64 * 1024);

/// Messages for which an empty queue keeps room.
const KEPT_FRAMES: usize = 64;

/// The bytes of messages, in blocks that belong to the queue until all of a block is taken.
#[derive(Debug, Default)]
struct Blocks {
    /// The untaken bytes of each block, and what the block occupies.
    blocks: VecDeque<(BytesMut, usize)>,
    occupied: usize,
}
impl Blocks {
    fn put(&mut self, frame: &[u8]) {
        match self.blocks.back_mut() {
            Some((block, _)) if block.capacity() - block.len() >= frame.len() => block.extend_from_slice(frame),
            _ => {
                let size = self.occupied.clamp(BLOCK.0, BLOCK.1).max(frame.len());
                let mut block = BytesMut::with_capacity(size);
                block.extend_from_slice(frame);
                self.blocks.push_back((block, size));
                self.occupied += size;
            }
        }
    }
    /// The first `len` bytes, which were put at once.
    fn take(&mut self, len: usize) -> Option<Bytes> {
        let (block, size) = self.blocks.front_mut()?;
        let frame = block.split_to(len).freeze();
        if block.is_empty() {
            self.occupied -= *size;
            self.blocks.pop_front();
        }
        Some(frame)
    }
}

/// Push messages in order, each with the number of replies before it, so that the client gets it in
/// its place.
#[derive(Debug, Default)]
pub struct PushQueue {
    /// Maximum bytes of queued messages (`max-backlog`).
    max_bytes: usize,
    /// For each message the number of replies before it, and its length.
    frames: RefCell<VecDeque<(u64, usize)>>,
    blocks: RefCell<Blocks>,
    bytes: Cell<usize>,
    replies: Cell<u64>,
    requests: Cell<u64>,
    of_client: Cell<bool>,
    /// Whether lines that answer no command may come (MONITOR).
    lines: Cell<bool>,
    lost: Cell<bool>,
    too_much: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl PushQueue {
    pub(super) fn new(max_bytes: usize) -> PushQueue {
        PushQueue { max_bytes, ..PushQueue::default() }
    }

    /// The next message, if at most `replies` replies came before it. It refers to a larger block:
    /// copy what you keep.
    pub fn next(&self, replies: u64) -> Option<Bytes> {
        let mut frames = self.frames.borrow_mut();
        frames.front().filter(|(before, _)| *before <= replies)?;
        let (_, len) = frames.pop_front()?;
        if frames.is_empty() {
            frames.shrink_to(KEPT_FRAMES);
        }
        self.bytes.set(self.bytes.get() - len);
        self.blocks.borrow_mut().take(len)
    }

    /// Wakes the task when a message comes.
    ///
    /// # Errors
    /// The connection is lost and no message is left.
    pub fn wait(&self, cx: &Context<'_>) -> Result<(), SourceError> {
        if self.lost.get() && self.frames.borrow().is_empty() {
            return Err(SourceError::Lost("connection lost".into()));
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Ok(())
    }

    /// Bytes of memory that the queued messages occupy.
    pub fn owned(&self) -> usize {
        self.blocks.borrow().occupied + self.frames.borrow().capacity() * size_of::<(u64, usize)>()
    }

    /// From now on, lines that answer no command may come.
    pub fn expect_lines(&self) {
        self.lines.set(true);
    }
    pub(super) fn are_lines_expected(&self) -> bool {
        self.lines.get()
    }

    /// Commands sent so far on this connection.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }
    /// Whether the connection is a client's own, so that pushes may come.
    pub(super) fn is_of_client(&self) -> bool {
        self.of_client.get()
    }
    pub(super) fn note_client(&self) {
        self.of_client.set(true);
    }
    pub(super) fn note_request(&self, count: usize) {
        self.requests.set(self.requests.get() + count as u64);
    }
    /// Replies that came so far on this connection.
    pub fn replies(&self) -> u64 {
        self.replies.get()
    }
    /// Queues a message. False if it exceeds the limit; the queue is then useless.
    pub(super) fn push(&self, frame: &[u8]) -> bool {
        let bytes = self.bytes.get() + frame.len();
        self.too_much.set(bytes > self.max_bytes);
        if self.too_much.get() {
            self.frames.take();
            self.blocks.take();
            self.bytes.set(0);
            return false;
        }
        self.bytes.set(bytes);
        self.frames.borrow_mut().push_back((self.replies.get(), frame.len()));
        self.blocks.borrow_mut().put(frame);
        self.wake();
        true
    }
    /// Whether a message exceeded the limit.
    pub fn is_too_much(&self) -> bool {
        self.too_much.get()
    }
    pub(super) fn note_reply(&self) {
        self.replies.set(self.replies.get() + 1);
    }
    pub(super) fn note_loss(&self) {
        self.lost.set(true);
        self.wake();
    }
    fn wake(&self) {
        let waker = self.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_order_and_their_place_among_the_replies() {
        let queue = PushQueue::new(1 << 20);
        let frame = |n: usize| vec![n as u8; [1, 700, 70_000, 30][n % 4]];
        let mut bytes = 0;
        for n in 0..200 {
            if n % 10 == 0 {
                queue.note_reply();
            }
            assert!(queue.push(&frame(n)) || n > 40, "{n}");
            if queue.is_too_much() {
                break;
            }
            bytes += frame(n).len();
            assert!(queue.owned() >= bytes && queue.owned() < bytes * 2 + 4096, "{} of {bytes}", queue.owned());
        }
        assert_eq!((queue.next(u64::MAX), queue.owned()), (None, 0), "the queue exceeded its limit");

        let queue = PushQueue::new(1 << 20);
        for n in 0..50 {
            if n % 10 == 0 {
                queue.note_reply();
            }
            assert!(queue.push(&frame(n)));
            if n % 3 == 0 {
                assert_eq!(queue.next(0), None);
                assert_eq!(queue.next(u64::MAX).expect("a message"), frame(n / 3));
            }
        }
        for n in 17..50 {
            assert_eq!(queue.next(n as u64 / 10), None);
            assert_eq!(queue.next(n as u64 / 10 + 1).expect("a message"), frame(n));
        }
        assert!(queue.next(u64::MAX).is_none() && queue.owned() <= KEPT_FRAMES * 2 * 16, "{}", queue.owned());
    }

    /// Many small messages occupy about their bytes, in few allocations.
    #[test]
    fn small_messages_share_blocks() {
        let queue = PushQueue::new(16 << 20);
        (0..100_000).for_each(|_| assert!(queue.push(&[b'm'; 85])));
        assert!(queue.blocks.borrow().blocks.len() < 150, "{}", queue.blocks.borrow().blocks.len());
        assert!(queue.owned() < 12_000_000, "{}", queue.owned());
    }
}
