//! What all cores share of one source, and how a core opens its own handle.
use super::{
    invalidation::InvalidationScope, source_health::SourceHealth, source_trait::Source, table::table_reload::TableSetup,
};
use larder_base::telemetry::DriverSnapshot;
use larder_store::disk::Store;
use std::{rc::Rc, sync::Arc};

type Open = dyn Fn(Option<InvalidationScope>, bool) -> Rc<dyn Source> + Send + Sync;

/// The shared part of one group's source: its health, and what was read from files. It is built at
/// start, before the cores.
pub struct SourceSetup {
    pub(super) health: Arc<SourceHealth>,
    /// The table, if the source is one.
    pub table: Option<Arc<TableSetup>>,
    pub(super) store: Option<Store>,
    /// What its driver counts, if it has one that counts.
    pub(super) driver: Option<Box<dyn Fn() -> DriverSnapshot + Send + Sync>>,
    pub(super) open: Box<Open>,
}
impl SourceSetup {
    pub(super) fn of(
        health: Arc<SourceHealth>,
        open: impl Fn(Option<InvalidationScope>, bool) -> Rc<dyn Source> + Send + Sync + 'static,
    ) -> SourceSetup {
        SourceSetup { health, table: None, store: None, driver: None, open: Box::new(open) }
    }
    pub fn health(&self) -> &Arc<SourceHealth> {
        &self.health
    }
    /// What the source's driver has counted, if it counts.
    pub fn driver(&self) -> Option<DriverSnapshot> {
        self.driver.as_ref().map(|read| read())
    }
    /// The disk store, if the source is one.
    pub fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }
    /// One core's source. Call it on the core's own (local) runtime: connecting starts at once, in
    /// the background.
    ///
    /// With `scope` the source announces changes of fetched keys, where it can. `keeps_replies`:
    /// the core will fetch whole replies, too.
    pub fn open(&self, scope: Option<InvalidationScope>, keeps_replies: bool) -> Rc<dyn Source> {
        (self.open)(scope, keeps_replies)
    }
}
