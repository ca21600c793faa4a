//! What answers a miss and takes writes. One trait, one conformance suite, one file per implementation.
//!
//! Invariants, whatever the implementation:
//! - every [`Fetch`] that is handed over is finished within `source-timeout` (or dropped, which releases its waiters too);
//! - a write that returns [`SourceError::Unavailable`] or [`SourceError::Refused`] changed nothing at the source;
//!   one that may have been applied returns [`SourceError::Lost`];
//! - sources do not touch the memory tier: `read` does, through [`Fetch::finish`], the write-through and [`Invalidations`];
//! - a fetch is vouched for ([`Fetch::vouch`]) only if the source will say when its key changes, or that it cannot tell any more.
mod disk;
pub mod health;
mod local;
#[cfg(test)]
pub(crate) mod memory;
pub mod none;
mod redis;
mod table;
mod unasked;

pub use health::SourceHealth;
pub use local::{LocalStore, Page, Scan};
pub use redis::{Commands, Known, Upstream};
pub use table::{Looked, OneTable, Reloaded, TableSource};
pub use unasked::Unasked;

use crate::{
    buffers::Buffers,
    config::{Deployment, SourceUrl, StoreSettings},
    proto::resp::Args,
    read::Fetch,
    store::disk::Store,
    telemetry::TableSnapshot,
};
use bytes::Bytes;
use larder_engine::Millis;
use std::{fmt, future::Future, ops::Range, pin::Pin, rc::Rc, sync::Arc, time::Duration};

/// What bounds a source.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Deadline of a fetch or write (`source-timeout`).
    pub timeout: Duration,
    /// Deadline of what may keep the source busy (`source-slow-timeout`); not less than `timeout`.
    pub slow_timeout: Duration,
    /// Fetches in flight, all cores together (`source-max-in-flight`).
    pub max_in_flight: usize,
    /// Connections per core (`source-connections`).
    pub connections: usize,
    /// Largest value that is accepted, bytes (`max-value`).
    pub max_value: usize,
    /// What a client may leave unread of what it is told unasked, bytes (`max-backlog`).
    pub max_backlog: usize,
    /// How a disk store is kept.
    pub store: StoreSettings,
}
impl Limits {
    /// How long a client waits: see [`LocalStore::patience`].
    fn patience(&self, slow: bool) -> Duration {
        if slow { self.slow_timeout } else { self.timeout }
    }
}

