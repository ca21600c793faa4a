//! Changes that PostgreSQL announces: seen at once, whatever happens to the stream.
use super::{Settings, server::PostgresServer, text};
use crate::{
    common::{Client, relay, wait_until},
    larder::Larder,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    net::{TcpListener, TcpStream},
    process::Command,
    thread::{self, scope},
    time::{Duration, Instant},
};

/// How soon a change must be visible, on a machine with more to do than two cores can.
const BOUND: Duration = Duration::from_millis(500);

pub const TABLES: &str = "
CREATE TABLE users (id int PRIMARY KEY, name text NOT NULL, notes text);
CREATE TABLE orders (id bigint PRIMARY KEY, user_id int, total int);
CREATE TABLE prices (country text, sku text, cents int, PRIMARY KEY (country, sku));
ALTER TABLE orders REPLICA IDENTITY FULL;
INSERT INTO users VALUES (42, 'Ada'), (43, 'Bob');
INSERT INTO orders VALUES (1, 42, 10), (2, 42, 20), (3, 43, 30);
INSERT INTO prices VALUES ('de', 'tea', 250);
";

pub const QUERIES: &str = r#"
negative-ttl = "1h"
threads = 2

[prefixes."user:"]
query = "SELECT name FROM users WHERE id = $1"
depends-on = ["users.id"]

[prefixes."orders:"]
query = "SELECT sum(total) FROM orders WHERE user_id = $1"
depends-on = ["orders.user_id"]

[prefixes."price:"]
query = "SELECT cents FROM prices WHERE country = $1 AND sku = $2"
depends-on = ["prices.*"]
"#;

pub fn metric(larder: &Larder, name: &str) -> f64 {
    larder.metric(&format!("larder_source_{name}{{group=\"default\"}}"))
}
pub fn until_announced(larder: &Larder) {
    wait_until("the stream", || metric(larder, "tracking_connections") == 1.0);
}
/// Reads until the answer comes from the tier.
pub fn until_kept(larder: &Larder, client: &mut Client, key: &str) -> String {
    let mut answer = String::new();
    wait_until("the answer to be kept", || {
        answer = text(client, &["GET", key]);
        let before = metric(larder, "fetches_total");
        assert_eq!(text(client, &["GET", key]), answer, "{key}");
        metric(larder, "fetches_total") == before
    });
    answer
}
#[track_caller]
pub fn until_seen(client: &mut Client, key: &str, value: &str) {
    let start = Instant::now();
    loop {
        let answer = text(client, &["GET", key]);
        if answer == value {
            return;
        }
        // How soon is the checker's question. Here a busy machine may take its time.
        assert!(start.elapsed() < 40 * BOUND, "{key} is still {answer}, not {value}");
    }
}
fn start(server: &PostgresServer, parameters: &str) -> Larder {
    let larder = Settings::of(&server.url(parameters), QUERIES).start();
    until_announced(&larder);
    larder
}

/// What changes, and then the values of keys that were kept before.
const CHANGES: [(&str, &[(&str, &str)]); 13] = [
    ("UPDATE users SET name = 'Ada2' WHERE id = 42", &[("user:42", "Ada2"), ("user:43", "Bob")]),
    ("UPDATE users SET id = 44 WHERE id = 43", &[("user:43", "(nil)"), ("user:44", "Bob")]),
    ("DELETE FROM users WHERE id = 44", &[("user:44", "(nil)")]),
    ("INSERT INTO users VALUES (45, 'Cy')", &[("user:45", "Cy")]),
    (
        "BEGIN; SAVEPOINT s; UPDATE users SET name = 'no' WHERE id = 42; ROLLBACK TO s; SAVEPOINT t; \
         UPDATE users SET name = 'Ada3' WHERE id = 42; RELEASE t; COMMIT",
        &[("user:42", "Ada3")],
    ),
    ("UPDATE orders SET user_id = 43 WHERE id = 2", &[("orders:42", "10"), ("orders:43", "50")]),
    ("UPDATE orders SET total = 11 WHERE id = 1", &[("orders:42", "11")]),
    ("DELETE FROM orders WHERE user_id = 43", &[("orders:43", "(nil)")]),
    ("UPDATE prices SET cents = 260", &[("price:de:tea", "260")]),
    ("INSERT INTO prices VALUES ('fr', 'tea', 1)", &[("price:fr:tea", "1"), ("price:de:tea", "260")]),
    ("UPDATE users SET name = repeat('x', 100000), notes = repeat('y', 100000) WHERE id = 45", &[]),
    ("TRUNCATE prices", &[("price:de:tea", "(nil)"), ("price:fr:tea", "(nil)")]),
    ("TRUNCATE users, orders", &[("user:42", "(nil)"), ("orders:42", "(nil)")]),
];

