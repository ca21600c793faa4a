//! `larder snapshot convert`: RDB files that redis-server writes and loads.
use super::*;

fn convert(from: &Path, to: &Path, more: &[&str]) -> Output {
    Command::new(binary()).args(["snapshot", "convert"]).args([from, to]).args(more).output().unwrap()
}

/// Strings that RDB frames in different ways: small numbers, compressed text, lengths of 6, 14 and
/// 32 bits. The same in each call.
fn strings() -> Vec<(String, Vec<u8>)> {
    let numbers = ["", "7", "-1", "300", "-70000", "2147483647", "-2147483648", "9223372036854775807", "007", "0x1"];
    let mut strings: Vec<(String, Vec<u8>)> =
        numbers.iter().enumerate().map(|(n, value)| (format!("number:{n}"), value.as_bytes().to_vec())).collect();
    let mut random = fastrand::Rng::with_seed(1);
    for len in [1, 20, 21, 63, 64, 100, 16_383, 16_384, 100_000] {
        strings.push((format!("repeated:{len}"), b"abcd".iter().cycle().take(len).copied().collect()));
        strings.push((format!("random:{len}"), (0..len).map(|_| random.u8(..)).collect()));
        // Text of few letters has matches of all distances and lengths.
        strings.push((format!("letters:{len}"), (0..len).map(|_| random.u8(b'a'..b'd')).collect()));
    }
    strings.push(("12345".to_owned(), b"the key is a number".to_vec()));
    strings.push(("k".repeat(20_000), b"long key".to_vec()));
    strings
}

/// When the nth string ends.
fn end(n: usize) -> i64 {
    if n % 2 == 1 { 4_000_000_000_000 + n as i64 } else { -1 }
}

fn fill_strings(client: &mut Client) {
    for (n, (key, value)) in strings().iter().enumerate() {
        assert_eq!(client.command(&[b"SET", key.as_bytes(), value]), Reply::ok());
        if end(n) >= 0 {
            assert_eq!(ask(client, &format!("PEXPIREAT {key} {}", end(n))).int(), 1);
        }
    }
}

fn check_strings(client: &mut Client) {
    for (n, (key, value)) in strings().iter().enumerate() {
        let Reply::Bulk(Some(found)) = ask(client, &format!("GET {key}")) else { panic!("no {key:.20}") };
        assert!(found == *value, "{key:.20}");
        assert_eq!(ask(client, &format!("PEXPIRETIME {key}")).int(), end(n), "{key:.20}");
    }
}

fn run(client: &mut Client, words: &str) {
    assert!(!matches!(ask(client, words), Reply::Error(_)), "{words}");
}

/// Has Redis save, and gives the path of its file.
fn dump(redis: &RedisServer) -> PathBuf {
    assert_eq!(redis.command(&["SAVE"]), Reply::ok());
    redis.dir().join("dump.rdb")
}

