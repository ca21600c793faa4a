//! The settings and shared state of all connections to one server.
use super::{
    announcing_connections::AnnouncingConnections, reply_affinity::AffinityTable, sentinel_master::SentinelMaster,
    upstream_password::Password,
};
use crate::{
    busy_server::BusyServer, server_identity::ServerIdentity, source_health::SourceHealth, source_limits::SourceLimits,
    upstream_commands::UpstreamCommands,
};
use larder_base::{buffers::Buffers, tls::ClientTls};
use larder_config::{Deployment, RedisAddress, RedisUrl, Secret};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// The settings and shared state of the connections of all cores to one server.
pub(super) struct ConnectionSettings {
    pub(super) url: RedisUrl,
    /// For all servers of the URL.
    pub(super) password: Arc<Password>,
    /// Names the server instead of the URL.
    pub(super) master: Option<Arc<SentinelMaster>>,
    /// Reads from replicas of a cluster.
    pub(super) read_only: bool,
    /// They authenticate as a client's user, who may have fewer permissions than Larder.
    pub(super) is_of_user: bool,
    pub(super) tls: Option<ClientTls>,
    pub(super) limits: SourceLimits,
    /// Counts commands and replies in transit.
    pub(super) buffers: Arc<Buffers>,
    pub(super) health: Arc<SourceHealth>,
    queues: Arc<AtomicU32>,
    /// Counts connections made: when one succeeds, the others retry at once.
    pub(super) connected: watch::Sender<u64>,
    /// The server's command table, with the number of reconnects when it was read.
    pub(super) commands: Arc<Mutex<Option<KnownCommands>>>,
    /// The protocols in which replies can be fetched and cached, from the latest handshake.
    pub(super) reply_protocols: ReplyProtocols,
    /// Whether the user may call `ECHO`, from the latest handshake: Larder marks with it the end of
    /// replies that may break the protocol.
    pub(super) can_mark: AtomicBool,
    pub(super) affinity: Arc<AffinityTable>,
    /// The commands in flight that may keep the server busy; in a cluster those of all its nodes.
    pub(super) busy: Arc<BusyServer>,
    /// The connections that announce changes.
    pub(super) announcing: Arc<AnnouncingConnections>,
    /// The server's identity from the latest handshake.
    pub(super) identity: Arc<Mutex<Option<Arc<ServerIdentity>>>>,
}
pub(super) type KnownCommands = (u64, Arc<UpstreamCommands>);
impl ConnectionSettings {
    /// Checks the URL's files.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub(super) fn new(
        url: &RedisUrl,
        limits: SourceLimits,
        health: Arc<SourceHealth>,
        buffers: Arc<Buffers>,
    ) -> Result<ConnectionSettings, String> {
        let tls = match (&url.tls, &url.address) {
            (Some(tls), RedisAddress::Tcp { host, .. }) => Some(ClientTls::new(tls, host, &[])?),
            (None, _) | (Some(_), RedisAddress::Unix(_)) => None,
        };
        let master = match &url.deployment {
            Deployment::Sentinel(sentinels) => Some(Arc::new(SentinelMaster::new(sentinels.service.clone()))),
            Deployment::Single | Deployment::Cluster { .. } => None,
        };
        Ok(ConnectionSettings {
            url: url.clone(),
            password: Arc::new(Password::new(url)?),
            master,
            read_only: false,
            is_of_user: false,
            tls,
            limits,
            buffers,
            health,
            queues: Arc::default(),
            connected: watch::Sender::default(),
            commands: Arc::default(),
            reply_protocols: ReplyProtocols::default(),
            can_mark: AtomicBool::new(true),
            affinity: Arc::default(),
            busy: Arc::new(BusyServer::new(&limits)),
            announcing: Arc::default(),
            identity: Arc::default(),
        })
    }
    /// The settings for another server of the same cluster.
    ///
    /// # Errors
    /// The host cannot be the name of a TLS server.
    pub(super) fn at(&self, address: &RedisAddress) -> Result<ConnectionSettings, String> {
        let tls = match (&self.tls, address) {
            (Some(tls), RedisAddress::Tcp { host, .. }) => Some(tls.towards(host)?),
            _ => None,
        };
        let url = RedisUrl { address: address.clone(), deployment: Deployment::Single, ..self.url.clone() };
        Ok(self.with_server(url, None, tls))
    }
    fn with_server(
        &self,
        url: RedisUrl,
        master: Option<Arc<SentinelMaster>>,
        tls: Option<ClientTls>,
    ) -> ConnectionSettings {
        ConnectionSettings {
            url,
            password: self.password.clone(),
            master,
            read_only: self.read_only,
            is_of_user: self.is_of_user,
            tls,
            limits: self.limits,
            buffers: self.buffers.clone(),
            health: self.health.clone(),
            queues: self.queues.clone(),
            connected: watch::Sender::default(),
            commands: self.commands.clone(),
            reply_protocols: ReplyProtocols::default(),
            can_mark: AtomicBool::new(true),
            affinity: Arc::default(),
            busy: self.busy.clone(),
            announcing: Arc::default(),
            identity: self.identity.clone(),
        }
    }
    /// The settings for connections of another user. Without a name the password alone
    /// authenticates; without either nothing does.
    pub(super) fn of_user(&self, user: Option<&str>, password: Option<&str>) -> ConnectionSettings {
        let password = password.map(Secret::from);
        let url = RedisUrl { user: user.map(Into::into), password: password.clone(), ..self.url.clone() };
        // A wrong password must not affect the source's health.
        ConnectionSettings {
            password: Arc::new(Password::fixed(password)),
            health: Arc::default(),
            is_of_user: true,
            ..self.with_server(url, self.master.clone(), self.tls.clone())
        }
    }
    /// Larder's own user, and its password.
    pub(super) fn credentials(&self) -> (&str, Option<Secret>) {
        (self.url.user.as_deref().unwrap_or("default"), self.password.current())
    }
    /// The server's default user has a new password.
    pub(super) fn note_password(&self, password: &[u8]) {
        if self.url.user.as_deref().is_none_or(|user| user == "default") {
            self.password.set(password);
        }
    }
    /// A queue number that is unique in this source and not 0 (2^32 numbers are enough).
    pub(super) fn queue_number(&self) -> u32 {
        self.queues.fetch_add(1, Relaxed).wrapping_add(1).max(1)
    }
    /// The last known command table, possibly of a previous server.
    pub(super) fn last_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.commands.lock().as_ref().map(|(_, known)| known.clone())
    }
    /// Until when a deadline that is past at `now` is put off because the server is busy, for at
    /// most `patience`. `None`: it counts. In short steps, because the server may hang afterwards.
    pub(super) fn put_off(&self, deadline: Instant, patience: Duration, now: Instant) -> Option<Instant> {
        let until = Instant::from_std(self.busy.until(now.into_std())?);
        Some(until.min(now + self.limits.timeout).min(deadline + patience)).filter(|until| *until > now)
    }
    /// The server's address, for logs: no user, no password.
    pub(super) fn name(&self) -> String {
        match self.master.as_ref().and_then(|master| master.address()) {
            Some(master) => master.to_string(),
            None => self.url.address.to_string(),
        }
    }
}

/// A bit for each protocol version, and one for expiring fields.
#[derive(Debug, Default)]
pub(super) struct ReplyProtocols(AtomicU8);
impl ReplyProtocols {
    fn bit(resp3: bool) -> u8 {
        1 << u8::from(resp3)
    }
    /// The server tells whether any hash fields expire.
    const FIELDS: u8 = 4;
    pub(super) fn set(&self, resp2: bool, resp3: bool, fields: bool) {
        let bit = |holds, bit| if holds { bit } else { 0 };
        let bits = bit(resp2, ReplyProtocols::bit(false))
            | bit(resp3, ReplyProtocols::bit(true))
            | bit(fields, ReplyProtocols::FIELDS);
        self.0.store(bits, Relaxed);
    }
    pub(super) fn tells_expiring_fields(&self) -> bool {
        self.0.load(Relaxed) & ReplyProtocols::FIELDS != 0
    }
    pub(super) fn has(&self, resp3: bool) -> bool {
        self.0.load(Relaxed) & ReplyProtocols::bit(resp3) != 0
    }
}
