//! PostgreSQL as a source, on real servers.
pub mod changes;
mod faults;
mod fleet;
mod pooler;
mod rows;
pub mod server;
mod settings;
pub mod sql_client;
mod standbys;
mod tls;
mod writes;

use crate::{
    common::{Client, Reply},
    larder::Larder,
};
use server::PostgresServer;
use std::path::PathBuf;

/// A shop: users, their orders, prices.
pub const SHOP: &str = "
CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL, email text, settings jsonb, photo bytea);
CREATE TABLE orders (id bigint PRIMARY KEY, user_id int REFERENCES users, total numeric(10,2), placed timestamptz);
CREATE TABLE prices (country text, sku text, cents int, PRIMARY KEY (country, sku));
INSERT INTO users VALUES (42, 'Ada', 'ada@example.com', '{\"theme\": \"dark\"}', '\\x00ff'), (43, 'Bob', NULL, NULL, NULL);
INSERT INTO orders VALUES (1, 42, 9.50, '2026-01-02 03:04:05+00'), (2, 42, 20, NULL);
ALTER TABLE orders REPLICA IDENTITY FULL;
INSERT INTO prices VALUES ('de', 'tea:green', 250), ('fr', 'tea:green', 275);
";

/// Of the shop.
pub const QUERIES: &str = r#"
[prefixes."user:"]
query = "SELECT id, name, email FROM users WHERE id = $1"
depends-on = ["users.id"]

[prefixes."orders:"]
query = "SELECT id, total FROM orders WHERE user_id = $1 ORDER BY id"
rows = "all"
depends-on = ["orders.user_id"]

[prefixes."ids:"]
query = "SELECT id FROM orders WHERE user_id = $1 ORDER BY id;"
rows = "all"

[prefixes."price:"]
query = "SELECT cents FROM prices WHERE country = $1 AND sku = $2"

[prefixes."photo:"]
query = "SELECT photo FROM users WHERE id = $1 -- a comment"

[prefixes."settings:"]
query = "SELECT settings FROM users WHERE id = $1"
"#;

/// A file of settings that lives as long as this.
pub struct Settings(tempfile::TempDir);
impl Settings {
    pub fn of(source: &str, rest: &str) -> Settings {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("source = {source:?}\n{rest}");
        std::fs::write(dir.path().join("larder.toml"), text).unwrap();
        Settings(dir)
    }
    pub fn path(&self) -> PathBuf {
        self.0.path().join("larder.toml")
    }
    pub fn start(&self) -> Larder {
        self.start_with(&[])
    }
    /// With flags, which have more weight than the environment that tests give to a Larder.
    pub fn start_with(&self, flags: &[&str]) -> Larder {
        Larder::start(&[&["--config", self.path().to_str().unwrap()], flags].concat())
    }
}

/// A server with the shop, and a Larder that asks it these queries.
fn shop(rest: &str) -> (PostgresServer, Larder) {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let larder = Settings::of(&server.url(""), rest).start();
    (server, larder)
}

fn text(client: &mut Client, command: &[&str]) -> String {
    match client.command(command) {
        Reply::Bulk(Some(value)) => String::from_utf8_lossy(&value).into_owned(),
        Reply::Bulk(None) => "(nil)".to_owned(),
        Reply::Simple(text) | Reply::Error(text) => text,
        Reply::Int(number) => number.to_string(),
        Reply::Array(all) => format!("{all:?}"),
    }
}

#[test]
fn a_server_starts_and_starts_again() {
    let mut server = PostgresServer::start();
    server.sql("CREATE TABLE users (id int PRIMARY KEY, name text); INSERT INTO users VALUES (1, 'Ada')");
    assert_eq!(server.sql("SELECT * FROM users"), "1|Ada");
    server.restart();
    assert_eq!(server.sql("SELECT name, current_setting('wal_level') FROM users"), "Ada|logical");
    assert!(server.try_sql("SELECT FROM").unwrap_err().contains("syntax error"));
}
