//! Who has subscribed to what: one registry for all cores.
//!
//! A message is encoded once and posted to each subscriber's inbox under the registry's lock, so
//! that all of them see messages in the same order. Lock order: this registry, an inbox.
use super::{
    client::Client,
    push_inbox::{Backlog, PushMessage},
};
use bytes::Bytes;
use indexmap::IndexMap;
use larder_proto::{glob, output::Output, resp::Reply};
use parking_lot::Mutex;
use std::sync::Arc;

/// What can be subscribed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubscriptionKind {
    Channel,
    Pattern,
    Shard,
}
const KINDS: usize = 3;

/// Subscribers by number.
type Subscribers = IndexMap<u64, Arc<Client>>;
/// Subscribers by channel or pattern.
type Topics = IndexMap<Box<[u8]>, Subscribers>;

/// The registry.
#[derive(Debug)]
pub struct PubSub {
    topics: Mutex<[Topics; KINDS]>,
    backlog: Arc<Backlog>,
}

impl PubSub {
    /// A registry without subscriptions. `backlog` bounds the undelivered messages of a subscriber.
    pub fn new(backlog: Arc<Backlog>) -> PubSub {
        PubSub { topics: Mutex::default(), backlog }
    }

    /// How many channels, patterns and shard channels have subscribers.
    pub fn totals(&self) -> [usize; KINDS] {
        let topics = self.topics.lock();
        std::array::from_fn(|kind| topics[kind].len())
    }

    pub(crate) fn subscribe(&self, kind: SubscriptionKind, topic: &[u8], client: &Arc<Client>) {
        let topics = &mut self.topics.lock()[kind as usize];
        topics.entry(topic.into()).or_default().insert(client.id, client.clone());
    }

    pub(crate) fn unsubscribe<'a>(&self, kind: SubscriptionKind, topics: impl Iterator<Item = &'a [u8]>, client: u64) {
        let of_kind = &mut self.topics.lock()[kind as usize];
        for topic in topics {
            let Some(subscribers) = of_kind.get_mut(topic) else { continue };
            subscribers.swap_remove(&client);
            if subscribers.is_empty() {
                // Patterns are seen in the order in which they came.
                match kind {
                    SubscriptionKind::Pattern => of_kind.shift_remove(topic),
                    SubscriptionKind::Channel | SubscriptionKind::Shard => of_kind.swap_remove(topic),
                };
            }
        }
    }

    /// Posts a message to all subscribers of a channel, and gives how often.
    pub(crate) fn publish(&self, kind: SubscriptionKind, channel: &[u8], message: &[u8]) -> usize {
        let topics = self.topics.lock();
        let post = |subscribers: &Subscribers, parts: &[&[u8]]| {
            let frame = self.backlog.count(push(parts));
            for client in subscribers.values() {
                client.post(PushMessage::Published(frame.clone()), &self.backlog);
            }
            subscribers.len()
        };
        let name: &[u8] = if kind == SubscriptionKind::Shard { b"smessage" } else { b"message" };
        let direct = topics[kind as usize].get(channel).map_or(0, |to| post(to, &[name, channel, message]));
        if kind == SubscriptionKind::Shard {
            return direct;
        }
        let patterns = topics[SubscriptionKind::Pattern as usize].iter();
        let matching = patterns.filter(|(pattern, _)| glob::matches(pattern, channel, false));
        direct + matching.map(|(pattern, to)| post(to, &[b"pmessage", pattern, channel, message])).sum::<usize>()
    }

    /// Channels with subscribers whose names match, or all of them.
    pub(crate) fn channels(&self, kind: SubscriptionKind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let topics = self.topics.lock();
        let matches = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, false));
        topics[kind as usize].keys().filter(|name| matches(name)).cloned().collect()
    }

    /// How many have subscribed to a channel.
    pub(crate) fn subscribers(&self, kind: SubscriptionKind, channel: &[u8]) -> usize {
        self.topics.lock()[kind as usize].get(channel).map_or(0, Subscribers::len)
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
