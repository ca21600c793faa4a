//! Snapshots from outside: restarts, commands, kills, full disks, damaged files. What the file is, and damage of every kind, are tested beside its code.
#![expect(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/larder.rs"]
mod larder;

use common::{Client, RedisServer, Reply, wait_until};
use larder::{Larder, binary};
use rustix::process::Signal;
use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::{Duration, Instant},
};
use tempfile::TempDir;

struct Scratch {
    dir: TempDir,
    file: PathBuf,
}
impl Scratch {
    fn new() -> Scratch {
        let dir = tempfile::tempdir().unwrap();
        Scratch { file: dir.path().join("snapshot"), dir }
    }
    /// The setting.
    fn setting(&self) -> String {
        format!("--snapshot-file={}", self.file.display())
    }
    fn start(&self, args: &[&str]) -> Larder {
        Larder::start(&[&[&*self.setting()], args].concat())
    }
    /// Loads the snapshot, and is ready when it is loaded.
    fn restore(&self, args: &[&str]) -> Larder {
        let larder = self.start(&[&["--restore"], args].concat());
        wait_until_loaded(&larder);
        larder
    }
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }
}

fn wait_until_loaded(larder: &Larder) {
    wait_until("the snapshot to be loaded", || {
        larder.admin("GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").0 == 200
    });
}

fn terminate(mut larder: Larder) {
    larder.signal(Signal::TERM);
    let (status, _) = larder.wait();
    assert!(status.success(), "{status}: {}", larder.stderr());
}

fn ask(client: &mut Client, words: &str) -> Reply {
    client.command(&words.split(' ').collect::<Vec<_>>())
}

