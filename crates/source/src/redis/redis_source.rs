//! One core's connections to a Redis server, as a [`Source`] and as a [`RedisServer`].
use super::{
    announcing_connections::CatchUps,
    connection::UpstreamConnection,
    connection_settings::{ConnectionSettings, KnownCommands},
    dedicated_connection::{ConnectionPool, FOREVER, PooledConnection},
    large_commands,
    queued_request::{FetchRedirector, RelayResult},
    reply_affinity::{ReplyAffinity, RoutedFetch},
    reply_errors::{has_code, unexpected},
    upstream_handshake::ConnectionMode,
    write_commands,
};
use crate::{
    fetch::Fetch,
    fetch_gate::FetchGate,
    fetch_result::CacheableReply,
    invalidation::InvalidationScope,
    local_future::LocalFuture,
    raw_replies::RawReplies,
    redis_server_trait::{DedicatedConnection, Pace, RedisServer, Relay},
    server_identity::ServerIdentity,
    source_error::SourceError,
    source_health::SourceHealth,
    source_limits::SourceLimits,
    source_trait::{Source, SourceKind},
    upstream_commands::{BusyFor, UpstreamCommands, framed_replies::may_break},
};
use bytes::Bytes;
use larder_base::buffers::BufferKind;
use larder_config::Secret;
use larder_engine::Millis;
use larder_proto::resp::{self, Args};
use std::{
    cell::{Cell, OnceCell, RefCell},
    iter,
    rc::{Rc, Weak},
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::sync::mpsc::UnboundedReceiver;

/// One core's connections to a Redis server.
pub(super) struct RedisSource {
    settings: Arc<ConnectionSettings>,
    /// `None` for a node of a cluster: the cluster's gate admits its fetches.
    gate: Option<FetchGate>,
    /// For fetches; without tracking also for writes and relayed RESP2 commands. At least one.
    connections: Rc<[UpstreamConnection]>,
    /// The keys whose changes these connections announce.
    scope: Option<InvalidationScope>,
    affinity: ReplyAffinity,
    next: Cell<usize>,
    /// For writes and relayed commands, if the connections above track.
    resp2: OnceCell<UpstreamConnection>,
    resp3: OnceCell<UpstreamConnection>,
    /// For slow relayed commands, by protocol: behind them others would miss their deadline.
    slow: [OnceCell<UpstreamConnection>; 2],
    /// This core's copy of the command table.
    commands: RefCell<Option<KnownCommands>>,
    asking: tokio::sync::Mutex<()>,
    pool: Rc<ConnectionPool>,
    catch_ups: CatchUps,
}

impl RedisSource {
    /// Starts connecting. Call it on the core's own runtime. `redirector` takes over fetches that a
    /// node of a cluster did not answer.
    pub(super) fn new(
        settings: Arc<ConnectionSettings>,
        scope: Option<InvalidationScope>,
        keeps_replies: bool,
        redirector: Option<Weak<dyn FetchRedirector>>,
    ) -> RedisSource {
        let mode = scope.clone().map_or(ConnectionMode::Resp2, ConnectionMode::Tracking);
        let connections = (0..settings.limits.connections.max(1))
            .map(|_| UpstreamConnection::fetching(settings.clone(), mode.clone(), keeps_replies, redirector.clone()));
        RedisSource::over(connections.collect(), settings, scope)
    }
    /// The server as a client's user: for relayed commands, not for fetches.
    fn of_user(settings: Arc<ConnectionSettings>) -> RedisSource {
        RedisSource::over(Rc::new([UpstreamConnection::shared(settings.clone(), false)]), settings, None)
    }
    fn over(
        connections: Rc<[UpstreamConnection]>,
        settings: Arc<ConnectionSettings>,
        scope: Option<InvalidationScope>,
    ) -> RedisSource {
        let (affinity, routed) = ReplyAffinity::add(&settings.affinity, settings.queue_number(), connections.len());
        tokio::task::spawn_local(fetch_routed(routed, Rc::downgrade(&connections), settings.health.clone()));
        RedisSource {
            gate: None,
            affinity,
            connections,
            settings,
            scope,
            next: Cell::new(0),
            resp2: OnceCell::new(),
            resp3: OnceCell::new(),
            slow: Default::default(),
            commands: RefCell::default(),
            asking: tokio::sync::Mutex::default(),
            pool: Rc::default(),
            catch_ups: CatchUps::default(),
        }
    }
    /// Admits fetches itself.
    pub(super) fn gated(self, me: &Weak<RedisSource>) -> RedisSource {
        if let Some(scope) = &self.scope {
            let watch = self.settings.announcing.clone().watch_swaps(scope.to.clone(), me.clone());
            tokio::task::spawn_local(watch);
        }
        let me = me.clone();
        let send = move |batch: &mut Vec<Fetch>| me.upgrade().iter().for_each(|source| source.send(batch));
        RedisSource { gate: Some(FetchGate::new(self.settings.health.clone(), send)), ..self }
    }
    fn next_connection(&self) -> &UpstreamConnection {
        let turn = self.next.get() % self.connections.len();
        self.next.set(turn + 1);
        &self.connections[turn]
    }
    /// A dedicated connection, from the pool if possible.
    fn pooled(&self, resp3: bool) -> Result<UpstreamConnection, SourceError> {
        self.connections[0].check()?;
        let connect = || UpstreamConnection::dedicated(self.settings.clone(), resp3);
        self.pool.take(resp3).map_or_else(connect, Ok)
    }
    /// Takes over admitted fetches.
    pub(super) fn send(&self, batch: &mut Vec<Fetch>) {
        if batch.iter().any(|fetch| fetch.reply_name().is_some()) {
            for fetch in batch.extract_if(.., |fetch| fetch.reply_name().is_some()) {
                if let Some((index, fetch)) = self.affinity.route(fetch) {
                    self.connections[index % self.connections.len()].fetch(iter::once(fetch));
                }
            }
        }
        if !batch.is_empty() {
            self.next_connection().fetch(batch.drain(..));
        }
    }
    /// See [`RedisServer::announced`].
    pub(super) fn caught_up(&self) -> LocalFuture<'static, ()> {
        match &self.scope {
            // A node of a cluster has one database.
            Some(scope) => Box::pin(self.catch_ups.catch_up(&self.settings.announcing, self.gate.is_some(), &scope.to)),
            None => Box::pin(std::future::ready(())),
        }
    }
    /// Sends commands without a deadline over a connection of their own. They are queued when this
    /// returns.
    pub(super) fn send_unlimited(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> impl Future<Output = RelayResult> + use<> {
        let pool = self.pool.clone();
        let sent = self.pooled(resp3).map(|connection| (connection.relay_within(commands, count, FOREVER), connection));
        async move {
            let (answer, connection) = sent?;
            let answer = answer.await?;
            if !connection.is_doubtful() {
                pool.put(connection, resp3);
            }
            Ok(answer)
        }
    }
    /// See [`RedisServer::relay_isolated`].
    pub(super) fn send_isolated(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
        clean: bool,
        busy: Option<BusyFor>,
    ) -> impl Future<Output = RelayResult> + use<> {
        let (pool, limit) = (self.pool.clone(), self.settings.limits.slow_timeout);
        let connection = self.pooled(resp3);
        // The connection counts them once they are queued.
        let mut charge = self.settings.buffers.charge(BufferKind::Relayed);
        charge.resize(commands.len());
        async move {
            let connection = connection?;
            large_commands::check(&connection, &commands).await?;
            drop(charge);
            let answer = connection.relay_busy(commands, count, limit, busy).await?;
            // After an error the server may be about to close the connection.
            if clean && !connection.is_doubtful() && !answer.iter().any(|reply| reply.starts_with(b"-")) {
                pool.put(connection, resp3);
            }
            Ok(answer)
        }
    }
    pub(super) fn take_dedicated(&self, resp3: bool) -> Result<Box<dyn DedicatedConnection>, SourceError> {
        let connection = self.pooled(resp3)?;
        let SourceLimits { timeout, slow_timeout, .. } = self.settings.limits;
        Ok(Box::new(PooledConnection { connection, resp3, timeout, slow_timeout, pool: self.pool.clone() }))
    }
    /// Whether such a reply about this key can be fetched and cached in this protocol.
    pub(super) fn can_cache(&self, cacheable: CacheableReply, key: &[u8], resp3: bool) -> bool {
        let reply_protocols = &self.settings.reply_protocols;
        reply_protocols.has(resp3)
            && (!cacheable.unless_fields_expire || reply_protocols.tells_expiring_fields())
            && self.scope.as_ref().is_none_or(|scope| scope.covers(key))
    }
    /// How to cache the reply, by this server's command table if it is known.
    pub(super) fn cacheable_reply(&self, args: Args<'_>) -> Option<CacheableReply> {
        let now = self.settings.health.reconnects();
        if let Some((_, known)) = self.commands.borrow().as_ref().filter(|(then, _)| *then == now) {
            return known.keeps_reply(args);
        }
        self.known_commands()?.keeps_reply(args)
    }
    /// The command table; asks the server if it is unknown. The reply is long, so of several
    /// callers only one asks.
    pub(super) async fn ask_commands(&self) -> Result<Arc<UpstreamCommands>, SourceError> {
        let _asking = self.asking.lock().await;
        if let Some(known) = self.known_commands() {
            return Ok(known);
        }
        let now = self.settings.health.reconnects();
        let commands = match write_commands::ask(self, resp::encode(&[b"COMMAND"])).await {
            Ok(reply) => UpstreamCommands::parse(&reply).map_err(|_| unexpected())?,
            Err(SourceError::Refused(reason) | SourceError::OnlyStreamed(reason)) => {
                tracing::warn!(source = %self.settings.name(), %reason, "the source does not show its commands (+command): whatever is forwarded empties the memory tier");
                UpstreamCommands::default()
            }
            Err(error) => return Err(error),
        };
        let commands = Arc::new(commands);
        *self.settings.commands.lock() = Some((now, commands.clone()));
        Ok(commands)
    }
    /// Whether commands may go over a connection that clients share. A reply that may break the
    /// protocol needs a marker there.
    fn may_share(&self, commands: &[u8]) -> bool {
        self.settings.can_mark.load(Relaxed) || !may_break(commands)
    }
    /// The connection for relayed RESP2 commands. Always the same one, so that a client's commands
    /// stay in order.
    fn resp2(&self) -> &UpstreamConnection {
        match self.scope.is_some() {
            true => self.resp2.get_or_init(|| UpstreamConnection::shared(self.settings.clone(), false)),
            false => &self.connections[0],
        }
    }
}

/// Takes over the fetches that other cores send to connections of this core. Ends when the
/// [`ReplyAffinity`] is dropped.
async fn fetch_routed(
    mut routed: UnboundedReceiver<RoutedFetch>,
    connections: Weak<[UpstreamConnection]>,
    health: Arc<SourceHealth>,
) {
    while let Some((index, fetch)) = routed.recv().await {
        match connections.upgrade() {
            Some(connections) => connections[index].fetch(iter::once(fetch)),
            None => health.abandoned(1),
        }
    }
}

impl Source for RedisSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Redis(self)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        match &self.gate {
            Some(gate) => gate.fetch(batch),
            None => self.send(batch),
        }
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

impl Relay for RedisSource {
    fn relay_at(
        &self,
        pace: Pace,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        if !self.may_share(&commands) {
            return self.relay_isolated(commands, count, resp3, false, pace.busy);
        }
        let shared = || UpstreamConnection::shared(self.settings.clone(), resp3);
        let limits = &self.settings.limits;
        let (connection, limit) = match (pace.slow, resp3) {
            (true, _) => (self.slow[usize::from(resp3)].get_or_init(shared), limits.slow_timeout),
            (false, true) => (self.resp3.get_or_init(shared), limits.timeout),
            (false, false) => (self.resp2(), limits.timeout),
        };
        let relay = || Box::pin(connection.relay_busy(commands, count, limit, pace.busy)) as LocalFuture<'static, _>;
        self.settings.health.with_faults(count, relay)
    }
}

impl RedisServer for RedisSource {
    fn relay_isolated(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
        clean: bool,
        busy: Option<BusyFor>,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.settings.health.with_faults(count, || Box::pin(self.send_isolated(commands, count, resp3, clean, busy)))
    }
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        // A new connection may lead to another server, so the table is valid only until a reconnect.
        let now = self.settings.health.reconnects();
        let mine = self.commands.borrow().as_ref().filter(|(then, _)| *then == now).map(|(_, known)| known.clone());
        mine.or_else(|| {
            let of_all = self.settings.commands.lock().clone().filter(|(then, _)| *then == now);
            *self.commands.borrow_mut() = of_all.clone();
            of_all.map(|(_, known)| known)
        })
    }
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>> {
        Box::pin(async {
            // The server may be busy (a script runs): the last known table is used until it answers.
            self.ask_commands().await.or_else(|error| self.settings.last_commands().ok_or(error))
        })
    }
    fn keeps_reply(&self, args: Args<'_>, resp3: bool) -> Option<CacheableReply> {
        if !self.settings.reply_protocols.has(resp3) {
            return None;
        }
        let cacheable = self.cacheable_reply(args)?;
        self.can_cache(cacheable, args.get(cacheable.key)?, resp3).then_some(cacheable)
    }
    fn announced(&self, _commands: Bytes) -> LocalFuture<'static, ()> {
        self.caught_up()
    }
    fn open_dedicated<'a>(
        &'a self,
        _args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        Box::pin(async move { self.take_dedicated(resp3) })
    }
    fn database(&self) -> u32 {
        self.settings.url.database
    }
    fn identity(&self) -> Option<Arc<ServerIdentity>> {
        self.settings.identity.lock().clone()
    }
    fn note_password(&self, password: &[u8]) {
        self.settings.note_password(password);
    }
    fn credentials(&self) -> (&str, Option<Secret>) {
        self.settings.credentials()
    }
    fn as_user(&self, user: Option<&str>, password: Option<&str>) -> Option<Rc<dyn RedisServer>> {
        Some(Rc::new(RedisSource::of_user(Arc::new(self.settings.of_user(user, password)))))
    }
    fn check_login(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(async {
            let connection = UpstreamConnection::dedicated(self.settings.clone(), false)?;
            // It is answered after the handshake, and every user may send it.
            match connection.relay(resp::encode(&[b"HELLO"]).into(), 1).await {
                Err(SourceError::Unavailable(reason)) if has_code(&reason) => Err(SourceError::Refused(reason)),
                Err(error) => Err(error),
                Ok(_) => {
                    self.pool.put(connection, false);
                    Ok(())
                }
            }
        })
    }
    fn wait_identity(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            if self.identity().is_none() {
                // The reply comes after the handshake, which learns the identity; or there is no connection.
                let _ = self.connections[0].relay(resp::encode(&[b"PING"]).into(), 1).await;
            }
        })
    }
}
