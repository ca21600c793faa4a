//! The disk store, snapshots, and the end of their process: SIGKILL at random moments under load,
//! with and without the loss of what was not synced; disks that fail; files that are damaged.

mod layer;
mod snapshots;
mod writers;

use layer::Layer;
use std::{
    io::{BufRead, BufReader},
    ops::Range,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use writers::{Http, Writer};

/// Ends a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process on a store.
struct Server {
    child: Child,
    port: u16,
    admin: u16,
}
impl Server {
    fn start(dir: &Path, args: &[&str], layer: Option<&Layer>) -> Server {
        Server::try_start(dir, args, layer).unwrap_or_else(|errors| panic!("does not start: {errors}"))
    }
    /// Or what it said on standard error.
    fn try_start(dir: &Path, args: &[&str], layer: Option<&Layer>) -> Result<Server, String> {
        let mut command = Command::new(binary());
        let source = format!("disk:{}", dir.display());
        // Nothing is answered from memory, and flushes and compactions take part.
        let always = ["serve", "--http=127.0.0.1:0", "--redis=off", "--admin=127.0.0.1:0", "--ttl=1ms", "--threads=2"];
        command.env_clear().args(always).args(["--max-memory=8MiB", "--store-block-cache=1MiB", "--source", &source]);
        // A deadline that no slow disk meets by accident.
        command.arg("--source-timeout=20s").args(args);
        Server::launch(command, layer)
    }
    /// The same of a command line that is whole.
    fn launch(mut command: Command, layer: Option<&Layer>) -> Result<Server, String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(layer) = layer {
            layer.apply(&mut command);
        }
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let output = child.wait_with_output().unwrap();
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        let port =
            |address: &serde_json::Value| address.as_str().unwrap().parse::<std::net::SocketAddr>().unwrap().port();
        Ok(Server { child, port: port(&ready["http"][0]), admin: port(&ready["admin"]) })
    }
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        let (status, body) = Http::connect(self.port).unwrap().ask(method, path, body).unwrap();
        (status, String::from_utf8_lossy(&body).into_owned())
    }
    /// Writes that the workers made themselves.
    fn in_place(&self) -> usize {
        let metrics = self.ask("GET", "/metrics", b"").1;
        let name = "larder_store_in_place_writes_total{group=\"default\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap()
    }
}
impl Drop for Server {
    fn drop(&mut self) {
        // SIGKILL; already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}
fn binary() -> PathBuf {
    std::env::var_os("LARDER_BIN").map_or_else(|| env!("CARGO_BIN_EXE_larder").into(), PathBuf::from)
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    /// SIGKILL: what it wrote is the operating system's.
    Kill,
    /// As if the power had gone as well.
    PowerCut,
}

/// What a run of kills has seen.
#[derive(Debug, Default)]
struct Seen {
    kills: usize,
    acknowledged: usize,
    missing: usize,
    /// Writes that the workers made themselves.
    in_place: usize,
    /// The longest time before a kill at which something missing had been acknowledged.
    oldest: Duration,
}

/// Kills a store under load so many times; every time, what is there afterwards must be a whole
/// earlier moment of each writer.
fn kill(times: usize, durability: &str, end: End) -> Seen {
    kill_with(8, times, durability, end)
}
fn kill_with(writers: usize, times: usize, durability: &str, end: End) -> Seen {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    std::fs::create_dir(&dir).unwrap();
    let layer = (end == End::PowerCut).then(|| Layer::new(&dir, scratch.path()));
    let mut writers: Vec<Writer> = (0..writers).map(Writer::new).collect();
    let mut seen = Seen::default();
    let mut random = 0x2545_F491_4F6C_DD1D_u64 ^ u64::from(std::process::id());
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..times {
        let mut server = Server::start(&dir, &["--durability", durability], layer.as_ref());
        // Now and then long enough for what was acknowledged at the begin to be older than any interval.
        let time = if round % 20 == 19 { 2500 } else { 20 + next() % 300 };
        let stop = Arc::new(AtomicBool::new(false));
        let killed = std::thread::scope(|scope| {
            for writer in &mut writers {
                let (port, stop) = (server.port, stop.clone());
                scope.spawn(move || writer.write(port, &stop));
            }
            std::thread::sleep(Duration::from_millis(time));
            seen.in_place += server.in_place();
            let killed = Instant::now();
            server.child.kill().unwrap();
            server.child.wait().unwrap();
            stop.store(true, Relaxed);
            killed
        });
        seen.kills += 1;
        seen.acknowledged += writers.iter().map(Writer::acknowledged).sum::<usize>();
        if let Some(layer) = &layer {
            // Nothing, all, or a part that may end in the middle of a write. The first time all, for there to
            // be a loss whatever is drawn.
            layer.cut(|unsynced| match next() % 4 {
                _ if round == 0 => 0,
                0 => unsynced,
                1 => next() % (unsynced + 1),
                _ => 0,
            });
        }
        let server = Server::start(&dir, &[], None);
        for writer in &mut writers {
            let (missing, first) = writer.verify(server.port);
            seen.missing += missing;
            if let Some(first) = first {
                seen.oldest = seen.oldest.max(killed.saturating_duration_since(first));
            }
        }
    }
    println!("{times} kills, durability {durability}, {end:?}: {seen:?}");
    seen
}

/// `LARDER_KILLS` per case (`make check-crash`), else few.
fn kills(few: usize) -> usize {
    std::env::var("LARDER_KILLS").map_or(few, |kills| kills.parse().unwrap())
}

#[test]
fn a_killed_process_loses_nothing_that_it_acknowledged() {
    for durability in ["always", "interval:100ms", "os"] {
        let seen = kill(kills(8), durability, End::Kill);
        assert!(seen.acknowledged > 0 && seen.missing == 0, "{durability}: {seen:?}");
    }
}

/// With one request at a time, workers write themselves, and promise the same.
#[test]
fn what_workers_write_themselves_is_as_durable() {
    for (durability, end) in [("interval:100ms", End::Kill), ("os", End::Kill), ("interval:100ms", End::PowerCut)] {
        let seen = kill_with(1, kills(8), durability, end);
        assert!(seen.in_place > 0 && seen.acknowledged > 0, "{durability}: {seen:?}");
        match end {
            End::Kill => assert_eq!(seen.missing, 0, "{durability}: {seen:?}"),
            End::PowerCut => assert!(seen.oldest < Duration::from_secs(2), "{seen:?}"),
        }
    }
}

#[test]
fn a_power_cut_takes_nothing_that_was_acknowledged_under_always() {
    let seen = kill(kills(10), "always", End::PowerCut);
    assert!(seen.acknowledged > 0 && seen.missing == 0, "{seen:?}");
}

#[test]
fn a_power_cut_takes_only_the_latest_under_interval() {
    let seen = kill(kills(20), "interval:100ms", End::PowerCut);
    // 100 ms, the sync's own time on a busy disk, and the test's.
    assert!(seen.acknowledged > 0 && seen.oldest < Duration::from_secs(2), "{seen:?}");
}

/// And this is how it is seen that the layer takes anything: without syncs, what was acknowledged
/// goes, but nothing is torn.
#[test]
fn a_power_cut_takes_what_was_never_synced() {
    let seen = kill(kills(6), "os", End::PowerCut);
    assert!(seen.missing > 0, "{seen:?}");
}

/// A disk that is full, or fails: what was acknowledged is there, reads go on, and no write is
/// taken until the store is opened again.
#[test]
fn a_disk_that_fails_poisons_the_store() {
    const ENOSPC: i32 = 28;
    const EIO: i32 = 5;
    for (errno, said) in [(ENOSPC, "No space left on device"), (EIO, "Input/output error")] {
        for durability in ["always", "interval:5ms"] {
            let scratch = tempfile::tempdir().unwrap();
            let dir = scratch.path().join("store");
            std::fs::create_dir(&dir).unwrap();
            let layer = Layer::new(&dir, scratch.path());
            {
                let server = Server::start(&dir, &["--durability", durability], Some(&layer));
                for key in 0..50 {
                    assert_eq!(server.ask("PUT", &format!("/v1/kv/k{key}"), b"before").0, 201);
                }
                assert_eq!(server.ask("GET", "/readyz", b"").0, 200);
                layer.fail(Some(errno));
                let (status, text) = server.ask("PUT", "/v1/kv/k0", b"during");
                assert!(status == 503 && text.contains(said), "{status} {text}");
                let place = format!("disk store {} takes no writes until it is restarted", dir.display());
                assert!(text.contains(&place), "{text}");
                layer.fail(None);
                // The disk is well again, but what reached it is not known.
                for (method, path) in [("PUT", "/v1/kv/new"), ("DELETE", "/v1/kv/k1")] {
                    let (status, text) = server.ask(method, path, b"after");
                    assert!(status == 503 && text.contains(said), "{status} {text}");
                }
                for key in 1..50 {
                    assert_eq!(server.ask("GET", &format!("/v1/kv/k{key}"), b""), (200, "before".to_string()));
                }
                let (status, text) = server.ask("GET", "/readyz", b"");
                assert!(status == 200 && text.contains("degraded") && text.contains(&place), "{status} {text}");
                let metrics = server.ask("GET", "/metrics", b"").1;
                assert!(metrics.contains("larder_store_poisoned{group=\"default\"} 1"), "{metrics}");
                assert!(metrics.contains("larder_source_up{group=\"default\"} 0"), "{metrics}");
            }
            let server = Server::start(&dir, &[], None);
            for key in 1..50 {
                assert_eq!(server.ask("GET", &format!("/v1/kv/k{key}"), b""), (200, "before".to_string()));
            }
            assert_eq!(server.ask("GET", "/v1/kv/new", b"").0, 404);
            // That one was never acknowledged: either is right.
            let (_, text) = server.ask("GET", "/v1/kv/k0", b"");
            assert!(["before", "during"].contains(&text.as_str()), "{text}");
            assert_eq!(server.ask("PUT", "/v1/kv/new", b"after").0, 201);
        }
    }
}

/// A failure of fjall's own threads, when they flush, is seen as well.
#[test]
fn a_flush_that_fails_poisons_the_store() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    std::fs::create_dir(&dir).unwrap();
    let layer = Layer::new(&dir, scratch.path());
    let server = Server::start(&dir, &["--durability=os"], Some(&layer));
    let mut http = Http::connect(server.port).unwrap();
    let value = vec![b'v'; 100_000];
    // More than the write buffer holds. Nothing but the flush writes meanwhile.
    for key in 0..12 {
        assert_eq!(http.ask("PUT", &format!("/v1/kv/{key}"), &value).unwrap().0, 201);
    }
    layer.fail(Some(28));
    let begun = Instant::now();
    loop {
        // Any flush that comes now fails, and so does the write that brings it about, or one soon after.
        let (status, _) = http.ask("PUT", "/v1/kv/more", &value).unwrap();
        if status == 503 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE);
    }
    assert_eq!(server.ask("GET", "/v1/kv/3", b"").0, 200);
}

