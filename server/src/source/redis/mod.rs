//! `redis://`, `rediss://`, `unix://`: a Redis or Valkey server (or anything that speaks its protocol, such as another Larder).
//!
//! This is the miss path, so a miss costs no task, no timer, no channel and no boxed future of its own:
//!
//! ```text
//! fetch(batch) ─┐                         ┌─ connection task of this core ────────────────────────────────┐
//! put, delete ──┼─► queue of the link ───►│ encode all that is queued ─► one write ─► Redis               │
//! relay ────────┘   (one wake per turn)   │ replies, in order ◄─ read ◄─┘    │                             │
//!                                         │   └─► Fetch::finish / answer     └─ one alarm for all deadlines │
//!                                         └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! - Fetches that are queued together go as `MULTI`, (`GET k`, `PTTL k`)…, `EXEC`, so a value and its expiry are of one moment (`pipeline`).
//! - Requests queue while a connection is being made and fail at once while the source is known to be down (`link`).
//! - A deadline that passes with replies owed ends the connection, for replies come in order and the next would be taken for
//!   the one that is late. Fetches that were owed are sent once more on the next connection; writes are not.
//! - A user of the server needs `+ping +get +pttl` to read (and `+multi +exec` for value and expiry to be of one moment), and
//!   `+set +del +pexpire +persist +exists` for our own writes.
//! - With a [`InvalidationScope`], the connections that fetch speak RESP3 and have the server announce changes (`CLIENT TRACKING`); writes and verbatim
//!   commands go on one without, of RESP2, made when first used: their replies are for clients, byte for byte.
//! - Several servers: `sentinel` finds the one that is the master, `cluster` has a source for each node.
//! - RESP3 commands that go through verbatim have a connection of their own, made when first used; those that may take long, one more.
mod cacheable_replies;
mod cluster;
mod command_table;
mod connect;
mod connection;
mod connection_settings;
mod forward_rules;
mod handshake;
mod identity;
mod key_specs;
mod large_commands;
mod password;
mod pipeline;
mod reply_affinity;
mod request;
mod sentinel;
mod tls;
mod write_commands;

pub(super) use cluster::{ClusterSetup, ClusterSource};
pub use command_table::{KnownKeys, UpstreamCommand, UpstreamCommands};
pub(super) use connection_settings::Settings;
pub use forward_rules::ForwardRule;
pub use identity::Identity;

use super::{
    DedicatedConnection, InvalidationScope, Keepable, LocalFuture, PushQueue, RawReplies, RedisServer, Relay, Source,
    SourceError, UNAVAILABLE,
};
use crate::{buffers::BufferKind, source::Fetch};
use bytes::Bytes;
use cluster::Elsewhere;
use connection::UpstreamConnection;
use connection_settings::Learnt;
use handshake::Hello;
use larder_engine::Millis;
use larder_proto::resp::{self, Args};
use reply_affinity::ReplyAffinity;
use request::{Answer, UNTIL_PONG};
use sentinel::Sentinels;
use std::{
    cell::{Cell, OnceCell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};

/// The deadline of what has none: longer than any process runs.
const FOREVER: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 10);

/// One core's connections to a Redis server.
pub(super) struct RedisSource {
    settings: Arc<Settings>,
    /// Fetches; unless they are tracking, writes and verbatim commands of RESP2 as well. At least one.
    links: Rc<[UpstreamConnection]>,
    /// Which keys' changes they announce.
    watch: Option<InvalidationScope>,
    home: ReplyAffinity,
    next: Cell<usize>,
    /// Writes and verbatim commands, where the fetches' connections are tracking.
    resp2: OnceCell<UpstreamConnection>,
    resp3: OnceCell<UpstreamConnection>,
    /// Verbatim commands that may take long, by protocol: behind them others would miss their deadline.
    slow: [OnceCell<UpstreamConnection>; 2],
    /// This core's copy of the table of commands.
    commands: RefCell<Option<Learnt>>,
    asking: tokio::sync::Mutex<()>,
    pool: Rc<Pool>,
}

