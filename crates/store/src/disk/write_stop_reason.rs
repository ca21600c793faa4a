//! Why the store takes no more writes: the first failure in the middle of a write.
use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

/// Who is told, once, that the store takes no more writes.
pub type OnPoison = Box<dyn Fn(&Arc<str>) + Send + Sync>;

/// Why the store takes no more writes.
pub(super) struct Poison {
    reason: OnceLock<Arc<str>>,
    told: OnPoison,
}
impl Poison {
    pub(super) fn new(told: OnPoison) -> Poison {
        Poison { reason: OnceLock::new(), told }
    }
    /// Takes no more writes from now on. The first reason counts, and is the one that is told.
    pub(super) fn set(&self, dir: &Path, error: &str) -> Arc<str> {
        let reason = self.reason.get_or_init(|| {
            let reason: Arc<str> =
                format!("disk store {} takes no writes until it is restarted, since: {error}", dir.display()).into();
            tracing::error!("{reason}");
            (self.told)(&reason);
            reason
        });
        reason.clone()
    }
    pub(super) fn reason(&self) -> Option<Arc<str>> {
        self.reason.get().cloned()
    }
}