fn larder(args: &[&str]) -> (bool, String) {
    let output = Command::new(binary()).env_clear().args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Ends by itself: the store is closed.
fn stop(mut server: Server) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
}

/// A store with tables, and with entries that are in the journal alone.
fn filled(dir: &Path) {
    let server = Server::start(dir, &[], None);
    let mut http = Http::connect(server.port).unwrap();
    for key in 0..600 {
        let path = format!("/v1/kv/key-{key:04}");
        assert_eq!(http.ask("PUT", &path, &writers::value(1, key)).unwrap().0, 201);
    }
    let value = vec![b'v'; 300_000];
    for key in 0..9 {
        assert_eq!(http.ask("PUT", &format!("/v1/kv/large-{key}"), &value).unwrap().0, 201);
    }
    // The flush comes by itself.
    let begun = Instant::now();
    while layer::files(dir).iter().all(|path| path.parent().is_none_or(|parent| !parent.ends_with("1/tables"))) {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    for key in 600..700 {
        assert_eq!(http.ask("PUT", &format!("/v1/kv/key-{key:04}"), &writers::value(1, key)).unwrap().0, 201);
    }
    stop(server);
}

/// The same, and what `verify` says of it.
fn filled_and_sound(dir: &Path) -> String {
    filled(dir);
    let (whole, text) = larder(&["store", "verify", dir.to_str().unwrap()]);
    assert!(whole && text.contains("no damage"), "{text}");
    text
}

#[test]
fn a_flipped_byte_anywhere_is_detected_and_named() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    let text = filled_and_sound(&dir);
    let at = dir.to_str().unwrap();
    let mut tried = 0;
    for path in layer::files(&dir) {
        let bytes = std::fs::read(&path).unwrap();
        let unused = text.contains(&format!("{}: is not in use", path.display()));
        if bytes.is_empty() || unused || path.ends_with("lock") {
            continue;
        }
        let spread = [0, bytes.len() / 5, bytes.len() / 2, bytes.len() * 4 / 5, bytes.len() - 1];
        for flipped in spread {
            let mut damaged = bytes.clone();
            damaged[flipped] ^= 0x20;
            std::fs::write(&path, &damaged).unwrap();
            let (whole, text) = larder(&["store", "verify", at]);
            // That the mark of a closed store is damaged shows in what it says of the journal.
            let named = text.contains(path.to_str().unwrap()) || path.ends_with("closed");
            assert!(!whole && named, "{}: byte {flipped}: {text}", path.display());
            tried += 1;
        }
        // All but tables are read when the store is opened, and the server says which file it is.
        if path.parent().is_none_or(|parent| !parent.ends_with("tables")) {
            let text = Server::try_start(&dir, &[], None).err().unwrap_or_else(|| panic!("{} is used", path.display()));
            assert!(text.contains(path.to_str().unwrap()) || path.ends_with("closed"), "{text}");
        }
        std::fs::write(&path, &bytes).unwrap();
    }
    assert!(tried >= 40, "{tried}");
}

