//! A database that is slow, full, restarted or gone.
use super::{SHOP, Settings, changes::Frozen, server::PostgresServer, sql_client::SqlClient, text};
use crate::common::{PATIENCE, Reply, wait_until};
use std::time::{Duration, Instant};

#[test]
fn a_slow_query_ends_in_time_and_the_next_one_is_answered() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let rest = "ttl = '1ms'\nquery = \"SELECT name FROM users, pg_sleep($1) WHERE id = 42\"";
    let larder = Settings::of(&server.url(""), rest).start_with(&["--source-timeout=300ms"]);
    let mut client = larder.client();
    for _ in 0..3 {
        let said = text(&mut client, &["GET", "30"]);
        assert!(said.starts_with("ERR source unavailable: ") && said.contains("time"), "{said}");
        assert_eq!(text(&mut client, &["GET", "0"]), "Ada");
    }
    // Nothing of it goes on in the database.
    wait_until("the end of the statements", || {
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(%' AND state = 'active' AND pid <> pg_backend_pid()") == "0"
    });
}

#[test]
fn connections_of_all_threads_are_bounded_and_a_full_database_is_an_error() {
    let server = PostgresServer::with(&["max_connections=5", "superuser_reserved_connections=0", "max_wal_senders=0"]);
    server.sql("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t SELECT n, n FROM generate_series(1, 2000) n");
    let settings = Settings::of(&server.url("table=t&columns=v&changes=off"), "threads = 4\nsource-connections = 2");
    let larder = settings.start();
    // Connections go to the thread that has the fewest.
    let mut clients: Vec<_> = (0..8).map(|_| larder.client()).collect();
    for from in 0..20 {
        let keys: Vec<String> = (1..=100).map(|n| (100 * from + n).to_string()).collect();
        let command: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        // All at the same time.
        clients.iter_mut().for_each(|client| client.send(&command).unwrap());
        for client in &mut clients {
            let Reply::Array(Some(all)) = client.read().unwrap() else { panic!("no array") };
            assert!(all.iter().zip(&keys).all(|(value, key)| *value == Reply::bulk(key)));
        }
    }
    let own = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'larder'";
    assert!(server.sql(own).parse::<u32>().unwrap() <= 2, "{}", server.sql(own));

    // All places are taken by others: a Larder that comes now says so, and works when there is room.
    drop(clients);
    drop(larder);
    let mut hog = Vec::new();
    // A place is free again only when the database has ended what had it.
    wait_until("a full database", || {
        hog.extend(SqlClient::connect(server.port()));
        hog.len() == 5
    });
    let other = settings.start();
    wait_until("an error", || {
        let said = text(&mut other.client(), &["GET", "1"]);
        assert!(said.starts_with("ERR source unavailable: "), "{said}");
        said.contains("SQLSTATE 53300")
    });
    drop(hog);
    wait_until("an answer", || text(&mut other.client(), &["GET", "1"]) == "1");
}

#[test]
fn a_restart_of_the_database_is_survived() {
    let mut server = PostgresServer::start();
    server.sql(SHOP);
    let larder = Settings::of(
        &server.url("table=users&columns=name&changes=off"),
        "ttl = '1ms'\nnegative-ttl = 'off'\nstale-if-error = 'off'",
    )
    .start();
    let mut client = larder.client();
    assert_eq!(text(&mut client, &["GET", "42"]), "Ada");
    server.restart();
    // The connection that is gone costs no request.
    let start = Instant::now();
    while text(&mut client, &["GET", "42"]) != "Ada" {
        assert!(start.elapsed() < PATIENCE, "it does not come back");
    }
    server.kill();
    let said = text(&mut client, &["GET", "42"]);
    assert!(said.starts_with("ERR source unavailable: "), "{said}");
    server.restart();
    wait_until("an answer", || text(&mut client, &["GET", "42"]) == "Ada");
    // A column's type changes under prepared statements.
    server.sql("ALTER TABLE users ALTER name TYPE varchar(20); ALTER TABLE users ADD age int");
    assert_eq!(text(&mut client, &["GET", "42"]), "Ada");
}

/// A read whose connection ends is sent again on another one.
#[test]
fn a_connection_that_ends_costs_no_read() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let larder = Settings::of(&server.url("table=users&columns=name&changes=off"), "ttl = '1ms'").start();
    let mut client = larder.client();
    assert_eq!(text(&mut client, &["GET", "42"]), "Ada");
    let mut other = SqlClient::connect(server.port()).unwrap();
    other.run("BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE").unwrap();
    client.send(&["GET", "43"]).unwrap();
    let waiting = "FROM pg_stat_activity WHERE application_name = 'larder' AND wait_event_type = 'Lock'";
    wait_until("the read to wait", || server.sql(&format!("SELECT count(*) {waiting}")) == "1");
    server.sql(&format!("SELECT pg_terminate_backend(pid) {waiting}"));
    other.run("COMMIT").unwrap();
    assert_eq!(client.read().unwrap(), Reply::bulk("Bob"));
}

