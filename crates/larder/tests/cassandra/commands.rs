//! The commands and routes of a disk store, on a cluster.
use super::{server::CassandraNode, shown, text};
use crate::{common::Client, larder::Larder};

/// Commands whose replies are those of a disk store. A word `\x01` is a byte.
const SAME: &[&str] = &[
    // SET with all options.
    "SET a 1",
    "GET a",
    "SET a 2 NX",
    "SET a 2 XX GET",
    "SET absent 2 XX",
    "SET new 1 NX",
    "SET a 3 GET",
    "SET a 4 EX 1000",
    "SET a 5 KEEPTTL",
    "SET a 6 PXAT 4102444800000",
    "EXPIRETIME a",
    "PEXPIRETIME a",
    "SET a 7 EX 0",
    "GET a",
    "SETNX a 8",
    "SETNX nx 8",
    "SETEX se 1000 v",
    "PSETEX pse 1000000 v",
    "GETSET a 9",
    // Several keys.
    "MSET m1 a m2 b m3 c",
    "MGET m1 m2 none m3",
    "EXISTS m1 m2 none m1",
    "DEL m1 none m2",
    "DEL m1",
    "UNLINK m3 m3",
    "TOUCH a none",
    // Lifetimes.
    "TTL none",
    "TTL nx",
    "EXPIRE nx 1000",
    "EXPIRE nx 500 GT",
    "EXPIRE nx 2000 NX",
    "PEXPIREAT nx 4102444800123",
    "PEXPIRETIME nx",
    "PERSIST nx",
    "PERSIST nx",
    "PERSIST none",
    "EXPIRE none 10",
    "EXPIRE nx -1",
    "EXISTS nx",
    // Numbers and parts.
    "INCR n",
    "INCRBY n 41",
    "DECR n",
    "DECRBY n 10",
    "INCRBYFLOAT n 0.5",
    "INCR n",
    "SET i notanumber",
    "INCR i",
    "APPEND i !",
    "STRLEN i",
    "GETRANGE i 0 2",
    "SETRANGE i 3 XX",
    "SETRANGE fresh 3 x",
    "STRLEN fresh",
    "GETDEL i",
    "GETDEL i",
    "GETEX a PXAT 4102444800000",
    "PEXPIRETIME a",
    "GETEX a PERSIST",
    "TTL a",
    "SET at 1 EXAT 4102444800",
    "PEXPIRETIME at",
    "SET at 2 PX 100000000 GET",
    "SET at 3 XX KEEPTTL",
    "SET at 4 NX GET",
    "SET at 5 EX 1 PX 1",
    "GETEX at EXAT 4102444800",
    "GETEX at PX 0",
    "PEXPIRETIME at",
    "SUBSTR at 0 0",
    // Conditions on the value.
    "SET cond 1",
    "SET cond 2 IFEQ 1",
    "SET cond 3 IFEQ 1",
    "SET cond 4 IFNE 2",
    "SET cond 5 IFNE 1 GET",
    "DIGEST cond",
    "SET cond 6 IFDEQ 0000000000000000",
    "SET cond 7 IFDNE 0000000000000000",
    "GET cond",
    "DELEX cond IFEQ other",
    "DELEX cond IFEQ 7",
    "DELEX cond",
    "SET cond 8",
    "DELIFEQ cond 7",
    "DELIFEQ cond 8",
    "INCREX bounded",
    "INCREX bounded BYINT 5 UBOUND 4",
    "INCREX bounded BYINT 2 EX 1000",
    "GET bounded",
    // Several values with one lifetime.
    "MSETEX 1 ms 1 PXAT 4102444800123",
    "PEXPIRETIME ms",
    "MSETEX 1 ms 2 NX",
    "MSETEX 1 ms 3 XX KEEPTTL",
    "PEXPIRETIME ms",
    // Bits.
    "SETBIT bits 7 1",
    "GETBIT bits 7",
    "GETBIT none 7",
    "BITCOUNT bits",
    "BITCOUNT bits 0 7 BIT",
    "BITPOS bits 1",
    "BITFIELD bits SET u8 8 255 GET u4 0 INCRBY u8 8 1",
    "BITFIELD_RO bits GET u16 0",
    "BITOP NOT bits bits",
    "BITCOUNT bits",
    // In Redis's own format.
    "DUMP none",
    "DUMP a",
    "RESTORE a 0 x",
    "OBJECT ENCODING a",
    "TYPE a",
    "TYPE none",
    "STRLEN none",
    // Documents.
    "JSON.SET d $ {\"a\":{\"b\":[1,2]},\"n\":1}",
    "JSON.GET d $.a.b[1]",
    "JSON.NUMINCRBY d $.n 5",
    "JSON.SET d $.a.c true",
    "JSON.GET d",
    "JSON.DEL d $.a.b",
    "JSON.GET d",
    "JSON.SET d $.list [1,2]",
    "JSON.ARRAPPEND d $.list 3",
    "JSON.ARRLEN d $.list",
    "JSON.OBJKEYS d $",
    "JSON.STRLEN d $.n",
    "JSON.TYPE d $.list",
    "JSON.TOGGLE d $.a.c",
    "JSON.MERGE d $ {\"n\":null,\"m\":1}",
    "JSON.CLEAR d $.list",
    "JSON.MGET d none $.m",
    "JSON.SET d $ 1 NX",
    "JSON.SET d $.new 1 XX",
    "JSON.GET d",
    "EXPIREAT d 4102444800",
    "EXPIRETIME d",
    "DUMP d",
    "TYPE d",
    "GET d",
    "JSON.SET a $.x 1",
    // Transactions of one key.
    "MULTI",
    "INCR t",
    "INCR t",
    "APPEND t 0",
    "EXEC",
    "WATCH t",
    "MULTI",
    "INCR t",
    "EXEC",
    "WATCH t",
    "SET t 1",
    "MULTI",
    "INCR t",
    "EXEC",
    "GET t",
    "MULTI",
    "PING",
    "EXEC",
    "MULTI",
    "INCR t",
    "DISCARD",
    // All keys.
    "FLUSHALL",
    "DBSIZE",
    "RANDOMKEY",
    "SET one 1",
    "DBSIZE",
    "RANDOMKEY",
    "KEYS *",
    "KEYS n*",
    "SCAN 0 MATCH o* COUNT 100",
];