/// fjall would take the entries for something that was never finished, and delete them.
#[test]
fn a_store_without_one_of_its_files_is_not_opened() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    let text = filled_and_sound(&dir);
    let at = dir.to_str().unwrap();
    for path in layer::files(&dir) {
        let is_needed = path.starts_with(dir.join("db")) && !path.ends_with("lock");
        if !is_needed || text.contains(&format!("{}: is not in use", path.display())) {
            continue;
        }
        let away = scratch.path().join("away");
        std::fs::rename(&path, &away).unwrap();
        // A version file is known by what names it.
        let named = path.parent().unwrap().to_str().unwrap();
        let (whole, text) = larder(&["store", "verify", at]);
        assert!(!whole && text.contains(named), "{}: {text}", path.display());
        let text =
            Server::try_start(&dir, &[], None).err().unwrap_or_else(|| panic!("{} is not needed", path.display()));
        assert!(text.contains(named), "{}: {text}", path.display());
        std::fs::rename(&away, &path).unwrap();
    }
    for folder in ["db/keyspaces/0", "db/keyspaces/1"] {
        std::fs::rename(dir.join(folder), scratch.path().join("away")).unwrap();
        let (whole, text) = larder(&["store", "verify", at]);
        assert!(!whole && text.contains("is missing"), "{folder}: {text}");
        std::fs::rename(scratch.path().join("away"), dir.join(folder)).unwrap();
    }
    let (whole, text) = larder(&["store", "verify", at]);
    assert!(whole, "{text}");
}

