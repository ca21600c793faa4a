//! The miss path, whole: flight, then source; negative answers, expiry rules, fences; and the write-through.
//!
//! ```text
//! begin ── hit ───────────────────────────────────────────────► answered, under the shard's lock
//!   │ miss: Lead                       miss: Wait (somebody fetches it)
//!   ▼                                    │
//! batch of Fetch ── source.fetch ── Fetch::finish ── stores (unless fenced), wakes every waiter ──► end
//!
//! put / delete / expire: register the write ── source ── took it: change the tier │ refused: nothing │ unknown: forget the key
//! ```
//!
//! Invariants:
//! - Errors reach every waiter and are never stored.
//! - A copy of what a source has lives at most `Policy::ttl`; the source's own expiry and later `expire`s only shorten that.
//! - A fill never brings back what a write replaced: every write that the source may have taken ends in a change or an
//!   invalidation of its key in the tier, which fences the fetches begun before.
//! - In mode `coherent` only fills are stored, and only those that the source vouches for ([`Fetch::vouch`]): it announces
//!   their change, in order with its replies, or the loss of that promise, after which nothing counts as fresh
//!   (`coherence`). Writes and what a client saw at the source itself forget
//!   the key, and a fenced flight overtakes what took its place, so that no client reads an older value after a newer one.
//! - On a source that keeps its entries on this machine, whoever writes a key holds it ([`Held`]) until the source has decided and the tier
//!   agrees: so several can be read, worked out and written as one step (`local`), and conditions hold (`conditional`).
//! - Replies of commands are kept under the same rules as values, and go with their key (`replies`).
//! - When two writes of one key overlap, the order of their replies here need not be the source's order, so neither stores: both forget the key (`write`).
mod coherence;
mod conditional;
mod held;
mod local;
mod replies;
#[cfg(test)]
mod tests;
mod watched;
mod write;

pub use coherence::{Copies, watch};
pub use held::Held;
pub use local::Changes;
pub use watched::Watch;
pub use write::{Writes, Writing};

use crate::{
    config::Coherence,
    source::{Fetch, Looked, OneTable, Policy, Reads, Source, SourceError},
};
use bytes::Bytes;
use larder_engine::{Cache, Entry, Key, Lookup, Millis, Outcome, Wait};
use std::{rc::Rc, sync::Arc};

/// One core's handle on a group.
pub struct Group {
    /// Its name.
    pub name: Arc<str>,
    /// The memory tier (shared by all cores).
    pub cache: Arc<Cache>,
    /// This core's connection to the source.
    pub source: Rc<dyn Source>,
    /// How fills are stored.
    pub policy: Policy,
    /// Writes on their way to the source (shared by all cores, one per group).
    pub writes: Arc<Writes>,
}

/// How a read began.
#[derive(Debug)]
pub enum Begun<R> {
    /// Answered from the memory tier.
    Hit(R),
    /// There is no such key (and no source to ask, or its absence is remembered). Of a reply: it is not worth keeping yet.
    Absent,
    /// In flight: await it with [`Group::end`].
    Wait(Wait),
}

impl Group {
    /// Begins a read; a miss that must be fetched is pushed to `batch`, which the caller passes to `source.fetch` once it has begun all reads of the moment.
    pub fn begin<R>(
        &self,
        key: Key<'_>,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> Begun<R> {
        let read = match self.source.reads() {
            Reads::Through => read,
            Reads::Tier => {
                return match self.cache.tier().get(key, now, read) {
                    Some(answer) => Begun::Hit(answer),
                    None => Begun::Absent,
                };
            }
            Reads::Table(table) => match table.look(key.bytes(), read) {
                Looked::Found(answer) => return Begun::Hit(answer),
                Looked::Absent => return Begun::Absent,
                Looked::Unknown(read) => read,
            },
        };
        match self.cache.lookup(key, now, read) {
            Lookup::Hit(answer) => Begun::Hit(answer),
            Lookup::Absent => Begun::Absent,
            Lookup::Wait(wait) => Begun::Wait(wait),
            Lookup::Lead(lead) => {
                let wait = lead.wait();
                batch.push(Fetch::new(lead, self.policy));
                Begun::Wait(wait)
            }
        }
    }

    /// For reads that belong together, to be held while all of them are begun: in the map of a table they see one table, whichever
    /// takes its place meanwhile. Other sources have nothing to hold.
    pub fn one_table(&self) -> Option<OneTable<'_>> {
        match self.source.reads() {
            Reads::Table(table) => Some(table.one_table()),
            Reads::Tier | Reads::Through => None,
        }
    }

    /// Awaits a read that was begun.
    ///
    /// # Errors
    /// What the source said, or `Unavailable("fetch abandoned")` if whoever fetched the key went away without an answer.
    pub async fn end(wait: Wait) -> Result<Option<Bytes>, SourceError> {
        Group::ended(wait.await)
    }

    /// What a flight's end means, for those who poll it themselves.
    ///
    /// # Errors
    /// As [`Group::end`].
    pub fn ended(outcome: Outcome) -> Result<Option<Bytes>, SourceError> {
        match outcome {
            Outcome::Value(value) => Ok(Some(value)),
            Outcome::Absent => Ok(None),
            Outcome::Failed(text) => Err(SourceError::of_outcome(text)),
            Outcome::Abandoned => Err(SourceError::Unavailable("fetch abandoned".into())),
        }
    }

    /// A client saw the key at the source itself. A copy in the tier may be older, and nothing that the client reads from now on may
    /// be: the copy is dropped, and fetches begun before are fenced. In mode `ttl` copies are as old as they are.
    pub fn seen(&self, key: Key<'_>) {
        if self.policy.coherence != Coherence::Ttl {
            self.cache.invalidate(key);
        }
    }

    /// Reads one key to the end: [`begin`](Group::begin), fetch, [`end`](Group::end).
    ///
    /// # Errors
    /// As [`Group::end`].
    pub async fn read(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, SourceError> {
        let mut batch = Vec::new();
        let begun = self.begin(self.cache.key(key), now, &mut batch, |entry| entry.value.to_bytes());
        if !batch.is_empty() {
            self.source.fetch(&mut batch);
        }
        match begun {
            Begun::Hit(value) => Ok(Some(value)),
            Begun::Absent => Ok(None),
            Begun::Wait(wait) => Group::end(wait).await,
        }
    }
}
