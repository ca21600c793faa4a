//! The configuration is read again while clients are connected: what changes, what waits for a
//! restart, what is refused.
use super::{
    common::{Client, Reply, wait_until},
    larder::{Larder, binary, changed_settings as names},
};
use rustix::process::Signal;
use std::{path::Path, process::Command};

/// A Larder with this file.
fn with_file(path: &Path, text: &str) -> Larder {
    std::fs::write(path, text).unwrap();
    Larder::start(&["--config", path.to_str().unwrap()])
}
/// The lifetime of what is stored now.
fn lifetime(client: &mut Client, key: &str) -> i64 {
    assert_eq!(client.command(&["SET", key, "v"]), Reply::ok());
    client.command(&["TTL", key]).int()
}
#[test]
fn a_reload_changes_what_it_can_and_says_what_it_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("larder.toml");
    let larder = with_file(
        &path,
        "ttl = \"1h\"\nmax-pipeline = 1000\n[groups.gone]\nmax-memory = \"16MiB\"\n[groups.other]\nmax-memory = \"16MiB\"\n",
    );
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "old", "v"]), Reply::ok());
    let text = "ttl = \"100s\"\nmax-pipeline = 2000\nlog-level = \"error\"\nthrottle = \"1/s\"\n\
        [prefixes.\"short:\"]\nttl = \"10s\"\n[groups.other]\nmax-memory = \"32MiB\"\n[groups.third]\nmax-memory = \"16MiB\"\n";
    std::fs::write(&path, text).unwrap();
    let (status, differences) = larder.reload("GET");
    assert_eq!(status, 200);
    assert!(lifetime(&mut client, "still") > 3000, "nothing changed");
    let (status, changed) = larder.reload("POST");
    assert_eq!((status, &changed), (200, &differences));
    // The log level is a flag, which outweighs the file.
    assert_eq!(
        names(&changed["changes"]),
        ["ttl", "throttle", "throttle-admin", "prefixes.\"short:\"", "groups.other.max-memory"]
    );
    assert_eq!(names(&changed["needs_restart"]), ["max-pipeline", "groups.third", "groups.gone"]);
    // The new limit on requests allows one.
    let metrics = larder.get("/metrics");
    for (group, bytes) in [("other", 32 << 20), ("gone", 16 << 20)] {
        let line = format!("\nlarder_cache_max_bytes{{group=\"{group}\"}} {bytes}\n");
        assert!(metrics.contains(&line), "{line}");
    }
    // The same connection goes on.
    wait_until("a refusal", || matches!(client.command(&["PING"]), Reply::Error(why) if why.contains("throttle ")));
    std::fs::write(&path, text.replace("throttle = \"1/s\"\n", "")).unwrap();
    larder.signal(Signal::HUP);
    wait_until("the limit to be gone", || client.command(&["PING"]) == Reply::Simple("PONG".into()));
    for (key, longest) in [("new", 100), ("short:new", 10)] {
        let left = lifetime(&mut client, key);
        assert!((1..=longest).contains(&left), "{key}: {left}");
    }
    assert!(client.command(&["TTL", "old"]).int() > 3000, "what is held keeps its lifetime");
    let (_, again) = larder.reload("POST");
    assert_eq!(
        (names(&again["changes"]).len(), names(&again["needs_restart"])),
        (0, vec!["max-pipeline", "groups.third", "groups.gone"])
    );
    let diff = Command::new(binary())
        .args(["config", "diff", "--url", &format!("http://127.0.0.1:{}", larder.admin)])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8(diff.stdout).unwrap(),
        "A restart is needed for:\n  max-pipeline: 1000 -> 2000\n  groups.third: (not shown) -> a table\n  groups.gone: a table -> (not shown)\n"
    );
}

#[test]
fn a_bad_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("larder.toml");
    let mut larder = with_file(&path, "ttl = \"1h\"\n");
    let mut client = larder.client();
    std::fs::write(&path, "ttl = \"10s\"\nmax-memroy = \"64MiB\"\nidle-timeout = \"soon\"\n").unwrap();
    let (status, problem) = larder.reload("POST");
    assert_eq!((status, problem["type"].as_str().unwrap().rsplit('/').next()), (422, Some("config-refused")));
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("did you mean max-memory?") && detail.contains("larder.toml:3: idle-timeout"), "{detail}");
    larder.signal(Signal::HUP);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(larder.reload("POST").0, 422);
    assert!(lifetime(&mut client, "still") > 3000);
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    assert!(larder.stderr().contains("nothing changed: "), "the signal's outcome is in the log");
}

#[test]
fn a_memory_bound_that_the_shards_do_not_allow_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("larder.toml");
    let text = "ttl = \"1h\"\n[groups.other]\nmax-memory = \"64MiB\"\n";
    let larder = with_file(&path, text);
    std::fs::write(&path, text.replace("1h", "2h").replace("64MiB", "1MiB")).unwrap();
    for method in ["GET", "POST"] {
        let (status, problem) = larder.reload(method);
        let detail = problem["detail"].as_str().unwrap();
        assert_eq!(status, 422, "{problem}");
        for part in ["group other", "max-memory of 1MiB needs a restart", "at least 2MiB"] {
            assert!(detail.contains(part), "{detail}");
        }
    }
    let lifetime = lifetime(&mut larder.client(), "key");
    assert!(lifetime <= 3600, "{lifetime}: the file is applied as a whole or not at all");
    std::fs::write(&path, text.replace("64MiB", "2MiB")).unwrap();
    assert_eq!(larder.reload("POST").0, 200);
    assert_eq!(larder.metric("larder_cache_max_bytes{group=\"other\"}"), f64::from(2 << 20));
}

#[test]
fn silent_connections_end_after_the_new_idle_timeout() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("larder.toml");
    let larder = with_file(&path, "");
    let mut client = larder.client();
    assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
    std::fs::write(&path, "idle-timeout = \"100ms\"\n").unwrap();
    assert_eq!(names(&larder.reload("POST").1["changes"]), ["idle-timeout"]);
    wait_until("the connection to end", || !client.is_open());
}
