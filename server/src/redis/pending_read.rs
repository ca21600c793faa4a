//! Reads that wait for the source.
use super::{
    command_error::{CommandError, WRONG_TYPE_TEXT},
    session::Session,
};
use crate::{
    read::Group,
    source::{SourceError, is_document},
};
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
    /// The value is a whole reply, from the reply cache.
    whole: bool,
    /// MGET: the array's head and the values before the first one that has to be awaited.
    head: Option<Box<Output>>,
    /// The other values, in order.
    slots: Vec<Slot>,
    /// All slots before this one are known.
    next: usize,
    /// Bytes of known values that only this read holds.
    known: usize,
}

/// One value.
pub(super) enum Slot {
    Known(Result<Option<Bytes>, SourceError>),
    Wait(Wait),
}

impl PendingRead {
    /// A read of one value, or of one cached reply.
    pub(super) fn one(wait: Wait, resp3: bool, whole: bool) -> PendingRead {
        PendingRead { resp3, whole, head: None, slots: vec![Slot::Wait(wait)], next: 0, known: 0 }
    }

    /// A read of several values. `head` has the array's head and the values before the first one
    /// that has to be awaited. `slots` has the others, of which `known` bytes are in memory.
    pub(super) fn many(head: Output, slots: Vec<Slot>, known: usize, resp3: bool) -> PendingRead {
        PendingRead { resp3, whole: false, head: Some(Box::new(head)), slots, next: 0, known }
    }

    /// Bytes of memory that the read occupies. Long fetched values are accounted for elsewhere.
    pub fn owned(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.owned()) + self.slots.capacity() * size_of::<Slot>() + self.known
    }

    /// Ready when every value is known. The flights proceed by themselves.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(slot) = self.slots.get_mut(self.next) {
            if let Slot::Wait(wait) = slot {
                match Pin::new(&mut *wait).poll(cx) {
                    Poll::Ready(outcome) => {
                        let is_document = wait.metadata().is_some_and(|metadata| is_document(&metadata));
                        *slot = Slot::Known(match Group::ended(outcome) {
                            Ok(Some(_)) if is_document => Err(SourceError::Refused(WRONG_TYPE_TEXT.into())),
                            ended => ended,
                        });
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
            self.next += 1;
        }
        Poll::Ready(())
    }

    /// Writes the reply after [`poll`](PendingRead::poll) was ready. If one value could not be
    /// fetched, the reply is an error.
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
                // MGET answers null for a key that is not a string.
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
