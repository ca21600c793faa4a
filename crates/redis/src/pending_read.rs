//! Reads that wait for the source.
use super::{
    command_outcome::{CommandError, WRONG_TYPE_TEXT},
    command_times::TimedCommand,
    session::Session,
};
use bytes::Bytes;
use larder_core::{app::Worker, read::Group};
use larder_engine::{Outcome, Wait};
use larder_proto::{output::Output, resp::Reply};
use larder_source::{SourceError, is_document};
use smallvec::{SmallVec, smallvec};
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

/// A read that waits for flights.
pub struct PendingRead {
    resp3: bool,
    /// The value is a whole reply, from the reply cache.
    whole: bool,
    /// MGET: the array's head and the values before the first one that has to be awaited.
    head: Option<Box<Output>>,
    /// The other values, in order.
    slots: SmallVec<[Slot; 1]>,
    /// All slots before this one are known.
    next: usize,
    /// Bytes of known values that only this read holds.
    known: usize,
    /// The command, unless it is timed elsewhere.
    pub(super) timed: Option<TimedCommand>,
    /// When the last value became known.
    ended: Option<Instant>,
}

pub(super) enum Slot {
    Known(Result<Option<Bytes>, SourceError>),
    Wait(Wait),
}

/// The string that a wait for a flight came to.
pub(super) fn fetched(wait: &Wait, outcome: Outcome) -> Result<Option<Bytes>, SourceError> {
    let is_document = wait.metadata().is_some_and(|metadata| is_document(&metadata));
    match Group::ended(outcome) {
        Ok(Some(_)) if is_document => Err(SourceError::Refused(WRONG_TYPE_TEXT.into())),
        ended => ended,
    }
}

impl PendingRead {
    /// A read of one value, or of one cached reply.
    pub(super) fn one(wait: Wait, resp3: bool, whole: bool) -> PendingRead {
        let slots = smallvec![Slot::Wait(wait)];
        PendingRead { resp3, whole, head: None, slots, next: 0, known: 0, timed: None, ended: None }
    }

    /// A read of several values. `head` has the array's head and the values before the first one
    /// that has to be awaited. `slots` has the others, of which `known` bytes are in memory.
    pub(super) fn many(head: Output, slots: Vec<Slot>, known: usize, resp3: bool) -> PendingRead {
        let (head, slots) = (Some(Box::new(head)), SmallVec::from_vec(slots));
        PendingRead { resp3, whole: false, head, slots, next: 0, known, timed: None, ended: None }
    }

    /// Bytes of memory that the read occupies. Long fetched values are accounted for elsewhere.
    pub fn owned(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.owned())
            + if self.slots.spilled() { self.slots.capacity() * size_of::<Slot>() } else { 0 }
            + self.known
            + self.timed.as_ref().map_or(0, TimedCommand::owned)
    }

    /// Ready when every value is known. The flights proceed by themselves. `now`: when the values
    /// became known that are known now. The first read that needs it reads the clock.
    pub fn poll(&mut self, worker: &Worker, now: &mut Option<Instant>, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(slot) = self.slots.get_mut(self.next) {
            if let Slot::Wait(wait) = slot {
                match Pin::new(&mut *wait).poll(cx) {
                    Poll::Ready(outcome) => {
                        if let (Some(timed), true) = (&mut self.timed, self.head.is_none()) {
                            let now = *now.get_or_insert_with(Instant::now);
                            timed.ends_get(worker, wait.key(), now);
                            self.ended = Some(now);
                        }
                        *slot = Slot::Known(fetched(wait, outcome));
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
    pub fn reply(mut self, worker: &Worker, session: &mut Session, out: &mut Output) {
        let (timed, ended) = (self.timed.take(), self.ended);
        let before = out.len();
        let is_error = self.write(session, out);
        if let Some(timed) = timed {
            worker.app.commands.sent(worker.id, timed.row(), out.len() - before);
            timed.end(worker, &session.client, ended.unwrap_or_else(Instant::now), is_error);
        }
    }

    /// Writes the reply. Returns whether it is an error.
    fn write(self, session: &mut Session, out: &mut Output) -> bool {
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
                    let fault = CommandError::from(error);
                    session.counters.redis_error(fault.text());
                    fault.reply(&mut reply);
                    return true;
                }
            }
        }
        false
    }
}
