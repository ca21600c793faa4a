//! GET and MGET: on the memory tier alone, or through the group, where they may wait for the
//! source.
use crate::{
    command_context::CommandContext,
    command_error::CommandError,
    command_flow::Flow,
    keys_ahead,
    pending_read::{PendingRead, Slot},
    string_values::{reply_value, reply_value_or_null},
};
use larder_core::read::StartedRead;
use larder_engine::{Entry, Key, Tier};
use larder_proto::resp::Reply;
use larder_source::{Fetch, Reads, is_document};

/// GET.
#[inline]
pub(crate) fn get(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    call.check_keys()?;
    let (group, key) = (call.group(), call.key(1));
    let reply = &mut call.reply;
    match group.begin(key, call.now, batch, |entry| reply_value(reply, &entry)) {
        StartedRead::Hit(()) => Ok(Flow::Done),
        StartedRead::Absent => {
            reply.null();
            Ok(Flow::Done)
        }
        StartedRead::Wait(wait) => Ok(Flow::Pending(PendingRead::one(wait, reply.is_resp3(), false))),
    }
}

/// GET on the memory tier alone.
pub(crate) fn get_in(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Result<(), CommandError> {
    let key = call.key(1);
    if read_in(call, tier, key, reply_value).is_none() {
        call.reply.null();
    }
    Ok(())
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

/// MGET.
pub(crate) fn mget(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    call.check_keys()?;
    let source = &call.group().source;
    if !source.reads_through() {
        mget_in(call, &mut call.lock())?;
        return Ok(Flow::Done);
    }
    // A table has no writers.
    if source.as_local().is_some() && !matches!(source.reads(), Reads::Table(_)) {
        // MGET must see values that were written together. It reads all of them from the memory tier at
        // once, or else holds the key locks.
        let (cache, now, mut tier) = (call.cache(), call.now, call.lock());
        let mut keys = call.command.keys.of(call.args);
        let policy = &call.group().policy;
        if keys.all(|key| policy.serves(key) && tier.peek(cache.key(key), now, |_| ()).is_some()) {
            mget_in(call, &mut tier)?;
            return Ok(Flow::Done);
        }
        if call.args.len() > 2 {
            return Ok(Flow::Alone(call.command));
        }
    }
    mget_each(call, batch)
}

/// MGET, key by key.
pub(crate) fn mget_each(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    let group = call.group();
    let reply = &mut call.reply;
    let mark = reply.output().mark();
    let keys = call.command.keys.of(call.args);
    reply.array(keys.len());
    let mut slots: Vec<Slot> = Vec::new();
    let (mut known, room) = (0, call.session.room.clone());
    let _one_table = group.one_table();
    for row in keys_ahead::rows(&group.cache, keys) {
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
        return Ok(Flow::Done);
    }
    let resp3 = reply.is_resp3();
    Ok(Flow::Pending(PendingRead::many(reply.output().split_off(mark), slots, known, resp3)))
}

/// MGET on the memory tier alone.
pub(crate) fn mget_in(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Result<(), CommandError> {
    let keys = call.command.keys.of(call.args);
    call.reply.array(keys.len());
    for row in keys_ahead::rows(call.cache(), keys) {
        tier.prefetch(row.iter().copied());
        for key in row {
            if read_in(call, tier, key, reply_value_or_null).is_none() {
                call.reply.null();
            }
        }
    }
    Ok(())
}
