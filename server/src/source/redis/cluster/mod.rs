//! `redis+cluster://`: a Redis Cluster, each node of it a [`RedisSource`] of its own.
//!
//! ```text
//! fetch, relay ──► slot of the key ──► map ──► its node's connections ──► answer
//!                                       ▲                                   │ MOVED, ASK, TRYAGAIN, CLUSTERDOWN, node gone
//!                  watcher: CLUSTER NODES, each second      detour: asked again elsewhere, until the deadline
//! ```
//!
//! - One watcher for all cores keeps the map (`map`): every second, and as soon as a node sends somebody elsewhere.
//! - Each node announces changes of what was read there. Once a slot leaves its node, or begins to move, everything is forgotten, for nobody
//!   would announce some of it; what is read of a slot that moves, or after a detour, is not kept.
//! - Commands go to the node of their keys; what concerns all nodes goes to all and comes back as one reply (`plan`, `gather`).
//! - A client's commands to one node stay in order. Those that are asked again may be overtaken by others to that slot in the same pipeline.
mod cluster_nodes;
pub(super) mod command_tips;
mod dedicated;
mod forward;
mod key_slot;
mod redirect;
mod reply_merge;
mod routing;
mod slot_map;
mod topology;

use super::{RedisSource, Settings, request::Waiting, write_commands};
use crate::{
    buffers::Buffers,
    config::{Deployment, RedisAddress, RedisUrl},
    source::{
        CacheableReply, ClientTracking, DedicatedConnection, Fetch, Identity, InvalidationScope, Limits, LocalFuture,
        RawReplies, RedisServer, Relay, Source, SourceError, SourceHealth, UpstreamCommands,
    },
};
use bytes::Bytes;
use larder_proto::resp::Args;
use parking_lot::Mutex;
use redirect::{Lane, Way};
use routing::To;
use slot_map::{Map, Shard};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};

pub(super) use key_slot::slot;
pub(super) use redirect::Elsewhere;

/// A node that has left the cluster is let go after this long, or `source-slow-timeout`: what it owes is answered by then, or past its deadline.
const FAREWELL: Duration = Duration::from_secs(30);

/// What all cores share.
pub(in crate::source) struct ClusterSetup {
    /// For the first node that the URL names; the others' are like it.
    settings: Settings,
    seeds: Vec<RedisAddress>,
    from_replicas: bool,
    map: watch::Sender<Arc<Map>>,
    nodes: Mutex<HashMap<RedisAddress, Arc<Settings>>>,
    /// The map seems to be out of date.
    doubted: Notify,
    /// Some core has a watcher.
    is_watched: AtomicBool,
}

impl ClusterSetup {
    /// # Errors
    /// See [`Settings::new`].
    pub(in crate::source) fn new(
        url: &RedisUrl,
        limits: Limits,
        health: Arc<SourceHealth>,
        buffers: Arc<Buffers>,
    ) -> Result<ClusterSetup, String> {
        let mut settings = Settings::new(url, limits, health, buffers)?;
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
            doubted: Notify::new(),
            is_watched: AtomicBool::new(false),
        })
    }

    /// The present map counts as a change, too.
    fn subscribe(&self) -> watch::Receiver<Arc<Map>> {
        let mut map = self.map.subscribe();
        map.mark_changed();
        map
    }

    fn node(&self, address: &RedisAddress) -> Result<Arc<Settings>, SourceError> {
        let mut nodes = self.nodes.lock();
        if let Some(settings) = nodes.get(address) {
            return Ok(settings.clone());
        }
        let settings = self.settings.at(address).map_err(|reason| SourceError::Unavailable(reason.into()))?;
        let settings = Arc::new(settings);
        nodes.insert(address.clone(), settings.clone());
        Ok(settings)
    }

    /// Forgets nodes that have left, once no core has any more to do with them.
    fn forget_nodes(&self, map: &Map) {
        self.nodes.lock().retain(|address, settings| map.has(address) || Arc::strong_count(settings) > 1);
    }

    /// Puts a new map in place of the present one. True if copies may be out of date: they are to be forgotten now.
    fn replace(&self, with: impl FnOnce(&Map) -> Map) -> bool {
        let mut unsettles = false;
        self.map.send_modify(|map| {
            let new = with(map);
            unsettles = new.unsettles(map);
            *map = Arc::new(new);
        });
        unsettles
    }
}

/// One core's view of the cluster.
pub(in crate::source) struct ClusterSource(Rc<Core>);

