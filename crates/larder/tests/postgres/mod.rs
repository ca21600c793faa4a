//! PostgreSQL as a source, on real servers.
pub mod server;

use larder_config::SourceUrl;
use server::PostgresServer;

#[test]
fn a_server_starts_and_starts_again() {
    let mut server = PostgresServer::start();
    server.sql("CREATE TABLE users (id int PRIMARY KEY, name text); INSERT INTO users VALUES (1, 'Ada')");
    assert_eq!(server.sql("SELECT * FROM users"), "1|Ada");
    server.restart();
    assert_eq!(server.sql("SELECT name, current_setting('wal_level') FROM users"), "Ada|logical");
    assert!(server.try_sql("SELECT FROM").unwrap_err().contains("syntax error"));
    server.stop();
    server.cont();
    assert!(server.dir().join("data").is_dir() && server.url("table=users").parse::<SourceUrl>().is_ok());
}
