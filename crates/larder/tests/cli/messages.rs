//! Errors say what is wrong, where, and what to type instead.
use super::{
    Run,
    common::{RedisServer, wait_until},
    larder::{Larder, command},
    run,
};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

fn refused(args: &[&str]) -> String {
    let Run { code, error, .. } = run(args, &[], b"");
    assert_eq!(code, 2, "{args:?}: {error}");
    error
}

#[test]
fn a_source_that_is_an_address_gets_a_url() {
    for (source, expected) in [
        ("127.0.0.1:6379", "did you mean redis://127.0.0.1:6379?"),
        ("cache.internal:6379", "did you mean redis://cache.internal:6379?"),
        ("::1", "did you mean redis://[::1]?"),
        ("/srv/users.ltab", "write table:/srv/users.ltab for a table"),
        ("redis:/h", "write two slashes after redis:"),
    ] {
        let error = refused(&["config", "check", "--source", source]);
        assert!(error.contains(expected), "{error}");
    }
    let valkey = run(&["config", "print", "--source", "valkey://h/3"], &[], b"");
    assert!(valkey.text().contains("source = \"redis://h:6379/3\""), "{}{}", valkey.text(), valkey.error);
    let valkeys = run(&["config", "print", "--source", "valkeys+cluster://h"], &[], b"");
    assert!(valkeys.text().contains("source = \"rediss+cluster://h:6379\""), "{}{}", valkeys.text(), valkeys.error);
}

#[test]
fn flags_of_other_programs_are_known() {
    for (flag, meant) in [
        ("--port", "--redis"),
        ("-p", "--redis"),
        ("--host", "--http"),
        ("--maxmemory", "--max-memory"),
        ("--maxmemory-policy", "--eviction"),
        ("--requirepass", "--password"),
    ] {
        let error = refused(&["serve", flag, "1"]);
        assert!(error.contains(&format!("'{meant}'")) && !error.contains("--peer-tls"), "{error}");
        assert!(!error.contains("as a value"), "{error}");
    }
    let error = refused(&["config", "check", "--max-keys", "-5"]);
    assert!(error.contains("max-keys: `-5` is not a whole number"), "{error}");
}

#[test]
fn a_command_after_its_options_is_named() {
    for (args, command) in [
        (&["--json", "status"][..], "status"),
        (&["--log-level", "debug", "config", "check"], "config"),
        (&["--log-level", "debug", "status"], "status"),
        (&["--url", "127.0.0.1:1", "get", "k"], "get"),
    ] {
        let error = refused(args);
        assert!(error.contains(&format!("comes before its options: larder {command} --option")), "{args:?}: {error}");
    }
    for version in ["version", "-v"] {
        assert!(refused(&[version]).contains("larder --version"), "{version}");
    }
    assert_eq!(run(&["-V"], &[], b"").text(), concat!("larder ", env!("CARGO_PKG_VERSION"), "\n"));
    let order = refused(&["get", "k", "127.0.0.1:1"]);
    assert!(order.contains("k: of two words the first is an address: write HOST:PORT"), "{order}");
    let blanks = refused(&["set", "k", "two", "words"]);
    assert!(blanks.contains("a value with blanks needs quotes"), "{blanks}");
}

#[test]
fn a_server_of_another_kind_is_named() {
    // Not a Larder: an answer of another kind to each question.
    let page = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = page.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in page.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ = stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 13\r\nconnection: close\r\n\r\n<html>\n</html>");
        }
    });
    for command in ["status", "health", "top", "advise", "peers"] {
        let other = run(&[command, &address], &[], b"");
        assert_eq!(other.code, 3, "{command}");
        assert!(other.error.contains("404 Not Found; does a Larder listen on this port?"), "{}", other.error);
        assert_eq!(other.error.lines().count(), 1, "{}", other.error);
    }
    let redis = run(&["get", "k", "--url", &format!("redis://{address}")], &[], b"");
    assert_eq!(redis.code, 3);
    assert!(redis.error.contains("does the server speak the Redis protocol on this port?"), "{}", redis.error);
    let larder = Larder::start(&[]);
    let diff = run(&["config", "diff", &format!("127.0.0.1:{}", larder.http)], &[], b"");
    assert!(diff.error.contains("is this the admin listener?"), "{}", diff.error);
    // A node without peers says so on both listeners.
    let peers = run(&["peers", &format!("127.0.0.1:{}", larder.http)], &[], b"");
    assert!(peers.error.ends_with("404 Not Found: this node shares nothing: `peers` is not set\n"), "{}", peers.error);
    // It was started without a file.
    let diff = run(&["config", "diff", &format!("127.0.0.1:{}", larder.admin)], &[], b"");
    assert_eq!((diff.code, diff.text()), (0, "A reload of the configuration changes nothing.\n"));
    let locked = RedisServer::with(&["--requirepass", "s3cret"]);
    let password = run(&["get", "k", "--url", &format!("redis://127.0.0.1:{}", locked.port())], &[], b"");
    assert!(password.error.contains("the server wants a password: give one in its URL"), "{}", password.error);
}

