//! What an answer of an upstream Redis does to the memory tier. This is the only place that decides
//! it.
//!
//! A write is registered with the group before it is sent, so that no fetch and no overlapping
//! write leaves an older value in the tier. The answer ends the registration:
//!
//! | answer                                   | written keys                                              | read keys            |
//! |------------------------------------------|-----------------------------------------------------------|----------------------|
//! | `+OK` to a SET whose value is known      | stored, if only lifetimes bound the age of copies         |                      |
//! | any other reply that is not an error     | forgotten                                                 | forgotten (`seen`)   |
//! | an error, and the command is all or none | unchanged                                                 | forgotten (`seen`)   |
//! | another error, or the connection lost    | forgotten, because the write may have happened            |                      |
//! | not sent                                 | unchanged                                                 |                      |
use crate::{
    command::Command,
    command_context::CommandContext,
    command_handlers::stored,
    forwarded_commands::{self, Reach},
    upstream::replies::{fails_whole, is_error, is_unknown, may_be_done},
};
use bytes::Bytes;
use larder_config::Coherence;
use larder_core::read::{Group, PendingWrite};
use larder_engine::Millis;
use larder_proto::resp::Args;
use larder_source::{RawReplies, SourceError, UpstreamCommands};
use larder_store::clock;
use std::rc::Rc;

/// The upstream's answer to all commands.
pub(super) type Answered = Result<RawReplies, SourceError>;

/// The keys that commands touch. If this is dropped without an answer, the commands count as
/// possibly done.
#[derive(Default)]
pub(super) struct Effects {
    group: Option<Rc<Group>>,
    count: u32,
    /// The bytes of the keys, concatenated.
    keys: Vec<u8>,
    touched: Vec<Touched>,
    /// What a command stores, if it is answered with `+OK`, in the order of the commands.
    stored: Vec<(u32, Bytes, Option<Millis>)>,
}
#[derive(Clone, Copy)]
struct Touched {
    command: u32,
    len: u32,
    written: bool,
    /// If the reply is an error, the command changed nothing: see [`fails_whole`].
    whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transacted {
    /// Its commands ran.
    Done,
    /// None of its commands ran.
    Not,
    Unknown,
}

/// The outcome of one write.
enum Written<'v> {
    /// The key has this value now, until this time.
    Value(&'v [u8], Option<Millis>),
    /// The key may have changed.
    Changed,
    /// The key has not changed.
    Unchanged,
}

impl Effects {
    /// The number of noted commands.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn owned(&self) -> usize {
        let values: usize = self.stored.iter().map(|(_, value, _)| value.len()).sum();
        self.keys.capacity() + self.touched.capacity() * size_of::<Touched>() + values
    }

    /// Notes the keys of a command and registers its writes, if `admits` lets it join the others.
    /// `known` is the upstream's table, for forwarded commands. Returns `None` if that table is
    /// needed and missing.
    pub(super) fn note(
        &mut self,
        call: &CommandContext<'_>,
        (command, args): (&Command, Args<'_>),
        known: Option<&UpstreamCommands>,
        admits: impl FnOnce(&Reach) -> bool,
    ) -> Option<Reach> {
        let group = call.group();
        let (keys, touched) = (self.keys.len(), self.touched.len());
        let reach = forwarded_commands::touched(command, known, args, |key, written| {
            self.keys.extend_from_slice(key);
            self.touched.push(Touched { command: self.count, len: key.len() as u32, written, whole: false });
        });
        let Some(reach) = reach.filter(admits) else {
            self.keys.truncate(keys);
            self.touched.truncate(touched);
            return reach;
        };
        let own = &mut self.touched[touched..];
        let whole = fails_whole(command, own.len());
        own.iter_mut().for_each(|key| key.whole = whole);
        if group.policy.coherence == Coherence::Ttl && own.iter().any(|key| key.written) {
            for (key, _) in keys_of(&self.keys[keys..], own).filter(|(_, touched)| touched.written) {
                group.writing(group.cache.key(key)).detach();
            }
        }
        self.count += 1;
        self.group.get_or_insert_with(|| group.clone());
        Some(reach)
    }

    /// Notes what the last noted command stores, if it is answered with `+OK`.
    pub(super) fn note_stored(&mut self, call: &CommandContext<'_>) {
        if call.group().policy.coherence == Coherence::Ttl
            && call.session.in_source_database()
            && let Some((value, expiry)) = stored(call)
        {
            self.stored.push((self.count - 1, Bytes::copy_from_slice(value), expiry));
        }
    }

    /// Applies the answers. Each command has its own reply.
    pub(super) fn settle(&mut self, answered: &Answered) {
        let Some(group) = self.group.take() else { return };
        let mut replies = answered.as_ref().map(|replies| replies.iter().enumerate()).ok();
        let mut reply = replies.as_mut().and_then(Iterator::next);
        for (key, touched) in keys_of(&self.keys, &self.touched) {
            let key = group.cache.key(key);
            while reply.is_some_and(|(at, _)| at < touched.command as usize) {
                reply = replies.as_mut().and_then(Iterator::next);
            }
            if touched.written {
                let said = reply.map(|(_, reply)| reply);
                end_write(group.resume(key), self.written(touched, said, answered));
            } else if answered.is_ok() {
                group.seen(key);
            }
        }
    }

    fn written(&self, touched: &Touched, reply: Option<&[u8]>, answered: &Answered) -> Written<'_> {
        let may_be_forged = answered.as_ref().is_ok_and(|replies| replies.may_be_forged());
        match reply.filter(|reply| !is_error(reply)) {
            Some(b"+OK\r\n") if answered.is_ok() && !may_be_forged => {
                match self.stored.binary_search_by_key(&touched.command, |(command, ..)| *command) {
                    Ok(at) => Written::Value(&self.stored[at].1, self.stored[at].2),
                    Err(_) => Written::Changed,
                }
            }
            Some(_) => Written::Changed,
            None if may_be_forged => Written::Changed,
            None if touched.whole && reply.is_some_and(|reply| !is_unknown(reply)) => Written::Unchanged,
            None if may_be_done(answered) => Written::Changed,
            None => Written::Unchanged,
        }
    }

    /// Applies the outcome of a transaction.
    pub(super) fn settle_transaction(&mut self, transacted: Transacted) {
        let Some(group) = self.group.take() else { return };
        for (key, touched) in keys_of(&self.keys, &self.touched) {
            let key = group.cache.key(key);
            match (touched.written, transacted) {
                (true, Transacted::Not) => end_write(group.resume(key), Written::Unchanged),
                (true, Transacted::Done | Transacted::Unknown) => end_write(group.resume(key), Written::Changed),
                (false, Transacted::Done) => group.seen(key),
                (false, Transacted::Not | Transacted::Unknown) => {}
            }
        }
    }
}
impl Drop for Effects {
    fn drop(&mut self) {
        self.settle_transaction(Transacted::Unknown);
    }
}

/// Splits the concatenated keys.
fn keys_of<'k>(mut keys: &'k [u8], touched: &'k [Touched]) -> impl Iterator<Item = (&'k [u8], &'k Touched)> {
    touched.iter().map(move |touched| {
        let (key, rest) = keys.split_at(touched.len as usize);
        keys = rest;
        (key, touched)
    })
}

/// Ends a write in the memory tier.
fn end_write(write: PendingWrite<'_>, written: Written<'_>) {
    match written {
        Written::Value(value, expiry) => {
            write.put(value, expiry, clock::now());
        }
        Written::Changed => write.forget(),
        Written::Unchanged => write.refused(),
    }
}
