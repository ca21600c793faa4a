//! What a source's announcements do to the memory tier.
//!
//! Each connection announces changes in order with its own replies. A fill is stored when its reply is handled, so an
//! announcement that belongs to a stored copy always finds it; one that comes too early for that fences the flight. A copy that
//! some other connection fetched is forgotten needlessly, never kept wrongly.
use crate::source::{Invalidations, Watch};
use larder_engine::Cache;
use std::{rc::Rc, sync::Arc};

/// The copies of one group, as its source may forget them.
#[derive(Debug)]
pub struct Copies(Arc<Cache>);

impl Invalidations for Copies {
    fn key(&self, key: &[u8]) {
        self.0.invalidate(self.0.key(key));
    }
    fn all(&self) {
        self.0.tier().clear();
    }
}

/// Has a source announce changes of what is in `cache`; see [`Watch::prefixes`].
pub fn watch<P: AsRef<[u8]>>(cache: &Arc<Cache>, prefixes: &[P]) -> Watch {
    let prefixes = prefixes.iter().map(|prefix| prefix.as_ref().into()).collect();
    Watch { prefixes, to: Rc::new(Copies(cache.clone())) }
}
