//! Who is connected: what CLIENT LIST shows, CLIENT KILL ends, and the acceptor balances.
//!
//! A connection belongs to one worker, which alone writes to its [`Client`] (except for [`Client::close`]). Each worker has
//! its own map of clients, locked only when a connection opens or closes or when somebody lists them.
//!
//! No sockets in here: `net` serves them, and `dispatch` has the commands. Push messages for a client are in [`inbox`], who has subscribed
//! in [`pubsub`], who may hold copies of which keys in [`tracking`], and open SCAN cursors in [`Cursors`].
mod cursors;
pub mod inbox;
pub mod monitors;
mod name;
pub(crate) mod pubsub;
pub(crate) mod tracking;

pub use cursors::Cursors;
pub use pubsub::PubSub;
pub use tracking::{Totals, Tracking};

use inbox::{Backlog, Inbox, Message, Posted};
use larder_engine::Millis;
use monitors::Monitors;
use name::Name;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::Waker,
};

/// Connections beyond `max-connections` that the admin listener may have.
const ADMIN_RESERVE: usize = 16;

/// One connection of the Redis protocol.
#[derive(Debug)]
pub struct Client {
    /// Unique for the life of the process, from 1, in order of arrival.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// Our end of the connection.
    pub local: SocketAddr,
    /// The worker that serves it.
    pub worker: usize,
    /// When it was accepted.
    pub connected: Millis,
    /// Last command, as an index into the table of commands (`u16::MAX`: none yet). Written by dispatch.
    pub command: AtomicU16,
    /// Its name, if it is one that is forwarded.
    pub forwarded: Name,
    /// Its command waits for something to happen at the source (BLPOP): when the client is gone or to go, so is the command.
    pub blocked: AtomicBool,
    /// It has subscribed to something, or sees every command (MONITOR): its silence says nothing.
    pub subscribed: AtomicBool,
    /// What is to be told to it unasked.
    pub inbox: Inbox,
    /// What the client said about itself.
    pub about: Mutex<About>,
    active: AtomicU64,
    closing: AtomicU8,
    waker: Waker,
}

/// What a client said about itself, and the state of its session that CLIENT LIST shows.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// CLIENT SETNAME.
    pub name: Arc<str>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Arc<str>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: Arc<str>,
    /// The user it authenticated as.
    pub user: Arc<str>,
    /// SELECTed database.
    pub database: u32,
    /// 2 or 3.
    pub protocol: u8,
    /// Commands queued by MULTI; `None` outside of one.
    pub queued: Option<usize>,
    /// Channels, patterns and shard channels that it has subscribed to.
    pub subscriptions: [usize; 3],
    /// CLIENT TRACKING, while it is on.
    pub tracking: Option<Tracks>,
    /// CLIENT MAINT_NOTIFICATIONS.
    pub moves: Moves,
    /// What its command waits on at the source.
    pub waits: Option<Waits>,
}

/// How a client tracks.
#[derive(Debug, Clone, Copy)]
pub struct Tracks {
    /// BCAST.
    pub bcast: bool,
    /// The client that is told instead; 0: none.
    pub redirect: u64,
    /// That client is gone.
    pub broken: bool,
}

/// A connection to the source that a client waits on.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    /// The source's number of it.
    pub connection: i64,
    /// The source has been asked, or will be, to end the wait (CLIENT UNBLOCK).
    pub unblocked: bool,
}

/// Whether, and in which words, a client wants to be told that it has to move to another connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moves {
    /// It has not asked.
    #[default]
    Untold,
    /// It connects again to where it was told to (`moving-endpoint`).
    Elsewhere,
    /// It connects again to the address that it has (`moving-endpoint-type none`).
    Back,
}

impl Client {
    /// A connection that just came in, whose task `waker` wakes. Outside of [`Clients`] only tests need one (`Waker::noop()`).
    pub fn new(id: u64, peer: SocketAddr, local: SocketAddr, worker: usize, now: Millis, waker: Waker) -> Client {
        Client {
            id,
            peer,
            local,
            worker,
            connected: now,
            command: AtomicU16::new(u16::MAX),
            forwarded: Name::default(),
            about: Mutex::new(About { protocol: 2, ..About::default() }),
            active: AtomicU64::new(now),
            blocked: AtomicBool::new(false),
            subscribed: AtomicBool::new(false),
            inbox: Inbox::default(),
            closing: AtomicU8::new(0),
            waker,
        }
    }

