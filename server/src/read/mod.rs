//! The miss path, whole: flight, then source; negative answers, expiry rules, fences; and the write-through.
use crate::source::{Found, Source, SourceError};
use bytes::Bytes;
use larder_engine::{Cache, Entry, Key, Lead, Millis, Wait};
use std::{rc::Rc, sync::Arc};

/// How fills of a group are stored.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Longest life of a fill, ms; the source's own expiry only shortens it.
    pub ttl: Option<u64>,
    /// How long an absence is remembered, ms; `None`: not at all.
    pub negative_ttl: Option<u64>,
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
}

/// A fetch on its way: the flight's lead and how its result is stored. Dropped unfinished, it releases the waiters.
pub struct Fetch {
    lead: Lead,
    policy: Policy,
}
impl Fetch {
    /// The key to fetch.
    pub fn key(&self) -> &[u8] {
        self.lead.key()
    }
    /// Ends the flight with what the source said.
    pub fn finish(self, _answer: Result<Option<Found>, SourceError>, _now: Millis) {
        todo!()
    }
}

/// How a read began.
pub enum Begun<R> {
    /// Answered from the memory tier.
    Hit(R),
    /// There is no such key (and no source to ask, or its absence is remembered).
    Absent,
    /// In flight: await it with [`Group::end`].
    Wait(Wait),
}

impl Group {
    /// Begins a read; a miss that must be fetched is pushed to `batch`, which the caller passes to `source.fetch` once it has begun all reads of the moment.
    pub fn begin<R>(
        &self,
        _key: Key<'_>,
        _now: Millis,
        _batch: &mut Vec<Fetch>,
        _read: impl FnOnce(Entry<'_>) -> R,
    ) -> Begun<R> {
        todo!()
    }
    /// Awaits a read that was begun.
    pub async fn end(_wait: Wait) -> Result<Option<Bytes>, SourceError> {
        todo!()
    }
    // and, for HTTP: read(key) = begin + fetch + end; put / delete / expire: source first, then tier.
}
