//! One core's session with the cluster. The driver keeps connections to all nodes, and replaces
//! those that break. Here the session is opened, and opened again until it is there.
use super::{
    cassandra_settings::{CassandraSettings, consistency, password, serial_consistency},
    cql_error::{describe, describe_prepare, is_refusal, one_line},
    refused_writes::RetryRefusedWrites,
    table_columns::{ColumnTexts, RawCell, TableColumns},
};
use crate::{
    jittered_wait::jittered,
    source_error::SourceError,
    source_health::{ConnectionHealth, ConnectionState},
};
use larder_config::CassandraUrl;
use scylla::{
    authentication::{AuthError, AuthenticatorProvider, AuthenticatorSession, PlainTextAuthenticator},
    client::{execution_profile::ExecutionProfile, session::Session, session_builder::SessionBuilder},
    policies::{
        load_balancing::DefaultPolicy, retry::FallthroughRetryPolicy,
        speculative_execution::SimpleSpeculativeExecutionPolicy,
    },
    statement::{Consistency, SerialConsistency, prepared::PreparedStatement},
};
use std::{
    cell::{Cell, RefCell},
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

/// Wait between attempts to open a session.
const RETRY: Duration = Duration::from_millis(500);
/// How often a session on which requests failed is tried.
const PROBE: Duration = Duration::from_secs(1);

/// Rows that RANDOMKEY reads: of a table of another program, the first may have no value.
const PICKED: usize = 16;

/// A session with its statements.
pub(super) struct ClusterSession {
    pub(super) session: Arc<Session>,
    pub(super) columns: TableColumns,
    /// key → value, version (of named columns: seconds left).
    pub(super) get: PreparedStatement,
    /// Of Larder's own table: lifetime, value, version, key. Of named columns: value, key.
    pub(super) put: PreparedStatement,
    /// key.
    pub(super) delete: PreparedStatement,
    /// → key, version (of named columns: `None` without a value).
    pub(super) keys: PreparedStatement,
    /// → key, value, version (of named columns: seconds left).
    pub(super) entries: PreparedStatement,
    /// → token.
    pub(super) tokens: PreparedStatement,
    /// token → key, version (of named columns: `None` without a value).
    pub(super) from_token: PreparedStatement,
    /// `None`: the table has no versions.
    pub(super) transactions: Option<Transactions>,
    pub(super) truncate: PreparedStatement,
}

/// The statements that demand a version.
pub(super) struct Transactions {
    /// Like `get`, at serial consistency: it ends transactions that were not decided.
    pub(super) get_serial: PreparedStatement,
    /// lifetime, value, version, key, expected version.
    pub(super) put_if: PreparedStatement,
    /// key, expected version.
    pub(super) delete_if: PreparedStatement,
}

/// Why there is no session.
pub(super) enum OpenError {
    /// The cluster refuses: the table is missing, or the user has no right.
    Wrong(String),
    Unreachable(String),
}

impl ClusterSession {
    pub(super) async fn open(settings: &CassandraSettings) -> Result<ClusterSession, OpenError> {
        let session = session(&settings.url, settings.limits.timeout).await?;
        let table = settings.table();
        let columns = TableColumns::of(&session, &settings.url).await;
        let columns = columns.map_err(|error| OpenError::Unreachable(describe(&error)))?.map_err(OpenError::Wrong)?;
        let prepare = async |cql: String| {
            session.prepare(cql).await.map_err(|error| match is_refusal(&error) {
                true => OpenError::Wrong(format!(
                    "{}; `larder cassandra schema URL` shows the table that Larder needs, and \
                     key=COLUMN&columns=COLUMN names those of another table",
                    describe_prepare(&error)
                )),
                false => OpenError::Unreachable(describe_prepare(&error)),
            })
        };
        let of_reads = consistency(settings.url.consistency_of_reads());
        let read = async |cql: String| {
            let mut statement = prepare(cql).await?;
            statement.set_consistency(of_reads);
            statement.set_is_idempotent(true);
            if settings.url.speculative.is_some() {
                statement.set_history_listener(settings.sessions.clone());
            }
            Ok(statement)
        };
        // A transaction is read back before it is tried again.
        let once = async |cql: String| {
            let mut statement = prepare(cql).await?;
            statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
            Ok(statement)
        };
        let write = async |cql: String| {
            let mut statement = prepare(cql).await?;
            statement.set_retry_policy(Some(Arc::new(RetryRefusedWrites)));
            Ok(statement)
        };
        let ColumnTexts { key, value, read_key, read_value, beside_value, beside_key } = columns.texts();
        let get = read(format!("SELECT {read_value}, {beside_value} FROM {table} WHERE {key} = ?")).await?;
        let put = match columns {
            TableColumns::Own => format!("UPDATE {table} USING TTL ? SET value = ?, version = ? WHERE key = ?"),
            TableColumns::Named(_) => format!("UPDATE {table} SET {value} = ? WHERE {key} = ?"),
        };
        let delete = format!("DELETE FROM {table} WHERE {key} = ?");
        let transactions = match columns {
            TableColumns::Own => {
                let mut get_serial = get.clone();
                get_serial.set_consistency(match serial_consistency(settings.url.consistency) {
                    SerialConsistency::Serial => Consistency::Serial,
                    SerialConsistency::LocalSerial => Consistency::LocalSerial,
                });
                get_serial.set_is_idempotent(false);
                Some(Transactions {
                    get_serial,
                    put_if: once(format!("{put} IF version = ?")).await?,
                    delete_if: once(format!("{delete} IF version = ?")).await?,
                })
            }
            TableColumns::Named(_) => None,
        };
        let keys = read(format!("SELECT {read_key}, {beside_key} FROM {table}")).await?;
        let entries = read(format!("SELECT {read_key}, {read_value}, {beside_value} FROM {table}")).await?;
        let tokens = read(format!("SELECT token({key}) FROM {table}")).await?;
        let from_token =
            read(format!("SELECT {read_key}, {beside_key} FROM {table} WHERE token({key}) >= ? LIMIT {PICKED}"))
                .await?;
        let mut truncate = once(format!("TRUNCATE {table}")).await?;
        truncate.set_request_timeout(Some(settings.limits.slow_timeout));
        Ok(ClusterSession {
            get,
            put: write(put).await?,
            delete: write(delete).await?,
            keys,
            entries,
            tokens,
            from_token,
            transactions,
            truncate,
            columns,
            session: Arc::new(session),
        })
    }
}

/// A session without statements.
pub(super) async fn session(url: &CassandraUrl, timeout: Duration) -> Result<Session, OpenError> {
    let mut policy = DefaultPolicy::builder();
    if let Some(datacenter) = &url.datacenter {
        policy = policy.prefer_datacenter(datacenter.clone());
    }
    let speculative = url.speculative.map(|after| {
        let policy = SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: after };
        Arc::new(policy) as Arc<dyn scylla::policies::speculative_execution::SpeculativeExecutionPolicy>
    });
    let profile = ExecutionProfile::builder()
        .request_timeout(Some(timeout))
        .consistency(consistency(url.consistency))
        .serial_consistency(Some(serial_consistency(url.consistency)))
        .load_balancing_policy(policy.build())
        .speculative_execution_policy(speculative)
        .build();
    let nodes = url.nodes.iter().map(|(host, port)| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    });
    let mut builder = SessionBuilder::new()
        .known_nodes(nodes)
        .connection_timeout(timeout)
        // A node that has stopped gets no more requests soon.
        .keepalive_interval(PROBE)
        .keepalive_timeout(timeout)
        .fetch_schema_metadata(true)
        .keyspaces_to_fetch([url.keyspace.clone()])
        .default_execution_profile_handle(profile.into_handle());
    if url.user.is_some() {
        builder = builder.authenticator_provider(Arc::new(Login(url.clone())));
    }
    builder.build().await.map_err(|error| {
        let text = one_line(&error.to_string());
        // The driver says what is wrong in its text only.
        match text.contains("Authentication") || text.contains("credentials") {
            true => OpenError::Wrong(text),
            false => OpenError::Unreachable(text),
        }
    })
}

