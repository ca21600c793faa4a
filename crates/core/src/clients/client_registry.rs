//! All connections of the process: a map for each worker, and how many there are.
use super::{
    client::Client,
    push_inbox::{Backlog, PushMessage},
};
use bytes::Bytes;
use larder_base::{
    buffers::{OpenFile, OpenFiles},
    special::Switch,
};
use larder_config::Address;
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::Waker,
};

/// Connections beyond `max-connections` that the admin listener may have.
const ADMIN_RESERVE: usize = 16;

/// All connections of the process.
#[derive(Debug)]
pub struct Clients {
    workers: Vec<WorkerClients>,
    next_id: AtomicU64,
    limit: usize,
    open_files: Arc<OpenFiles>,
    pub(crate) monitors: Monitors,
}

#[derive(Debug, Default)]
struct WorkerClients {
    /// Connections of every protocol.
    open: AtomicUsize,
    redis: Mutex<HashMap<u64, Arc<Client>>>,
}

impl Clients {
    /// For `workers` cores and at most `limit` connections (`max-connections`).
    pub fn new(workers: usize, limit: usize, open_files: Arc<OpenFiles>) -> Clients {
        Clients {
            workers: (0..workers.max(1)).map(|_| WorkerClients::default()).collect(),
            next_id: AtomicU64::new(1),
            limit,
            open_files,
            monitors: Monitors::default(),
        }
    }

    /// The connection limit in force (`max-connections`, or less if the process may not open as
    /// many files).
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
        let tracking =
            |w: &WorkerClients| w.redis.lock().values().filter(|c| c.about.lock().tracking.is_some()).count();
        self.workers.iter().map(tracking).sum()
    }

    /// The Redis connection with this id.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.workers.iter().find_map(|w| w.redis.lock().get(&id).cloned())
    }

    /// Visits the Redis connections of one worker under its lock; `visit` must not open or close
    /// any.
    pub fn visit(&self, worker: usize, mut visit: impl FnMut(&Client)) {
        for client in self.workers[worker].redis.lock().values() {
            visit(client);
        }
    }

    /// Admits a connection on the worker with the fewest, counting it there until the [`Seat`] is
    /// dropped. A few more are kept for the `admin` listener, which is needed most when the process
    /// is full. Called by one thread only, so the count cannot pass the limit.
    ///
    /// # Errors
    /// Which limit is reached.
    pub fn admit(self: &Arc<Self>, admin: bool) -> Result<Seat, FullBy> {
        let reserve = if admin { ADMIN_RESERVE } else { 0 };
        if self.open() >= self.limit + reserve {
            return Err(FullBy::MaxConnections);
        }
        let file = self.open_files.take(reserve).ok_or(FullBy::OpenFiles)?;
        let worker = self.per_worker().enumerate().min_by_key(|(_, open)| *open).map_or(0, |(worker, _)| worker);
        self.workers[worker].open.fetch_add(1, Relaxed);
        Ok(Seat { clients: self.clone(), worker, _file: file })
    }

    /// Lists a Redis connection until the [`Listed`] is dropped.
    pub fn register(
        self: &Arc<Self>,
        peer: Address,
        local: Address,
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

/// The limit that refuses a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullBy {
    MaxConnections,
    /// The files that the process may open.
    OpenFiles,
}

/// A counted connection on a worker.
#[derive(Debug)]
pub struct Seat {
    clients: Arc<Clients>,
    pub worker: usize,
    _file: OpenFile,
}
impl Drop for Seat {
    fn drop(&mut self) {
        self.clients.workers[self.worker].open.fetch_sub(1, Relaxed);
    }
}

/// A Redis connection in the list.
#[derive(Debug)]
pub struct Listed {
    clients: Arc<Clients>,
    /// The connection.
    pub client: Arc<Client>,
}
impl Drop for Listed {
    fn drop(&mut self) {
        let removed = self.clients.workers[self.client.worker].redis.lock().remove(&self.client.id);
        self.client.push_inbox.close();
        // Freed here, after the lock is gone.
        drop(removed);
    }
}

/// The clients that see every command (MONITOR), for those commands that a Redis source does not see
/// because they are answered here.
#[derive(Debug, Default)]
pub struct Monitors {
    pub(crate) is_any: Switch,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    /// Shows `line` to all of them.
    #[cold]
    pub fn show(&self, line: &Bytes, backlog: &Backlog) {
        for client in &*self.clients.lock() {
            client.post(PushMessage::Monitored(line.clone()), backlog);
        }
    }
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Client>>)) {
        let mut clients = self.clients.lock();
        change(&mut clients);
        self.is_any.set(!clients.is_empty());
    }
}

/// A client that monitors, until this is dropped.
#[derive(Debug)]
pub struct Monitoring {
    clients: Arc<Clients>,
    id: u64,
}
impl Clients {
    pub fn monitors(&self) -> &Monitors {
        &self.monitors
    }
    /// Has a client see every command.
    pub fn monitor(self: &Arc<Self>, client: Arc<Client>) -> Monitoring {
        let id = client.id;
        self.monitors.change(|clients| clients.push(client));
        Monitoring { clients: self.clone(), id }
    }
}
impl Drop for Monitoring {
    fn drop(&mut self) {
        self.clients.monitors.change(|clients| clients.retain(|client| client.id != self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Closing, *};

    #[test]
    fn each_connection_goes_to_the_worker_with_the_fewest() {
        let clients = Arc::new(Clients::new(3, 100, Arc::default()));
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
        let clients = Arc::new(Clients::new(2, 2, Arc::default()));
        let seats = [clients.admit(false), clients.admit(false)];
        assert!(seats.iter().all(Result::is_ok));
        assert_eq!(clients.admit(false).err(), Some(FullBy::MaxConnections));
        let reserve: Vec<_> = (0..ADMIN_RESERVE).map(|_| clients.admit(true)).collect();
        assert!(reserve.iter().all(Result::is_ok));
        assert!(clients.admit(true).is_err());
        drop(seats);
        assert!(clients.admit(false).is_err(), "the reserve is still out");
        drop(reserve);
        assert!(clients.admit(false).is_ok());
    }

    #[test]
    fn listed_while_connected_and_told_to_end() {
        let clients = Arc::new(Clients::new(2, 10, Arc::default()));
        let address = Address::Ip(([127, 0, 0, 1], 1).into());
        let register = |worker| clients.register(address.clone(), address.clone(), worker, 0, Waker::noop().clone());
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
