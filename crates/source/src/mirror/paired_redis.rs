//! A Redis server and its mirror as one server: each command goes to what is the source when it is sent.
//!
//! A client that has sent a command holds the gate ([`Mirror::close`]) until its replies are dropped. By then
//! the names of its keys are noted. A dedicated connection, and a server of another user, hold the gate
//! for as long as they are there.
use super::Mirror;
use crate::{
    fetch_result::CacheableReply,
    local_future::LocalFuture,
    push_queue::PushQueue,
    raw_replies::RawReplies,
    redis_server_trait::{ClientTracking, DedicatedConnection, Pace, RedisServer, Relay},
    server_identity::ServerIdentity,
    source_error::SourceError,
    source_trait::Source,
    upstream_commands::{BusyFor, UpstreamCommands},
};
use bytes::Bytes;
use larder_config::Secret;
use larder_proto::resp::Args;
use std::{rc::Rc, sync::Arc};
use tokio::sync::OwnedRwLockReadGuard;

/// While there is one, the two servers do not trade places.
type GateGuard = OwnedRwLockReadGuard<()>;

type Answer = LocalFuture<'static, Result<RawReplies, SourceError>>;

/// One core's connections to both.
pub(super) struct PairedRedis {
    sources: [Rc<dyn Source>; 2],
    mirror: Arc<Mirror>,
}

impl PairedRedis {
    pub(super) fn new(sources: [Rc<dyn Source>; 2], mirror: Arc<Mirror>) -> PairedRedis {
        PairedRedis { sources, mirror }
    }

    fn now(&self) -> &dyn RedisServer {
        server(&self.sources, &self.mirror)
    }

    /// Sends commands once the gate is open: at once, if it is.
    fn send(&self, send: impl FnOnce(&dyn RedisServer) -> Answer + 'static) -> Answer {
        let (sources, mirror) = (self.sources.clone(), self.mirror.clone());
        if let Some(held) = mirror.try_enter() {
            let answer = send(self.now());
            return Box::pin(async move { ended(answer.await, held, &mirror) });
        }
        Box::pin(async move {
            let held = mirror.enter().await;
            let answer = send(server(&sources, &mirror));
            ended(answer.await, held, &mirror)
        })
    }
}

/// What is the source now.
fn server<'s>(sources: &'s [Rc<dyn Source>; 2], mirror: &Mirror) -> &'s dyn RedisServer {
    sources[usize::from(mirror.is_swapped())].as_redis().expect("both are Redis servers")
}

/// Who has the replies holds the gate.
fn ended(answer: Result<RawReplies, SourceError>, held: GateGuard, mirror: &Mirror) -> Result<RawReplies, SourceError> {
    match answer {
        Ok(replies) => Ok(RawReplies { gate: Some(held), ..replies }),
        Err(error) => {
            if matches!(error, SourceError::Lost(_)) {
                // The names of the keys come after this.
                mirror.note_all();
            }
            Err(error)
        }
    }
}

impl Relay for PairedRedis {
    fn relay_at(&self, pace: Pace, commands: Bytes, count: usize, resp3: bool) -> Answer {
        self.send(move |server| server.relay_at(pace, commands, count, resp3))
    }
}

