//! The replicas that are connected to this primary, and how far each has come.
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};
use tokio::sync::Notify;

/// A connected replica. Its sender writes, others read.
#[derive(Debug)]
pub struct ConnectedReplica {
    /// Its address, as this process sees it.
    pub ip: IpAddr,
    /// Where it serves the Redis protocol itself; 0: nowhere.
    pub port: u16,
    is_copying: AtomicBool,
    acknowledged: AtomicU64,
    acknowledged_at: AtomicU64,
}

impl ConnectedReplica {
    /// One that has just connected.
    pub(super) fn new(ip: IpAddr, port: u16, now: Millis) -> ConnectedReplica {
        ConnectedReplica {
            ip,
            port,
            is_copying: AtomicBool::new(true),
            acknowledged: AtomicU64::new(0),
            acknowledged_at: AtomicU64::new(now),
        }
    }

    /// Whether a full copy is under way.
    pub fn is_copying(&self) -> bool {
        self.is_copying.load(Relaxed)
    }
    pub(super) fn set_copying(&self, is_copying: bool) {
        self.is_copying.store(is_copying, Relaxed);
    }

    /// The number of changes that it has.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Relaxed)
    }
    /// When it last said so.
    pub fn acknowledged_at(&self) -> Millis {
        self.acknowledged_at.load(Relaxed)
    }
    pub(super) fn acknowledge(&self, changes: u64, now: Millis) {
        self.acknowledged.store(changes, Relaxed);
        self.acknowledged_at.store(now, Relaxed);
    }
}

#[derive(Debug, Default)]
pub struct ConnectedReplicas {
    all: Mutex<Vec<Arc<ConnectedReplica>>>,
    /// A replica has acknowledged something.
    pub(super) acknowledged: Notify,
    /// A client waits for acknowledgements (WAIT): changes must be sent at once.
    pub(super) hurry: Notify,
}

impl ConnectedReplicas {
    /// The replicas, in order of their arrival.
    pub fn list(&self) -> Vec<Arc<ConnectedReplica>> {
        self.all.lock().clone()
    }

    /// Lists a replica until the guard is dropped.
    pub(super) fn list_one(&self, replica: &Arc<ConnectedReplica>) -> ListedReplica<'_> {
        self.all.lock().push(replica.clone());
        ListedReplica(self, replica.clone())
    }

    /// The number of replicas that have at least so many changes.
    pub fn count_with(&self, changes: u64) -> usize {
        self.all.lock().iter().filter(|replica| !replica.is_copying() && replica.acknowledged() >= changes).count()
    }
}

pub(super) struct ListedReplica<'r>(&'r ConnectedReplicas, Arc<ConnectedReplica>);
impl Drop for ListedReplica<'_> {
    fn drop(&mut self) {
        self.0.all.lock().retain(|replica| !Arc::ptr_eq(replica, &self.1));
        self.0.acknowledged.notify_waiters();
    }
}