/// Where the contents of a table's data blocks are. A block's head is a magic number (4 bytes), the
/// kind (1), a checksum (16), the length (4) and 8 more bytes.
fn data_blocks(table: &[u8]) -> Vec<Range<usize>> {
    let (mut blocks, mut at) = (Vec::new(), 0);
    while let Some(head) = table[at..].first_chunk::<33>().filter(|head| head.starts_with(b"LSM\x03\0")) {
        let begin = at + head.len();
        at = begin + u32::from_le_bytes(head[21..25].try_into().unwrap()) as usize;
        blocks.push(begin..at);
    }
    blocks
}

/// What a damaged table holds is answered with an error, never with something else; the rest of the
/// store serves on.
#[test]
fn a_damaged_table_is_never_read_wrong() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("store");
    filled(&dir);
    let (mut right, mut refused) = (0, 0);
    let tables =
        layer::files(&dir).into_iter().filter(|path| path.parent().is_some_and(|dir| dir.ends_with("1/tables")));
    for path in tables.collect::<Vec<_>>() {
        let mut bytes = std::fs::read(&path).unwrap();
        let mut blocks = data_blocks(&bytes);
        blocks.retain(|block| bytes[block.clone()].windows(5).any(|text| text == b"key-0"));
        // One in the middle: a start may look at a table's first and last block.
        if let [_, middle @ .., _] = &blocks[..]
            && let Some(block) = middle.get(middle.len() / 2)
        {
            bytes[block.end - 1] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
        }
    }
    let server = Server::start(&dir, &[], None);
    let mut http = Http::connect(server.port).unwrap();
    for key in 0..700 {
        let (status, body) = http.ask("GET", &format!("/v1/kv/key-{key:04}"), b"").unwrap();
        let text = String::from_utf8_lossy(&body);
        match status {
            200 => {
                assert_eq!(body, writers::value(1, key));
                right += 1;
            }
            _ => {
                assert!(status == 503 && text.contains("a block is damaged (checksum)"), "{status} {text}");
                refused += 1;
            }
        }
    }
    assert!(right > 100 && refused > 0, "{right} {refused}");
}