/// What all cores share of one group's source: its health and what was read from files. Built at start, before the cores.
pub struct SourceSetup {
    health: Arc<SourceHealth>,
    kind: Kind,
}
enum Kind {
    None,
    Disk(disk::DiskSetup),
    Redis(Arc<redis::Settings>),
    Cluster(Arc<redis::ClusterSetup>),
    Table(table::TableSetup),
}
impl SourceSetup {
    /// Checks what the URL names and opens a table or disk store; connects to nothing yet. `buffers` counts what is on its way.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub fn new(url: &SourceUrl, limits: Limits, buffers: &Arc<Buffers>) -> Result<SourceSetup, String> {
        let health = Arc::new(match url {
            SourceUrl::None | SourceUrl::Table(_) => SourceHealth::always_up(),
            SourceUrl::Disk(_) | SourceUrl::Redis(_) => SourceHealth::default(),
        });
        let kind = match url {
            SourceUrl::None => Kind::None,
            SourceUrl::Table(path) => Kind::Table(table::TableSetup::open(path, limits, health.clone())?),
            SourceUrl::Disk(dir) => Kind::Disk(disk::DiskSetup::open(dir, limits, health.clone(), buffers.clone())?),
            SourceUrl::Redis(url) => match url.deployment {
                Deployment::Cluster { .. } => {
                    Kind::Cluster(Arc::new(redis::ClusterSetup::new(url, limits, health.clone(), buffers.clone())?))
                }
                Deployment::Single | Deployment::Sentinel(_) => {
                    Kind::Redis(Arc::new(redis::Settings::new(url, limits, health.clone(), buffers.clone())?))
                }
            },
        };
        Ok(SourceSetup { health, kind })
    }
    /// How the source is doing.
    pub fn health(&self) -> &Arc<SourceHealth> {
        &self.health
    }
    /// Has a table looked at anew, as if its file had just been moved into place; `None`: the source is none.
    ///
    /// # Errors
    /// Why the file is refused; the table is as it was then.
    pub async fn reload(&self) -> Option<Result<Reloaded, Arc<str>>> {
        match &self.kind {
            Kind::Table(setup) => Some(setup.reload().await),
            _ => None,
        }
    }
    /// What is counted of a table; zeros where the source is none.
    pub fn table_counts(&self) -> TableSnapshot {
        match &self.kind {
            Kind::Table(setup) => setup.counts(),
            _ => TableSnapshot::default(),
        }
    }
    /// The disk store, if it is one.
    pub fn store(&self) -> Option<&Store> {
        match &self.kind {
            Kind::Disk(setup) => Some(setup.store()),
            _ => None,
        }
    }
    /// One core's source. Call it on the core's own (local) runtime: connecting begins at once, in the background. With
    /// `watch` it announces changes of what it fetched, where it can; `keeps_replies`: whole replies
    /// will be fetched, too.
    pub fn open(&self, watch: Option<Watch>, keeps_replies: bool) -> Rc<dyn Source> {
        match &self.kind {
            Kind::None => Rc::new(none::NoneSource),
            Kind::Table(setup) => Rc::new(table::TableSource::new(setup, watch)),
            Kind::Disk(setup) => Rc::new(disk::DiskSource::new(setup.clone())),
            Kind::Redis(settings) => Rc::new(redis::RedisSource::new(settings.clone(), watch, keeps_replies)),
            Kind::Cluster(setup) => Rc::new(redis::ClusterSource::new(setup.clone(), watch, keeps_replies)),
        }
    }
}

/// Who is told what changed at a source. Called on the core that hears of it; returns when nothing older is served any more.
pub trait Invalidations {
    /// The key has changed, or may have.
    fn key(&self, key: &[u8]);
    /// Any key may have.
    fn all(&self);
    /// Changes are not announced any more.
    fn lost(&self);
    /// Could anybody have a copy of anything? If not, changes need not be found out.
    fn are_wanted(&self) -> bool {
        true
    }
}

/// Whether a key is vouched for.
pub type VouchesFor = dyn Fn(&[u8]) -> bool;

/// Changes of which keys a source is to announce, and to whom.
#[derive(Clone)]
pub struct Watch {
    /// None: those that were fetched. Else those that begin with one of these, and no others are vouched for.
    pub prefixes: Arc<[Box<[u8]>]>,
    /// If given, no other keys are vouched for.
    pub only: Option<Rc<VouchesFor>>,
    /// Who is told.
    pub to: Rc<dyn Invalidations>,
}
impl Watch {
    /// Are changes of this key announced?
    fn covers(&self, key: &[u8]) -> bool {
        (self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix)))
            && self.only.as_ref().is_none_or(|only| only(key))
    }
}

/// A future that stays on its core.
pub type Local<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A value found at the source.
#[derive(Debug, Clone)]
pub struct Found {
    /// The value.
    pub value: Bytes,
    /// When the source says that it expires; read together with the value.
    pub expiry: Option<Millis>,
}

/// The whole reply to a command, and how long its key lives; read together.
#[derive(Debug, Clone)]
pub struct FoundReply {
    /// Byte for byte, in the protocol that was asked for; it may be an error.
    pub reply: Bytes,
    /// How long the key lives.
    pub key: KeyLife,
}
impl FoundReply {
    /// Is it an error?
    pub fn is_error(&self) -> bool {
        matches!(self.reply.first(), Some(b'-' | b'!') | None)
    }
}

/// A command whose whole reply can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepable {
    /// Which of its parts is the one key that it reads.
    pub key: usize,
    /// Only as long as no fields of hashes expire by themselves, for then the reply may change unannounced.
    pub unless_fields_expire: bool,
}

/// How long a key lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLife {
    /// It does not exist.
    Absent,
    /// Until then.
    Until(Millis),
    /// It does not expire.
    Unbounded,
}

