//! The connections of the process to one database: at most `source-connections` that read, and as
//! many that write. All workers use them. A connection is moved by the worker that opened it.
use super::{
    changes::GroupChanges,
    connect::{Purpose, connect},
    lookup::Plan,
    plan::{PlanError, check},
    postgres_settings::PostgresSettings,
    session::Session,
};
use crate::{
    jittered_wait::jittered,
    source_error::SourceError,
    source_health::{AddressInLogs, ConnectionHealth, ConnectionState},
};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// Shortest and longest pause between attempts to connect while nothing is fetched.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How often a standby is asked how far it is behind.
const LAG: Duration = Duration::from_secs(1);

/// A place for a connection.
#[derive(Default)]
struct Slot {
    open: Mutex<Option<Arc<Session>>>,
    /// Held while it connects.
    connecting: tokio::sync::Mutex<()>,
    /// The end of the latest attempt that failed.
    failed: Mutex<Option<(Instant, SourceError)>>,
}
impl Slot {
    fn open(&self) -> Option<Arc<Session>> {
        self.open.lock().clone().filter(|open| open.is_open())
    }
}

/// The connections of the process.
pub(super) struct Connections {
    readers: Vec<Slot>,
    writers: Vec<Slot>,
    workers: AtomicUsize,
    health: Mutex<(ConnectionHealth, AddressInLogs)>,
}
impl Connections {
    pub(super) fn new(settings: &PostgresSettings) -> Connections {
        let (limit, health, origin) = (settings.limits.connections, &settings.health, settings.url.origin());
        let slots = || (0..limit.max(1)).map(|_| Slot::default()).collect();
        let health = (ConnectionHealth::new(health.clone()), AddressInLogs::new(health.clone(), origin));
        Connections { readers: slots(), writers: slots(), workers: AtomicUsize::new(0), health: Mutex::new(health) }
    }
}

/// One worker's handle on them.
pub(super) struct SessionPool {
    pub(super) settings: Arc<PostgresSettings>,
    pub(super) changes: Arc<GroupChanges>,
    connections: Arc<Connections>,
    /// The worker's number: it takes the connection with this number if others are no less busy.
    worker: usize,
}

impl SessionPool {
    pub(super) fn new(
        settings: Arc<PostgresSettings>,
        changes: Arc<GroupChanges>,
        connections: Arc<Connections>,
    ) -> SessionPool {
        let worker = connections.workers.fetch_add(1, Relaxed);
        SessionPool { settings, changes, connections, worker }
    }

    /// A connection for a fetch.
    pub(super) async fn reader(&self) -> Result<Arc<Session>, SourceError> {
        self.least_busy(&self.connections.readers, Purpose::Read).await
    }
    /// A connection for a write.
    pub(super) async fn writer(&self) -> Result<Arc<Session>, SourceError> {
        self.least_busy(&self.connections.writers, Purpose::Write).await
    }

    /// The connection on which the fewest requests are under way; it is opened if it is not.
    async fn least_busy(&self, slots: &[Slot], purpose: Purpose) -> Result<Arc<Session>, SourceError> {
        let own_first = || (0..slots.len()).map(|at| &slots[(self.worker + at) % slots.len()]);
        let under_way = |slot: &&Slot| slot.open.lock().as_ref().map_or(0, |open| open.under_way());
        let slot = own_first().min_by_key(under_way).expect("at least one");
        // A database that is full has no room for one more: one that is open will do.
        let or_open = |error| own_first().filter_map(Slot::open).min_by_key(|open| open.under_way()).ok_or(error);
        self.session(slot, purpose).await.or_else(or_open)
    }

