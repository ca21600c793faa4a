//! From a `redis:` URL to its setup: what all cores share of one server, or of the master that
//! Sentinels name.
use super::{
    cluster::{ClusterSetup, ClusterSource},
    connection_settings::ConnectionSettings,
    redis_source::RedisSource,
    sentinel::Sentinels,
};
use crate::{source_health::SourceHealth, source_limits::SourceLimits, source_setup::SourceSetup};
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
) -> Result<SourceSetup, String> {
    if matches!(url.deployment, Deployment::Cluster { .. }) {
        let cluster = Arc::new(ClusterSetup::new(url, limits, health, buffers)?);
        return Ok(SourceSetup::of(cluster.settings.health.clone(), move |scope, keeps_replies| {
            Rc::new(ClusterSource::new(cluster.clone(), scope, keeps_replies))
        }));
    }
    let settings = Arc::new(ConnectionSettings::new(url, limits, Arc::new(health), buffers.clone())?);
    let sentinels = Sentinels::new(url, settings.master.as_ref(), limits, &buffers)?;
    Ok(SourceSetup::of(settings.health.clone(), move |scope, keeps_replies| {
        sentinels.iter().for_each(Sentinels::watch);
        Rc::new_cyclic(|me| RedisSource::new(settings.clone(), scope, keeps_replies, None).gated(me))
    }))
}
