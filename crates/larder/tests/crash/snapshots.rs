//! Snapshots under the layer: a power cut that takes what was not synced, and disks that fail.
use super::{Http, Layer, Server, binary, kills};
use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

const KEYS: usize = 1000;
/// Long enough for a kill to find the file half written.
const LEN: usize = 15_000;

/// A server whose memory tier is kept in `snapshot` of the directory.
fn start(dir: &Path, layer: Option<&Layer>) -> Server {
    let mut command = Command::new(binary());
    let file = format!("--snapshot-file={}", dir.join("snapshot").display());
    let always = ["serve", "--http=127.0.0.1:0", "--redis=off", "--admin=127.0.0.1:0", "--max-memory=64MiB"];
    command.env_clear().args(always).args(["--snapshot-compression=none", "--restore", &file]);
    let server = Server::launch(command, layer).unwrap_or_else(|errors| panic!("does not start: {errors}"));
    let mut admin = Http::connect(server.admin).unwrap();
    while admin.ask("GET", "/readyz", b"").unwrap().0 != 200 {}
    server
}

/// Every key gets a value of this round.
fn fill(server: &Server, round: usize) {
    let mut http = Http::connect(server.port).unwrap();
    for key in 0..KEYS {
        let value = format!("{round:06} {}", "v".repeat(LEN));
        assert!(http.ask("PUT", &format!("/v1/kv/{key}"), value.as_bytes()).unwrap().0 < 300);
    }
}

/// The round that all keys are of.
fn round_of(server: &Server) -> usize {
    let mut http = Http::connect(server.port).unwrap();
    let mut rounds: Vec<usize> = (0..KEYS)
        .map(|key| {
            let (status, value) = http.ask("GET", &format!("/v1/kv/{key}"), b"").unwrap();
            assert_eq!((status, value.len()), (200, 7 + LEN), "key {key}");
            String::from_utf8_lossy(&value[..6]).parse().unwrap()
        })
        .collect();
    rounds.dedup();
    assert_eq!(rounds.len(), 1, "{rounds:?}");
    rounds[0]
}

#[test]
fn a_power_cut_leaves_the_old_snapshot_or_the_new_one() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("data");
    std::fs::create_dir(&dir).unwrap();
    let layer = Layer::new(&dir, scratch.path());
    let server = start(&dir, None);
    fill(&server, 0);
    let begun = Instant::now();
    assert_eq!(Http::connect(server.admin).unwrap().ask("POST", "/v1/snapshot?wait=true", b"").unwrap().0, 200);
    let whole = begun.elapsed().max(Duration::from_millis(2));
    drop(server);
    let (mut held, mut old, mut gone) = (0, 0, 0);
    for round in 1..=kills(12) {
        let mut server = start(&dir, Some(&layer));
        fill(&server, round);
        let mut admin = Http::connect(server.admin).unwrap();
        // Every third one is waited for: then it must be the new one.
        let waits = round % 3 == 0;
        let path = if waits { "/v1/snapshot?wait=true" } else { "/v1/snapshot" };
        assert!(admin.ask("POST", path, b"").unwrap().0 < 300);
        if !waits {
            std::thread::sleep(whole.mul_f64(fastrand::f64()));
        }
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        gone += layer.cut(|unsynced| match fastrand::u8(..3) {
            0 => unsynced,
            1 => fastrand::u64(..=unsynced),
            _ => 0,
        });
        drop(server);
        let server = start(&dir, None);
        let found = round_of(&server);
        assert!(found == round || !waits && found == held, "{found}, not {round} or {held}");
        old += usize::from(found == held);
        held = found;
    }
    println!("{old} power cuts of {} left the old snapshot; {gone} bytes were lost", kills(12));
}

#[test]
fn a_disk_that_fails_leaves_the_old_snapshot() {
    const ENOSPC: i32 = 28;
    const EIO: i32 = 5;
    for (errno, said) in [(ENOSPC, "No space left on device"), (EIO, "Input/output error")] {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("data");
        std::fs::create_dir(&dir).unwrap();
        let layer = Layer::new(&dir, scratch.path());
        let server = start(&dir, Some(&layer));
        let mut admin = Http::connect(server.admin).unwrap();
        let mut save = || {
            let (status, body) = admin.ask("POST", "/v1/snapshot?wait=true", b"").unwrap();
            (status, String::from_utf8_lossy(&body).into_owned())
        };
        fill(&server, 1);
        assert_eq!(save().0, 200);
        fill(&server, 2);
        layer.fail(Some(errno));
        let (status, body) = save();
        assert!(status == 409 && body.contains(said), "{status} {body}");
        assert_eq!(round_of(&server), 2, "it serves");
        layer.fail(None);
        drop(server);
        let server = start(&dir, None);
        assert_eq!(round_of(&server), 1);
    }
}