/// Refused, because they would have to change several keys as one.
const REFUSED: &[&str] = &[
    "MSETNX x 1 y 2",
    "MSETEX 2 x 1 y 2",
    "BITOP OR x one",
    "RENAME one two",
    "COPY one two",
    "RENAMENX one two",
    "MULTI\nSET x 1\nSET y 1\nEXEC",
    "WATCH one\nMULTI\nSET x 1\nEXEC",
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
#[ignore = "make test-clients"]
fn commands_answer_as_on_a_disk_store() {
    let node = CassandraNode::shared();
    let dir = tempfile::tempdir().unwrap();
    let disk = Larder::start(&["--source", &format!("disk:{}", dir.path().display())]);
    let url = node.url("commands");
    let larder = Larder::start(&["--source", &url]);
    let (mut expected, mut client) = (disk.client(), larder.client());
    for line in SAME {
        let command = words(line);
        assert_eq!(text(&mut client, &command), text(&mut expected, &command), "{line}");
    }
    // Another Larder sees the same, and so does one that starts later.
    let other = Larder::start(&["--source", &url]);
    assert_eq!(text(&mut other.client(), &["GET", "one"]), "1");
    for lines in REFUSED {
        let mut reply = String::new();
        for line in lines.lines() {
            reply = text(&mut client, &words(line));
        }
        assert!(reply.contains("changes one key at a time"), "{lines}: {reply}");
    }
    assert_eq!(text(&mut client, &["DBSIZE"]), "1", "nothing was done");
}

#[test]
#[ignore = "make test-clients"]
fn keys_are_scanned_in_pages() {
    let node = CassandraNode::shared();
    let larder = Larder::start(&["--source", &node.url("scans")]);
    let mut client = larder.client();
    for number in 0..1000 {
        client.send(&["SET", &format!("key:{number}"), "value"]).unwrap();
    }
    (0..1000).for_each(|_| assert_eq!(shown(&client.read().unwrap()), "OK"));
    let scan = |client: &mut Client, more: &[&str]| {
        let (mut cursor, mut keys) = ("0".to_owned(), Vec::new());
        loop {
            let crate::common::Reply::Array(Some(page)) = client.command(&[&["SCAN", &cursor], more].concat()) else {
                panic!()
            };
            let crate::common::Reply::Array(Some(found)) = &page[1] else { panic!() };
            keys.extend(found.iter().map(shown));
            cursor = shown(&page[0]);
            if cursor == "0" {
                return keys;
            }
        }
    };
    for (more, count) in [
        (&["COUNT", "7"][..], 1000),
        (&["COUNT", "5000"], 1000),
        (&["MATCH", "key:99*", "COUNT", "100"], 11),
        (&["MATCH", "none*"], 0),
        (&["TYPE", "string"], 1000),
        (&["TYPE", "hash"], 0),
    ] {
        let mut keys = scan(&mut client, more);
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "{more:?}");
    }
    assert_eq!(text(&mut client, &["DBSIZE"]), "1000");
    let picked = text(&mut client, &["RANDOMKEY"]);
    assert!(picked.starts_with("key:"), "{picked}");
    // Over HTTP, page by page.
    let (mut cursor, mut seen) = (String::new(), 0);
    while cursor != "0" {
        let page: serde_json::Value =
            serde_json::from_str(&larder.get(&format!("/v1/keys?match=key:1*&count=50&cursor={cursor}"))).unwrap();
        seen += page["keys"].as_array().unwrap().len();
        cursor = page["cursor"].as_str().unwrap().to_owned();
    }
    assert_eq!(seen, 111);
}

