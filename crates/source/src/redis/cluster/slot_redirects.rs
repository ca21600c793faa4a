//! Redirects: what a node of a cluster did not answer is asked elsewhere or later. Covers MOVED,
//! ASK, TRYAGAIN and CLUSTERDOWN (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#redirection-and-resharding>), and nodes that are gone until
//! another takes their place.
use super::{
    cluster_core::ClusterCore,
    command_routing::{Destination, RoutedCommands},
    key_slot::{SLOTS, slot},
    slot_map::SlotMap,
};
use crate::{
    fetch_refusals::{timeout_reason, too_large},
    fetch_result::{FetchedReply, KeyLife},
    local_future::LocalFuture,
    redis::{
        queued_request::{FetchRedirector, NO_EXPIRY, QueuedFetch, RelayResult},
        reply_errors::{refusal, unexpected},
    },
    redis_server_trait::{Pace, Relay},
    source_error::SourceError,
    upstream_commands::{BusyFor, framed_replies::may_break},
};
use bytes::Bytes;
use larder_config::RedisAddress;
use larder_engine::Millis;
use larder_proto::resp::{View, encode, view};
use larder_store::{StoredValue, clock};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// First and longest pause before a node is asked again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// After this many redirects in a row Larder pauses: nodes may disagree for a moment.
const MAX_HOPS: usize = 3;
/// Maximum redirected fetches of one core. More fail at once, so that one missing node does not
/// exhaust the limits for all.
const MAX_REDIRECTED: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SlotRedirect {
    /// MOVED: the slot is at this node from now on.
    Moved(u16, RedisAddress),
    /// ASK: this node, just once.
    Ask(RedisAddress),
    /// Retry a little later, by the map.
    Later,
}

impl SlotRedirect {
    pub(super) fn of(answer: &RelayResult) -> Option<SlotRedirect> {
        match answer {
            Err(error) => SlotRedirect::of_error(error),
            Ok(replies) if replies.is_broken() => None,
            // A transaction reports the redirect for the refused command, and EXEC then fails.
            Ok(replies) if replies.last().starts_with(b"-") => replies
                .iter()
                .find_map(|reply| SlotRedirect::of_text(&String::from_utf8_lossy(reply.strip_prefix(b"-")?))),
            Ok(_) => None,
        }
    }
    /// Whether it leads to a node of this map.
    fn is_within(&self, map: &SlotMap) -> bool {
        match self {
            SlotRedirect::Moved(_, address) | SlotRedirect::Ask(address) => map.has(map.resolve(address)),
            SlotRedirect::Later => true,
        }
    }
    fn of_error(error: &SourceError) -> Option<SlotRedirect> {
        match error {
            SourceError::Unavailable(_) => Some(SlotRedirect::Later),
            SourceError::Refused(text) => SlotRedirect::of_text(text),
            SourceError::Lost(_)
            | SourceError::Throttled(..)
            | SourceError::OnlyStreamed(_)
            | SourceError::ReadOnly(_) => None,
        }
    }
    fn of_text(text: &str) -> Option<SlotRedirect> {
        let mut words = text.split_ascii_whitespace();
        let kind = words.next()?;
        let mut target = || {
            let slot: u16 = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
            let (host, port) = words.next()?.rsplit_once(':')?;
            let port = port.parse().ok().filter(|port| *port != 0)?;
            // A node that does not know the other's address sends none.
            let known = !host.is_empty() && host != "?";
            known.then(|| (slot, RedisAddress::Tcp { host: host.to_owned(), port }))
        };
        match kind {
            "MOVED" => Some(target().map_or(SlotRedirect::Later, |(slot, address)| SlotRedirect::Moved(slot, address))),
            "ASK" => Some(target().map_or(SlotRedirect::Later, |(_, address)| SlotRedirect::Ask(address))),
            "TRYAGAIN" | "CLUSTERDOWN" => Some(SlotRedirect::Later),
            _ => None,
        }
    }
}

