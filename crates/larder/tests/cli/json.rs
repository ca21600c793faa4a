//! `--json`: one document on one line, with the exit codes of the text.
use super::{Run, larder::Larder, run};
use serde_json::{Value, json};
use std::fs;

/// The document that a call prints, and its exit code.
fn document(args: &[&str]) -> (Value, i32) {
    let Run { code, out, error } = run(&[args, &["--json"]].concat(), &[], b"");
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with('\n') && text.lines().count() == 1, "{args:?}: {text:?}{error}");
    (serde_json::from_str(&text).unwrap(), code)
}

#[test]
fn keys_and_values() {
    let larder = Larder::start(&[]);
    for url in [format!("http://127.0.0.1:{}", larder.http), format!("redis://127.0.0.1:{}", larder.redis)] {
        let ask = |words: &[&str]| document(&[words, &["--url", &url]].concat());
        assert_eq!(ask(&["set", "k", "v\u{e9}"]), (json!({ "key": "k", "stored": true }), 0));
        assert_eq!(ask(&["get", "k"]), (json!({ "key": "k", "found": true, "value": "v\u{e9}" }), 0));
        assert_eq!(ask(&["del", "k"]), (json!({ "key": "k", "deleted": true }), 0));
        assert_eq!(ask(&["del", "k"]), (json!({ "key": "k", "deleted": false }), 1));
        assert_eq!(ask(&["get", "k"]), (json!({ "key": "k", "found": false, "value": null }), 1));
        assert_eq!(run(&["set", "k", "--url", &url], &[], b"\xff\n").code, 0);
        assert_eq!(ask(&["get", "k"]).0["value"], json!({ "base64": "/wo=" }));
    }
    let nowhere = run(&["get", "k", "--json", "--url", "http://127.0.0.1:1"], &[], b"");
    assert_eq!((nowhere.code, nowhere.text()), (3, ""));
}

#[test]
fn stores() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (store, copy, again) = (path("store"), path("copy"), path("again"));
    let mut larder = Larder::start(&["--source", &format!("disk:{store}")]);
    let url = format!("redis://127.0.0.1:{}", larder.redis);
    for key in ["a", "b"] {
        assert_eq!(run(&["set", key, "value", "--url", &url], &[], b"").code, 0);
    }
    larder.signal(rustix::process::Signal::TERM);
    assert_eq!(larder.wait().0.code(), Some(0));

    let (verified, code) = document(&["store", "verify", &store]);
    assert_eq!((&verified["problems"], code), (&json!([]), 0));
    let files = verified["files"].as_u64().unwrap();
    assert!(files > 1 && verified["bytes"].as_u64().unwrap() > 0, "{verified}");
    assert_eq!(document(&["store", "stats", &store]).0["entries"], 2);
    let (copied, _) = document(&["store", "backup", &store, &copy]);
    assert_eq!((&copied["entries"], copied["bytes"].as_u64()), (&json!(2), Some(fs::metadata(&copy).unwrap().len())));
    assert_eq!(document(&["store", "restore", &copy, &again]).0["entries"], 2);
    assert!(document(&["store", "compact", &again]).0["disk_bytes"].is_u64());
    // A damaged store is an answer, too.
    fs::write(folder.path().join("store/db/version"), "damage").unwrap();
    let (damaged, code) = document(&["store", "verify", &store]);
    assert_eq!((damaged["problems"].as_array().unwrap().len(), code), (1, 1), "{damaged}");
    let text = run(&["store", "verify", &store], &[], b"");
    assert_eq!((text.code, text.text()), (1, ""));
    assert!(text.error.contains("version"), "{}", text.error);
}

#[test]
fn tables_and_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (input, table, snapshot) = (path("input"), path("table"), path("snapshot"));
    fs::write(&input, "leek a vegetable\n").unwrap();
    let (built, code) = document(&["table", "build", &input, "-o", &table]);
    assert_eq!((&built["entries"], &built["left_out"], &built["file"], code), (&json!(1), &json!(0), &json!(table), 0));
    assert_eq!(document(&["table", "dump", &table]), (json!({ "key": "leek", "value": "a vegetable" }), 0));
    assert_eq!(document(&["table", "dump", &table, "--keys"]), (json!({ "key": "leek" }), 0));
    for what in ["info", "verify"] {
        let (described, code) = document(&["table", what, &table]);
        assert_eq!((&described["entries"], &described["key_bytes"], code), (&json!(1), &json!(4), 0));
    }
    let found = json!({ "key": "leek", "found": true, "value": "a vegetable" });
    assert_eq!(document(&["table", "get", &table, "leek"]), (found, 0));
    assert_eq!(document(&["table", "get", &table, "x"]), (json!({ "key": "x", "found": false, "value": null }), 1));

    let mut larder = Larder::start(&["--snapshot-file", &snapshot]);
    assert_eq!(run(&["set", "a", "1", "--url", &format!("redis://127.0.0.1:{}", larder.redis)], &[], b"").code, 0);
    larder.signal(rustix::process::Signal::TERM);
    assert_eq!(larder.wait().0.code(), Some(0));
    let (converted, code) = document(&["snapshot", "convert", &snapshot, &path("dump.rdb")]);
    assert_eq!((&converted["entries"], &converted["left_out"], code), (&json!(1), &json!({}), 0), "{converted}");
    for what in ["info", "verify"] {
        let (described, code) = document(&["snapshot", what, &snapshot]);
        assert_eq!((&described["entries"], &described["groups"][0]["name"], code), (&json!(1), &json!("default"), 0));
    }
}

#[test]
fn configurations_and_samples() {
    let (valid, code) = document(&["config", "check", "--ttl", "1m"]);
    assert_eq!((valid, code), (json!({ "valid": true, "warnings": [] }), 0));
    let (wrong, code) = document(&["config", "check", "--ttl", "0"]);
    assert_eq!((&wrong["valid"], code), (&json!(false), 2));
    assert!(wrong["problems"][0].as_str().unwrap().contains("the least is 1ms"), "{wrong}");
    let (settings, code) = document(&["config", "print", "--ttl", "1m", "--password", "s3cret"]);
    let named = |name: &str| {
        settings["settings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|of| of["name"] == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let ttl = named("ttl");
    assert_eq!((&ttl["value"], &ttl["origin"], code), (&json!("\"1m\""), &json!("flag --ttl"), 0));
    assert!(!named("password")["value"].to_string().contains("s3cret"));
    let larder = Larder::start(&[]);
    let url = format!("http://127.0.0.1:{}", larder.admin);
    let (sample, code) = document(&["top", "--url", &url, "--interval", "10ms", "--count", "1"]);
    assert!(sample["seconds"].as_f64().unwrap() >= 0.01 && code == 0, "{sample}");
    assert!(sample["stats"]["groups"]["default"]["cache_hits"].is_u64(), "{sample}");
}
