//! The queue of push messages on a client's dedicated connection.
use super::source_error::SourceError;
use bytes::Bytes;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    task::{Context, Waker},
};

/// About what a message occupies besides its bytes.
const OWNED: usize = 64;

/// Push messages in order, each with the number of replies before it, so that the client gets it in
/// its place.
#[derive(Debug, Default)]
pub struct PushQueue {
    /// Maximum bytes of queued messages (`max-backlog`).
    max_bytes: usize,
    frames: RefCell<VecDeque<(u64, Bytes)>>,
    bytes: Cell<usize>,
    replies: Cell<u64>,
    requests: Cell<u64>,
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

    /// The next message, if at most `replies` replies came before it.
    pub fn next(&self, replies: u64) -> Option<Bytes> {
        let mut frames = self.frames.borrow_mut();
        frames.front().filter(|(before, _)| *before <= replies)?;
        let (_, frame) = frames.pop_front()?;
        self.bytes.set(self.bytes.get() - frame.len());
        Some(frame)
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
        self.bytes.get() + self.frames.borrow().len() * OWNED
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
        self.requests.get() > 0
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
            self.bytes.set(0);
            return false;
        }
        self.bytes.set(bytes);
        self.frames.borrow_mut().push_back((self.replies.get(), Bytes::copy_from_slice(frame)));
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
