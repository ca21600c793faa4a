//! From a source's URL to the source: one line for each implementation.
use super::{
    admission::ServerLoads, cassandra, demo, disk, http_origin, none, postgres, redis, source_health::SourceHealth,
    source_limits::SourceLimits, source_setup::SourceSetup, table,
};
use larder_base::buffers::Buffers;
use larder_config::{SourceClass, SourceUrl};
use std::sync::Arc;

impl SourceSetup {
    /// Checks what the URL names and opens a table or disk store. Does not connect yet. `buffers`
    /// counts values and commands in transit.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub fn new(url: &SourceUrl, limits: SourceLimits, buffers: &Arc<Buffers>) -> Result<SourceSetup, String> {
        SourceSetup::sharing(url, limits, buffers, &ServerLoads::default())
    }
    /// Like [`new`](SourceSetup::new). Sources of one server that are given the same `servers`
    /// share the limit on fetches in flight there.
    ///
    /// # Errors
    /// Like [`new`](SourceSetup::new).
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
        if matches!(url.class(), SourceClass::Table | SourceClass::Store) {
            // A file of this machine is no server that could recover from fewer reads.
            limits = SourceLimits { breaker: None, adaptive: false, ..limits };
        }
        let health = SourceHealth::new(url, &limits, servers);
        match url {
            SourceUrl::None => Ok(none::setup()),
            SourceUrl::Table(path) => table::setup(path, limits, health),
            SourceUrl::Disk(dir) => disk::setup(dir, limits, health, buffers.clone()),
            SourceUrl::Http(url) => http_origin::setup(url, limits, health, buffers.clone()),
            SourceUrl::Postgres(url) => postgres::setup(url, limits, health, buffers.clone()),
            SourceUrl::Cassandra(url) => cassandra::setup(url, limits, health, buffers.clone()),
            SourceUrl::Demo(url) => Ok(demo::setup(*url, limits, health)),
            SourceUrl::Redis(url) => redis::setup(url, limits, health, buffers.clone()),
        }
    }
}
