//! The console's files and routes: what they answer, to whom, and when the live stream ends.
use super::support::{Client, Path, Server, run};
use crate::ListenerRole;
use larder_base::telemetry::{EventKind, NewEvent};
use serde_json::Value;
use std::{
    task::Waker,
    time::{Duration, Instant},
};
use tokio::io::AsyncReadExt;

async fn admin(server: &Server) -> Client {
    server.connect_to(ListenerRole::Admin, Path::Any).await
}

#[test]
fn the_page_loads_its_own_files_only_and_browsers_hold_it_to_that() {
    run(|| async {
        let server = Server::new(&[]);
        let mut client = admin(&server).await;
        let page = client.get("/").await;
        assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
        let policy = page.header("content-security-policy").expect("a policy");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        let html = page.text();
        for inline in ["style=", " onclick", "javascript:", "<style", "<script>", "http://", "https://"] {
            assert!(!html.contains(inline), "{inline}");
        }
        let mut files: Vec<String> =
            html.split('"').filter(|part| part.starts_with("console/")).map(Into::into).collect();
        files.sort();
        files.dedup();
        // And what these import.
        let mut at = 0;
        while at < files.len() {
            let file = client.get(&format!("/{}", files[at])).await;
            assert_eq!((file.status, file.header("x-content-type-options")), (200, Some("nosniff")), "{}", files[at]);
            assert!(!file.text().contains("https://"), "{}", files[at]);
            let imported = file.text().split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
            let new: Vec<_> =
                imported.map(|name| format!("console/{name}")).filter(|name| !files.contains(name)).collect();
            files.extend(new);
            at += 1;
        }
        files.sort();
        files.dedup();
        let listed: Vec<_> = files.iter().filter_map(|file| file.strip_prefix("console/")).collect();
        let mut known: Vec<_> = crate::console::names().collect();
        known.sort();
        assert_eq!(listed, known);
        let tag = page.header("etag").expect("a tag");
        let again = client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: {tag}\r\n\r\n")).await;
        assert_eq!((again.status, again.body.len()), (304, 0));
        assert_eq!(client.get("/console/mod.rs").await.problem(), "no-such-route");
        assert_eq!(client.get("/console/../main.js").await.status, 404);
        // The HTTP listener has the route of the same path that it had before.
        let mut native = server.connect().await;
        assert_eq!(native.get("/").await.status, 400);
        // A browser gets links there, and anybody a key.
        for path in [Path::Any, Path::General] {
            let mut browser = server.connect_to(ListenerRole::Native, path).await;
            let mut asks = async |target: &str, accept: &str| {
                browser.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nAccept: {accept}\r\n\r\n")).await
            };
            let page = asks("/", "text/html,application/xhtml+xml;q=0.9").await;
            assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
            assert!(page.text().contains("href=\"docs\"") && page.text().contains("Console: "), "{}", page.text());
            assert_eq!(page.header("vary"), Some("accept"));
            assert_eq!(asks("/?key=absent", "text/html").await.status, 404);
            // curl gets the same, below the complaint and with the status that proxies' clients know.
            let text = asks("/", "*/*").await;
            assert_eq!((text.status, text.header("content-type")), (400, Some("text/plain; charset=utf-8")));
            assert!(text.text().starts_with("The key cannot be read: parameter `key` is missing\n"), "{}", text.text());
            for tried in ["a Larder", "/v1/kv/KEY", "/v1/stats", "/readyz", "/docs", "Console:  http"] {
                assert!(text.text().contains(tried), "{tried}: {}", text.text());
            }
        }
        assert_eq!(native.get("/v1/history").await.status, 404);
    });
}