impl RedisServer for PairedRedis {
    fn relay_isolated(&self, commands: Bytes, count: usize, resp3: bool, clean: bool, busy: Option<BusyFor>) -> Answer {
        self.send(move |server| server.relay_isolated(commands, count, resp3, clean, busy))
    }
    fn open_dedicated<'a>(
        &'a self,
        args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        Box::pin(async move {
            let gate = self.mirror.enter().await;
            let inner = self.now().open_dedicated(args, resp3).await?;
            Ok(Box::new(PairedConnection { inner, _gate: gate }) as Box<dyn DedicatedConnection>)
        })
    }
    fn as_user(&self, user: Option<&str>, password: Option<&str>) -> Option<Rc<dyn RedisServer>> {
        let gate = self.mirror.try_enter()?;
        let inner = self.now().as_user(user, password)?;
        Some(Rc::new(UserOfOne { inner, _gate: gate }))
    }
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.now().known_commands()
    }
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>> {
        self.now().commands()
    }
    fn keeps_reply(&self, command: Args<'_>, resp3: bool) -> Option<CacheableReply> {
        self.now().keeps_reply(command, resp3)
    }
    fn announced(&self, commands: Bytes) -> LocalFuture<'static, ()> {
        self.now().announced(commands)
    }
    fn has_client_ids(&self) -> bool {
        self.now().has_client_ids()
    }
    fn client_tracking(&self) -> ClientTracking {
        self.now().client_tracking()
    }
    fn database(&self) -> u32 {
        self.now().database()
    }
    fn identity(&self) -> Option<Arc<ServerIdentity>> {
        self.now().identity()
    }
    fn wait_identity(&self) -> LocalFuture<'_, ()> {
        self.now().wait_identity()
    }
    fn credentials(&self) -> (&str, Option<Secret>) {
        self.now().credentials()
    }
    fn note_password(&self, password: &[u8]) {
        self.now().note_password(password);
    }
    fn check_login(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        self.now().check_login()
    }
    fn is_single(&self) -> bool {
        self.now().is_single()
    }
}

/// A client's connection to what was the source when it was opened.
struct PairedConnection {
    inner: Box<dyn DedicatedConnection>,
    _gate: GateGuard,
}

impl Relay for PairedConnection {
    fn relay_at(&self, pace: Pace, commands: Bytes, count: usize, resp3: bool) -> Answer {
        self.inner.relay_at(pace, commands, count, resp3)
    }
}

impl DedicatedConnection for PairedConnection {
    fn relay_blocking(&self, command: Bytes) -> Answer {
        self.inner.relay_blocking(command)
    }
    fn ask(&self, command: Vec<u8>, marked: bool) -> Answer {
        self.inner.ask(command, marked)
    }
    fn pushes(&self) -> &PushQueue {
        self.inner.pushes()
    }
    fn note_protocol(&mut self, resp3: bool) {
        self.inner.note_protocol(resp3);
    }
    fn release(self: Box<Self>) {
        self.inner.release();
    }
}

/// What was the source when a client logged in there, as that client's user.
struct UserOfOne {
    inner: Rc<dyn RedisServer>,
    _gate: GateGuard,
}

impl Relay for UserOfOne {
    fn relay_at(&self, pace: Pace, commands: Bytes, count: usize, resp3: bool) -> Answer {
        self.inner.relay_at(pace, commands, count, resp3)
    }
}

impl RedisServer for UserOfOne {
    fn relay_isolated(&self, commands: Bytes, count: usize, resp3: bool, clean: bool, busy: Option<BusyFor>) -> Answer {
        self.inner.relay_isolated(commands, count, resp3, clean, busy)
    }
    fn open_dedicated<'a>(
        &'a self,
        args: Args<'a>,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        self.inner.open_dedicated(args, resp3)
    }
    fn as_user(&self, _user: Option<&str>, _password: Option<&str>) -> Option<Rc<dyn RedisServer>> {
        // Users are made by the pair.
        None
    }
    fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.inner.known_commands()
    }
    fn commands(&self) -> LocalFuture<'_, Result<Arc<UpstreamCommands>, SourceError>> {
        self.inner.commands()
    }
    fn announced(&self, commands: Bytes) -> LocalFuture<'static, ()> {
        self.inner.announced(commands)
    }
    fn has_client_ids(&self) -> bool {
        self.inner.has_client_ids()
    }
    fn client_tracking(&self) -> ClientTracking {
        self.inner.client_tracking()
    }
    fn database(&self) -> u32 {
        self.inner.database()
    }
    fn identity(&self) -> Option<Arc<ServerIdentity>> {
        self.inner.identity()
    }
    fn wait_identity(&self) -> LocalFuture<'_, ()> {
        self.inner.wait_identity()
    }
    fn credentials(&self) -> (&str, Option<Secret>) {
        self.inner.credentials()
    }
    fn check_login(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        self.inner.check_login()
    }
    fn is_single(&self) -> bool {
        self.inner.is_single()
    }
}
