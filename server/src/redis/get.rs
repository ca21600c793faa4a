//! GET and MGET: reads that may wait for the source.
use super::{
    Flow, command_context::CommandContext, command_error::CommandError, reply_budget::ReplyBudget, session::Session,
};
use crate::{
    read::{Group, StartedRead},
    source::{Fetch, Reads, SourceError},
};
use bytes::Bytes;
use larder_engine::{Tier, Wait};
use larder_proto::{output::Output, resp::Reply};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// A read that waits for flights.
pub struct Pending {
    resp3: bool,
    /// The value is a whole reply.
    whole: bool,
    /// MGET: the array's head and the values before the first that must be waited for.
    head: Option<Box<Output>>,
    /// The values from there on, in order.
    slots: Vec<Slot>,
    /// The slots before this one are known.
    next: usize,
    /// Bytes of known values that this read alone has.
    known: usize,
}

/// One value.
enum Slot {
    Known(Result<Option<Bytes>, SourceError>),
    Wait(Wait),
}

impl Pending {
    /// A read of one value, or of one whole reply.
    pub(super) fn one(wait: Wait, resp3: bool, whole: bool) -> Pending {
        Pending { resp3, whole, head: None, slots: vec![Slot::Wait(wait)], next: 0, known: 0 }
    }

    /// Bytes of memory that it occupies. Fetched values are on the account by themselves if they are long.
    pub fn owned(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.owned()) + self.slots.capacity() * size_of::<Slot>() + self.known
    }

    /// Ready once every value is known; the flights go on by themselves.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(slot) = self.slots.get_mut(self.next) {
            if let Slot::Wait(wait) = slot {
                match Pin::new(wait).poll(cx) {
                    Poll::Ready(outcome) => *slot = Slot::Known(Group::ended(outcome)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.next += 1;
        }
        Poll::Ready(())
    }

    /// Writes the reply, once [`poll`](Pending::poll) was ready. One value that could not be had makes it an error.
    pub fn reply(self, session: &mut Session, out: &mut Output) {
        let mut reply = Reply::new(out, self.resp3);
        let mark = reply.output().mark();
        let of_many = self.head.is_some();
        if let Some(mut head) = self.head {
            reply.output().append(&mut head);
        }
        for slot in self.slots {
            let known = match slot {
                Slot::Known(known) => known,
                Slot::Wait(_) => Err(SourceError::Unavailable("still waiting".into())),
            };
            match known {
                Ok(Some(value)) if self.whole => super::upstream::pass_part(session, value, reply.output()),
                Ok(Some(value)) => reply.shared(value),
                Ok(None) => reply.null(),
                // MGET takes what is no string for nothing.
                Err(SourceError::Refused(why)) if of_many && why.starts_with("WRONGTYPE ") => reply.null(),
                Err(error) => {
                    reply.output().truncate(mark);
                    session.counters.redis_errors.add(1);
                    return CommandError::from(error).reply(&mut reply);
                }
            }
        }
    }
}

/// GET.
#[inline]
pub(super) fn get(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    call.check_keys()?;
    let (group, key) = (call.group(), call.key(1));
    let reply = &mut call.reply;
    match group.begin(key, call.now, batch, |entry| reply.value(entry.value)) {
        StartedRead::Hit(()) => Ok(Flow::Done),
        StartedRead::Absent => {
            reply.null();
            Ok(Flow::Done)
        }
        StartedRead::Wait(wait) => Ok(Flow::Pending(Pending::one(wait, reply.is_resp3(), false))),
    }
}

/// GET on the tier alone.
pub(super) fn get_in(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Result<(), CommandError> {
    let key = call.key(1);
    value_in(call, tier, key);
    Ok(())
}

/// MGET.
pub(super) fn mget(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    call.check_keys()?;
    let source = &call.group().source;
    if !source.reads_through() {
        mget_in(call, &mut call.lock())?;
        return Ok(Flow::Done);
    }
    // Nobody writes to a table.
    if source.as_local().is_some() && !matches!(source.reads(), Reads::Table(_)) {
        // What is written together is seen together: all from the tier at once, or else with the keys held.
        let (cache, now, mut tier) = (call.cache(), call.now, call.lock());
        let mut keys = call.command.keys.of(call.args);
        if keys.all(|key| tier.peek(cache.key(key), now, |_| ()).is_some()) {
            mget_in(call, &mut tier)?;
            return Ok(Flow::Done);
        }
        if call.args.len() > 2 {
            return Ok(Flow::Alone);
        }
    }
    mget_each(call, batch)
}

/// MGET, key by key.
pub(super) fn mget_each(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    let group = call.group();
    let reply = &mut call.reply;
    let mark = reply.output().mark();
    let keys = call.command.keys.of(call.args);
    reply.array(keys.len());
    let mut slots: Vec<Slot> = Vec::new();
    let (mut known, mut room) = (0, ReplyBudget::new(call.worker));
    let _one_table = group.one_table();
    for key in keys {
        room.take(reply.output().owned() + known)?;
        let key = group.cache.key(key);
        if slots.is_empty() {
            // Nothing to wait for so far: values go where they belong.
            match group.begin(key, call.now, batch, |entry| reply.value(entry.value)) {
                StartedRead::Hit(()) => {}
                StartedRead::Absent => reply.null(),
                StartedRead::Wait(wait) => slots.push(Slot::Wait(wait)),
            }
        } else {
            let begun = group.begin(key, call.now, batch, |entry| entry.value.to_bytes());
            slots.push(match begun {
                StartedRead::Hit(value) => {
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
    Ok(Flow::Pending(Pending {
        resp3: reply.is_resp3(),
        whole: false,
        head: Some(Box::new(reply.output().split_off(mark))),
        slots,
        next: 0,
        known,
    }))
}

/// MGET on the tier alone.
pub(super) fn mget_in(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Result<(), CommandError> {
    let keys = call.command.keys.of(call.args);
    call.reply.array(keys.len());
    let mut room = ReplyBudget::new(call.worker);
    for key in keys {
        room.take(call.reply.output().owned())?;
        let key = call.cache().key(key);
        value_in(call, tier, key);
    }
    Ok(())
}

fn value_in(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, key: larder_engine::Key<'_>) {
    let reply = &mut call.reply;
    if tier.get(key, call.now, |entry| reply.value(entry.value)).is_none() {
        reply.null();
    }
}
