//! Tables from outside: the real binary builds them, serves them and changes from one to the next.

mod bad_lines;
mod data_file;

use crate::{common, larder};

use common::{Reply, wait_until};
use larder::{Larder, binary, command, connect, expect, skip_until};
use std::{
    fs,
    io::{Read as _, Write as _},
    path::PathBuf,
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// `larder table …`
fn table(args: &[&str]) -> Output {
    Command::new(binary()).arg("table").args(args).env_clear().output().unwrap()
}
#[track_caller]
fn done(output: &Output) -> &str {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::str::from_utf8(&output.stdout).unwrap()
}
fn error(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A directory with data files.
struct Place(tempfile::TempDir);
impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.name(name)
    }
    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
    /// Builds a table of this text and moves it into place.
    fn table(&self, name: &str, text: &str) -> String {
        let (data, built) = (self.write("input.data", text), self.name("built.ltab"));
        done(&table(&["build", &data, "-o", &built]));
        fs::rename(built, self.path(name)).unwrap();
        self.name(name)
    }
}

/// Has threads end, also where a test fails before it would.
struct Ends<'a>(&'a AtomicBool);
impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn numbered(count: u32) -> String {
    (0..count).map(|n| format!("key{n} value of {n}\n")).collect()
}
/// `GET`: status and body.
fn get(larder: &Larder, path: &str) -> (u16, String) {
    let (status, _, body) = larder.http(&format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
    (status, String::from_utf8(body).unwrap())
}
fn reload(larder: &Larder) -> (u16, String) {
    let (status, _, body) = larder
        .admin("POST /v1/groups/default/reload HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    (status, String::from_utf8(body).unwrap())
}

#[test]
fn the_command_line_builds_reads_and_checks() {
    let place = Place::new();
    let data = place.write("x.data", "a 1\nbad\nb two words\na 3\n");
    let out = place.name("x.ltab");
    let built = table(&["build", &data, "-o", &out]);
    done(&built);
    let said = error(&built).1;
    assert!(said.contains("x.data: line 2 is left out: there is no blank behind the key"), "{said}");
    assert!(said.contains("1 entries were replaced") && said.contains("2 entries in "), "{said}");
    assert_eq!(done(&table(&["get", &out, "b"])), "two words");
    assert_eq!(error(&table(&["get", &out, "c"])), (1, "larder: c: no such key\n".to_owned()));
    assert!(done(&table(&["info", &out])).contains("\nentries:  2\n"));
    assert_eq!(done(&table(&["verify", &out])), format!("{out}: 2 entries, sound\n"));
    let mut dumped: Vec<_> = done(&table(&["dump", &out])).lines().map(str::to_owned).collect();
    dumped.sort();
    assert_eq!(dumped, ["a 3", "b two words"]);
    let strict = error(&table(&["build", "--strict", &data, "-o", &out]));
    assert_eq!(strict, (3, format!("larder: {data}: line 2: there is no blank behind the key\n")));
    let once = error(&table(&["build", "--duplicates", "error", &data, "-o", &out]));
    assert_eq!(once, (3, "larder: line 4: the key a was in line 1 already\n".to_owned()));
}

#[test]
fn a_flipped_byte_is_named_by_verify_and_never_served() {
    let place = Place::new();
    let path = place.table("x.ltab", &numbered(20_000));
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    // As a failing disk would, but in a file that is not open.
    fs::write(&path, &bytes).unwrap();
    let chunk = 4096 + (middle - 4096) / 65536 * 65536;
    let named = format!("{path}: damaged table: body at byte {chunk}: bytes {chunk} to ");
    let (code, said) = error(&table(&["verify", &path]));
    assert!(code == 1 && said.contains(&named), "{code} {said}");
    // What lies elsewhere is served; what lies there is not.
    let larder = Larder::start(&["--source", &format!("table:{path}"), "--log-level", "off"]);
    let mut answers: Vec<_> = (0..20_000).step_by(37).map(|n| (n, get(&larder, &format!("/?key=key{n}")))).collect();
    answers.retain(|(n, answer)| *answer != (200, format!("value of {n}")));
    assert!(!answers.is_empty() && answers.len() < 400, "{}", answers.len());
    for (n, (status, said)) in answers {
        assert!(status == 503 && said.contains(&named), "key{n}: {status} {said}");
    }
}

#[test]
fn a_bare_data_file_is_served() {
    let place = Place::new();
    let data = place.write("example.data", &numbered(1000));
    let built = || fs::metadata(place.path("example.data.ltab")).unwrap().modified().unwrap();
    let larder = Larder::start(&[&data]);
    assert_eq!(get(&larder, "/?key=key7"), (200, "value of 7".to_owned()));
    assert_eq!(get(&larder, "/?key=nobody"), (404, "Key not found".to_owned()));
    assert_eq!(get(&larder, "/").0, 400);
    assert_eq!(get(&larder, "/?key=").0, 400);
    assert_eq!(get(&larder, "/lookup?key=key8").1, r#"{"key": "key8", "value": "value of 8", "status": 200}"#);
    let (status, head, body) = larder.http("GET /v1/kv/key9 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!((status, &body[..]), (200, &b"value of 9"[..]));
    assert!(head.contains("etag: ") && head.contains("cache-status: larder; hit"), "{head}");
    drop(larder);
    // Not built again.
    let first = built();
    drop(Larder::start(&[&data]));
    assert_eq!(built(), first);
    // The data has changed.
    place.write("example.data", "key7 another\n");
    let larder = Larder::start(&[&data]);
    assert_eq!(get(&larder, "/?key=key7"), (200, "another".to_owned()));
    assert_eq!(get(&larder, "/?key=key8").0, 404);
    // A table of another data file is none of this one.
    let missing = command().arg(place.name("missing.data")).output().unwrap();
    let (code, said) = error(&missing);
    assert!(code == 2 && said.contains("missing.data: No such file"), "{code} {said}");
    let unusable = command().arg(place.write("unusable.csv", "a,b\n")).output().unwrap();
    let (code, said) = error(&unusable);
    assert!(code == 2 && said.contains("no column `key`"), "{code} {said}");
}

#[test]
fn what_a_build_needed_is_not_kept_while_its_table_is_served() {
    let place = Place::new();
    // Built in the same process, 40 MB of it stayed.
    let value = "v".repeat(500);
    let data = place.write("large.data", &(0..100_000).map(|n| format!("key{n} {value}\n")).collect::<String>());
    let anonymous = || {
        let larder = Larder::start(&[&data]);
        assert_eq!(get(&larder, "/?key=key7"), (200, value.clone()));
        larder.anonymous()
    };
    let (built, found) = (anonymous(), anonymous());
    assert!(built < found + (10 << 20), "{built} after building, {found} else");
}

#[test]
fn every_protocol_reads_and_no_one_writes() {
    let place = Place::new();
    let large = "x".repeat(100_000);
    let path = place.table("x.ltab", &format!("{}large {large}\nsmall s\n", numbered(500)));
    let larder = Larder::start(&["--source", &format!("table:{path}")]);
    assert_eq!(get(&larder, "/?key=large"), (200, large.clone()));
    let request = |method: &str, path: &str| {
        let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1\r\n\r\nv");
        let (status, head, body) = larder.http(&request);
        (status, head, String::from_utf8(body).unwrap())
    };
    for (method, key) in [("PUT", "small"), ("PUT", "new"), ("DELETE", "small")] {
        let (status, head, body) = request(method, &format!("/v1/kv/{key}"));
        assert!(status == 405 && head.contains("allow: get, head"), "{method}: {status} {head}");
        assert!(body.contains("/problems/read-only") && body.contains("read-only"), "{body}");
    }
    let (status, _, body) = request("POST", "/v1/groups/default/reload");
    assert_eq!(status, 404, "not on the data listener: {body}");
    let mut client = larder.client();
    assert_eq!(client.command(&["GET", "large"]), Reply::bulk(large));
    assert_eq!(client.command(&["GET", "nobody"]), Reply::nil());
    let many = Reply::Array(Some(vec![Reply::bulk("s"), Reply::nil(), Reply::bulk("value of 3")]));
    assert_eq!(client.command(&["MGET", "small", "nobody", "key3"]), many);
    for command in
        [&["SET", "small", "v"][..], &["DEL", "small"], &["INCR", "new"], &["EXPIRE", "small", "9"], &["FLUSHALL"]]
    {
        let said = client.command(command);
        assert_eq!(said.error(), "ERR the source is a table, which is read-only", "{command:?}");
    }
    assert_eq!(client.command(&["EXISTS", "small", "nobody", "key3"]), Reply::Int(2));
    assert_eq!(client.command(&["STRLEN", "small"]), Reply::Int(1));
    assert_eq!(client.command(&["TTL", "small"]), Reply::Int(-1));
    assert_eq!(client.command(&["DBSIZE"]), Reply::Int(502));
    let mut random = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let Reply::Bulk(Some(key)) = client.command(&["RANDOMKEY"]) else { panic!("a key") };
        assert_eq!(client.command(&[b"EXISTS", &key[..]]), Reply::Int(1));
        random.insert(key);
    }
    assert!(random.len() > 25, "{random:?}");
    assert_eq!(get(&larder, "/?key=small"), (200, "s".to_owned()), "nothing has changed");
}

#[test]
fn walks_see_every_key() {
    let place = Place::new();
    let path = place.table("x.ltab", &numbered(200_000));
    let larder = Larder::start(&["--source", &format!("table:{path}")]);
    let mut client = larder.client();
    let mut cursor = b"0".to_vec();
    let mut seen = std::collections::BTreeSet::new();
    let mut pages = 0;
    loop {
        let Reply::Array(Some(parts)) = client.command(&[b"SCAN", &cursor[..], b"COUNT", b"5000"]) else {
            panic!("a page")
        };
        let [Reply::Bulk(Some(next)), Reply::Array(Some(keys))] = &parts[..] else { panic!("{parts:?}") };
        for key in keys {
            let Reply::Bulk(Some(key)) = key else { panic!("{key:?}") };
            seen.insert(key.clone());
        }
        pages += 1;
        if pages == 10 {
            // Another table comes amidst: what both have is seen all the same.
            place.table("x.ltab", &numbered(300_000));
            assert_eq!(reload(&larder).0, 200);
        }
        cursor.clone_from(next);
        if cursor == b"0" {
            break;
        }
    }
    let missing = (0..200_000).filter(|n| !seen.contains(format!("key{n}").as_bytes())).count();
    assert_eq!(missing, 0);
    let Reply::Array(Some(keys)) = client.command(&["KEYS", "key19999*"]) else { panic!("keys") };
    assert_eq!(keys.len(), 11);
    let (status, body) = get(&larder, "/v1/range?start=key1&limit=2");
    assert!(status >= 400 && body.contains("no keys in order"), "{status} {body}");
}

#[test]
fn a_new_table_takes_the_place_of_the_old_one_and_only_changes_are_told() {
    let place = Place::new();
    let path = place.table("x.ltab", &numbered(2000));
    let larder = Larder::start(&["--source", &format!("table:{path}"), "--threads", "2"]);
    assert_eq!(reload(&larder), (200, r#"{"entries":2000,"changed":null}"#.to_owned()), "nobody has copies");
    // A client that tracks what it reads.
    let mut tracks = connect(larder.redis);
    tracks.write_all(b"HELLO 3\r\nCLIENT TRACKING ON\r\nMGET key1 key2 key3 new\r\nPING tracked\r\n").unwrap();
    skip_until(&mut tracks, b"$7\r\ntracked\r\n");
    // And some that read all the time, on both cores.
    let over = AtomicBool::new(false);
    let read = std::thread::scope(|scope| {
        let ends = Ends(&over);
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = larder.client();
                    let mut read = 0;
                    while !over.load(Relaxed) {
                        let Reply::Bulk(Some(value)) = client.command(&["GET", "key2"]) else {
                            panic!("a failed read")
                        };
                        assert!(value == b"value of 2" || value == b"changed", "{value:?}");
                        let Reply::Bulk(Some(value)) = client.command(&["GET", "key1"]) else {
                            panic!("a failed read")
                        };
                        assert_eq!(value, b"value of 1");
                        read += 1;
                    }
                    read
                })
            })
            .collect();
        let changed = numbered(2000).replace("key2 value of 2\n", "key2 changed\n").replace("key3 value of 3\n", "")
            + "new comes\n";
        // Moved into place, and found by itself.
        place.table("x.ltab", &changed);
        wait_until("the new table", || larder.metric("larder_table_swaps_total{group=\"default\"}") == 2.0);
        assert_eq!(larder.metric("larder_table_entries{group=\"default\"}"), 2000.0);
        let mut told = Vec::new();
        while told.len() < 3 {
            let mut head = [0; 25];
            let push = b">2\r\n$10\r\ninvalidate\r\n*1\r\n";
            tracks.read_exact(&mut head[..push.len()]).unwrap();
            assert_eq!(&head[..push.len()], push);
            let mut line = Vec::new();
            while !line.ends_with(b"\r\n") || line.iter().filter(|byte| **byte == b'\n').count() < 2 {
                let mut byte = [0];
                tracks.read_exact(&mut byte).unwrap();
                line.push(byte[0]);
            }
            told.push(String::from_utf8(line).unwrap().split("\r\n").nth(1).unwrap().to_owned());
        }
        told.sort();
        assert_eq!(told, ["key2", "key3", "new"]);
        tracks.write_all(b"MGET key1 key2 key3 new\r\n").unwrap();
        expect(&mut tracks, b"*4\r\n$10\r\nvalue of 1\r\n$7\r\nchanged\r\n_\r\n$5\r\ncomes\r\n");
        drop(ends);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u32>()
    });
    assert!(read > 0);
    // One that is not a table is refused, and said so; the one that is served stays.
    let broken = fs::read(&path).unwrap();
    fs::write(place.path("broken"), &broken[..broken.len() - 1]).unwrap();
    fs::rename(place.path("broken"), &path).unwrap();
    let (status, said) = reload(&larder);
    assert!(status == 422 && said.contains("/problems/table-refused") && said.contains("truncated"), "{status} {said}");
    assert!(larder.metric("larder_table_refused_total{group=\"default\"}") >= 1.0);
    assert_eq!(get(&larder, "/?key=new"), (200, "comes".to_owned()));
    // The tables that were replaced are given up, on cores without reads as well.
    wait_until("old tables to be unmapped", || {
        larder.maps().lines().filter(|line| line.contains("x.ltab")).count() == 1
    });
}

#[test]
fn what_is_read_together_is_of_one_table() {
    let place = Place::new();
    let text = |value: &str| (0..1000).map(|n| format!("key{n} {value}\n")).collect::<String>();
    let path = place.table("x.ltab", &text("0"));
    let larder = Larder::start(&["--source", &format!("table:{path}"), "--threads", "2"]);
    // All of it is checked before it is served, which the first is not.
    place.table("x.ltab", &text("1"));
    assert_eq!(reload(&larder).0, 200);
    let keys: Vec<_> = (0..1000).map(|n| format!("key{n}")).collect();
    let body = format!("{{\"keys\":[\"{}\"]}}", keys.join("\",\""));
    let mget = [&["MGET"], &keys.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    let over = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let ends = Ends(&over);
        let by_redis = scope.spawn(|| {
            let (mut client, mut seen) = (larder.client(), std::collections::BTreeSet::new());
            while !over.load(Relaxed) {
                let Reply::Array(Some(mut values)) = client.command(&mget) else { panic!("a failed read") };
                assert_eq!(values.len(), 1000);
                values.dedup();
                assert_eq!(values.len(), 1, "{values:?}");
                seen.extend(values.pop().map(|value| format!("{value:?}")));
            }
            seen.len()
        });
        let by_http = scope.spawn(|| {
            while !over.load(Relaxed) {
                let (status, _, values) = larder.http(&format!(
                    "POST /v1/mget HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                ));
                let values: serde_json::Value = serde_json::from_slice(&values).unwrap();
                let mut values = values["values"].as_array().expect("values").clone();
                assert_eq!((status, values.len()), (200, 1000));
                values.dedup();
                assert_eq!(values.len(), 1, "{values:?}");
            }
        });
        for swap in 2..40 {
            place.table("x.ltab", &text(&swap.to_string()));
            assert_eq!(reload(&larder).0, 200);
        }
        drop(ends);
        by_http.join().unwrap();
        by_redis.join().unwrap()
    });
    assert!(seen > 5, "{seen} of 39 tables");
}

#[test]
fn compressed_tables_are_built_read_and_served() {
    let place = Place::new();
    let text: String = (0..20_000).map(|n| format!("key{n} {{\"id\":{n},\"city\":\"Winterthur\"}}\n")).collect();
    let large = "again and ".repeat(20_000);
    let data = place.write("x.data", &format!("{text}large {large}\n"));
    let (plain, packed) = (place.name("plain.ltab"), place.name("x.ltab"));
    done(&table(&["build", &data, "-o", &plain]));
    done(&table(&["build", &data, "--compression", "zstd", "-o", &packed]));
    assert!(done(&table(&["info", &plain])).contains("\ncompression: none\n"));
    assert!(done(&table(&["info", &packed])).contains("\ncompression: zstd, with a dictionary of "));
    let len = |path: &str| fs::metadata(path).unwrap().len();
    assert!(len(&packed) * 2 < len(&plain), "{} of {}", len(&packed), len(&plain));
    assert_eq!(done(&table(&["get", &packed, "key77"])), r#"{"id":77,"city":"Winterthur"}"#);
    assert_eq!(done(&table(&["verify", &packed])), format!("{packed}: 20001 entries, sound\n"));
    let dumped = |path| {
        let dumped = table(&["dump", path]);
        let mut lines: Vec<_> = done(&dumped).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert!(dumped(&packed) == dumped(&plain));
    // Changes keep it; a line that is bad ends a strict build.
    let changes = place.write("changes.data", "key77 changed\n");
    let next = place.name("next.ltab");
    let strict = place.write("strict.data", "bad\n");
    assert_eq!(table(&["build", &strict, "--strict", "--compression", "zstd", "-o", &next]).status.code(), Some(3));
    done(&table(&["build", &changes, "--base", &packed, "-o", &next]));
    assert!(done(&table(&["info", &next])).contains("\ncompression: zstd"));
    let larder = Larder::start(&["--source", &format!("table:{packed}"), "--threads", "1"]);
    let mut client = larder.client();
    for n in (0..20_000).step_by(371) {
        let value = format!(r#"{{"id":{n},"city":"Winterthur"}}"#);
        assert_eq!(get(&larder, &format!("/?key=key{n}")), (200, value.clone()));
        assert_eq!(client.command(&["GET", &format!("key{n}")]), Reply::Bulk(Some(value.into_bytes())));
    }
    assert_eq!(get(&larder, "/?key=large"), (200, large));
    assert_eq!(get(&larder, "/?key=none").0, 404);
    // Those who track are told of what changed, and of nothing else.
    let mut tracks = connect(larder.redis);
    tracks.write_all(b"HELLO 3\r\nCLIENT TRACKING ON\r\nMGET key76 key77 large\r\nPING tracked\r\n").unwrap();
    skip_until(&mut tracks, b"$7\r\ntracked\r\n");
    fs::rename(&next, &packed).unwrap();
    assert_eq!(reload(&larder), (200, r#"{"entries":20001,"changed":1}"#.to_owned()));
    expect(&mut tracks, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nkey77\r\n");
    assert_eq!(get(&larder, "/?key=key77"), (200, "changed".to_owned()));
}

#[test]
fn a_reload_of_what_is_no_table_is_refused() {
    let larder = Larder::start(&[]);
    let (status, said) = reload(&larder);
    assert!(status == 409 && said.contains("/problems/not-a-table"), "{status} {said}");
}

#[test]
fn a_table_that_is_none_stops_the_start() {
    let place = Place::new();
    let path = place.write("x.ltab", &"no table\n".repeat(1000));
    let (code, said) = error(&command().args(["--source", &format!("table:{path}")]).output().unwrap());
    let advice = format!(
        "{path}: is not a table of Larder's: it is text; build a table from it with `larder table build {path} -o {path}.ltab`"
    );
    assert!(code == 1 && said.contains(&advice), "{code} {said}");
}