struct Core {
    setup: Arc<ClusterSetup>,
    watch: Option<InvalidationScope>,
    keeps_replies: bool,
    changes: RefCell<watch::Receiver<Arc<Map>>>,
    /// As it was last seen; this core's own copy, so that a hit counts no references that cores share.
    map: RefCell<Rc<Map>>,
    nodes: RefCell<HashMap<RedisAddress, Rc<RedisSource>>>,
    /// Takes turns among the masters.
    turn: Cell<usize>,
    /// Fetches that are being asked elsewhere.
    detours: Cell<usize>,
    me: Weak<Core>,
}

impl ClusterSource {
    /// Starts to get to know the cluster. Call it on the core's own runtime.
    pub(in crate::source) fn new(
        setup: Arc<ClusterSetup>,
        watch: Option<InvalidationScope>,
        keeps_replies: bool,
    ) -> ClusterSource {
        let core = Rc::new_cyclic(|me: &Weak<Core>| {
            let settled = {
                let me = me.clone();
                move |key: &[u8]| me.upgrade().is_some_and(|core| !core.map().is_moving(slot(key)))
            };
            Core {
                watch: watch.map(|watch| InvalidationScope { only: Some(Rc::new(settled)), ..watch }),
                changes: RefCell::new(setup.subscribe()),
                map: RefCell::default(),
                setup,
                keeps_replies,
                nodes: RefCell::default(),
                turn: Cell::new(0),
                detours: Cell::new(0),
                me: me.clone(),
            }
        });
        if !core.setup.is_watched.swap(true, Relaxed) {
            tokio::task::spawn_local(topology::keep(Rc::downgrade(&core)));
        }
        tokio::task::spawn_local(open_all(Rc::downgrade(&core), core.setup.subscribe()));
        ClusterSource(core)
    }
}

/// Connects to every master as it comes to be known, so that readiness tells of all and nobody need wait for it.
async fn open_all(core: Weak<Core>, mut map: watch::Receiver<Arc<Map>>) {
    while map.changed().await.is_ok() {
        let Some(core) = core.upgrade() else { return };
        core.map().shards().iter().for_each(|shard| drop(core.node(&shard.master)));
    }
}

impl Core {
    fn map(&self) -> Rc<Map> {
        if self.changes.borrow().has_changed().is_ok_and(|changed| changed) {
            let map = Rc::new(Map::clone(&self.changes.borrow_mut().borrow_and_update()));
            let gone = |address: &RedisAddress| !map.has(address);
            let gone: Vec<_> = self.nodes.borrow_mut().extract_if(|address, _| gone(address)).collect();
            if !gone.is_empty() {
                // What they owe is still to come.
                let farewell = self.setup.settings.limits.slow_timeout.max(FAREWELL);
                tokio::task::spawn_local(async move {
                    sleep(farewell).await;
                    drop(gone);
                });
            }
            *self.map.borrow_mut() = map;
        }
        self.map.borrow().clone()
    }

    /// This core's connections to a node.
    fn node(&self, address: &RedisAddress) -> Result<Rc<RedisSource>, SourceError> {
        if let Some(node) = self.nodes.borrow().get(address) {
            return Ok(node.clone());
        }
        let elsewhere: Weak<dyn Elsewhere> = self.me.clone();
        let settings = self.setup.node(address)?;
        let node = Rc::new(RedisSource::node(settings, self.watch.clone(), self.keeps_replies, Some(elsewhere)));
        self.nodes.borrow_mut().insert(address.clone(), node.clone());
        Ok(node)
    }

    /// Why there is no node to ask.
    fn nobody(&self) -> SourceError {
        match (self.map().is_empty(), self.setup.settings.health.last_error()) {
            (true, Some(reason)) => SourceError::Unavailable(reason),
            (true, None) => SourceError::Unavailable("the cluster's nodes are not known yet".into()),
            (false, _) => SourceError::Unavailable("the cluster has no node for this slot".into()),
        }
    }

    fn address(&self, map: &Map, to: &To) -> Result<RedisAddress, SourceError> {
        let of = |shard: &Shard| shard.master.clone();
        match to {
            To::Slot(slot) => map.owner(*slot).map(of),
            To::Master(address) => Some(address.clone()),
            To::Anyone => map.shards().get(self.next_turn() % map.shards().len().max(1)).map(of),
        }
        .ok_or_else(|| self.nobody())
    }

    fn next_turn(&self) -> usize {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        turn
    }

