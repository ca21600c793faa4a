//! A client of Cassandra that waits for its answers: what a program without Larder does.
use anyhow::{Context, ensure};
use scylla::{
    client::{session::Session, session_builder::SessionBuilder},
    statement::prepared::PreparedStatement,
};
use std::{net::SocketAddr, sync::Arc};
use tokio::runtime::{Builder, Runtime};

/// The head of a value without a lifetime in Larder's own table (docs/cassandra.md).
const HEAD: u8 = 0xF8;

/// A session with the keyspace `shop`, with prepared statements on its table `kv`.
pub(crate) struct CqlClient {
    runtime: Runtime,
    session: Arc<Session>,
    read: PreparedStatement,
    write: PreparedStatement,
}

impl CqlClient {
    /// Makes the table if it is not there.
    pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<CqlClient> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (session, read, write) = runtime.block_on(async {
            let session = SessionBuilder::new().known_node_addr(address).build().await?;
            for statement in [
                "CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                "CREATE TABLE IF NOT EXISTS shop.kv (key blob PRIMARY KEY, value blob, version bigint)",
            ] {
                session.query_unpaged(statement, ()).await?;
            }
            let read = session.prepare("SELECT value, version FROM shop.kv WHERE key = ?").await?;
            let write = "UPDATE shop.kv USING TTL 0 SET value = ?, version = ? WHERE key = ?";
            let write = session.prepare(write).await?;
            anyhow::Ok((session, read, write))
        })?;
        Ok(CqlClient { runtime, session: Arc::new(session), read, write })
    }

    /// Reads keys, all together.
    pub(crate) fn values(&self, keys: &[String]) -> anyhow::Result<Vec<Option<u64>>> {
        let read = |key: &String| {
            let (session, read, key) = (self.session.clone(), self.read.clone(), key.clone().into_bytes());
            async move {
                let rows = session.execute_unpaged(&read, (key,)).await?.into_rows_result()?;
                let row: Option<(&[u8], Option<i64>)> = rows.maybe_first_row()?;
                let value = row.map(|(value, _)| value.strip_prefix(&[HEAD]).context("a value without its head"));
                value.transpose()?.map(|text| anyhow::Ok(std::str::from_utf8(text)?.parse()?)).transpose()
            }
        };
        self.together(keys.iter().map(read))
    }

    /// Writes a number under each of several keys, all together.
    pub(crate) fn set(&self, keys: &[String], value: u64) -> anyhow::Result<()> {
        let value = [&[HEAD][..], value.to_string().as_bytes()].concat();
        let write = |key: &String| {
            let (session, write) = (self.session.clone(), self.write.clone());
            let values = (value.clone(), 2 * fastrand::i64(1..i64::MAX / 2), key.clone().into_bytes());
            async move { Ok(session.execute_unpaged(&write, values).await.map(drop)?) }
        };
        let written = self.together(keys.iter().map(write))?;
        ensure!(written.len() == keys.len(), "a write is missing");
        Ok(())
    }

    /// One alone needs no task of its own.
    fn together<T: Send + 'static, F>(&self, mut requests: impl ExactSizeIterator<Item = F>) -> anyhow::Result<Vec<T>>
    where
        F: Future<Output = anyhow::Result<T>> + Send + 'static,
    {
        self.runtime.block_on(async {
            if requests.len() == 1 {
                return Ok(vec![requests.next().context("one request")?.await?]);
            }
            let sent: Vec<_> = requests.map(tokio::spawn).collect();
            let mut answers = Vec::with_capacity(sent.len());
            for answer in sent {
                answers.push(answer.await??);
            }
            Ok(answers)
        })
    }
}
