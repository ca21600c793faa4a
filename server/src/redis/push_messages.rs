//! Writes pushes between the replies, in the client's protocol version.
use super::session::Session;
use crate::clients::push_inbox::PushMessage;
use larder_proto::output::Output;

/// Bytes of unsent output above which pushes stay in the inbox, where they are counted.
const ENOUGH: usize = 1 << 20;

impl Session {
    /// Writes pushes from the inbox while there is room in the output.
    pub fn deliver(&self, out: &mut Output) {
        while out.len() < ENOUGH
            && let Some(message) = self.client.push_inbox.take()
        {
            self.write(message, out);
        }
    }
    /// Writes all pushes from the inbox.
    pub(super) fn deliver_all(&self, out: &mut Output) {
        while let Some(message) = self.client.push_inbox.take() {
            self.write(message, out);
        }
    }

    /// Writes one push. A RESP2 client gets only what it can tell from a reply: it must have
    /// subscriptions.
    fn write(&self, message: PushMessage, out: &mut Output) {
        let subscriber = self.has_subscriptions();
        match message {
            PushMessage::Invalidated { keys, redirected } => {
                match self.resp3 {
                    true => out.put(b">2\r\n$10\r\ninvalidate\r\n"),
                    false if redirected && subscriber => {
                        out.put(b"*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n");
                    }
                    false => return,
                }
                self.counters.tracking_invalidations.add(1);
                match keys {
                    Some(keys) => out.put_bytes(keys),
                    None => out.put(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" }),
                }
            }
            PushMessage::RedirectionBroken(id) if self.resp3 => {
                out.put(format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n").as_bytes());
            }
            PushMessage::RedirectionBroken(_) => {}
            PushMessage::Published(frame) if self.resp3 || subscriber => {
                self.counters.pubsub_messages.add(1);
                // In RESP2 a push is an array.
                match self.resp3 {
                    true => out.put_bytes(frame),
                    false => {
                        out.put(b"*");
                        out.put_bytes(frame.slice(1..));
                    }
                }
            }
            PushMessage::Published(_) => {}
            PushMessage::Monitored(line) => out.put_bytes(line),
        }
    }
}
