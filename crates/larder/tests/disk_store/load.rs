//! `larder store load`: entries of a data file in a store that no server has open.
use crate::{
    cli::run,
    common::Reply,
    larder::{Larder, binary},
};
use rustix::process::Signal;
use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
};

/// Entries of the store.
fn count(store: &str) -> u64 {
    let stats = run(&["store", "stats", store, "--json"], &[], b"");
    serde_json::from_slice::<serde_json::Value>(&stats.out).unwrap()["entries"].as_u64().unwrap()
}

#[test]
fn a_file_becomes_entries_of_a_new_and_of_an_old_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let store = path("store");
    fs::write(path("x.csv"), "id,name\n1,one\n2,\"two\n2\"\n1,again\n").unwrap();
    let columns = ["--key", "id", "--value", "name", "--compression", "none"];
    let loaded = run(&[&["store", "load", &path("x.csv"), &store][..], &columns].concat(), &[], b"");
    assert_eq!((loaded.code, loaded.text(), &loaded.error[..]), (0, "3 entries\n", ""));
    let changes = b"{\"key\":\"2\",\"value\":null}\n{\"key\":\"3\",\"value\":[3]}\n{\"key\":\"4\"}\n";
    let loaded = run(&["store", "load", "-", &store, "--format", "json", "--json"], &[], changes);
    assert_eq!(loaded.text(), "{\"entries\":1,\"left_out\":1,\"removed\":1}\n");
    assert_eq!(loaded.error, "larder: -: line 3 is left out: it has no field `value`\n");
    assert_eq!(run(&["store", "verify", &store], &[], b"").code, 0);

    let mut larder = Larder::start(&["--source", &format!("disk:{store}")]);
    let mut client = larder.client();
    let read = |client: &mut crate::common::Client, key: &str| client.command(&["GET", key]);
    assert_eq!(read(&mut client, "1"), Reply::bulk("again"));
    assert_eq!((read(&mut client, "2"), read(&mut client, "3")), (Reply::nil(), Reply::bulk("[3]")));
    assert_eq!(client.command(&["TTL", "1"]), Reply::Int(-1));
    // The server has it.
    let refused = run(&["store", "load", &path("x.csv"), &store], &[], b"");
    assert!(refused.code == 1 && refused.error.contains("in use by another process"), "{refused:?}");
    larder.signal(Signal::TERM);
    assert_eq!(larder.wait().0.code(), Some(0));
    assert_eq!(count(&store), 2);
}

#[test]
fn with_strict_a_bad_line_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // More than a batch lies before the bad line.
    let text: String = (0..100_000).map(|n| format!("key{n} {:0>60}\n", n)).collect();
    fs::write(path("good"), &text).unwrap();
    fs::write(path("bad"), format!("{text}lonely\n")).unwrap();
    let load = |file: &str, more: &[&str]| {
        run(&[&["store", "load", &path(file), &path("store")][..], more].concat(), &[], b"a 1\n")
    };
    let refused = load("bad", &["--strict"]);
    let expected = "bad: line 100001: there is no blank behind the key; the store is as it was\n";
    assert!(refused.code == 1 && refused.error.ends_with(expected), "{refused:?}");
    assert!(!folder.path().join("store").exists());
    assert_eq!(load("missing", &[]).code, 1);
    assert!(!folder.path().join("store").exists());
    let unread = run(&["store", "load", "-", &path("store"), "--strict"], &[], b"a 1\n");
    assert!(unread.code == 1 && unread.error.contains("name a file"), "{unread:?}");
    let loaded = load("good", &["--strict"]);
    assert_eq!((loaded.code, loaded.text()), (0, "100000 entries\n"));
    assert_eq!(load("bad", &["--empty-values"]).text(), "100001 entries\n");
    assert_eq!(count(&path("store")), 100_001);
}

#[test]
fn a_killed_load_leaves_a_sound_store_that_the_same_load_completes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let store = path("store");
    let text: String = (0..200_000).map(|n| format!("key{n} {:0>80}\n", n)).collect();
    fs::write(path("all"), &text).unwrap();
    let mut load = Command::new(binary())
        .args(["store", "load", "-", &store])
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // All but what the pipe holds was read, which is batches of 4 MiB.
    load.stdin.as_mut().unwrap().write_all(&text.as_bytes()[..14 << 20]).unwrap();
    load.kill().unwrap();
    load.wait().unwrap();
    assert_eq!(run(&["store", "verify", &store], &[], b"").code, 0);
    let half = count(&store);
    assert!((80_000..160_000).contains(&half), "{half}");
    assert_eq!(run(&["store", "load", &path("all"), &store], &[], b"").code, 0);
    assert_eq!(count(&store), 200_000);
}
