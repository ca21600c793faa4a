//! JSON Web Tokens of PyJWT as logins over HTTP and the Redis protocol, and the ways in which
//! tokens are forged.
use super::{
    common::{Client, Reply, wait_until},
    larder::{Larder, encode, expect, expect_end},
    sockets::{exchange, from},
};
use rustix::process::Signal;
use std::{collections::BTreeMap, fs, io::Write, path::Path, process::Command};
use tempfile::TempDir;

struct Issuer(TempDir);
impl Issuer {
    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
    /// Makes new keys, and tokens by what they are. `ends soon` does so after so many seconds.
    fn tokens(&self, soon: u64) -> BTreeMap<String, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = root.join(".deps/python-jwt/bin/python");
        assert!(python.exists(), "PyJWT is missing: type `make tools`");
        let mut command = Command::new(python);
        let command = command.arg(root.join("tests/jwt/make_tokens.py")).arg(self.path("new.json"));
        let output = command.arg(soon.to_string()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // As a whole, because Larder may read it at any time.
        fs::rename(self.path("new.json"), self.path("jwks.json")).unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

const USERS: &str = "\
user default off
user shop on ~shop:* &shop:* +@all -@dangerous
user admin on >a ~* &* +@all
user off off ~* +@all
";

fn start() -> (Issuer, BTreeMap<String, String>, Larder) {
    let issuer = Issuer(tempfile::tempdir().unwrap());
    let tokens = issuer.tokens(0);
    fs::write(issuer.path("users.acl"), USERS).unwrap();
    let larder = Larder::start(&[
        &format!("--users-file={}", issuer.path("users.acl")),
        &format!("--jwt-jwks={}", issuer.path("jwks.json")),
        "--jwt-issuer=https://login.example.com/",
        "--jwt-audience=cache,larder",
    ]);
    let mut admin = larder.client();
    assert_eq!(admin.command(&["AUTH", "admin", "a"]), Reply::ok());
    assert_eq!(admin.command(&["MSET", "shop:1", "lamp", "other", "secret"]), Reply::ok());
    (issuer, tokens, larder)
}

fn get(key: &str, authorization: &str, more: &str) -> String {
    format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\n{more}\r\n")
}
/// The status of a read over HTTP, from an address of 127.0.0.0/24.
fn status(larder: &Larder, host: u8, key: &str, authorization: &str) -> String {
    let answer = exchange(from(host, larder.http), get(key, authorization, "connection: close\r\n").as_bytes());
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}
fn basic(user: &str, password: &str) -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}
/// What the Redis protocol answers a client from an address of 127.0.0.0/24.
fn say(larder: &Larder, host: u8, args: &[&str]) -> String {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    exchange(from(host, larder.redis), &[encode(&args), encode(&[b"ACL", b"WHOAMI"]), encode(&[b"QUIT"])].concat())
}

#[test]
#[ignore = "make test-clients"]
fn tokens_log_their_users_in() {
    let (_issuer, tokens, larder) = start();
    let good: Vec<_> = tokens.iter().filter(|(name, _)| name.starts_with("good")).collect();
    assert_eq!(good.len(), 12);
    for (name, token) in good {
        let bearer = format!("Bearer {token}");
        assert_eq!(status(&larder, 1, "shop:1", &bearer), "200", "{name}");
        assert_eq!(status(&larder, 1, "other", &bearer), "403", "{name}");
        assert_eq!(status(&larder, 1, "shop:1", &basic("shop", token)), "200", "{name}");
        for args in [vec!["AUTH", "shop", token], vec!["AUTH", token]] {
            assert_eq!(say(&larder, 1, &args), "+OK\r\n$4\r\nshop\r\n+OK\r\n", "{name}");
        }
        let hello = say(&larder, 1, &["HELLO", "3", "AUTH", "shop", token]);
        assert!(hello.starts_with("%7\r\n") && hello.ends_with("$4\r\nshop\r\n+OK\r\n"), "{name}: {hello}");
    }
    // A token is its own user's alone.
    let token = &tokens["good RS256"];
    assert!(say(&larder, 2, &["AUTH", "admin", token]).starts_with("-WRONGPASS"));
    assert!(say(&larder, 2, &["AUTH", "nobody", token]).starts_with("-WRONGPASS"));
    assert_eq!(status(&larder, 2, "shop:1", &basic("admin", token)), "401");
    // Passwords go on as before.
    assert_eq!(status(&larder, 2, "other", "Bearer a"), "200");
}

#[test]
#[ignore = "make test-clients"]
fn forged_tokens_are_refused_logged_and_slowed_down() {
    let (_issuer, mut tokens, mut larder) = start();
    tokens.retain(|name, _| !name.starts_with("good") && name != "ends soon");
    assert!(tokens.len() > 25, "{}", tokens.len());
    for (at, (name, token)) in tokens.iter().enumerate() {
        let host = u8::try_from(at + 2).unwrap();
        let answer = status(&larder, host, "shop:1", &format!("Bearer {token}"));
        assert!(answer == "401" || name == "too long" && answer == "431", "{name}: {answer}");
        for user in [Some("shop"), None, Some("admin"), Some("nobody"), Some("off")] {
            let args: Vec<&str> = ["AUTH"].into_iter().chain(user).chain([token.as_str()]).collect();
            let answer = say(&larder, host, &args);
            // Redis takes no long arguments of clients that have not logged in.
            let is_cut = name == "too long" && answer.starts_with("-ERR Protocol error: unauthenticated");
            let is_refused = answer.starts_with("-WRONGPASS ") && answer.contains("-NOAUTH");
            assert!(is_refused || is_cut, "{name}: {answer}");
        }
    }
    let metrics = format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\nauthorization: {}\r\nconnection: close\r\n\r\n",
        basic("admin", "a")
    );
    let metrics = String::from_utf8(larder.admin(&metrics).2).unwrap();
    let failed = metrics.lines().find_map(|line| line.strip_prefix("larder_refused_total{reason=\"login\"} ")).unwrap();
    assert!(failed.parse::<usize>().unwrap() >= 5 * tokens.len() - 10, "{failed}");
    // An address that has failed too often is not looked at, whatever it sends.
    let last = fail_often(&larder, &tokens["expired"]);
    assert!(last.contains("too many failed logins"), "{last}");
    // Why is in the log; tokens are not.
    larder.signal(Signal::TERM);
    larder.wait();
    let log = larder.stderr();
    for why in
        ["the signature is wrong", "the token has expired (exp)", "(alg)", "has this kid", "jwt-audience", "jwt-issuer"]
    {
        assert!(log.contains(why), "{why} is not in {log}");
    }
    assert!(tokens.values().all(|token| token.split('.').all(|part| part.len() < 20 || !log.contains(part))), "{log}");
}

