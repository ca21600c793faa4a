//! Reads that wait for the source.
use super::{command_error::CommandError, session::Session};
use crate::{read::Group, source::SourceError};
use bytes::Bytes;
use larder_engine::Wait;
use larder_proto::{output::Output, resp::Reply};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// A read that waits for flights.
pub struct PendingRead {
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
pub(super) enum Slot {
    Known(Result<Option<Bytes>, SourceError>),
    Wait(Wait),
}

impl PendingRead {
    /// A read of one value, or of one whole reply.
    pub(super) fn one(wait: Wait, resp3: bool, whole: bool) -> PendingRead {
        PendingRead { resp3, whole, head: None, slots: vec![Slot::Wait(wait)], next: 0, known: 0 }
    }

    /// A read of several values: `head` is the array's head with the values before the first that must be waited for, `slots` are those from
    /// there on, of which `known` bytes are in memory.
    pub(super) fn many(head: Output, slots: Vec<Slot>, known: usize, resp3: bool) -> PendingRead {
        PendingRead { resp3, whole: false, head: Some(Box::new(head)), slots, next: 0, known }
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

    /// Writes the reply, once [`poll`](PendingRead::poll) was ready. One value that could not be had makes it an error.
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
                Ok(Some(value)) if self.whole => session.pass_part(value, reply.output()),
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
