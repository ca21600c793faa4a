//! How snapshots are asked for, and what is said of them.
use super::*;

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

#[test]
fn save_points_are_those_of_redis() {
    let scratch = Scratch::new();
    let larder = scratch.start(&["--snapshot-interval=1h,1m:1000"]);
    let mut client = larder.client();
    let redis = RedisServer::start();
    let mut direct = redis.client();
    let shown = |client: &mut Client| client.command(&["CONFIG", "GET", "save"]);
    assert_eq!(shown(&mut client), Reply::Array(Some(vec![Reply::bulk("save"), Reply::bulk("3600 0 60 1000")])));
    for points in ["3600 1 300 100", "60", "", "0 1", "60 -1", "a b", "60\t1", " 60 1", "60  1", "60 1000 1", "1 0"] {
        let set = ["CONFIG", "SET", "save", points];
        assert_eq!(client.command(&set), direct.command(&set), "{points}");
        assert_eq!(shown(&mut client), shown(&mut direct), "{points}");
    }
    // Every second, and after the third change.
    client.command(&["CONFIG", "SET", "save", "1 3"]);
    let before = info(&mut client, "rdb_saves");
    (0..3).for_each(|number| drop(client.command(&["SET", "k", &number.to_string()])));
    wait_until("a snapshot", || info(&mut client, "rdb_saves") != before);
    let none = Larder::start(&[]);
    let refused = none.client().command(&["CONFIG", "SET", "save", "60 1"]);
    assert!(matches!(&refused, Reply::Error(text) if text.contains("no snapshot-file is set")), "{refused:?}");
    assert_eq!(none.client().command(&["CONFIG", "SET", "save", ""]), Reply::ok());
}

#[test]
fn metrics_and_info_say_how_old_the_last_snapshot_is_and_what_it_lacks() {
    let scratch = Scratch::new();
    let larder = scratch.start(&[]);
    let mut client = larder.client();
    let metric = |name: &str| larder.metric(&format!("larder_snapshot_{name}"));
    assert!(!larder.get("/metrics").contains("\nlarder_snapshot_last_bytes "), "there was none");
    let mut changes = |words: &str, wanted: &str| {
        assert!(!matches!(ask(&mut client, words), Reply::Error(_)), "{words}");
        assert_eq!(info(&mut client, "rdb_changes_since_last_save"), wanted, "{words}");
    };
    changes("SET a 1", "1");
    changes("MSET a 2 b 3", "3");
    changes("INCR a", "4");
    changes("DEL b", "5");
    changes("DEL b", "5");
    changes("GET a", "5");
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    changes("SAVE", "0");
    assert_eq!((metric("saves_total"), metric("failures_total"), metric("in_progress")), (1.0, 0.0, 0.0));
    assert_eq!(metric("last_entries"), 1.0);
    assert_eq!(metric("last_bytes"), fs::metadata(&scratch.file).unwrap().len() as f64);
    assert!(metric("last_duration_seconds") > 0.0);
    assert!((before - 1.0..before + 60.0).contains(&metric("last_success_timestamp_seconds")));
    changes("SET c 1", "1");
    changes("FLUSHALL", "3");
    assert_eq!(metric("changes"), 3.0);
    // Where the directory is gone, nothing can be written.
    fs::remove_dir_all(scratch.dir.path()).unwrap();
    assert!(matches!(ask(&mut larder.client(), "SAVE"), Reply::Error(_)));
    assert_eq!((metric("saves_total"), metric("failures_total"), metric("last_entries")), (1.0, 1.0, 1.0));
    assert_eq!(metric("changes"), 3.0);
}

#[test]
fn what_was_restored_is_no_change() {
    let scratch = Scratch::new();
    let larder = scratch.start(&[]);
    for words in ["SET a 1", "SET b 2"] {
        assert_eq!(ask(&mut larder.client(), words), Reply::ok());
    }
    terminate(larder);
    let larder = scratch.restore(&[]);
    let mut client = larder.client();
    assert_eq!(info(&mut client, "rdb_changes_since_last_save"), "0");
    assert_eq!(ask(&mut client, "SET c 1"), Reply::ok());
    assert_eq!(info(&mut client, "rdb_changes_since_last_save"), "1");
}
