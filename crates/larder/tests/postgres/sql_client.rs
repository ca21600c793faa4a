//! A connection to PostgreSQL that stays open: psql costs a process for each statement.
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub struct SqlClient {
    runtime: Runtime,
    client: Client,
}
impl SqlClient {
    pub fn connect(port: u16) -> Result<SqlClient, String> {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let parameters = format!("host=127.0.0.1 port={port} user=app dbname=shop connect_timeout=5");
        let connected = runtime.block_on(tokio_postgres::connect(&parameters, NoTls));
        let (client, connection) = connected.map_err(|error| error.to_string())?;
        runtime.spawn(connection);
        Ok(SqlClient { runtime, client })
    }
    /// Runs statements; the first column of the last row.
    pub fn run(&mut self, statements: &str) -> Result<Option<String>, String> {
        let messages = self.runtime.block_on(self.client.simple_query(statements));
        let messages = messages.map_err(|error| format!("{statements}: {error:?}"))?;
        Ok(messages.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }
}
