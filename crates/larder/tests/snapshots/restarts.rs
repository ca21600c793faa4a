//! What a restart keeps, and what cannot be restored.
use super::*;

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
fn what_cannot_be_restored_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let file = scratch.setting();
    let redis = "--source=redis://127.0.0.1:1";
    let said = refused(&[&file, redis, "--coherence=off"]);
    assert!(said.contains("snapshot-file: no group would be in the snapshot"), "{said}");
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

#[test]
fn a_snapshot_that_was_not_loaded_is_kept() {
    let scratch = Scratch::new();
    let old = scratch.dir.path().join("snapshot.old");
    let larder = scratch.start(&[]);
    assert_eq!(ask(&mut larder.client(), "SET key first"), Reply::ok());
    terminate(larder);
    assert_eq!(scratch.names(), ["snapshot"]);
    let first = fs::read(&scratch.file).unwrap();
    let mut larder = scratch.start(&[]);
    assert_eq!(ask(&mut larder.client(), "SET key second"), Reply::ok());
    assert_eq!(ask(&mut larder.client(), "SAVE"), Reply::ok());
    assert!(fs::read(&old).unwrap() == first);
    larder.signal(Signal::TERM);
    larder.wait();
    let said = larder.stderr();
    assert!(said.contains("is not loaded, as restore is off") && said.contains("snapshot.old"), "{said}");
    assert!(fs::read(&old).unwrap() == first, "the save at the end replaces the process's own");
    // What is loaded as a whole is not kept twice.
    let larder = scratch.restore(&[]);
    assert_eq!(ask(&mut larder.client(), "GET key"), Reply::bulk("second"));
    terminate(larder);
    assert!(fs::read(&old).unwrap() == first);
    let setting = format!("--snapshot-file={}", old.display());
    let larder = Larder::start(&[&setting, "--restore"]);
    wait_until_loaded(&larder);
    assert_eq!(ask(&mut larder.client(), "GET key"), Reply::bulk("first"), "it can be restored");
}

/// Starts that neither load nor write anything do not cost the last copy of the data.
#[test]
fn the_old_snapshot_is_kept_until_there_is_a_newer_one_with_entries() {
    let scratch = Scratch::new();
    let old = scratch.dir.path().join("snapshot.old");
    let larder = scratch.start(&[]);
    assert_eq!(ask(&mut larder.client(), "SET key first"), Reply::ok());
    terminate(larder);
    let first = fs::read(&scratch.file).unwrap();
    for start in 0..3 {
        let larder = scratch.start(&[]);
        (0..2).for_each(|_| assert_eq!(ask(&mut larder.client(), "SAVE"), Reply::ok()));
        terminate(larder);
        assert!(fs::read(&old).unwrap() == first, "start {start}");
    }
    // A process that has not loaded the empty one has entries of its own.
    let larder = scratch.start(&[]);
    assert_eq!(ask(&mut larder.client(), "SET key second"), Reply::ok());
    (0..2).for_each(|_| assert_eq!(ask(&mut larder.client(), "SAVE"), Reply::ok()));
    terminate(larder);
    assert!(fs::read(&old).unwrap() == first, "its own saves replace its own file");
    let second = fs::read(&scratch.file).unwrap();
    terminate(scratch.start(&[]));
    assert!(fs::read(&old).unwrap() == second, "a newer one with entries");
}

#[test]
fn a_group_that_is_gone_and_what_lies_behind_a_damage_are_kept() {
    let scratch = Scratch::new();
    let old = scratch.dir.path().join("snapshot.old");
    let larder = scratch.start(&["--snapshot-compression=none"]);
    fill(&mut larder.client(), 1);
    terminate(larder);
    let mut damaged = fs::read(&scratch.file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&scratch.file, &damaged).unwrap();
    terminate(scratch.restore(&["--restore=salvage"]));
    assert!(fs::read(&old).unwrap() == damaged);

    let config = scratch.dir.path().join("larder.toml");
    fs::write(&config, "[groups.one]\nmax-memory = \"16MiB\"\n").unwrap();
    let larder = scratch.restore(&[&format!("--config={}", config.display())]);
    let put = "PUT /v1/groups/one/kv/key HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n\r\nv";
    assert_eq!(larder.http(put).0, 201);
    assert_eq!(ask(&mut larder.client(), "SAVE"), Reply::ok());
    assert!(fs::read(&old).unwrap() == damaged, "all of it was loaded");
    let with_one = fs::read(&scratch.file).unwrap();
    drop(larder);
    let larder = scratch.restore(&[]);
    assert_eq!(ask(&mut larder.client(), "GET key"), Reply::nil(), "no other group has its entries");
    terminate(larder);
    assert!(fs::read(&old).unwrap() == with_one, "group one is not there any more");
}