#[test]
fn a_backup_restores_to_the_same_and_damage_in_it_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_string();
    let (dir, file, copy) = (path("store"), path("backup"), path("copy"));
    filled(Path::new(&dir));
    let (done, text) = larder(&["store", "backup", &dir, &file]);
    assert!(done && text.starts_with("709 entries, "), "{text}");
    let (done, text) = larder(&["store", "backup", &dir, &file]);
    assert!(!done && text.contains("is there already"), "{text}");
    let (done, text) = larder(&["store", "restore", &file, &dir]);
    assert!(!done && text.contains("is not empty"), "{text}");

    let bytes = std::fs::read(&file).unwrap();
    for flipped in [3, 15, 20, 27, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[flipped] ^= 1;
        std::fs::write(path("damaged"), damaged).unwrap();
        let (done, text) = larder(&["store", "restore", &path("damaged"), &copy]);
        assert!(!done && text.contains(&format!("{}: byte ", path("damaged"))), "{flipped}: {text}");
    }
    std::fs::write(path("damaged"), &bytes[..bytes.len() - 30]).unwrap();
    let (done, text) = larder(&["store", "restore", &path("damaged"), &copy]);
    let cut = bytes.len() - 30;
    assert!(!done && text.contains(&format!("byte {cut}: the file ends here: it is not whole")), "{text}");
    std::fs::write(path("damaged"), [&bytes[..], b"!"].concat()).unwrap();
    let (done, text) = larder(&["store", "restore", &path("damaged"), &copy]);
    assert!(!done && text.contains("there is more behind the end"), "{text}");
    assert!(!Path::new(&path("copy.restoring")).exists(), "nothing is left over");
    assert!(!Path::new(&copy).exists(), "there is a whole store or none");

    // As a shell completes a directory's name.
    std::fs::create_dir(&copy).unwrap();
    let (done, text) = larder(&["store", "restore", &file, &format!("{copy}/")]);
    assert!(done && text.starts_with("709 entries, "), "{text}");
    let (done, text) = larder(&["store", "compact", &copy]);
    assert!(done && text.contains(" before, "), "{text}");
    let (done, text) = larder(&["store", "stats", &copy]);
    assert!(done && text.contains("entries      709\n"), "{text}");
    // The other compression, which a store that is there does not take on.
    let plain = path("plain");
    let (done, text) = larder(&["store", "restore", &file, &plain, "--compression", "none"]);
    assert!(done && larder(&["store", "compact", &plain]).0, "{text}");
    let size = |dir: &str| -> u64 {
        let files = layer::files(Path::new(dir)).into_iter().filter(|file| file.parent().unwrap().ends_with("tables"));
        files.map(|file| file.metadata().unwrap().len()).sum()
    };
    assert!(size(&copy) < 1 << 20 && size(&plain) > 9 * 300_000, "{} {}", size(&copy), size(&plain));
    let server = Server::start(Path::new(&copy), &[], None);
    for key in [0, 300, 699] {
        let (_, text) = server.ask("GET", &format!("/v1/kv/key-{key:04}"), b"");
        assert_eq!(text.as_bytes(), writers::value(1, key));
    }
    let (done, text) = larder(&["store", "verify", &copy]);
    assert!(!done && text.contains("is in use by another process"), "{text}");
}