/// A field of INFO.
fn info(client: &mut Client, name: &str) -> String {
    let Reply::Bulk(Some(text)) = ask(client, "INFO persistence") else { panic!("INFO has no text") };
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

/// `larder snapshot …`
fn snapshot(command: &str, file: &Path) -> Output {
    Command::new(binary()).args(["snapshot", command]).arg(file).output().unwrap()
}
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_restart_keeps_values_lifetimes_tags_and_frequencies() {
    let scratch = Scratch::new();
    let larder = scratch.start(&[]);
    let mut client = larder.client();
    let large = "x".repeat(3 << 20);
    for (key, value) in [("plain", "value"), ("hot", "1"), ("empty", ""), ("large", &large)] {
        assert_eq!(client.command(&["SET", key, value]), Reply::ok());
    }
    for words in ["SET short v PX 50", "SET long v EX 3600", "SET tagged v TAG a TAG b", "SET other v TAG b"] {
        assert_eq!(ask(&mut client, words), Reply::ok());
    }
    (0..9).for_each(|_| assert_eq!(ask(&mut client, "GET hot"), Reply::bulk("1")));
    let (end, frequency) = (ask(&mut client, "PEXPIRETIME long").int(), ask(&mut client, "OBJECT FREQ hot").int());
    assert!(end > 0 && frequency > 0);
    terminate(larder);
    assert_eq!(scratch.names(), ["snapshot"]);
    std::thread::sleep(Duration::from_millis(60));

    let larder = scratch.restore(&[]);
    let mut client = larder.client();
    assert_eq!(ask(&mut client, "OBJECT FREQ hot").int(), frequency);
    assert_eq!(ask(&mut client, "PEXPIRETIME long").int(), end);
    assert_eq!(ask(&mut client, "GET plain"), Reply::bulk("value"));
    assert_eq!(ask(&mut client, "GET empty"), Reply::bulk(""));
    assert_eq!(ask(&mut client, "GET large"), Reply::bulk(&large));
    assert_eq!(ask(&mut client, "GET short"), Reply::nil(), "it has expired");
    assert_eq!(ask(&mut client, "TTL plain").int(), -1);
    assert_eq!(info(&mut client, "rdb_last_load_keys_loaded"), "7");
    assert_eq!(ask(&mut client, "LARDER.CLEARTAG a").int(), 1);
    assert_eq!(ask(&mut client, "EXISTS tagged other").int(), 1);
    // Without --restore it begins empty.
    terminate(larder);
    let larder = scratch.start(&[]);
    assert_eq!(ask(&mut larder.client(), "DBSIZE").int(), 0);
}

#[test]
fn copies_of_an_http_source_keep_their_metadata_and_are_not_fetched_again() {
    let (origin, scratch) = (Larder::start(&[]), Scratch::new());
    assert_eq!(ask(&mut origin.client(), "SET key value"), Reply::ok());
    let source = format!("http://127.0.0.1:{}/v1/kv/{{key}}", origin.http);
    let args = ["--source", &source, "--ttl", "1h"];
    let get = |larder: &Larder| {
        let (status, head, body) = larder.http("GET /v1/kv/key HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert_eq!((status, &body[..]), (200, &b"value"[..]), "{head}");
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
        (field("etag: "), field("content-type: "), field("cache-status: ").unwrap())
    };
    let larder = scratch.start(&args);
    let (etag, kind, _) = get(&larder);
    assert!(etag.is_some() && kind.is_some());
    terminate(larder);
    let larder = scratch.restore(&args);
    drop(origin);
    let (etag_after, kind_after, status) = get(&larder);
    assert_eq!((etag_after, kind_after), (etag, kind));
    assert!(status.contains("hit"), "{status}");
}

#[test]
fn save_bgsave_and_lastsave_are_understood() {
    let scratch = Scratch::new();
    let larder = scratch.start(&[]);
    let mut client = larder.client();
    let before = ask(&mut client, "LASTSAVE").int();
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(ask(&mut client, "SET key value"), Reply::ok());
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    assert!(scratch.file.exists() && ask(&mut client, "LASTSAVE").int() >= before);
    assert_eq!((info(&mut client, "rdb_saves"), info(&mut client, "loading")), ("1".into(), "0".into()));
    for (words, answer) in [("BGSAVE", "started"), ("BGSAVE SCHEDULE", "")] {
        wait_until("the save before", || info(&mut client, "rdb_bgsave_in_progress") == "0");
        assert!(matches!(ask(&mut client, words), Reply::Simple(text) if text.contains(answer)), "{words}");
    }
    wait_until("three saves", || info(&mut client, "rdb_saves") == "3");
    assert!(ask(&mut client, "BGSAVE NOW").error().contains("syntax"));
    assert_eq!(ask(&mut client, "MULTI"), Reply::ok());
    assert!(ask(&mut client, "SAVE").error().contains("not allowed"));
    drop(larder);
    let larder = Larder::start(&[]);
    let mut client = larder.client();
    for command in ["SAVE", "BGSAVE"] {
        assert!(ask(&mut client, command).error().contains("set snapshot-file"));
    }
}

#[test]
fn a_redis_source_answers_these_commands_itself() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url()]);
    let mut client = larder.client();
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    assert!(redis.dir().join("dump.rdb").exists());
    assert_eq!(ask(&mut client, "LASTSAVE"), redis.command(&["LASTSAVE"]));
    assert_eq!((redis.calls("save"), redis.calls("lastsave")), (1, 2));
}