/// Why a source gave no answer. [`Display`](fmt::Display) is the whole text for a client, to follow `-` or `-ERR ` (see each variant).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceError {
    /// Not reachable, connection lost, deadline passed, too many fetches in flight: nothing was changed and the client may retry.
    /// The text reads `source unavailable: ` and the reason; Redis clients get it after `-ERR `.
    Unavailable(Arc<str>),
    /// A write was sent and no reply came: it may have been applied. Reads as `Unavailable`.
    Lost(Arc<str>),
    /// The source answered with an error of its own (`WRONGTYPE …`, code included): relayed as it is.
    Refused(Arc<str>),
    /// The source takes no writes, ever. The text follows `-ERR `.
    ReadOnly,
}
impl SourceError {
    /// The source is at fault for want of an answer (HTTP 503), rather than having said no.
    pub fn is_unavailable(&self) -> bool {
        !matches!(self, SourceError::Refused(_) | SourceError::ReadOnly)
    }
    /// The error as a reply of the Redis protocol.
    pub(crate) fn to_reply(&self) -> Bytes {
        let code = if matches!(self, SourceError::Refused(_)) { "" } else { "ERR " };
        format!("-{code}{self}\r\n").into()
    }
}
impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Unavailable(reason) | SourceError::Lost(reason) => {
                write!(f, "{UNAVAILABLE}{reason}")
            }
            SourceError::Refused(text) => f.write_str(text),
            SourceError::ReadOnly => f.write_str(READ_ONLY),
        }
    }
}
impl std::error::Error for SourceError {}

/// The text of [`SourceError::ReadOnly`].
const READ_ONLY: &str = "the source is a table, which is read-only";
/// How the text of an unavailable source begins.
pub(crate) const UNAVAILABLE: &str = "source unavailable: ";

/// One core's connection to a source. Not `Send`: each worker builds its own.
///
/// Contract: `fetch` never blocks and finishes every fetch within the deadline (`source-timeout`) whatever happens, in batches where
/// the source can; writes return only when the source has taken or refused them.
pub trait Source {
    /// Takes a batch of fetches over; each is finished with what the source said.
    fn fetch(&self, batch: &mut Vec<Fetch>);
    /// Stores a value; true if it replaced one.
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        expiry: Option<Millis>,
    ) -> Local<'a, Result<bool, SourceError>>;
    /// Deletes; true if there was something.
    fn delete<'a>(&'a self, key: &'a [u8]) -> Local<'a, Result<bool, SourceError>>;
    /// Changes the expiry (`None`: never); true if the key exists.
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> Local<'a, Result<bool, SourceError>>;
    /// Is it there? (for readiness)
    fn ping(&self) -> Local<'_, Result<(), SourceError>>;
    /// The source as a Redis server, for commands that go through verbatim.
    fn as_redis(&self) -> Option<&dyn RedisServer> {
        None
    }
    /// The source as a store of this machine, for walks and changes of several keys.
    fn as_local(&self) -> Option<&dyn LocalStore> {
        None
    }
    /// Where reads look first.
    fn reads(&self) -> Reads<'_> {
        Reads::Through
    }
    /// `false` for `none:`: a miss is an absence, no flight is begun.
    fn reads_through(&self) -> bool {
        !matches!(self.reads(), Reads::Tier)
    }
}

/// Where reads look.
#[derive(Clone, Copy)]
pub enum Reads<'s> {
    /// In the memory tier, which is all there is.
    Tier,
    /// In the memory tier, then they are fetched.
    Through,
    /// In the table's memory map; what it cannot say without waiting is fetched.
    Table(&'s TableSource),
}

/// Raw replies, in the order of their commands.
#[derive(Debug, Default)]
pub struct Replies {
    bytes: Bytes,
    /// Where each ends.
    ends: Vec<usize>,
}
impl Replies {
    /// All of them, as they came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
    /// Each by itself.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| &self[at])
    }
    /// The last; empty if there is none.
    pub fn last(&self) -> Bytes {
        self.bytes.slice(self.begin(self.ends.len().saturating_sub(1))..)
    }
    /// Some of them.
    pub(crate) fn part(&self, which: Range<usize>) -> Replies {
        let (begin, end) = (self.begin(which.start), self.begin(which.end));
        Replies { bytes: self.bytes.slice(begin..end), ends: self.ends[which].iter().map(|end| end - begin).collect() }
    }
    fn begin(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}
