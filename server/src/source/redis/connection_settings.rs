//! What all connections to one server have in common.
use super::{Identity, UpstreamCommands, password::Password, reply_affinity, sentinel::Sentinels, tls};
use crate::{
    buffers::Buffers,
    config::{Deployment, RedisAddress, RedisUrl, Secret},
    source::{Limits, SourceHealth},
};
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicU8, AtomicU32, Ordering::Relaxed},
};
use tokio::sync::watch;

/// What the connections of all cores have in common.
pub(in crate::source) struct Settings {
    pub(super) url: RedisUrl,
    /// Of all servers of the URL.
    pub(super) password: Arc<Password>,
    /// They say where the server is, instead of the URL.
    pub(super) sentinels: Option<Arc<Sentinels>>,
    /// Reads from replicas of a cluster.
    pub(super) read_only: bool,
    pub(super) tls: Option<tls::Tls>,
    pub(super) limits: Limits,
    /// Counts commands and replies on their way.
    pub(super) buffers: Arc<Buffers>,
    pub(super) health: Arc<SourceHealth>,
    queues: Arc<AtomicU32>,
    /// Counts connections made: where one gets through, the others need not wait longer.
    pub(super) connected: watch::Sender<u64>,
    /// The server's table of commands, and how many reconnects there had been when it was asked for.
    pub(super) commands: Arc<Mutex<Option<Learnt>>>,
    /// In which protocols replies can be fetched to be kept, as the latest handshake showed.
    pub(super) forms: Forms,
    pub(super) homes: reply_affinity::Homes,
    /// What the server said it is when a connection that fetches was last made.
    pub(super) identity: Arc<Mutex<Option<Arc<Identity>>>>,
}
pub(super) type Learnt = (u64, Arc<UpstreamCommands>);
impl Settings {
    /// Checks the URL's files.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub(in crate::source) fn new(
        url: &RedisUrl,
        limits: Limits,
        health: Arc<SourceHealth>,
        buffers: Arc<Buffers>,
    ) -> Result<Settings, String> {
        let tls = match (&url.tls, &url.address) {
            (Some(tls), RedisAddress::Tcp { host, .. }) => Some(tls::build(tls, host)?),
            (None, _) | (Some(_), RedisAddress::Unix(_)) => None,
        };
        Ok(Settings {
            url: url.clone(),
            password: Arc::new(Password::new(url)?),
            sentinels: Sentinels::new(url, limits, &buffers)?,
            read_only: false,
            tls,
            limits,
            buffers,
            health,
            queues: Arc::default(),
            connected: watch::Sender::default(),
            commands: Arc::default(),
            forms: Forms::default(),
            homes: reply_affinity::Homes::default(),
            identity: Arc::default(),
        })
    }
    /// For another server of the same cluster.
    ///
    /// # Errors
    /// The host cannot be the name of a TLS server.
    pub(super) fn at(&self, address: &RedisAddress) -> Result<Settings, String> {
        let tls = match (&self.tls, address) {
            (Some(tls), RedisAddress::Tcp { host, .. }) => Some(tls.towards(host)?),
            _ => None,
        };
        let url = RedisUrl { address: address.clone(), deployment: Deployment::Single, ..self.url.clone() };
        Ok(self.but_for(url, None, tls))
    }
    fn but_for(&self, url: RedisUrl, sentinels: Option<Arc<Sentinels>>, tls: Option<tls::Tls>) -> Settings {
        Settings {
            url,
            password: self.password.clone(),
            sentinels,
            read_only: self.read_only,
            tls,
            limits: self.limits,
            buffers: self.buffers.clone(),
            health: self.health.clone(),
            queues: self.queues.clone(),
            connected: watch::Sender::default(),
            commands: self.commands.clone(),
            forms: Forms::default(),
            homes: reply_affinity::Homes::default(),
            identity: self.identity.clone(),
        }
    }
    /// For connections of another user.
    pub(super) fn of_user(&self, user: Option<&str>, password: &str) -> Settings {
        let url = RedisUrl { user: user.map(Into::into), password: Some(password.into()), ..self.url.clone() };
        // A wrong password says nothing of the source's health.
        Settings {
            password: Arc::new(Password::fixed(password.into())),
            health: Arc::default(),
            ..self.but_for(url, self.sentinels.clone(), self.tls.clone())
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
    pub(super) fn queue(&self) -> u32 {
        self.queues.fetch_add(1, Relaxed).wrapping_add(1).max(1)
    }
    /// The table of commands that was last shown, be it by a server of before.
    pub(super) fn last_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.commands.lock().as_ref().map(|(_, known)| known.clone())
    }
    /// The server's address, for logs: no user, no password.
    pub(super) fn name(&self) -> String {
        match self.sentinels.as_ref().and_then(|sentinels| sentinels.master().borrow().clone()) {
            Some(master) => master.to_string(),
            None => self.url.address.to_string(),
        }
    }
}

/// A bit for each version of the protocol.
#[derive(Debug, Default)]
pub(super) struct Forms(AtomicU8);
impl Forms {
    fn bit(resp3: bool) -> u8 {
        1 << u8::from(resp3)
    }
    /// The server says whether any fields of hashes expire.
    const FIELDS: u8 = 4;
    pub(super) fn set(&self, resp2: bool, resp3: bool, fields: bool) {
        let bit = |holds, bit| if holds { bit } else { 0 };
        let bits = bit(resp2, Forms::bit(false)) | bit(resp3, Forms::bit(true)) | bit(fields, Forms::FIELDS);
        self.0.store(bits, Relaxed);
    }
    pub(super) fn tells_expiring_fields(&self) -> bool {
        self.0.load(Relaxed) & Forms::FIELDS != 0
    }
    pub(super) fn has(&self, resp3: bool) -> bool {
        self.0.load(Relaxed) & Forms::bit(resp3) != 0
    }
}
