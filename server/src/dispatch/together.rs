//! Commands of one client that are carried out together, in their order: [relayed](Relayed) to a Redis source, or as one change of a
//! source that keeps its entries on this machine ([`Batch`]).
use super::{
    call::Call,
    relayed::{Joined, Relayed},
    session::Session,
    stored::Batch,
};
use crate::{app::Worker, proto::output::Output};
use std::task::{Context, Poll};

/// The commands, first put together, then on their way.
pub enum Together {
    /// To a Redis source.
    Relayed(Relayed),
    /// To the store.
    Stored(Batch),
}

impl Together {
    /// None yet, from this client, `behind` others that are slow or are not.
    pub fn new(worker: &Worker, session: &Session, behind: Option<bool>) -> Together {
        let group = &worker.groups[0];
        match group.source.as_local() {
            Some(_) => Together::Stored(Batch::new(group)),
            None => Together::Relayed(Relayed::new(session, behind)),
        }
    }
    /// May more join?
    pub fn is_open(&self) -> bool {
        match self {
            Together::Relayed(relayed) => relayed.is_open(),
            Together::Stored(batch) => batch.is_open(),
        }
    }
    /// May they keep the source busy for long?
    pub fn is_slow(&self) -> bool {
        match self {
            Together::Relayed(relayed) => relayed.is_slow(),
            Together::Stored(_) => false,
        }
    }
    /// Bytes of commands that have joined.
    pub fn bytes(&self) -> usize {
        match self {
            Together::Relayed(relayed) => relayed.bytes(),
            Together::Stored(batch) => batch.bytes(),
        }
    }
    /// Bytes of memory that they occupy and nobody else counts.
    pub fn owned(&self) -> usize {
        match self {
            Together::Relayed(relayed) => relayed.owned(),
            Together::Stored(batch) => batch.bytes(),
        }
    }
    /// Adds a command.
    pub(super) fn join(&mut self, call: &Call<'_>) -> Joined {
        match self {
            Together::Relayed(relayed) => relayed.join(call),
            Together::Stored(batch) => batch.join(call),
        }
    }
    /// The turn in which they came is over: what travels sets out. A store's wait to be polled, and more may join until then.
    pub fn send(&mut self, worker: &Worker, session: &Session) {
        if let Together::Relayed(relayed) = self {
            relayed.send(worker, session);
        }
    }
    /// Ready once they are answered. Begins those that go to the store.
    pub fn poll(&mut self, worker: &Worker, session: &mut Session, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Together::Relayed(relayed) => relayed.poll(cx),
            Together::Stored(batch) => batch.poll(worker, session, cx),
        }
    }
    /// Writes the replies, once [`poll`](Together::poll) was ready.
    pub fn reply(self, session: &mut Session, out: &mut Output) {
        match self {
            Together::Relayed(relayed) => relayed.reply(session, out),
            Together::Stored(batch) => batch.reply(session, out),
        }
    }
}
