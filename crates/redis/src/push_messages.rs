//! Writes pushes between the replies, in the client's protocol version.
use super::session::Session;
use bytes::Bytes;
use larder_core::clients::push_inbox::PushMessage;
use larder_proto::{
    output::Output,
    resp::{View, encode, view},
};

/// Bytes of unsent output above which pushes stay in the inbox, where they are counted.
const ENOUGH: usize = 1 << 20;

/// An invalidation up to its keys.
const INVALIDATE: &[u8] = b">2\r\n$10\r\ninvalidate\r\n";

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

    /// The invalidated keys that the rules of the client's user name; `None`: none of them. A
    /// client that tracks whole prefixes (BCAST) must not learn of other keys.
    fn known_keys(&self, keys: Option<Bytes>) -> Option<Option<Bytes>> {
        let (Some(user), Some(all)) = (self.restricted_user(), &keys) else { return Some(keys) };
        let Ok(View::Array(parts)) = view(all) else { return Some(keys) };
        let (mut known, count) = (Vec::new(), parts.len());
        for part in parts {
            if let View::Bulk(key) = part
                && user.permissions().know_key(key)
            {
                known.push(key);
            }
        }
        match known.len() {
            0 => None,
            len if len == count => Some(keys),
            _ => Some(Some(encode(&known).into())),
        }
    }

    /// An invalidation of the upstream, with the keys that the client's user may know of.
    pub(super) fn known_invalidation(&self, frame: Bytes) -> Option<Bytes> {
        let Ok(View::Push(mut parts)) = view(&frame) else { return Some(frame) };
        let (Some(View::Bulk(b"invalidate")), Some(keys)) = (parts.next(), parts.next_raw()) else {
            return Some(frame);
        };
        let keys = frame.slice_ref(keys);
        match self.known_keys(Some(keys.clone()))? {
            Some(known) if known != keys => Some([INVALIDATE, &known[..]].concat().into()),
            _ => Some(frame),
        }
    }

    /// Writes one push. A RESP2 client gets only what it can tell from a reply: it must have
    /// subscriptions.
    fn write(&self, message: PushMessage, out: &mut Output) {
        let subscriber = self.has_subscriptions();
        match message {
            PushMessage::Invalidated { keys, redirected } => {
                let Some(keys) = self.known_keys(keys) else { return };
                match self.resp3 {
                    true => out.put(INVALIDATE),
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