#[test]
fn an_error_that_cannot_be_written_keeps_its_exit_code() {
    for (args, code) in [(&["get", "k", "--url", "http://127.0.0.1:1"][..], 3), (&["config", "check", "--ttl", "x"], 2)]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = Command::new(env!("CARGO_BIN_EXE_larder")).args(args).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_source_or_a_file_alone_is_a_command_to_type() {
    let source = refused(&["redis://127.0.0.1:6379"]);
    assert!(source.contains("larder --source redis://127.0.0.1:6379"), "{source}");
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().to_str().unwrap();
    let error = refused(&[name]);
    assert!(error.contains(&format!("larder serve {name}")), "{error}");
}

#[test]
fn an_address_takes_many_forms() {
    let larder = Larder::start(&[]);
    let http = format!("127.0.0.1:{}", larder.http);
    let redis = format!("127.0.0.1:{}", larder.redis);
    assert_eq!(run(&["set", "k", "v", "--url", &format!("valkey://{redis}")], &[], b"").code, 0);
    for address in [http.clone(), format!("http://{http}"), format!("redis://{redis}"), format!("valkey://{redis}")] {
        for args in [["get", &address, "k"].as_slice(), &["get", "k", "--url", &address]] {
            let got = run(args, &[], b"");
            assert_eq!((got.code, got.text()), (0, "v"), "{args:?}: {}", got.error);
        }
        assert_eq!(run(&["set", &address, "other", "-5"], &[], b"").code, 0);
        assert_eq!(run(&["get", &address, "other"], &[], b"").text(), "-5");
        assert_eq!(run(&["set", &address, "other", "-"], &[], b"input").code, 0);
        assert_eq!(run(&["get", &address, "other"], &[], b"").text(), "input");
        assert_eq!(run(&["del", &address, "other"], &[], b"").code, 0);
        assert_eq!(run(&["get", "k"], &[("LARDER_URL", &address)], b"").text(), "v");
    }
    for command in [&["health"][..], &["status"], &["top", "--count", "1", "--interval", "10ms"], &["config", "diff"]] {
        let answer = run(&[command, &[&format!("127.0.0.1:{}", larder.admin)]].concat(), &[], b"");
        assert_eq!(answer.code, 0, "{command:?}: {}", answer.error);
    }
    // A command over HTTP cannot use the variable of one over the Redis protocol.
    let other = run(&["status"], &[("LARDER_URL", "redis://127.0.0.1:6380")], b"");
    assert_eq!(other.code, 2);
    assert!(other.error.contains("this command asks over HTTP"), "{}", other.error);
    assert!(other.error.contains("that of the variable LARDER_URL"), "{}", other.error);
    let empty = run(&["get", "k", "--timeout", "nothing"], &[("LARDER_URL", "")], b"");
    assert!(empty.error.contains("--timeout"), "{}", empty.error);
}

#[test]
fn nothing_that_listens_says_so() {
    for url in ["http://127.0.0.1:1", "redis://127.0.0.1:1"] {
        let nowhere = run(&["get", "k", "--url", url], &[], b"");
        assert_eq!(nowhere.code, 3);
        assert!(nowhere.error.contains("is Larder running there?"), "{}", nowhere.error);
        assert!(!nowhere.error.contains("source"), "{}", nowhere.error);
    }
}

#[test]
fn the_long_help_has_examples_and_the_exit_codes() {
    let [short, long] = ["-h", "--help"].map(|help| run(&["store", "backup", help], &[], b""));
    assert!(!short.text().contains("Examples:"), "{}", short.text());
    for line in ["Examples:\n  larder store backup /var/lib/larder/store", "Exit codes:\n  0 "] {
        assert!(long.text().contains(line), "{line}: {}", long.text());
    }
}

#[test]
fn zero_reads_alike_everywhere_and_warning_is_a_level() {
    for setting in ["--ttl", "--negative-ttl", "--soft-timeout"] {
        let [bare, with_unit] = ["0", "0s"].map(|zero| refused(&["config", "check", setting, zero]));
        assert_eq!(bare, with_unit);
        assert!(bare.contains("the least is 1ms, or `none`"), "{bare}");
    }
    let [bare, with_unit] = ["0", "0s"].map(|zero| refused(&["set", "k", "v", "--ttl", zero]));
    assert_eq!(bare.replace("'0'", "'0s'"), with_unit);
    let level = run(&["config", "print", "--log-level", "warning"], &[], b"");
    assert!(level.text().contains("log-level = \"warn\""), "{}{}", level.text(), level.error);
}

#[test]
fn a_missing_socket_and_a_server_without_tls_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let unix = run(&["get", "k", "--url", &format!("unix://{}", socket.display())], &[], b"");
    assert_eq!(unix.code, 3);
    assert!(unix.error.contains(&format!("no socket at {}", socket.display())), "{}", unix.error);
    // Larder's Redis port answers a TLS handshake with a close, redis-server not at all.
    let redis = RedisServer::start();
    let url = format!("rediss://127.0.0.1:{}", redis.port());
    // An attempt to connect takes a second: the request's own deadline comes first, or close to it.
    for timeout in ["100ms", "1s"] {
        let silent = run(&["get", "k", "--url", &url, "--timeout", timeout], &[], b"");
        assert_eq!(silent.code, 3);
        assert!(silent.error.contains("does the server speak TLS on this port?"), "{}", silent.error);
    }
    let larder = Larder::start(&[]);
    let http = run(&["get", "k", "--url", &format!("https://127.0.0.1:{}", larder.http)], &[], b"");
    assert_eq!(http.code, 3);
    assert!(http.error.contains("TLS"), "{}", http.error);
    // Larder closes a connection that begins with a handshake.
    let redis = run(&["get", "k", "--url", &format!("rediss://127.0.0.1:{}", larder.redis)], &[], b"");
    assert_eq!(redis.code, 3);
    assert!(redis.error.contains("does the server speak TLS on this port?"), "{}", redis.error);
    let other = run(&["get", &format!("127.0.0.1:{}", larder.redis), "k"], &[], b"");
    assert_eq!(other.code, 3);
    let hint = format!(
        "does the server speak HTTP on this port? For the Redis protocol write redis://127.0.0.1:{}",
        larder.redis
    );
    assert!(other.error.contains(&hint), "{}", other.error);
}

