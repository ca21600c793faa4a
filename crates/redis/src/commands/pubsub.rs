//! PUBLISH and PUBSUB without an upstream, among the clients of this process.
use crate::{
    command_context::CommandContext,
    command_outcome::{Done, Flow, arity},
    commands::subscriptions::check_name,
};
use larder_core::clients::SubscriptionKind;
use larder_proto::glob::{self, Pace};
use std::sync::Arc;

/// Steps of comparing a channel with patterns after which other connections have their turn.
const STEPS_IN_A_TURN: usize = 1 << 20;

/// PUBLISH channel message
pub(crate) fn publish(call: &mut CommandContext<'_>) -> Done {
    check_name(call, "a channel", call.arg(1))?;
    let (channel, patterns) = (call.arg(1), call.worker.app.tables.pubsub.patterns());
    let steps: usize = patterns.iter().map(|pattern| glob::most_steps(pattern, channel)).sum();
    if steps > STEPS_IN_A_TURN && !call.nested {
        return call.alone();
    }
    let matching: Vec<_> = patterns.iter().filter(|pattern| glob::matches(pattern, channel, false)).cloned().collect();
    send(call, SubscriptionKind::Channel, &matching)
}
/// PUBLISH to a channel whose comparison with all patterns takes long.
pub(crate) async fn publish_in_turns(call: &mut CommandContext<'_>) -> Done {
    let (channel, mut matching, mut done) = (call.arg(1), Vec::new(), 0);
    for pattern in call.worker.app.tables.pubsub.patterns().iter() {
        if glob::matches(pattern, channel, false) {
            matching.push(pattern.clone());
        }
        done += glob::most_steps(pattern, channel);
        if done > STEPS_IN_A_TURN {
            done = 0;
            tokio::task::yield_now().await;
        }
    }
    send(call, SubscriptionKind::Channel, &matching)
}
/// SPUBLISH channel message
pub(crate) fn spublish(call: &mut CommandContext<'_>) -> Done {
    check_name(call, "a channel", call.arg(1))?;
    send(call, SubscriptionKind::Shard, &[])
}
fn send(call: &mut CommandContext<'_>, kind: SubscriptionKind, matching: &[Arc<[u8]>]) -> Done {
    let receivers = call.worker.app.tables.pubsub.post(kind, call.arg(1), call.arg(2), matching);
    call.integer(receivers as i64)
}

/// `PUBSUB CHANNELS [pattern]`, `PUBSUB SHARDCHANNELS [pattern]`
pub(crate) fn channels(call: &mut CommandContext<'_>, kind: SubscriptionKind) -> Done {
    if call.args.len() > 3 {
        return Err(arity(call.command.name));
    }
    let (mut names, pattern) = (call.worker.app.tables.pubsub.channels(kind), call.args.get(2));
    if let Some(pattern) = pattern {
        let steps: usize = names.iter().map(|name| glob::most_steps(pattern, name)).sum();
        if steps > STEPS_IN_A_TURN && !call.nested {
            return call.alone();
        }
        names.retain(|name| glob::matches(pattern, name, false));
    }
    list(call, &names)
}
/// PUBSUB CHANNELS or SHARDCHANNELS with a pattern whose comparison with all channels takes long.
pub(crate) async fn channels_in_turns(call: &mut CommandContext<'_>) -> Done {
    let kind = if call.command.name == "pubsub|channels" { SubscriptionKind::Channel } else { SubscriptionKind::Shard };
    let (mut pace, mut found) = (Pace::new(call.arg(2)), Vec::new());
    for name in call.worker.app.tables.pubsub.channels(kind) {
        if pace.matches(&name) {
            found.push(name);
        }
        if pace.is_turn_over() {
            tokio::task::yield_now().await;
        }
    }
    list(call, &found)
}
fn list(call: &mut CommandContext<'_>, names: &[Arc<[u8]>]) -> Done {
    call.reply.array(names.len());
    names.iter().for_each(|name| call.reply.bulk(name));
    Ok(Flow::Done)
}

/// `PUBSUB NUMSUB [channel …]`, `PUBSUB SHARDNUMSUB [channel …]`
pub(crate) fn numsub(call: &mut CommandContext<'_>, kind: SubscriptionKind) -> Done {
    let channels = call.args.from(2);
    call.reply.array(2 * channels.len());
    for channel in channels {
        call.reply.bulk(channel);
        let count = call.worker.app.tables.pubsub.subscribers(kind, channel);
        call.reply.integer(count as i64);
    }
    Ok(Flow::Done)
}

pub(crate) fn numpat(call: &mut CommandContext<'_>) -> Done {
    let patterns = call.worker.app.tables.pubsub.totals()[SubscriptionKind::Pattern as usize];
    call.integer(patterns as i64)
}
