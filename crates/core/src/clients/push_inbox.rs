//! Push messages of a client: invalidations and published messages. Any core posts them; the
//! connection's own task delivers them behind the replies that it has written
//! (`redis::push_messages`).
//!
//! Invariants:
//! - Messages are delivered in the order in which they were posted.
//! - A client that leaves more than `max-backlog` bytes of them unread is cut off.
//! - The queue is on the account of all buffers; the publisher counts a published message once for
//!   all its receivers.
use bytes::Bytes;
use larder_base::buffers::{BufferCharge, BufferKind, Buffers, SharedAccount};
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// A message; how it is written depends on the protocol that its client speaks when it is
/// delivered.
#[derive(Debug, Clone)]
pub enum PushMessage {
    /// Keys that have changed, as a RESP array; `None`: all of them may have.
    Invalidated {
        /// The encoded array.
        keys: Option<Bytes>,
        /// They are another connection's, which redirects them to this one.
        redirected: bool,
    },
    /// The connection that invalidations were redirected to is gone.
    RedirectionBroken(u64),
    /// A message of a channel, as a push of RESP3.
    Published(Bytes),
    /// A line of MONITOR.
    Monitored(Bytes),
}
impl PushMessage {
    /// About what it occupies, the slot included.
    fn size(&self) -> usize {
        let bytes = match self {
            PushMessage::Invalidated { keys, .. } => keys.as_ref().map_or(0, Bytes::len),
            PushMessage::Published(bytes) | PushMessage::Monitored(bytes) => bytes.len(),
            PushMessage::RedirectionBroken(_) => 0,
        };
        size_of::<PushMessage>() + bytes
    }
    /// The part of it that is this client's alone.
    fn own_size(&self) -> usize {
        match self {
            PushMessage::Published(_) | PushMessage::Monitored(_) => size_of::<PushMessage>(),
            PushMessage::Invalidated { .. } | PushMessage::RedirectionBroken(_) => self.size(),
        }
    }
}

/// The bound on unread push messages (`max-backlog`), and how many clients passed it.
#[derive(Debug)]
pub struct Backlog {
    max: usize,
    cut_off: AtomicU64,
    buffers: Arc<Buffers>,
}
impl Backlog {
    /// At most `max` bytes for each client.
    pub fn new(max: usize, buffers: Arc<Buffers>) -> Backlog {
        Backlog { max, cut_off: AtomicU64::new(0), buffers }
    }
    /// Counts a message that several may get.
    pub fn count(&self, frame: Bytes) -> Bytes {
        self.buffers.count_always(BufferKind::Pushes, frame)
    }
    /// The account on which the messages are.
    pub(super) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }
    /// A client left too much unread on its own connection to the source.
    pub fn note_cut_off(&self) {
        self.cut_off.fetch_add(1, Relaxed);
    }
    /// Clients that left too much unread.
    pub fn cut_off(&self) -> u64 {
        self.cut_off.load(Relaxed)
    }
}

/// What became of a posted message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Posted {
    /// The client's task must be woken.
    Wake,
    /// It has been woken already.
    Queued,
    /// The client is gone, or about to go.
    Gone,
    /// This was too much: end the client.
    TooMuch,
}

/// One client's unread push messages.
#[derive(Debug, Default)]
pub struct PushInbox {
    queue: Mutex<UnreadPushes>,
    /// The queue is not empty. Set and cleared under its lock.
    has_messages: AtomicBool,
}
#[derive(Debug, Default)]
struct UnreadPushes {
    messages: VecDeque<PushMessage>,
    bytes: usize,
    /// Of `bytes`, those that are not counted elsewhere.
    own: usize,
    /// Made with the first message.
    charge: Option<BufferCharge>,
    /// The client's, which shows who has how much waiting.
    account: Option<Arc<SharedAccount>>,
    closed: bool,
}

impl UnreadPushes {
    fn settle(&mut self) {
        if let Some(charge) = &mut self.charge {
            charge.resize(self.own);
        }
        if let Some(account) = &self.account {
            account.set_pushes(self.bytes);
        }
    }
}

impl PushInbox {
    /// Shows on this account what waits.
    pub fn show_on(&self, account: Arc<SharedAccount>) {
        self.queue.lock().account = Some(account);
    }

    /// Is there something to deliver?
    #[inline]
    pub fn has_messages(&self) -> bool {
        self.has_messages.load(Acquire)
    }

    /// The oldest message.
    pub fn take(&self) -> Option<PushMessage> {
        let mut queue = self.queue.lock();
        let message = queue.messages.pop_front();
        queue.bytes -= message.as_ref().map_or(0, PushMessage::size);
        queue.own -= message.as_ref().map_or(0, PushMessage::own_size);
        queue.settle();
        self.has_messages.store(!queue.messages.is_empty(), Release);
        message
    }

    pub(super) fn post(&self, message: PushMessage, backlog: &Backlog) -> Posted {
        let mut queue = self.queue.lock();
        if queue.closed {
            return Posted::Gone;
        }
        queue.bytes += message.size();
        if queue.bytes > backlog.max {
            backlog.note_cut_off();
            self.shut(&mut queue);
            return Posted::TooMuch;
        }
        queue.own += message.own_size();
        queue.charge.get_or_insert_with(|| backlog.buffers.charge(BufferKind::Pushes));
        queue.settle();
        queue.messages.push_back(message);
        match self.has_messages.swap(true, Release) {
            true => Posted::Queued,
            false => Posted::Wake,
        }
    }

    /// The client is gone.
    pub(super) fn close(&self) {
        self.shut(&mut self.queue.lock());
    }

    fn shut(&self, queue: &mut UnreadPushes) {
        queue.bytes = 0;
        queue.settle();
        *queue = UnreadPushes { closed: true, ..UnreadPushes::default() };
        self.has_messages.store(false, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_much_ends_it() {
        let (inbox, backlog) = (PushInbox::default(), Backlog::new(1000, Buffers::unbounded()));
        let message = |len| PushMessage::Published(Bytes::from(vec![b'x'; len]));
        assert_eq!(inbox.post(message(300), &backlog), Posted::Wake);
        assert_eq!(inbox.post(message(300), &backlog), Posted::Queued);
        assert!(inbox.take().is_some() && inbox.has_messages());
        assert!(inbox.take().is_some() && !inbox.has_messages() && inbox.take().is_none());
        assert_eq!(inbox.post(message(600), &backlog), Posted::Wake, "room that was given back");
        assert_eq!(inbox.post(message(600), &backlog), Posted::TooMuch);
        assert_eq!((inbox.post(message(1), &backlog), backlog.cut_off()), (Posted::Gone, 1));
        assert!(!inbox.has_messages() && inbox.take().is_none());
    }
}