#[test]
fn history_and_events() {
    run(|| async {
        let server = Server::new(&[]);
        let app = &server.worker.app;
        app.sample_history();
        server.set(b"k", b"v");
        let mut client = admin(&server).await;
        assert_eq!(client.get("/v1/kv/k").await.text(), "v");
        let begun = app.telemetry.time() + Duration::from_secs(1);
        app.history.sample(begun, Instant::now(), &app.metrics());
        let history = client.get("/v1/history").await.json();
        let columns = history["columns"].as_array().expect("columns");
        let hits = |group: &str| columns.iter().position(|c| c["name"] == "hits" && c["group"] == group).expect("hits");
        let row = &history["rows"][0];
        assert_eq!(
            (&row[0], &row[hits("default") + 1], &row[hits("other") + 1]),
            (&begun.as_secs().into(), &1.into(), &0.into())
        );
        assert_eq!(history["resolution"], 1);
        let later = client.get(&format!("/v1/history?resolution=1s&since={}", begun.as_secs())).await.json();
        assert_eq!(later["rows"].as_array().map(Vec::len), Some(0));
        assert_eq!(client.get("/v1/history?resolution=1m").await.json()["resolution"], 60);
        assert_eq!(client.get("/v1/history?resolution=2s").await.problem(), "bad-parameter");
        for wrong in ["/v1/history?since=x", "/v1/history?sinse=1", "/v1/connections?count=10001"] {
            assert_eq!(client.get(wrong).await.problem(), "bad-parameter", "{wrong}");
        }

        app.note_event(NewEvent::warning(EventKind::SourceLost, Some("default"), "gone"));
        assert!(app.reload().await.is_ok());
        let events = client.get("/v1/events").await.json();
        let kinds: Vec<_> =
            events["events"].as_array().expect("events").iter().map(|event| event["kind"].clone()).collect();
        assert_eq!(kinds, ["start", "source-lost", "reload"]);
    });
}

/// Reads until the stream has this text; what was read.
async fn read_until(client: &mut Client, wanted: &str) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains(wanted) {
        let n = client.stream.read_buf(&mut read).await.expect("the server answers");
        assert_ne!(n, 0, "closed after {:?}", String::from_utf8_lossy(&read));
    }
    String::from_utf8(read).expect("text")
}

#[test]
fn the_live_stream_goes_on_until_users_change_or_the_drain_begins() {
    run(|| async {
        let server = Server::new(&[]);
        let app = &server.worker.app;
        let ask = "GET /v1/live HTTP/1.1\r\nHost: h\r\n\r\n";
        let (mut one, mut two) = (admin(&server).await, admin(&server).await);
        for client in [&mut one, &mut two] {
            client.write(ask).await;
            let head = read_until(client, "retry: 1000").await;
            assert!(head.contains("content-type: text/event-stream"), "{head}");
            assert!(head.contains("cache-control: no-store"), "{head}");
        }
        let begun = app.telemetry.time();
        for second in 1..3 {
            app.history.sample(begun + Duration::from_secs(second), Instant::now(), &app.metrics());
        }
        app.note_event(NewEvent::info(EventKind::Reload, None, "<b>"));
        for client in [&mut one, &mut two] {
            let text = read_until(client, "event: event").await;
            assert!(text.contains("event: stats\ndata: {"), "{text}");
            assert!(text.contains(&format!("event: sample\ndata: [{},", begun.as_secs() + 2)), "{text}");
        }
        // Their credentials are looked at again when they ask again.
        app.users.set("new", &["on"]).expect("a rule");
        app.note_event(NewEvent::info(EventKind::Reload, None, "not for them"));
        let rest = one.reply_after_head().await;
        assert!(!rest.contains("not for them"), "{rest}");
        two.reply_after_head().await;
        let mut three = admin(&server).await;
        three.write(ask).await;
        read_until(&mut three, "retry").await;
        app.drain.begin(Duration::from_secs(1));
        three.rest().await.expect("the server closes");
    });
}

