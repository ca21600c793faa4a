//! GET and MGET: on the memory tier alone, or through the group, where they may wait for the
//! source.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, WRONG_TYPE},
    key_prefetch,
    pending_read::{PendingRead, Slot},
};
use larder_core::read::{Group, StartedRead};
use larder_engine::{Entry, Key, Millis, Tier};
use larder_proto::resp::Reply;
use larder_source::{Fetch, SourceKind, is_document};

/// GET. `read` becomes the read that waits for the source, if it does.
#[inline]
pub(crate) fn get(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>, read: &mut Option<PendingRead>) -> Done {
    call.check_keys()?;
    let (group, key) = (call.group(), call.key(1));
    *read = read_one(group, key, call.now, batch, &mut call.reply);
    Ok(Flow::Done)
}

/// Reads one value: writes the reply, or returns the read that waits for the source.
#[inline]
pub(crate) fn read_one(
    group: &Group,
    key: Key<'_>,
    now: Millis,
    batch: &mut Vec<Fetch>,
    reply: &mut Reply<'_>,
) -> Option<PendingRead> {
    match group.begin(key, now, batch, |entry| reply_value(reply, &entry)) {
        StartedRead::Hit(()) => {}
        StartedRead::Absent => reply.null(),
        StartedRead::Wait(wait) => return Some(PendingRead::one(wait, reply.is_resp3(), false)),
    }
    None
}

/// GET on the memory tier alone.
pub(crate) fn get_in(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let key = call.key(1);
    if read_in(call, tier, key, reply_value).is_none() {
        call.reply.null();
    }
    Ok(Flow::Done)
}

/// Reads a key of the memory tier alone.
fn read_in(
    call: &mut CommandContext<'_>,
    tier: &mut Tier<'_>,
    key: Key<'_>,
    show: fn(&mut Reply<'_>, &Entry<'_>),
) -> Option<()> {
    let mut found = None;
    let reply = &mut call.reply;
    let shown = tier.get(key, call.now, |entry| {
        found = Some(entry.value.as_bytes().len());
        show(reply, &entry);
    });
    call.group().policy.key_counts.count(key.bytes(), found, call.now);
    shown
}

/// MGET. `read` becomes the read that waits for the source, if there is one.
pub(crate) fn mget(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>, read: &mut Option<PendingRead>) -> Done {
    call.check_keys()?;
    let source = &call.group().source;
    if !source.reads_through() {
        return mget_in(call, &mut call.lock());
    }
    // A table has no writers.
    if matches!(source.kind(), SourceKind::Store(_)) {
        // MGET must see values that were written together. It reads all of them from the memory tier at
        // once, or else holds the key locks.
        let (cache, now, mut tier) = (call.cache(), call.now, call.lock());
        let mut keys = call.command.keys.of(call.args);
        let policy = &call.group().policy;
        if keys.all(|key| policy.serves(key) && tier.peek(cache.key(key), now, |_| ()).is_some()) {
            return mget_in(call, &mut tier);
        }
        if call.args.len() > 2 {
            return Ok(Flow::Alone(call.command));
        }
    }
    *read = mget_each(call, batch)?;
    Ok(Flow::Done)
}

/// MGET, key by key. Returns the read if it waits for the source.
pub(crate) fn mget_each(
    call: &mut CommandContext<'_>,
    batch: &mut Vec<Fetch>,
) -> Result<Option<PendingRead>, CommandError> {
    let group = call.group();
    let reply = &mut call.reply;
    let mark = reply.output().mark();
    let keys = call.command.keys.of(call.args);
    reply.array(keys.len());
    let mut slots: Vec<Slot> = Vec::new();
    let (mut known, room) = (0, call.session.room.clone());
    let _one_table = group.one_table();
    for row in key_prefetch::rows(&group.cache, keys) {
        group.prefetch(row.iter().copied());
        for key in row {
            room.reserve(reply.output().owned() + known)?;
            if slots.is_empty() {
                // No value has to be awaited so far, so values go straight into the output.
                match group.begin(key, call.now, batch, |entry| reply_value_or_null(reply, &entry)) {
                    StartedRead::Hit(()) => {}
                    StartedRead::Absent => reply.null(),
                    StartedRead::Wait(wait) => slots.push(Slot::Wait(wait)),
                }
                continue;
            }
            let begun = group
                .begin(key, call.now, batch, |entry| (!is_document(entry.metadata())).then(|| entry.value.to_bytes()));
            slots.push(match begun {
                StartedRead::Hit(None) => Slot::Known(Ok(None)),
                StartedRead::Hit(Some(value)) => {
                    known += value.len();
                    Slot::Known(Ok(Some(value)))
                }
                StartedRead::Absent => Slot::Known(Ok(None)),
                StartedRead::Wait(wait) => Slot::Wait(wait),
            });
        }
    }
    if slots.is_empty() {
        return Ok(None);
    }
    let resp3 = reply.is_resp3();
    Ok(Some(PendingRead::many(reply.output().split_off(mark), slots, known, resp3)))
}

/// MGET on the memory tier alone.
pub(crate) fn mget_in(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let keys = call.command.keys.of(call.args);
    call.reply.array(keys.len());
    for row in key_prefetch::rows(call.cache(), keys) {
        tier.prefetch(row.iter().copied());
        for key in row {
            if read_in(call, tier, key, reply_value_or_null).is_none() {
                call.reply.null();
            }
        }
    }
    Ok(Flow::Done)
}

/// Replies with the value of a string, or with the error for another type.
#[inline]
pub(super) fn reply_value(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    // Without attributes this is one test of a word that is at hand.
    if entry.has_attributes() && is_document(entry.metadata()) {
        return WRONG_TYPE.reply(reply);
    }
    reply.value(entry.value);
}

/// Replies with one of several values: null for what is no string.
#[inline]
pub(super) fn reply_value_or_null(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    if entry.has_attributes() && is_document(entry.metadata()) {
        return reply.null();
    }
    reply.value(entry.value);
}
