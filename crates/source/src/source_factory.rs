//! What all cores share of one source, and how a core opens its own handle.
use super::{
    invalidation::InvalidationScope, source_health::SourceHealth, source_trait::Source, table::table_reload::TableSetup,
};
use larder_store::disk::Store;
use std::{rc::Rc, sync::Arc};

/// The shared part of one implementation. It is built at start, before the cores.
pub(super) trait SourceFactory: Send + Sync {
    /// The health of the source.
    fn health(&self) -> &Arc<SourceHealth>;
    /// One core's source; see [`SourceSetup::open`](super::SourceSetup::open).
    fn open(&self, scope: Option<InvalidationScope>, keeps_replies: bool) -> Rc<dyn Source>;
    /// The table, if the source is one.
    fn as_table(&self) -> Option<&TableSetup> {
        None
    }
    /// The disk store, if the source is one.
    fn as_disk(&self) -> Option<&Store> {
        None
    }
}
