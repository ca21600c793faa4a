//! The machine's clock is set while Larder runs: libfaketime moves the wall clock of one process, and
//! leaves the clock that is never set alone.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
};
use rustix::process::Signal;
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// Where Debian has it (package `faketime`).
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
const HOUR: i64 = 3600;

/// A clock that tests set.
struct Clock {
    dir: TempDir,
}
impl Clock {
    fn new() -> Clock {
        let clock = Clock { dir: tempfile::tempdir().unwrap() };
        clock.set(0);
        clock
    }
    fn file(&self) -> PathBuf {
        self.dir.path().join("clock")
    }
    /// Sets it to so many seconds beside the machine's.
    fn set(&self, seconds: i64) {
        let new = self.dir.path().join("new");
        fs::write(&new, format!("{seconds:+}\n")).unwrap();
        // As a whole, because Larder may read it at any time.
        fs::rename(new, self.file()).unwrap();
    }
    fn larder(&self, args: &[&str]) -> Larder {
        let library = std::env::var("FAKETIME_LIBRARY").unwrap_or_else(|_| LIBRARY.to_owned());
        assert!(std::path::Path::new(&library).exists(), "{library} is missing. Type: make tools");
        let file = self.file();
        let env = [
            ("LD_PRELOAD", &*library),
            ("FAKETIME_TIMESTAMP_FILE", file.to_str().unwrap()),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        Larder::with_env(&env, args)
    }
}

/// The seconds of TIME.
fn time(client: &mut Client) -> i64 {
    let Reply::Array(Some(parts)) = client.command(&["TIME"]) else { panic!("no time") };
    let Reply::Bulk(Some(seconds)) = &parts[0] else { panic!("no seconds") };
    String::from_utf8(seconds.clone()).unwrap().parse().unwrap()
}
fn ttl(client: &mut Client, key: &str) -> i64 {
    client.command(&["TTL", key]).int()
}
/// Larder has noticed how the clock was set: a moment of the wall clock is understood.
fn wait_noticed(client: &mut Client) {
    wait_until("the step to be noticed", || {
        let at = (time(client) + 1000).to_string();
        client.command(&["SET", "probe", "v", "EXAT", &at]);
        (990..=1000).contains(&ttl(client, "probe"))
    });
}

#[test]
fn a_copy_lives_as_long_as_its_lifetime_however_the_clock_is_set() {
    for step in [-HOUR, HOUR] {
        let (clock, redis) = (Clock::new(), RedisServer::start());
        let args = ["--source", &redis.url(), "--coherence", "ttl", "--ttl", "3s"];
        let larder = clock.larder(&args);
        let mut client = larder.client();
        redis.command(&["SET", "k", "old"]);
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("old"));
        clock.set(step);
        redis.command(&["SET", "k", "new"]);
        wait_until("the copy to end", || client.command(&["GET", "k"]) == Reply::bulk("new"));
    }
}

#[test]
fn entries_keep_their_lifetimes_and_moments_are_those_of_the_clock() {
    for step in [-HOUR, HOUR] {
        let clock = Clock::new();
        let snapshot = format!("--snapshot-file={}", clock.dir.path().join("snapshot").display());
        let mut larder = clock.larder(&[&snapshot]);
        let mut client = larder.client();
        for (key, lifetime) in [("short", "2"), ("long", "600")] {
            assert_eq!(client.command(&["SET", key, "v", "EX", lifetime]), Reply::ok());
        }
        clock.set(step);
        assert_eq!(client.command(&["GET", "long"]), Reply::bulk("v"), "{step}");
        assert!((500..=600).contains(&ttl(&mut client, "long")), "{step}");
        wait_until("the entry to end", || client.command(&["GET", "short"]) == Reply::nil());
        wait_noticed(&mut client);
        let now = time(&mut client);
        let ends = client.command(&["EXPIRETIME", "long"]).int() - now;
        assert!((500..=600).contains(&ends), "{step}: {ends}");
        for (command, unit) in [("EXPIREAT", 1), ("PEXPIREAT", 1000)] {
            let at = (now + 300) * unit;
            assert_eq!(client.command(&[command, "long", &at.to_string()]), Reply::Int(1));
            assert_eq!(client.command(&[&command.replace("AT", "TIME"), "long"]), Reply::Int(at), "{step}");
            assert!((200..=300).contains(&ttl(&mut client, "long")), "{step}: {command}");
        }
        assert_eq!(client.command(&["EXPIREAT", "probe", &(now - 1).to_string()]), Reply::Int(1));
        assert_eq!(client.command(&["GET", "probe"]), Reply::nil(), "{step}: it has passed");
        // The file has moments of the wall clock: the next process starts with that clock.
        larder.signal(Signal::TERM);
        larder.wait();
        let larder = clock.larder(&[&snapshot, "--restore"]);
        let mut client = larder.client();
        wait_until("the entry to be restored", || client.command(&["GET", "long"]) == Reply::bulk("v"));
        assert!((200..=300).contains(&ttl(&mut client, "long")), "{step}");
    }
}

#[test]
fn entries_of_a_disk_store_end_by_the_clock() {
    for (step, left) in [(-HOUR, 600 + HOUR), (HOUR, -2)] {
        let clock = Clock::new();
        let source = format!("--source=disk:{}", clock.dir.path().join("store").display());
        let larder = clock.larder(&[&source]);
        let mut client = larder.client();
        assert_eq!(client.command(&["SET", "k", "v", "EX", "600"]), Reply::ok());
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
        clock.set(step);
        wait_noticed(&mut client);
        let value = if left < 0 { Reply::nil() } else { Reply::bulk("v") };
        wait_until("the entry to be read again", || client.command(&["GET", "k"]) == value);
        let ttl = ttl(&mut client, "k");
        assert!((left - 60..=left).contains(&ttl) || ttl == left, "{step}: {ttl}");
    }
}