impl FromIterator<Bytes> for Replies {
    fn from_iter<I: IntoIterator<Item = Bytes>>(replies: I) -> Replies {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for reply in replies {
            bytes.extend_from_slice(&reply);
            ends.push(bytes.len());
        }
        Replies { bytes: bytes.into(), ends }
    }
}
impl std::ops::Index<usize> for Replies {
    type Output = [u8];
    fn index(&self, at: usize) -> &[u8] {
        &self.bytes[self.begin(at)..self.ends[at]]
    }
}

/// Takes whole Redis commands.
pub trait Relay {
    /// Sends already encoded commands (`count` of them, RESP arrays) in one write and returns their raw replies (RESP3 if
    /// `resp3`, else RESP2). They are queued when this returns, behind all that was relayed before in the same protocol, whatever
    /// becomes of the future.
    fn relay(&self, commands: Bytes, count: usize, resp3: bool) -> Local<'static, Result<Replies, SourceError>>;
    /// The same for commands of which one at least may keep the server busy for long, with `source-slow-timeout`. They have a shared
    /// connection apart: nothing of what was relayed before or after otherwise is in order with them.
    fn relay_slowly(&self, commands: Bytes, count: usize, resp3: bool) -> Local<'static, Result<Replies, SourceError>>;
}

/// A source that is a Redis server: what is [relayed](Relay) goes over connections that all clients of the core share.
pub trait RedisServer: Relay {
    /// The server's table of commands, if it has been asked for.
    fn known_commands(&self) -> Option<Arc<Commands>>;
    /// The same; asks for it when it is needed first, and again after a reconnect.
    fn commands(&self) -> Local<'_, Result<Arc<Commands>, SourceError>>;
    /// If the whole reply to this command can be fetched and kept, in this protocol: what is to be known for it.
    /// Never waits; says `None` as long as the server's table of commands has not been asked for.
    fn keeps_reply(&self, _command: Args<'_>, _resp3: bool) -> Option<Keepable> {
        None
    }
    /// A connection of its own, for state that lasts (WATCH, SELECT, SUBSCRIBE, CLIENT TRACKING); `args` is the command that it
    /// is wanted for.
    fn pin<'a>(&'a self, args: Args<'a>, resp3: bool) -> Local<'a, Result<Box<dyn Pinned>, SourceError>>;
    /// Does a connection's number (CLIENT ID) name one connection? Not where there are several servers.
    fn has_numbers(&self) -> bool {
        true
    }
    /// Who keeps track of what a client that has asked for it (CLIENT TRACKING) reads.
    fn client_tracking(&self) -> ClientTracking {
        ClientTracking::Server
    }
    /// The database of the URL.
    fn database(&self) -> u32;
}

/// Who keeps track of what clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTracking {
    /// The server, on a connection of the client's own.
    Server,
    /// Larder: every change is announced to it, and it tells its clients.
    Larder,
    /// Nobody can.
    Nobody,
}

/// A connection to a Redis server that is one client's alone, and what is [relayed](Relay) goes over it. Once lost it stays lost, for
/// the state that it was there for is gone.
pub trait Pinned: Relay {
    /// Sends one encoded command that may take any time (BLPOP), and waits as long as it takes. It is queued when this returns.
    fn relay_patiently(&self, command: Bytes) -> Local<'static, Result<Replies, SourceError>>;
    /// Sends one command, of which it is not known how many replies it has: until the answer to a `PING` behind it
    /// (`marked`), or one.
    fn ask(&self, command: Vec<u8>, marked: bool) -> Local<'static, Result<Replies, SourceError>>;
    /// What the server says unasked.
    fn unasked(&self) -> &Unasked;
    /// A HELLO that was relayed has changed its protocol.
    fn note_protocol(&mut self, resp3: bool);
    /// Gives it back. The caller knows that it is as new; one that is dropped instead is closed.
    fn release(self: Box<Self>);
}
