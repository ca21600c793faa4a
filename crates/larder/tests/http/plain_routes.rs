//! Routes that name no group, and the group that they mean.
use super::larder::{Larder, command, connect};
use std::{
    fs,
    io::{Read, Write},
};

/// A server with these groups besides `default`.
struct Grouped {
    server: Larder,
    _folder: tempfile::TempDir,
}

fn config(folder: &tempfile::TempDir, groups: &[&str]) -> String {
    let path = folder.path().join("larder.toml");
    let table = |group: &&str| format!("[groups.{group}]\nmax-memory = \"16MiB\"\n");
    fs::write(&path, groups.iter().map(table).collect::<String>()).unwrap();
    path.to_str().unwrap().to_owned()
}

impl Grouped {
    fn start(groups: &[&str], args: &[&str]) -> Grouped {
        let folder = tempfile::tempdir().unwrap();
        let config = config(&folder, groups);
        Grouped { server: Larder::start(&[&["--config", &config], args].concat()), _folder: folder }
    }
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let len = body.len();
        let (status, _, body) = self.server.http(&format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n{body}"
        ));
        (status, String::from_utf8(body).unwrap())
    }
    fn get(&self, path: &str) -> (u16, String) {
        self.send("GET", path, "")
    }
    /// Reads over a connection that stays open, on the fast path.
    fn get_fast(&self, path: &str) -> String {
        let mut stream = connect(self.server.http);
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        format!("{} {body}", &head[9..12])
    }
}

#[test]
fn data_means_the_group_of_that_name_where_there_is_one() {
    let with = Grouped::start(&["data"], &[]);
    assert_eq!(with.send("PUT", "/v1/groups/data/kv/k", "of data").0, 201);
    assert_eq!(with.send("PUT", "/v1/kv/k", "of default").0, 201);
    assert_eq!((with.get("/data/k"), with.get_fast("/data/k")), ((200, "of data".into()), "200 of data".into()));
    let stats: serde_json::Value = serde_json::from_str(&with.get("/stats").1).unwrap();
    assert_eq!((&stats["Gets"], &stats["CacheHits"]), (&2.into(), &2.into()), "{stats}");
    assert_eq!(with.send("PUT", "/data/k", "x").0, 405);
    assert_eq!(with.send("DELETE", "/data/k", "").0, 204);
    assert_eq!((with.get("/data/k").0, with.send("DELETE", "/data/k", "").0), (404, 404));
    assert_eq!(with.get("/v1/kv/k"), (200, "of default".into()), "the other group keeps its key");

    let without = Grouped::start(&[], &[]);
    assert_eq!(without.send("PUT", "/v1/kv/a%2Fb", "of default").0, 201);
    assert_eq!(
        (without.get("/data/a/b"), without.get_fast("/data/a/b")),
        ((200, "of default".into()), "200 of default".into())
    );
    assert_eq!((without.send("DELETE", "/data/a/b", "").0, without.get("/v1/kv/a%2Fb").0), (204, 404));
}

#[test]
fn routes_that_name_no_group_have_that_of_the_setting() {
    let grouped = Grouped::start(&["data", "other"], &["--http-group", "other"]);
    assert_eq!(grouped.send("PUT", "/v1/kv/k", "value").0, 201);
    for path in ["/v1/kv/k", "/?key=k", "/v0/entity?id=k"] {
        assert_eq!((grouped.get(path), grouped.get_fast(path)), ((200, "value".into()), "200 value".into()), "{path}");
    }
    assert_eq!(grouped.get("/v1/groups/other/kv/k"), (200, "value".into()));
    assert!(grouped.get("/lookup?key=k").1.contains("value"));
    assert!(grouped.send("POST", "/v1/mget", "{\"keys\":[\"k\"]}").1.contains("value"));
    assert!(grouped.get("/v1/keys").1.contains("\"k\""));
    assert_eq!((grouped.get("/v1/groups/default/kv/k").0, grouped.get("/data/k").0), (404, 404));
    assert_eq!(grouped.send("PUT", "/v0/entity?id=e", "entity").0, 201);
    assert_eq!(grouped.send("POST", "/cache/v1/item", "{\"key\":\"i\",\"value\":[1],\"ttl\":60}").0, 201);
    assert_eq!(grouped.get("/v1/groups/other/kv/e"), (200, "entity".into()));
    assert_eq!(grouped.get("/v1/groups/other/kv/i").0, 200);
    assert_eq!(grouped.send("DELETE", "/v1/keys?prefix=k", "").0, 204);
    assert_eq!(grouped.get("/v1/groups/other/kv/k").0, 404);
    // Commands of the Redis protocol have the group `default`.
    assert!(grouped.server.client().command(&["EXISTS", "e"]).int() == 0);

    let no_data = Grouped::start(&["other"], &["--http-group", "other"]);
    assert_eq!((no_data.send("PUT", "/v1/groups/other/kv/k", "value").0, no_data.get("/data/k").0), (201, 200));
}

#[test]
fn a_group_that_does_not_exist_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(&folder, &["other"]);
    let output = command().args(["--config", &config, "--http-group", "data"]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("http-group: there is no group `data`"), "{errors}");
}

#[test]
fn a_request_that_the_rules_refuse_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.acl");
    std::fs::write(&users, "user default on nopass +@all ~public:*\nuser admin on >secret +@all ~*\n").unwrap();
    let users = format!("--users-file={}", users.display());
    let disk = format!("disk:{}", folder.path().join("store").display());
    for source in ["none:", &disk] {
        let larder = Larder::start(&["--source", source, &users]);
        let refused = || larder.metric("larder_refused_total{reason=\"rules\"}");
        for (request, body) in [
            ("GET /v1/kv/k", ""),
            ("PUT /v1/kv/k", "v"),
            ("DELETE /v1/kv/k", ""),
            ("GET /?key=k", ""),
            ("GET /lookup?key=k", ""),
            ("GET /v0/entity?id=k", ""),
            ("PUT /v0/entity?id=k", "v"),
            ("GET /cache/v1/item", "{\"key\":\"k\"}"),
            ("POST /cache/v1/item", "{\"key\":\"k\",\"value\":1,\"ttl\":100}"),
            ("GET /redis/get/k", ""),
            ("POST /redis", "[\"GET\",\"k\"]"),
        ] {
            let before = refused();
            let length = body.len();
            let head =
                format!("{request} HTTP/1.1\r\nHost: l\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
            let (status, ..) = larder.http(&(head + body));
            assert!(status >= 400, "{request}: {status}");
            assert_eq!(refused() - before, 1.0, "{request}, {source}");
        }
    }
}