#[test]
fn connections_are_listed_and_ended() {
    run(|| async {
        let server = Server::new(&[]);
        let clients = &server.worker.app.clients;
        let address = || ([127, 0, 0, 1], 7).into();
        let listed: Vec<_> =
            (0..3).map(|_| clients.register(address(), address(), 0, 0, Waker::noop().clone())).collect();
        listed[1].client.about.lock().name = "<i>shop</i>".into();
        let mut client = admin(&server).await;
        let page = client.get("/v1/connections?count=2").await.json();
        assert_eq!((&page["open"]["redis"], page["connections"].as_array().map(Vec::len)), (&3.into(), Some(2)));
        assert_eq!(page["connections"][1]["name"], "<i>shop</i>");
        assert_eq!(page["connections"][1]["address"], "127.0.0.1:7");
        let id = listed[1].client.id;
        let kill = |id: &str, site: &str| format!("DELETE /v1/connections/{id} HTTP/1.1\r\nHost: h\r\n{site}\r\n");
        // A page from elsewhere may not, whatever credentials the browser adds.
        for site in ["cross-site", "same-site"] {
            let asked = kill(&id.to_string(), &format!("Sec-Fetch-Site: {site}\r\n"));
            assert_eq!(client.send(asked).await.problem(), "cross-site");
        }
        assert!(listed[1].client.closing().is_none());
        let asked = kill(&id.to_string(), "Sec-Fetch-Site: same-origin\r\n");
        assert_eq!(client.send(asked).await.status, 204);
        assert!(listed[1].client.closing().is_some() && listed[0].client.closing().is_none());
        for id in ["99", "x", "", "-1"] {
            assert_eq!(client.send(kill(id, "")).await.problem(), "no-such-connection", "{id}");
        }
    });
}

#[test]
fn connections_are_found_and_sorted_among_all() {
    run(|| async {
        let server = Server::new(&[]);
        let clients = &server.worker.app.clients;
        let addressed = |port: u16| ([127, 0, 0, 1], port).into();
        let listed: Vec<_> = (0..30)
            .map(|number| {
                clients.register(addressed(7000 + number), addressed(1), 0, u64::from(number), Waker::noop().clone())
            })
            .collect();
        listed[20].client.about.lock().name = "Shop & co".into();
        listed[21].client.about.lock().name = "shop-worker".into();
        let mut client = admin(&server).await;
        let mut ports = async |query: &str| {
            let page = client.get(&format!("/v1/connections?{query}")).await.json();
            let listed = page["connections"].as_array().expect("connections").iter();
            let ports: Vec<_> = listed.map(|one| &one["address"].as_str().expect("text")[12..]).collect();
            (ports.join(" "), page["matching"].as_u64(), page["open"]["redis"].as_u64())
        };
        let of = |ports: &str, matching| (ports.to_owned(), Some(matching), Some(30));
        // What is beyond the count is found and sorted as well.
        assert_eq!(ports("count=2").await, of("00 01", 30));
        assert_eq!(ports("count=2&sort=-id").await, of("29 28", 30));
        assert_eq!(ports("count=2&sort=age").await, of("29 28", 30));
        assert_eq!(ports("count=2&sort=-idle").await, of("00 01", 30));
        assert_eq!(ports("count=2&match=SHOP").await, of("20 21", 2));
        assert_eq!(ports("count=1&sort=-name&match=shop").await, of("21", 2));
        assert_eq!(ports("match=shop+%26").await, of("20", 1));
        assert_eq!(ports("match=127.0.0.1:7015").await, of("15", 1));
        assert_eq!(ports("match=nothing").await, of("", 0));
        for wrong in ["sort=color", "sort=--id", "match=%2", "mach=a"] {
            assert_eq!(client.get(&format!("/v1/connections?{wrong}")).await.status, 400, "{wrong}");
        }
    });
}