#[test]
fn what_redis_saved_is_restored() {
    let (redis, scratch) = (RedisServer::start(), Scratch::new());
    let mut client = redis.client();
    fill_strings(&mut client);
    run(&mut client, "DEBUG SET-ACTIVE-EXPIRE 0");
    run(&mut client, "SET short-lived v PX 1");
    assert_eq!(ask(&mut client, "SELECT 3"), Reply::ok());
    run(&mut client, "SET session v3");
    let dump = dump(&redis);

    let refused = convert(&dump, &scratch.file, &[]);
    let said = text(&refused.stderr);
    assert!(refused.status.code() == Some(1) && said.contains("leaves out 1 keys in database 3"), "{said}");
    assert!(said.contains("was not written; use --skip-others") && !scratch.file.exists(), "{said}");

    let groups = ["--database=0=default", "--database=3=sessions"];
    let done = convert(&dump, &scratch.file, &groups);
    let said = text(&done.stderr);
    assert!(done.status.success() && said.is_empty(), "{said}");
    let wanted = format!("{} entries; 1 had expired", strings().len() + 1);
    assert!(text(&done.stdout).contains(&wanted), "{}", text(&done.stdout));
    assert!(snapshot("verify", &scratch.file).status.success());
    let config = scratch.dir.path().join("larder.toml");
    fs::write(&config, "max-key = \"64KiB\"\n[groups.sessions]\nsource = \"none:\"\nmax-memory = \"8MiB\"\n").unwrap();
    let larder = scratch.restore(&["--config", config.to_str().unwrap()]);
    check_strings(&mut larder.client());
    let (status, _, body) =
        larder.http("GET /v1/groups/sessions/kv/session HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!((status, text(&body)), (200, "v3".to_owned()));
}

/// Every type in its encodings, small and large: what follows them is read all the same.
#[test]
fn values_of_other_types_are_counted_and_skipped() {
    let (redis, scratch) = (RedisServer::start(), Scratch::new());
    let mut client = redis.client();
    let long = "x".repeat(10_000);
    let many = |per: &str| (0..600).map(|n| per.replace('#', &n.to_string())).collect::<Vec<_>>().join(" ");
    let commands = [
        "RPUSH list:small a 1 -5 70000".to_owned(),
        format!("RPUSH list:large {} {long}", many("item:#")),
        "SADD set:numbers 1 2 3".to_owned(),
        "SADD set:small a b".to_owned(),
        format!("SADD set:large {} {long}", many("m:#")),
        "HSET hash:small f v".to_owned(),
        format!("HSET hash:large {} f {long}", many("f:# v:#")),
        "ZADD sorted:small 1.5 a -inf b".to_owned(),
        format!("ZADD sorted:large {} inf {long}", many("#.25 m:#")),
        "XADD stream 1-1 f v".to_owned(),
        "XADD stream 2-1 f v g w".to_owned(),
        "XGROUP CREATE stream readers 0".to_owned(),
        "XREADGROUP GROUP readers one COUNT 1 STREAMS stream >".to_owned(),
        "XDEL stream 2-1".to_owned(),
        "FUNCTION LOAD #!lua\u{20}name=lib\nredis.register_function('f',function()return(1)end)".to_owned(),
    ];
    for (n, words) in commands.iter().enumerate() {
        match words.strip_prefix("FUNCTION LOAD ") {
            Some(code) => assert!(!matches!(client.command(&["FUNCTION", "LOAD", code]), Reply::Error(_)), "{code}"),
            None => run(&mut client, words),
        }
        run(&mut client, &format!("SET string:{n} v{n}"));
    }
    let dump = dump(&redis);
    let refused = convert(&dump, &scratch.file, &[]);
    assert!(refused.status.code() == Some(1) && !scratch.file.exists());
    let done = convert(&dump, &scratch.file, &["--skip-others", "--compression=none"]);
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    for (count, kind) in [(2, "list"), (3, "set"), (2, "hash"), (2, "sorted set"), (1, "stream")] {
        let line = format!("leaves out {count} keys of type {kind}\n");
        assert!(said.contains(&line) && text(&refused.stderr).contains(&line), "{line}: {said}");
    }
    let larder = scratch.restore(&[]);
    let mut client = larder.client();
    for n in 0..commands.len() {
        assert_eq!(ask(&mut client, &format!("GET string:{n}")), Reply::bulk(format!("v{n}")));
    }
    assert_eq!(ask(&mut client, "DBSIZE").int(), commands.len() as i64);
}

#[test]
fn a_damaged_file_is_refused_and_one_without_a_checksum_is_said_to_be() {
    let scratch = Scratch::new();
    let redis = RedisServer::with(&["--rdbcompression", "no"]);
    run(&mut redis.client(), "SET key value-to-be-damaged");
    let dump_file = dump(&redis);
    let whole = fs::read(&dump_file).unwrap();
    assert!(convert(&dump_file, &scratch.file, &[]).status.success());
    let before = fs::read(&scratch.file).unwrap();
    let value = whole.windows(5).position(|bytes| bytes == b"value").unwrap();
    let mut damaged = whole.clone();
    damaged[value] ^= 1;
    for (bytes, wanted) in [
        (&damaged[..], "checksum"),
        (&whole[..whole.len() - 1], "ends too early"),
        (&whole[..value], "ends too early"),
        (&[&whole[..], b"x"].concat(), "bytes follow the end"),
        (b"REDIS9999", "version 9999"),
    ] {
        fs::write(&dump_file, bytes).unwrap();
        let refused = convert(&dump_file, &scratch.file, &["--skip-others"]);
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(1) && said.contains("dump.rdb: ") && said.contains(wanted), "{said}");
    }
    assert!(fs::read(&scratch.file).unwrap() == before && scratch.names().len() == 1, "it is as before");

    let redis = RedisServer::with(&["--rdbchecksum", "no"]);
    run(&mut redis.client(), "SET key value");
    let done = convert(&dump(&redis), &scratch.file, &[]);
    assert!(done.status.success() && text(&done.stderr).contains("has no checksum"), "{}", text(&done.stderr));
}