impl RedisSource {
    /// Starts connecting. Call it on the core's own runtime.
    pub(super) fn new(settings: Arc<Settings>, watch: Option<InvalidationScope>, keeps_replies: bool) -> RedisSource {
        RedisSource::node(settings, watch, keeps_replies, None)
    }
    /// The same for a node of a cluster.
    fn node(
        settings: Arc<Settings>,
        watch: Option<InvalidationScope>,
        keeps_replies: bool,
        elsewhere: Option<Weak<dyn Elsewhere>>,
    ) -> RedisSource {
        settings.sentinels.iter().for_each(Sentinels::watch);
        let hello = watch.clone().map_or(Hello::Resp2, Hello::Tracking);
        let links = (0..settings.limits.connections.max(1))
            .map(|_| UpstreamConnection::fetching(settings.clone(), hello.clone(), keeps_replies, elsewhere.clone()));
        let links: Rc<[UpstreamConnection]> = links.collect();
        RedisSource {
            home: reply_affinity::settle(&settings, &links),
            links,
            settings,
            watch,
            next: Cell::new(0),
            resp2: OnceCell::new(),
            resp3: OnceCell::new(),
            slow: Default::default(),
            commands: RefCell::default(),
            asking: tokio::sync::Mutex::default(),
            pool: Rc::default(),
        }
    }
    fn link(&self) -> &UpstreamConnection {
        let turn = self.next.get() % self.links.len();
        self.next.set(turn + 1);
        &self.links[turn]
    }
    /// A connection for one client alone.
    fn single(&self, resp3: bool) -> Result<UpstreamConnection, SourceError> {
        self.links[0].check()?;
        Ok(self.pool.take(resp3).unwrap_or_else(|| UpstreamConnection::single(self.settings.clone(), resp3)))
    }
    /// Takes over fetches that were admitted.
    fn send(&self, batch: &mut Vec<Fetch>) {
        if batch.iter().any(|fetch| fetch.reply_name().is_some()) {
            for fetch in batch.extract_if(.., |fetch| fetch.reply_name().is_some()) {
                self.home.send(fetch, &self.links);
            }
        }
        if !batch.is_empty() {
            self.link().fetch(batch.drain(..));
        }
    }
    /// Sends commands that may take any time over a connection of their own; queued when this returns.
    fn send_alone(&self, commands: Bytes, count: usize, resp3: bool) -> impl Future<Output = Answer> + use<> {
        let pool = self.pool.clone();
        let sent = self.single(resp3).map(|link| (link.relay_within(commands, count, FOREVER), link));
        async move {
            let (answer, link) = sent?;
            let answer = answer.await?;
            pool.put(link, resp3);
            Ok(answer)
        }
    }
    /// See [`RedisServer::relay_apart`].
    fn send_apart(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
        clean: bool,
    ) -> impl Future<Output = Answer> + use<> {
        let (pool, limit) = (self.pool.clone(), self.settings.limits.slow_timeout);
        let link = self.single(resp3);
        // The link counts them once it has them.
        let mut charge = self.settings.buffers.charge(BufferKind::Relayed);
        charge.resize(commands.len());
        async move {
            let link = link?;
            large_commands::check(&link, &commands).await?;
            drop(charge);
            let answer = link.relay_within(commands, count, limit).await?;
            // After an error the server may be about to hang up.
            if clean && !answer.iter().any(|reply| reply.starts_with(b"-")) {
                pool.put(link, resp3);
            }
            Ok(answer)
        }
    }
    fn pin_now(&self, resp3: bool) -> Result<Box<dyn DedicatedConnection>, SourceError> {
        let link = self.single(resp3)?;
        let slow_timeout = self.settings.limits.slow_timeout;
        Ok(Box::new(Single { link, resp3, slow_timeout, pool: self.pool.clone() }))
    }
    /// Can such a reply, about this key, be fetched and kept, in this protocol?
    fn keeps(&self, keepable: Keepable, key: &[u8], resp3: bool) -> bool {
        let forms = &self.settings.forms;
        forms.has(resp3)
            && (!keepable.unless_fields_expire || forms.tells_expiring_fields())
            && self.watch.as_ref().is_none_or(|watch| watch.covers(key))
    }
    /// What this server's own table, as far as it is known, says of keeping the reply.
    fn keepable(&self, args: Args<'_>) -> Option<Keepable> {
        let now = self.settings.health.reconnects();
        if let Some((_, known)) = self.commands.borrow().as_ref().filter(|(then, _)| *then == now) {
            return known.keeps_reply(args);
        }
        self.known_commands()?.keeps_reply(args)
    }
    /// The table of commands; asked for if need be. It is long, and many may come for it at once: one asks.
    async fn learn(&self) -> Result<Arc<UpstreamCommands>, SourceError> {
        let _asking = self.asking.lock().await;
        if let Some(known) = self.known_commands() {
            return Ok(known);
        }
        let now = self.settings.health.reconnects();
        let commands = match write_commands::ask(self, resp::encode(&[b"COMMAND"])).await {
            Ok(reply) => UpstreamCommands::parse(&reply).map_err(|_| unexpected())?,
            Err(SourceError::Refused(reason)) => {
                tracing::warn!(source = %self.settings.name(), %reason, "the source does not show its commands (+command): whatever is forwarded empties the memory tier");
                UpstreamCommands::default()
            }
            Err(error) => return Err(error),
        };
        let commands = Arc::new(commands);
        *self.settings.commands.lock() = Some((now, commands.clone()));
        Ok(commands)
    }
    /// The connection for commands whose replies are of RESP2: always the same, for commands of one client must not overtake each other.
    fn resp2(&self) -> &UpstreamConnection {
        match self.watch.is_some() {
            true => self.resp2.get_or_init(|| UpstreamConnection::shared(self.settings.clone(), false)),
            false => &self.links[0],
        }
    }
}

