//! `larder get|set|del`, against Larder and against redis-server.
use super::{
    Run,
    common::{Port, RedisServer, Reply, wait_until},
    larder::Larder,
    run,
};
use std::net::TcpListener;

/// Every byte there is, and a length that no buffer size divides.
fn any_bytes() -> Vec<u8> {
    (0..=255).cycle().take(300_007).collect()
}

fn done(out: &[u8]) -> Run {
    Run { code: 0, out: out.to_vec(), error: String::new() }
}
fn absent(key: &str) -> Run {
    let key = key.as_bytes().escape_ascii();
    Run { code: 1, out: Vec::new(), error: format!("larder: {key}: no such key\n") }
}

/// What holds wherever the URL leads.
fn life_of_a_key(url: &str) {
    let client = |args: &[&str], input: &[u8]| run(&[args, &["--url", url]].concat(), &[], input);
    for key in ["", "plain", "a/b c%2F?&=#+ü", "..", "-5"] {
        assert_eq!(client(&["get", key], b""), absent(key));
        assert_eq!(client(&["set", key, "-17"], b""), done(b""));
        assert_eq!(client(&["get", key], b""), done(b"-17"), "{key}");
        assert_eq!(client(&["del", key], b""), done(b""));
        assert_eq!(client(&["del", key], b""), absent(key));
    }
    let bytes = any_bytes();
    for args in [&["set", "bytes"][..], &["set", "bytes", "-"]] {
        assert_eq!(client(args, &bytes), done(b""));
        assert!(client(&["get", "bytes"], b"") == done(&bytes), "not the same bytes");
        assert_eq!(client(&["del", "bytes"], b""), done(b""));
    }
    assert_eq!(run(&["set", "--url", url, "--", "--key", "--value"], &[], b""), done(b""));
    assert_eq!(run(&["get", "--url", url, "--", "--key"], &[], b""), done(b"--value"));
    assert_eq!(client(&["set", "empty"], b""), done(b""));
    assert_eq!(client(&["get", "empty"], b""), done(b""));
    assert_eq!(client(&["set", "brief", "v", "--ttl", "100ms"], b""), done(b""));
    wait_until("the key to expire", || client(&["get", "brief"], b"").code == 1);
}

#[test]
fn over_http() {
    let larder = Larder::start(&[]);
    life_of_a_key(&format!("http://127.0.0.1:{}", larder.http));
}

#[test]
fn over_the_redis_protocol() {
    let larder = Larder::start(&[]);
    life_of_a_key(&format!("redis://127.0.0.1:{}", larder.redis));
}

#[test]
fn against_a_redis_server_with_password_and_database() {
    let server = RedisServer::with(&["--requirepass", "s3cret"]);
    let url = format!("redis://:s3cret@127.0.0.1:{}/3", server.port());
    life_of_a_key(&url);
    assert_eq!(run(&["set", "k", "v", "--ttl", "1h", "--url", &url], &[], b""), done(b""));
    let mut client = server.client();
    client.command(&["SELECT", "3"]);
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    assert!(client.command(&["PTTL", "k"]).int() > 3_500_000);
    client.command(&["LPUSH", "list", "x"]);
    let wrong = run(&["get", "list", "--url", &url], &[], b"");
    assert_eq!(wrong.code, 3);
    assert!(wrong.error.contains("WRONGTYPE") && !wrong.error.contains("s3cret"), "{}", wrong.error);
}

#[test]
fn what_gives_no_answer_exits_3_in_time() {
    let closed = Port::free();
    for scheme in ["http", "redis"] {
        let url = format!("{scheme}://127.0.0.1:{}", closed.number);
        let refused = run(&["get", "k", "--url", &url, "--timeout", "2s"], &[], b"");
        assert_eq!((refused.code, refused.text()), (3, ""), "{}", refused.error);
        assert!(refused.error.to_lowercase().contains("refused"), "{}", refused.error);
    }
    // Connections are accepted by the kernel, and no program ever answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for scheme in ["http", "redis"] {
        let url = format!("{scheme}://{}", silent.local_addr().unwrap());
        let late = run(&["get", "k", "--url", &url, "--timeout", "100ms"], &[], b"");
        assert_eq!((late.code, late.text()), (3, ""), "{}", late.error);
        assert!(late.error.contains("100ms"), "{}", late.error);
    }
}

#[test]
fn refusals_say_why() {
    let larder = Larder::start(&["--max-value", "10B"]);
    let http = format!("http://127.0.0.1:{}", larder.http);
    let large = run(&["set", "k", "12345678901", "--url", &http], &[], b"");
    assert_eq!(large.code, 3);
    assert!(large.error.contains("413") && large.error.contains("max-"), "{}", large.error);
    let nowhere = run(&["get", "k", "--url", &format!("{http}/base")], &[], b"");
    // A 404 that is not about the key must not read as an absence.
    assert_eq!(nowhere.code, 3, "{}", nowhere.error);
    assert!(nowhere.error.contains("404 Not Found: "), "{}", nowhere.error);
}

#[test]
fn wrong_usage_exits_2() {
    for args in [
        &["get"][..],
        &["get", "k", "v"],
        &["get", "k", "--ttl", "1s"],
        &["set", "k", "v", "--ttl", "10"],
        &["set", "k", "v", "--ttl", "0s"],
        &["get", "k", "--url", "ftp://h"],
        &["get", "k", "--url", "https://u@h"],
        &["get", "k", "--url", "redis://h/x"],
        &["get", "k", "--timeout", "soon"],
    ] {
        let wrong = run(args, &[], b"");
        assert_eq!((wrong.code, wrong.text()), (2, ""), "{args:?}: {}", wrong.error);
    }
}