/// Says user and password on each new connection. A file of the password is read each time.
struct Login(CassandraUrl);

#[async_trait::async_trait]
impl AuthenticatorProvider for Login {
    async fn start_authentication_session(
        &self,
        name: &str,
    ) -> Result<(Option<Vec<u8>>, Box<dyn AuthenticatorSession>), AuthError> {
        let url = self.0.clone();
        // The file may be on a slow disk, and this thread serves clients.
        let read = tokio::task::spawn_blocking(move || password(&url)).await;
        let password = read.unwrap_or_else(|error| Err(error.to_string()))?;
        let password = password.as_deref().unwrap_or_default().to_owned();
        let user = self.0.user.clone().unwrap_or_default();
        PlainTextAuthenticator::new(user, password).start_authentication_session(name).await
    }
}

/// One core's way to its session.
pub(super) struct SessionLink {
    pub(super) settings: Arc<CassandraSettings>,
    session: RefCell<Option<Rc<ClusterSession>>>,
    /// Why the latest attempt to open a session failed.
    problem: RefCell<Option<SourceError>>,
    /// An attempt has ended.
    attempted: Notify,
    /// Whether a request got no answer since the session was last known to work.
    is_doubtful: Cell<bool>,
}

impl SessionLink {
    pub(super) fn new(settings: Arc<CassandraSettings>) -> SessionLink {
        SessionLink {
            settings,
            session: RefCell::default(),
            problem: RefCell::default(),
            attempted: Notify::new(),
            is_doubtful: Cell::new(false),
        }
    }

