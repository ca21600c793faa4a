//! A Redis whose password changes while Larder is in front of it.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{self, Larder},
};
use std::{
    fs,
    io::Read,
    time::{Duration, Instant},
};

const REFUSED: &str = "(the source refuses the password in password-file)";

/// Changes the password, and has all other connections end.
fn change(direct: &mut Client, password: &str) {
    assert_eq!(direct.command(&["CONFIG", "SET", "requirepass", password]), Reply::ok());
    direct.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    direct.command(&["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"]);
}
fn connections(direct: &mut Client) -> u64 {
    let Reply::Bulk(Some(info)) = direct.command(&["INFO", "stats"]) else { panic!("no text") };
    let info = String::from_utf8(info).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().parse().unwrap()
}
/// Commands of each kind of connection: those that fetch, that write, that are slow, that speak
/// RESP3, and a client's own.
fn answers(larder: &Larder, number: &str) -> bool {
    let mut client = larder.client();
    let mut good = vec![client.command(&["SET", "k", number]) == Reply::ok()];
    good.push(client.command(&["GET", "k"]) == Reply::bulk(number));
    good.push(client.command(&["EVAL", "return 1", "0"]) == Reply::Int(1));
    good.push(client.command(&["BLPOP", "nothing", "0.01"]) == Reply::Array(None));
    good.push(client.command(&["SELECT", "1"]) == Reply::ok());
    good.iter().all(|good| *good)
}

fn follows(redis: &RedisServer, url: &str) {
    let file = redis.dir().join("password");
    fs::write(&file, "one\n").unwrap();
    let mut direct = redis.client();
    assert_eq!(direct.command(&["CONFIG", "SET", "requirepass", "one"]), Reply::ok());
    let mut larder = Larder::start(&["--source", url, "--threads", "1"]);
    wait_until("all to be answered", || answers(&larder, "1"));
    // A connection that is let in stays so.
    assert_eq!(direct.command(&["CONFIG", "SET", "requirepass", "two"]), Reply::ok());
    assert_eq!(larder.client().command(&["SET", "k", "2"]), Reply::ok());
    change(&mut direct, "two");
    let told = |text: &str| {
        wait_until(
            text,
            || matches!(larder.client().command(&["SET", "k", "x"]), Reply::Error(error) if error.ends_with(text)),
        );
    };
    told(REFUSED);
    let (begin, before) = (Instant::now(), connections(&mut direct));
    wait_until("some more attempts", || connections(&mut direct) > before + 30);
    assert!(begin.elapsed() > Duration::from_millis(500), "it tries in a loop");
    fs::write(&file, "wrong").unwrap();
    told(REFUSED);
    fs::remove_file(&file).unwrap();
    told("(the source refuses the password, and password-file cannot be read)");
    fs::write(&file, "two\r\n").unwrap();
    wait_until("the new password to be found", || answers(&larder, "3"));
    // Written before Redis is told of it: no client sees an error for long.
    fs::write(&file, "three").unwrap();
    change(&mut direct, "three");
    wait_until("the third password to be taken", || answers(&larder, "4"));
    // And none at all.
    change(&mut direct, "");
    wait_until("no password to be wanted", || answers(&larder, "5"));
    larder.signal(rustix::process::Signal::TERM);
    larder.wait();
    let log = larder.stderr();
    let lines = log.lines().filter(|line| line.contains("the source refuses the password"));
    assert!(lines.clone().any(|line| line.contains("WRONGPASS") && line.contains("password_file=")), "{log}");
    assert!(lines.count() < 30, "{log}");
}

#[test]
fn a_new_password_is_taken_from_its_file() {
    let redis = RedisServer::start();
    let file = redis.dir().join("password");
    follows(&redis, &format!("{}?password-file={}", redis.url(), file.display()));
}

#[test]
fn a_new_password_is_taken_over_a_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("redis.sock");
    let redis = RedisServer::in_dir(dir, &["--unixsocket", socket.to_str().unwrap()]);
    let file = redis.dir().join("password");
    follows(&redis, &format!("unix://{}?password-file={}", socket.display(), file.display()));
}

#[test]
fn a_file_that_is_not_there_stops_the_start() {
    let mut child = larder::command();
    child.args(["--http=127.0.0.1:0", "--redis=127.0.0.1:0", "--admin=127.0.0.1:0"]);
    let mut child = child.args(["--source", "redis://127.0.0.1:1?password-file=/nowhere/password"]).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut error = String::new();
    child.stderr.unwrap().read_to_string(&mut error).unwrap();
    assert!(error.contains("cannot read the password-file /nowhere/password: No such file"), "{error}");
}

#[test]
fn a_password_in_the_url_is_said_to_be_refused() {
    let redis = RedisServer::start();
    let mut direct = redis.client();
    assert_eq!(direct.command(&["CONFIG", "SET", "requirepass", "one"]), Reply::ok());
    let url = format!("redis://:one@127.0.0.1:{}", redis.port());
    let larder = Larder::start(&["--source", &url, "--threads", "1"]);
    wait_until("all to be answered", || answers(&larder, "1"));
    change(&mut direct, "two");
    wait_until("the error to name it", || {
        matches!(larder.client().command(&["GET", "other"]), Reply::Error(error)
            if error.starts_with("ERR source unavailable: WRONGPASS ") && error.ends_with("(the source refuses the password in its URL)"))
    });
    change(&mut direct, "one");
    wait_until("it to come back", || answers(&larder, "2"));
}

/// An administrator who changes the password by way of Larder does not lock Larder out: it says the
/// new one from then on.
#[test]
fn a_password_that_is_set_through_larder_is_said_by_larder() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--forward-admin", "--threads", "2"]);
    let mut client = larder.client();
    let mut direct = redis.client();
    for password in ["sesame", ""] {
        assert_eq!(client.command(&["CONFIG", "SET", "requirepass", password]), Reply::ok());
        // All of Larder's connections: it has to connect again.
        direct.command(&["AUTH", "sesame"]);
        direct.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        wait_until("larder to be let in", || {
            client.command(&["HSET", "h", "f", password]);
            client.command(&["HGET", "h", "f"]) == Reply::bulk(password)
        });
        assert_eq!(client.command(&["CONFIG", "SET", "timeout", "0"]), Reply::ok());
    }
}
