//! Which client may hold a copy of which key: one table for all cores, told of changes by the
//! memory tier.
//!
//! ```text
//! client reads ─► remember (under the key's shard lock) ─► keys: key → clients
//! any core changes a key ─► changed (under the same lock) ─► outgoing, and the prefixes' keys ─► settled (no lock) ─► inboxes
//! ```
//!
//! Lock order: the tier's shards, this table, an inbox or what is known about a client.
use super::{
    client::{Client, Tracks},
    push_inbox::{Backlog, PushMessage},
};
use bytes::Bytes;
use indexmap::IndexMap;
use larder_base::buffers::{BufferKind, TableShare};
use larder_engine::{Key, Listener};
use larder_proto::resp::encode;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    ops::Bound::{Included, Unbounded},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    },
};

/// About what a key and its place in the table occupy, besides its clients.
fn owned(key: &[u8]) -> usize {
    key.len() + 128
}

/// The table of invalidations.
#[derive(Debug)]
pub struct Tracking {
    table: Mutex<Table>,
    /// There is something to send. Cleared only when it is sent, so that the command that caused it
    /// does not answer before.
    unsent: AtomicBool,
    backlog: Arc<Backlog>,
}

#[derive(Debug)]
struct Table {
    trackers: HashMap<u64, Tracker>,
    /// The clients that have read a key since it changed, by number. Those that track no more stay
    /// until the key changes.
    keys: IndexMap<Box<[u8]>, Vec<u64>>,
    /// Clients in all of `keys`.
    items: usize,
    /// About what `keys` occupies.
    bytes: usize,
    share: TableShare,
    /// `tracking-table-max-keys`; 0: no bound.
    max_keys: usize,
    /// BCAST.
    prefixes: BTreeMap<Box<[u8]>, Prefix>,
    /// Prefixes with keys that have changed.
    changed: Vec<Box<[u8]>>,
    outgoing: Vec<(u64, Option<Bytes>)>,
}

/// A client that tracks, as the table sees it.
#[derive(Debug)]
struct Tracker {
    client: Arc<Client>,
    mode: TrackingMode,
    redirect: Option<Arc<Client>>,
}

/// What a client asked of CLIENT TRACKING that the table must know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrackingMode {
    pub bcast: bool,
    pub noloop: bool,
}

#[derive(Debug, Default)]
struct Prefix {
    clients: Vec<u64>,
    /// Keys that have changed, and who changed them last.
    changed: BTreeMap<Box<[u8]>, u64>,
}

/// What INFO shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub keys: usize,
    pub items: usize,
    pub prefixes: usize,
}

impl Tracking {
    /// Remembers at most `max_keys` keys (0: any number).
    pub fn new(max_keys: usize, backlog: Arc<Backlog>) -> Tracking {
        let table = Table {
            trackers: HashMap::new(),
            keys: IndexMap::new(),
            items: 0,
            bytes: 0,
            share: backlog.buffers().table(BufferKind::Tracking),
            max_keys,
            prefixes: BTreeMap::new(),
            changed: Vec::new(),
            outgoing: Vec::new(),
        };
        Tracking { table: Mutex::new(table), unsent: AtomicBool::new(false), backlog }
    }

    /// How much is in the table.
    pub fn totals(&self) -> Totals {
        let table = self.table.lock();
        Totals { keys: table.keys.len(), items: table.items, prefixes: table.prefixes.len() }
    }

    pub fn max_keys(&self) -> usize {
        self.table.lock().max_keys
    }
    /// Changes it; those that are too many are forgotten, which their clients are told.
    pub fn set_max_keys(&self, max_keys: usize) {
        let mut table = self.table.lock();
        table.max_keys = max_keys;
        table.make_room();
        self.send(&mut table);
    }

