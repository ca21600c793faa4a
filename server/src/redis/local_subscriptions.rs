//! What a client has subscribed to where there is no upstream: messages go among the clients of this process, on all its cores.
//!
//! Invariants:
//! - A confirmation stands where its command stands. Messages come by the inbox, behind it; what was published before an
//!   UNSUBSCRIBE stands before its confirmation.
//! - A subscription ends with its client.
use crate::clients::{Client, PubSub, SubscriptionKind};
use indexmap::IndexSet;
use std::sync::Arc;

/// What a client has subscribed to, until it is dropped.
pub(super) struct LocalSubscriptions {
    pub(super) pubsub: Arc<PubSub>,
    pub(super) client: Arc<Client>,
    pub(super) topics: [IndexSet<Box<[u8]>>; 3],
}

impl LocalSubscriptions {
    /// As confirmations count: shard channels by themselves.
    pub(super) fn count(&self, kind: SubscriptionKind) -> usize {
        let [channels, patterns, shards] = &self.topics;
        if kind == SubscriptionKind::Shard { shards.len() } else { channels.len() + patterns.len() }
    }
    /// Channels, patterns, shard channels.
    pub(super) fn counts(&self) -> [usize; 3] {
        self.topics.each_ref().map(IndexSet::len)
    }
    pub(super) fn is_empty(&self) -> bool {
        self.topics.iter().all(IndexSet::is_empty)
    }
}

impl Drop for LocalSubscriptions {
    fn drop(&mut self) {
        for kind in [SubscriptionKind::Channel, SubscriptionKind::Pattern, SubscriptionKind::Shard] {
            let topics = self.topics[kind as usize].iter().map(|topic| &**topic);
            self.pubsub.unsubscribe(kind, topics, self.client.id);
        }
    }
}
