//! Who sees every command (MONITOR), for those commands that a Redis source does not see because
//! they are answered here.
use super::{
    client::Client,
    push_inbox::{Backlog, PushMessage},
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
    pub fn show(&self, line: &Bytes, backlog: &Backlog) {
        for client in &*self.clients.lock() {
            client.post(PushMessage::Monitored(line.clone()), backlog);
        }
    }
    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<Arc<Client>>)) {
        let mut clients = self.clients.lock();
        change(&mut clients);
        self.count.store(clients.len(), Relaxed);
    }
}
