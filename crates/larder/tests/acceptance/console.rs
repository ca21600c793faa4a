//! The console in a real browser: `tests/console/check.js` opens, reads and uses it in Chromium.
use crate::{
    common::{RedisServer, wait_until},
    larder::Larder,
};
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

const USERS: &str = "\
user default off
user admin on >a ~* &* +@all
user reader on >r +info +config|get
user nothing on >n ~* &*
user app on >p ~* &* +@all
";

#[test]
fn the_console_can_be_read_and_used_in_a_browser() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let modules = root.join(".deps/console/node_modules");
    assert!(modules.exists(), "the driver of Chromium is not installed. Type: make tools");
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.acl");
    std::fs::write(&users, USERS).unwrap();
    let redis = RedisServer::start();
    for key in 0..300 {
        redis.command(&["SET", &format!("user:{key}"), &"x".repeat(key)]);
    }
    redis.command(&["SET", "page:<img src=x onerror=complain('html')>", "{\"name\":\"lamp\",\"price\":3}"]);
    redis.command(&["SET", "line\nend\u{202e}txt", "x"]);
    redis.command(&["SET", &"long".repeat(1250), "x"]);
    redis.command(&["SET", "number", "{\"id\":12345678901234567890}"]);
    redis.command(&["SET", "letters", &format!("a{}", "é".repeat(40_000))]);
    let users = format!("--users-file={}", users.display());
    // More groups than the history keeps, one of them with a name that fills a phone.
    let names = (1..9).map(|n| format!("group-{n}")).chain(["a-group-".repeat(8)]);
    let groups = names.map(|name| format!("[groups.{name}]\nsource = \"none:\"\nmax-memory = \"1MiB\"\n"));
    let file = folder.path().join("larder.toml");
    std::fs::write(&file, groups.collect::<String>()).unwrap();
    let config = format!("--config={}", file.display());
    let args = [&*config, &*users, "--source", &redis.url(), "--ttl", "1h", "--max-memory", "64MiB", "--allow-faults"];
    let larder = Larder::start(&args);
    let mut app = larder.client();
    app.command(&["AUTH", "app", "p"]);
    for key in 0..310 {
        app.command(&["GET", &format!("user:{key}")]);
        app.command(&["GET", "page:<img src=x onerror=complain('html')>"]);
    }
    app.command(&["GET", "line\nend\u{202e}txt"]);
    app.command(&["GET", &"long".repeat(1250)]);
    // One that is ended by hand.
    let mut worker = larder.client();
    worker.command(&["AUTH", "app", "p"]);
    worker.command(&["CLIENT", "SETNAME", "shop-worker"]);
    // Two rows are the least that a line needs.
    let history =
        "GET /v1/history HTTP/1.1\r\nhost: x\r\nauthorization: Basic YWRtaW46YQ==\r\nconnection: close\r\n\r\n";
    wait_until("a history", || {
        let (status, _, body) = larder.admin(history);
        assert_eq!(status, 200);
        let page: serde_json::Value = serde_json::from_slice(&body).unwrap();
        page["rows"].as_array().unwrap().len() > 2
    });
    // The history has the commands since its first row.
    app.command(&["GET", "user:0"]);
    // It disturbs no client: none of Redis connects while it lasts.
    let fault = r#"{"at":"disk","kind":"full","duration":"1h"}"#;
    let order = format!(
        "POST /v1/faults HTTP/1.1\r\nhost: x\r\nauthorization: Basic YWRtaW46YQ==\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{fault}",
        fault.len()
    );
    assert_eq!(larder.admin(&order).0, 201);
    // A client calls a command all the time, so that its heat map has something to show.
    let is_over = AtomicBool::new(false);
    let output = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                app.command(&["PING"]);
                thread::sleep(Duration::from_millis(20));
            }
        });
        // Also if it panics: the scope waits for the thread.
        let _over = Over(&is_over);
        checked_in_a_browser(&root, folder.path(), &larder)
    });
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    assert!(!worker.is_open(), "the connection that was ended by hand");
}

/// Says so when it goes.
struct Over<'a>(&'a AtomicBool);
impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs `check.js`. Its pictures go to `$CONSOLE_PICTURES`, or into the folder.
fn checked_in_a_browser(root: &Path, folder: &Path, larder: &Larder) -> Output {
    let pictures = std::env::var_os("CONSOLE_PICTURES").map_or_else(|| folder.join("pictures"), Into::into);
    Command::new("node")
        .arg(root.join("tests/console/check.js"))
        .arg(&pictures)
        .arg(format!("http://127.0.0.1:{}/", larder.admin))
        .arg(larder.pid().to_string())
        .output()
        .unwrap_or_else(|error| panic!("node: {error}\nType: make tools"))
}

/// Answers each request with a page that has a script, until the process ends.
fn origin_of_pages() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || {
                let mut stream = stream.unwrap();
                let page = "<!doctype html><script>fetch('/v1/log-level', {method: 'PUT', body: 'trace'})</script>";
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncache-control: max-age=600\r\nconnection: close";
                let mut read = Vec::new();
                while !read.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        return;
                    }
                    read.extend(byte);
                }
                let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
            });
        }
    });
    port
}

#[test]
fn pages_of_other_sites_can_do_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("larder.toml");
    let source = format!("http://127.0.0.1:{}/{{key}}", origin_of_pages());
    std::fs::write(&file, format!("[groups.pages]\nsource = \"{source}\"\nmax-memory = \"1MiB\"\n")).unwrap();
    let larder = Larder::start(&[&format!("--config={}", file.display())]);
    let mut client = larder.client();
    client.command(&["SET", "stay", "here"]);
    client.command(&["SET", "script", "window.stolen = 'the value';"]);
    let output = Command::new("node")
        .arg(root.join("tests/console/other_sites.js"))
        .args([larder.http.to_string(), larder.admin.to_string()])
        .output()
        .unwrap_or_else(|error| panic!("node: {error}\nType: make tools"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{said}");
}
