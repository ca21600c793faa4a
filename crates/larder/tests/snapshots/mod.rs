//! Snapshots from outside: restarts, commands, kills, full disks, damaged files. What the file is,
//! and damage of every kind, are tested beside its code.

use crate::{common, larder};

mod bucket;
mod commands;
mod convert;
mod faults;
mod lying_bucket;
mod restarts;
mod verification;

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
