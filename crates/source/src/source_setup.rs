//! From a source's URL to the source: one line for each implementation.
use super::{
    admission::ServerLoads,
    demo::DemoSetup,
    disk::DiskSetup,
    http_origin::OriginSetup,
    invalidation::InvalidationScope,
    none::NoneSetup,
    postgres::PostgresSetup,
    redis,
    source_factory::SourceFactory,
    source_health::SourceHealth,
    source_limits::SourceLimits,
    source_trait::Source,
    table::{Reloaded, TableSetup},
};
use larder_base::{buffers::Buffers, telemetry::TableSnapshot};
use larder_config::{DataFile, SourceUrl};
use larder_store::disk::Store;
use std::{rc::Rc, sync::Arc};

/// The shared part of one group's source: its health, and what was read from files. It is built at
/// start, before the cores.
pub struct SourceSetup(Box<dyn SourceFactory>);
impl SourceSetup {
    /// Checks what the URL names and opens a table or disk store. Does not connect yet. `buffers`
    /// counts values and commands in transit.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub fn new(url: &SourceUrl, limits: SourceLimits, buffers: &Arc<Buffers>) -> Result<SourceSetup, String> {
        SourceSetup::sharing(url, limits, buffers, &ServerLoads::default())
    }
    /// As [`new`](SourceSetup::new). Sources of one server that are given the same `servers` share
    /// the limit on fetches in flight there.
    ///
    /// # Errors
    /// As [`new`](SourceSetup::new).
    pub fn sharing(
        url: &SourceUrl,
        mut limits: SourceLimits,
        buffers: &Arc<Buffers>,
        servers: &ServerLoads,
    ) -> Result<SourceSetup, String> {
        if url.is_cluster() {
            // Its nodes fail one by one; a breaker would cut off all of them.
            limits.breaker = None;
        }
        if matches!(url, SourceUrl::Table(_) | SourceUrl::Disk(_)) {
            // A file of this machine is no server that could recover from fewer reads.
            limits = SourceLimits { breaker: None, adaptive: false, ..limits };
        }
        let health = || SourceHealth::new(url, &limits, servers);
        let factory: Box<dyn SourceFactory> = match url {
            SourceUrl::None => Box::new(NoneSetup::default()),
            // It serves from the memory map: a failed reload leaves the old table in place.
            SourceUrl::Table(path) => Box::new(TableSetup::open(path, limits, health().and_up())?),
            SourceUrl::Disk(dir) => Box::new(DiskSetup::open(dir, limits, health(), buffers.clone())?),
            SourceUrl::Http(url) => Box::new(OriginSetup::new(url, limits, health(), buffers.clone())?),
            SourceUrl::Postgres(url) => Box::new(PostgresSetup::new(url, limits, health(), buffers.clone())?),
            SourceUrl::Demo(url) => Box::new(DemoSetup::new(*url, limits, health().and_up())),
            SourceUrl::Redis(url) => redis::setup(url, limits, health(), buffers.clone())?,
        };
        Ok(SourceSetup(factory))
    }
    /// The health of the source.
    pub fn health(&self) -> &Arc<SourceHealth> {
        self.0.health()
    }
    /// Reloads a table's file; `None` if the source is no table.
    ///
    /// # Errors
    /// Why the file is refused. The table then stays as it is.
    pub async fn reload(&self) -> Option<Result<Reloaded, Arc<str>>> {
        Some(self.0.as_table()?.reload().await)
    }
    /// Builds the table again from this file at a reload, if the file has changed.
    pub fn follow_data(&self, data: &DataFile) {
        if let Some(table) = self.0.as_table() {
            table.follow_data(data.clone());
        }
    }
    /// Begins to [reload](SourceSetup::reload) a table that follows a data file, if the file has
    /// changed. Does not wait for the end.
    pub fn look_at_data(&self) {
        if let Some(table) = self.0.as_table() {
            table.look_at_data();
        }
    }
    /// The counters of a table; zeros if the source is no table.
    pub fn table_counts(&self) -> TableSnapshot {
        self.0.as_table().map(TableSetup::counts).unwrap_or_default()
    }
    /// The disk store, if the source is one.
    pub fn store(&self) -> Option<&Store> {
        self.0.as_disk()
    }
    /// One core's source. Call it on the core's own (local) runtime: connecting starts at once, in
    /// the background.
    ///
    /// With `scope` the source announces changes of fetched keys, where it can. `keeps_replies`:
    /// the core will fetch whole replies, too.
    pub fn open(&self, scope: Option<InvalidationScope>, keeps_replies: bool) -> Rc<dyn Source> {
        self.0.open(scope, keeps_replies)
    }
}
