//! PUBLISH and PUBSUB without an upstream, among the clients of this process.
use crate::{
    clients::SubscriptionKind,
    redis::{
        command_context::CommandContext,
        command_error::{CommandError, arity},
        command_flow::Flow,
    },
};

type Done = Result<Flow, CommandError>;

/// PUBLISH channel message
pub(in crate::redis) fn publish(call: &mut CommandContext<'_>) -> Done {
    send(call, SubscriptionKind::Channel)
}
/// SPUBLISH channel message
pub(in crate::redis) fn spublish(call: &mut CommandContext<'_>) -> Done {
    send(call, SubscriptionKind::Shard)
}
fn send(call: &mut CommandContext<'_>, kind: SubscriptionKind) -> Done {
    let receivers = call.worker.app.pubsub.publish(kind, call.arg(1), call.arg(2));
    call.reply.integer(receivers as i64);
    Ok(Flow::Done)
}

/// `PUBSUB CHANNELS [pattern]`
pub(in crate::redis) fn channels(call: &mut CommandContext<'_>) -> Done {
    list(call, SubscriptionKind::Channel)
}
/// `PUBSUB SHARDCHANNELS [pattern]`
pub(in crate::redis) fn shardchannels(call: &mut CommandContext<'_>) -> Done {
    list(call, SubscriptionKind::Shard)
}
fn list(call: &mut CommandContext<'_>, kind: SubscriptionKind) -> Done {
    if call.args.len() > 3 {
        return Err(arity(call.command.name));
    }
    let found = call.worker.app.pubsub.channels(kind, call.args.get(2));
    call.reply.array(found.len());
    found.iter().for_each(|name| call.reply.bulk(name));
    Ok(Flow::Done)
}

/// `PUBSUB NUMSUB [channel …]`
pub(in crate::redis) fn numsub(call: &mut CommandContext<'_>) -> Done {
    count(call, SubscriptionKind::Channel)
}
/// `PUBSUB SHARDNUMSUB [channel …]`
pub(in crate::redis) fn shardnumsub(call: &mut CommandContext<'_>) -> Done {
    count(call, SubscriptionKind::Shard)
}
fn count(call: &mut CommandContext<'_>, kind: SubscriptionKind) -> Done {
    let channels = call.args.from(2);
    call.reply.array(2 * channels.len());
    for channel in channels {
        call.reply.bulk(channel);
        let count = call.worker.app.pubsub.subscribers(kind, channel);
        call.reply.integer(count as i64);
    }
    Ok(Flow::Done)
}

/// PUBSUB NUMPAT
pub(in crate::redis) fn numpat(call: &mut CommandContext<'_>) -> Done {
    let patterns = call.worker.app.pubsub.totals()[SubscriptionKind::Pattern as usize];
    call.reply.integer(patterns as i64);
    Ok(Flow::Done)
}