    /// When the client last sent or took something.
    pub fn active(&self) -> Millis {
        self.active.load(Relaxed)
    }

    /// The client that was to hear of what it tracks is gone.
    pub(crate) fn note_broken_redirection(&self) {
        if let Some(tracks) = &mut self.about.lock().tracking {
            tracks.broken = true;
        }
    }
    /// Was that noted since it began to track?
    pub(crate) fn is_redirection_broken(&self) -> bool {
        self.about.lock().tracking.is_some_and(|tracks| tracks.broken)
    }

    /// Does it wait for something, for however long?
    pub(crate) fn waits(&self) -> bool {
        self.blocked.load(Relaxed) || self.subscribed.load(Relaxed)
    }

    /// Notes a sign of life.
    pub(crate) fn touch(&self, now: Millis) {
        self.active.store(now, Relaxed);
    }

    /// Has its task deliver a message, from any thread; false if it is gone. A client that leaves more lying than `backlog` allows is cut off.
    pub fn post(&self, message: Message, backlog: &Backlog) -> bool {
        match self.inbox.post(message, backlog) {
            Posted::Wake => self.waker.wake_by_ref(),
            Posted::Queued => {}
            Posted::TooMuch => self.close(),
            Posted::Gone => return false,
        }
        true
    }

    /// Ends the connection, from any thread: replies that are ready are still sent if the socket takes them (CLIENT KILL).
    pub fn close(&self) {
        self.ask(Closing::Now);
    }

    /// Has the connection tell its client that it is to move.
    pub(crate) fn tell_to_move(&self) {
        self.ask(Closing::Moving);
    }

    /// Ends the connection once what it has begun is answered (drain, idle time over).
    pub(crate) fn finish(&self) {
        self.ask(Closing::WhenIdle);
    }

    fn ask(&self, closing: Closing) {
        // Waking a task synchronises with its next poll, which therefore sees the flag.
        self.closing.fetch_max(closing as u8, Relaxed);
        self.waker.wake_by_ref();
    }

    /// Has somebody asked for the end?
    pub(crate) fn closing(&self) -> Option<Closing> {
        match self.closing.load(Relaxed) {
            0 => None,
            1 => Some(Closing::Moving),
            2 => Some(Closing::WhenIdle),
            _ => Some(Closing::Now),
        }
    }
}

/// How a connection is asked to end; the later wins over the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// By the client, which is told that it has to move.
    Moving = 1,
    WhenIdle = 2,
    Now = 3,
}

/// All connections of the process.
#[derive(Debug)]
pub struct Clients {
    workers: Vec<PerWorker>,
    next_id: AtomicU64,
    limit: usize,
    monitors: Monitors,
}

#[derive(Debug, Default)]
struct PerWorker {
    /// Connections of every protocol.
    open: AtomicUsize,
    redis: Mutex<HashMap<u64, Arc<Client>>>,
}

impl Clients {
    /// For `workers` cores and at most `limit` connections (`max-connections`).
    pub fn new(workers: usize, limit: usize) -> Clients {
        Clients {
            workers: (0..workers.max(1)).map(|_| PerWorker::default()).collect(),
            next_id: AtomicU64::new(1),
            limit,
            monitors: Monitors::default(),
        }
    }

    /// The connection limit in force (`max-connections`, or less if the process may not open as many files).
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Open connections of all protocols.
    pub fn open(&self) -> usize {
        self.per_worker().sum()
    }