fn all_changes_are_seen(server: &PostgresServer, larder: &Larder) {
    let mut client = larder.client();
    for (change, values) in CHANGES {
        for (key, _) in values {
            until_kept(larder, &mut client, key);
        }
        server.sql(change);
        for (key, value) in values {
            until_seen(&mut client, key, value);
            assert_eq!(until_kept(larder, &mut client, key), *value, "{change}");
        }
        // A truncated table has a new file, as a table that was rewritten has, which the stream does not tell: it
        // begins again when the database is asked next.
        let losses = metric(larder, "tracking_losses_total");
        assert!(losses == 0.0 || change.starts_with("TRUNCATE"), "{losses} after {change}");
    }
}

#[test]
fn what_changes_in_the_database_is_seen() {
    let server = PostgresServer::start();
    server.sql(TABLES);
    let larder = start(&server, "");
    all_changes_are_seen(&server, &larder);
    let slots = "SELECT count(*), bool_and(temporary), (SELECT string_agg(tablename, ',' ORDER BY tablename) \
        FROM pg_publication_tables WHERE pubname = 'larder') FROM pg_replication_slots";
    wait_until("one temporary slot", || server.sql(slots) == "1|t|orders,prices,users");
    // The stream does not tell it, the database is asked each second.
    let mut client = larder.client();
    server.sql("INSERT INTO users VALUES (1, 'Eve')");
    assert_eq!(until_kept(&larder, &mut client, "user:1"), "Eve");
    server.sql("ALTER TABLE users ALTER name TYPE text USING upper(name)");
    wait_until("the change of the schema", || text(&mut client, &["GET", "user:1"]) == "EVE");
    // Of a row that is too large to be read from the stream, no key is known: all of its table are announced.
    until_announced(&larder);
    assert_eq!(until_kept(&larder, &mut client, "user:1"), "EVE");
    server.sql("UPDATE users SET name = 'Large', notes = repeat('y', 20000000) WHERE id = 1");
    until_seen(&mut client, "user:1", "Large");
}

/// Other spellings of a key find the same row, but its change announces only one of them.
#[test]
fn other_spellings_of_a_key_are_not_kept() {
    let server = PostgresServer::start();
    server.sql(TABLES);
    let larder = start(&server, "");
    let mut client = larder.client();
    until_kept(&larder, &mut client, "user:42");
    for key in ["user:042", "user:-0", "user:00"] {
        let before = metric(&larder, "fetches_total");
        (0..5).for_each(|_| drop(text(&mut client, &["GET", key])));
        assert_eq!(metric(&larder, "fetches_total"), before + 5.0, "{key}");
    }
}

/// The trap: the stream announces a commit that no session sees yet, because a synchronous standby
/// has not confirmed it. What is fetched then is the old row, and nothing would correct a copy.
#[test]
fn a_row_that_was_fetched_before_its_announced_change_is_visible_is_not_kept() {
    let server = PostgresServer::start();
    server.sql(TABLES);
    let larder = start(&server, "");
    let mut client = larder.client();
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Ada");
    until_kept(&larder, &mut client, "user:43");
    let waits_for = |standby: &str| {
        server.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{standby}'"));
        server.sql("SELECT pg_reload_conf()");
        wait_until("the setting", || server.sql("SHOW synchronous_standby_names") == standby);
    };
    waits_for("nobody");
    let before = metric(&larder, "invalidations_total");
    // Nothing may fail while the writer waits: the scope would wait for it, too.
    let (answers, fetches, other) = scope(|scope| {
        let writer = scope.spawn(|| server.sql("UPDATE users SET name = 'New' WHERE id = 42"));
        wait_until("the announcement", || metric(&larder, "invalidations_total") > before);
        let begun = metric(&larder, "fetches_total");
        let answers: Vec<String> = (0..20).map(|_| text(&mut client, &["GET", "user:42"])).collect();
        let fetches = metric(&larder, "fetches_total") - begun;
        let other = (text(&mut client, &["GET", "user:43"]), metric(&larder, "fetches_total") - begun);
        let waits = !writer.is_finished();
        waits_for("");
        writer.join().unwrap();
        assert!(waits, "the commit waits");
        (answers, fetches, other)
    });
    assert!(answers.iter().all(|answer| answer == "Ada"), "as every session of the database sees it: {answers:?}");
    assert_eq!(fetches, 20.0, "it is not kept");
    assert_eq!(other, ("Bob".to_owned(), 20.0), "others are");
    assert_eq!(text(&mut client, &["GET", "user:42"]), "New", "at once");
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "New");
}

