//! Requests in the forms that clients give them: chunked, without a body, as a query.
use super::{CANNOT_DECODE, NO_KEY, NOT_FOUND, code, item, request};
use crate::tests::support::{Server, run};

#[test]
fn bodies_of_get_and_delete_come_in_any_form() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        item(&mut client, "POST", r#"{"key":"a","value":[1,2],"ttl":60}"#).await;
        let chunked = |method: &str, target: &str| {
            format!(
                "{method} {target} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{{\"key\r\n6\r\n\":\"a\"}}\r\n0\r\n\r\n"
            )
        };
        // In one write with what the fast path answers, before and after.
        for method in ["GET", "DELETE"] {
            let mut client = server.connect().await;
            let plain = "GET /v1/kv/none HTTP/1.1\r\nHost: h\r\n\r\n";
            client.write(format!("{plain}{}{plain}", chunked(method, "/cache/v1/item"))).await;
            assert_eq!(client.reply(false).await.status, 404);
            let reply = client.reply(false).await;
            match method {
                "GET" => assert_eq!(reply.text(), "{\"key\":\"a\",\"value\":[1,2]}\n"),
                _ => assert_eq!(reply.status, 204),
            }
            assert_eq!(client.reply(false).await.status, 404);
        }
        assert_eq!(item(&mut client, "GET", r#"{"key":"a"}"#).await.text().trim(), NOT_FOUND);
        // No body at all, and one of no bytes.
        for method in ["GET", "DELETE"] {
            for header in ["", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n"] {
                let end = if header.starts_with('T') { "0\r\n\r\n" } else { "" };
                let reply =
                    client.send(format!("{method} /cache/v1/item HTTP/1.1\r\nHost: h\r\n{header}\r\n{end}")).await;
                assert_eq!(reply.text().trim(), CANNOT_DECODE, "{method} {header}");
            }
        }
    });
}

#[test]
fn the_query_does_for_a_body() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        let created =
            client.send(request("POST", "/cache/v1/item?key=a+b&ttl=60&value=%7B%22x%22:%20[1,2]%7D", "")).await;
        assert_eq!((created.status, created.text()), (201, "{\"key\":\"a b\",\"value\":{\"x\":[1,2]},\"ttl\":60}\n"));
        let mixed = client.send(request("POST", "/cache/v1/item?key=l&ttl=60", r#"{"value":["a","b"]}"#)).await;
        assert_eq!(mixed.status, 201);
        for (target, status, body) in [
            ("?key=a%20b", 200, r#"{"key":"a b","value":{"x":[1,2]}}"#),
            ("?key=a%20b&subkey=x", 200, r#"{"key":"a b","value":[1,2],"subkey":"x"}"#),
            ("?key=l&subindex=2", 200, r#"{"key":"l","value":"b","subindex":2}"#),
            ("?key=l&subindex=x", 400, CANNOT_DECODE),
            ("?key=", 400, NO_KEY),
            ("?x=1", 400, CANNOT_DECODE),
        ] {
            let reply = client.get(&format!("/cache/v1/item{target}")).await;
            assert_eq!((reply.status, reply.text().trim()), (status, body), "{target}");
        }
        assert_eq!(client.send("DELETE /cache/v1/item?key=l HTTP/1.1\r\nHost: h\r\n\r\n").await.status, 204);
        assert_eq!(code(&client.get("/cache/v1/item?key=l").await), (400, 21));
        let head = client.send("HEAD /cache/v1/item?key=a+b HTTP/1.1\r\nHost: h\r\n\r\n").await;
        assert_eq!((head.status, head.header("content-length")), (200, Some("34")));
    });
}
