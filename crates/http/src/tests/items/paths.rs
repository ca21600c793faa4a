//! Paths, methods, and the prefix.
use super::{code, request};
use crate::{
    ListenerRole,
    tests::support::{Path, Server, run},
};
use serde_json::json;

#[test]
fn paths_and_methods() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = server.connect().await;
        for target in [
            "/cache/v1/nothing",
            "/cache/v1/item/x",
            "/cache/v1",
            "/cache/v1/",
            "/cache/v1//x",
            "/cache/v1/%zz",
            "/cache/v1/%ff",
        ] {
            let reply = client.get(target).await;
            assert_eq!(
                (reply.status, reply.text()),
                (404, "{\"code\":1,\"reason\":\"endpoint not found\"}\n"),
                "{target}"
            );
        }
        assert_eq!(client.get("/cache").await.problem(), "no-such-route");
        assert_eq!(client.get("/cache/v1x").await.problem(), "no-such-route");
        // A key may look like a path to elsewhere.
        assert_eq!(client.get("/v1/kv/..%2F..%2Fcache%2Fv1%2Fitem").await.problem(), "key-not-found");
        for (method, target, allow) in [
            ("PUT", "item", "GET, HEAD, POST, DELETE"),
            ("PUT", "item/", "GET, HEAD, POST, DELETE"),
            ("POST", "keys", "GET, HEAD"),
        ] {
            let reply = client.send(request(method, &format!("/cache/v1/{target}"), "")).await;
            assert_eq!((reply.status, reply.text(), reply.header("allow")), (405, "", Some(allow)));
        }
        for (method, target, location) in [
            ("GET", "/cache/v1/item/", "/cache/v1/item"),
            ("DELETE", "/cache/v1/item/?key=a+b", "/cache/v1/item?key=a+b"),
            ("GET", "/cache/v1/keys/", "/cache/v1/keys"),
            ("POST", "/cache/v1//item", "/cache/v1/item"),
            ("GET", "//cache/v1/keys?mask=a", "/cache/v1/keys?mask=a"),
            ("PATCH", "/cache/v1/item//", "/cache/v1/item"),
            ("GET", "/cache/./v1/x/../item", "/cache/v1/item"),
            ("GET", "/cache/v1/%69tem%2F", "/cache/v1/item"),
        ] {
            let reply = client.send(request(method, target, r#"{"key":"a"}"#)).await;
            assert_eq!((reply.status, reply.header("location")), (301, Some(location)));
        }
        let mut admin = server.connect_to(ListenerRole::Admin, Path::Any).await;
        assert_eq!(admin.get("/cache/v1/item?key=a").await.problem(), "no-such-route");
    });
}

#[test]
fn the_prefix_is_a_setting_and_the_lifetimes_are_those_of_gcache() {
    run(|| async {
        let server = Server::new(&["--item-prefix", "api/items"]);
        let mut client = server.connect().await;
        let post =
            |ttl: i64| request("POST", "/api/items/item", &json!({"key": "a", "value": 1, "ttl": ttl}).to_string());
        assert_eq!(client.send(post(5)).await.status, 201);
        assert_eq!(client.send(post(217 * 86_400)).await.status, 201);
        assert_eq!(code(&client.send(post(217 * 86_400 + 1)).await), (400, 12));
        assert_eq!(code(&client.send(post(4)).await), (400, 12));
        assert_eq!(code(&client.send(post(-1)).await), (400, 12));
        assert_eq!(client.get("/api/items/keys").await.text(), "{\"mask\":\"*\",\"keys\":[\"a\"]}\n");
        assert_eq!(client.get("/cache/v1/keys").await.problem(), "no-such-route");
        let description = client.get("/openapi.json").await.json();
        assert!(
            description["paths"]["/api/items/item"].is_object() && description["paths"]["/cache/v1/item"].is_null()
        );
        let off = Server::new(&["--item-prefix", "off"]);
        assert_eq!(off.connect().await.get("/cache/v1/keys").await.problem(), "no-such-route");
    });
}

#[test]
fn no_prefix_hides_another_route() {
    for route in crate::routing::route_table::ROUTES.iter().filter(|route| route.is_on(ListenerRole::Native)) {
        let first = route.pattern.split('/').nth(1).unwrap_or_default();
        assert!(first.is_empty() || first == "cache" || larder_config::RESERVED_SEGMENTS.contains(&first), "{first}");
    }
}
