//! TLS to the database: certificates are verified as libpq does.
use super::{
    SHOP, Settings,
    server::{PostgresServer, give_file},
    text,
};
use crate::{
    common::wait_until,
    tls::certificates::{Authority, Files},
};
use std::fs;

#[test]
fn certificates_are_verified() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let (authority, stranger) = (Authority::new(), Authority::new());
    let Files { cert, key } = authority.issue("db", &["localhost"]);
    for (from, name) in [(cert, "server.crt"), (key, "server.key")] {
        let to = server.dir().join("data").join(name);
        fs::copy(from, &to).unwrap();
        give_file(&to);
    }
    server.sql("ALTER SYSTEM SET ssl = on");
    server.sql("SELECT pg_reload_conf()");
    wait_until("TLS", || server.sql("SHOW ssl") == "on");
    server.sql("CREATE ROLE reader LOGIN SUPERUSER");
    server.allow("hostnossl all reader all reject");
    let url = |host: &str, tls: &str, ca: Option<&Authority>| {
        let ca = ca.map_or(String::new(), |ca| format!("&sslrootcert={}", ca.file().display()));
        format!("postgres://reader@{host}:{}/shop?table=users&columns=name&sslmode={tls}{ca}", server.port())
    };
    let (own, other) = (Some(&authority), Some(&stranger));
    for url in [
        url("localhost", "verify-full", own),
        url("127.0.0.1", "verify-ca", own),
        url("127.0.0.1", "require", None),
        url("127.0.0.1", "prefer", None),
    ] {
        let larder = Settings::of(&url, "").start();
        assert_eq!(text(&mut larder.client(), &["GET", "42"]), "Ada", "{url}");
        wait_until("the stream", || larder.metric("larder_source_tracking_connections") == 1.0);
        let plain =
            "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'reader' AND NOT ssl";
        assert_eq!(server.sql(plain), "0", "{url}");
    }
    for (url, told) in [
        (url("127.0.0.1", "verify-full", own), "certificate"),
        (url("localhost", "verify-full", other), "certificate"),
        (url("127.0.0.1", "verify-ca", other), "certificate"),
        (url("127.0.0.1", "require", other), "certificate"),
        (url("127.0.0.1", "disable", None), "SQLSTATE 28000"),
    ] {
        let larder = Settings::of(&url, "").start();
        let said = text(&mut larder.client(), &["GET", "42"]);
        assert!(said.starts_with("ERR source unavailable: ") && said.contains(told), "{url}: {said}");
        assert_eq!(larder.metric("larder_source_tracking_connections"), 0.0, "{url}");
    }
}
