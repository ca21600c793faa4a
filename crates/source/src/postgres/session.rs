//! One open connection that answers fetches.
use super::{connect::Opened, lookup::Lookup, parameters::TextParameter, postgres_settings::PostgresSettings};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    pin::pin,
    rc::Rc,
    sync::Arc,
};
use tokio::sync::Notify;
use tokio_postgres::{Client, Error, Row, RowStream, Statement, error::SqlState, types::Type};

/// An open connection.
pub(super) struct Session {
    client: Client,
    is_pooled: bool,
    /// By the statement's text.
    statements: RefCell<HashMap<Box<str>, Statement>>,
    /// Fetches that wait for it.
    pub(super) under_way: Cell<usize>,
    task: tokio::task::AbortHandle,
    pub(super) ended: Rc<Notify>,
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
        let ended = Rc::new(Notify::new());
        let (tells, connection) = (ended.clone(), opened.connection);
        let task = tokio::task::spawn_local(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to PostgreSQL ended");
            }
            tells.notify_one();
        });
        Session {
            client: opened.client,
            is_pooled: opened.is_pooled,
            statements: RefCell::default(),
            under_way: Cell::new(0),
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
        self.ended.notify_one();
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
                    self.statements.borrow_mut().remove(text.as_str());
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
        let known = self.statements.borrow().get(text).cloned();
        match known {
            Some(statement) => Ok(statement),
            None => {
                let statement = self.client.prepare(text).await?;
                self.statements.borrow_mut().insert(text.into(), statement.clone());
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

    /// Asks for nothing.
    pub(super) async fn ping(&self) -> Result<(), Error> {
        self.client.batch_execute("").await
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
    [SqlState::FEATURE_NOT_SUPPORTED, SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::UNDEFINED_COLUMN]
        .iter()
        .any(|of| code == Some(of))
}