/// A reply to a command of ours, unless it is an error.
fn accepted(reply: &[u8]) -> Result<&[u8], SourceError> {
    match reply.strip_prefix(b"-") {
        Some(text) => Err(refusal(text)),
        None => Ok(reply),
    }
}

/// An error reply's text as an error: some say that the server cannot answer now, or that another Larder does not know what its source did; the
/// others refuse this command.
fn refusal(text: &[u8]) -> SourceError {
    const NOT_NOW: [&str; 6] = ["NOAUTH", "LOADING", "MASTERDOWN", "BUSY", "CLUSTERDOWN", "TRYAGAIN"];
    let text: Arc<str> = String::from_utf8_lossy(text.trim_ascii_end()).into();
    if let Some(reason) = text.strip_prefix("ERR ").and_then(|text| text.strip_prefix(UNAVAILABLE)) {
        return SourceError::Lost(reason.into());
    }
    let code = text.split(' ').next().unwrap_or_default();
    if NOT_NOW.contains(&code) { SourceError::Unavailable(text) } else { SourceError::Refused(text) }
}

/// Is it an error of a server's, rather than a reason why there is no connection?
fn has_code(reason: &str) -> bool {
    reason.split(' ').next().is_some_and(|code| code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase()))
}

/// The answer to a command whose reply is an integer.
fn positive(reply: &[u8]) -> Result<bool, SourceError> {
    match reply.strip_prefix(b":").map(<[u8]>::trim_ascii_end) {
        Some(digits) => Ok(resp::parse_i64(digits).is_some_and(|count| count > 0)),
        None => Err(unexpected()),
    }
}
fn unexpected() -> SourceError {
    SourceError::Refused("ERR the source gave an unexpected reply".into())
}

impl Source for RedisSource {
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.settings.health.admit(batch, self.settings.limits.max_in_flight);
        self.send(batch);
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

    fn as_redis(&self) -> Option<&dyn RedisServer> {
        Some(self)
    }
}

impl Relay for RedisSource {
    fn relay(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        let link = if resp3 {
            self.resp3.get_or_init(|| UpstreamConnection::shared(self.settings.clone(), true))
        } else {
            self.resp2()
        };
        Box::pin(link.relay(commands, count))
    }
    fn relay_slowly(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        let link =
            self.slow[usize::from(resp3)].get_or_init(|| UpstreamConnection::shared(self.settings.clone(), resp3));
        Box::pin(link.relay_within(commands, count, self.settings.limits.slow_timeout))
    }
}

