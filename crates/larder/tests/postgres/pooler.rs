//! PgBouncer in transaction mode, which gives each transaction another session.
use super::{
    QUERIES, SHOP, Settings,
    server::{PostgresServer, as_account, give},
    text,
};
use crate::common::{Port, Reply, wait_until};
use std::{
    path::Path,
    process::{Child, Stdio},
};

struct PgBouncer {
    child: Child,
    port: Port,
    _dir: tempfile::TempDir,
}
impl PgBouncer {
    fn start(server: &PostgresServer, more: &str) -> PgBouncer {
        let (dir, port) = (tempfile::tempdir().unwrap(), Port::free());
        give(dir.path());
        let (file, users) = (dir.path().join("pgbouncer.ini"), dir.path().join("users.txt"));
        let text = format!(
            "[databases]\nshop = user=app host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\n\
             pool_mode = transaction\ndefault_pool_size = 3\nauth_type = trust\nauth_file = {}\nunix_socket_dir =\n{more}\n",
            server.port(),
            port.number,
            users.display()
        );
        std::fs::write(&file, text).unwrap();
        std::fs::write(&users, "\"app\" \"\"\n").unwrap();
        let child = as_account(Path::new("/usr/sbin/pgbouncer"))
            .arg("-q")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let bouncer = PgBouncer { child: child.expect("pgbouncer is installed"), port, _dir: dir };
        wait_until("PgBouncer", || std::net::TcpStream::connect(("127.0.0.1", bouncer.port.number)).is_ok());
        bouncer
    }
}
impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// Two Larders with other queries share the sessions of one pool. A statement with a name would be
/// missing in most of them, or be that of the other Larder.
#[test]
fn transactions_in_other_sessions() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    for more in ["", "ignore_startup_parameters = options"] {
        let bouncer = PgBouncer::start(&server, more);
        let url = format!("postgres://app@127.0.0.1:{}/shop?changes=off&", bouncer.port.number);
        let one = Settings::of(&url, &format!("ttl = '1ms'\nsource-timeout = '2s'\nthreads = 2\n{QUERIES}")).start();
        let two = Settings::of(
            &format!("{url}table=users&columns=name"),
            "ttl = '1ms'\nthreads = 2\nsource-writes = 'through'",
        )
        .start();
        let (mut a, mut b, mut c) = (one.client(), two.client(), one.client());
        for _ in 0..30 {
            for client in [&mut a, &mut c] {
                assert_eq!(text(client, &["GET", "orders:43"]), "[]");
                assert_eq!(text(client, &["GET", "price:de:tea:green"]), "250");
            }
            let names = Reply::Array(Some(vec![Reply::bulk("Ada"), Reply::bulk("Bob"), Reply::nil()]));
            assert_eq!(b.command(&["MGET", "42", "43", "44"]), names);
        }
        assert_eq!(text(&mut b, &["SET", "43", "Bobby"]), "OK");
        assert_eq!(text(&mut b, &["GET", "43"]), "Bobby");
        assert_eq!(text(&mut b, &["SET", "43", "Bob"]), "OK");
        // Settings of Larder's transactions do not stay in the sessions that others get.
        let left = server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'larder'");
        assert!(left.parse::<u32>().unwrap() <= 3 + 1, "{left}");
    }
}
