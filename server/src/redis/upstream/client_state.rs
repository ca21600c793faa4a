//! What an upstream Redis keeps for one client on connections of the client's own: database, user, tracking, subscriptions.
use super::{redirect::Redirect, user::UpstreamUser};
use crate::{clients::Monitoring, source::DedicatedConnection, telemetry::Counters};
use larder_proto::{
    output::Output,
    resp::{View, view},
};

/// What an upstream Redis keeps for a client on its dedicated connections.
#[derive(Default)]
pub(in crate::redis) struct UpstreamState {
    /// The database that it has selected, if it is not the source's own.
    pub(in crate::redis) database: Option<u32>,
    /// The user that it has logged in as, if that is not the one that Larder is.
    pub(in crate::redis) user: Option<UpstreamUser>,
    /// CLIENT TRACKING ON.
    pub(in crate::redis) tracking: bool,
    /// … REDIRECT.
    pub(in crate::redis) redirect: Option<Redirect>,
    /// The connection of its subscriptions, or of MONITOR.
    pub(in crate::redis) subscribed: Option<UpstreamSubscriptions>,
    /// Replies that came over the dedicated connection and were passed on.
    pub(in crate::redis) passed: u64,
    /// What was said unasked while the reply of a command is not wanted (CLIENT REPLY): that is said all the same.
    pub(in crate::redis) aside: Output,
}

/// A client's subscriptions, or its MONITOR, on a connection of their own.
pub(in crate::redis) struct UpstreamSubscriptions {
    pub(in crate::redis) relay: Box<dyn DedicatedConnection>,
    /// Channels, patterns, shard channels.
    pub(in crate::redis) counts: [usize; 3],
    /// MONITOR.
    pub(in crate::redis) monitor: Option<Monitoring>,
}

impl UpstreamSubscriptions {
    /// Moves what came to `out`. True if something did.
    pub(in crate::redis) fn take(&mut self, out: &mut Output, resp3: bool, counters: &Counters) -> bool {
        let mut came = false;
        while let Some(frame) = self.relay.pushes().next(u64::MAX) {
            came = true;
            let push = frame.first() == Some(&b'>');
            if !self.note(&frame) && push {
                counters.pubsub_messages.add(1);
            }
            if resp3 || !push {
                out.put(&frame);
                continue;
            }
            // To RESP2 a push is an array. The channel of an UNSUBSCRIBE from nothing is null.
            out.put(b"*");
            match frame.windows(3).position(|part| part == b"_\r\n").filter(|_| confirmed(&frame).is_some()) {
                Some(at) => {
                    out.put(&frame[1..at]);
                    out.put(b"$-1\r\n");
                    out.put(&frame[at + 3..]);
                }
                None => out.put(&frame[1..]),
            }
        }
        came
    }

    /// Takes in what a confirmation says; false if it is none.
    fn note(&mut self, frame: &[u8]) -> bool {
        let [channels, patterns, shards] = &mut self.counts;
        // Channels and patterns are counted together.
        match confirmed(frame) {
            Some((b"subscribe" | b"unsubscribe", count)) => *channels = count.saturating_sub(*patterns),
            Some((b"psubscribe" | b"punsubscribe", count)) => *patterns = count.saturating_sub(*channels),
            Some((_, count)) => *shards = count,
            None => return false,
        }
        true
    }
}

/// Of a confirmation: what it confirms, and how many subscriptions of the kind there are now.
fn confirmed(frame: &[u8]) -> Option<(&[u8], usize)> {
    let Ok(View::Push(mut parts)) = view(frame) else { return None };
    let (Some(View::Bulk(kind)), Some(_), Some(View::Integer(count))) = (parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    Some((kind, usize::try_from(count).ok()?)).filter(|_| kind.ends_with(b"subscribe"))
}