#[test]
fn contents_by_prefix_and_what_was_evicted() {
    run(|| async {
        let server = Server::new(&["--max-keys", "3000"]);
        let mut client = admin(&server).await;
        let empty = client.get("/v1/contents").await.json();
        assert_eq!(
            (&empty["groups"][0]["sampled"], &empty["groups"][0]["age_seconds"]["p50"]),
            (&0.into(), &Value::Null)
        );
        for number in 0..300 {
            server.set(format!("user:{number}").as_bytes(), b"v");
            if number < 100 {
                server.set(format!("page/{number}").as_bytes(), &[b'x'; 1000]);
            }
        }
        server.set(b"\xff\xfe:1", b"v");
        server.set(b"plain", b"v");
        let page = client.get("/v1/contents").await.json();
        let group = &page["groups"][0];
        assert_eq!(
            (&group["entries"], &group["sampled"], &group["sampled_evictions"]),
            (&402.into(), &402.into(), &0.into())
        );
        let rows = group["prefixes"].as_array().expect("prefixes");
        let names: Vec<_> = rows.iter().map(|row| row["prefix"].clone()).collect();
        assert_eq!(Value::from(names), serde_json::json!(["user:", "page/", "", {"base64": "//46"}]));
        assert_eq!((&rows[0]["share"], &rows[0]["expiring_share"]), (&0.7463.into(), &0.0.into()));
        assert!(rows[1]["bytes_share"].as_f64().is_some_and(|share| share > 0.8 && share < 1.0), "{rows:?}");
        assert!(rows[0]["age_seconds"]["p50"].as_f64().is_some_and(|age| age < 60.0), "{rows:?}");
        assert_eq!(rows[0]["evictions_share"], Value::Null);
        // More than the tier holds and than a sample has.
        for number in 0..20_000 {
            server.set(format!("new:{number}").as_bytes(), b"v");
        }
        let page = client.get("/v1/contents?count=1").await.json();
        let group = &page["groups"][0];
        assert!(group["sampled"].as_u64().is_some_and(|sampled| (900..3000).contains(&sampled)), "{group}");
        assert!(group["sampled_evictions"].as_u64().is_some_and(|sampled| sampled > 100), "{group}");
        let rows = group["prefixes"].as_array().expect("prefixes");
        assert_eq!((rows.len(), &rows[0]["prefix"]), (1, &"new:".into()));
        assert!(rows[0]["evictions_share"].as_f64().is_some_and(|share| share > 0.5), "{rows:?}");
        assert!(rows[0]["share"].as_f64().is_some_and(|share| share > 0.5), "{rows:?}");
        // Pages that ask together get the same sample. Two samples differ.
        let mut again = client.get("/v1/contents?count=5").await.json();
        let mut is_kept = false;
        for _ in 0..10 {
            let before = std::mem::replace(&mut again, client.get("/v1/contents?count=5").await.json());
            is_kept |= before == again;
        }
        assert!(is_kept, "{again}");
        for wrong in ["count=0", "count=501", "sample=1"] {
            assert_eq!(client.get(&format!("/v1/contents?{wrong}")).await.problem(), "bad-parameter", "{wrong}");
        }
    });
}

#[test]
fn keys_are_explained_and_settings_have_origins() {
    run(|| async {
        let server = Server::new(&["--max-value", "5MiB", "--password", "secret"]);
        server.set(b"a/b", b"v");
        let mut client = admin(&server).await;
        let mut get = async |target: &str| {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\n\r\n")).await
        };
        let known = get("/v1/explain/a%2Fb").await.json();
        assert_eq!(
            (&known["held"], &known["state"], &known["tags"]),
            (&"value".into(), &"fresh".into(), &serde_json::json!([]))
        );
        let other = get("/v1/groups/other/explain/a%2Fb").await.json();
        assert_eq!((&other["held"], &other["bytes"]), (&"nothing".into(), &serde_json::Value::Null));
        assert_eq!(get("/v1/groups/none/explain/a").await.status, 404);
        assert_eq!(get("/v1/keys?match=a*").await.json()["keys"][0], "a/b");
        let config = get("/v1/config").await.text().to_owned();
        assert!(!config.contains("\"secret\"") && !config.contains(":secret"), "{config}");
    });
}
