//! What a source can do besides if it is a Redis server: relay whole commands, over shared or
//! dedicated connections.
use super::{
    fetch_result::CacheableReply,
    local_future::LocalFuture,
    push_queue::PushQueue,
    raw_replies::RawReplies,
    server_identity::ServerIdentity,
    source_error::SourceError,
    upstream_commands::{BusyFor, UpstreamCommands},
};
use bytes::Bytes;
use larder_config::Secret;
use larder_proto::resp::Args;
use std::{rc::Rc, sync::Arc};

/// Relays whole Redis commands.
pub trait Relay {
    /// Sends `count` encoded commands (RESP arrays) in one write and returns their raw replies, as
    /// RESP3 if `resp3`, else as RESP2.
    ///
    /// The commands are queued when this returns, behind all commands relayed before in the same
    /// protocol. Dropping the future does not withdraw them.
    fn relay(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.relay_at(Pace::default(), commands, count, resp3)
    }
    /// Like [`relay`](Relay::relay), for commands that may take long.
    fn relay_at(
        &self,
        pace: Pace,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
}

/// How long commands may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pace {
    /// Their deadline is `source-slow-timeout`. They use another shared connection, so their order
    /// relative to commands that are not slow is undefined.
    pub slow: bool,
    /// They may keep the server busy for this long. Deadlines of other requests that were sent are
    /// put off meanwhile, from when these are written until they are answered.
    pub busy: Option<BusyFor>,
}

/// A source that is a Redis server. [Relayed](Relay) commands use connections that all clients of
/// the core share.
pub trait RedisServer: Relay {
    /// The server's command table, if it is known.
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>>;
    /// The server's command table. Asks the server for it at the first call, and again after a
    /// reconnect.
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>>;
    /// How to cache the whole reply to this command in this protocol, or `None` if that is
    /// impossible. Never waits: returns `None` while the command table is unknown.
    fn keeps_reply(&self, _command: Args<'_>, _resp3: bool) -> Option<CacheableReply> {
        None
    }
    /// Sends commands over a connection of their own, with `source-slow-timeout`. No other command
    /// waits behind them, and no other command fails if the connection is lost. `clean`: they
    /// leave no state on the connection unless one fails, so it can be reused. `busy`: see
    /// [`Pace`].
    fn relay_isolated(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
        clean: bool,
        busy: Option<BusyFor>,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
    /// Ready when all changes are applied that the server announced before it answered these
    /// encoded commands, and when the databases count as swapped if a script swapped them.
    fn announced(&self, _commands: Bytes) -> LocalFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
    /// Opens a dedicated connection, for lasting state (WATCH, SELECT, SUBSCRIBE, CLIENT TRACKING).
    /// `args` is the command that needs it.
    fn open_dedicated<'a>(
        &'a self,
        args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>>;
    /// Whether a connection's number (CLIENT ID) is unique. It is not where several servers are
    /// behind the source.
    fn has_client_ids(&self) -> bool {
        true
    }
    /// Who tracks the reads of clients that asked for CLIENT TRACKING.
    fn client_tracking(&self) -> ClientTracking {
        ClientTracking::Server
    }
    /// The database of the URL.
    fn database(&self) -> u32;
    /// What the server said about itself when Larder last connected; `None` before the first
    /// connection.
    fn identity(&self) -> Option<Arc<ServerIdentity>>;
    /// Waits until [`identity`](RedisServer::identity) is known, for at most `source-timeout`. Does
    /// not wait for a server known to be down.
    fn wait_identity(&self) -> LocalFuture<'_, ()>;
    /// Larder's own user at the server, and its password.
    fn credentials(&self) -> (&str, Option<Secret>);
    /// The server's default user has a new password, set by a client through Larder.
    fn note_password(&self, _password: &[u8]) {}
    /// The same server, by connections of its own as another user: without a name the password
    /// alone authenticates, without either nothing does. `None`: several servers are behind the
    /// source, and users cannot log in.
    fn as_user(&self, user: Option<&str>, password: Option<&str>) -> Option<Rc<dyn RedisServer>>;
    /// Asks the server whether its user may log in. If it may not, the error is
    /// [`Refused`](SourceError::Refused).
    fn check_login(&self) -> LocalFuture<'_, Result<(), SourceError>>;
    /// Whether the source is one server, not several that clients see as one.
    fn is_single(&self) -> bool {
        true
    }
}

/// Who tracks what clients read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientTracking {
    /// The server, on the client's dedicated connection.
    Server,
    /// Larder: the server announces every change to Larder, and Larder tells its clients.
    Larder,
    /// Tracking is impossible.
    Nobody,
}

/// Whether a reply answers the `PING` that ends [`DedicatedConnection::ask`]. The client's user may
/// have no permission for `PING`.
pub fn answers_ping(reply: &[u8]) -> bool {
    // No name of a user has a space, so the words cannot be part of one.
    const DENIED: &[u8] = b" run the 'ping' command";
    let is_denied = || reply.starts_with(b"-NOPERM ") && reply.windows(DENIED.len()).any(|part| part == DENIED);
    reply == b"+PONG\r\n" || is_denied()
}

/// A connection to a Redis server that belongs to one client. [Relayed](Relay) commands use it. A
/// lost connection is not reopened, because its state is gone.
pub trait DedicatedConnection: Relay {
    /// Sends one encoded command that may block (BLPOP), without a deadline. The command is queued
    /// when this returns.
    fn relay_blocking(&self, command: Bytes) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
    /// Sends one command with an unknown number of replies. If `marked`, a `PING` follows it, and
    /// the replies end with the answer to that `PING`. Otherwise the command has one reply.
    fn ask(&self, command: Vec<u8>, marked: bool) -> LocalFuture<'static, Result<RawReplies, SourceError>>;
    /// The push messages of this connection.
    fn pushes(&self) -> &PushQueue;
    /// A relayed HELLO has changed the protocol.
    fn note_protocol(&mut self, resp3: bool);
    /// Returns the connection for reuse. The caller knows that it has no state. A connection that
    /// is dropped instead is closed.
    fn release(self: Box<Self>);
}
