//! One open connection that answers fetches.
use super::{connect::Opened, lookup::Lookup, parameters::TextParameter, postgres_settings::PostgresSettings};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::watch;
use tokio_postgres::{Client, Error, Row, RowStream, Statement, error::SqlState, types::Type};

/// SQL of how far a standby is behind, in seconds; 0 on a primary. A standby that has applied all
/// that it has received is not behind, as far as it knows.
const STANDBY_LAG: &str = "SELECT CASE WHEN NOT pg_is_in_recovery() \
    OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND (SELECT count(pid) > 0 FROM pg_stat_get_wal_receiver()) \
    THEN 0 \
    ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END::float8";

/// An open connection. Any worker may send on it.
pub(super) struct Session {
    client: Client,
    is_pooled: bool,
    /// By the statement's text.
    statements: Mutex<HashMap<Box<str>, Statement>>,
    /// Requests that wait for it.
    under_way: AtomicUsize,
    task: tokio::task::AbortHandle,
    /// Its sender is dropped when the connection ends.
    pub(super) ended: watch::Receiver<()>,
    settings: Arc<PostgresSettings>,
}

/// Which statement of a lookup.
#[derive(Clone, Copy)]
pub(super) enum Which {
    One,
    Many,
}

impl Session {
    pub(super) fn new(opened: Opened, settings: Arc<PostgresSettings>) -> Session {
        let (tells, ended) = watch::channel(());
        let connection = opened.connection;
        let task = tokio::task::spawn_local(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
            drop(tells);
        });
        Session {
            client: opened.client,
            is_pooled: opened.is_pooled,
            statements: Mutex::default(),
            under_way: AtomicUsize::new(0),
            task: task.abort_handle(),
            ended,
            settings,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.task.is_finished()
    }

    /// Ends it now: what is asked on it fails. The server notices when it sends the next answer.
    pub(super) fn close(&self) {
        self.task.abort();
    }

    /// Runs a statement that reads, and hands its rows over one by one.
    pub(super) async fn read(
        &self,
        lookup: &Lookup,
        which: Which,
        parameters: &[&str],
        mut row: impl FnMut(&Row),
    ) -> Result<(), Error> {
        let text = match (which, &lookup.many) {
            (Which::Many, Some(many)) => many,
            _ => &lookup.one,
        };
        if self.is_pooled {
            return self.read_pooled(text, parameters, row).await;
        }
        for attempt in 0..2 {
            let rows = async {
                let statement = self.statement(text).await?;
                self.client.query_raw(&statement, parameters.iter().map(|text| TextParameter(text))).await
            };
            // Rows come only if the statement was accepted.
            let end = match rows.await {
                Ok(rows) => each(rows, &mut row).await,
                Err(error) => Err(error),
            };
            match end {
                Err(error) if attempt == 0 && is_outdated(&error) => {
                    self.statements.lock().remove(text.as_str());
                }
                end => return end,
            }
        }
        Ok(())
    }

    /// A pooler may give each transaction another session: its settings are set in it, and its
    /// statement has no name. The three messages are sent together.
    async fn read_pooled(&self, text: &str, parameters: &[&str], mut row: impl FnMut(&Row)) -> Result<(), Error> {
        let timeout = self.settings.statement_timeout();
        let begin = format!("BEGIN READ ONLY; SET LOCAL statement_timeout = {timeout}");
        let read = async {
            let parameters = parameters.iter().map(|text| (TextParameter(text), Type::UNKNOWN));
            each(self.client.query_typed_raw(text, parameters).await?, &mut row).await
        };
        let (begun, end, committed) =
            tokio::join!(biased; self.client.batch_execute(&begin), read, self.client.batch_execute("COMMIT"));
        begun.and(end).and(committed)
    }

    async fn statement(&self, text: &str) -> Result<Statement, Error> {
        let known = self.statements.lock().get(text).cloned();
        match known {
            Some(statement) => Ok(statement),
            None => {
                let statement = self.client.prepare(text).await?;
                self.statements.lock().insert(text.into(), statement.clone());
                Ok(statement)
            }
        }
    }

    /// Whether the database takes these texts for values of the parameters' types.
    pub(super) async fn takes(&self, lookup: &Lookup, parameters: &[&str]) -> Result<bool, Error> {
        let parameters = parameters.iter().map(|text| (TextParameter(text), Type::UNKNOWN));
        let probed = async { each(self.client.query_typed_raw(&lookup.probe, parameters).await?, |_| ()).await };
        match probed.await {
            Ok(()) => Ok(true),
            Err(error) if is_of_class(&error, "22") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Runs a statement that writes; the first row, and the count of rows.
    pub(super) async fn write(&self, text: &str, parameters: &[&str]) -> Result<(Option<Row>, u64), Error> {
        let parameters = parameters.iter().map(|text| (TextParameter(text), Type::UNKNOWN));
        let mut rows = pin!(self.client.query_typed_raw(text, parameters).await?);
        let mut first = None;
        while let Some(row) = next(&mut rows).await {
            first.get_or_insert(row?);
        }
        Ok((first, rows.rows_affected().unwrap_or(0)))
    }

    /// How far the server is behind its primary.
    pub(super) async fn standby_lag(&self) -> Result<Duration, Error> {
        let mut lag = 0.0;
        let none: [(TextParameter<'_>, Type); 0] = [];
        each(self.client.query_typed_raw(STANDBY_LAG, none).await?, |row| lag = row.get(0)).await?;
        Ok(Duration::try_from_secs_f64(lag).unwrap_or_default())
    }

    /// Requests that wait for it.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Relaxed)
    }

    /// Asks for nothing.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        self.client.batch_execute("").await
    }
}

/// A connection that a request waits for, for as long as this exists.
pub(super) struct InUse(pub(super) Arc<Session>);
impl InUse {
    pub(super) fn new(session: Arc<Session>) -> InUse {
        session.under_way.fetch_add(1, Relaxed);
        InUse(session)
    }
}
impl Drop for InUse {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Relaxed);
    }
}
impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn each(rows: RowStream, mut row: impl FnMut(&Row)) -> Result<(), Error> {
    let mut rows = pin!(rows);
    while let Some(next) = next(&mut rows).await {
        row(&next?);
    }
    Ok(())
}

async fn next(rows: &mut std::pin::Pin<&mut RowStream>) -> Option<Result<Row, Error>> {
    use futures_core::Stream;
    std::future::poll_fn(|cx| rows.as_mut().poll_next(cx)).await
}

/// Whether the error's code is of this class.
pub(super) fn is_of_class(error: &Error, class: &str) -> bool {
    error.code().is_some_and(|code| code.code().starts_with(class))
}

/// The table was changed since the statement was prepared, or the server does not know it.
fn is_outdated(error: &Error) -> bool {
    let code = error.code();
    [SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_SQL_STATEMENT_NAME].iter().any(|of| code == Some(of))
}
