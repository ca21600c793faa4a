//! From a source's URL to the source: what all cores share of it, and the line for each implementation.
use super::{
    contract::{InvalidationScope, Source},
    disk,
    health::SourceHealth,
    limits::Limits,
    none, redis,
    table::{self, Reloaded},
};
use crate::{
    buffers::Buffers,
    config::{Deployment, SourceUrl},
    telemetry::TableSnapshot,
};
use larder_store::disk::Store;
use std::{rc::Rc, sync::Arc};

/// What all cores share of one group's source: its health and what was read from files. Built at start, before the cores.
pub struct SourceSetup {
    health: Arc<SourceHealth>,
    kind: Kind,
}
enum Kind {
    None,
    Disk(disk::DiskSetup),
    Redis(Arc<redis::Settings>),
    Cluster(Arc<redis::ClusterSetup>),
    Table(table::TableSetup),
}
impl SourceSetup {
    /// Checks what the URL names and opens a table or disk store; connects to nothing yet. `buffers` counts what is on its way.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub fn new(url: &SourceUrl, limits: Limits, buffers: &Arc<Buffers>) -> Result<SourceSetup, String> {
        let health = Arc::new(match url {
            SourceUrl::None | SourceUrl::Table(_) => SourceHealth::always_up(),
            SourceUrl::Disk(_) | SourceUrl::Redis(_) => SourceHealth::default(),
        });
        let kind = match url {
            SourceUrl::None => Kind::None,
            SourceUrl::Table(path) => Kind::Table(table::TableSetup::open(path, limits, health.clone())?),
            SourceUrl::Disk(dir) => Kind::Disk(disk::DiskSetup::open(dir, limits, health.clone(), buffers.clone())?),
            SourceUrl::Redis(url) => match url.deployment {
                Deployment::Cluster { .. } => {
                    Kind::Cluster(Arc::new(redis::ClusterSetup::new(url, limits, health.clone(), buffers.clone())?))
                }
                Deployment::Single | Deployment::Sentinel(_) => {
                    Kind::Redis(Arc::new(redis::Settings::new(url, limits, health.clone(), buffers.clone())?))
                }
            },
        };
        Ok(SourceSetup { health, kind })
    }
    /// How the source is doing.
    pub fn health(&self) -> &Arc<SourceHealth> {
        &self.health
    }
    /// Has a table looked at anew, as if its file had just been moved into place; `None`: the source is none.
    ///
    /// # Errors
    /// Why the file is refused; the table is as it was then.
    pub async fn reload(&self) -> Option<Result<Reloaded, Arc<str>>> {
        match &self.kind {
            Kind::Table(setup) => Some(setup.reload().await),
            _ => None,
        }
    }
    /// What is counted of a table; zeros where the source is none.
    pub fn table_counts(&self) -> TableSnapshot {
        match &self.kind {
            Kind::Table(setup) => setup.counts(),
            _ => TableSnapshot::default(),
        }
    }
    /// The disk store, if it is one.
    pub fn store(&self) -> Option<&Store> {
        match &self.kind {
            Kind::Disk(setup) => Some(setup.store()),
            _ => None,
        }
    }
    /// One core's source. Call it on the core's own (local) runtime: connecting begins at once, in the background. With
    /// `watch` it announces changes of what it fetched, where it can; `keeps_replies`: whole replies
    /// will be fetched, too.
    pub fn open(&self, watch: Option<InvalidationScope>, keeps_replies: bool) -> Rc<dyn Source> {
        match &self.kind {
            Kind::None => Rc::new(none::NoneSource),
            Kind::Table(setup) => Rc::new(table::TableSource::new(setup, watch)),
            Kind::Disk(setup) => Rc::new(disk::DiskSource::new(setup.clone())),
            Kind::Redis(settings) => Rc::new(redis::RedisSource::new(settings.clone(), watch, keeps_replies)),
            Kind::Cluster(setup) => Rc::new(redis::ClusterSource::new(setup.clone(), watch, keeps_replies)),
        }
    }
}