    /// A client begins to track, or tracks otherwise from now on, the prefixes in addition.
    pub fn add<'a>(
        &self,
        client: &Arc<Client>,
        mode: TrackingMode,
        redirect: Option<Arc<Client>>,
        prefixes: impl Iterator<Item = &'a [u8]>,
    ) {
        let mut table = self.table.lock();
        client.about.lock().tracking =
            Some(Tracks { bcast: mode.bcast, redirect: redirect.as_ref().map_or(0, |to| to.id), broken: false });
        table.trackers.insert(client.id, Tracker { client: client.clone(), mode, redirect });
        for prefix in prefixes {
            let clients = &mut table.prefixes.entry(prefix.into()).or_default().clients;
            if !clients.contains(&client.id) {
                clients.push(client.id);
            }
        }
    }

    /// A client tracks no more.
    pub fn remove<'a>(&self, id: u64, prefixes: impl Iterator<Item = &'a [u8]>) {
        let mut table = self.table.lock();
        for name in prefixes {
            let Some(prefix) = table.prefixes.get_mut(name) else { continue };
            prefix.clients.retain(|client| *client != id);
            if prefix.clients.is_empty() {
                table.prefixes.remove(name);
            }
        }
        if let Some(tracker) = table.trackers.remove(&id) {
            tracker.client.about.lock().tracking = None;
        }
        if table.trackers.is_empty() {
            table.forget_keys();
        }
    }

    /// A client has read these keys. To be called under the locks that it read them under, or
    /// before it reads them if it is told what comes of that only behind the reply.
    pub fn remember<'a>(&self, id: u64, keys: impl Iterator<Item = &'a [u8]>) {
        let mut table = self.table.lock();
        for key in keys {
            table.remember(id, key);
        }
        table.make_room();
        self.note(&table);
    }

    fn note(&self, table: &Table) {
        if !table.outgoing.is_empty() || !table.changed.is_empty() {
            self.unsent.store(true, Release);
        }
    }

    fn send(&self, table: &mut Table) {
        for (id, keys) in std::mem::take(&mut table.outgoing) {
            table.tell(id, keys, &self.backlog);
        }
        let mut told = Vec::new();
        for name in std::mem::take(&mut table.changed) {
            let Some(prefix) = table.prefixes.get_mut(&name) else { continue };
            let changed = std::mem::take(&mut prefix.changed);
            // The prefix has gone and come again since its name was noted.
            if changed.is_empty() {
                continue;
            }
            let all = array(changed.keys());
            for &id in &prefix.clients {
                let noloop = table.trackers.get(&id).is_some_and(|tracker| tracker.mode.noloop);
                if !noloop || changed.values().all(|by| *by != id) {
                    told.push((id, all.clone()));
                } else if changed.values().any(|by| *by != id) {
                    told.push((id, array(changed.iter().filter(|(_, by)| **by != id).map(|(key, _)| key))));
                }
            }
        }
        for (id, keys) in told {
            table.tell(id, Some(keys), &self.backlog);
        }
        self.unsent.store(false, Release);
    }
}

impl Table {
    fn remember(&mut self, id: u64, key: &[u8]) {
        // Looked up first: most keys that are read are known.
        let clients = match self.keys.get_mut(key) {
            Some(clients) => clients,
            None => {
                self.bytes += owned(key);
                self.keys.entry(key.into()).or_default()
            }
        };
        if let Err(place) = clients.binary_search(&id) {
            clients.insert(place, id);
            self.items += 1;
            self.bytes += size_of::<u64>();
        }
    }

    fn forget_keys(&mut self) {
        self.keys = IndexMap::new();
        (self.items, self.bytes) = (0, 0);
        self.share.settle(0);
    }

    /// Forgets keys, any, until there are no more than may be.
    fn make_room(&mut self) {
        while self.max_keys > 0 && self.keys.len() > self.max_keys || self.bytes > self.share.max() {
            if let Some((key, clients)) = self.keys.swap_remove_index(fastrand::usize(..self.keys.len())) {
                self.invalidate(&key, &clients, 0);
            }
        }
        self.share.settle(self.bytes);
    }

