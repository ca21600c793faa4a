//! Who sees every command (MONITOR), for those commands that a Redis source does not see because
//! they are answered here.
use super::{
    client::Client,
    push_inbox::{Backlog, PushMessage},
};
use bytes::Bytes;
use larder_base::special::Switch;
use parking_lot::Mutex;
use std::sync::Arc;

/// The clients that monitor.
#[derive(Debug, Default)]
pub struct Monitors {
    pub(crate) is_any: Switch,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    /// Is there any?
    #[inline]
    pub fn any(&self) -> bool {
        self.is_any.is_on()
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
        self.is_any.set(!clients.is_empty());
    }
}
