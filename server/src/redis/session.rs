//! The state of one connection of the Redis protocol.
use super::{
    auth,
    backend::Backend,
    command::{Command, Kind},
    command_access::CommandAccess,
    command_lookup::GET,
    command_queue::OpenTransaction,
    local_subscriptions::LocalSubscriptions,
    tracker::Tracker,
    upstream::client_state::UpstreamState,
};
use crate::{
    app::Worker,
    clients::{Client, Moves},
    read::WatchedKeys,
    source::DedicatedConnection,
    telemetry::Counters,
};
use bytes::Bytes;
use std::{mem, sync::Arc};

/// What a connection has said so far: protocol, password, transaction, reply mode.
pub struct Session {
    /// Where others see this connection: CLIENT LIST.
    pub(super) client: Arc<Client>,
    /// Its worker's.
    pub(super) counters: Arc<Counters>,
    /// RESP3 rather than RESP2.
    pub(super) resp3: bool,
    authenticated: bool,
    /// Which commands it may call.
    pub(super) access: Arc<CommandAccess>,
    /// Not all.
    restricted: bool,
    replies: ReplyMode,
    held: Outstanding,
    /// Commands queued by MULTI.
    pub(super) multi: Option<OpenTransaction>,
    /// WATCH, until the transaction is over.
    pub(super) watch: Watch,
    /// What its commands on data are carried out by.
    pub(super) backend: Backend,
    /// To an upstream Redis: while there is one, every command on data goes over it.
    pub(super) dedicated: Option<Box<dyn DedicatedConnection>>,
    /// What an upstream Redis keeps for the client.
    pub(super) upstream: UpstreamState,
    /// CLIENT TRACKING, if it is Larder that tracks.
    pub(super) tracker: Option<Box<Tracker>>,
    /// Where there is no upstream Redis.
    pub(super) subscriptions: Option<Box<LocalSubscriptions>>,
    unusual: bool,
    plain_reads: bool,
}

/// WATCH: which keys must not change before EXEC.
#[derive(Default)]
pub(super) enum Watch {
    /// None.
    #[default]
    Nothing,
    /// These in the memory tier, with the versions that they had (0: absent).
    Versions(Vec<(Box<[u8]>, u64)>),
    /// An upstream Redis knows them, by the dedicated connection.
    Upstream,
    /// These in a store on this machine.
    Store(WatchedKeys),
}

/// What a connection has begun that is not answered yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outstanding {
    /// Nothing.
    Nothing,
    /// Reads that wait for flights, or were relayed as reads whose replies may be kept.
    Reads,
    /// Commands that were relayed to the source.
    Forwarded,
}

/// CLIENT REPLY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    /// The next command is not answered.
    SkipNext,
    /// This one is not.
    Skip,
}

impl Session {
    /// A connection that has just been accepted; its listener says what it may do.
    pub fn new(worker: &Worker, client: Arc<Client>, access: Arc<CommandAccess>) -> Session {
        let mut session = Session {
            client,
            counters: worker.counters.clone(),
            resp3: false,
            authenticated: !auth::is_required(&worker.app.settings),
            restricted: access.restricts(),
            access,
            replies: ReplyMode::On,
            held: Outstanding::Nothing,
            multi: None,
            watch: Watch::default(),
            backend: Backend::of(&*worker.groups[0].source),
            dedicated: None,
            upstream: UpstreamState::default(),
            tracker: None,
            subscriptions: None,
            unusual: false,
            plain_reads: false,
        };
        session.client.about.lock().user = auth::USER_NAME.into();
        session.settle();
        session
    }

    /// May it call this command of ours?
    #[inline]
    pub(super) fn may_call(&self, command: &Command) -> bool {
        !self.restricted || self.access.passes(command)
    }

    /// Are all commands allowed to it?
    #[inline]
    pub(super) fn may_call_anything(&self) -> bool {
        !self.restricted
    }

    /// Has the client said the password (or need not it)?
    #[inline]
    pub fn authenticated(&self) -> bool {
        self.authenticated
    }

    /// Anything that takes a command off the short way: no password yet, a transaction, replies off, a dedicated connection.
    #[inline]
    pub(super) fn is_unusual(&self) -> bool {
        self.unusual
    }

