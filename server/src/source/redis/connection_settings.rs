//! What all connections to one server have in common.
use super::{reply_affinity::AffinityTable, sentinel_master::SentinelMaster, tls, upstream_password::Password};
use crate::{
    buffers::Buffers,
    config::{Deployment, RedisAddress, RedisUrl, Secret},
    source::{
        server_identity::ServerIdentity, source_health::SourceHealth, source_limits::SourceLimits,
        upstream_commands::UpstreamCommands,
    },
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering::Relaxed},
};
use tokio::sync::watch;

/// What the connections of all cores have in common.
pub(super) struct ConnectionSettings {
    pub(super) url: RedisUrl,
    /// Of all servers of the URL.
    pub(super) password: Arc<Password>,
    /// Names the server instead of the URL.
    pub(super) master: Option<Arc<SentinelMaster>>,
    /// Reads from replicas of a cluster.
    pub(super) read_only: bool,
    pub(super) tls: Option<tls::Tls>,
    pub(super) limits: SourceLimits,
    /// Counts commands and replies on their way.
    pub(super) buffers: Arc<Buffers>,
    pub(super) health: Arc<SourceHealth>,
    queues: Arc<AtomicU32>,
    /// Counts connections made: where one gets through, the others need not wait longer.
    pub(super) connected: watch::Sender<u64>,
    /// The server's table of commands, and how many reconnects there had been when it was asked for.
    pub(super) commands: Arc<Mutex<Option<KnownCommands>>>,
    /// In which protocols replies can be fetched to be kept, as the latest handshake showed.
    pub(super) reply_protocols: ReplyProtocols,
    pub(super) affinity: Arc<AffinityTable>,
    /// What the server said it is when a connection that fetches was last made.
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
            (Some(tls), RedisAddress::Tcp { host, .. }) => Some(tls::build(tls, host)?),
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
            tls,
            limits,
            buffers,
            health,
            queues: Arc::default(),
            connected: watch::Sender::default(),
            commands: Arc::default(),
            reply_protocols: ReplyProtocols::default(),
            affinity: Arc::default(),
            identity: Arc::default(),
        })
    }
    /// For another server of the same cluster.
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
        tls: Option<tls::Tls>,
    ) -> ConnectionSettings {
        ConnectionSettings {
            url,
            password: self.password.clone(),
            master,
            read_only: self.read_only,
            tls,
            limits: self.limits,
            buffers: self.buffers.clone(),
            health: self.health.clone(),
            queues: self.queues.clone(),
            connected: watch::Sender::default(),
            commands: self.commands.clone(),
            reply_protocols: ReplyProtocols::default(),
            affinity: Arc::default(),
            identity: self.identity.clone(),
        }
    }
    /// For connections of another user.
    pub(super) fn of_user(&self, user: Option<&str>, password: &str) -> ConnectionSettings {
        let url = RedisUrl { user: user.map(Into::into), password: Some(password.into()), ..self.url.clone() };
        // A wrong password says nothing of the source's health.
        ConnectionSettings {
            password: Arc::new(Password::fixed(password.into())),
            health: Arc::default(),
            ..self.with_server(url, self.master.clone(), self.tls.clone())
        }
    }
    /// The user that Larder is, and its password.
    pub(super) fn credentials(&self) -> (&str, Option<Secret>) {
        (self.url.user.as_deref().unwrap_or("default"), self.password.current())
    }
    /// The default user's password has changed at the server.
    pub(super) fn note_password(&self, password: &[u8]) {
        if self.url.user.as_deref().is_none_or(|user| user == "default") {
            self.password.set(password);
        }
    }
    /// A number that no other queue of this source has: not 0, and four thousand million are not used up.
    pub(super) fn queue_number(&self) -> u32 {
        self.queues.fetch_add(1, Relaxed).wrapping_add(1).max(1)
    }
    /// The table of commands that was last shown, be it by a server of before.
    pub(super) fn last_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.commands.lock().as_ref().map(|(_, known)| known.clone())
    }
    /// The server's address, for logs: no user, no password.
    pub(super) fn name(&self) -> String {
        match self.master.as_ref().and_then(|master| master.address()) {
            Some(master) => master.to_string(),
            None => self.url.address.to_string(),
        }
    }
}

/// A bit for each version of the protocol.
#[derive(Debug, Default)]
pub(super) struct ReplyProtocols(AtomicU8);
impl ReplyProtocols {
    fn bit(resp3: bool) -> u8 {
        1 << u8::from(resp3)
    }
    /// The server says whether any fields of hashes expire.
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
