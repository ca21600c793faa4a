//! Publish and subscribe without a source: among the clients of this process, on all its cores.
//!
//! Invariants:
//! - A confirmation stands where its command stands. Messages come by the inbox, behind it; what was published before an
//!   UNSUBSCRIBE stands before its confirmation.
//! - A subscription ends with its client.
use super::{Flow, command::Command, command_context::CommandContext, command_error::CommandError};
use crate::clients::{Client, PubSub, SubscriptionKind};
use indexmap::IndexSet;
use std::sync::Arc;

/// What a client has subscribed to, until it is dropped.
pub(super) struct Subscriptions {
    pubsub: Arc<PubSub>,
    client: Arc<Client>,
    topics: [IndexSet<Box<[u8]>>; 3],
}

impl Subscriptions {
    /// As confirmations count: shard channels by themselves.
    fn count(&self, kind: SubscriptionKind) -> usize {
        let [channels, patterns, shards] = &self.topics;
        if kind == SubscriptionKind::Shard { shards.len() } else { channels.len() + patterns.len() }
    }
    /// Channels, patterns, shard channels.
    pub(super) fn counts(&self) -> [usize; 3] {
        self.topics.each_ref().map(IndexSet::len)
    }
    fn is_empty(&self) -> bool {
        self.topics.iter().all(IndexSet::is_empty)
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for kind in [SubscriptionKind::Channel, SubscriptionKind::Pattern, SubscriptionKind::Shard] {
            let topics = self.topics[kind as usize].iter().map(|topic| &**topic);
            self.pubsub.unsubscribe(kind, topics, self.client.id);
        }
    }
}

/// SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their opposites.
pub(super) fn subscribe(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let mark = call.reply.output().mark();
    match call.command.name {
        "subscribe" => begin(call, SubscriptionKind::Channel),
        "psubscribe" => begin(call, SubscriptionKind::Pattern),
        "ssubscribe" => begin(call, SubscriptionKind::Shard),
        "punsubscribe" => end(call, SubscriptionKind::Pattern),
        "sunsubscribe" => end(call, SubscriptionKind::Shard),
        _ => end(call, SubscriptionKind::Channel),
    }
    let session = &mut *call.session;
    if session.is_silent() {
        // Confirmations are no replies.
        session.say_aside(call.reply.output(), mark);
    }
    session.subscriptions = session.subscriptions.take().filter(|subscriptions| !subscriptions.is_empty());
    session.note_subscriptions();
    session.settle();
    Ok(Flow::Done)
}

fn begin(call: &mut CommandContext<'_>, kind: SubscriptionKind) {
    for topic in call.args.from(1) {
        let client = &call.session.client;
        let subscriptions = call.session.subscriptions.get_or_insert_with(|| {
            let pubsub = call.worker.app.pubsub.clone();
            Box::new(Subscriptions { pubsub, client: client.clone(), topics: Default::default() })
        });
        if subscriptions.topics[kind as usize].insert(topic.into()) {
            subscriptions.pubsub.subscribe(kind, topic, &subscriptions.client);
        }
        confirm(call, Some(topic), kind);
    }
}

fn end(call: &mut CommandContext<'_>, kind: SubscriptionKind) {
    let subscriptions = call.session.subscriptions.as_mut();
    let topics: Vec<Box<[u8]>> = match (call.args.len(), subscriptions) {
        (1, None) => Vec::new(),
        (1, Some(subscriptions)) => subscriptions.topics[kind as usize].iter().cloned().collect(),
        _ => call.args.from(1).map(Into::into).collect(),
    };
    if topics.is_empty() {
        return confirm(call, None, kind);
    }
    if let Some(subscriptions) = &call.session.subscriptions {
        subscriptions.pubsub.unsubscribe(kind, topics.iter().map(|topic| &**topic), subscriptions.client.id);
    }
    if !call.nested {
        // A message behind the last confirmation would look like a reply to a client of RESP2.
        call.session.deliver_all(call.reply.output());
    }
    for topic in topics {
        if let Some(subscriptions) = &mut call.session.subscriptions {
            subscriptions.topics[kind as usize].shift_remove(&topic);
        }
        confirm(call, Some(&topic), kind);
    }
}

fn confirm(call: &mut CommandContext<'_>, topic: Option<&[u8]>, kind: SubscriptionKind) {
    let count = call.session.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.count(kind));
    let reply = &mut call.reply;
    reply.push(3);
    reply.bulk(call.command.name.as_bytes());
    match topic {
        Some(topic) => reply.bulk(topic),
        None => reply.null(),
    }
    reply.integer(count as i64);
}

/// PUBLISH channel message, SPUBLISH
pub(super) fn publish(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let kind = if call.command.name == "spublish" { SubscriptionKind::Shard } else { SubscriptionKind::Channel };
    let receivers = call.worker.app.pubsub.publish(kind, call.arg(1), call.arg(2));
    call.reply.integer(receivers as i64);
    Ok(Flow::Done)
}

/// `PUBSUB CHANNELS [pattern]`, `SHARDCHANNELS [pattern]`
pub(super) fn channels(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    if call.args.len() > 3 {
        return Err(super::arity(call.command.name));
    }
    let found = call.worker.app.pubsub.channels(kind_of(call.command), call.args.get(2));
    call.reply.array(found.len());
    found.iter().for_each(|name| call.reply.bulk(name));
    Ok(Flow::Done)
}

/// `PUBSUB NUMSUB [channel …]`, `SHARDNUMSUB [channel …]`
pub(super) fn numsub(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let channels = call.args.from(2);
    call.reply.array(2 * channels.len());
    for channel in channels {
        call.reply.bulk(channel);
        let count = call.worker.app.pubsub.subscribers(kind_of(call.command), channel);
        call.reply.integer(count as i64);
    }
    Ok(Flow::Done)
}

/// PUBSUB NUMPAT
pub(super) fn numpat(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let patterns = call.worker.app.pubsub.totals()[SubscriptionKind::Pattern as usize];
    call.reply.integer(patterns as i64);
    Ok(Flow::Done)
}

fn kind_of(command: &Command) -> SubscriptionKind {
    if command.name.starts_with("pubsub|shard") { SubscriptionKind::Shard } else { SubscriptionKind::Channel }
}
