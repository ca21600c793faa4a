//! Who sees every command (MONITOR), for those commands that a Redis source does not see because they are answered here.
use super::{
    Client,
    inbox::{Backlog, Message},
};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The clients that monitor.
#[derive(Debug, Default)]
pub struct Monitors {
    count: AtomicUsize,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    /// Is there any?
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }
    /// Shows `line` to all of them.
    #[cold]
    pub(crate) fn show(&self, line: &Bytes, backlog: &Backlog) {
        for client in &*self.clients.lock() {
            client.post(Message::Monitored(line.clone()), backlog);
        }
    }
    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Client>>)) {
        let mut clients = self.clients.lock();
        change(&mut clients);
        self.count.store(clients.len(), Relaxed);
    }
}

/// A client that monitors, until this is dropped.
#[derive(Debug)]
pub(crate) struct Monitoring {
    clients: Arc<super::Clients>,
    id: u64,
}
impl super::Clients {
    /// The clients that monitor.
    #[inline]
    pub fn monitors(&self) -> &Monitors {
        &self.monitors
    }
    /// Has a client see every command.
    pub(crate) fn monitor(self: &Arc<Self>, client: Arc<Client>) -> Monitoring {
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
