//! The state of one client connection of the Redis protocol.
use crate::{
    command::{Command, CommandKind},
    command_access::CommandAccess,
    command_lookup::GET,
    command_queue::OpenTransaction,
    command_times::CommandTimes,
    reply_room::ReplyRoom,
    slow_commands::note_recorded,
    subscribed_topics::SubscribedTopics,
    tracking_client::Tracker,
    upstream::client_state::UpstreamState,
};
use bytes::Bytes;
use indexmap::IndexMap;
use larder_base::telemetry::{Counters, recorded_args};
use larder_config::Address;
use larder_core::{
    app::Worker,
    clients::{About, Client, Moves},
    read::{Group, NotedEvents, WatchedKeys},
};
use larder_engine::Millis;
use larder_proto::resp::gets_ahead;
use larder_ring::replica::ReplicaRequest;
use larder_source::{DedicatedConnection, SourceKind};
use std::{
    cell::RefCell,
    mem,
    net::Ipv4Addr,
    ops::{Deref, DerefMut},
    rc::Rc,
    sync::Arc,
    task::Waker,
    time::Duration,
};

mod user;
use self::user::SessionUser;

/// One client's protocol version, login, transaction, reply mode, and its connections to an
/// upstream.
pub struct Session {
    /// The client as CLIENT LIST and other commands see it.
    pub(super) client: Arc<Client>,
    /// The counters of the connection's worker.
    pub(super) counters: Arc<Counters>,
    /// True for RESP3, false for RESP2.
    pub(super) resp3: bool,
    /// The kind of backend that runs the client's commands on data.
    pub(super) backend: Backend,
    /// The commands that clients of this listener may call.
    pub(super) access: Arc<CommandAccess>,
    user: SessionUser,
    /// The client is a replica that forwards its clients' writes (LARDER.FORWARDED).
    pub(super) is_forwarded: bool,
    /// The client is a replica, which asked for this (LARDER.REPLICATE).
    pub(super) replica: Option<Box<ReplicaRequest>>,
    /// The keys that WATCH named, until the transaction ends.
    pub(super) watch: Watch,
    /// The command that runs, and since when.
    pub(super) times: CommandTimes,
    /// Memory for long replies.
    pub(super) room: Rc<ReplyRoom>,
    /// Keyspace events of commands whose changes the store has yet to take.
    pub(super) noted_events: RefCell<NotedEvents>,
    /// Bytes of the names that the client has given itself and its library.
    names: usize,
    /// Read as fields of the session, and written with [`Session::change`].
    state: SessionState,
    /// Computed from `state`: a command must leave the short path. The client has not authenticated, is
    /// in a transaction, has replies off, a dedicated connection, or commands that are not answered.
    pub(super) unusual: bool,
    /// Computed from `state`: runs of plain GETs may begin. Only waiting reads may be outstanding.
    pub(super) plain_reads: bool,
}

/// The state by which a client's commands may have to leave the short path.
pub struct SessionState {
    pub(super) authenticated: bool,
    /// Some commands are refused: by the listener (`deny-commands`, `allow-commands`), or by the
    /// rules of the user.
    pub(super) restricted: bool,
    /// Only the upstream knows what the client's user may do: every command on data goes there.
    pub(super) asks_upstream: bool,
    replies: ReplyMode,
    pub(super) outstanding: Outstanding,
    pub(super) multi: Option<OpenTransaction>,
    /// The dedicated connection to an upstream Redis. While it exists, every command on data goes
    /// over it.
    pub(super) dedicated: Option<Box<dyn DedicatedConnection>>,
    /// The state that an upstream Redis keeps for this client.
    pub(super) upstream: UpstreamState,
    /// CLIENT TRACKING, where Larder does the tracking.
    pub(super) tracker: Option<Box<Tracker>>,
    /// The client's subscriptions, where there is no upstream Redis.
    pub(super) subscriptions: Option<Box<SubscribedTopics>>,
}

impl Deref for Session {
    type Target = SessionState;
    #[inline]
    fn deref(&self) -> &SessionState {
        &self.state
    }
}

/// Changes the state of a session. When it is dropped, what is computed from the state is right
/// again.
pub(super) struct StateChange<'s>(&'s mut Session);
impl Deref for StateChange<'_> {
    type Target = SessionState;
    fn deref(&self) -> &SessionState {
        &self.0.state
    }
}
impl DerefMut for StateChange<'_> {
    fn deref_mut(&mut self) -> &mut SessionState {
        &mut self.0.state
    }
}
impl Drop for StateChange<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        let special = !state.authenticated
            || state.replies != ReplyMode::On
            || state.multi.is_some()
            || state.dedicated.is_some()
            || self.0.has_upstream_state()
            || state.asks_upstream
            || state.tracker.is_some()
            || state.subscriptions.is_some()
            || state.restricted && !self.0.access.passes(GET);
        let outstanding = state.outstanding;
        self.0.unusual = special || outstanding != Outstanding::Nothing;
        self.0.plain_reads = !special && outstanding != Outstanding::Forwarded;
    }
}

