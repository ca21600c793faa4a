//! A client's subscriptions where there is no upstream. Messages go to the clients of this process,
//! on all its cores.
//!
//! Invariants:
//! - The confirmation of a command is written in the command's place among the replies. Messages
//!   come from the inbox, after it. Messages published before an UNSUBSCRIBE are written before its
//!   confirmation.
//! - A subscription ends with its client.
use indexmap::IndexSet;
use larder_core::clients::{Client, PubSub, SubscriptionKind};
use std::sync::Arc;

/// The subscriptions of one client, until they are dropped.
pub(super) struct SubscribedTopics {
    pub(super) pubsub: Arc<PubSub>,
    pub(super) client: Arc<Client>,
    pub(super) topics: [IndexSet<Box<[u8]>>; 3],
    /// About what the topics occupy, here and in the registry.
    pub(super) bytes: usize,
}

impl SubscribedTopics {
    /// Adds a topic, unless it is there.
    pub(super) fn insert(&mut self, kind: SubscriptionKind, topic: &[u8]) {
        if self.topics[kind as usize].insert(topic.into()) {
            self.bytes += owned(topic);
            self.pubsub.subscribe(kind, topic, &self.client);
        }
    }
    /// Removes a topic, which the registry has already removed.
    pub(super) fn remove(&mut self, kind: SubscriptionKind, topic: &[u8]) {
        if self.topics[kind as usize].swap_remove(topic) {
            self.bytes -= owned(topic);
        }
    }
    /// The number that a confirmation shows. Shard channels are counted separately.
    pub(super) fn count(&self, kind: SubscriptionKind) -> usize {
        let [channels, patterns, shards] = &self.topics;
        if kind == SubscriptionKind::Shard { shards.len() } else { channels.len() + patterns.len() }
    }
    /// The numbers of channels, patterns and shard channels.
    pub(super) fn counts(&self) -> [usize; 3] {
        self.topics.each_ref().map(IndexSet::len)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.topics.iter().all(IndexSet::is_empty)
    }
}

/// About what a topic of a client occupies: its name twice, and its places in three tables.
fn owned(topic: &[u8]) -> usize {
    2 * topic.len() + 448
}

impl Drop for SubscribedTopics {
    fn drop(&mut self) {
        for kind in [SubscriptionKind::Channel, SubscriptionKind::Pattern, SubscriptionKind::Shard] {
            let topics = self.topics[kind as usize].iter().map(|topic| &**topic);
            self.pubsub.unsubscribe(kind, topics, self.client.id);
        }
    }
}
