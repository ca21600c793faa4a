//! Users over HTTP: credentials, rules by route and key, both paths, both listeners.
use super::support::{Client, Path, Reply, Server, run};
use crate::{
    ListenerRole,
    routing::{
        route::{Route, RouteRights},
        route_table::ROUTES,
    },
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::Method;

const USERS: [(&str, &str); 6] = [
    ("admin", ">a ~* &* +@all"),
    ("shop", ">s ~shop:* ~@other/shop:* +@read +@write"),
    ("reader", ">r %R~shop:* +get +mget +scan"),
    ("nothing", ">n ~* &*"),
    ("roles-read", ">rr +info +config|get +lastsave"),
    ("same", ">s2 ~* +get"),
];

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// A server with these users, where `default` is off.
fn server(args: &[&str]) -> Server {
    let server = Server::new(args);
    let users = &server.worker.app.users;
    for (name, rules) in USERS {
        let rules: Vec<&str> = ["on"].into_iter().chain(rules.split(' ')).collect();
        users.set(name, &rules).expect("rules");
    }
    users.set("default", &["off"]).expect("a rule");
    server
}

async fn send(client: &mut Client, line: &str, credentials: &str, body: &str) -> Reply {
    let authorization = match credentials {
        "" => String::new(),
        shown => format!("Authorization: {shown}\r\n"),
    };
    let len = body.len();
    let length =
        if line.starts_with("GET") && body.is_empty() { String::new() } else { format!("Content-Length: {len}\r\n") };
    client.send(format!("{line} HTTP/1.1\r\nHost: h\r\n{authorization}{length}\r\n{body}")).await
}

#[test]
fn each_route_asks_for_a_user_who_may_use_it() {
    run(|| async {
        for (role, route) in each_route() {
            // Failed logins are counted for each address: each route has a server of its own. Where nodes are users
            // like others, their routes have rights, too.
            let server = server(&["--peers=127.0.0.1:1", "--peer-self=127.0.0.1:1"]);
            let is_session = route.rights == RouteRights::Session;
            let key = if is_session { "get/k" } else { "k" };
            let path = route.pattern.replace("{group}", "default").replace("{key}", key);
            let query = match route.parameters.has_only.then(|| route.parameters.in_query().next()) {
                None if is_session => "",
                None => "?key=k&id=k",
                Some(Some("id")) => "?id=k",
                Some(_) => "",
            };
            let target = format!("{path}{query}");
            let line = (route.method.as_str(), &*target);
            let is_item = path.starts_with("/cache/");
            let body = if is_item { "{\"key\":\"k\",\"value\":1,\"ttl\":60}" } else { "{\"keys\":[\"k\"]}" };
            let body = match route.pattern {
                "/redis" => "[\"GET\",\"k\"]",
                "/redis/pipeline" | "/redis/multi-exec" => "[[\"GET\",\"k\"]]",
                _ if is_session || route.method == Method::GET && !is_item => "",
                _ => body,
            };
            for (credentials, expected) in [
                (String::new(), 401),
                (basic("shop", "wrong"), 401),
                ("Digest x".to_owned(), 401),
                ("Basic !".to_owned(), 401),
                (basic("nothing", "n"), 403),
            ] {
                for over in ways(role) {
                    let shown = match &*credentials {
                        "" => String::new(),
                        shown => format!("Authorization: {shown}\r\n"),
                    };
                    let reply = server.request((role, *over), line, &format!("Host: h\r\n{shown}"), body).await;
                    match route.rights {
                        // Each command has an error of its own.
                        RouteRights::Session if expected == 403 && route.pattern == "/redis/pipeline" => {
                            assert!(reply.status == 200 && reply.text().contains("NOPERM"), "{line:?}: {reply:?}");
                        }
                        RouteRights::Session if expected == 403 && route.pattern == "/redis/multi-exec" => {
                            assert!(reply.status == 400 && reply.text().contains("EXECABORT"), "{line:?}: {reply:?}");
                        }
                        RouteRights::Open => assert!(!matches!(reply.status, 401 | 403), "{line:?}: {reply:?}"),
                        _ => assert_eq!(reply.status, expected, "{line:?} with {credentials}: {reply:?}"),
                    }
                    let asks = reply.header("www-authenticate").is_some_and(|schemes| schemes.contains("Bearer"));
                    assert_eq!(asks, reply.status == 401, "{line:?}: {reply:?}");
                }
            }
        }
    });
}

#[test]
fn keys_are_checked_on_both_paths() {
    run(|| async {
        let server = server(&[]);
        for path in [Path::Any, Path::General] {
            server.set(b"shop:1", b"lamp");
            server.set(b"other", b"secret");
            let mut client = server.connect_to(ListenerRole::Native, path).await;
            let shop = basic("shop", "s");
            for _ in 0..3 {
                assert_eq!(send(&mut client, "GET /v1/kv/shop:1", &shop, "").await.text(), "lamp");
                assert_eq!(send(&mut client, "GET /lookup?key=shop:1", "Bearer r", "").await.status, 200);
            }
            assert_eq!(send(&mut client, "GET /v1/kv/shop%3A1", "bEaReR s", "").await.text(), "lamp");
            assert_eq!(send(&mut client, "GET /v1/kv/other", &shop, "").await.problem(), "forbidden");
            assert_eq!(send(&mut client, "GET /v1/kv/shop:1", "", "").await.problem(), "login-required");
            assert_eq!(send(&mut client, "GET /?key=other", &shop, "").await.problem(), "forbidden");
            assert_eq!(send(&mut client, "GET /v0/entity?id=other", &shop, "").await.status, 403);
            assert_eq!(send(&mut client, "GET /_groupcache/default/shop:1", &shop, "").await.status, 200);
            assert_eq!(send(&mut client, "GET /_groupcache/default/other", &shop, "").await.status, 403);
            assert_eq!(send(&mut client, "PUT /v1/kv/shop:2", &shop, "x").await.status, 201);
            assert_eq!(send(&mut client, "PUT /v1/kv/shop:2", "Bearer r", "x").await.problem(), "forbidden");
            assert_eq!(send(&mut client, "PUT /v1/kv/b", &shop, "x").await.status, 403);
            assert_eq!(send(&mut client, "DELETE /v1/kv/b", &shop, "").await.status, 403);
            assert_eq!(send(&mut client, "DELETE /v1/kv/shop:2", &shop, "").await.status, 204);
            let both = "{\"keys\":[\"shop:1\",\"other\"]}";
            assert_eq!(send(&mut client, "POST /v1/mget", "Bearer r", both).await.status, 403);
            assert_eq!(send(&mut client, "POST /v1/mget", "Bearer r", "{\"keys\":[\"shop:1\"]}").await.status, 200);
            assert_eq!(send(&mut client, "GET /v1/keys", "Bearer r", "").await.status, 200);
            // Values of any key, and clears of whatever is there, need all keys.
            assert_eq!(send(&mut client, "GET /v1/range", &shop, "").await.status, 403);
            assert_eq!(send(&mut client, "DELETE /v1/keys?prefix=shop:", &shop, "").await.status, 403);
            assert_eq!(send(&mut client, "DELETE /v1/tags/t", &shop, "").await.status, 403);
            // A group's keys have its name before them.
            assert_eq!(send(&mut client, "PUT /v1/groups/other/kv/shop:1", &shop, "x").await.status, 201);
            assert_eq!(send(&mut client, "GET /v1/groups/other/kv/shop:1", "Bearer r", "").await.status, 403);
            assert_eq!(send(&mut client, "DELETE /v1/groups/other/kv/shop:1", &shop, "").await.status, 204);
            for (line, key, status) in
                [("POST", "shop:3", 201), ("POST", "x", 403), ("GET", "x", 403), ("DELETE", "x", 403)]
            {
                let body = format!("{{\"key\":\"{key}\",\"value\":1,\"ttl\":60}}");
                let reply = send(&mut client, &format!("{line} /cache/v1/item"), &shop, &body).await;
                assert_eq!(reply.status, status, "{line} {key}: {reply:?}");
            }
            let admin = basic("admin", "a");
            assert_eq!(send(&mut client, "GET /v1/kv/other", &admin, "").await.text(), "secret");
            assert_eq!(send(&mut client, "DELETE /v1/groups/other", &admin, "").await.status, 204);
        }
    });
}

#[test]
fn the_password_guards_http_as_well() {
    run(|| async {
        let server = Server::new(&["--password", "main"]);
        server.set(b"k", b"v");
        let mut client = server.connect().await;
        for shown in ["Bearer main".to_owned(), basic("default", "main"), basic("", "main")] {
            assert_eq!(send(&mut client, "GET /v1/kv/k", &shown, "").await.text(), "v", "{shown}");
        }
        for shown in ["", "Bearer other", "Bearer", "Bearer ", &basic("default", ""), &basic("nobody", "main")] {
            let mut client = server.connect().await;
            assert_eq!(send(&mut client, "GET /v1/kv/k", shown, "").await.problem(), "login-required", "{shown}");
        }
        let mut admin = server.connect_to(ListenerRole::Admin, Path::Any).await;
        assert_eq!(admin.get("/v1/log-level").await.problem(), "login-required");
        assert_eq!(admin.get("/healthz").await.status, 200);
        assert_eq!(send(&mut admin, "GET /v1/log-level", "Bearer main", "").await.status, 200);
    });
}

#[test]
fn the_admin_listener_has_roles() {
    run(|| async {
        let server = server(&[]);
        let mut client = server.connect_to(ListenerRole::Admin, Path::Any).await;
        let read = basic("roles-read", "rr");
        for (line, status) in [
            ("GET /metrics", 200),
            ("GET /v1/stats", 200),
            ("GET /v1/log-level", 200),
            ("PUT /v1/log-level", 403),
            ("POST /v1/config/reload", 403),
            ("POST /v1/record", 403),
            ("POST /v1/snapshot", 403),
            ("GET /", 200),
            ("GET /console/main.js", 200),
            ("GET /v1/history", 200),
            ("GET /v1/events", 200),
            ("GET /v1/config", 200),
            ("GET /v1/connections", 403),
            ("DELETE /v1/connections/1", 403),
            ("GET /v1/keys", 403),
            ("GET /v1/kv/k", 403),
            ("GET /v1/explain/k", 403),
        ] {
            assert_eq!(send(&mut client, line, &read, "").await.status, status, "{line}");
        }
        let admin = basic("admin", "a");
        assert_eq!(send(&mut client, "PUT /v1/log-level", &admin, "info").await.status, 200);
        assert_eq!(send(&mut client, "GET /v1/connections", &admin, "").await.status, 200);
        // Keys are those of the rules, on this listener as well.
        let shop = basic("shop", "s");
        server.set(b"shop:1", b"lamp");
        for (line, status) in [("GET /v1/kv/shop:1", 200), ("GET /v1/kv/other", 403), ("GET /", 403)] {
            assert_eq!(send(&mut client, line, &shop, "").await.status, status, "{line}");
        }
    });
}

#[test]
fn changed_users_are_changed_at_once() {
    run(|| async {
        let server = server(&[]);
        server.set(b"shop:1", b"lamp");
        let users = &server.worker.app.users;
        let mut client = server.connect().await;
        let shop = basic("shop", "s");
        assert_eq!(send(&mut client, "GET /v1/kv/shop:1", &shop, "").await.status, 200);
        users.set("shop", &["resetkeys"]).expect("a rule");
        assert_eq!(send(&mut client, "GET /v1/kv/shop:1", &shop, "").await.status, 403);
        users.set("shop", &["~*", "resetpass", ">new"]).expect("rules");
        let mut client = server.connect().await;
        assert_eq!(send(&mut client, "GET /v1/kv/shop:1", &shop, "").await.status, 401);
        assert_eq!(send(&mut client, "GET /v1/kv/shop:1", "Bearer new", "").await.status, 200);
        // A token of two users is that of neither.
        users.set("same", &[">new"]).expect("a rule");
        let mut client = server.connect().await;
        assert_eq!(send(&mut client, "GET /v1/kv/shop:1", "Bearer new", "").await.status, 401);
        // Without a password and restricted: rules without credentials.
        users.set("default", &["on", "nopass", "resetkeys", "~open*", "nocommands", "+get"]).expect("rules");
        let mut client = server.connect().await;
        assert_eq!(client.get("/v1/kv/open").await.status, 404);
        assert_eq!(client.get("/v1/kv/shop:1").await.status, 403);
    });
}

#[test]
fn too_many_failed_logins_have_to_wait() {
    run(|| async {
        let server = server(&[]);
        for _ in 0..20 {
            let mut client = server.connect().await;
            assert_eq!(send(&mut client, "GET /v1/kv/k", "Bearer guess", "").await.status, 401);
        }
        let mut client = server.connect().await;
        let reply = send(&mut client, "GET /v1/kv/k", &basic("admin", "a"), "").await;
        assert_eq!((reply.status, reply.problem().as_str()), (429, "too-many-logins"));
        assert!(reply.header("retry-after").is_some());
        // One request fails once.
        assert_eq!(server.worker.app.users.log().latest(1)[0].count, 20);
    });
}

#[test]
fn no_route_that_changes_something_listens_to_pages_of_other_sites() {
    run(|| async {
        let server = Server::new(&["--peers=127.0.0.1:1", "--peer-self=127.0.0.1:1"]);
        for (role, route) in each_route().filter(|(_, route)| !route.is_safe()) {
            let path = route.pattern.replace("{group}", "default").replace("{key}", "k");
            let line = (route.method.as_str(), &*path);
            for (from, is_refused) in [
                ("Sec-Fetch-Site: cross-site", true),
                ("Sec-Fetch-Site: same-site", true),
                ("Origin: http://elsewhere.example", true),
                ("Origin: null", true),
                ("Origin: http://h.elsewhere.example", true),
                ("Sec-Fetch-Site: cross-site\r\nOrigin: http://h", true),
                ("Origin: http://h", false),
                ("Sec-Fetch-Site: same-origin", false),
            ] {
                for over in ways(role) {
                    let fields = format!("Host: h\r\n{from}\r\nContent-Type: text/plain\r\n");
                    let reply = server.request((role, *over), line, &fields, "{}").await;
                    let refused = (reply.status, text_of(&reply).contains("another site")) == (403, true);
                    assert_eq!(refused, is_refused, "{line:?} {over:?}, {from}: {reply:?}");
                }
            }
        }
    });
}

#[test]
fn no_route_is_reached_by_the_name_of_another_site() {
    run(|| async {
        for (args, listed) in [(&[][..], false), (&["--allowed-hosts=elsewhere.example"], true)] {
            let server = Server::new(args);
            for (role, route) in each_route().filter(|(_, route)| route.pattern != "/v1/live") {
                let path = route.pattern.replace("{group}", "default").replace("{key}", "k");
                let line = (route.method.as_str(), &*path);
                for (host, is_refused) in [
                    ("elsewhere.example", !listed),
                    ("elsewhere.example:8080", !listed),
                    ("another.example", true),
                    ("localhost.another.example", true),
                    ("localhost:8080", false),
                    ("127.0.0.1:8080", false),
                    ("[::1]:8080", false),
                    ("10.0.0.1", false),
                    ("larder:8080", false),
                ] {
                    for over in ways(role) {
                        let reply = server.request((role, *over), line, &format!("Host: {host}\r\n"), "").await;
                        let refused = (reply.status, text_of(&reply).contains("allowed-hosts")) == (403, true);
                        assert_eq!(refused, is_refused, "{line:?} {over:?}, {host}: {reply:?}");
                    }
                }
            }
            // Also after a request that the fast path has answered.
            let mut client = server.connect().await;
            for (host, status) in [("h", 404), ("another.example", 403)] {
                let reply = client.send(format!("GET /v1/kv/k HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
                assert_eq!(reply.status, status, "{host}");
            }
        }
    });
}

/// Decision 0150.
#[test]
fn listeners_on_all_addresses_check_the_names_that_are_listed() {
    run(|| async {
        for (args, is_refused) in [(&[][..], false), (&["--allowed-hosts=shop.example"], true)] {
            let server = Server::on_all_addresses(args);
            for (role, route) in each_route().filter(|(_, route)| route.pattern != "/v1/live") {
                let path = route.pattern.replace("{group}", "default").replace("{key}", "k");
                let line = (route.method.as_str(), &*path);
                for (host, is_refused) in [("elsewhere.example", is_refused), ("shop.example", false)] {
                    let reply = server.request((role, Path::Any), line, &format!("Host: {host}\r\n"), "").await;
                    let refused = (reply.status, text_of(&reply).contains("allowed-hosts")) == (403, true);
                    assert_eq!(refused, is_refused, "{line:?} {host}: {reply:?}");
                }
            }
        }
    });
}

#[test]
fn routes_between_nodes_exist_with_nodes_only() {
    run(|| async {
        let nodes = |args: &'static [&str]| async move {
            let server = Server::new(args);
            let mut statuses = Vec::new();
            for (role, route) in each_route().filter(|(_, route)| route.is_between_nodes()) {
                let path = route.pattern.replace("{group}", "default").replace("{key}", "k");
                let reply = server.request((role, Path::Any), (route.method.as_str(), &path), "Host: h\r\n", "").await;
                statuses.push((route.method.as_str(), reply.status));
            }
            statuses
        };
        // A read is what a groupcache client expects of any server.
        let expected = [("GET", 404), ("PUT", 405), ("DELETE", 405), ("POST", 405), ("POST", 404)];
        assert_eq!(nodes(&[]).await, expected);
        let unknown = [("GET", 401), ("PUT", 401), ("DELETE", 401), ("POST", 401), ("POST", 401)];
        assert_eq!(nodes(&["--peer-secret=s"]).await, unknown);
        let found = nodes(&["--peers=127.0.0.1:1", "--peer-self=127.0.0.1:1"]).await;
        assert!(found.iter().all(|(_, status)| *status != 405), "{found:?}");
    });
}

#[test]
fn wrong_peer_secrets_have_to_wait_and_keep_out_no_logins() {
    run(|| async {
        let server = Server::new(&["--peer-secret=right", "--password=main"]);
        let read = "GET /_groupcache/default/k";
        let mut known = server.connect().await;
        assert_eq!(send(&mut known, read, "Bearer right", "").await.status, 404);
        for _ in 0..20 {
            let mut client = server.connect().await;
            assert_eq!(send(&mut client, read, "Bearer guess", "").await.problem(), "not-a-peer");
        }
        for shown in ["Bearer guess", "Bearer right"] {
            let mut client = server.connect().await;
            let reply = send(&mut client, read, shown, "").await;
            assert_eq!((reply.status, &*reply.problem()), (429, "too-many-logins"), "{shown}");
        }
        // A node that is connected goes on, and passwords are compared.
        assert_eq!(send(&mut known, read, "Bearer right", "").await.status, 404);
        let mut client = server.connect().await;
        assert_eq!(send(&mut client, "GET /v1/kv/k", "Bearer main", "").await.status, 404);
        // No secret at all is no guess.
        assert_eq!(send(&mut client, read, "", "").await.problem(), "not-a-peer");
        let logged = &server.worker.app.users.log().latest(1)[0];
        assert_eq!((&*logged.object, logged.count), (&b"peer-secret"[..], 20));
        assert_eq!(server.worker.counters.failed_logins.get(), 20);
    });
}

#[test]
fn nothing_about_other_keys_comes_out() {
    run(|| async {
        let server = server(&[]);
        let users = &server.worker.app.users;
        users.set("limited", &["on", ">l", "~a:*", "&*", "+@all"]).expect("rules");
        server.set(b"a:1", b"mine");
        server.set(b"b:qxqx", b"xqxq");
        let mut listed = 0;
        // A stream of samples of the metrics never ends.
        let routes = each_route().filter(|(_, route)| route.is_safe() && route.pattern != "/v1/live");
        for (role, route) in routes {
            let path = route.pattern.replace("{group}", "default").replace("{key}", "b%3Aqxqx");
            let query = match route.parameters.has_only.then(|| route.parameters.in_query().next()) {
                None => "?key=b%3Aqxqx&id=b%3Aqxqx",
                Some(Some("id")) => "?id=b%3Aqxqx",
                Some(_) => "",
            };
            let shown = format!("Host: h\r\nAuthorization: {}\r\n", basic("limited", "l"));
            for over in ways(role) {
                let target = format!("{path}{query}");
                let reply = server.request((role, *over), ("GET", &target), &shown, "").await;
                let text = String::from_utf8_lossy(&reply.body);
                // What refuses a key may repeat it.
                let names_key = text.contains("qxqx") && !route.pattern.contains("{key}");
                assert!(!text.contains("xqxq") && !names_key, "{target}: {}", reply.head);
                listed += usize::from(text.contains("a:1"));
            }
        }
        // `/v1/keys` on both listeners, `/cache/v1/keys`, `/v1/groups/{group}/keys`.
        assert!(listed >= 6, "{listed}");
    });
}

fn text_of(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

/// Without TLS, the admin listener has no HTTP/2.
fn ways(role: ListenerRole) -> &'static [Path] {
    match role {
        ListenerRole::Native => &[Path::Any, Path::Http2],
        ListenerRole::Admin => &[Path::Any],
    }
}

fn each_route() -> impl Iterator<Item = (ListenerRole, &'static Route)> {
    let roles = [ListenerRole::Native, ListenerRole::Admin];
    roles
        .into_iter()
        .flat_map(|role| ROUTES.iter().filter(move |route| route.is_on(role)).map(move |route| (role, route)))
}
