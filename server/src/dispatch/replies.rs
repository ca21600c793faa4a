//! Commands whose whole replies the group keeps: answered from the memory tier, or fetched for it. What is not kept goes to the source alone.
use super::{Flow, call::Call, fault::Fault, pending::Pending, session::Session};
use crate::{
    proto::resp::Reply,
    read::{Begun, Fetch},
};
use bytes::Bytes;

/// A reply from this length on is linked rather than copied.
const SHARED_FROM: usize = 16 * 1024;

/// Begins a command that goes to a Redis source.
pub(super) fn begin(call: &mut Call<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, Fault> {
    let (group, args) = (call.group(), call.args);
    let resp3 = call.reply.is_resp3();
    let keepable = group.source.as_redis().and_then(|source| source.keeps_reply(args, resp3));
    let max_key = call.worker.app.settings.max_key;
    let fits = |at| args.get(at).is_some_and(|key| (1..=max_key).contains(&key.len()));
    let Some(keepable) = keepable.filter(|keepable| fits(keepable.key)) else {
        return Ok(Flow::Alone);
    };
    let out = call.reply.output();
    let begun = group.begin_reply(args, keepable, resp3, call.now, batch, |reply| match reply.share() {
        Some(large) => out.put_shared(large),
        None => out.put(reply.as_bytes()),
    });
    Ok(match begun {
        Some(Begun::Hit(())) => Flow::Done,
        Some(Begun::Wait(wait)) => Flow::Pending(Pending::one(wait, resp3, true)),
        Some(Begun::Absent) | None => Flow::Alone,
    })
}

/// Writes a whole reply that was waited for.
pub(super) fn pass_on(reply: Bytes, session: &Session, to: &mut Reply<'_>) {
    if matches!(reply.first(), Some(b'-' | b'!')) {
        session.counters.redis_errors.add(1);
    }
    match reply.len() {
        SHARED_FROM.. => to.output().put_shared(reply),
        _ => to.output().put(&reply),
    }
}
