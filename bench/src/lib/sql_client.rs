//! A client of PostgreSQL that waits for its answers.
use anyhow::Context;
use std::{net::SocketAddr, sync::Arc};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, Statement, types::Type};

/// A connection to the database `shop`, with prepared statements on its table `t (id int, v bigint)`.
pub(crate) struct SqlClient {
    runtime: Runtime,
    client: Arc<Client>,
    read: Option<Statement>,
    add: Option<Statement>,
}

impl SqlClient {
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<SqlClient> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let parameters = format!("host={} port={} user=app dbname=shop", address.ip(), address.port());
        let (client, connection) = runtime.block_on(tokio_postgres::connect(&parameters, NoTls))?;
        runtime.spawn(connection);
        Ok(SqlClient { runtime, client: Arc::new(client), read: None, add: None })
    }

    /// Runs statements.
    pub(crate) fn run(&mut self, statements: &str) -> anyhow::Result<()> {
        self.runtime.block_on(self.client.batch_execute(statements)).context("a statement failed")
    }

    /// The text in the one row that a statement with one parameter finds, if it finds one. It takes
    /// one round trip.
    pub(crate) fn text(&mut self, statement: &str, parameter: &str) -> anyhow::Result<Option<String>> {
        let rows = self.runtime.block_on(self.client.query_typed(statement, &[(&parameter, Type::TEXT)]))?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    /// The value of a row.
    pub(crate) fn value(&mut self, id: i32) -> anyhow::Result<i64> {
        let (client, read) = (&self.client, &mut self.read);
        self.runtime.block_on(async {
            let statement = match read {
                Some(statement) => statement,
                None => read.insert(client.prepare("SELECT v FROM t WHERE id = $1").await?),
            };
            Ok(client.query_one(statement, &[&id]).await?.get(0))
        })
    }

    /// Adds one to the values of rows, each in a transaction, all sent together; the new values.
    pub(crate) fn add_one(&mut self, ids: &[i32]) -> anyhow::Result<Vec<i64>> {
        let (client, add) = (&self.client, &mut self.add);
        self.runtime.block_on(async {
            let statement = match add {
                Some(statement) => statement,
                None => add.insert(client.prepare("UPDATE t SET v = v + 1 WHERE id = $1 RETURNING v").await?),
            };
            let send = |id: i32| {
                let (client, statement) = (client.clone(), statement.clone());
                tokio::spawn(async move { client.query_one(&statement, &[&id]).await })
            };
            let sent: Vec<_> = ids.iter().map(|id| send(*id)).collect();
            let mut values = Vec::with_capacity(sent.len());
            for answer in sent {
                values.push(answer.await??.get(0));
            }
            Ok(values)
        })
    }
}