/// While writers go on: each writer's keys in the backup are as they were together at some one
/// moment.
#[test]
fn a_backup_of_a_running_server_is_of_one_moment() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, data, copy) = (scratch.path().join("store"), scratch.path().join("data"), scratch.path().join("copy"));
    let server = Server::start(&dir, &["--durability=os", "--data-dir", data.to_str().unwrap()], None);
    let mut writers: Vec<Writer> = (0..4).map(Writer::new).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let ask = |path: &str| Http::connect(server.admin).unwrap().ask("POST", path, b"").unwrap();
    std::thread::scope(|scope| {
        for writer in &mut writers {
            let (port, stop) = (server.port, stop.clone());
            scope.spawn(move || writer.write(port, &stop));
        }
        // There is something to save.
        let begun = Instant::now();
        while server.ask("GET", "/v1/keys?count=100", b"").1.matches("\"w").count() < 20 {
            assert!(begun.elapsed() < PATIENCE);
        }
        let (status, body) = ask("/v1/store/backup?name=first.larder");
        stop.store(true, Relaxed);
        let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(status == 200 && told["entries"].as_u64() > Some(0), "{status} {told}");
    });
    for (path, expected) in [
        ("/v1/store/backup?name=first.larder", 409),
        ("/v1/store/backup?name=../x", 400),
        ("/v1/store/backup?name=.x", 400),
        ("/v1/store/backup", 400),
        ("/v1/store/backup?name=x&group=none", 404),
        ("/v1/store/backup?name=x&wait=perhaps", 400),
    ] {
        let (status, body) = ask(path);
        assert_eq!(status, expected, "{path}: {}", String::from_utf8_lossy(&body));
    }
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 1);
    let away = scratch.path().join("away");
    std::fs::rename(&data, &away).unwrap();
    std::fs::write(&data, "no directory").unwrap();
    let (status, body) = ask("/v1/store/backup?name=second.larder");
    let text = String::from_utf8_lossy(&body);
    assert!(status == 500 && text.contains("`data-dir`") && text.contains(data.to_str().unwrap()), "{status} {text}");
    std::fs::remove_file(&data).unwrap();
    std::fs::rename(&away, &data).unwrap();
    let (done, text) =
        larder(&["store", "restore", data.join("first.larder").to_str().unwrap(), copy.to_str().unwrap()]);
    assert!(done, "{text}");
    let server = Server::start(&copy, &[], None);
    let (mut taken, mut later) = (0, 0);
    for writer in &mut writers {
        taken += writer.acknowledged();
        later += writer.verify(server.port).0;
    }
    assert!(later < taken, "{later} of {taken} writes came after the backup");
}

