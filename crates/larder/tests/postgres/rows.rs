//! Rows by key over both doors.
use super::{QUERIES, SHOP, Settings, server::PostgresServer, shop, text};
use crate::{common::Reply, http::curl};

const ADA: &str = r#"{"id":42,"name":"Ada","email":"ada@example.com"}"#;

#[test]
fn rows_of_queries_over_both_doors() {
    let (server, larder) = shop(QUERIES);
    let mut client = larder.client();
    for (command, expected) in [
        (&["GET", "user:42"][..], ADA),
        (&["GET", "user:42"], ADA),
        (&["GET", "user:44"], "(nil)"),
        (&["GET", "orders:42"], r#"[{"id":1,"total":9.50},{"id":2,"total":20.00}]"#),
        (&["GET", "orders:43"], "[]"),
        (&["GET", "ids:42"], "[1,2]"),
        (&["GET", "price:de:tea:green"], "250"),
        (&["GET", "price:de"], "(nil)"),
        (&["GET", "settings:42"], r#"{"theme": "dark"}"#),
        (&["GET", "settings:43"], "(nil)"),
        (&["GET", "nothing:1"], "(nil)"),
        (&["EXISTS", "user:42", "user:43", "user:44", "user:42"], "3"),
        (&["TTL", "user:42"], "-1"),
        (&["TTL", "user:44"], "-2"),
        (&["TYPE", "user:42"], "string"),
        (&["STRLEN", "price:fr:tea:green"], "3"),
        (&["GETRANGE", "user:43", "0", "8"], r#"{"id":43,"#),
        (&["JSON.GET", "user:42", "$.name"], r#"["Ada"]"#),
        (&["JSON.GET", "settings:42", ".theme"], r#""dark""#),
        (&["JSON.GET", "orders:42", "$[*].total"], "[9.50,20.00]"),
        (&["JSON.GET", "user:44"], "(nil)"),
        (&["JSON.OBJLEN", "user:42"], "3"),
        (&["JSON.TYPE", "user:42", ".email"], "string"),
        (&["JSON.GET", "photo:42"], "WRONGTYPE Operation against a key holding the wrong kind of value"),
        (&["SET", "user:42", "x"], "ERR this source takes only commands that read keys"),
        (&["INCR", "user:42"], "ERR this source takes only commands that read keys"),
        (&["JSON.SET", "user:42", "$", "1"], "ERR this source takes only commands that read keys"),
    ] {
        assert_eq!(text(&mut client, command), expected, "{command:?}");
    }
    assert_eq!(client.command(&["GET", "photo:42"]), Reply::bulk([0, 255]));
    let some = Reply::Array(Some(vec![Reply::bulk(ADA), Reply::nil(), Reply::bulk("250"), Reply::bulk("275")]));
    assert_eq!(client.command(&["MGET", "user:42", "user:1", "price:de:tea:green", "price:fr:tea:green"]), some);
    let found = Reply::Array(Some(vec![Reply::bulk(r#"["Ada"]"#), Reply::bulk(r#"["Bob"]"#), Reply::nil()]));
    assert_eq!(client.command(&["JSON.MGET", "user:42", "user:43", "user:44", "$.name"]), found);

    let url = |key: &str| format!("http://127.0.0.1:{}/v1/kv/{key}", larder.http);
    let row = curl(&[&url("user:42")]);
    assert_eq!((row.status, row.header("content-type")), (200, Some("application/json")));
    assert_eq!(String::from_utf8(row.body.clone()).unwrap(), ADA);
    let etag = row.header("etag").unwrap().to_owned();
    assert_eq!(curl(&[&url("user:42"), "-H", &format!("If-None-Match: {etag}")]).status, 304);
    assert_eq!(curl(&[&url("user:44")]).status, 404);
    assert_eq!(curl(&[&url("user:42?pointer=/name")]).body, br#""Ada""#);
    assert_eq!(curl(&[&url("photo:42")]).body, [0, 255]);
    assert_eq!(curl(&[&url("user:42"), "-X", "PUT", "-d", "x"]).status, 405);
    assert_eq!(curl(&[&url("user:42"), "-X", "DELETE"]).status, 405);
    // The row's own: after it was fetched again it is the same.
    let other = Settings::of(&server.url(""), QUERIES).start();
    let again = curl(&[&format!("http://127.0.0.1:{}/v1/kv/user:42", other.http)]);
    assert_eq!(again.header("etag"), Some(&*etag));
}

#[test]
fn rows_of_tables() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    server.sql("CREATE SCHEMA \"My Shop\"; CREATE TABLE \"My Shop\".\"T\" (\"K\"\"y\" uuid PRIMARY KEY, v text)");
    server.sql("INSERT INTO \"My Shop\".\"T\" VALUES ('5e1f1a2c-0000-4000-8000-000000000001', 'v')");
    // Names are keys, too: changes must carry them.
    server.sql("ALTER TABLE users REPLICA IDENTITY FULL");
    for (parameters, commands) in [
        (
            "table=users&columns=name,email",
            vec![
                ("GET 42", r#"{"name":"Ada","email":"ada@example.com"}"#),
                ("GET 1", "(nil)"),
                ("GET 2147483648", "(nil)"),
                ("GET 42;", "(nil)"),
            ],
        ),
        ("table=users&columns=name", vec![("GET 42", "Ada"), ("GET 43", "Bob"), ("JSON.GET 42", "WRONGTYPE")]),
        ("table=users&columns=email", vec![("GET 43", "(nil)")]),
        ("table=users&columns=settings", vec![("JSON.GET 42 .theme", r#""dark""#)]),
        ("table=public.users&key=name&columns=id", vec![("GET Ada", "42"), ("GET ada", "(nil)")]),
        (
            "table=prices",
            vec![("GET de:tea:green", r#"{"country":"de","sku":"tea:green","cents":250}"#), ("GET de", "(nil)")],
        ),
        (
            "table=%22My%20Shop%22.%22T%22",
            vec![
                (
                    "GET 5e1f1a2c-0000-4000-8000-000000000001",
                    r#"{"K\"y":"5e1f1a2c-0000-4000-8000-000000000001","v":"v"}"#,
                ),
                ("GET none", "(nil)"),
            ],
        ),
    ] {
        let larder = Settings::of(&server.url(parameters), "").start();
        let mut client = larder.client();
        for (command, expected) in commands {
            let parts: Vec<&str> = command.split(' ').collect();
            let found = text(&mut client, &parts);
            assert!(
                if expected == "WRONGTYPE" { found.starts_with(expected) } else { found == expected },
                "{parameters} {command}: {found}"
            );
        }
    }
}

/// Counted by the database: a round of misses is one statement for each 128 keys of a table.
#[test]
fn misses_of_a_table_are_one_statement() {
    let server = PostgresServer::with(&["log_statement=all"]);
    server.sql("CREATE TABLE t (k text PRIMARY KEY, v text); INSERT INTO t SELECT n, repeat('x', n) FROM generate_series(1, 300) n");
    server.sql(
        "INSERT INTO t VALUES ('a\"b', 'quoted'), ('{,}', 'braces'), ('large', repeat('y', 100000)), ('NULL', 'word')",
    );
    let larder = Settings::of(&server.url("table=t&columns=v"), "").start();
    let before = server.log().matches("unnest($1::text[])").count();
    let keys: Vec<String> = (1..=300).map(|n| n.to_string()).collect();
    let command: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    let expected = (1..=300).map(|n| Reply::bulk("x".repeat(n))).collect();
    assert_eq!(larder.client().command(&command), Reply::Array(Some(expected)));
    assert_eq!(server.log().matches("unnest($1::text[])").count() - before, 3);
    let keys = ["MGET", "a\"b", "{,}", "large", "NULL", "null", "", "a\\", "none"];
    let found = ["quoted", "braces", &"y".repeat(100_000), "word"].map(Reply::bulk).into_iter();
    let expected = Reply::Array(Some(found.chain((0..4).map(|_| Reply::nil())).collect()));
    assert_eq!(larder.client().command(&keys), expected);
}

/// What clients send is never a part of a statement, and what no column can hold is absent.
#[test]
fn hostile_keys_and_values() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE t (k text PRIMARY KEY, v bytea); CREATE TYPE mood AS ENUM ('good', 'bad')");
    server
        .sql("CREATE TABLE moods (k mood PRIMARY KEY, at timestamptz); INSERT INTO moods VALUES ('good', 'infinity')");
    server
        .sql("INSERT INTO t VALUES ('''; DROP TABLE t; --', 'quote'), ('$1', 'dollar'), ('é', '\\x00'), ('', 'empty')");
    let all = "[prefixes.'m:']\nquery = 'SELECT * FROM moods WHERE k = $1'\n[prefixes.'d:']\nquery = 'SELECT 10 / $1::int AS n'\n";
    let larder = Settings::of(&server.url("table=t&columns=v"), all).start();
    let mut client = larder.client();
    let mut get = |key: &[u8]| client.command(&[b"GET", key]);
    for (key, value) in [
        (&b"'; DROP TABLE t; --"[..], Some(&b"quote"[..])),
        (b"$1", Some(b"dollar")),
        ("é".as_bytes(), Some(b"\0")),
        (b"", Some(b"empty")),
        (b"a\0b", None),
        (b"\xff\xfe", None),
        (b"m:good", Some(br#"{"k":"good","at":"infinity"}"#)),
        (b"m:ugly", None),
        (b"m:good'", None),
        (b"d:5", Some(b"2")),
        (b"d:five", None),
        (b"d:", None),
    ] {
        assert_eq!(get(key), Reply::Bulk(value.map(Vec::from)), "{}", key.escape_ascii());
    }
    let said = get(b"d:0").error().to_owned();
    assert!(
        said.starts_with("ERR postgres://127.0.0.1:") && said.contains("SQLSTATE 22012: division by zero"),
        "{said}"
    );
    let many = client.command(&[&b"MGET"[..], b"$1", b"\0", b"\xff", b"none"]);
    let nil = || Reply::nil();
    assert_eq!(many, Reply::Array(Some(vec![Reply::bulk("dollar"), nil(), nil(), nil()])));
    assert_eq!(server.sql("SELECT count(*) FROM t"), "4");
}

#[test]
fn large_rows() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE t (k text PRIMARY KEY, v text)");
    server.sql("INSERT INTO t SELECT n, repeat('x', n) FROM unnest(ARRAY[65536, 65537, 3000000, 9000000]) n");
    let larder = Settings::of(&server.url("table=t&columns=v"), "max-value = '4MB'").start();
    let mut client = larder.client();
    for n in [65_536, 65_537, 3_000_000] {
        assert_eq!(client.command(&["GET", &n.to_string()]), Reply::bulk("x".repeat(n)));
    }
    let said = client.command(&["GET", "9000000"]);
    assert_eq!(said.error(), "ERR the source's value of 9000000 bytes is larger than allowed: 4000000 (max-value)");
    let together = client.command(&["MGET", "9000000", "65536"]);
    assert_eq!(together.error(), said.error());
    assert_eq!(
        larder.client().command(&["MGET", "65537", "none"]),
        Reply::Array(Some(vec![Reply::bulk("x".repeat(65_537)), Reply::nil()]))
    );
}
