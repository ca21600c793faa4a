//! Documents over HTTP: stored, read in part, patched.
use super::memory_store::MemoryStore;
use super::support::{Client, Reply, Server, run};
use std::rc::Rc;

async fn send(client: &mut Client, method: &str, target: &str, headers: &str, body: &str) -> Reply {
    let len = body.len();
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {len}\r\n\r\n{body}")).await
}
const JSON_PATCH: &str = "Content-Type: application/json-patch+json\r\n";
const MERGE_PATCH: &str = "Content-Type: application/merge-patch+json; charset=utf-8\r\n";

/// What holds without a source and with a store of this machine.
async fn documents(client: &mut Client) {
    let put =
        send(client, "PUT", "/v1/kv/doc?type=json&ttl=100s", "", "{ \"a\" : [1, {\"b\": \"x/y\"}], \"n\": 1.0 }").await;
    assert_eq!(put.status, 201);
    let got = client.get("/v1/kv/doc").await;
    assert_eq!((got.status, got.text()), (200, r#"{"a":[1,{"b":"x/y"}],"n":1.0}"#));
    assert_eq!(got.header("content-type"), Some("application/json"));
    let etag = got.header("etag").expect("a tag").to_owned();
    for (pointer, text) in [("/a/1/b", "\"x/y\""), ("/n", "1.0"), ("", got.text()), ("/a%2F0", "1")] {
        let part = client.get(&format!("/v1/kv/doc?pointer={pointer}")).await;
        assert_eq!((part.status, part.text(), part.header("content-type")), (200, text, Some("application/json")));
        assert_eq!(part.header("etag"), Some(&*etag));
    }
    assert_eq!(client.get("/v1/kv/doc?pointer=/a/2").await.problem(), "no-such-element");
    assert_eq!(client.get("/v1/kv/doc?pointer=a").await.problem(), "bad-parameter");
    assert_eq!(client.get("/v1/kv/none?pointer=/a").await.problem(), "key-not-found");

    let patch = r#"[{"op":"test","path":"/a/0","value":1},{"op":"add","path":"/a/-","value":true},{"op":"remove","path":"/n"}]"#;
    let condition = format!("{JSON_PATCH}If-Match: {etag}\r\n");
    let patched = send(client, "PATCH", "/v1/kv/doc", &condition, patch).await;
    assert_eq!(patched.status, 204);
    assert_eq!(send(client, "PATCH", "/v1/kv/doc", &condition, patch).await.problem(), "precondition-failed");
    let failed = send(
        client,
        "PATCH",
        "/v1/kv/doc",
        JSON_PATCH,
        r#"[{"op":"add","path":"/z","value":1},{"op":"remove","path":"/y"}]"#,
    );
    assert_eq!(failed.await.problem(), "patch-failed");
    send(client, "PUT", "/v1/kv/ids?type=json", "", r#"{"id":18446744073709551614,"x":1e400}"#).await;
    for wrong in
        [r#"{"op":"test","path":"/id","value":18446744073709551615}"#, r#"{"op":"test","path":"/x","value":null}"#]
    {
        let patch = format!(r#"[{wrong},{{"op":"remove","path":"/x"}}]"#);
        assert_eq!(send(client, "PATCH", "/v1/kv/ids", JSON_PATCH, &patch).await.problem(), "patch-failed");
    }
    let got = client.get("/v1/kv/doc").await;
    assert_eq!(got.text(), r#"{"a":[1,{"b":"x/y"},true]}"#);
    assert_eq!(got.header("etag"), patched.header("etag"));
    assert!(got.header("cache-control").is_some(), "it still expires");
    let merged = send(client, "PATCH", "/v1/kv/doc", MERGE_PATCH, r#"{"a":null,"m":{"x":null,"y":[]}}"#).await;
    assert_eq!(merged.status, 204);
    assert_eq!(client.get("/v1/kv/doc").await.text(), r#"{"m":{"y":[]}}"#);

    let problems = [
        (JSON_PATCH, "{}", "bad-patch"),
        (MERGE_PATCH, "{", "bad-patch"),
        ("", "{}", "unsupported-type"),
        ("Content-Type: application/json\r\n", "{}", "unsupported-type"),
    ];
    for (headers, body, problem) in problems {
        assert_eq!(send(client, "PATCH", "/v1/kv/doc", headers, body).await.problem(), problem);
    }
    assert_eq!(send(client, "PATCH", "/v1/kv/none", MERGE_PATCH, "{}").await.problem(), "key-not-found");
    assert_eq!(send(client, "PUT", "/v1/kv/bad?type=json", "", "[1,]").await.problem(), "bad-body");
    assert_eq!(send(client, "PUT", "/v1/kv/bad?type=xml", "", "[1]").await.problem(), "bad-parameter");
    assert_eq!(
        send(client, "PUT", "/v1/kv/doc?type=json", "If-None-Match: *\r\n", "1").await.problem(),
        "precondition-failed"
    );

    // Plain bytes stay what they are, and parts of them can be read if they are JSON.
    assert_eq!(send(client, "PUT", "/v1/kv/plain", "", "{ \"a\": [7] }").await.status, 201);
    assert_eq!(client.get("/v1/kv/plain").await.header("content-type"), Some("application/octet-stream"));
    assert_eq!(client.get("/v1/kv/plain?pointer=/a/0").await.text(), "7");
    assert_eq!(send(client, "PATCH", "/v1/kv/plain", MERGE_PATCH, "{}").await.problem(), "not-a-document");
    send(client, "PUT", "/v1/kv/plain", "", "no JSON").await;
    assert_eq!(client.get("/v1/kv/plain?pointer=/a").await.problem(), "not-a-document");
    assert_eq!(send(client, "PUT", "/v1/kv/doc", "", "bytes").await.status, 204);
    assert_eq!(client.get("/v1/kv/doc").await.header("content-type"), Some("application/octet-stream"));
}

#[test]
fn documents_without_a_source() {
    run(|| async {
        let server = Server::new(&[]);
        documents(&mut server.connect().await).await;
        // Other groups have documents, too.
        let client = &mut server.connect().await;
        assert_eq!(send(client, "PUT", "/v1/groups/other/kv/d?type=json", "", "[1]").await.status, 201);
        assert_eq!(send(client, "PATCH", "/v1/groups/other/kv/d", MERGE_PATCH, "{\"a\":1}").await.status, 204);
        assert_eq!(client.get("/v1/groups/other/kv/d?pointer=/a").await.text(), "1");
    });
}

#[test]
fn documents_of_a_store_of_this_machine() {
    run(|| async {
        let store = MemoryStore::default();
        let server = Server::with_source(&[], Rc::new(store));
        let client = &mut server.connect().await;
        send(client, "PUT", "/v1/kv/d?type=json", "", "{\"a\":1}").await;
        server.worker.groups.default().cache.tier().clear();
        let got = client.get("/v1/kv/d").await;
        assert_eq!((got.text(), got.header("content-type")), ("{\"a\":1}", Some("application/json")));
        server.worker.groups.default().cache.tier().clear();
        assert_eq!(send(client, "PATCH", "/v1/kv/d", MERGE_PATCH, "{\"b\":2}").await.status, 204);
        server.worker.groups.default().cache.tier().clear();
        assert_eq!(client.get("/v1/kv/d?pointer=/b").await.text(), "2");
        client.send("DELETE /v1/kv/d HTTP/1.1\r\nHost: h\r\n\r\n").await;
        documents(client).await;
    });
}

#[test]
fn a_patch_cannot_pass_the_limit_of_values() {
    run(|| async {
        let server = Server::new(&["--max-value", "1KiB"]);
        let client = &mut server.connect().await;
        let text = "x".repeat(900);
        send(client, "PUT", "/v1/kv/d?type=json", "", &format!("{{\"a\":\"{text}\"}}")).await;
        let copy = send(client, "PATCH", "/v1/kv/d", JSON_PATCH, r#"[{"op":"copy","from":"/a","path":"/b"}]"#).await;
        assert_eq!(copy.problem(), "value-too-large");
        let merge = send(client, "PATCH", "/v1/kv/d", MERGE_PATCH, &format!("{{\"b\":\"{text}\"}}")).await;
        assert_eq!(merge.problem(), "value-too-large");
        assert_eq!(client.get("/v1/kv/d").await.body.len(), 908);
    });
}

#[test]
fn a_patch_of_many_operations_cannot_go_over_a_long_document() {
    run(|| async {
        let server = Server::new(&[]);
        let client = &mut server.connect().await;
        let text = format!("{{\"a\":1,\"b\":\"{}\"}}", "x".repeat(1 << 20));
        send(client, "PUT", "/v1/kv/d?type=json", "", &text).await;
        let operations = vec![r#"{"op":"replace","path":"/a","value":2}"#; 1100];
        let many = format!("[{}]", operations.join(","));
        assert_eq!(send(client, "PATCH", "/v1/kv/d", JSON_PATCH, &many).await.problem(), "value-too-large");
        assert_eq!(client.get("/v1/kv/d?pointer=/a").await.text(), "1");
        let some = format!("[{}]", operations[..20].join(","));
        assert_eq!(send(client, "PATCH", "/v1/kv/d", JSON_PATCH, &some).await.status, 204);
        assert_eq!(client.get("/v1/kv/d?pointer=/a").await.text(), "2");
    });
}
