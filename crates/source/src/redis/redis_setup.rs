//! From a `redis:` URL to its setup: what all cores share of one server, or of the master that
//! Sentinels name.
use super::{
    cluster::ClusterFactory, connection_settings::ConnectionSettings, redis_source::RedisSource, sentinel::Sentinels,
};
use crate::{
    invalidation::InvalidationScope, source_factory::SourceFactory, source_health::SourceHealth,
    source_limits::SourceLimits, source_trait::Source,
};
use larder_base::buffers::Buffers;
use larder_config::{Deployment, RedisUrl};
use std::{rc::Rc, sync::Arc};

/// Checks the URL's files; connects to nothing yet.
///
/// # Errors
/// A text that names the file or host at fault.
pub(crate) fn setup(
    url: &RedisUrl,
    limits: SourceLimits,
    health: SourceHealth,
    buffers: Arc<Buffers>,
) -> Result<Box<dyn SourceFactory>, String> {
    Ok(match url.deployment {
        Deployment::Single | Deployment::Sentinel(_) => Box::new(RedisSetup::new(url, limits, health, buffers)?),
        Deployment::Cluster { .. } => Box::new(ClusterFactory::new(url, limits, health, buffers)?),
    })
}

struct RedisSetup {
    settings: Arc<ConnectionSettings>,
    sentinels: Option<Arc<Sentinels>>,
}
impl RedisSetup {
    fn new(
        url: &RedisUrl,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<RedisSetup, String> {
        let settings = ConnectionSettings::new(url, limits, Arc::new(health), buffers.clone())?;
        let sentinels = Sentinels::new(url, settings.master.as_ref(), limits, &buffers)?;
        Ok(RedisSetup { settings: Arc::new(settings), sentinels })
    }
}
impl SourceFactory for RedisSetup {
    fn health(&self) -> &Arc<SourceHealth> {
        &self.settings.health
    }
    fn open(&self, scope: Option<InvalidationScope>, keeps_replies: bool) -> Rc<dyn Source> {
        self.sentinels.iter().for_each(Sentinels::watch);
        Rc::new_cyclic(|me| RedisSource::new(self.settings.clone(), scope, keeps_replies, None).gated(me))
    }
}