impl ClusterCore {
    /// Sends commands to a node, with ASKING if `asking`. They are queued when this returns.
    pub(super) fn send(
        &self,
        part: &RoutedCommands,
        address: &RedisAddress,
        route: ConnectionRoute,
        asking: bool,
    ) -> impl Future<Output = RelayResult> + use<> {
        let commands = match asking {
            true => [&encode(&[b"ASKING"]), &part.commands[..]].concat().into(),
            false => part.commands.clone(),
        };
        let count = part.count + usize::from(asking);
        let answer: Result<LocalFuture<'static, RelayResult>, _> = self.node(address).map(|node| match route.class {
            ConnectionClass::Shared => {
                node.relay_at(Pace { slow: false, busy: route.busy }, commands, count, route.resp3)
            }
            ConnectionClass::Slow => node.relay_at(Pace { slow: true, busy: route.busy }, commands, count, route.resp3),
            ConnectionClass::Unlimited => Box::pin(node.send_unlimited(commands, count, route.resp3)),
            ConnectionClass::Isolated { clean } => {
                Box::pin(node.send_isolated(commands, count, route.resp3, clean, route.busy))
            }
        });
        async move {
            let replies = answer?.await?;
            Ok(if asking { replies.part(1..count) } else { replies })
        }
    }

    /// Sends commands to their destination by the slot map.
    pub(super) async fn send_to_destination(&self, part: &RoutedCommands, route: ConnectionRoute) -> RelayResult {
        let address = self.address(&self.map(), &part.to)?;
        self.send(part, &address, route, false).await
    }

    /// Follows redirects until there is an answer, or until `deadline`.
    pub(super) async fn follow_redirects(
        &self,
        part: &RoutedCommands,
        mut answer: RelayResult,
        route: ConnectionRoute,
        deadline: Instant,
    ) -> RelayResult {
        let mut pause = PAUSE.0;
        let mut hops = 0;
        let mut last = None;
        while let Some(mut redirect) = SlotRedirect::of(&answer).filter(|_| Instant::now() < deadline) {
            hops += 1;
            // A script may return such an error. It leads to no node that the cluster has not named, and
            // it says nothing about the slot.
            let is_doubtful = may_break(&part.commands);
            if is_doubtful && !redirect.is_within(&self.map()) {
                if hops > MAX_HOPS {
                    break;
                }
                redirect = SlotRedirect::Later;
            }
            if redirect == SlotRedirect::Later || hops > MAX_HOPS {
                self.setup.refresh.notify_one();
                if Instant::now() + pause >= deadline {
                    break;
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
            let map = self.map();
            let address = match &redirect {
                SlotRedirect::Moved(slot, address) => {
                    match is_doubtful {
                        true => self.setup.refresh.notify_one(),
                        false => self.moved(*slot, address),
                    }
                    map.resolve(address).clone()
                }
                SlotRedirect::Ask(address) => map.resolve(address).clone(),
                SlotRedirect::Later => match self.address(&map, &part.to) {
                    Ok(address) => address,
                    Err(error) => {
                        answer = Err(error);
                        continue;
                    }
                },
            };
            let asking = matches!(redirect, SlotRedirect::Ask(_));
            answer = self.send(part, &address, route, asking).await;
            last = Some(address);
        }
        // The slot map may name another node than the one that ran it: what that one announces comes first.
        if let Some(address) = last
            && may_break(&part.commands)
            && answer.is_ok()
        {
            self.node(&address)?.caught_up().await;
        }
        answer
    }

    /// Fetches again, following redirects.
    async fn fetch_redirected(&self, queued: QueuedFetch, error: SourceError) {
        let health = &self.setup.settings.health;
        let fetch = &queued.fetch;
        let error = Err(error);
        // The answer comes over another connection than before.
        fetch.sent_through(self.setup.settings.queue_number());
        let sent_at = clock::now();
        // A read may be abandoned at its deadline.
        let until = async |part: &RoutedCommands, route| {
            let answer = timeout_at(queued.deadline, self.follow_redirects(part, error, route, queued.deadline)).await;
            let limits = &self.setup.settings.limits;
            answer.unwrap_or_else(|_| Err(SourceError::Unavailable(timeout_reason(limits.timeout, limits))))
        };
        if let Some(asked) = fetch.reply_name() {
            let route = ConnectionRoute::shared(asked.resp3);
            let commands = encode(&asked.parts().collect::<Vec<_>>()).into();
            let part = RoutedCommands { commands, count: 1, to: Destination::Slot(slot(fetch.key())) };
            let answer = until(&part, route).await;
            let now = clock::now();
            return match answer {
                // Not cached: no connection vouches for it.
                Ok(replies) => queued.finish_reply(
                    FetchedReply { reply: replies.last(), key: KeyLife::Until(sent_at) },
                    (now, Instant::now()),
                    health,
                ),
                Err(error) => queued.finish(Err(error), now, health),
            };
        }
        let transaction: [&[&[u8]]; 4] = [&[b"MULTI"], &[b"GET", fetch.key()], &[b"PTTL", fetch.key()], &[b"EXEC"]];
        let commands = transaction.map(encode).concat().into();
        let part = RoutedCommands { commands, count: transaction.len(), to: Destination::Slot(slot(fetch.key())) };
        let answer = until(&part, ConnectionRoute::shared(false)).await;
        let max = self.setup.settings.limits.max_value;
        let answer = answer.and_then(|replies| found(&replies.last(), sent_at, max));
        queued.finish(answer, clock::now(), health);
    }
}

/// Which kind of connection to a node is used, and which protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectionRoute {
    pub(super) class: ConnectionClass,
    pub(super) resp3: bool,
    /// See [`Pace`].
    pub(super) busy: Option<BusyFor>,
}
impl ConnectionRoute {
    /// Over the connection that all clients share.
    pub(super) fn shared(resp3: bool) -> ConnectionRoute {
        ConnectionRoute { class: ConnectionClass::Shared, resp3, busy: None }
    }
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionClass {
    /// The connection that all clients share.
    Shared,
    /// The shared connection for slow commands.
    Slow,
    /// A connection of its own without a deadline.
    Unlimited,
    /// See [`RedisServer::relay_isolated`](crate::RedisServer::relay_isolated).
    Isolated { clean: bool },
}

/// Reads the reply of EXEC with GET and PTTL.
fn found(reply: &Bytes, sent_at: Millis, max: usize) -> Result<Option<StoredValue>, SourceError> {
    let mut parts = match view(reply) {
        Ok(View::Array(parts)) => parts,
        Ok(View::Error(text)) => return Err(refusal(text)),
        _ => return Err(unexpected()),
    };
    let value = match parts.next() {
        Some(View::Null) => return Ok(None),
        Some(View::Bulk(value)) if value.len() > max => return Err(too_large(value.len(), max)),
        Some(View::Bulk(value)) => reply.slice_ref(value),
        Some(View::Error(text)) => return Err(refusal(text)),
        _ => return Err(unexpected()),
    };
    let expiry = match parts.next() {
        Some(View::Integer(NO_EXPIRY)) => None,
        Some(View::Integer(left)) => Some(sent_at.saturating_add(u64::try_from(left).unwrap_or(0))),
        _ => return Err(unexpected()),
    };
    Ok(Some(StoredValue::string(value, expiry)))
}

impl FetchRedirector for ClusterCore {
    fn redirect(&self, queued: QueuedFetch, error: SourceError) {
        let core = self.me.upgrade().filter(|core| core.redirected.get() < MAX_REDIRECTED);
        match (core, SlotRedirect::of_error(&error)) {
            (Some(core), Some(_)) if queued.deadline > Instant::now() => {
                core.redirected.set(core.redirected.get() + 1);
                tokio::task::spawn_local(async move {
                    core.fetch_redirected(queued, error).await;
                    core.redirected.set(core.redirected.get() - 1);
                });
            }
            _ => queued.finish(Err(error), clock::now(), &self.setup.settings.health),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_errors_say() {
        let tcp = |host: &str| RedisAddress::Tcp { host: host.into(), port: 7000 };
        for (text, expected) in [
            ("MOVED 3999 127.0.0.1:7000", Some(SlotRedirect::Moved(3999, tcp("127.0.0.1")))),
            ("MOVED 3999 ::1:7000", Some(SlotRedirect::Moved(3999, tcp("::1")))),
            ("ASK 3999 node-a:7000", Some(SlotRedirect::Ask(tcp("node-a")))),
            ("MOVED 3999 :7000", Some(SlotRedirect::Later)),
            ("MOVED 3999 ?:7000", Some(SlotRedirect::Later)),
            ("MOVED 16384 h:7000", Some(SlotRedirect::Later)),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(SlotRedirect::Later)),
            ("CLUSTERDOWN The cluster is down", Some(SlotRedirect::Later)),
            ("CROSSSLOT Keys in request don't hash to the same slot", None),
            ("ERR MOVED", None),
        ] {
            assert_eq!(SlotRedirect::of_text(text), expected, "{text}");
        }
        assert_eq!(SlotRedirect::of_error(&SourceError::Lost("it may have been done".into())), None);
    }
}