#[test]
fn the_admin_route_begins_a_snapshot_and_says_how_far_it_is() {
    let scratch = Scratch::new();
    let larder = scratch.start(&[]);
    let mut client = larder.client();
    assert_eq!(ask(&mut client, "SET key value"), Reply::ok());
    let request = |method: &str, path: &str| {
        let (status, _, body) = larder
            .admin(&format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"));
        (status, serde_json::from_slice::<serde_json::Value>(&body).unwrap())
    };
    let (status, document) = request("GET", "/v1/snapshot");
    assert_eq!(
        (status, &document["saving"], &document["last"], &document["load"]),
        (200, &().into(), &().into(), &().into())
    );
    assert_eq!(document["file"], scratch.file.to_str().unwrap());
    let (status, document) = request("POST", "/v1/snapshot?wait=true");
    assert_eq!((status, &document["last"]["ok"], &document["last"]["entries"]), (200, &true.into(), &1.into()));
    assert_eq!(document["last"]["bytes"], fs::metadata(&scratch.file).unwrap().len());
    assert_eq!(request("POST", "/v1/snapshot").0, 202);
    wait_until("the second snapshot", || info(&mut client, "rdb_saves") == "2");
    assert_eq!(request("POST", "/v1/snapshot?wait=x").0, 400);
    let (status, problem) = {
        let larder = Larder::start(&[]);
        let (status, _, body) =
            larder.admin("POST /v1/snapshot HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        (status, text(&body))
    };
    assert!(status == 409 && problem.contains("snapshot-file"), "{status} {problem}");
}

#[test]
fn an_interval_writes_snapshots_by_itself() {
    let scratch = Scratch::new();
    let larder = scratch.start(&["--snapshot-interval=1s"]);
    let mut client = larder.client();
    wait_until("two snapshots", || info(&mut client, "rdb_saves").parse::<u64>().unwrap() >= 2);
}

const ENTRIES: usize = 40_000;

/// Values that make a save take a while; each says its round.
fn fill(client: &mut Client, round: usize) {
    for first in (0..ENTRIES).step_by(1000) {
        let mut words = vec!["MSET".to_owned()];
        for n in first..first + 1000 {
            words.extend([format!("key:{n}"), format!("{round:09} {:x}", (n * 7919 + round) * 104_729).repeat(20)]);
        }
        assert_eq!(client.command(&words), Reply::ok());
    }
}
/// The rounds that are found.
fn rounds(client: &mut Client) -> Vec<usize> {
    let mut rounds = Vec::new();
    for first in (0..ENTRIES).step_by(1000) {
        let words: Vec<String> =
            std::iter::once("MGET".to_owned()).chain((first..first + 1000).map(|n| format!("key:{n}"))).collect();
        let Reply::Array(Some(values)) = client.command(&words) else { panic!("MGET") };
        for value in values {
            let Reply::Bulk(Some(value)) = value else { panic!("an entry is missing") };
            rounds.push(text(&value[..9]).parse().unwrap());
        }
    }
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

#[test]
fn a_kill_at_any_moment_leaves_the_old_snapshot_or_the_new_one() {
    let scratch = Scratch::new();
    let larder = scratch.start(&[]);
    fill(&mut larder.client(), 0);
    let begun = Instant::now();
    assert_eq!(ask(&mut larder.client(), "SAVE"), Reply::ok());
    let whole = begun.elapsed();
    drop(larder);
    let mut held = 0;
    let (mut old, mut new) = (0, 0);
    for round in 1..=12 {
        let mut larder = scratch.restore(&[]);
        assert_eq!(scratch.names(), ["snapshot"], "what a killed save has left is removed");
        let mut client = larder.client();
        assert_eq!(rounds(&mut client), [held], "the snapshot is whole");
        fill(&mut client, round);
        assert!(matches!(ask(&mut client, "BGSAVE"), Reply::Simple(_)));
        // Also just before and just after its end.
        let share = if round % 3 == 0 { fastrand::f64() * 1.5 } else { 0.7 + fastrand::f64() * 0.6 };
        std::thread::sleep(whole.mul_f64(share));
        larder.signal(Signal::KILL);
        larder.wait();
        let verified = snapshot("verify", &scratch.file);
        assert!(verified.status.success(), "{}", text(&verified.stderr));
        let larder = scratch.restore(&[]);
        let found = rounds(&mut larder.client());
        assert!(found == [held] || found == [round], "{found:?}, not {held} or {round}");
        if found == [round] {
            new += 1
        } else {
            old += 1
        }
        held = found[0];
        drop(larder);
    }
    println!("{old} kills left the old snapshot, {new} the new one; a save takes {whole:?}");
}

#[test]
fn a_save_that_finds_no_room_leaves_the_old_snapshot_and_says_so() {
    let scratch = Scratch::new();
    // What would be written past the limit fails as on a full disk; the signal that comes with it is ignored.
    let script = format!(
        "trap '' XFSZ; ulimit -f 1024; exec {} serve --http off --admin off --redis 127.0.0.1:0 --log-level off {}",
        binary().display(),
        scratch.setting()
    );
    let mut child = Command::new("bash").args(["-c", &script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let port = ready["redis"][0].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    let mut client = Client::connect(port).unwrap();
    assert_eq!(ask(&mut client, "SET key small"), Reply::ok());
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    let small = fs::read(&scratch.file).unwrap();
    fill(&mut client, 1);
    let error = ask(&mut client, "SAVE");
    assert!(error.error().contains("File too large") && error.error().contains("snapshot"), "{error:?}");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    assert_eq!(fs::read(&scratch.file).unwrap(), small);
    assert_eq!(scratch.names(), ["snapshot"]);
    assert_eq!(ask(&mut client, "GET key"), Reply::bulk("small"), "it serves");
    assert_eq!(ask(&mut client, "FLUSHALL"), Reply::ok());
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// How a start with `--restore` ends that must fail.
fn refused(args: &[&str]) -> String {
    let output = Command::new(binary())
        .args(["serve", "--http=127.0.0.1:0", "--redis=off", "--admin=off"])
        .args(args)
        .output()
        .unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "it starts");
    text(&output.stderr)
}

#[test]
fn a_damaged_file_stops_the_start_or_is_loaded_up_to_the_damage() {
    let scratch = Scratch::new();
    let larder = scratch.start(&["--snapshot-compression=none"]);
    fill(&mut larder.client(), 5);
    terminate(larder);
    let whole = fs::read(&scratch.file).unwrap();
    assert!(text(&snapshot("verify", &scratch.file).stdout).contains("40000 entries, sound"));
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&scratch.file, &damaged).unwrap();
    let restore = [&*scratch.setting(), "--restore"];
    let said = refused(&restore);
    assert!(said.contains("block ") && said.contains(" at byte ") && said.contains("checksum"), "{said}");
    assert!(said.contains("--restore-damaged salvage"), "{said}");
    let verified = snapshot("verify", &scratch.file);
    assert!(verified.status.code() == Some(1) && text(&verified.stderr).contains(" at byte "));
    assert_eq!(fs::read(&scratch.file).unwrap(), damaged, "it is left as it is");
    let larder = scratch.restore(&["--restore-damaged=salvage"]);
    let found = ask(&mut larder.client(), "DBSIZE").int();
    assert!((10_000..30_000).contains(&found), "{found} of {ENTRIES}");
    let Reply::Bulk(Some(key)) = ask(&mut larder.client(), "RANDOMKEY") else { panic!("there are keys") };
    let Reply::Bulk(Some(value)) = larder.client().command(&[b"GET", &key[..]]) else { panic!("it has a value") };
    assert!(value.starts_with(b"000000005 "));
    drop(larder);
    fs::write(&scratch.file, b"something else, which is long enough to have been a header").unwrap();
    let said = refused(&[&restore[..], &["--restore-damaged=salvage"]].concat());
    assert!(said.contains("no snapshot"), "{said}");
}

#[test]
fn what_cannot_be_restored_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let file = scratch.setting();
    let redis = "--source=redis://127.0.0.1:1";
    let said = refused(&[&file, "--restore", redis, "--coherence=coherent"]);
    assert!(said.contains("restore: group default cannot be restored") && said.contains("coherence = ttl"), "{said}");
    let said = refused(&[&file, "--source=disk:/tmp/nowhere"]);
    assert!(said.contains("snapshot-file: no group would be in the snapshot"), "{said}");
    assert!(refused(&["--restore"]).contains("restore: has no meaning without snapshot-file"));
    assert!(refused(&["--snapshot-interval=1m"]).contains("snapshot-interval: has no meaning"));
}

#[test]
fn a_redis_source_with_lifetimes_is_restored() {
    let (redis, scratch) = (RedisServer::start(), Scratch::new());
    let url = redis.url();
    let args = ["--source", &*url, "--coherence=ttl", "--ttl=1h"];
    redis.command(&["SET", "key", "value"]);
    let larder = scratch.start(&args);
    assert_eq!(ask(&mut larder.client(), "GET key"), Reply::bulk("value"));
    terminate(larder);
    let gets = redis.calls("get");
    let larder = scratch.restore(&args);
    assert_eq!(ask(&mut larder.client(), "GET key"), Reply::bulk("value"));
    assert_eq!(redis.calls("get"), gets, "it was in memory");
}

#[test]
fn clients_are_served_while_it_loads_and_what_they_do_is_newer() {
    let scratch = Scratch::new();
    let larder = scratch.start(&[]);
    fill(&mut larder.client(), 1);
    terminate(larder);
    let larder = scratch.start(&["--restore"]);
    let mut client = larder.client();
    for n in (0..ENTRIES).step_by(100) {
        client.send(&["DEL", &format!("key:{n}")]).unwrap();
        client.send(&["SET", &format!("key:{}", n + 1), "new", "PX", "1"]).unwrap();
        client.send(&["SET", &format!("key:{}", n + 2), "new"]).unwrap();
    }
    (0..ENTRIES / 100 * 3).for_each(|_| assert!(!matches!(client.read().unwrap(), Reply::Error(_))));
    wait_until_loaded(&larder);
    assert_eq!(info(&mut client, "loading"), "0");
    for n in (0..ENTRIES).step_by(100) {
        assert_eq!(ask(&mut client, &format!("EXISTS key:{n}")).int(), 0, "key:{n} was deleted");
        assert_eq!(ask(&mut client, &format!("GET key:{}", n + 1)), Reply::nil(), "key:{} has expired", n + 1);
        assert_eq!(ask(&mut client, &format!("GET key:{}", n + 2)), Reply::bulk("new"));
    }
    assert_eq!(ask(&mut client, "DBSIZE").int(), (ENTRIES / 100 * 98) as i64);
}

#[test]
fn groups_are_restored_by_name() {
    let scratch = Scratch::new();
    let config = scratch.dir.path().join("larder.toml");
    let with = |groups: &[&str]| {
        let text: Vec<_> = groups.iter().map(|name| format!("[groups.{name}]\nmax-memory = \"16MiB\"\n")).collect();
        fs::write(&config, text.concat()).unwrap();
        format!("--config={}", config.display())
    };
    let put = |larder: &Larder, group: &str| {
        let request = format!(
            "PUT /v1/groups/{group}/kv/key HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\n\r\n{group:5}"
        );
        assert_eq!(larder.http(&request).0, 201);
    };
    let get = |larder: &Larder, group: &str| {
        let request = format!("GET /v1/groups/{group}/kv/key HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let (status, _, body) = larder.http(&request);
        (status, text(&body).trim().to_owned())
    };
    let larder = scratch.start(&[&with(&["one", "two"])]);
    ["one", "two"].iter().for_each(|group| put(&larder, group));
    terminate(larder);
    let info = text(&snapshot("info", &scratch.file).stdout);
    assert!(info.contains("group:       one: 1 entries") && info.contains("group:       default: 0 entries"), "{info}");
    let before = fs::metadata(&scratch.file).unwrap().mtime();
    let mut larder = scratch.restore(&[&with(&["two", "three"])]);
    assert_eq!(get(&larder, "two"), (200, "two".into()));
    assert_eq!(get(&larder, "three").0, 404);
    larder.signal(Signal::KILL);
    larder.wait();
    assert!(larder.stderr().contains("group `one` of the snapshot is not loaded"));
    assert_eq!(fs::metadata(&scratch.file).unwrap().mtime(), before);
}