/// Changes meanwhile, and then the copy is not fresh. `lose` does something to the stream.
fn survives(server: &mut PostgresServer, larder: &Larder, round: usize, lose: impl FnOnce(&mut PostgresServer)) {
    let mut client = larder.client();
    let value = format!("round {round}");
    server.sql(&format!("UPDATE users SET name = '{value}' WHERE id = 42"));
    until_seen(&mut client, "user:42", &value);
    assert_eq!(until_kept(larder, &mut client, "user:42"), value);
    let losses = metric(larder, "tracking_losses_total");
    lose(server);
    let after = format!("after {value}");
    server.sql(&format!("UPDATE users SET name = '{after}' WHERE id = 42"));
    wait_until("the loss", || metric(larder, "tracking_losses_total") > losses);
    wait_until("the change", || text(&mut client, &["GET", "user:42"]) == after);
    until_announced(larder);
    assert_eq!(until_kept(larder, &mut client, "user:42"), after);
}

#[test]
fn a_lost_stream_comes_back() {
    let mut server = PostgresServer::start();
    server.sql(TABLES);
    let larder = start(&server, "");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_replication";
    for round in 0..2 {
        survives(&mut server, &larder, round, |server| drop(server.sql(end)));
    }
    survives(&mut server, &larder, 2, |server| {
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'larder%'");
    });
    survives(&mut server, &larder, 3, PostgresServer::restart);
    survives(&mut server, &larder, 4, |server| drop(server.sql("DROP PUBLICATION larder")));
    survives(&mut server, &larder, 5, |server| drop(server.sql("ALTER PUBLICATION larder DROP TABLE users")));
}

/// As long as the stream cannot come back, nothing that is read is kept: its next change is not
/// announced.
#[test]
fn what_is_read_without_a_stream_is_not_kept() {
    let server = PostgresServer::start();
    server.sql(TABLES);
    server.sql(
        "CREATE ROLE reader LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; \
         CREATE PUBLICATION larder FOR ALL TABLES",
    );
    let larder = Settings::of(&server.url("").replace("app@", "reader@"), QUERIES).start();
    until_announced(&larder);
    let mut client = larder.client();
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Ada");
    server.sql("ALTER ROLE reader NOREPLICATION");
    server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_replication");
    wait_until("the loss", || metric(&larder, "tracking_connections") == 0.0);
    for value in ["one", "two", "three"] {
        server.sql(&format!("UPDATE users SET name = '{value}' WHERE id = 42"));
        until_seen(&mut client, "user:42", value);
    }
    server.sql("ALTER ROLE reader REPLICATION");
    until_announced(&larder);
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "three");
}

/// A slot of a name stays. If it is dropped, or its log is removed, it is made again.
#[test]
fn a_named_slot_that_is_lost_is_made_again() {
    let mut server = PostgresServer::with(&["max_slot_wal_keep_size=1MB", "max_wal_size=32MB", "min_wal_size=32MB"]);
    server.sql(TABLES);
    let mut larder = start(&server, "slot=shop_cache");
    let end = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active";
    survives(&mut server, &larder, 0, |server| drop(server.sql(end)));
    survives(&mut server, &larder, 1, PostgresServer::restart);
    survives(&mut server, &larder, 2, |server| {
        server.sql(end);
        wait_until("the slot to be dropped", || {
            server.try_sql("SELECT pg_drop_replication_slot('shop_cache')").is_ok() || {
                let _ = server.try_sql(end);
                false
            }
        });
    });
    // While no Larder is there, its log is removed.
    larder.signal(Signal::TERM);
    larder.wait();
    wait_until("the log to be removed", || {
        server.sql("SELECT pg_logical_emit_message(false, '', repeat('x', 1000000)) FROM generate_series(1, 20)");
        server.sql("SELECT pg_switch_wal()");
        server.sql("CHECKPOINT");
        server.sql("SELECT wal_status FROM pg_replication_slots") == "lost"
    });
    let larder = start(&server, "slot=shop_cache");
    survives(&mut server, &larder, 3, |server| drop(server.sql(end)));
    assert_eq!(server.sql("SELECT slot_name, wal_status FROM pg_replication_slots"), "shop_cache|reserved");
}