    /// Whom to read a key from.
    fn reader<'m>(&self, map: &'m Map, key: &[u8]) -> Option<&'m RedisAddress> {
        let slot = slot(key);
        let shard = map.owner(slot)?;
        match &shard.replicas[..] {
            // Always the same one, so that what is read of a key does not run back in time.
            replicas @ [_, ..] if self.setup.from_replicas => Some(&replicas[usize::from(slot) % replicas.len()]),
            _ => Some(&shard.master),
        }
    }

    /// A node says that a slot is at another.
    fn moved(&self, slot: u16, address: &RedisAddress) {
        let map = self.map();
        // Many may be told the same.
        if map.owner(slot).is_none_or(|shard| shard.master != *map.resolve(address)) {
            self.replace(|map| map.with(slot, map.resolve(address)));
        }
        self.setup.doubted.notify_one();
    }

    fn replace(&self, with: impl FnOnce(&Map) -> Map) {
        let unsettles = self.setup.replace(with);
        if let Some(watch) = self.watch.as_ref().filter(|_| unsettles) {
            watch.to.all();
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.setup.settings.limits.timeout
    }
}

impl Source for ClusterSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        let core = &self.0;
        let settings = &core.setup.settings;
        settings.health.admit(batch, settings.limits.max_in_flight);
        let map = core.map();
        while let Some(first) = batch.first() {
            let address = core.reader(&map, first.key());
            let its = batch.extract_if(.., |fetch| core.reader(&map, fetch.key()) == address);
            let mut its: Vec<Fetch> = its.collect();
            match address.ok_or_else(|| core.nobody()).and_then(|address| core.node(address)) {
                Ok(node) => node.send(&mut its),
                Err(error) => {
                    let deadline = core.deadline();
                    its.into_iter().for_each(|fetch| core.take(Waiting::new(fetch, 0, deadline), error.clone()));
                }
            }
        }
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<larder_engine::Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        write_commands::put(self, key, value, expiry)
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        write_commands::delete(self, key)
    }
    fn expire<'a>(
        &'a self,
        key: &'a [u8],
        expiry: Option<larder_engine::Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        write_commands::expire(self, key, expiry)
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        write_commands::ping(self)
    }
    fn as_redis(&self) -> Option<&dyn RedisServer> {
        Some(self)
    }
}

impl Relay for ClusterSource {
    fn relay(
        &self,
        commands: Bytes,
        _count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.0.clone().relay(commands, Way { lane: Lane::Shared, resp3 })
    }
    fn relay_slow(
        &self,
        commands: Bytes,
        _count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.0.clone().relay(commands, Way { lane: Lane::Slow, resp3 })
    }
}

impl RedisServer for ClusterSource {
    fn relay_isolated(
        &self,
        commands: Bytes,
        _count: usize,
        resp3: bool,
        clean: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.0.clone().relay(commands, Way { lane: Lane::Apart { clean }, resp3 })
    }
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.0.known_commands()
    }
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>> {
        Box::pin(self.0.commands(self.0.deadline()))
    }
    fn keeps_reply(&self, command: Args<'_>, resp3: bool) -> Option<CacheableReply> {
        let core = &self.0;
        let any = core.nodes.borrow().values().next()?.clone();
        let keepable = any.keepable(command)?;
        let key = command.get(keepable.key)?;
        let node = core.node(core.reader(&core.map(), key)?).ok()?;
        node.keeps(keepable, key, resp3).then_some(keepable)
    }
    fn open_dedicated<'a>(
        &'a self,
        args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        Box::pin(self.0.clone().open_dedicated(args, resp3))
    }
    fn has_client_ids(&self) -> bool {
        false
    }
    fn client_tracking(&self) -> ClientTracking {
        // Clients' commands go over connections of many nodes: only a node that announces every change announces those that clients know of.
        let announces_all = |watch: &InvalidationScope| watch.prefixes.iter().any(|prefix| prefix.is_empty());
        match &self.0.watch {
            Some(watch) if announces_all(watch) => ClientTracking::Larder,
            _ => ClientTracking::Nobody,
        }
    }
    fn database(&self) -> u32 {
        0
    }
    fn identity(&self) -> Option<Arc<Identity>> {
        // Which node it came from does not matter: they have one version, and no one of them is what clients see.
        let node = self.0.setup.settings.identity.lock().clone()?;
        Some(Arc::new(Identity { role: Identity::default().role, ..Identity::clone(&node) }))
    }
    fn note_password(&self, password: &[u8]) {
        self.0.setup.settings.note_password(password);
    }
    fn credentials(&self) -> (&str, Option<crate::config::Secret>) {
        self.0.setup.settings.credentials()
    }
    fn log_in<'a>(
        &'a self,
        _user: Option<&'a str>,
        _password: &'a str,
        _resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        // One connection leads to one node only.
        let refusal = "ERR users of a cluster cannot log in through Larder";
        Box::pin(async move { Err(SourceError::Refused(refusal.into())) })
    }
    fn wait_identity(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            // Some node is known and reached then, or none is within the deadline.
            let _ = self.commands().await;
            let node = self.0.nodes.borrow().values().next().cloned();
            if let Some(node) = node {
                node.wait_identity().await;
            }
        })
    }
    fn is_single(&self) -> bool {
        false
    }
}
