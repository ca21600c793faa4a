//! Tags over HTTP, and clears by tag, by prefix and of a group.
use super::memory_store::MemoryStore;
use super::support::{Client, Reply, Server, run};
use std::rc::Rc;

async fn put(client: &mut Client, target: &str, headers: &str) -> Reply {
    client.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: 1\r\n\r\nv")).await
}
async fn delete(client: &mut Client, target: &str) -> Reply {
    client.send(format!("DELETE {target} HTTP/1.1\r\nHost: h\r\n\r\n")).await
}
async fn held(client: &mut Client, keys: &[&str]) -> String {
    let mut held = Vec::new();
    for key in keys {
        if client.get(&format!("/v1/kv/{key}")).await.status == 200 {
            held.push(*key);
        }
    }
    held.join(" ")
}

#[test]
fn what_carries_a_tag_is_cleared_together() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        assert_eq!(put(&mut client, "/v1/kv/a?tag=x&ttl=1m&tag=y%2Fz", "").await.status, 201);
        assert_eq!(put(&mut client, "/v1/kv/b", "Cache-Tag: x, w\r\nCache-Tag: v\r\n").await.status, 201);
        assert_eq!(
            put(&mut client, "/v1/kv/c?tag=w", "Surrogate-Key: t  y/z\r\nIf-None-Match: *\r\n").await.status,
            201
        );
        assert_eq!(put(&mut client, "/v1/kv/d", "").await.status, 201);
        let all = ["a", "b", "c", "d"];
        assert_eq!(delete(&mut client, "/v1/tags/nobody").await.status, 204);
        assert_eq!(held(&mut client, &all).await, "a b c d");
        assert_eq!(delete(&mut client, "/v1/tags/y/z").await.status, 204);
        assert_eq!(held(&mut client, &all).await, "b d");
        assert!(
            client.get("/v1/keys").await.text().contains("\"keys\":[\"d\",\"b\"]")
                || client.get("/v1/keys").await.text().contains("[\"b\",\"d\"]")
        );
        // What is stored again has the tags of that time.
        assert_eq!(put(&mut client, "/v1/kv/b?tag=u", "").await.status, 204);
        for tag in ["x", "v", "w"] {
            delete(&mut client, &format!("/v1/tags/{tag}")).await;
        }
        assert_eq!(held(&mut client, &all).await, "b d");
        assert_eq!(delete(&mut client, "/v1/tags/u?soft").await.status, 204, "without stale windows as without `soft`");
        assert_eq!(held(&mut client, &all).await, "d");
        // Another group's tags are its own.
        assert_eq!(put(&mut client, "/v1/groups/other/kv/o?tag=x", "").await.status, 201);
        delete(&mut client, "/v1/tags/x").await;
        assert_eq!(client.get("/v1/groups/other/kv/o").await.status, 200);
        assert_eq!(delete(&mut client, "/v1/groups/other/tags/x").await.status, 204);
        assert_eq!(client.get("/v1/groups/other/kv/o").await.status, 404);
    });
}

#[test]
fn prefixes_and_groups_are_cleared() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        let all = ["user:1", "user:2", "item:1"];
        for key in all {
            put(&mut client, &format!("/v1/kv/{key}"), "").await;
        }
        assert_eq!(delete(&mut client, "/v1/keys?prefix=user%3A").await.status, 204);
        assert_eq!(held(&mut client, &all).await, "item:1");
        assert_eq!(server.worker.groups.default().cache.tier().len(), 1, "counted without them");
        assert_eq!(delete(&mut client, "/v1/groups/default/keys?prefix=item&soft=1").await.status, 204);
        assert_eq!(held(&mut client, &all).await, "");
        put(&mut client, "/v1/kv/user:1", "").await;
        assert_eq!(delete(&mut client, "/v1/groups/default?soft").await.status, 204);
        assert_eq!(held(&mut client, &all).await, "");
        put(&mut client, "/v1/kv/user:1", "").await;
        assert_eq!(delete(&mut client, "/v1/groups/default").await.status, 204);
        assert_eq!(held(&mut client, &all).await, "");
    });
}

#[test]
fn what_cannot_be_is_said() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        let many: String = (0..129).map(|n| format!("&tag={n}")).collect();
        let reply = put(&mut client, &format!("/v1/kv/a?{many}"), "").await;
        assert_eq!((reply.problem().as_str(), reply.text().contains("at most 128 tags")), ("bad-tag", true));
        let reply = put(&mut client, &format!("/v1/kv/a?tag={}", "x".repeat(1025)), "").await;
        assert_eq!((reply.problem().as_str(), reply.text().contains("1 to 1024 bytes")), ("bad-tag", true));
        assert_eq!(put(&mut client, "/v1/kv/a?tag=", "").await.problem(), "bad-tag");
        assert_eq!(put(&mut client, "/v1/kv/a?tag=%z", "").await.problem(), "bad-key");
        assert_eq!(held(&mut client, &["a"]).await, "", "nothing was stored");
        assert_eq!(delete(&mut client, "/v1/tags/").await.problem(), "bad-tag");
        assert_eq!(delete(&mut client, "/v1/tags/x?soft=perhaps").await.problem(), "bad-parameter");
        assert_eq!(delete(&mut client, "/v1/keys").await.problem(), "bad-parameter");
        assert_eq!(delete(&mut client, "/v1/keys?prefix=").await.problem(), "bad-parameter");
        // A source keeps no tags.
        let server = Server::with_source(&[], Rc::new(MemoryStore::default()));
        let mut client = server.connect().await;
        assert_eq!(put(&mut client, "/v1/kv/a?tag=x", "").await.problem(), "bad-tag");
        assert_eq!(put(&mut client, "/v1/kv/a", "").await.status, 201);
    });
}
