//! Kills, full disks, damaged files.
use super::*;

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

/// Killed when dropped.
struct Started(std::process::Child);
impl Drop for Started {
    fn drop(&mut self) {
        // Already dead is as good.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// Starts a Larder by a script of bash, in which `$0` is the program and the rest its arguments.
fn start_by(script: &str, scratch: &Scratch) -> (Started, Client) {
    let mut child = Command::new("bash")
        .args(["-c", script])
        .arg(binary())
        .args(["serve", "--http=off", "--admin=off", "--redis=127.0.0.1:0", "--log-level=off", &scratch.setting()])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let port = ready["redis"][0].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    (Started(child), Client::connect(port).unwrap())
}

/// Memory that belongs to no file, bytes.
fn anonymous(of: &Started) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", of.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

#[test]
fn a_full_disk_costs_neither_the_old_snapshot_nor_memory() {
    // A container may forbid namespaces to its users.
    let allowed = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).status();
    if !allowed.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no user namespaces here");
        return;
    }
    let scratch = Scratch::new();
    let folder = scratch.dir.path().display();
    let script = format!(
        "exec unshare --user --map-root-user --mount sh -c 'mount -t tmpfs -o size=512k none {folder} && exec \"$0\" \"$@\"' \"$0\" \"$@\""
    );
    let (child, mut client) = start_by(&script, &scratch);
    // As the process sees its disk.
    let seen = PathBuf::from(format!("/proc/{}/root{}", child.0.id(), scratch.file.display()));
    let names = || -> Vec<String> {
        let entries = fs::read_dir(seen.parent().unwrap()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    assert_eq!(ask(&mut client, "SET key small"), Reply::ok());
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    let small = fs::read(&seen).unwrap();
    fill(&mut client, 1);
    let mut after = Vec::new();
    for _ in 0..6 {
        let error = ask(&mut client, "SAVE");
        let place = scratch.file.display().to_string();
        assert!(error.error().contains("No space left on device") && error.error().contains(&place), "{error:?}");
        assert_eq!((fs::read(&seen).unwrap(), names()), (small.clone(), vec!["snapshot".to_owned()]));
        after.push(anonymous(&child));
    }
    assert!(after[5] < after[0] + (2 << 20), "memory after each attempt: {after:?}");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    serves_and_saves_again(&mut client);
}

#[test]
fn a_process_that_cannot_write_its_last_snapshot_ends_with_an_error() {
    let scratch = Scratch::new();
    let mut larder = scratch.start(&[]);
    assert_eq!(ask(&mut larder.client(), "SET key value"), Reply::ok());
    // No file can be made in a folder that is gone.
    fs::remove_dir_all(scratch.dir.path()).unwrap();
    larder.signal(Signal::TERM);
    assert_eq!(larder.wait().0.code(), Some(1));
    let errors = larder.stderr();
    assert!(errors.contains("the snapshot at the end was not written: "), "{errors}");
}

/// After a SAVE that found no room; smaller data has room.
fn serves_and_saves_again(client: &mut Client) {
    assert_eq!(ask(client, "GET key"), Reply::bulk("small"), "it serves");
    assert_eq!(ask(client, "FLUSHALL"), Reply::ok());
    assert_eq!(ask(client, "SAVE"), Reply::ok());
    assert_eq!(info(client, "rdb_last_bgsave_status"), "ok");
}

#[test]
fn a_save_that_finds_no_room_leaves_the_old_snapshot_and_says_so() {
    let scratch = Scratch::new();
    // What would be written past the limit fails as on a full disk; the signal that comes with it is
    // ignored.
    let (_child, mut client) = start_by("trap '' XFSZ; ulimit -f 1024; exec \"$0\" \"$@\"", &scratch);
    assert_eq!(ask(&mut client, "SET key small"), Reply::ok());
    assert_eq!(ask(&mut client, "SAVE"), Reply::ok());
    let small = fs::read(&scratch.file).unwrap();
    fill(&mut client, 1);
    let error = ask(&mut client, "SAVE");
    assert!(error.error().contains("File too large") && error.error().contains("snapshot"), "{error:?}");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "err");
    assert_eq!(fs::read(&scratch.file).unwrap(), small);
    assert_eq!(scratch.names(), ["snapshot"]);
    serves_and_saves_again(&mut client);
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
    assert!(said.contains("--restore salvage"), "{said}");
    let verified = snapshot("verify", &scratch.file);
    assert!(verified.status.code() == Some(1) && text(&verified.stderr).contains(" at byte "));
    assert_eq!(fs::read(&scratch.file).unwrap(), damaged, "it is left as it is");
    let larder = scratch.restore(&["--restore=salvage"]);
    let found = ask(&mut larder.client(), "DBSIZE").int();
    assert!((10_000..30_000).contains(&found), "{found} of {ENTRIES}");
    let Reply::Bulk(Some(key)) = ask(&mut larder.client(), "RANDOMKEY") else { panic!("there are keys") };
    let Reply::Bulk(Some(value)) = larder.client().command(&[b"GET", &key[..]]) else { panic!("it has a value") };
    assert!(value.starts_with(b"000000005 "));
    drop(larder);
    fs::write(&scratch.file, b"something else, which is long enough to have been a header").unwrap();
    let said = refused(&[&restore[..], &["--restore=salvage"]].concat());
    assert!(said.contains("is not a snapshot"), "{said}");
}
