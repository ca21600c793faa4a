//! CLIENT TRACKING … REDIRECT in front of a Redis that does the tracking.
//!
//! A client names the target by the id that Larder gave it, but Redis knows only Larder's
//! connections. So Larder opens one more connection, asks Redis to redirect to it, and passes its
//! invalidations on to the target:
//!
//! ```text
//! tracking client ─► dedicated connection ── CLIENT TRACKING ON REDIRECT n ─► Redis ─► connection n (RESP3) ─► inbox of the target
//! ```
//!
//! As with Redis itself, an invalidation and the reply that it concerns travel on two connections.
//! The client must expect either first.
use bytes::Bytes;
use larder_core::clients::{
    Client,
    push_inbox::{Backlog, PushMessage},
};
use larder_proto::resp::{View, view};
use larder_source::DedicatedConnection;
use std::{future::poll_fn, sync::Arc, task::Poll};
use tokio::task::AbortHandle;

/// A redirect, until it is dropped.
pub(crate) struct TrackingRedirect {
    target: u64,
    task: AbortHandle,
}
impl Drop for TrackingRedirect {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Carry {
    carrier: Box<dyn DedicatedConnection>,
    client: Arc<Client>,
    target: Arc<Client>,
    backlog: Arc<Backlog>,
}
impl Carry {
    async fn run(self) {
        // Runs until the connection ends. Redis then tracks no more, and the client must start again.
        poll_fn(|cx| {
            let pushes = self.carrier.pushes();
            let lost = pushes.wait(cx).is_err();
            while let Some(frame) = pushes.next(u64::MAX) {
                self.pass_on(&frame);
            }
            if lost { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.client.close();
    }

    fn pass_on(&self, frame: &[u8]) {
        let Ok(View::Push(mut parts)) = view(frame) else { return };
        let kind = parts.next();
        let (Some(View::Bulk(b"invalidate")), Some(keys)) = (kind, parts.next_raw()) else { return };
        let keys = (keys != b"_\r\n").then(|| Bytes::copy_from_slice(keys));
        if !self.target.post(PushMessage::Invalidated { keys, redirected: true }, &self.backlog) {
            self.client.note_broken_redirection();
            self.client.post(PushMessage::RedirectionBroken(self.target.id), &self.backlog);
        }
    }
}

impl TrackingRedirect {
    /// Passes the invalidations that arrive on `carrier` on to `target`, on behalf of `client`.
    pub(crate) fn begin(
        carrier: Box<dyn DedicatedConnection>,
        client: Arc<Client>,
        target: Arc<Client>,
        backlog: Arc<Backlog>,
    ) -> TrackingRedirect {
        let carry = Carry { carrier, client, backlog, target };
        TrackingRedirect { target: carry.target.id, task: tokio::task::spawn_local(carry.run()).abort_handle() }
    }
    /// The id of the target client.
    pub(crate) fn target(&self) -> u64 {
        self.target
    }

    /// Replaces the connection's id in the reply to CLIENT TRACKINGINFO by the target's id. `None`
    /// if the reply has another shape.
    pub(crate) fn translated(&self, info: &[u8], broken: bool) -> Option<Vec<u8>> {
        let Ok(View::Map(mut parts) | View::Array(mut parts)) = view(info) else { return None };
        let [flags_name, flags, redirect, _, prefixes_name, prefixes] = std::array::from_fn(|_| parts.next_raw());
        let mut text = info.split_inclusive(|b| *b == b'\n').next()?.to_vec();
        text.extend_from_slice(flags_name?);
        match view(flags?) {
            Ok(View::Set(mut each) | View::Array(mut each)) if broken => {
                text.extend_from_slice(format!("{}{}\r\n", char::from(flags?[0]), each.len() + 1).as_bytes());
                while let Some(flag) = each.next_raw() {
                    text.extend_from_slice(flag);
                }
                text.extend_from_slice(b"$15\r\nbroken_redirect\r\n");
            }
            _ => text.extend_from_slice(flags?),
        }
        text.extend_from_slice(redirect?);
        text.extend_from_slice(format!(":{}\r\n", self.target).as_bytes());
        text.extend_from_slice(prefixes_name?);
        text.extend_from_slice(prefixes?);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_source_s_numbers_are_not_shown() {
        let task = tokio::spawn(async {}).abort_handle();
        let redirect = TrackingRedirect { target: 7, task };
        let info = b"%3\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n$6\r\nnoloop\r\n$8\r\nredirect\r\n:123\r\n$8\r\nprefixes\r\n*0\r\n";
        let told = redirect.translated(info, false).expect("a map");
        assert_eq!(String::from_utf8_lossy(&told), String::from_utf8_lossy(info).replace(":123", ":7"));
        let told = redirect.translated(info, true).expect("a map");
        let broken = b"~3\r\n$2\r\non\r\n$6\r\nnoloop\r\n$15\r\nbroken_redirect\r\n$8\r\nredirect\r\n:7\r\n";
        assert!(told.windows(broken.len()).any(|part| part == broken), "{}", String::from_utf8_lossy(&told));
        assert_eq!(redirect.translated(b"-ERR no\r\n", false), None);
    }
}