    /// May GETs be begun by [`pipelined_gets::begin`](super::pipelined_gets::begin)? Nothing takes them off the short way, but perhaps reads that wait.
    #[inline]
    pub(super) fn reads_plainly(&self) -> bool {
        self.plain_reads
    }

    /// Says what the connection holds from now on.
    pub fn hold(&mut self, held: Outstanding) {
        self.held = held;
        self.settle();
    }
    pub(super) fn holds(&self, held: Outstanding) -> bool {
        self.held == held
    }
    /// May this command be begun before what is held is answered? Reads of the tier and relayed commands travel on different
    /// connections and must not overtake each other.
    pub(super) fn may_begin(&self, command: &Command) -> bool {
        let reads = matches!(command.kind, Kind::Get | Kind::MultiGet);
        match self.held {
            Outstanding::Nothing => true,
            Outstanding::Reads => reads || !command.is_data(),
            // Even what does not concern the source may concern the connection to it.
            Outstanding::Forwarded if self.multi.is_some() || self.is_silent() => false,
            Outstanding::Forwarded => command.is_data() && (self.dedicated.is_some() || !reads),
        }
    }

    /// In the database that the memory tier has copies of?
    pub(super) fn is_at_home(&self) -> bool {
        self.upstream.database.is_none()
    }

    /// To be called after any change of the fields that others may write.
    pub(super) fn settle(&mut self) {
        let special = !self.authenticated
            || self.replies != ReplyMode::On
            || self.multi.is_some()
            || self.dedicated.is_some()
            || self.is_attached()
            || self.tracker.is_some()
            || self.subscriptions.is_some()
            || !self.may_call(GET);
        self.unusual = special || self.held != Outstanding::Nothing;
        self.plain_reads = !special && self.held != Outstanding::Forwarded;
    }

    pub(super) fn authenticate(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
        self.settle();
    }

    pub(super) fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
        self.client.about.lock().protocol = if resp3 { 3 } else { 2 };
    }

    /// CLIENT REPLY.
    pub(super) fn set_replies(&mut self, replies: ReplyMode) {
        // SKIP does not end OFF.
        if !(self.replies == ReplyMode::Off && replies == ReplyMode::SkipNext) {
            self.replies = replies;
        }
        self.settle();
    }

    /// Is the command that is running not to be answered?
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.replies, ReplyMode::Off | ReplyMode::Skip)
    }

    /// A command is over: SKIP counts commands.
    pub(super) fn command_over(&mut self) {
        self.replies = match self.replies {
            ReplyMode::Skip => ReplyMode::On,
            ReplyMode::SkipNext => ReplyMode::Skip,
            same => same,
        };
        self.settle();
    }

    /// Ends a transaction, if there is one, and forgets what was watched.
    pub(super) fn end_transaction(&mut self) {
        self.multi = None;
        self.unwatch();
        self.client.about.lock().queued = None;
    }

    pub(super) fn unwatch(&mut self) {
        let watched = mem::take(&mut self.watch);
        if matches!(watched, Watch::Upstream)
            && let Some(dedicated) = &self.dedicated
        {
            // Sent when this returns; nobody waits for the reply.
            drop(dedicated.relay(Bytes::from_static(b"*1\r\n$7\r\nUNWATCH\r\n"), 1, self.resp3));
            self.skip_reply();
        }
        self.release_dedicated();
    }

    /// As if newly connected (RESET).
    pub(super) fn reset(&mut self, worker: &Worker) {
        // Not given back, for it is not as new.
        self.dedicated = None;
        self.upstream = UpstreamState::default();
        self.tracker = None;
        self.subscriptions = None;
        self.note_subscriptions();
        self.end_transaction();
        self.client.about.lock().user = auth::USER_NAME.into();
        self.client.about.lock().database = 0;
        self.client.about.lock().tracking = None;
        self.client.about.lock().moves = Moves::default();
        self.set_resp3(false);
        self.replies = ReplyMode::On;
        self.client.about.lock().name = "".into();
        self.authenticate(!auth::is_required(&worker.app.settings));
    }

    /// Bytes of memory that a transaction and what came unasked occupy.
    #[inline]
    pub fn owned(&self) -> usize {
        if self.unusual { self.owned_unusually() } else { 0 }
    }
    #[cold]
    fn owned_unusually(&self) -> usize {
        self.multi.as_ref().map_or(0, |multi| multi.queue.owned()) + self.owned_unasked()
    }
}