/// Redis over HTTP administers the server for a token that was verified, and for no other.
#[test]
#[ignore = "make test-clients"]
fn a_token_is_a_login_for_what_administers_the_server() {
    let issuer = Issuer(tempfile::tempdir().unwrap());
    let tokens = issuer.tokens(0);
    fs::write(issuer.path("users.acl"), "user default on nopass +@all ~*\nuser shop on +@all ~*\n").unwrap();
    let larder = Larder::start(&[
        &format!("--users-file={}", issuer.path("users.acl")),
        &format!("--jwt-jwks={}", issuer.path("jwks.json")),
        "--jwt-issuer=https://login.example.com/",
        "--jwt-audience=cache,larder",
    ]);
    let command = r#"["CONFIG","SET","slowlog-max-len","7"]"#;
    let status = |host: u8, target: &str, header: &str| {
        let request = format!(
            "POST {target} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n{header}\r\n{command}",
            command.len()
        );
        let answer = exchange(from(host, larder.http), request.as_bytes());
        answer.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    let good = &tokens["good RS256"];
    assert_eq!(status(1, "/redis", &format!("authorization: Bearer {good}\r\n")), "200");
    assert_eq!(status(1, &format!("/redis?_token={good}"), ""), "200");
    assert_eq!(status(1, "/redis", ""), "403");
    let forged = tokens.iter().filter(|(name, _)| !name.starts_with("good") && *name != "ends soon");
    for (host, (name, token)) in (2..).zip(forged) {
        let answer = status(host, "/redis", &format!("authorization: Bearer {token}\r\n"));
        // It is no password of a user without one either, or that proves nothing.
        assert!(["401", "403", "431"].contains(&&*answer), "{name}: {answer}");
    }
}

/// Fails often from an address of its own, and says what it is told at last.
fn fail_often(larder: &Larder, token: &str) -> String {
    for _ in 0..20 {
        say(larder, 200, &["AUTH", "shop", token]);
    }
    say(larder, 200, &["AUTH", "shop", token])
}

#[test]
#[ignore = "make test-clients"]
fn logins_end_with_their_token_and_with_their_key() {
    let (issuer, old, larder) = start();
    let old = format!("Bearer {}", old["good RS256"]);
    assert_eq!(status(&larder, 1, "shop:1", &old), "200");
    let mut kept = from(1, larder.http);
    let answers = |stream: &mut std::net::TcpStream, authorization: &str, expected: &str| {
        stream.write_all(get("shop:1", authorization, "").as_bytes()).unwrap();
        let mut answer = String::new();
        super::larder::skip_until(stream, b"HTTP/1.1 ");
        answer.push_str(&String::from_utf8(super::larder::read_line(stream)).unwrap());
        assert!(answer.starts_with(expected), "{answer}");
    };
    answers(&mut kept, &old, "200");
    // Other keys, at once: what was verified with the old ones counts no more, on open connections
    // either.
    let new = issuer.tokens(6);
    larder.signal(Signal::HUP);
    let soon = &new["ends soon"];
    wait_until("the new keys", || status(&larder, 3, "shop:1", &format!("Bearer {soon}")) == "200");
    answers(&mut kept, &old, "401");
    assert_eq!(status(&larder, 1, "shop:1", &old), "401");
    // A file that is wrong changes nothing.
    fs::write(issuer.path("jwks.json"), "{\"keys\":[]}").unwrap();
    let (code, _, body) = larder.admin(&format!(
        "POST /v1/config/reload HTTP/1.1\r\nhost: x\r\nauthorization: {}\r\nconnection: close\r\n\r\n",
        basic("admin", "a")
    ));
    let body = String::from_utf8(body).unwrap();
    assert!(code >= 400 && body.contains("jwt-jwks"), "{code} {body}");
    // Until the token ends.
    let mut idle = Client::connect(larder.redis).unwrap();
    assert_eq!(idle.command(&["AUTH", soon]), Reply::ok());
    let mut subscriber = from(1, larder.redis);
    subscriber.write_all(&[encode(&[b"AUTH", soon.as_bytes()]), encode(&[b"SUBSCRIBE", b"shop:1"])].concat()).unwrap();
    expect(&mut subscriber, b"+OK\r\n*3\r\n$9\r\nsubscribe\r\n$6\r\nshop:1\r\n:1\r\n");
    let mut events = from(1, larder.http);
    let follow = format!("POST /redis/subscribe/shop:1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {soon}\r\n\r\n");
    events.write_all(follow.as_bytes()).unwrap();
    super::larder::skip_until(&mut events, b"data: subscribe,shop:1,1\n\n");
    let mut again = Client::connect(larder.redis).unwrap();
    assert_eq!(again.command(&["AUTH", soon]), Reply::ok());
    // A client that logs in again in time goes on.
    assert_eq!(again.command(&["AUTH", &new["good ES256"]]), Reply::ok());
    let mut kept = from(1, larder.http);
    answers(&mut kept, &format!("Bearer {soon}"), "200");
    expect_end(&mut subscriber);
    // The last chunk of the stream.
    super::larder::skip_until(&mut events, b"\r\n0\r\n\r\n");
    wait_until("the end of the idle", || !idle.is_open());
    answers(&mut kept, &format!("Bearer {soon}"), "401");
    assert_eq!(again.command(&["ACL", "WHOAMI"]), Reply::bulk("shop"));
}
