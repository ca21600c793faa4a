//! How invalidations from a source change the memory tier.
//!
//! Each connection announces changes in order with its own replies. A fill is stored when its reply
//! is handled, so an announcement about a stored copy always finds it. One that comes earlier
//! fences the flight. A copy that another connection fetched may be forgotten needlessly, but is
//! never kept wrongly.
use super::{
    fill_policy::FillPolicy,
    invalidation::{InvalidationScope, Invalidations},
};
use larder_engine::Cache;
use larder_store::clock;
use std::{sync::Arc, time::Duration};

/// Applies the invalidations of a source to the tier of one group.
#[derive(Debug)]
pub struct TierInvalidator {
    cache: Arc<Cache>,
    policy: Arc<FillPolicy>,
}

impl Invalidations for TierInvalidator {
    fn key(&self, key: &[u8]) {
        self.cache.invalidate(self.cache.key(key));
    }
    fn all(&self) {
        self.cache.tier().clear();
    }
    fn prefix(&self, prefix: &[u8]) {
        self.cache.mark_prefix(prefix, true, clock::now());
    }
    fn patience(&self) -> Duration {
        Duration::from_millis(if self.policy.serves_stale() { self.policy.longest_stale() } else { 0 })
    }
    fn are_wanted(&self) -> bool {
        self.cache.is_listened_to() || self.cache.stats().entries > 0
    }
    fn lost(&self) -> bool {
        match self.policy.serves_stale() {
            // True once for all connections that are lost together.
            true => return self.cache.mark_stale(clock::now()),
            // As good as gone for every reader.
            false if self.policy.is_saved => drop(self.cache.mark_stale(clock::now())),
            false => self.all(),
        }
        false
    }
}

/// The scope with which a source announces changes of the entries in `cache`; see
/// [`InvalidationScope::prefixes`].
pub fn invalidation_scope<P: AsRef<[u8]>>(
    cache: &Arc<Cache>,
    policy: &Arc<FillPolicy>,
    prefixes: &[P],
) -> InvalidationScope {
    let policy = policy.clone();
    let prefixes = prefixes.iter().map(|prefix| prefix.as_ref().into()).collect();
    InvalidationScope { prefixes, only: None, to: Arc::new(TierInvalidator { cache: cache.clone(), policy }) }
}