/// A store of 64 MB, so that a backup takes a while.
fn filled_with_much(dir: &Path) {
    let server = Server::start(dir, &["--durability=os"], None);
    let mut http = Http::connect(server.port).unwrap();
    for key in 0..64 {
        assert_eq!(http.ask("PUT", &format!("/v1/kv/{key}"), &vec![key; 1_000_000]).unwrap().0, 201);
    }
    stop(server);
}
fn names(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_backup_is_a_job_with_progress() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_string();
    filled_with_much(Path::new(&path("store")));
    let server = Server::start(Path::new(&path("store")), &["--data-dir", &path("data")], None);
    let ask = |method: &str, query: &str| {
        let path = format!("/v1/store/backup{query}");
        let (status, body) = Http::connect(server.admin).unwrap().ask(method, &path, b"").unwrap();
        let document: serde_json::Value = serde_json::from_slice(&body).unwrap();
        (status, document)
    };
    assert_eq!(ask("GET", ""), (200, serde_json::json!({ "backups": [] })));
    let ended = || {
        let begun = Instant::now();
        loop {
            let (status, document) = ask("GET", "?group=default");
            assert!(status == 200 && begun.elapsed() < PATIENCE, "{status} {document}");
            let newest = document["backups"][0].clone();
            if newest["state"] != "running" {
                return newest;
            }
            assert!(newest["entries"].as_u64() <= newest["of_entries"].as_u64(), "{newest}");
        }
    };
    let (status, begun) = ask("POST", "?name=copy&wait=false");
    assert_eq!((status, &begun["backups"][0]["file"]), (202, &path("data/copy").into()), "{begun}");
    let done = ended();
    let bytes = std::fs::metadata(path("data/copy")).unwrap().len();
    assert_eq!((&done["state"], &done["entries"]), (&"done".into(), &64.into()), "{done}");
    assert_eq!((done["bytes"].as_u64(), &done["left_ms"]), (Some(bytes), &serde_json::Value::Null), "{done}");
    // The same name again is an error of the backup, because the answer does not wait for it.
    assert_eq!(ask("POST", "?name=copy&wait=false").0, 202);
    let failed = ended();
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(failed["error"].as_str().unwrap().contains("is there already"), "{failed}");
    // One that is waited for is on the list as well.
    assert_eq!(ask("POST", "?name=second").0, 200);
    let (_, all) = ask("GET", "");
    let states: Vec<_> = all["backups"].as_array().unwrap().iter().map(|backup| &backup["state"]).collect();
    assert_eq!(states, ["done", "failed", "done"], "{all}");
    assert_eq!(ask("GET", "?group=none").0, 404);
    let (done, text) = larder(&["store", "restore", &path("data/copy"), &path("copy")]);
    assert!(done && text.starts_with("64 entries, "), "{text}");
}

#[test]
fn of_several_backups_of_a_name_at_once_there_is_one() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_string();
    filled_with_much(Path::new(&path("store")));
    let server = Server::start(Path::new(&path("store")), &["--data-dir", &path("data")], None);
    let ask = || Http::connect(server.admin).unwrap().ask("POST", "/v1/store/backup?name=copy", b"").unwrap();
    let mut answers: Vec<(u16, Vec<u8>)> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    answers.sort();
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 409, 409, 409], "{}", String::from_utf8_lossy(&answers[3].1));
    assert_eq!(names(Path::new(&path("data"))), ["copy"]);
    let (done, text) = larder(&["store", "restore", &path("data/copy"), &path("copy")]);
    assert!(done && text.starts_with("64 entries, "), "{text}");
}

#[test]
fn a_backup_that_the_end_cuts_off_is_not_taken_for_a_whole_one() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).to_str().unwrap().to_string();
    let (store, data) = (path("store"), path("data"));
    filled_with_much(Path::new(&store));
    // With the first the process does not even take away what it has begun.
    for (grace, is_cut) in [("0s", true), ("20ms", true), ("60s", false)] {
        // It may be whole when the signal comes.
        let is_seen = (0..20).any(|_| {
            let _ = std::fs::remove_dir_all(&data);
            std::fs::create_dir(&data).unwrap();
            let server = Server::start(Path::new(&store), &["--data-dir", &data, "--grace", grace], None);
            let mut http = Http::connect(server.admin).unwrap();
            let asked = std::thread::spawn(move || http.ask("POST", "/v1/store/backup?name=copy", b""));
            let begun = Instant::now();
            while names(Path::new(&data)).is_empty() {
                assert!(begun.elapsed() < PATIENCE);
            }
            stop(server);
            assert!(begun.elapsed() < PATIENCE, "it ends with exit code 0, and within the grace time");
            let answered = asked.join().unwrap().is_ok_and(|(status, _)| status == 200);
            let left = names(Path::new(&data));
            for name in &left {
                let (done, text) = larder(&["store", "restore", &format!("{data}/{name}"), &path("copy")]);
                assert!(done == (name == "copy") && (done || text.contains("is not whole")), "{name}: {text}");
                let _ = std::fs::remove_dir_all(path("copy"));
            }
            let is_there = left.iter().any(|name| name == "copy");
            assert!(is_there || !answered);
            is_there != is_cut
        });
        assert!(is_seen, "{grace}");
        let (whole, text) = larder(&["store", "verify", &store]);
        assert!(whole && text.contains("no damage"), "{text}");
        let (done, text) = larder(&["store", "stats", &store]);
        assert!(done && text.contains("entries      64\n"), "{text}");
    }
}