impl RedisServer for RedisSource {
    fn relay_apart(
        &self,
        commands: Bytes,
        count: usize,
        resp3: bool,
        clean: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        Box::pin(self.send_apart(commands, count, resp3, clean))
    }
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        // Another connection may lead to another server.
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
            // It may not be able to say now (a script keeps it): what it last said will do until it can.
            self.learn().await.or_else(|error| self.settings.last_commands().ok_or(error))
        })
    }
    fn keeps_reply(&self, args: Args<'_>, resp3: bool) -> Option<Keepable> {
        if !self.settings.forms.has(resp3) {
            return None;
        }
        let keepable = self.keepable(args)?;
        self.keeps(keepable, args.get(keepable.key)?, resp3).then_some(keepable)
    }
    fn pin<'a>(
        &'a self,
        _args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        Box::pin(async move { self.pin_now(resp3) })
    }
    fn database(&self) -> u32 {
        self.settings.url.database
    }
    fn identity(&self) -> Option<Arc<Identity>> {
        self.settings.identity.lock().clone()
    }
    fn note_password(&self, password: &[u8]) {
        self.settings.note_password(password);
    }
    fn login(&self) -> (&str, Option<crate::config::Secret>) {
        self.settings.login()
    }
    fn log_in<'a>(
        &'a self,
        user: Option<&'a str>,
        password: &'a str,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        Box::pin(async move {
            if user.is_none() && resp3 {
                // HELLO does not know of passwords without a user, of which a server may have something to say.
                self.log_in(None, password, false).await?;
                return self.log_in(Some("default"), password, true).await;
            }
            let settings = Arc::new(self.settings.of_user(user, password));
            let link = UpstreamConnection::of_user(settings, resp3);
            // Answered behind the handshake; every user may ask this.
            match link.relay(resp::encode(&[b"HELLO"]).into(), 1).await {
                Err(SourceError::Unavailable(reason)) if has_code(&reason) => Err(SourceError::Refused(reason)),
                Err(error) => Err(error),
                Ok(_) => {
                    let slow_timeout = self.settings.limits.slow_timeout;
                    // It is not for others when it is given back.
                    link.unasked().note_request(1);
                    Ok(Box::new(Single { link, resp3, slow_timeout, pool: Rc::default() })
                        as Box<dyn DedicatedConnection>)
                }
            }
        })
    }
    fn identify(&self) -> LocalFuture<'_, ()> {
        Box::pin(async {
            if self.identity().is_none() {
                // Answered behind the handshake, which tells; or there is no connection.
                let _ = self.links[0].relay(resp::encode(&[b"PING"]).into(), 1).await;
            }
        })
    }
}

/// Connections that were one client's and are as new again, by protocol.
#[derive(Default)]
struct Pool([RefCell<Vec<UpstreamConnection>>; 2]);
impl Pool {
    /// More are closed.
    const MAX: usize = 16;
    fn take(&self, resp3: bool) -> Option<UpstreamConnection> {
        let mut links = self.0[usize::from(resp3)].borrow_mut();
        // Those that were lost while they lay here are dropped.
        std::iter::from_fn(|| links.pop()).find(|link| link.check().is_ok())
    }
    fn put(&self, link: UpstreamConnection, resp3: bool) {
        let mut links = self.0[usize::from(resp3)].borrow_mut();
        if links.len() < Pool::MAX {
            links.push(link);
        }
    }
}

/// A connection for one client alone.
struct Single {
    link: UpstreamConnection,
    resp3: bool,
    slow_timeout: Duration,
    pool: Rc<Pool>,
}
impl Relay for Single {
    fn relay(
        &self,
        commands: Bytes,
        count: usize,
        _resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.link.unasked().note_request(count);
        Box::pin(self.link.relay(commands, count))
    }
    fn relay_slowly(
        &self,
        commands: Bytes,
        count: usize,
        _resp3: bool,
    ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.link.unasked().note_request(count);
        Box::pin(self.link.relay_within(commands, count, self.slow_timeout))
    }
}
impl DedicatedConnection for Single {
    fn relay_patiently(&self, command: Bytes) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        self.link.unasked().note_request(1);
        Box::pin(self.link.relay_within(command, 1, FOREVER))
    }
    fn ask(&self, mut command: Vec<u8>, marked: bool) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
        if marked {
            command.extend_from_slice(&resp::encode(&[b"PING"]));
        }
        Box::pin(self.link.relay(command.into(), if marked { UNTIL_PONG } else { 1 }))
    }
    fn unasked(&self) -> &PushQueue {
        self.link.unasked()
    }
    fn note_protocol(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }
    fn release(self: Box<Self>) {
        self.pool.put(self.link, self.resp3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_error_of_the_server_means() {
        for (text, expected) in [
            ("WRONGTYPE no", SourceError::Refused("WRONGTYPE no".into())),
            ("LOADING not yet", SourceError::Unavailable("LOADING not yet".into())),
            // Another Larder's.
            ("ERR source unavailable: gone", SourceError::Lost("gone".into())),
        ] {
            assert_eq!(refusal(text.as_bytes()), expected);
        }
    }
}
