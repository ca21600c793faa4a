//! The state of one client at an upstream Redis: database, user, tracking, subscriptions.
use crate::upstream::tracking_redirect::TrackingRedirect;
use larder_base::{identity::UserRights, telemetry::Counters};
use larder_core::clients::{Monitoring, SubscribeInFlight};
use larder_proto::{
    output::Output,
    resp::{Reply, View, view},
};
use larder_source::{DedicatedConnection, RedisServer};
use std::{rc::Rc, sync::Arc};

/// The state that an upstream Redis keeps on the client's dedicated connections.
#[derive(Default)]
pub(crate) struct UpstreamState {
    /// The selected database, if it is not the source's own.
    pub(crate) database: Option<u32>,
    /// The dedicated connection has become another user's, so it is not used again for another
    /// client.
    pub(crate) changed_user: bool,
    /// The user of the client, if it is not Larder's own user.
    pub(crate) user: Option<UpstreamUser>,
    pub(crate) tracking: bool,
    pub(crate) redirect: Option<TrackingRedirect>,
    /// The connection of the client's subscriptions, or of MONITOR.
    pub(crate) subscribed: Option<UpstreamSubscriptions>,
    /// In front of a cluster: the connection of its shard channels, to the node of their slot.
    pub(crate) shards: Option<UpstreamSubscriptions>,
    /// The subscribing command that was read and is not confirmed yet.
    pub(crate) subscribing: Option<SubscribeInFlight>,
    /// The number of replies of the dedicated connection that were passed on or skipped.
    pub(crate) passed: u64,
    /// Pushes that came while a command's reply was suppressed (CLIENT REPLY). Pushes are never
    /// suppressed.
    pub(crate) held_pushes: Output,
}

impl UpstreamState {
    pub(crate) fn subscriptions(&self) -> impl Iterator<Item = &UpstreamSubscriptions> {
        self.subscribed.iter().chain(&self.shards)
    }
    pub(crate) fn subscriptions_of(&mut self, shards: bool) -> &mut Option<UpstreamSubscriptions> {
        if shards { &mut self.shards } else { &mut self.subscribed }
    }
}

/// A client's subscriptions or its MONITOR, on a second dedicated connection.
pub(crate) struct UpstreamSubscriptions {
    pub(crate) relay: Box<dyn DedicatedConnection>,
    /// The numbers of channels, patterns and shard channels.
    pub(crate) counts: [usize; 3],
    pub(crate) monitor: Option<Monitoring>,
}

impl UpstreamSubscriptions {
    /// Moves to `out` the pushes that came behind at most `replies` replies. Returns whether there
    /// were any.
    pub(crate) fn take(&mut self, replies: u64, out: &mut Output, resp3: bool, counters: &Counters) -> bool {
        let mut came = false;
        while let Some(frame) = self.relay.pushes().next(replies) {
            came = true;
            let push = frame.first() == Some(&b'>');
            if !self.note(&frame) && push {
                counters.pubsub_messages.add(1);
            }
            if resp3 || !push {
                out.put(&frame);
                continue;
            }
            // In RESP2 a push is an array, and its null has another form: the channel of an UNSUBSCRIBE
            // without subscriptions.
            let Ok(View::Push(mut parts)) = view(&frame) else { continue };
            Reply::new(out, false).array(parts.len());
            while let Some(part) = parts.next_raw() {
                match view(part) {
                    Ok(View::Null) => Reply::new(out, false).null(),
                    _ => out.put(part),
                }
            }
        }
        came
    }

    /// Reads a confirmation. Returns false if the frame is none.
    fn note(&mut self, frame: &[u8]) -> bool {
        let [channels, patterns, shards] = &mut self.counts;
        // A confirmation counts channels and patterns together.
        match confirmed(frame) {
            Some((b"subscribe" | b"unsubscribe", count)) => *channels = count.saturating_sub(*patterns),
            Some((b"psubscribe" | b"punsubscribe", count)) => *patterns = count.saturating_sub(*channels),
            Some((_, count)) => *shards = count,
            None => return false,
        }
        true
    }
}

/// The command that a confirmation confirms, and the number of subscriptions that it shows.
fn confirmed(frame: &[u8]) -> Option<(&[u8], usize)> {
    let Ok(View::Push(mut parts)) = view(frame) else { return None };
    let (Some(View::Bulk(kind)), Some(_), Some(View::Integer(count))) = (parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    Some((kind, usize::try_from(count).ok()?)).filter(|_| kind.ends_with(b"subscribe"))
}

/// A user other than Larder's own, or any user with `auth = "passthrough"`.
pub(crate) struct UpstreamUser {
    /// The server, over connections as this user, which its clients share.
    pub(crate) server: Rc<dyn RedisServer>,
    /// What the user may do. `None`: only Redis knows, so every command on data goes there.
    pub(crate) rights: Option<Arc<UserRights>>,
}
