//! One core's connections to the database: as many as `source-connections` says to read, and one
//! to write, which is opened with the first write.
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
use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};
use tokio::{sync::Mutex, time::Instant};

/// Shortest and longest pause between attempts to connect while nothing is fetched.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A place for a connection.
#[derive(Default)]
struct Slot {
    open: RefCell<Option<Rc<Session>>>,
    /// Held while it connects.
    connecting: Mutex<()>,
    /// The end of the latest attempt that failed.
    failed: RefCell<Option<(Instant, SourceError)>>,
}

pub(super) struct SessionPool {
    pub(super) settings: Arc<PostgresSettings>,
    pub(super) changes: Arc<GroupChanges>,
    readers: Vec<Slot>,
    writer: Slot,
    health: RefCell<ConnectionHealth>,
    in_logs: RefCell<AddressInLogs>,
}

impl SessionPool {
    pub(super) fn new(settings: Arc<PostgresSettings>, changes: Arc<GroupChanges>) -> SessionPool {
        let health = &settings.health;
        SessionPool {
            readers: (0..settings.limits.connections.max(1)).map(|_| Slot::default()).collect(),
            writer: Slot::default(),
            health: RefCell::new(ConnectionHealth::new(health.clone())),
            in_logs: RefCell::new(AddressInLogs::new(health.clone(), settings.url.origin())),
            settings,
            changes,
        }
    }

    /// The connection with the fewest fetches under way; it is opened if it is not.
    pub(super) async fn reader(&self) -> Result<Rc<Session>, SourceError> {
        let under_way = |slot: &&Slot| slot.open.borrow().as_ref().map_or(0, |open| open.under_way.get());
        let slot = self.readers.iter().min_by_key(under_way).expect("at least one");
        self.session(slot, Purpose::Read).await
    }
    /// The connection that writes.
    pub(super) async fn writer(&self) -> Result<Rc<Session>, SourceError> {
        self.session(&self.writer, Purpose::Write).await
    }

    async fn session(&self, slot: &Slot, purpose: Purpose) -> Result<Rc<Session>, SourceError> {
        let open = || slot.open.borrow().clone().filter(|open| open.is_open());
        if let Some(open) = open() {
            return Ok(open);
        }
        let asked = Instant::now();
        let _alone = slot.connecting.lock().await;
        if let Some(open) = open() {
            return Ok(open);
        }
        // It failed for those who waited, too.
        if let Some((_, error)) = slot.failed.borrow().as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        let again = slot.open.borrow_mut().take().is_some();
        match connect(&self.settings, purpose).await {
            Ok(opened) => {
                if again {
                    self.settings.health.note_reconnect();
                }
                self.note(ConnectionState::Up, opened.is_pooled, "");
                let session = Rc::new(Session::new(opened, self.settings.clone()));
                *slot.open.borrow_mut() = Some(session.clone());
                Ok(session)
            }
            Err(why) => {
                self.note(ConnectionState::Down, false, &why);
                let error = SourceError::Unavailable(why.into());
                *slot.failed.borrow_mut() = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn note(&self, state: ConnectionState, is_pooled: bool, why: &str) {
        self.health.borrow_mut().set(state);
        let is_news = self.in_logs.borrow_mut().set(state);
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

    /// Keeps the first connection open, for as long as the pool lives: what `/readyz` says comes from
    /// this.
    pub(super) async fn watch(pool: std::rc::Weak<SessionPool>) {
        let mut pause = PAUSES.0;
        loop {
            let Some(strong) = pool.upgrade() else { return };
            let session = strong.session(&strong.readers[0], Purpose::Read).await;
            match session {
                Ok(session) => {
                    // Finds the plan if the start could not.
                    if strong.plan().await.is_ok() {
                        pause = PAUSES.0;
                    }
                    let ended = session.ended.clone();
                    drop((strong, session));
                    ended.notified().await;
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