/// The keys that must not change before EXEC (WATCH).
#[derive(Default)]
pub(super) enum Watch {
    /// No key.
    #[default]
    Nothing,
    /// Keys in the memory tier, with their versions at WATCH (0: absent).
    Versions(KeyVersions),
    /// The upstream Redis watches the keys, on the dedicated connection.
    Upstream,
    /// Keys in a local store.
    Store(WatchedKeys),
}

/// Keys with the versions that they had.
#[derive(Default)]
pub(super) struct KeyVersions {
    pub(super) keys: IndexMap<Box<[u8]>, u64>,
    /// About what they occupy.
    pub(super) owned: usize,
}
impl Watch {
    /// About what the watch occupies in this process.
    fn owned(&self) -> usize {
        match self {
            Watch::Nothing | Watch::Upstream => 0,
            Watch::Versions(watched) => watched.owned,
            Watch::Store(watched) => watched.owned(),
        }
    }
}

/// What the connection has begun and not yet answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outstanding {
    Nothing,
    /// Reads that wait for flights, and forwarded reads whose replies may be cached.
    Reads,
    /// Commands that were sent to the source.
    Forwarded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    /// The next command gets no reply.
    SkipNext,
    /// The running command gets no reply.
    Skip,
}

impl Session {
    /// The session of a newly accepted connection. `access` comes from its listener.
    pub fn new(worker: &Worker, client: Arc<Client>, access: Arc<CommandAccess>) -> Session {
        let mut session = Session::without_user(worker, client, access);
        session.become_default(worker);
        session
    }

    /// The session in which commands of another node run, on the entries of this one.
    pub(super) fn of_node(worker: &Worker, now: Millis, resp3: bool) -> Session {
        let nowhere = Address::Ip((Ipv4Addr::UNSPECIFIED, 0).into());
        let client = Arc::new(Client::new(0, nowhere.clone(), nowhere, worker.id, now, Waker::noop().clone()));
        let mut session = Session::without_user(worker, client, CommandAccess::to_all());
        session.backend = Backend::Memory;
        // The rules of the client's user were applied where it is connected.
        session.log_in(worker.app.users.unrestricted());
        session.set_resp3(resp3);
        session
    }

    /// A session that may do nothing yet.
    fn without_user(worker: &Worker, client: Arc<Client>, access: Arc<CommandAccess>) -> Session {
        Session {
            client,
            counters: worker.counters.clone(),
            resp3: false,
            backend: Backend::of(worker.groups.default()),
            access,
            user: SessionUser::powerless(worker),
            is_forwarded: false,
            replica: None,
            watch: Watch::default(),
            times: CommandTimes::new(),
            room: Rc::new(ReplyRoom::new(&worker.app.buffers)),
            noted_events: RefCell::default(),
            names: 0,
            state: SessionState {
                authenticated: false,
                restricted: true,
                asks_upstream: false,
                replies: ReplyMode::On,
                outstanding: Outstanding::Nothing,
                multi: None,
                dedicated: None,
                upstream: UpstreamState::default(),
                tracker: None,
                subscriptions: None,
            },
            unusual: true,
            plain_reads: false,
        }
    }

