//! Invalidation: how a source announces that keys have changed.
use std::{rc::Rc, sync::Arc, time::Duration};

/// Receives the announcements of a source. The source calls it on the core that hears of a change.
/// When a call returns, no older copy is served any more.
pub trait Invalidations: Send + Sync {
    /// The key has changed, or may have.
    fn key(&self, key: &[u8]);
    /// Any key may have changed.
    fn all(&self);
    /// Any key with the prefix may have changed. Takes a time that does not depend on their number.
    fn prefix(&self, prefix: &[u8]);
    /// The source no longer announces changes. Whether copies are served from now on that it
    /// cannot vouch for.
    fn lost(&self) -> bool;
    /// For how long copies may be served if the source cannot tell what has changed.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }
    /// Whether any client or the tier may have a copy. If not, the source need not find out which
    /// keys changed.
    fn are_wanted(&self) -> bool {
        true
    }
}

/// Tells whether the source vouches for a key.
pub type VouchesFor = dyn Fn(&[u8]) -> bool;

/// The keys whose changes a source announces, and the receiver.
#[derive(Clone)]
pub struct InvalidationScope {
    /// Empty: the source announces changes of keys that were fetched. Otherwise it announces
    /// changes of keys with one of these prefixes, and vouches for no others.
    pub prefixes: Arc<[Box<[u8]>]>,
    /// If given, the source vouches only for keys that pass.
    pub only: Option<Rc<VouchesFor>>,
    /// The receiver.
    pub to: Arc<dyn Invalidations>,
}
impl InvalidationScope {
    /// Whether changes of this key are announced.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        (self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix)))
            && self.only.as_ref().is_none_or(|only| only(key))
    }
}