#[test]
fn a_limit_on_open_files_that_leaves_no_connection_stops_the_start() {
    let larder = env!("CARGO_BIN_EXE_larder");
    let serve = format!("ulimit -n 64; exec {larder} serve --http 127.0.0.1:0 --redis off --admin off --threads 2");
    let output = Command::new("bash").args(["-c", &serve]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the limit on open files (ulimit -n) is 64; Larder needs at least 144"), "{error}");
}

#[test]
fn data_in_a_folder_that_cannot_be_written_to_is_built_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (data, cache) = (folder.path().join("data"), folder.path().join("cache"));
    fs::create_dir(&data).unwrap();
    fs::create_dir(&cache).unwrap();
    let file = data.join("x.data");
    fs::write(&file, "leek a vegetable\n").unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(data.join("probe"), "").is_ok() {
        // Root writes everywhere: a file in the place of the table does the same.
        fs::create_dir(data.join("x.data.ltab")).unwrap();
    }
    let mut child = command()
        .args(["--http", "127.0.0.1:0", "--redis", "off", "--admin", "off"])
        .arg(&file)
        .env("XDG_CACHE_HOME", &cache)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let built = || {
        fs::read_dir(cache.join("larder"))
            .is_ok_and(|entries| entries.flatten().any(|e| e.path().extension().is_some_and(|x| x == "ltab")))
    };
    wait_until("the table to be built in the cache", built);
    let _ = child.kill();
    let _ = child.wait();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_short_help_has_the_common_settings_and_names_the_long_one() {
    let [short, long] = ["-h", "--help"].map(|help| run(&["serve", help], &[], b""));
    assert_eq!((short.code, long.code), (0, 0));
    assert!(short.text().lines().count() < 80, "{}", short.text());
    for line in ["--source <URL>", "--max-memory <SIZE>", "--stale-if-error <", "`larder serve --help` has all"] {
        assert!(short.text().contains(line), "{line}: {}", short.text());
    }
    assert!(!short.text().contains("--tls-client-ca") && long.text().contains("--tls-client-ca"));
    let memory = |text: &str| text[text.find("--max-memory").unwrap()..].find("[default:").unwrap();
    assert!(memory(short.text()) < memory(long.text()), "one sentence of several");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for help in [short.text(), long.text()] {
        assert!(words(help).contains("[values: coherent, ttl, off] [default: coherent]"), "{help}");
        // A program's user does not have the pages of the repository.
        assert!(!help.contains("docs/"), "{help}");
    }
}

#[test]
fn a_unit_alone_is_no_file() {
    for (typed, meant) in
        [(["--max-memory", "1", "GB"], "64GB"), (["--ttl", "10", "s"], "64s"), (["--max-memory", "1", "g"], "64g")]
    {
        let error = refused(&typed);
        let expected = format!(
            "larder: {0}: no such data file; a size or a duration is one word: {meant}, not 64 {0}\n",
            typed[2]
        );
        assert_eq!(error, expected);
    }
    assert!(refused(&["--max-memory", "1GiB", "data.csv"]).contains("data.csv: No such file"));
}

#[test]
fn too_much_memory_is_named_in_round_numbers() {
    let error = refused(&["config", "check", "--max-memory", "999TiB"]);
    let (_, of_machine) = error.split_once("more than 4 times the ").unwrap();
    let digits = of_machine.split_once("iB that this process may use").unwrap().0;
    assert!(error.contains("max-memory is 999TiB") && digits.len() <= 7, "{error}");
}
