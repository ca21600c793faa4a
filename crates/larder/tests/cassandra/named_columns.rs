//! Tables of other programs, whose key and value columns the URL names.
use super::{faults::refusal, server::CassandraNode, text};
use crate::larder::Larder;

const KEYSPACE: &str =
    "CREATE KEYSPACE IF NOT EXISTS KS WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const UUID: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

/// Runs these in a keyspace that is made.
fn prepare(node: &CassandraNode, keyspace: &str, statements: &[&str]) -> String {
    let named: Vec<String> =
        [&[KEYSPACE], statements].concat().iter().map(|statement| statement.replace("KS", keyspace)).collect();
    node.cql(&named.iter().map(String::as_str).collect::<Vec<_>>());
    node.bare_url(keyspace)
}

#[test]
#[ignore = "make test-clients"]
fn rows_of_every_type_of_key_and_value_are_read() {
    let node = CassandraNode::shared();
    let url = prepare(&node, "types", &[]);
    // The key's type, a key, the key in CQL, and keys without a row.
    for (at, (of, key, literal, absent)) in [
        ("text", "o'\"k:é", "'o''\"k:é'", &["none", "", "\u{0}"][..]),
        ("varchar", "k", "'k'", &["none"]),
        ("ascii", "k", "'k'", &["none", "é"]),
        ("blob", "k", "textAsBlob('k')", &["none", ""]),
        ("tinyint", "-128", "-128", &["1", "128", "x", ""]),
        ("smallint", "300", "300", &["301", "32768", "x"]),
        ("int", "-42", "-42", &["42", "2147483648", "x", "1; DROP TABLE t"]),
        ("bigint", "9223372036854775807", "9223372036854775807", &["1", "9223372036854775808"]),
        ("uuid", UUID, UUID, &["6ba7b810-9dad-11d1-80b4-00c04fd430c9", "x"]),
        ("timeuuid", UUID, UUID, &["6ba7b810-9dad-41d1-80b4-00c04fd430c8", "x"]),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("types.k{at}");
        node.cql(&[
            &format!("CREATE TABLE {name} (id {of} PRIMARY KEY, v text)"),
            &format!("INSERT INTO {name} (id, v) VALUES ({literal}, 'ä')"),
        ]);
        let larder = Larder::start(&["--source", &format!("{url}?table=k{at}&columns=v")]);
        let mut client = larder.client();
        assert_eq!(text(&mut client, &["GET", key]), "ä", "{of}");
        assert_eq!(text(&mut client, &["TTL", key]), "-1", "{of}");
        for absent in absent {
            assert_eq!(text(&mut client, &["GET", absent]), "(nil)", "{of} {absent:?}");
        }
        assert_eq!(text(&mut client, &["KEYS", "*"]), format!("Some([Bulk(Some({:?}))])", key.as_bytes()), "{of}");
        assert_eq!(text(&mut client, &["RANDOMKEY"]), key, "{of}");
        assert_eq!(text(&mut client, &["DBSIZE"]), "1", "{of}");
    }
    for (at, (of, literal, value)) in [
        ("text", "'ä'", "ä"),
        ("ascii", "'a'", "a"),
        ("blob", "0x6100", "a\0"),
        ("int", "-7", "-7"),
        ("varint", "123456789012345678901", "123456789012345678901"),
        ("decimal", "1.50", "1.50"),
        ("double", "0.5", "0.5"),
        ("boolean", "true", "true"),
        ("uuid", UUID, UUID),
        ("timeuuid", UUID, UUID),
        ("timestamp", "'2026-11-29T06:00:00Z'", "2026-11-29T06:00:00.000Z"),
        ("date", "'2026-11-29'", "2026-11-29"),
        ("inet", "'127.0.0.1'", "127.0.0.1"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("types.v{at}");
        node.cql(&[
            &format!("CREATE TABLE {name} (id text PRIMARY KEY, v {of})"),
            &format!("INSERT INTO {name} (id, v) VALUES ('k', {literal})"),
        ]);
        let larder = Larder::start(&["--source", &format!("{url}?table=v{at}&columns=v")]);
        assert_eq!(text(&mut larder.client(), &["GET", "k"]), value, "{of}");
    }
}

#[test]
#[ignore = "make test-clients"]
fn names_are_taken_as_they_are() {
    let node = CassandraNode::shared();
    let url = prepare(
        &node,
        "names",
        &[
            r#"CREATE TABLE KS."Orders" ("select" text PRIMARY KEY, "Va""lue, a" text, other text)"#,
            r#"INSERT INTO KS."Orders" ("select", "Va""lue, a", other) VALUES ('k', 'v', 'o')"#,
        ],
    );
    let larder = Larder::start(&["--source", &format!("{url}?table=Orders&key=select&columns=Va%22lue,%20a")]);
    let mut client = larder.client();
    assert_eq!(text(&mut client, &["GET", "k"]), "v");
    assert_eq!(text(&mut client, &["SET", "k", "w"]), "OK");
    assert_eq!(text(&mut client, &["SET", "new", "n"]), "OK");
    assert_eq!(text(&mut client, &["KEYS", "n*"]), format!("Some([Bulk(Some({:?}))])", b"new"));
    let rows = node.cql(&[r#"SELECT other, "Va""lue, a" FROM names."Orders" WHERE "select" = 'k'"#]);
    let cells: Vec<_> = rows[0].columns.iter().map(|cell| cell.as_ref().unwrap().as_text().unwrap().clone()).collect();
    assert_eq!(cells, ["o", "w"], "the other columns stay");
    assert_eq!(text(&mut client, &["DEL", "k", "none"]), "1");
    assert!(node.cql(&[r#"SELECT * FROM names."Orders" WHERE "select" = 'k'"#]).is_empty());
}

#[test]
#[ignore = "make test-clients"]
fn a_table_without_versions_takes_plain_writes_only() {
    let node = CassandraNode::shared();
    let url = prepare(
        &node,
        "plain",
        &[
            "CREATE TABLE KS.t (id text PRIMARY KEY, v text)",
            "CREATE TABLE KS.n (id int PRIMARY KEY, v text)",
            "CREATE TABLE KS.d (id text PRIMARY KEY, v text) WITH default_time_to_live = 1000",
            "INSERT INTO KS.t (id, v) VALUES ('k', 'v')",
            "INSERT INTO KS.n (id, v) VALUES (1, 'v')",
            "INSERT INTO KS.d (id, v) VALUES ('k', 'v')",
        ],
    );
    let larder = Larder::start(&["--source", &format!("{url}?table=t&columns=v")]);
    let mut client = larder.client();
    for (lines, expected) in [
        ("SET k v XX", "column `version`"),
        ("SET other v NX", "column `version`"),
        ("SET k v GET", "column `version`"),
        ("SET k v KEEPTTL", "column `version`"),
        ("SETNX other v", "column `version`"),
        ("GETSET k w", "column `version`"),
        ("GETDEL k", "column `version`"),
        ("GETEX k PERSIST", "column `version`"),
        ("INCR k", "column `version`"),
        ("APPEND k w", "column `version`"),
        ("SETRANGE k 1 w", "column `version`"),
        ("SETBIT k 1 1", "column `version`"),
        ("EXPIRE k 10", "column `version`"),
        ("PERSIST k", "column `version`"),
        ("JSON.SET k $.a 1", "column `version`"),
        ("JSON.MERGE k $ {}", "column `version`"),
        ("WATCH k", "column `version`"),
        ("MULTI\nSET k w\nEXEC", "column `version`"),
        ("SET k v EX 10", "lifetimes to the millisecond"),
        ("SETEX k 10 v", "lifetimes to the millisecond"),
        ("FLUSHALL", "not Larder's own, so it is not emptied"),
    ] {
        let mut reply = String::new();
        for line in lines.lines() {
            reply = text(&mut client, &line.split(' ').collect::<Vec<_>>());
        }
        assert!(reply.starts_with("ERR cassandra://127.0.0.1:") && reply.contains(expected), "{lines}: {reply}");
        assert_eq!(text(&mut client, &["MGET", "k", "other"]), "Some([Bulk(Some([118])), Bulk(None)])", "{lines}");
    }
    for (method, headers) in
        [("PUT", "if-match: *\r\n"), ("DELETE", "if-match: *\r\n"), ("PUT", "if-none-match: *\r\n")]
    {
        let request = format!("{method} /v1/kv/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n");
        let (_, _, body) = larder.http(&format!("{request}{headers}\r\n"));
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(body.contains("column `version`"), "{method} {headers}: {body}");
    }
    let reply = client.command(&[&b"SET"[..], b"k", b"\xff"]);
    assert!(super::shown(&reply).contains("the column v is text, and the value is not UTF-8"), "{reply:?}");
    let reply = client.command(&[&b"SET"[..], b"\xff", b"v"]);
    assert!(super::shown(&reply).contains("the column id is text, which has no such value"), "{reply:?}");
    assert_eq!(text(&mut client, &["SET", "k", "w"]), "OK");
    assert_eq!(text(&mut client, &["MSET", "a", "1", "b", "2"]), "OK");
    assert_eq!(
        text(&mut client, &["MGET", "k", "a", "b"]),
        "Some([Bulk(Some([119])), Bulk(Some([49])), Bulk(Some([50]))])"
    );
    assert_eq!(node.cql(&["SELECT id FROM plain.t WHERE id IN ('k', 'a', 'b')"]).len(), 3);
    for (table, key, expected) in
        [("n", "1", "its column id is int, not text or blob"), ("d", "k", "it has a default_time_to_live")]
    {
        let larder = Larder::start(&["--source", &format!("{url}?table={table}&columns=v")]);
        let mut client = larder.client();
        for command in [&["SET", key, "w"][..], &["DEL", key], &["MSET", key, "w"]] {
            let reply = text(&mut client, command);
            assert!(reply.contains("is only read") && reply.contains(expected), "{command:?}: {reply}");
            assert_eq!(text(&mut client, &["GET", key]), "v", "{command:?}");
        }
    }
}

#[test]
#[ignore = "make test-clients"]
fn rows_without_a_value_are_absent_and_lifetimes_are_those_of_the_value() {
    let node = CassandraNode::shared();
    let url = prepare(
        &node,
        "cells",
        &[
            "CREATE TABLE KS.t (id text PRIMARY KEY, v text, other text)",
            "INSERT INTO KS.t (id, v) VALUES ('there', 'v')",
            "INSERT INTO KS.t (id, other) VALUES ('null', 'o')",
            "INSERT INTO KS.t (id, v) VALUES ('long', 'v') USING TTL 1000",
            "INSERT INTO KS.t (id, v) VALUES ('short', 'v') USING TTL 2",
            "INSERT INTO KS.t (id, other) VALUES ('short', 'stays')",
        ],
    );
    let larder = Larder::start(&["--source", &format!("{url}?table=t&key=id&columns=v")]);
    let mut client = larder.client();
    assert_eq!(text(&mut client, &["GET", "null"]), "(nil)");
    assert_eq!(text(&mut client, &["DEL", "null"]), "0");
    assert_eq!(node.cql(&["SELECT other FROM cells.t WHERE id = 'null'"]).len(), 1, "it is not deleted");
    let left = text(&mut client, &["TTL", "long"]).parse::<u32>().unwrap();
    assert!((900..=1000).contains(&left), "{left}");
    crate::common::wait_until("the end of the value", || text(&mut client, &["GET", "short"]) == "(nil)");
    let mut keys = text(&mut client, &["KEYS", "*"]);
    for name in ["there", "long"] {
        let shown = format!("Bulk(Some({:?}))", name.as_bytes());
        assert!(keys.contains(&shown), "{name}");
        keys = keys.replace(&shown, "");
    }
    assert_eq!(keys, "Some([, ])", "no key without a value");
    for _ in 0..20 {
        let picked = text(&mut client, &["RANDOMKEY"]);
        assert!(["there", "long"].contains(&&picked[..]), "{picked}");
    }
}

#[test]
#[ignore = "make test-clients"]
fn what_the_table_is_not_stops_the_start() {
    let node = CassandraNode::shared();
    let own = node.url("starts");
    let url = prepare(
        &node,
        "starts",
        &[
            "CREATE TABLE KS.users (id int PRIMARY KEY, name text, tags list<text>, pair frozen<tuple<int, int>>, lasts duration)",
            "CREATE TABLE KS.prices (country text, sku text, cents int, PRIMARY KEY ((country, sku)))",
            "CREATE TABLE KS.log (id int, at int, line text, about text STATIC, PRIMARY KEY (id, at))",
            "CREATE TABLE KS.hits (id text PRIMARY KEY, n counter)",
            "CREATE TABLE KS.odd (id decimal PRIMARY KEY, v text)",
        ],
    );
    for (more, expected) in [
        ("table=user&columns=name", "has hits, kv, log, odd, prices, users; did you mean users?"),
        ("table=Users&columns=name", "did you mean users?"),
        (
            "table=users&columns=names",
            "columns=names: the table users has id, lasts, name, pair, tags; did you mean name?",
        ),
        ("table=users&columns=id,name", "columns=id,name: the table users has id,"),
        ("table=users&key=name&columns=name", "key=name: the primary key of users is id"),
        ("table=users&key=ident&columns=name", "key=ident: the table users has id,"),
        ("table=users&columns=id", "columns=id: it is the key of users"),
        ("table=users&columns=tags", "columns=tags: it is a collection"),
        ("table=users&columns=pair", "columns=pair: it is a tuple"),
        ("table=users&columns=lasts", "columns=lasts: it is duration"),
        ("table=hits&columns=n", "columns=n: it is counter"),
        ("table=odd&columns=v", "key=id: it is decimal, and keys are text, ascii, blob, integers or UUIDs"),
        ("table=prices&columns=cents", "has several columns (country, sku), and a key is one: make a table"),
        ("table=log&columns=line", "has several columns (id, at), and a key is one: make a table"),
        ("table=log&columns=about", "has several columns (id, at)"),
        ("table=kv&columns=value", "the table kv is Larder's own: leave out key and columns"),
        ("table=users", "key=COLUMN&columns=COLUMN names those of another table"),
    ] {
        let said = refusal(&format!("{url}?{more}"));
        assert!(said.contains(expected), "{more}: {said}");
    }
    let said = refusal(&format!("{}?table=t&columns=v", node.bare_url("nowhere")));
    assert!(said.contains("there is no keyspace nowhere"), "{said}");
    let mut schema = std::process::Command::new(crate::larder::binary());
    let schema = schema.args(["cassandra", "schema", &format!("{own}?table=t&columns=v")]).output();
    let schema = schema.unwrap();
    assert!(!schema.status.success());
    assert!(String::from_utf8_lossy(&schema.stderr).contains("leave out key and columns"));
}
