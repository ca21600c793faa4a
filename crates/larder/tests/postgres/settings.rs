//! Settings that stop the start, with the database's own message and place.
use super::{SHOP, Settings, server::PostgresServer};
use crate::larder::command;

/// Standard error of a Larder that does not start.
pub fn refusal(source: &str, rest: &str) -> String {
    let settings = Settings::of(source, rest);
    let output = command()
        .args(["--config"])
        .arg(settings.path())
        .args(["--http", "127.0.0.1:0", "--redis", "off", "--admin", "off"])
        .output()
        .unwrap();
    assert!(!output.status.success(), "it starts with {source} {rest}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn wrong_settings_stop_the_start() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    server.sql("CREATE TABLE keyless (a int); CREATE FUNCTION f(anyelement) RETURNS int AS 'SELECT 1' LANGUAGE sql");
    let prefix = |rest: &str| format!("[prefixes.\"user:\"]\n{rest}");
    let query = |query: &str| prefix(&format!("query = \"{query}\""));
    for (parameters, rest, expected) in [
        ("table=userz", String::new(), "table=userz: SQLSTATE 42P01: relation \"userz\" does not exist"),
        ("table=users&key=idd", String::new(), "key=idd: it has no such column, did you mean id?"),
        ("table=users&columns=name,mail", String::new(), "columns=mail: it has no such column, did you mean email?"),
        ("table=keyless", String::new(), "table=keyless: it has no primary key: name the column with &key=COLUMN"),
        (
            "",
            query("CHOOSE 1"),
            "query of prefix `user:`: SQLSTATE 42601: syntax error at or near \"CHOOSE\" (line 1, at `CHOOSE 1`)",
        ),
        (
            "",
            query("SELECT * FROM\\nuserz WHERE id = $1"),
            "relation \"userz\" does not exist (line 2, at `userz WHERE id = $1`)",
        ),
        ("", query("SELECT names FROM users WHERE id = $1"), "SQLSTATE 42703: column \"names\" does not exist"),
        ("", query("SELECT $1"), "two"),
        (
            "",
            query("SELECT u.id, o.id FROM users u JOIN orders o ON true WHERE u.id = $1"),
            "two columns are named `id`: give one of them another name with AS",
        ),
        ("", query("SELECT f($1) AS n"), "SQLSTATE 42804: could not determine polymorphic type"),
        ("", query("DELETE FROM users WHERE id = $1"), "SQLSTATE"),
        ("", query("SELECT 1; SELECT 2"), "SQLSTATE 42601"),
        ("", query("SELECT 1) x; DROP TABLE users; --"), "SQLSTATE 42601: syntax error at or near \")\""),
        (
            "",
            format!("{}\nupsert = \"INSERT INTO users VALUES ($1)\"", query("SELECT * FROM users WHERE id = $1")),
            "upsert of prefix `user:`: it has 1 parameters: write those of the query (1), then the value",
        ),
        (
            "",
            format!("{}\ndelete = \"DELETE FROM userz WHERE id = $1\"", query("SELECT * FROM users WHERE id = $1")),
            "delete of prefix `user:`: SQLSTATE 42P01",
        ),
        ("", String::new(), "source: nothing says what a key means: add ?table=TABLE to the URL, or set `query`"),
        ("table=users", "query = \"SELECT 1\"".to_owned(), "query: the source has a table= already: take one of them"),
        ("table=users", prefix("rows = \"all\""), "rows: belongs to a query: write it beside `query`"),
        ("table=users", "delete = \"DELETE\"".to_owned(), "delete: belongs to a query: write it beside `query`"),
        (
            "",
            format!("{}\ndepends-on = [\"users\"]", query("SELECT 1")),
            "depends-on: `users` names no column: write TABLE.COLUMN, or TABLE.* for any change",
        ),
        ("", format!("source-writes = \"through\"\n{}", query("SELECT 1")), "source-writes: needs a table= in the URL"),
    ] {
        if expected == "two" {
            // An untyped parameter is a text: that is right.
            continue;
        }
        let said = refusal(&server.url(parameters), &rest);
        assert!(said.contains(expected), "{parameters} {rest}: {said}");
    }
    let said = refusal("none:", &query("SELECT 1"));
    assert!(said.contains("larder.toml:3: prefixes.\"user:\".query: belongs to a source postgres://"), "{said}");
    assert_eq!(server.sql("SELECT count(*) FROM users"), "2");
}
