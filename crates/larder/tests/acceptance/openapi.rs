//! The description of the routes against the server: schemathesis draws requests from
//! `/openapi.json` and holds each answer to it.
use crate::larder::Larder;
use std::{path::Path, process::Command};

/// Requests that are drawn for each route; the examples and the edges of each schema come on top.
const DRAWN: &str = "8";

/// Runs schemathesis against a listener, for the routes with these tags. The same seed draws the
/// same requests.
fn conforms(port: u16, tags: &[&str]) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/python-openapi/bin/st");
    assert!(program.exists(), "schemathesis is not installed. Type: make tools");
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .current_dir(folder.path())
        .args(["run", &format!("http://127.0.0.1:{port}/openapi.json"), "--no-color"])
        .args(["--phases", "examples,coverage,fuzzing", "--max-examples", DRAWN, "--seed", "1"])
        .args(["--generation-database", "none", "--request-timeout", "20"])
        // Schemas say what a request looks like, and not which precondition or cursor is right. Fields that the server
        // does not read may be anything.
        .args(["--exclude-checks", "positive_data_acceptance,negative_data_rejection"])
        .args(tags.iter().flat_map(|tag| ["--include-tag", tag]))
        .output()
        .unwrap_or_else(|error| panic!("schemathesis: {error}\nType: make tools"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    println!("{}", text.lines().rev().find(|line| line.contains("generated")).unwrap_or_default());
}

/// With a disk store and a ring, which have every route.
fn larder(folder: &Path) -> Larder {
    let source = format!("disk:{}", folder.join("store").display());
    let alone = ["--peers", "127.0.0.1:1", "--peer-self", "127.0.0.1:1"];
    let args = ["--source", &source, "--data-dir", folder.to_str().unwrap()];
    let mut larder = Larder::start(&[&args[..], &alone].concat());
    // One of the routes sets the log level.
    larder.drop_stderr();
    larder
}

#[test]
fn routes_of_the_http_listener_answer_as_described() {
    let folder = tempfile::tempdir().unwrap();
    conforms(larder(folder.path()).http, &["keys", "items", "compatibility", "observe"]);
}

#[test]
fn routes_of_the_admin_listener_answer_as_described() {
    let folder = tempfile::tempdir().unwrap();
    conforms(larder(folder.path()).admin, &["control", "observe"]);
}

#[test]
fn the_page_of_the_routes_opens_in_a_browser() {
    let larder = Larder::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().display()))
        .arg(format!("http://127.0.0.1:{}/docs", larder.http))
        .output()
        .unwrap_or_else(|error| panic!("chromium: {error}\nType: make tools"));
    let page = String::from_utf8_lossy(&output.stdout);
    let description: serde_json::Value = serde_json::from_str(&larder.get("/openapi.json")).unwrap();
    for path in description["paths"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("<code>{path}</code>")), "{path}: {page}");
    }
}
