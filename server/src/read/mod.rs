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
pub use replies::Asked;
pub use watched::Watch;
pub use write::{Writes, Writing};

use crate::{
    config::Coherence,
    source::{Found, Looked, OneTable, Reads, Source, SourceError, UNAVAILABLE},
};
use bytes::Bytes;
use larder_engine::{Cache, Entry, Expiry, Fill, Key, Lead, Lookup, Millis, Outcome, Wait};
use std::{rc::Rc, sync::Arc};

/// How fills of a group are stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy {
    /// Longest life of a fill, ms; the source's own expiry only shortens it. The group's cache is built with the same
    /// value as its default lifetime, so that jitter applies to fills.
    pub ttl: Option<u64>,
    /// How long an absence is remembered, ms; `None`: not at all.
    pub negative_ttl: Option<u64>,
    /// What else bounds the age of a copy; without a source it means nothing.
    pub coherence: Coherence,
    /// Largest reply that is kept, bytes, its command included; 0: none is.
    pub max_reply: usize,
}
impl Policy {
    /// In mode `coherent`: may a copy that nobody vouches for any more be given while the source cannot be asked? A lifetime says
    /// how old a copy may be; without one, none may.
    fn serves_stale(&self) -> bool {
        self.coherence == Coherence::Coherent && self.ttl.is_some()
    }
    /// Are there copies to give while the source is gone?
    pub fn outlives_source(&self) -> bool {
        self.coherence == Coherence::Ttl || self.serves_stale()
    }
    /// The expiry of a copy of something that itself expires at `own`: the earlier of that and the group's lifetime from now.
    fn cap(&self, own: Option<Millis>, now: Millis) -> Expiry {
        match (own, self.ttl) {
            (Some(at), Some(ttl)) if at >= now.saturating_add(ttl) => Expiry::Default,
            (Some(at), _) => Expiry::At(at),
            (None, Some(_)) => Expiry::Default,
            (None, None) => Expiry::Never,
        }
    }
}

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

/// A fetch on its way: the flight's lead and how its result is stored. Dropped unfinished, it releases the waiters.
#[derive(Debug)]
pub struct Fetch {
    lead: Lead,
    policy: Policy,
    vouched: bool,
}
impl Fetch {
    fn new(lead: Lead, policy: Policy) -> Fetch {
        Fetch { lead, policy, vouched: false }
    }
    /// See [`Lead::sent_through`].
    pub fn sent_through(&self, queue: u32) {
        self.lead.sent_through(queue);
    }
    /// The source will announce the next change of the key after its answer.
    pub fn vouch(&mut self) {
        self.vouched = true;
    }
    /// May its result be stored?
    fn keep(&self) -> bool {
        match self.policy.coherence {
            Coherence::Coherent => self.vouched,
            Coherence::Ttl => true,
            Coherence::Off => false,
        }
    }
    /// The key to fetch.
    pub fn key(&self) -> &[u8] {
        self.lead.key()
    }
    /// Ends the flight with what the source said at `now`. For a fetch of a reply only with an error; else see [`Fetch::finish_reply`].
    pub fn finish(self, answer: Result<Option<Found>, SourceError>, now: Millis) {
        // An error of the source's own is an answer, too: the client has seen what kind of value there is.
        let said = !answer.as_ref().is_err_and(SourceError::is_unavailable);
        if self.policy.coherence != Coherence::Ttl && said {
            self.lead.overtake();
        }
        let answered = answer.is_ok();
        let (outcome, fill) = match answer {
            Ok(Some(found)) => {
                // Expired on the way: the clients that wait may have it, the next one asks again.
                let fill = match found.expiry {
                    Some(at) if at <= now => Fill::Skip,
                    own => Fill::Store(self.policy.cap(own, now)),
                };
                (Outcome::Value(found.value), fill)
            }
            Ok(None) => {
                let fill = match self.policy.negative_ttl {
                    Some(ttl) if ttl > 0 => Fill::Store(Expiry::At(now.saturating_add(ttl))),
                    _ => Fill::Skip,
                };
                (Outcome::Absent, fill)
            }
            Err(error) => {
                let stale = self.policy.serves_stale() && error.is_unavailable();
                let outcome = match stale.then(|| self.lead.last_known(now)).flatten() {
                    Some(Some(value)) => Outcome::Value(value),
                    Some(None) => Outcome::Absent,
                    None => Outcome::Failed(failure(error)),
                };
                (outcome, Fill::Skip)
            }
        };
        let fill = if self.keep() { fill } else { Fill::Skip };
        if answered && fill == Fill::Skip && self.policy.serves_stale() {
            // A copy that is out of date must not be given to a client that has seen this.
            self.lead.forget();
        }
        self.lead.finish(outcome, fill, now);
    }
}

/// The engine carries an error to the waiters as text; this and [`error`] are its two ends. Redis's own errors begin with a
/// code, so none is mistaken for [`UNAVAILABLE`].
fn failure(error: SourceError) -> Arc<str> {
    match error {
        SourceError::Refused(text) => text,
        // An unavailable one; no read is told that it is read-only.
        unavailable => unavailable.to_string().into(),
    }
}
fn error(text: Arc<str>) -> SourceError {
    match text.strip_prefix(UNAVAILABLE) {
        Some(reason) => SourceError::Unavailable(reason.into()),
        None => SourceError::Refused(text),
    }
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
            Outcome::Failed(text) => Err(error(text)),
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
