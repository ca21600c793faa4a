//! The logs of all replicated groups, which are kept while replicas are connected and for a while
//! after.
use super::{
    change_log::{ChangeLog, LogCursor, STRIPES, changes_before},
    wake::Wake,
};
use larder_engine::{Cache, ListenerKind, Listening, Millis};
use parking_lot::Mutex;
use std::sync::Arc;

/// How long changes are logged after the last replica has disconnected, ms: it can resume within
/// this time.
pub(super) const KEPT_FOR: Millis = 600_000;

#[derive(Debug)]
pub(super) struct LoggedGroup {
    pub(super) name: String,
    pub(super) cache: Arc<Cache>,
    pub(super) log: Arc<ChangeLog>,
}

/// The logs of all replicated groups.
#[derive(Debug)]
pub(super) struct ChangeLogs {
    pub(super) groups: Vec<LoggedGroup>,
    pub(super) wake: Arc<Wake>,
    life: Mutex<Life>,
}

/// The time from the first replica on, in which every change is logged.
#[derive(Debug, Default)]
struct Life {
    /// Distinguishes it from all others; 0: nothing is logged.
    id: u64,
    listening: Vec<Listening>,
    replicas: usize,
    /// When the last replica disconnected.
    idle_since: Millis,
}

/// A place in every log, the same moment in all of them.
pub(super) type Cut = Vec<LogCursor>;

/// Changes before a cut.
pub(super) fn changes_in(cut: &[LogCursor]) -> u64 {
    cut.iter().map(changes_before).sum()
}

impl ChangeLogs {
    /// Logs of at most `backlog` bytes each.
    pub(super) fn new(groups: impl Iterator<Item = (String, Arc<Cache>)>, backlog: usize) -> ChangeLogs {
        let wake = Arc::<Wake>::default();
        let logged = |(name, cache): (String, Arc<Cache>)| {
            let log = Arc::new(ChangeLog::new(backlog, wake.clone()));
            cache.set_listener(ListenerKind::Replication, log.clone());
            LoggedGroup { name, cache, log }
        };
        ChangeLogs { groups: groups.map(logged).collect(), wake, life: Mutex::default() }
    }

    /// A replica has connected: every change is logged from now on, if it was not already. Gives
    /// the id of the logs.
    pub(super) fn attach(&self) -> u64 {
        let mut life = self.life.lock();
        life.replicas += 1;
        if life.id == 0 {
            life.id = fastrand::u64(1..);
            life.listening = self.groups.iter().map(|group| group.cache.listen(ListenerKind::Replication)).collect();
        }
        life.id
    }

    /// A replica has disconnected.
    pub(super) fn detach(&self, now: Millis) {
        let mut life = self.life.lock();
        life.replicas -= 1;
        life.idle_since = now;
    }

    /// Stops logging if no replica has been connected for long; at once if `is_over`.
    pub(super) fn tick(&self, now: Millis, is_over: bool) {
        let mut life = self.life.lock();
        if life.id != 0 && life.replicas == 0 && (is_over || now >= life.idle_since.saturating_add(KEPT_FOR)) {
            *life = Life::default();
            self.groups.iter().for_each(|group| group.log.forget());
        }
    }

    /// The id of the logs; 0 if nothing is logged.
    pub(super) fn id(&self) -> u64 {
        self.life.lock().id
    }

    /// Bytes of memory.
    pub(super) fn capacity(&self) -> usize {
        self.groups.iter().map(|group| group.log.capacity()).sum()
    }

    /// The present end of all logs.
    pub(super) fn cut(&self) -> Cut {
        // In order, and all before the first is released: no change falls between two of them.
        let locked: Vec<_> = self.groups.iter().map(|group| group.log.lock()).collect();
        locked.iter().map(|log| log.end()).collect()
    }

    /// Like `cut`, for a replica that gets all changes from there on.
    pub(super) fn begin_at_end(&self) -> Cut {
        let mut locked: Vec<_> = self.groups.iter().map(|group| group.log.lock()).collect();
        locked.iter_mut().map(|log| log.begin_at_end()).collect()
    }

    /// How many records name a place in all logs.
    pub(super) fn positions(&self) -> usize {
        self.groups.len() * STRIPES
    }

    /// The place before these records, the next of each stripe of each group; `None` if some are
    /// forgotten.
    pub(super) fn find(&self, records: &[u64]) -> Option<Cut> {
        let (stripes, rest) = records.as_chunks::<STRIPES>();
        if stripes.len() != self.groups.len() || !rest.is_empty() {
            return None;
        }
        self.groups.iter().zip(stripes).map(|(group, records)| group.log.find(records)).collect()
    }
}
