//! Writes to rows.
use super::{SHOP, Settings, server::PostgresServer, text};
use crate::{
    http::{curl, curl_with},
    source_conformance::{LIMITS, open, run, some},
};
use larder_config::{PostgresOptions, PostgresUrl, SourceUrl};
use larder_source::{FillPolicy, SourceError};
use larder_store::clock;

#[test]
fn objects_are_written_to_columns() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let larder = Settings::of(&server.url("table=users"), "source-writes = 'through'").start();
    let mut client = larder.client();
    for (command, expected) in [
        (&["SET", "7", r#"{"name":"Eve","email":"e@example.com","settings":{"a":[1,2]}}"#][..], "OK"),
        (&["GET", "7"], r#"{"id":7,"name":"Eve","email":"e@example.com","settings":{"a": [1, 2]},"photo":null}"#),
        (&["SET", "7", r#"{"id":7,"email":null}"#], "OK"),
        (&["JSON.GET", "7", "$.name", "$.email"], r#"{"$.name":["Eve"],"$.email":[null]}"#),
        (&["DEL", "7", "8"], "1"),
        (&["GET", "7"], "(nil)"),
        (&["MSET", "8", r#"{"name":"a"}"#, "9", r#"{"name":"b"}"#], "OK"),
        (&["EXISTS", "8", "9"], "2"),
        (&["SET", "8", "{}"], "OK"),
    ] {
        assert_eq!(text(&mut client, command), expected, "{command:?}");
    }
    for (value, expected) in [
        (r#"{"names":"x"}"#, "the table public.users has no column for the field `names`, did you mean `name`?"),
        (r#"{"id":10,"name":"x"}"#, "the field `id` says 10, and the key says 9"),
        (r#"{"email":"x"}"#, ""),
        (r#"{"name":null}"#, "SQLSTATE 23502: null value in column \"name\""),
        (r#"["name"]"#, "the value is no JSON object, which a row is written from"),
        ("name", "the value is no JSON object, which a row is written from"),
        (r#"{"name":"a\u0000b"}"#, "SQLSTATE 22P05"),
        (r#"{"name":"'); DROP TABLE users; --"}"#, ""),
    ] {
        let said = text(&mut client, &["SET", "9", value]);
        assert!(if expected.is_empty() { said == "OK" } else { said.contains(expected) }, "{value}: {said}");
    }
    assert!(text(&mut client, &["SET", "x", "{}"]).contains("the key `x` has no values for the parameters"));
    assert_eq!(text(&mut client, &["SET", "9", "{}", "EX", "9"]), "ERR this source takes SET without options");
    assert_eq!(server.sql("SELECT count(*), max(name) FROM users WHERE id = 9"), "1|'); DROP TABLE users; --");

    let url = |key: &str| format!("http://127.0.0.1:{}/v1/kv/{key}", larder.http);
    let put =
        |key: &str, value: &str| curl_with(value.as_bytes(), &[&url(key), "-X", "PUT", "--data-binary", "@-"]).status;
    assert_eq!((put("20", r#"{"name":"n"}"#), put("20", r#"{"name":"m"}"#)), (201, 204));
    assert_eq!(curl(&[&url("20?pointer=/name")]).body, br#""m""#);
    let wrong = curl_with(br#"{"title":1}"#, &[&url("20"), "-X", "PUT", "--data-binary", "@-"]);
    assert!(String::from_utf8_lossy(&wrong.body).contains("no column for the field `title`"), "{}", wrong.status);
    assert_eq!((curl(&[&url("20"), "-X", "DELETE"]).status, curl(&[&url("20"), "-X", "DELETE"]).status), (204, 404));
}

#[test]
fn statements_of_the_settings_write() {
    let server = PostgresServer::start();
    server.sql(SHOP);
    let rest = r#"
[prefixes."price:"]
query = "SELECT cents FROM prices WHERE country = $1 AND sku = $2"
upsert = "INSERT INTO prices VALUES ($1, $2, $3) ON CONFLICT (country, sku) DO UPDATE SET cents = $3"
delete = "DELETE FROM prices WHERE country = $1 AND sku = $2"
[prefixes."user:"]
query = "SELECT name FROM users WHERE id = $1"
"#;
    let larder = Settings::of(&server.url(""), rest).start();
    let mut client = larder.client();
    for (command, expected) in [
        (&["GET", "price:de:tea:green"][..], "250"),
        (&["SET", "price:de:tea:green", "260"], "OK"),
        (&["GET", "price:de:tea:green"], "260"),
        (&["SET", "price:it:x", "1"], "OK"),
        (&["GET", "price:it:x"], "1"),
        (&["DEL", "price:it:x", "price:it:y"], "1"),
        (&["GET", "price:it:x"], "(nil)"),
    ] {
        assert_eq!(text(&mut client, command), expected, "{command:?}");
    }
    for (command, expected) in [
        (&["SET", "user:42", "x"][..], "this key's query has no `upsert`"),
        (&["DEL", "user:42"], "this key's query has no `delete`"),
        (&["SET", "price:de:x", "much"], "SQLSTATE 22P02: invalid input syntax for type integer: \"much\""),
        (&["SET", "other", "x"], "no query has keys like this one"),
    ] {
        let said = text(&mut client, command);
        assert!(said.contains(expected), "{command:?}: {said}");
    }
}

fn url(server: &PostgresServer, parameters: &str, options: PostgresOptions) -> SourceUrl {
    let Ok(SourceUrl::Postgres(url)) = server.url(parameters).parse() else { panic!("a URL") };
    SourceUrl::Postgres(Box::new(PostgresUrl { options: Box::new(options), ..*url }))
}

/// The values of the sources' suite, in a table of bytes.
#[test]
fn any_bytes_are_written_and_read() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE kv (k bytea PRIMARY KEY, v bytea NOT NULL)");
    run(async {
        let options = PostgresOptions { takes_writes: true, ..PostgresOptions::default() };
        let group = open(&url(&server, "table=kv&columns=v&changes=off", options), LIMITS, FillPolicy::default());
        let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let large: Vec<u8> = (0..8 * 1024 * 1024u32).map(|i| (i % 251) as u8).collect();
        let longest = vec![b'k'; 2_000];
        let values: [(&[u8], &[u8]); 8] = [
            (b"", b"of the empty key"),
            (b"\0", b"not of the empty key"),
            (b"text", b"value"),
            (b"empty", b""),
            (b"binary", &all),
            (b"\x00\r\n\xff key", b"\r\n$-1\r\n+OK\r\n"),
            (&longest, b"long key"),
            (b"large", &large),
        ];
        for (key, value) in values {
            assert_eq!(group.get(key).await, Ok(None), "before the put");
            group.put(key, value.to_vec().into(), None).await.expect("the put");
            assert!(group.get(key).await == some(value));
            assert!(group.get(key).await == some(value), "from the tier");
            group.put(key, "new".into(), None).await.expect("the put");
            assert_eq!(group.get(key).await, some("new"));
            assert_eq!(group.delete(key).await, Ok(true));
            assert_eq!(group.get(key).await, Ok(None));
            assert_eq!(group.delete(key).await, Ok(false));
        }
        let refused = group.put(b"e", "1".into(), Some(clock::now() + 1000)).await;
        assert!(
            matches!(&refused, Err(SourceError::Refused(text)) if text.ends_with("a row has no lifetime")),
            "{refused:?}"
        );
        assert!(group.source.ping().await.is_ok() && group.health.is_up());
        assert_eq!(group.health.in_flight(), 0);
    });
}
