//! The contract between `read` and a source: what is asked, what is answered, and what a source that is a Redis server can do besides.
use super::{
    error::SourceError,
    fetch::Fetch,
    local_store::LocalStore,
    push_queue::PushQueue,
    raw_replies::RawReplies,
    redis::{Identity, UpstreamCommands},
    table::TableSource,
};
use crate::config::Secret;
use bytes::Bytes;
use larder_engine::Millis;
use larder_proto::resp::Args;
use std::{future::Future, pin::Pin, rc::Rc, sync::Arc};

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
pub struct InvalidationScope {
    /// None: those that were fetched. Else those that begin with one of these, and no others are vouched for.
    pub prefixes: Arc<[Box<[u8]>]>,
    /// If given, no other keys are vouched for.
    pub only: Option<Rc<VouchesFor>>,
    /// Who is told.
    pub to: Rc<dyn Invalidations>,
}
impl InvalidationScope {
    /// Are changes of this key announced?
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        (self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix)))
            && self.only.as_ref().is_none_or(|only| only(key))
    }
}

/// A future that stays on its core.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A value found at the source.
#[derive(Debug, Clone)]
pub struct FetchedValue {
    /// The value.
    pub value: Bytes,
    /// When the source says that it expires; read together with the value.
    pub expiry: Option<Millis>,
}

/// The whole reply to a command, and how long its key lives; read together.
#[derive(Debug, Clone)]
pub struct FetchedReply {
    /// Byte for byte, in the protocol that was asked for; it may be an error.
    pub reply: Bytes,
    /// How long the key lives.
    pub key: KeyLife,
}
impl FetchedReply {
    /// Is it an error?
    pub fn is_error(&self) -> bool {
        matches!(self.reply.first(), Some(b'-' | b'!') | None)
    }
}

/// A command whose whole reply can be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheableReply {
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
    ) -> LocalFuture<'a, Result<bool, SourceError>>;
    /// Deletes; true if there was something.
    fn delete<'a>(&'a self, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>>;
    /// Changes the expiry (`None`: never); true if the key exists.
    fn expire<'a>(&'a self, key: &'a [u8], expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>>;
    /// Is it there? (for readiness)
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>>;
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

/// Takes whole Redis commands.
pub trait Relay {
    /// Sends already encoded commands (`count` of them, RESP arrays) in one write and returns their raw replies (RESP3 if
    /// `resp3`, else RESP2). They are queued when this returns, behind all that was relayed before in the same protocol, whatever
    /// becomes of the future.
    fn relay(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
    /// The same for commands of which one at least may keep the server busy for long, with `source-slow-timeout`. They have a shared
    /// connection apart: nothing of what was relayed before or after otherwise is in order with them.
    fn relay_slow(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
}

/// A source that is a Redis server: what is [relayed](Relay) goes over connections that all clients of the core share.
pub trait RedisServer: Relay {
    /// The server's table of commands, if it has been asked for.
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>>;
    /// The same; asks for it when it is needed first, and again after a reconnect.
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>>;
    /// If the whole reply to this command can be fetched and kept, in this protocol: what is to be known for it.
    /// Never waits; says `None` as long as the server's table of commands has not been asked for.
    fn keeps_reply(&self, _command: Args<'_>, _resp3: bool) -> Option<CacheableReply> {
        None
    }
    /// Sends commands over a connection of their own, with `source-slow-timeout`: nothing waits behind them, and nothing else is lost with
    /// that connection. `clean`: it is as new when they have been answered without an error, and may serve again.
    fn relay_isolated(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
        clean: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
    /// A connection of its own, for state that lasts (WATCH, SELECT, SUBSCRIBE, CLIENT TRACKING); `args` is the command that it
    /// is wanted for.
    fn open_dedicated<'a>(
        &'a self,
        args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>>;
    /// Does a connection's number (CLIENT ID) name one connection? Not where there are several servers.
    fn has_client_ids(&self) -> bool {
        true
    }
    /// Who keeps track of what a client that has asked for it (CLIENT TRACKING) reads.
    fn client_tracking(&self) -> ClientTracking {
        ClientTracking::Server
    }
    /// The database of the URL.
    fn database(&self) -> u32;
    /// What the server said it is when Larder last connected to it; `None` until then.
    fn identity(&self) -> Option<Arc<Identity>>;
    /// Waits until that is known, for at most `source-timeout`; does not wait for a server that is known to be down.
    fn wait_identity(&self) -> LocalFuture<'_, ()>;
    /// The user that Larder is there, and its password.
    fn credentials(&self) -> (&str, Option<Secret>);
    /// The server has a new password for its default user: a client that may administrate it has set it by way of Larder.
    fn note_password(&self, _password: &[u8]) {}
    /// A connection like a [pinned](RedisServer::open_dedicated) one, as another user (`None`: with a password alone). A server that does not let the
    /// user in is a refusal.
    fn log_in<'a>(
        &'a self,
        user: Option<&'a str>,
        password: &'a str,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>>;
    /// Is it one server, rather than several that clients see as one?
    fn is_single(&self) -> bool {
        true
    }
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

/// Does it answer the `PING` that is behind a command with [any number of replies](DedicatedConnection::ask)? A client's user may not be allowed to ask.
pub(crate) fn answers_ping(reply: &[u8]) -> bool {
    let denied = |reply: &[u8]| reply.starts_with(b"-NOPERM ") && reply.windows(6).any(|part| part == b"'ping'");
    reply == b"+PONG\r\n" || denied(reply)
}

/// A connection to a Redis server that is one client's alone, and what is [relayed](Relay) goes over it. Once lost it stays lost, for
/// the state that it was there for is gone.
pub trait DedicatedConnection: Relay {
    /// Sends one encoded command that may take any time (BLPOP), and waits as long as it takes. It is queued when this returns.
    fn relay_blocking(&self, command: Bytes) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
    /// Sends one command, of which it is not known how many replies it has: until the answer to a `PING` behind it
    /// (`marked`), or one.
    fn ask(&self, command: Vec<u8>, marked: bool) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
    /// What the server says unasked.
    fn pushes(&self) -> &PushQueue;
    /// A HELLO that was relayed has changed its protocol.
    fn note_protocol(&mut self, resp3: bool);
    /// Gives it back. The caller knows that it is as new; one that is dropped instead is closed.
    fn release(self: Box<Self>);
}