/// A connection whose server is silent is given up: the next read has another one.
#[test]
fn a_silent_connection_is_given_up() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let rest = "ttl = '1ms'\nthreads = 1\nsource-connections = 1\nstale-if-error = 'off'";
    let larder =
        Settings::of(&server.url("table=users&columns=name&changes=off"), rest).start_with(&["--source-timeout=1s"]);
    let mut client = larder.client();
    wait_until("an answer", || text(&mut client, &["GET", "42"]) == "Ada");
    // That of the check at the start may not be gone yet.
    let own = || server.sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'larder'");
    wait_until("one connection", || !own().contains('\n'));
    let frozen = Frozen::new(own().parse().unwrap());
    wait_until("an error", || text(&mut client, &["GET", "43"]).starts_with("ERR source unavailable: "));
    wait_until("an answer", || text(&mut client, &["GET", "43"]) == "Bob");
    drop(frozen);
}

/// The result of a prepared statement has another type: it is prepared again.
#[test]
fn a_column_of_another_type_is_read_at_once() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let larder = Settings::of(&server.url("table=users&columns=photo&changes=off"), "ttl = '1ms'").start();
    let mut client = larder.client();
    assert_eq!(client.command(&["GET", "42"]), Reply::bulk([0, 255]));
    server.sql("ALTER TABLE users ALTER photo TYPE text USING 'a text'");
    let mut answer = String::new();
    wait_until("the end of the copy", || {
        answer = text(&mut client, &["GET", "42"]);
        answer != "\0\u{fffd}"
    });
    assert_eq!(answer, "a text");
}

#[test]
fn a_database_that_is_away_at_the_start_is_asked_later() {
    let mut server = PostgresServer::start();
    server.sql(SHOP);
    server.kill();
    let larder = Settings::of(&server.url("table=users&columns=name"), "").start();
    let mut client = larder.client();
    let start = Instant::now();
    let said = text(&mut client, &["GET", "42"]);
    assert!(said.starts_with("ERR source unavailable: ") && start.elapsed() < Duration::from_secs(5), "{said}");
    server.restart();
    wait_until("an answer", || text(&mut client, &["GET", "42"]) == "Ada");
}

#[test]
fn passwords_tls_and_several_servers() {
    let server = PostgresServer::with(&["password_encryption=scram-sha-256"]);
    server.sql(SHOP);
    server.sql("CREATE ROLE reader LOGIN PASSWORD 's3cret/@:'; GRANT SELECT ON users TO reader");
    server.allow("host all reader all scram-sha-256");
    let port = server.port();
    let at = |userinfo: &str, host: &str, rest: &str| {
        format!("postgres://{userinfo}@{host}/shop?table=users&columns=name&{rest}")
    };
    let good = format!("127.0.0.1:{port}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "s3cret/@:\n").unwrap();
    let of_file = format!("password-file={}", file.display());
    let nobody = crate::common::Port::free();
    let two = format!("127.0.0.1:{},{good}", nobody.number);
    let socket = format!("host={}&port={port}&user=app", server.dir().display());
    for url in [
        at("reader:s3cret%2F%40%3A", &good, ""),
        at("reader", &good, &of_file),
        at("app", &two, "target_session_attrs=read-write"),
        at("app", &good, "read-from=replica"),
        at("app", &good, "sslmode=prefer"),
        format!("postgres:///shop?table=users&columns=name&{socket}"),
    ] {
        let larder = Settings::of(&url, "").start();
        assert_eq!(text(&mut larder.client(), &["GET", "42"]), "Ada", "{url}");
    }
    for (url, expected) in [
        (at("reader:wrong", &good, ""), "SQLSTATE 28P01: password authentication failed for user \"reader\""),
        (at("app", &good, "sslmode=require"), "TLS"),
        (at("app", &good, "target_session_attrs=standby"), "is a primary, and a standby is wanted"),
        (at("app", &good, "target_session_attrs=standby").replace("/shop", "/nowhere"), "SQLSTATE 3D000"),
    ] {
        let larder = Settings::of(&url, "").start();
        let said = text(&mut larder.client(), &["GET", "42"]);
        assert!(said.starts_with("ERR source unavailable: ") && said.contains(expected), "{url}: {said}");
    }
    let larder =
        crate::larder::Larder::with_env(&[("PGPASSWORD", "s3cret/@:")], &["--source", &at("reader", &good, "")]);
    assert_eq!(text(&mut larder.client(), &["GET", "42"]), "Ada");
    // What the user may not read is the database's own error.
    server.sql("REVOKE SELECT ON users FROM reader");
    let said = text(&mut larder.client(), &["GET", "43"]);
    assert!(
        said.starts_with("ERR postgres://") && said.contains("SQLSTATE 42501: permission denied for table users"),
        "{said}"
    );
}
