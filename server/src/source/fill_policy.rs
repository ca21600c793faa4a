//! How fills of a group are stored: lifetimes, absences, coherence, replies.
use crate::config::Coherence;
use larder_engine::{Expiry, Millis};

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
    pub fn serves_stale(&self) -> bool {
        self.coherence == Coherence::Coherent && self.ttl.is_some()
    }
    /// Are there copies to give while the source is gone?
    pub fn outlives_source(&self) -> bool {
        self.coherence == Coherence::Ttl || self.serves_stale()
    }
    /// The expiry of a copy of something that itself expires at `own`: the earlier of that and the group's lifetime from now.
    pub fn cap(&self, own: Option<Millis>, now: Millis) -> Expiry {
        match (own, self.ttl) {
            (Some(at), Some(ttl)) if at >= now.saturating_add(ttl) => Expiry::Default,
            (Some(at), _) => Expiry::At(at),
            (None, Some(_)) => Expiry::Default,
            (None, None) => Expiry::Never,
        }
    }
    /// Are replies kept at all?
    pub fn keeps_replies(&self) -> bool {
        self.max_reply > 0 && self.coherence != Coherence::Off
    }
}
