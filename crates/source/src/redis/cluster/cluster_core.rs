//! One core's view of the cluster: its copy of the slot map, and its connections to each node.
use super::{
    cluster_setup::ClusterSetup,
    command_routing::Destination,
    key_slot::slot,
    slot_map::{ClusterShard, SlotMap},
};
use crate::{
    invalidation::InvalidationScope,
    redis::{queued_request::FetchRedirector, redis_source::RedisSource},
    source_error::SourceError,
};
use larder_config::RedisAddress;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// Connections to a node that has left the cluster are closed after this long, or
/// `source-slow-timeout` if that is longer. By then their requests have replies or have timed out.
const DRAIN: Duration = Duration::from_secs(30);

pub(super) struct ClusterCore {
    pub(super) setup: Arc<ClusterSetup>,
    pub(super) scope: Option<InvalidationScope>,
    pub(super) keeps_replies: bool,
    pub(super) changes: RefCell<watch::Receiver<Arc<SlotMap>>>,
    /// This core's own copy of the map, so that no shared reference count is touched per request.
    pub(super) map: RefCell<Rc<SlotMap>>,
    pub(super) nodes: RefCell<HashMap<RedisAddress, Rc<RedisSource>>>,
    /// Round robin over the masters.
    pub(super) turn: Cell<usize>,
    /// Redirected fetches in flight.
    pub(super) redirected: Cell<usize>,
    pub(super) me: Weak<ClusterCore>,
}

impl ClusterCore {
    pub(super) fn map(&self) -> Rc<SlotMap> {
        if self.changes.borrow().has_changed().is_ok_and(|changed| changed) {
            let map = Rc::new(SlotMap::clone(&self.changes.borrow_mut().borrow_and_update()));
            let gone = |address: &RedisAddress| !map.has(address);
            let gone: Vec<_> = self.nodes.borrow_mut().extract_if(|address, _| gone(address)).collect();
            if !gone.is_empty() {
                // Their replies are still to come.
                let drain = self.setup.settings.limits.slow_timeout.max(DRAIN);
                tokio::task::spawn_local(async move {
                    sleep(drain).await;
                    drop(gone);
                });
            }
            *self.map.borrow_mut() = map;
        }
        self.map.borrow().clone()
    }

    /// This core's connections to a node.
    pub(super) fn node(&self, address: &RedisAddress) -> Result<Rc<RedisSource>, SourceError> {
        if let Some(node) = self.nodes.borrow().get(address) {
            return Ok(node.clone());
        }
        let redirector: Weak<dyn FetchRedirector> = self.me.clone();
        let settings = self.setup.node(address)?;
        let node = Rc::new(RedisSource::new(settings, self.scope.clone(), self.keeps_replies, Some(redirector)));
        self.nodes.borrow_mut().insert(address.clone(), node.clone());
        Ok(node)
    }

    /// Why there is no node to ask.
    pub(super) fn no_node_error(&self) -> SourceError {
        match (self.map().is_empty(), self.setup.settings.health.last_error()) {
            (true, Some(reason)) => SourceError::Unavailable(reason),
            (true, None) => SourceError::Unavailable("the cluster's nodes are not known yet".into()),
            (false, _) => SourceError::Unavailable("the cluster has no node for this slot".into()),
        }
    }

    pub(super) fn address(&self, map: &SlotMap, to: &Destination) -> Result<RedisAddress, SourceError> {
        let of = |shard: &ClusterShard| shard.master.clone();
        match to {
            Destination::Slot(slot) => map.owner(*slot).map(of),
            Destination::Master(address) => Some(address.clone()),
            Destination::Anyone => map.shards().get(self.next_turn() % map.shards().len().max(1)).map(of),
        }
        .ok_or_else(|| self.no_node_error())
    }

    pub(super) fn next_turn(&self) -> usize {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        turn
    }

    /// The node to read a key from.
    pub(super) fn reader<'m>(&self, map: &'m SlotMap, key: &[u8]) -> Option<&'m RedisAddress> {
        let slot = slot(key);
        let shard = map.owner(slot)?;
        match &shard.replicas[..] {
            // Always the same replica for a slot, so that reads of a key do not go back in time.
            replicas @ [_, ..] if self.setup.from_replicas => Some(&replicas[usize::from(slot) % replicas.len()]),
            _ => Some(&shard.master),
        }
    }

    /// A node says that another node owns a slot.
    pub(super) fn moved(&self, slot: u16, address: &RedisAddress) {
        let map = self.map();
        // Many commands may be told the same.
        if map.owner(slot).is_none_or(|shard| shard.master != *map.resolve(address)) {
            self.replace(|map| map.with(slot, map.resolve(address)));
        }
        self.setup.refresh.notify_one();
    }

    pub(super) fn replace(&self, with: impl FnOnce(&SlotMap) -> SlotMap) {
        let outdates_copies = self.setup.replace(with);
        if let Some(scope) = self.scope.as_ref().filter(|_| outdates_copies) {
            scope.to.all();
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.setup.settings.limits.timeout
    }
}
