//! Reply affinity: all fetches of whole replies about one key use one fixed connection, possibly on
//! another core.
//!
//! Two replies about a key that were fetched over two connections cannot be cached side by side:
//! one may be older than the other while the invalidation is still in transit. On one connection
//! the replies of a key stay in order. The cost is that a miss may send a message to another core.
use crate::fetch::Fetch;
use parking_lot::Mutex;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A fetch, and the index of its connection on the receiving core.
pub(super) type RoutedFetch = (usize, Fetch);

/// Every connection of all cores that fetches.
#[derive(Default)]
pub(super) struct AffinityTable(Mutex<Vec<FetchConnection>>);

struct FetchConnection {
    core: u32,
    index: usize,
    fetches: UnboundedSender<RoutedFetch>,
}

/// One core's connections in the [`AffinityTable`], until it is dropped.
pub(super) struct ReplyAffinity {
    table: Arc<AffinityTable>,
    core: u32,
}
impl Drop for ReplyAffinity {
    fn drop(&mut self) {
        self.table.0.lock().retain(|connection| connection.core != self.core);
    }
}

impl ReplyAffinity {
    /// Adds a core with this many connections. The receiver gets the fetches that other cores send;
    /// it ends when the affinity is dropped.
    pub(super) fn add(
        table: &Arc<AffinityTable>,
        core: u32,
        connections: usize,
    ) -> (ReplyAffinity, UnboundedReceiver<RoutedFetch>) {
        let (fetches, receiver) = unbounded_channel();
        let mut all = table.0.lock();
        all.extend((0..connections).map(|index| FetchConnection { core, index, fetches: fetches.clone() }));
        // Sorted, so that a key keeps its connection while cores are added.
        all.sort_by_key(|connection| (connection.core, connection.index));
        drop(all);
        (ReplyAffinity { table: table.clone(), core }, receiver)
    }

    /// Sends an admitted fetch to the core of its key's connection. Returns it, with the index of
    /// the connection, if that is this core.
    pub(super) fn route(&self, fetch: Fetch) -> Option<RoutedFetch> {
        let mut hasher = DefaultHasher::new();
        fetch.key().hash(&mut hasher);
        let all = self.table.0.lock();
        match all.get(hasher.finish() as usize % all.len().max(1)) {
            Some(connection) if connection.core == self.core => Some((connection.index, fetch)),
            // An unsent fetch of a core that has just ended goes over the same index here.
            Some(connection) => connection.fetches.send((connection.index, fetch)).err().map(|unsent| unsent.0),
            None => Some((0, fetch)),
        }
    }
}