#[test]
fn what_larder_saved_is_loaded_by_redis() {
    let scratch = Scratch::new();
    let config = scratch.dir.path().join("larder.toml");
    fs::write(&config, "max-key = \"64KiB\"\n[groups.sessions]\nsource = \"none:\"\nmax-memory = \"8MiB\"\n").unwrap();
    let larder = scratch.start(&["--config", config.to_str().unwrap()]);
    let mut client = larder.client();
    fill_strings(&mut client);
    run(&mut client, "SET tagged v TAG a");
    run(&mut client, "JSON.SET document $ [1,2]");
    run(&mut client, "SET short-lived v PX 3000");
    let put =
        "PUT /v1/groups/sessions/kv/session HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\nv3";
    assert_eq!(larder.http(put).0, 201);
    terminate(larder);
    let dir = tempfile::tempdir().unwrap();
    let dump = dir.path().join("dump.rdb");
    let refused = convert(&scratch.file, &dump, &[]);
    assert!(text(&refused.stderr).contains("leaves out 1 keys in group sessions") && !dump.exists());
    let refused = convert(&scratch.file, &dump, &["--database=0=other"]);
    assert!(text(&refused.stderr).contains("has no group `other`"), "{}", text(&refused.stderr));
    // What was alive in the snapshot and is over now is not written.
    wait_until("the short-lived one to be over", || {
        let done = convert(&scratch.file, &dump, &["--database=0=default", "--database=5=sessions"]);
        let said = text(&done.stderr);
        assert!(done.status.success(), "{said}");
        assert!(said.contains("1 keys lose tags") && said.contains("1 keys lose the type of a document"), "{said}");
        text(&done.stdout).contains("; 1 had expired")
    });
    let redis = RedisServer::in_dir(dir, &["--rdbchecksum", "yes"]);
    let mut client = redis.client();
    assert_eq!(ask(&mut client, "DBSIZE").int(), strings().len() as i64 + 2);
    check_strings(&mut client);
    assert_eq!(ask(&mut client, "GET document"), Reply::bulk("[1,2]"));
    assert_eq!(ask(&mut client, "SELECT 5"), Reply::ok());
    assert_eq!(ask(&mut client, "GET session"), Reply::bulk("v3"));
}

#[test]
fn wrong_databases_are_wrong_usage() {
    let scratch = Scratch::new();
    for (args, wanted) in [
        (&["--database=x=default"][..], "write a number and a group"),
        (&["--database=0="], "write a number and a group"),
        (&["--database=0=a", "--database=0=b"], "given twice"),
        (&["--database=0=a", "--database=1=a"], "given twice"),
        (&["--compression=gzip"], "lz4"),
    ] {
        let refused = convert(&scratch.file, &scratch.file, args);
        assert!(
            refused.status.code() == Some(2) && text(&refused.stderr).contains(wanted),
            "{}",
            text(&refused.stderr)
        );
    }
    let refused = convert(&scratch.file, &scratch.dir.path().join("to"), &[]);
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("No such file"));
}

/// The dump is what Go's encoding/gob writes for GCache's types.
#[test]
fn a_dump_of_gcache_becomes_documents_of_the_item_api() {
    let scratch = Scratch::new();
    let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/src/snapshot/gcache.dump");
    let done = convert(&dump, &scratch.file, &[]);
    assert!(done.status.success() && done.stderr.is_empty(), "{}", text(&done.stderr));
    assert!(text(&done.stdout).contains(" 1 entries; 1 had expired"), "{}", text(&done.stdout));
    assert!(snapshot("verify", &scratch.file).status.success());
    let larder = scratch.restore(&[]);
    let (status, _, body) =
        larder.http("GET /cache/v1/item?key=a&subkey=n HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert_eq!((status, text(&body).trim_end()), (200, r#"{"key":"a","value":[1,2],"subkey":"n"}"#));
    let mut client = larder.client();
    assert_eq!(ask(&mut client, "JSON.GET a $.n"), Reply::bulk("[[1,2]]"));
    assert_eq!(ask(&mut client, "PEXPIRETIME a"), Reply::Int(4_102_444_800_000));
    assert_eq!(ask(&mut client, "EXISTS old gone"), Reply::Int(0));
    // Half of it is none, and a snapshot that is there stays.
    let half = scratch.dir.path().join("half");
    fs::write(&half, &fs::read(&dump).unwrap()[..200]).unwrap();
    let refused = convert(&half, &scratch.file, &[]);
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("is not what GCache writes"));
    assert!(snapshot("verify", &scratch.file).status.success());
}
