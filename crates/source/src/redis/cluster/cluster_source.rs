//! A Redis Cluster as a [`Source`] and as a [`RedisServer`].
use super::{
    cluster_core::ClusterCore,
    cluster_setup::ClusterSetup,
    key_slot::slot,
    slot_map::SlotMap,
    slot_map_refresh,
    slot_redirects::{ConnectionClass, ConnectionRoute},
};
use crate::{
    fetch::Fetch,
    fetch_gate::FetchGate,
    fetch_result::CacheableReply,
    invalidation::InvalidationScope,
    local_future::LocalFuture,
    raw_replies::RawReplies,
    redis::{
        queued_request::{FetchRedirector, QueuedFetch},
        write_commands,
    },
    redis_server_trait::{ClientTracking, DedicatedConnection, Pace, RedisServer, Relay},
    server_identity::ServerIdentity,
    source_error::SourceError,
    source_trait::{Source, SourceKind},
    upstream_commands::{BusyFor, UpstreamCommands},
};
use bytes::Bytes;
use larder_config::Secret;
use larder_engine::Millis;
use larder_proto::resp::Args;
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::{sync::watch, time::Instant};

/// One core's handle on the cluster.
pub(in crate::redis) struct ClusterSource {
    core: Rc<ClusterCore>,
    gate: FetchGate,
}

impl ClusterSource {
    /// Starts to discover the cluster. Call it on the core's own runtime.
    pub(in crate::redis) fn new(
        setup: Arc<ClusterSetup>,
        scope: Option<InvalidationScope>,
        keeps_replies: bool,
    ) -> ClusterSource {
        let core = Rc::new_cyclic(|me: &Weak<ClusterCore>| {
            let settled = {
                let me = me.clone();
                move |key: &[u8]| me.upgrade().is_some_and(|core| !core.map().is_moving(slot(key)))
            };
            ClusterCore {
                scope: scope.map(|scope| InvalidationScope { only: Some(Rc::new(settled)), ..scope }),
                changes: RefCell::new(setup.subscribe()),
                map: RefCell::default(),
                setup,
                keeps_replies,
                nodes: RefCell::default(),
                turn: Cell::new(0),
                redirected: Cell::new(0),
                me: me.clone(),
            }
        });
        if !core.setup.is_watched.swap(true, Relaxed) {
            tokio::task::spawn_local(slot_map_refresh::keep_refreshing(Rc::downgrade(&core)));
        }
        tokio::task::spawn_local(open_all(Rc::downgrade(&core), core.setup.subscribe()));
        let me = Rc::downgrade(&core);
        let send = move |batch: &mut Vec<Fetch>| me.upgrade().iter().for_each(|core| send(core, batch));
        ClusterSource { gate: FetchGate::new(core.setup.settings.health.clone(), send), core }
    }
}

/// Connects to every master when it is discovered, so that readiness covers all and no client waits
/// for the connection.
async fn open_all(core: Weak<ClusterCore>, mut map: watch::Receiver<Arc<SlotMap>>) {
    while map.changed().await.is_ok() {
        let Some(core) = core.upgrade() else { return };
        core.map().shards().iter().for_each(|shard| drop(core.node(&shard.master)));
    }
}

/// Hands admitted fetches to the nodes of their keys.
fn send(core: &ClusterCore, batch: &mut Vec<Fetch>) {
    let map = core.map();
    while let Some(first) = batch.first() {
        let address = core.reader(&map, first.key());
        let its = batch.extract_if(.., |fetch| core.reader(&map, fetch.key()) == address);
        let mut its: Vec<Fetch> = its.collect();
        match address.ok_or_else(|| core.no_node_error()).and_then(|address| core.node(address)) {
            Ok(node) => node.send(&mut its),
            Err(error) => {
                let (since, deadline) = (Instant::now(), core.deadline());
                its.into_iter()
                    .for_each(|fetch| core.redirect(QueuedFetch::new(fetch, 0, since, deadline), error.clone()));
            }
        }
    }
}

impl Source for ClusterSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Redis(self)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.gate.fetch(batch);
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        write_commands::put(self, key, value, expiry)
    }
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        write_commands::delete(self, key)
    }
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        write_commands::expire(self, key, expiry)
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        write_commands::ping(self)
    }
}

impl Relay for ClusterSource {
    fn relay_at(
        &self,
        pace: Pace,
        commands: Bytes,
        _count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        let class = if pace.slow { ConnectionClass::Slow } else { ConnectionClass::Shared };
        self.core.clone().relay(commands, ConnectionRoute { class, resp3, busy: pace.busy })
    }
}

impl RedisServer for ClusterSource {
    fn relay_isolated(
        &self,
        commands: Bytes,
        _count: usize,
        resp3: bool,
        clean: bool,
        busy: Option<BusyFor>,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.core.clone().relay(commands, ConnectionRoute { class: ConnectionClass::Isolated { clean }, resp3, busy })
    }
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.core.known_commands()
    }
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>> {
        Box::pin(self.core.commands(self.core.deadline()))
    }
    fn keeps_reply(&self, command: Args<'_>, resp3: bool) -> Option<CacheableReply> {
        let core = &self.core;
        let any = core.nodes.borrow().values().next()?.clone();
        let cacheable = any.cacheable_reply(command)?;
        let key = command.get(cacheable.key)?;
        let node = core.node(core.reader(&core.map(), key)?).ok()?;
        node.can_cache(cacheable, key, resp3).then_some(cacheable)
    }
    fn announced(&self, commands: Bytes) -> LocalFuture<'static, ()> {
        let nodes: Vec<_> = self.core.nodes_of(&commands).iter().map(|node| node.caught_up()).collect();
        Box::pin(async {
            for node in nodes {
                node.await;
            }
        })
    }
    fn open_dedicated<'a>(
        &'a self,
        args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        Box::pin(self.core.clone().open_dedicated(args, resp3))
    }
    fn has_client_ids(&self) -> bool {
        false
    }
    fn client_tracking(&self) -> ClientTracking {
        // Clients' commands use connections to many nodes. Only broadcast tracking of all keys covers every
        // key that clients read.
        let announces_all = |scope: &InvalidationScope| scope.prefixes.iter().any(|prefix| prefix.is_empty());
        match &self.core.scope {
            Some(scope) if announces_all(scope) => ClientTracking::Larder,
            _ => ClientTracking::Nobody,
        }
    }
    fn database(&self) -> u32 {
        0
    }
    fn identity(&self) -> Option<Arc<ServerIdentity>> {
        // Any node will do: all have one version. The role is not taken over, because clients see the whole
        // cluster.
        let node = self.core.setup.settings.identity.lock().clone()?;
        Some(Arc::new(ServerIdentity { role: ServerIdentity::default().role, ..ServerIdentity::clone(&node) }))
    }
    fn note_password(&self, password: &[u8]) {
        self.core.setup.settings.note_password(password);
    }
    fn credentials(&self) -> (&str, Option<Secret>) {
        self.core.setup.settings.credentials()
    }
    fn as_user(&self, _user: Option<&str>, _password: Option<&str>) -> Option<Rc<dyn RedisServer>> {
        None
    }
    fn check_login(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async { Ok(()) })
    }
    fn wait_identity(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            // Then a node is connected, or the deadline has passed.
            let _ = self.commands().await;
            let node = self.core.nodes.borrow().values().next().cloned();
            if let Some(node) = node {
                node.wait_identity().await;
            }
        })
    }
    fn is_single(&self) -> bool {
        false
    }
}