    /// Open connections of all protocols, worker by worker.
    pub fn per_worker(&self) -> impl Iterator<Item = usize> + '_ {
        self.workers.iter().map(|w| w.open.load(Relaxed))
    }

    /// Connections of the Redis protocol, in order of arrival.
    pub fn list(&self) -> Vec<Arc<Client>> {
        let mut all: Vec<_> =
            self.workers.iter().flat_map(|w| w.redis.lock().values().cloned().collect::<Vec<_>>()).collect();
        all.sort_unstable_by_key(|client| client.id);
        all
    }

    /// How many track (CLIENT TRACKING).
    pub fn tracking(&self) -> usize {
        let tracking = |w: &PerWorker| w.redis.lock().values().filter(|c| c.about.lock().tracking.is_some()).count();
        self.workers.iter().map(tracking).sum()
    }

    /// The Redis connection with this id.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.workers.iter().find_map(|w| w.redis.lock().get(&id).cloned())
    }

    /// Visits the Redis connections of one worker under its lock; `visit` must not open or close any.
    pub(crate) fn visit(&self, worker: usize, mut visit: impl FnMut(&Client)) {
        for client in self.workers[worker].redis.lock().values() {
            visit(client);
        }
    }

    /// Admits a connection on the worker with the fewest, counting it there until the [`Seat`] is dropped. `None` if all
    /// are taken; a few more are kept for the `admin` listener, which is needed most when the process is full.
    /// Called by one thread only, so the count cannot pass the limit.
    pub(crate) fn admit(self: &Arc<Self>, admin: bool) -> Option<Seat> {
        let reserve = if admin { ADMIN_RESERVE } else { 0 };
        if self.open() >= self.limit + reserve {
            return None;
        }
        let (worker, _) = self.per_worker().enumerate().min_by_key(|(_, open)| *open)?;
        self.workers[worker].open.fetch_add(1, Relaxed);
        Some(Seat { clients: self.clone(), worker })
    }

    /// Lists a Redis connection until the [`Listed`] is dropped.
    pub(crate) fn register(
        self: &Arc<Self>,
        peer: SocketAddr,
        local: SocketAddr,
        worker: usize,
        now: Millis,
        waker: Waker,
    ) -> Listed {
        let id = self.next_id.fetch_add(1, Relaxed);
        let client = Arc::new(Client::new(id, peer, local, worker, now, waker));
        self.workers[worker].redis.lock().insert(id, client.clone());
        Listed { clients: self.clone(), client }
    }
}

/// A counted connection on a worker.
#[derive(Debug)]
pub(crate) struct Seat {
    clients: Arc<Clients>,
    pub(crate) worker: usize,
}
impl Drop for Seat {
    fn drop(&mut self) {
        self.clients.workers[self.worker].open.fetch_sub(1, Relaxed);
    }
}

/// A Redis connection in the list.
#[derive(Debug)]
pub(crate) struct Listed {
    clients: Arc<Clients>,
    pub(crate) client: Arc<Client>,
}
impl Drop for Listed {
    fn drop(&mut self) {
        let removed = self.clients.workers[self.client.worker].redis.lock().remove(&self.client.id);
        self.client.inbox.close();
        // Freed here, after the lock is gone.
        drop(removed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_goes_to_the_worker_with_the_fewest() {
        let clients = Arc::new(Clients::new(3, 100));
        let mut seats: Vec<_> = (0..8).map(|_| clients.admit(false).expect("room")).collect();
        assert_eq!(clients.per_worker().collect::<Vec<_>>(), [3, 3, 2]);
        // Worker 1 loses all of its own; the next ones go there.
        seats.retain(|seat| seat.worker != 1);
        let more: Vec<_> = (0..2).map(|_| clients.admit(false).expect("room")).collect();
        assert!(more.iter().all(|seat| seat.worker == 1));
        drop((seats, more));
        assert_eq!(clients.open(), 0);
    }

    #[test]
    fn the_limit_holds_and_admin_has_a_reserve() {
        let clients = Arc::new(Clients::new(2, 2));
        let seats = [clients.admit(false), clients.admit(false)];
        assert!(seats.iter().all(Option::is_some));
        assert!(clients.admit(false).is_none());
        let reserve: Vec<_> = (0..ADMIN_RESERVE).map(|_| clients.admit(true)).collect();
        assert!(reserve.iter().all(Option::is_some));
        assert!(clients.admit(true).is_none());
        drop(seats);
        assert!(clients.admit(false).is_none(), "the reserve is still out");
        drop(reserve);
        assert!(clients.admit(false).is_some());
    }

    #[test]
    fn listed_while_connected_and_told_to_end() {
        let clients = Arc::new(Clients::new(2, 10));
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let register = |worker| clients.register(address, address, worker, 0, Waker::noop().clone());
        let (first, second) = (register(1), register(0));
        let ids: Vec<_> = clients.list().iter().map(|client| client.id).collect();
        assert_eq!(ids, [first.client.id, second.client.id], "in order of arrival");
        second.client.finish();
        assert_eq!(second.client.closing(), Some(Closing::WhenIdle));
        clients.get(second.client.id).expect("listed").close();
        second.client.finish();
        assert_eq!(second.client.closing(), Some(Closing::Now), "the stronger wish stays");
        assert_eq!(first.client.closing(), None);
        drop(second);
        assert_eq!(clients.list().len(), 1);
    }
}