#[test]
#[ignore = "make test-clients"]
fn routes_answer_as_on_a_disk_store() {
    let node = CassandraNode::shared();
    let dir = tempfile::tempdir().unwrap();
    let disk = Larder::start(&["--source", &format!("disk:{}", dir.path().display())]);
    let larder = Larder::start(&["--source", &node.url("routes")]);
    let request = |larder: &Larder, method: &str, path: &str, headers: &str, body: &str| {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n");
        let (status, _, body) = larder.http(&format!("{head}{headers}\r\n{body}"));
        (status, String::from_utf8_lossy(&body).into_owned())
    };
    for (method, path, headers, body) in [
        ("PUT", "/v1/kv/a", "", "1"),
        ("PUT", "/v1/kv/a", "", "2"),
        ("GET", "/v1/kv/a", "", ""),
        ("PUT", "/v1/kv/a", "if-none-match: *\r\n", "3"),
        ("PUT", "/v1/kv/b", "if-none-match: *\r\n", "3"),
        ("PUT", "/v1/kv/c", "if-match: *\r\n", "3"),
        ("PUT", "/v1/kv/b", "if-match: *\r\n", "4"),
        ("PUT", "/v1/kv/b", "if-match: \"other\"\r\n", "5"),
        ("DELETE", "/v1/kv/b", "if-match: \"other\"\r\n", ""),
        ("DELETE", "/v1/kv/b", "if-match: *\r\n", ""),
        ("DELETE", "/v1/kv/b", "", ""),
        ("PUT", "/v1/kv/a?ttl=1000s", "", "6"),
        ("PUT", "/v1/kv/d?type=json", "", "{\"x\": 1}"),
        ("PATCH", "/v1/kv/d", "content-type: application/merge-patch+json\r\n", "{\"y\":2}"),
        ("GET", "/v1/kv/d", "", ""),
        ("PATCH", "/v1/kv/none", "content-type: application/merge-patch+json\r\n", "{\"y\":2}"),
        ("POST", "/v1/mget", "content-type: application/json\r\n", "{\"keys\":[\"a\",\"none\"]}"),
        ("PUT", "/v0/entity?id=e", "", "entity"),
        ("GET", "/v0/entity?id=e", "", ""),
        ("DELETE", "/v0/entity?id=e", "", ""),
        ("GET", "/v0/entity?id=e", "", ""),
        ("POST", "/cache/v1/item", "", "{\"key\":\"i\",\"value\":\"v\",\"ttl\":60}"),
        ("GET", "/cache/v1/item?key=i", "", ""),
        ("DELETE", "/cache/v1/item?key=i", "", ""),
    ] {
        let both = [&larder, &disk].map(|larder| request(larder, method, path, headers, body));
        assert_eq!(both[0], both[1], "{method} {path} {headers}");
    }
    // An ETag that was given out is one that If-Match takes, once.
    let (_, head, _) = larder.http("GET /v1/kv/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("an ETag").to_owned();
    let put = |value: &str| request(&larder, "PUT", "/v1/kv/a", &format!("if-match: {tag}\r\n"), value).0;
    assert_eq!((put("7"), put("8")), (204, 412));
    let (status, body) = request(&larder, "GET", "/v0/entities?start=a&end=b", "", "");
    assert!(status >= 400 && body.contains("no keys in order"), "{status} {body}");
}

#[test]
#[ignore = "make test-clients"]
fn the_exact_moment_of_expiry_is_in_the_row() {
    let node = CassandraNode::shared();
    let larder = Larder::start(&["--source", &node.url("lifetimes")]);
    let mut client = larder.client();
    client.command(&["SET", "k", "value", "PXAT", "4102444800123"]);
    client.command(&["SET", "s", "v", "PX", "1500"]);
    client.command(&["SET", "far", "v", "EX", "1000000000"]);
    let ttl = |key: &str| {
        let rows = node.cql(&[&format!("SELECT ttl(value), value FROM lifetimes.kv WHERE key = textAsBlob('{key}')")]);
        rows.first().map(|row| row.columns[0].as_ref().and_then(|ttl| ttl.as_int()))
    };
    client.command(&["SET", "long", "v", "PX", "100000500"]);
    let long = ttl("long").flatten().unwrap();
    assert!((99_900..=100_001).contains(&long), "{long} s of 100,001, rounded up");
    // Cassandra takes no lifetime that ends after January 2038. Larder knows when it ends.
    assert_eq!(ttl("k"), Some(None));
    assert_eq!(ttl("far"), Some(None));
    let other = Larder::start(&["--source", &node.bare_url("lifetimes")]);
    assert_eq!(text(&mut other.client(), &["PEXPIRETIME", "k"]), "4102444800123");
    crate::common::wait_until("the expiry", || text(&mut client, &["GET", "s"]) == "(nil)");
    crate::common::wait_until("the end of the row", || ttl("s").is_none());
    // A lifetime that is taken away leaves a row without one, and an expired row leaves nothing behind.
    client.command(&["SET", "p", "v", "EX", "100"]);
    assert_eq!(text(&mut client, &["PERSIST", "p"]), "1");
    assert_eq!(ttl("p"), Some(None));
    client.command(&["SET", "q", "v"]);
    client.command(&["PEXPIRE", "q", "1"]);
    crate::common::wait_until("the expiry", || text(&mut client, &["SET", "q", "again", "NX"]) == "OK");
    crate::common::wait_until("the second expiry", || {
        client.command(&["PEXPIRE", "q", "1"]);
        ttl("q").is_none()
    });
    assert_eq!(text(&mut client, &["SET", "q", "at last", "NX"]), "OK");
}
