//! How fills of a group are stored: lifetimes, absences, coherence, replies.
use crate::config::Coherence;
use larder_engine::{Expiry, Millis};

/// How fills of a group are stored.
#[derive(Debug, Clone, Copy, Default)]
pub struct FillPolicy {
    /// Longest life of a fill, ms; the source's own expiry only shortens it. The group's cache is built with the same
    /// value as its default lifetime, so that jitter applies to fills.
    pub ttl: Option<u64>,
    /// How long an absence is remembered, ms; `None`: never.
    pub negative_ttl: Option<u64>,
    /// The coherence mode; unused without a source.
    pub coherence: Coherence,
    /// Largest cached reply, bytes, command included; 0: replies are not cached.
    pub max_reply: usize,
}
impl FillPolicy {
    /// In mode `coherent`: whether a copy that the source no longer vouches for may be served while the source is unavailable. It needs
    /// a lifetime, which bounds the copy's age.
    pub fn serves_stale(&self) -> bool {
        self.coherence == Coherence::Coherent && self.ttl.is_some()
    }
    /// Whether copies are served while the source is unavailable.
    pub fn outlives_source(&self) -> bool {
        self.coherence == Coherence::Ttl || self.serves_stale()
    }
    /// The expiry of a copy: the earlier of its own expiry (`own`) and the group's lifetime from now.
    pub fn cap(&self, own: Option<Millis>, now: Millis) -> Expiry {
        match (own, self.ttl) {
            (Some(at), Some(ttl)) if at >= now.saturating_add(ttl) => Expiry::Default,
            (Some(at), _) => Expiry::At(at),
            (None, Some(_)) => Expiry::Default,
            (None, None) => Expiry::Never,
        }
    }
    /// Whether replies are cached at all.
    pub fn keeps_replies(&self) -> bool {
        self.max_reply > 0 && self.coherence != Coherence::Off
    }
}