/// A process that stands still until this is dropped.
pub struct Frozen(Pid);
impl Frozen {
    pub fn new(pid: i32) -> Frozen {
        let pid = Pid::from_raw(pid).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        Frozen(pid)
    }
}
impl Drop for Frozen {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// The stream stands still while the database goes on: copies are served for a second and the
/// deadline, then each read asks.
#[test]
fn a_stream_that_is_late_makes_copies_stale() {
    let server = PostgresServer::start();
    server.sql(TABLES);
    let larder = Settings::of(&server.url(""), QUERIES).start_with(&["--source-timeout=1s"]);
    until_announced(&larder);
    let mut client = larder.client();
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Ada");
    let pid: i32 = server.sql("SELECT pid FROM pg_stat_replication").parse().unwrap();
    let frozen = Frozen::new(pid);
    server.sql("UPDATE users SET name = 'Late' WHERE id = 42");
    let changed = Instant::now();
    wait_until("the read of the new row", || {
        // By Larder's own clock: a busy machine may hold it up for longer than its bound of 2 s.
        let lag = metric(&larder, "lag_seconds");
        let answer = text(&mut client, &["GET", "user:42"]);
        assert!(answer == "Late" || lag < 2.5, "still {answer} at a lag of {lag} s");
        answer == "Late"
    });
    assert_eq!(metric(&larder, "tracking_connections"), 0.0);
    // What is read meanwhile is not kept either: its next change is not announced.
    for value in ["Later", "Latest"] {
        server.sql(&format!("UPDATE users SET name = '{value}' WHERE id = 42"));
        until_seen(&mut client, "user:42", value);
    }
    // The age of the change, which is not announced: less only by how often the lag is noted.
    for _ in 0..5 {
        let age = changed.elapsed().as_secs_f64();
        wait_until("the lag to be shown", || {
            metric(&larder, "lag_seconds") >= age && metric(&larder, "lag_bytes") > 0.0
        });
        wait_until("a lag of less than half a second below the age of the change", || {
            let age = changed.elapsed().as_secs_f64();
            metric(&larder, "lag_seconds") > age - 0.5
        });
    }
    drop(frozen);
    until_announced(&larder);
    wait_until("the lag to end", || metric(&larder, "lag_bytes") == 0.0);
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Latest");
}

/// A standby of a server, by its own tools. `settings` as for the server.
pub fn standby_of(server: &PostgresServer, settings: &[&str]) -> PostgresServer {
    let dir = tempfile::tempdir().unwrap();
    super::server::give(dir.path());
    let done = super::server::as_account(&super::server::program("pg_basebackup"))
        .args(["-R", "-X", "stream", "--checkpoint=fast", "--no-sync", "-h", "127.0.0.1", "-U", "app", "-p"])
        .arg(server.port().to_string())
        .arg("-D")
        .arg(dir.path().join("data"))
        .status();
    assert!(done.unwrap().success(), "pg_basebackup");
    PostgresServer::in_dir(dir, settings)
}

#[test]
fn a_standby_that_is_promoted_is_followed() {
    let mut server = PostgresServer::start();
    server.sql(TABLES);
    let standby = standby_of(&server, &[]);
    let url = format!(
        "postgres://app@127.0.0.1:{},127.0.0.1:{}/shop?target_session_attrs=primary",
        server.port(),
        standby.port()
    );
    let larder = Settings::of(&url, QUERIES).start();
    until_announced(&larder);
    let mut client = larder.client();
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Ada");
    server.kill();
    standby.sql("SELECT pg_promote()");
    standby.sql("UPDATE users SET name = 'Promoted' WHERE id = 42");
    wait_until("the new primary", || text(&mut client, &["GET", "user:42"]) == "Promoted");
    until_announced(&larder);
    assert_eq!(until_kept(&larder, &mut client, "user:42"), "Promoted");
    standby.sql("UPDATE users SET name = 'Again' WHERE id = 42");
    until_seen(&mut client, "user:42", "Again");
}

/// What only a change of the settings or of the table mends stops the start, with the statement.
#[test]
fn tables_that_cannot_be_watched_stop_the_start() {
    let query = "[prefixes.\"user:\"]\nquery = \"SELECT name FROM users WHERE id = $1\"\ndepends-on = ";
    for (prepare, depends_on, told) in [
        (
            "ALTER TABLE orders REPLICA IDENTITY DEFAULT",
            r#"["orders.user_id"]"#,
            "ALTER TABLE orders REPLICA IDENTITY FULL",
        ),
        ("ALTER TABLE users REPLICA IDENTITY NOTHING", r#"["users.id"]"#, "ALTER TABLE users REPLICA IDENTITY FULL"),
        ("ALTER TABLE users SET UNLOGGED", r#"["users.id"]"#, "ALTER TABLE public.users SET LOGGED"),
        ("CREATE VIEW v AS SELECT * FROM users", r#"["v.id"]"#, "public.v is no table"),
        ("SELECT", r#"["nothing.id"]"#, "there is no table nothing"),
        ("SELECT", r#"["users.nothing"]"#, "public.users has no column nothing"),
        (
            "ALTER TABLE users DROP CONSTRAINT users_pkey, ADD UNIQUE (id) INCLUDE (name); \
             ALTER TABLE users REPLICA IDENTITY USING INDEX users_id_name_key",
            r#"["users.name"]"#,
            "ALTER TABLE users REPLICA IDENTITY FULL",
        ),
        ("ALTER TABLE users ADD price numeric", r#"["users.price"]"#, "users.price is of type numeric"),
    ] {
        let server = PostgresServer::start();
        server.sql(TABLES);
        server.sql(prepare);
        let said = super::settings::refusal(&server.url(""), &format!("{query}{depends_on}"));
        assert!(said.contains(told), "{prepare}: {said}");
    }
    // The same of `table=`, which names its key. With `changes=off` it starts.
    let server = PostgresServer::start();
    server.sql(TABLES);
    server.sql(
        "CREATE TABLE blobs (k bytea PRIMARY KEY, v text); CREATE TABLE sums (k numeric PRIMARY KEY, v text); \
         CREATE VIEW names AS SELECT * FROM users; CREATE UNLOGGED TABLE hasty (k int PRIMARY KEY, v text); \
         INSERT INTO blobs VALUES ('k', 'v'); INSERT INTO sums VALUES (1, 'v'); INSERT INTO hasty VALUES (1, 'v')",
    );
    for (table, key, told) in [
        ("table=blobs&columns=v", "k", "public.blobs.k is of type bytea"),
        ("table=sums&columns=v", "1", "public.sums.k is of type numeric"),
        ("table=names&key=id&columns=name", "42", "public.names is no table"),
        ("table=hasty&columns=v", "1", "ALTER TABLE public.hasty SET LOGGED"),
    ] {
        let said = super::settings::refusal(&server.url(table), "");
        assert!(said.contains(told) && said.contains("changes=off"), "{table}: {said}");
        let larder = Settings::of(&server.url(&format!("{table}&changes=off")), "").start();
        let found = text(&mut larder.client(), &["GET", key]);
        assert!(matches!(&*found, "v" | "Ada"), "{table}: {found}");
    }
}

/// What is missing is told with the statement that mends it, and nothing is kept until then.
#[test]
fn what_the_database_lacks_is_told() {
    let users = "[prefixes.\"user:\"]\nquery = \"SELECT name FROM users WHERE id = $1\"\ndepends-on = ";
    for (prepare, depends_on, told) in [
        (
            "CREATE PUBLICATION larder FOR TABLE users WHERE (id > 0)",
            r#"["users.id"]"#,
            "leaves out rows or columns of public.users",
        ),
        ("CREATE PUBLICATION larder FOR TABLE users WITH (publish = 'insert')", r#"["users.id"]"#, "SET (publish = "),
        (
            "CREATE TABLE p (id int PRIMARY KEY) PARTITION BY RANGE (id); CREATE TABLE p1 PARTITION OF p DEFAULT; \
             CREATE PUBLICATION larder FOR ALL TABLES",
            r#"["p.id"]"#,
            "publish_via_partition_root = true",
        ),
        (
            "CREATE ROLE reader LOGIN REPLICATION; GRANT SELECT ON users TO reader",
            r#"["users.id"]"#,
            "CREATE PUBLICATION \"larder\" FOR TABLE public.users",
        ),
        (
            "CREATE ROLE reader LOGIN; GRANT SELECT ON users TO reader; CREATE PUBLICATION larder FOR ALL TABLES",
            r#"["users.id"]"#,
            "SQLSTATE",
        ),
    ] {
        let server = PostgresServer::start();
        server.sql(TABLES);
        server.sql(prepare);
        let user = if prepare.contains("ROLE") { "reader@" } else { "app@" };
        let url = server.url("").replace("app@", user);
        let mut larder = Settings::of(&url, &format!("{users}{depends_on}")).start();
        wait_until("the refusal", || metric(&larder, "untracked_connections") == 1.0);
        let mut client = larder.client();
        for _ in 0..5 {
            assert_eq!(text(&mut client, &["GET", "user:42"]), "Ada");
        }
        assert_eq!(metric(&larder, "fetches_total"), 5.0, "{prepare}: nothing is kept");
        let mut log = larder.wait_for_stderr(told);
        // Further attempts have the same outcome.
        std::thread::sleep(Duration::from_millis(100));
        larder.signal(Signal::TERM);
        larder.wait();
        log += &larder.stderr();
        assert_eq!(log.matches("does not announce changes").count(), 1, "told once: {log}");
    }
}

/// A balancer that sends the stream to one server and statements to another: the stream says nothing
/// of what is read.
#[test]
fn two_servers_at_one_address_are_refused() {
    let [server, other] = [PostgresServer::start(), PostgresServer::start()];
    server.sql(TABLES);
    other.sql(TABLES);
    let balancer = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = balancer.local_addr().unwrap();
    let ports = [server.port(), other.port()];
    thread::spawn(move || {
        for client in balancer.incoming() {
            let client = client.unwrap();
            let mut startup = [0; 512];
            let len = client.peek(&mut startup).unwrap();
            let is_stream = String::from_utf8_lossy(&startup[..len]).contains("replication\0");
            let server = TcpStream::connect(("127.0.0.1", ports[usize::from(is_stream)])).unwrap();
            relay(&client, &server);
        }
    });
    let url = format!("postgres://app@{address}/shop?sslmode=disable");
    let mut larder = Settings::of(&url, QUERIES).start();
    let mut client = larder.client();
    for value in ["one", "two", "three"] {
        server.sql(&format!("UPDATE users SET name = '{value}' WHERE id = 42"));
        assert_eq!(text(&mut client, &["GET", "user:42"]), value);
    }
    larder.wait_for_stderr("two servers answer at this address");
}

/// `changes=notify`: the triggers that Larder prints announce the same.
#[test]
fn triggers_announce_changes() {
    let server = PostgresServer::with(&["wal_level=replica"]);
    server.sql(TABLES);
    let settings = Settings::of(&server.url("changes=notify"), QUERIES);
    let printed = Command::new(crate::larder::binary())
        .args(["postgres", "triggers", "--config", settings.path().to_str().unwrap()])
        // Names of the tests are no settings.
        .env_remove("LARDER_TEST_POSTGRES")
        .env_remove("LARDER_BIN")
        .output()
        .unwrap();
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let triggers = String::from_utf8(printed.stdout).unwrap();
    server.sql(&triggers);
    // A second time, for a later version of it.
    server.sql(&triggers);
    let larder = settings.start();
    until_announced(&larder);
    let mut client = larder.client();
    server.sql("INSERT INTO users SELECT id, 'many' FROM generate_series(1000, 6000) id");
    for key in ["user:1000", "user:3500", "user:6000"] {
        assert_eq!(until_kept(&larder, &mut client, key), "many");
    }
    let before = metric(&larder, "invalidations_total");
    server.sql("UPDATE users SET name = 'changed' WHERE id >= 1000");
    for key in ["user:1000", "user:3500", "user:6000"] {
        until_seen(&mut client, key, "changed");
    }
    wait_until("all to be announced", || metric(&larder, "invalidations_total") >= before + 5001.0);
    all_changes_are_seen(&server, &larder);
}

/// The key of an index is without the columns that it includes.
#[test]
fn included_columns_are_no_part_of_a_key() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE mails (id int, mail text, v text, PRIMARY KEY (id) INCLUDE (mail))");
    server.sql("INSERT INTO mails VALUES (42, 'ada@example.com', 'one')");
    let settings = |changes: &str| Settings::of(&server.url(&format!("table=mails&columns=v{changes}")), "");
    let printed = Command::new(crate::larder::binary())
        .args(["postgres", "triggers", "--config", settings("&changes=notify").path().to_str().unwrap()])
        .env_remove("LARDER_TEST_POSTGRES")
        .env_remove("LARDER_BIN")
        .output()
        .unwrap();
    server.sql(&String::from_utf8(printed.stdout).unwrap());
    for changes in ["", "&changes=notify"] {
        let larder = settings(changes).start();
        until_announced(&larder);
        let mut client = larder.client();
        for value in ["two", "one"] {
            until_kept(&larder, &mut client, "42");
            server.sql(&format!("UPDATE mails SET v = '{value}'"));
            until_seen(&mut client, "42", value);
        }
    }
}