    /// The session. Waits for the first attempt to open one.
    pub(super) async fn session(&self) -> Result<Rc<ClusterSession>, SourceError> {
        loop {
            if let Some(session) = &*self.session.borrow() {
                return Ok(session.clone());
            }
            if let Some(problem) = &*self.problem.borrow() {
                return Err(problem.clone());
            }
            let wait = tokio::time::timeout(self.settings.limits.timeout, self.attempted.notified());
            if wait.await.is_err() {
                let limit = self.settings.limits.timeout;
                return Err(self.settings.unavailable(format!("no session after {limit:?} (source-timeout)")));
            }
        }
    }

    /// Notes how a request ended.
    pub(super) fn note<T>(&self, answer: &Result<T, SourceError>) {
        if let Some(reason) = answer.as_ref().err().and_then(SourceError::reason) {
            self.settings.health.note_error(reason);
            self.is_doubtful.set(true);
        }
    }

    /// Opens the session, then looks whether the cluster answers when requests got no answer.
    pub(super) async fn run(link: Weak<SessionLink>) {
        let Some(settings) = link.upgrade().map(|link| link.settings.clone()) else { return };
        let mut state = ConnectionHealth::new(settings.health.clone());
        let source = settings.url.origin();
        loop {
            let opened = ClusterSession::open(&settings).await;
            let Some(link) = link.upgrade() else { return };
            let is_open = opened.is_ok();
            match opened {
                Ok(session) => {
                    settings.sessions.join(&session.session);
                    settings.sessions.tell_nodes(&source);
                    *link.session.borrow_mut() = Some(Rc::new(session));
                    *link.problem.borrow_mut() = None;
                    state.set(ConnectionState::Up);
                }
                Err(OpenError::Wrong(why) | OpenError::Unreachable(why)) => {
                    let error = settings.unavailable(&why);
                    error.reason().into_iter().for_each(|reason| settings.health.note_error(reason));
                    *link.problem.borrow_mut() = Some(error);
                    if state.set(ConnectionState::Down) {
                        tracing::warn!(source, reason = why, "Cassandra does not answer");
                    }
                }
            }
            link.attempted.notify_waiters();
            if is_open {
                break;
            }
            drop(link);
            sleep(jittered(RETRY)).await;
        }
        let mut is_up = true;
        loop {
            sleep(jittered(PROBE)).await;
            let Some(link) = link.upgrade() else { return };
            settings.sessions.tell_nodes(&source);
            if !link.is_doubtful.get() && is_up {
                continue;
            }
            let answer = link.ping().await;
            link.is_doubtful.set(false);
            if is_up != answer.is_ok() {
                is_up = answer.is_ok();
                state.set(if is_up { ConnectionState::Up } else { ConnectionState::Down });
                match answer {
                    Ok(()) => {
                        settings.health.note_reconnect();
                        tracing::info!(source, "Cassandra answers again");
                    }
                    Err(error) => tracing::warn!(source, reason = %error, "Cassandra does not answer"),
                }
            }
        }
    }

    /// Whether a key can be read.
    pub(super) async fn ping(&self) -> Result<(), SourceError> {
        let session = self.session().await?;
        let read = session.session.execute_unpaged(&session.get, (RawCell(&session.columns.probe()),)).await;
        read.map(drop).map_err(|error| self.settings.read_error(&error))
    }
}