    fn invalidate(&mut self, key: &[u8], clients: &[u64], by: u64) {
        self.items -= clients.len();
        self.bytes -= owned(key) + size_of_val(clients);
        let keys = array([key].into_iter());
        for id in clients {
            let tracker = self.trackers.get(id);
            if tracker.is_some_and(|tracker| !tracker.mode.bcast && (!tracker.mode.noloop || *id != by)) {
                self.outgoing.push((*id, Some(keys.clone())));
            }
        }
    }

    fn tell(&mut self, id: u64, keys: Option<Bytes>, backlog: &Backlog) {
        let Some(tracker) = self.trackers.get(&id) else { return };
        match &tracker.redirect {
            None => {
                tracker.client.post(PushMessage::Invalidated { keys, redirected: false }, backlog);
            }
            Some(target) => {
                if !target.post(PushMessage::Invalidated { keys, redirected: true }, backlog) {
                    tracker.client.note_broken_redirection();
                    tracker.client.post(PushMessage::RedirectionBroken(target.id), backlog);
                }
            }
        }
    }
}

/// Keys as RESP has it.
fn array<K: AsRef<[u8]>>(keys: impl Iterator<Item = K>) -> Bytes {
    let keys: Vec<K> = keys.collect();
    encode(&keys.iter().map(AsRef::as_ref).collect::<Vec<_>>()).into()
}

/// Visits those of `prefixes` with which `key` begins, without looking at the others.
fn each_prefix<V>(prefixes: &mut BTreeMap<Box<[u8]>, V>, key: &[u8], mut visit: impl FnMut(&[u8], &mut V)) {
    let mut upto = key;
    // The last prefix up to a text has as much in common with the text as any prefix of the text.
    while let Some((prefix, value)) = prefixes.range_mut::<[u8], _>((Unbounded, Included(upto))).next_back() {
        let common = prefix.iter().zip(upto).take_while(|(a, b)| a == b).count();
        let mut shorter = common;
        if common == prefix.len() {
            visit(prefix, value);
            if common == 0 {
                return;
            }
            shorter -= 1;
        }
        upto = &upto[..shorter];
    }
}

impl Listener for Tracking {
    fn changed(&self, key: Key<'_>, by: u64) {
        let key = key.bytes();
        let mut table = self.table.lock();
        let table = &mut *table;
        each_prefix(&mut table.prefixes, key, |prefix, state| {
            if state.changed.is_empty() {
                table.changed.push(prefix.into());
            }
            state.changed.insert(key.into(), by);
        });
        if let Some(clients) = table.keys.swap_remove(key) {
            table.invalidate(key, &clients, by);
        }
        self.note(table);
    }

    fn swept(&self, key: Key<'_>) {
        self.changed(key, 0);
    }

    fn cleared(&self) {
        let mut table = self.table.lock();
        table.forget_keys();
        let everyone: Vec<u64> = table.trackers.keys().copied().collect();
        table.outgoing.extend(everyone.into_iter().map(|id| (id, None)));
        self.note(&table);
    }

    fn settled(&self) {
        if self.unsent.load(Acquire) {
            self.send(&mut self.table.lock());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_prefix_of_a_key_is_visited_once(
            prefixes in proptest::collection::btree_set("[ab]{0,4}", 0..12),
            key in "[ab]{0,6}",
        ) {
            let mut map: BTreeMap<Box<[u8]>, ()> = prefixes.iter().map(|prefix| (prefix.as_bytes().into(), ())).collect();
            let mut visited = Vec::new();
            each_prefix(&mut map, key.as_bytes(), |prefix, ()| visited.push(String::from_utf8_lossy(prefix).into_owned()));
            visited.sort();
            let expected: Vec<_> = prefixes.into_iter().filter(|prefix| key.starts_with(prefix.as_str())).collect();
            prop_assert_eq!(visited, expected);
        }
    }
}