    pub(super) fn change(&mut self) -> StateChange<'_> {
        StateChange(self)
    }

    /// A turn begins: the next command begins now.
    #[inline]
    pub fn begin_turn(&mut self) {
        self.times.start();
    }
    /// The turn is over: what follows may wait.
    #[inline]
    pub fn end_turn(&mut self, worker: &Worker) {
        self.times.end_short(worker, &self.client);
    }
    /// The connection accounts for its replies, which no longer reserve memory themselves.
    #[inline]
    pub fn release_room(&self) {
        self.room.release();
    }
    /// The plain GETs at the beginning of `input` are answered, so many.
    #[inline]
    pub fn end_gets(&mut self, worker: &Worker, gets: u32, input: &[u8]) {
        if let Some(each) = self.times.end_gets(worker, &self.client, gets) {
            self.note_slow_gets(worker, each, input);
        }
    }
    /// Notes the first one of a run that took long, if each of them did.
    #[cold]
    fn note_slow_gets(&self, worker: &Worker, each: Duration, input: &[u8]) {
        if let Some((key, _)) = gets_ahead(input).next() {
            note_recorded(worker, &self.client, GET.index, each, recorded_args([&b"GET"[..], key].into_iter()));
        }
    }

    /// Sets what the connection has not yet answered.
    pub fn set_outstanding(&mut self, outstanding: Outstanding) {
        self.change().outstanding = outstanding;
    }
    /// Whether this command may begin before the outstanding commands are answered. Reads of the
    /// memory tier and forwarded commands use different connections. They must not overtake
    /// each other.
    pub(super) fn may_begin(&self, command: &Command) -> bool {
        let reads = matches!(command.kind, CommandKind::Get | CommandKind::MultiGet);
        match self.outstanding {
            Outstanding::Nothing => true,
            // A local command on a key (LARDER.TAG) is about what a read before it may still fetch.
            Outstanding::Reads => reads || !command.is_data() && !command.is_local_on_key(),
            // A command that does not concern the source may still concern the connection to it.
            Outstanding::Forwarded if self.multi.is_some() || self.is_silent() => false,
            Outstanding::Forwarded => command.is_data() && (self.dedicated.is_some() || !reads),
        }
    }

    /// Whether the client uses the database whose values the memory tier caches.
    pub(super) fn in_source_database(&self) -> bool {
        self.upstream.database.is_none()
    }

    pub(super) fn authenticate(&mut self, authenticated: bool) {
        self.change().authenticated = authenticated;
    }

    pub(super) fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
        self.client.about.lock().protocol = if resp3 { 3 } else { 2 };
    }

    pub(super) fn change_names(&mut self, change: impl FnOnce(&mut About)) {
        let mut about = self.client.about.lock();
        change(&mut about);
        self.names = about.name.len() + about.lib_name.len() + about.lib_version.len();
    }

    pub(super) fn set_replies(&mut self, replies: ReplyMode) {
        // SKIP does not end OFF.
        if !(self.replies == ReplyMode::Off && replies == ReplyMode::SkipNext) {
            self.change().replies = replies;
        }
    }

    /// Whether the running command gets no reply.
    pub(super) fn is_silent(&self) -> bool {
        matches!(self.replies, ReplyMode::Off | ReplyMode::Skip)
    }

    /// Ends a command. SKIP counts commands.
    pub(super) fn command_over(&mut self) {
        match self.replies {
            ReplyMode::Skip => self.change().replies = ReplyMode::On,
            ReplyMode::SkipNext => self.change().replies = ReplyMode::Skip,
            ReplyMode::On | ReplyMode::Off => {}
        }
    }

    /// The subscribing command that was read is answered, or refused.
    pub(super) fn no_longer_subscribing(&mut self) {
        if self.upstream.subscribing.is_some() {
            self.change().upstream.subscribing = None;
        }
    }

    /// Ends the transaction, if one is open, and the watch.
    pub(super) fn end_transaction(&mut self) {
        self.change().multi = None;
        self.unwatch();
        self.client.about.lock().queued = None;
    }

    pub(super) fn unwatch(&mut self) {
        let watched = mem::take(&mut self.watch);
        if matches!(watched, Watch::Upstream)
            && let Some(dedicated) = &self.dedicated
        {
            // The command is sent here. Its reply is not needed.
            drop(dedicated.relay(Bytes::from_static(b"*1\r\n$7\r\nUNWATCH\r\n"), 1, self.resp3));
            self.skip_reply();
        }
        self.release_dedicated();
    }

    /// Returns the session to the state of a new connection (RESET).
    pub(super) fn reset(&mut self, worker: &Worker) {
        let mut state = self.change();
        // The connection is dropped, not released: it still has the client's state.
        state.dedicated = None;
        state.upstream = UpstreamState::default();
        state.asks_upstream = false;
        state.tracker = None;
        state.subscriptions = None;
        state.replies = ReplyMode::On;
        drop(state);
        self.note_subscriptions();
        self.end_transaction();
        let mut about = self.client.about.lock();
        (about.database, about.tracking, about.moves) = (0, None, Moves::default());
        drop(about);
        self.set_resp3(false);
        self.change_names(|about| about.name = "".into());
        self.become_default(worker);
    }

    /// Bytes of memory that names, the transaction, watched keys, subscriptions, prefixes of tracking and
    /// undelivered pushes occupy.
    #[inline]
    pub fn owned(&self) -> usize {
        let special = self.unusual || !matches!(self.watch, Watch::Nothing);
        self.names + if special { self.owned_in_special_state() } else { 0 }
    }
    #[cold]
    fn owned_in_special_state(&self) -> usize {
        self.multi.as_ref().map_or(0, |multi| multi.queue.owned())
            + self.watch.owned()
            + self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.bytes)
            + self.tracker.as_ref().map_or(0, |tracker| tracker.bytes)
            + self.push_bytes()
    }
}

/// A kind of backend. Each has its functions in [`executor`](super::executor).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Backend {
    /// The memory tier has all entries.
    Memory,
    /// The memory tiers of all nodes together have all entries, each key in that of its owner.
    SharedStore,
    /// A Redis server has the entries. The memory tier has copies.
    Upstream,
    /// A store on this machine has the entries. The memory tier has copies.
    LocalStore,
    /// The source has values and nothing else: GET and MGET, and SET, MSET and DEL if it takes
    /// writes.
    ValueSource,
}
impl Backend {
    pub(super) fn of(group: &Group) -> Backend {
        match group.source.kind() {
            _ if group.is_store() && group.peers.is_some() => Backend::SharedStore,
            SourceKind::Memory => Backend::Memory,
            SourceKind::Redis(_) => Backend::Upstream,
            SourceKind::Store(_) | SourceKind::Table(_) => Backend::LocalStore,
            SourceKind::Values(_) => Backend::ValueSource,
        }
    }
}
