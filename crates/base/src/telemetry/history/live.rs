//! What is sent to those who follow live: each message is rendered once, and its bytes are shared.
use bytes::Bytes;
use tokio::sync::broadcast;

/// Messages that a slow reader may be behind before it misses some.
const KEPT: usize = 16;

/// One message of the stream, as it is sent (`text/event-stream`, WHATWG HTML section 9.2).
pub type LiveMessage = Bytes;

/// The readers of the stream.
#[derive(Debug)]
pub(super) struct Live {
    sender: broadcast::Sender<LiveMessage>,
}

impl Default for Live {
    fn default() -> Self {
        Live { sender: broadcast::Sender::new(KEPT) }
    }
}

impl Live {
    pub(super) fn has_readers(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(super) fn follow(&self) -> broadcast::Receiver<LiveMessage> {
        self.sender.subscribe()
    }

    /// Sends a text of one line under a name.
    pub(super) fn send(&self, name: &str, line: &str) {
        // Without readers it goes nowhere.
        let _ = self.sender.send(format!("event: {name}\ndata: {line}\n\n").into());
    }
}
