//! Reads from a streaming standby.
use super::{
    Settings,
    changes::{QUERIES, TABLES, metric, standby_of, until_announced, until_kept, until_seen},
    server::PostgresServer,
    text,
};
use crate::common::wait_until;

/// A standby that is behind is read, and says so. What it has not applied is not kept. When it is
/// promoted, it is read and followed.
#[test]
fn a_standby_is_read_and_its_lag_is_stated() {
    let mut server = PostgresServer::start();
    server.sql(TABLES);
    let standby = standby_of(&server, &[]);
    let url = format!("postgres://app@127.0.0.1:{},127.0.0.1:{}/shop?read-from=replica", server.port(), standby.port());
    let larder = Settings::of(&url, QUERIES).start();
    until_announced(&larder);
    let mut client = larder.client();
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Ada");
    let readers = "SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'larder'";
    assert_eq!(standby.sql(readers), "t", "it is read");
    assert_eq!(metric(&larder, "replica_lag_seconds"), 0.0);

    standby.sql("SELECT pg_wal_replay_pause()");
    let announced = metric(&larder, "invalidations_total");
    server.sql("UPDATE users SET name = 'New' WHERE id = 42");
    wait_until("the announcement", || metric(&larder, "invalidations_total") > announced);
    let fetches = metric(&larder, "fetches_total");
    for _ in 0..5 {
        assert_eq!(text(&mut client, &["GET", "user:42"]), "Ada", "as the standby has it");
    }
    assert_eq!(metric(&larder, "fetches_total"), fetches + 5.0, "it is not kept");
    wait_until("the lag", || metric(&larder, "replica_lag_seconds") > 0.5);
    let info = text(&mut client, &["INFO", "larder"]);
    let lag = info.lines().find_map(|line| line.strip_prefix("larder_source_replica_lag_ms:")).unwrap();
    assert!(lag.trim().parse::<u64>().unwrap() > 500, "{lag}");

    standby.sql("SELECT pg_wal_replay_resume()");
    until_seen(&mut client, "user:42", "New");
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "New");
    wait_until("the lag to end", || metric(&larder, "replica_lag_seconds") == 0.0);

    server.kill();
    standby.sql("SELECT pg_promote()");
    standby.sql("UPDATE users SET name = 'Promoted' WHERE id = 42");
    wait_until("the new primary", || text(&mut client, &["GET", "user:42"]) == "Promoted");
    until_announced(&larder);
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Promoted");
    wait_until("no lag", || metric(&larder, "replica_lag_seconds") == 0.0);
}
