//! Who has subscribed to what: one registry for all cores.
//!
//! A message is encoded once and posted to each subscriber's inbox under the registry's lock, so
//! that all of them see messages in the same order. Lock order: this registry, an inbox. Patterns
//! are compared without the lock, because clients choose their lengths and their number.
use super::{
    client::Client,
    push_inbox::{Backlog, PushMessage},
};
use crate::read::EventChannels;
use bytes::Bytes;
use indexmap::IndexMap;
use larder_proto::{glob, output::Output, resp::Reply};
use parking_lot::Mutex;
use std::sync::Arc;

/// What can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubscriptionKind {
    Channel,
    Pattern,
    Shard,
}
const KINDS: usize = 3;

/// Room for this many topics is kept.
const KEPT_TOPICS: usize = 64;

/// Subscribers by number.
type Subscribers = IndexMap<u64, Arc<Client>>;
/// Subscribers by channel or pattern.
type Topics = IndexMap<Arc<[u8]>, Subscribers>;
/// All patterns with subscribers, as they were at one moment.
pub(crate) type Patterns = Arc<[Arc<[u8]>]>;

#[derive(Debug)]
pub struct PubSub {
    state: Mutex<State>,
    backlog: Arc<Backlog>,
}
#[derive(Debug, Default)]
struct State {
    topics: [Topics; KINDS],
    /// Made by the first message after a change of the patterns.
    patterns: Option<Patterns>,
}

impl State {
    /// The topics of a kind, which are about to change.
    fn changing(&mut self, kind: SubscriptionKind) -> &mut Topics {
        if kind == SubscriptionKind::Pattern {
            self.patterns = None;
        }
        &mut self.topics[kind as usize]
    }
}

impl PubSub {
    /// A registry without subscriptions. `backlog` bounds the undelivered messages of a subscriber.
    pub fn new(backlog: Arc<Backlog>) -> PubSub {
        PubSub { state: Mutex::default(), backlog }
    }

    /// How many channels, patterns and shard channels have subscribers.
    pub fn totals(&self) -> [usize; KINDS] {
        let state = self.state.lock();
        std::array::from_fn(|kind| state.topics[kind].len())
    }

    pub fn subscribe(&self, kind: SubscriptionKind, topic: &[u8], client: &Arc<Client>) {
        let mut state = self.state.lock();
        state.changing(kind).entry(topic.into()).or_default().insert(client.id, client.clone());
    }

    pub fn unsubscribe<'a>(&self, kind: SubscriptionKind, topics: impl Iterator<Item = &'a [u8]>, client: u64) {
        let mut state = self.state.lock();
        let of_kind = state.changing(kind);
        for topic in topics {
            let Some(subscribers) = of_kind.get_mut(topic) else { continue };
            subscribers.swap_remove(&client);
            if subscribers.is_empty() {
                of_kind.swap_remove(topic);
            }
        }
        // No client is charged for the room that those who have left needed.
        if of_kind.capacity() > 4 * of_kind.len().max(KEPT_TOPICS) {
            of_kind.shrink_to(2 * of_kind.len());
        }
    }

    /// The patterns that a message must be compared with before it is [posted](PubSub::post).
    pub fn patterns(&self) -> Patterns {
        let mut state = self.state.lock();
        let State { topics, patterns } = &mut *state;
        patterns.get_or_insert_with(|| topics[SubscriptionKind::Pattern as usize].keys().cloned().collect()).clone()
    }

    /// Posts a message to all subscribers of a channel and of the `matching` patterns. Returns how
    /// often.
    pub fn post(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8], matching: &[Arc<[u8]>]) -> usize {
        let state = self.state.lock();
        let post = |kind: SubscriptionKind, topic: &[u8], parts: &[&[u8]]| {
            let Some(subscribers) = state.topics[kind as usize].get(topic) else { return 0 };
            let frame = self.backlog.count(push(parts));
            for client in subscribers.values() {
                client.post(PushMessage::Published(frame.clone()), &self.backlog);
            }
            subscribers.len()
        };
        let name: &[u8] = if kind == SubscriptionKind::Shard { b"smessage" } else { b"message" };
        let direct = post(kind, channel, &[name, channel, message]);
        let by_pattern =
            |pattern: &Arc<[u8]>| post(SubscriptionKind::Pattern, pattern, &[b"pmessage", pattern, channel, message]);
        direct + matching.iter().map(by_pattern).sum::<usize>()
    }

    /// Channels with subscribers.
    pub fn channels(&self, kind: SubscriptionKind) -> Vec<Arc<[u8]>> {
        self.state.lock().topics[kind as usize].keys().cloned().collect()
    }

    /// How many have subscribed to a channel.
    pub fn subscribers(&self, kind: SubscriptionKind, channel: &[u8]) -> usize {
        self.state.lock().topics[kind as usize].get(channel).map_or(0, Subscribers::len)
    }
}

impl EventChannels for PubSub {
    fn publish_event(&self, channel: &[u8], message: &[u8], left: &mut usize) {
        let is_match = |pattern: &&Arc<[u8]>| {
            let may_match = channel.starts_with(glob::literal_prefix(pattern));
            let Some(rest) = left.checked_sub(glob::most_steps(pattern, channel)).filter(|_| may_match) else {
                return false;
            };
            *left = rest;
            glob::matches(pattern, channel, false)
        };
        let matching: Vec<_> = self.patterns().iter().filter(is_match).cloned().collect();
        self.post(SubscriptionKind::Channel, channel, message, &matching);
    }
}

/// A push of RESP3.
fn push(parts: &[&[u8]]) -> Bytes {
    let mut out = Output::default();
    let mut reply = Reply::new(&mut out, true);
    reply.push(parts.len());
    parts.iter().for_each(|part| reply.bulk(part));
    out.to_vec().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_base::buffers::Buffers;
    use larder_config::Address;
    use std::{net::Ipv4Addr, task::Waker};

    #[test]
    fn an_event_is_not_compared_with_patterns_for_long() {
        let pubsub = PubSub::new(Arc::new(Backlog::new(1 << 20, Buffers::unbounded())));
        let at = || Address::Ip((Ipv4Addr::LOCALHOST, 1).into());
        let client = |id| Arc::new(Client::new(id, at(), at(), 0, 1, Waker::noop().clone()));
        let (short, long, other) = (client(1), client(2), client(3));
        let costly = format!("__keyspace@0__:{}", "*a".repeat(30_000));
        // One that cannot match costs nothing.
        let elsewhere = format!("news.{}", "*a".repeat(30_000));
        for (pattern, client) in [(&*costly, &long), (&*elsewhere, &other), ("__key*", &short)] {
            pubsub.subscribe(SubscriptionKind::Pattern, pattern.as_bytes(), client);
        }
        let mut left = 1 << 22;
        pubsub.publish_event(format!("__keyspace@0__:{}", "a".repeat(60_000)).as_bytes(), b"set", &mut left);
        assert!(left < 1 << 22, "the short one was compared");
        assert!(!long.push_inbox.has_messages() && !other.push_inbox.has_messages());
        assert!(short.push_inbox.has_messages());
    }
}
