//! What all cores share of a Redis Cluster: the slot map, and the settings of each node.
use super::slot_map::SlotMap;
use crate::{
    redis::connection_settings::ConnectionSettings, source_error::SourceError, source_health::SourceHealth,
    source_limits::SourceLimits,
};
use larder_base::buffers::Buffers;
use larder_config::{Deployment, RedisAddress, RedisUrl};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicBool},
};
use tokio::sync::{Notify, watch};

/// What all cores share.
pub(in crate::redis) struct ClusterSetup {
    /// Settings of the first node in the URL; those of the other nodes derive from it.
    pub(in crate::redis) settings: ConnectionSettings,
    pub(super) seeds: Vec<RedisAddress>,
    pub(super) from_replicas: bool,
    pub(super) map: watch::Sender<Arc<SlotMap>>,
    pub(super) nodes: Mutex<HashMap<RedisAddress, Arc<ConnectionSettings>>>,
    /// Requests a refresh of the map, which may be out of date.
    pub(super) refresh: Notify,
    /// Whether a core runs the refresh task.
    pub(super) is_watched: AtomicBool,
}

impl ClusterSetup {
    /// # Errors
    /// See [`ConnectionSettings::new`].
    pub(in crate::redis) fn new(
        url: &RedisUrl,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<ClusterSetup, String> {
        let mut settings = ConnectionSettings::new(url, limits, Arc::new(health), buffers)?;
        let (mut seeds, mut from_replicas) = (vec![url.address.clone()], false);
        if let Deployment::Cluster { seeds: others, from_replicas: replicas } = &url.deployment {
            seeds.extend_from_slice(others);
            from_replicas = *replicas;
        }
        settings.read_only = from_replicas;
        Ok(ClusterSetup {
            settings,
            seeds,
            from_replicas,
            map: watch::Sender::default(),
            nodes: Mutex::default(),
            refresh: Notify::new(),
            is_watched: AtomicBool::new(false),
        })
    }

    /// Subscribes to the map; the present map counts as a change.
    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<SlotMap>> {
        let mut map = self.map.subscribe();
        map.mark_changed();
        map
    }

    pub(super) fn node(&self, address: &RedisAddress) -> Result<Arc<ConnectionSettings>, SourceError> {
        let mut nodes = self.nodes.lock();
        if let Some(settings) = nodes.get(address) {
            return Ok(settings.clone());
        }
        let settings = self.settings.at(address).map_err(|reason| SourceError::Unavailable(reason.into()))?;
        let settings = Arc::new(settings);
        nodes.insert(address.clone(), settings.clone());
        Ok(settings)
    }

    /// Forgets nodes that have left the cluster and that no core uses.
    pub(super) fn forget_nodes(&self, map: &SlotMap) {
        self.nodes.lock().retain(|address, settings| map.has(address) || Arc::strong_count(settings) > 1);
    }

    /// Replaces the map. True if copies may be out of date; the caller must then invalidate them.
    pub(super) fn replace(&self, with: impl FnOnce(&SlotMap) -> SlotMap) -> bool {
        let mut outdates_copies = false;
        self.map.send_modify(|map| {
            let new = with(map);
            outdates_copies = new.outdates_copies(map);
            *map = Arc::new(new);
        });
        outdates_copies
    }
}