    async fn session(&self, slot: &Slot, purpose: Purpose) -> Result<Arc<Session>, SourceError> {
        if let Some(open) = slot.open() {
            return Ok(open);
        }
        let asked = Instant::now();
        let _alone = slot.connecting.lock().await;
        if let Some(open) = slot.open() {
            return Ok(open);
        }
        // It failed for those who waited, too.
        if let Some((_, error)) = slot.failed.lock().as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        let again = slot.open.lock().take().is_some();
        match connect(&self.settings, purpose).await {
            Ok(opened) => {
                if again {
                    self.settings.health.note_reconnect();
                }
                self.note(ConnectionState::Up, opened.is_pooled, "");
                let session = Arc::new(Session::new(opened, self.settings.clone()));
                *slot.open.lock() = Some(session.clone());
                Ok(session)
            }
            Err(why) => {
                self.note(ConnectionState::Down, false, &why);
                let error = SourceError::Unavailable(why.into());
                *slot.failed.lock() = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn note(&self, state: ConnectionState, is_pooled: bool, why: &str) {
        let connections = &self.connections;
        // While another connection is open, the database is not away.
        if state != ConnectionState::Up && connections.readers.iter().any(|slot| slot.open().is_some()) {
            return;
        }
        let is_news = {
            let (health, in_logs) = &mut *connections.health.lock();
            health.set(state);
            in_logs.set(state)
        };
        let source = self.settings.url.origin();
        match state {
            ConnectionState::Up if is_news && is_pooled => {
                tracing::info!(source, "connected to PostgreSQL through a pooler: statements are not kept prepared");
            }
            ConnectionState::Up if is_news => tracing::info!(source, "connected to PostgreSQL"),
            ConnectionState::Unknown if is_news => tracing::warn!(source, "the connection to PostgreSQL was lost"),
            ConnectionState::Down => {
                self.settings.health.note_error(&why.into());
                if is_news {
                    tracing::warn!(source, reason = why, "cannot connect to PostgreSQL");
                }
            }
            _ => {}
        }
    }

    /// Keeps a connection of this worker open, for as long as the pool lives: what `/readyz` says comes
    /// from this.
    pub(super) async fn watch(pool: std::rc::Weak<SessionPool>) {
        let mut pause = PAUSES.0;
        loop {
            let Some(strong) = pool.upgrade() else { return };
            let readers = &strong.connections.readers;
            let session = strong.session(&readers[strong.worker % readers.len()], Purpose::Read).await;
            match session {
                Ok(session) => {
                    // Finds the plan if the start could not.
                    if strong.plan().await.is_ok() {
                        pause = PAUSES.0;
                    }
                    let mut ended = session.ended.clone();
                    drop((strong, session));
                    SessionPool::until_lost(&pool, &mut ended).await;
                    let Some(strong) = pool.upgrade() else { return };
                    strong.note(ConnectionState::Unknown, false, "");
                }
                Err(_) => {
                    drop(strong);
                    tokio::time::sleep(jittered(pause)).await;
                    pause = (2 * pause).min(PAUSES.1);
                }
            }
        }
    }

    /// Waits for the end of a connection. With `read-from=replica` it asks meanwhile how far the
    /// standby is behind.
    async fn until_lost(pool: &std::rc::Weak<SessionPool>, ended: &mut tokio::sync::watch::Receiver<()>) {
        while timeout(LAG, ended.changed()).await.is_err() {
            let Some(strong) = pool.upgrade() else { return };
            if strong.settings.url.from_replicas
                && let Ok(session) = strong.reader().await
                && let Ok(lag) = session.standby_lag().await
            {
                strong.settings.health.note_replica_lag(lag);
            }
        }
    }

    /// What is asked for; the database is asked about it if it could not be at the start.
    pub(super) async fn plan(&self) -> Result<Arc<Plan>, SourceError> {
        if let Some(plan) = self.settings.plan.get() {
            return Ok(plan.clone());
        }
        match check(&self.settings).await {
            Ok(plan) => Ok(self.settings.plan.get_or_init(|| Arc::new(plan)).clone()),
            Err(PlanError::Unreachable(why)) => Err(SourceError::Unavailable(why.into())),
            Err(PlanError::Wrong(why)) => Err(self.settings.refused(why)),
        }
    }
}
