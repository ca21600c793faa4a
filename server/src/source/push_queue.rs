//! What a Redis server says unasked on a connection that is one client's alone.
use super::source_error::SourceError;
use bytes::Bytes;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    task::{Context, Waker},
};

/// Messages in order, each with the number of replies that came before it: so that it is passed on in its place.
#[derive(Debug, Default)]
pub struct PushQueue {
    /// Of all that lies here (`max-backlog`).
    max_bytes: usize,
    frames: RefCell<VecDeque<(u64, Bytes)>>,
    bytes: Cell<usize>,
    replies: Cell<u64>,
    requests: Cell<u64>,
    /// Lines that answer nothing may come (MONITOR).
    lines: Cell<bool>,
    lost: Cell<bool>,
    too_much: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl PushQueue {
    pub(super) fn new(max_bytes: usize) -> PushQueue {
        PushQueue { max_bytes, ..PushQueue::default() }
    }

    /// The next message, if no more than `replies` replies came before it.
    pub fn next(&self, replies: u64) -> Option<Bytes> {
        let mut frames = self.frames.borrow_mut();
        frames.front().filter(|(before, _)| *before <= replies)?;
        let (_, frame) = frames.pop_front()?;
        self.bytes.set(self.bytes.get() - frame.len());
        Some(frame)
    }

    /// Has the task woken when something comes.
    ///
    /// # Errors
    /// Nothing will: the connection is lost.
    pub fn wait(&self, cx: &Context<'_>) -> Result<(), SourceError> {
        if self.lost.get() && self.frames.borrow().is_empty() {
            return Err(SourceError::Lost("connection lost".into()));
        }
        *self.waker.borrow_mut() = Some(cx.waker().clone());
        Ok(())
    }

    /// Bytes of the messages that lie here.
    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// From now on lines that answer nothing may come.
    pub fn expect_lines(&self) {
        self.lines.set(true);
    }
    pub(super) fn are_lines_expected(&self) -> bool {
        self.lines.get()
    }

    /// So many commands were sent before, in the connection's whole life.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }
    pub(super) fn note_request(&self, count: usize) {
        self.requests.set(self.requests.get() + count as u64);
    }
    /// A message came; false if there is no room for it, and then for nothing any more.
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
    /// Is the connection lost because there was no room for a message?
    pub fn is_too_much(&self) -> bool {
        self.too_much.get()
    }
    /// A reply came.
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
