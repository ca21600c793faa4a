//! Secrets show nowhere: every text that Larder gives away is searched for them.
use super::{
    common::{RedisServer, Reply},
    larder::{Larder, binary, encode},
    sockets::{exchange, from},
};
use rustix::process::Signal;
use std::{fs, io::Write as _, process::Command};

/// Each is in one place of the configuration, or is what a client sends.
const SECRETS: [(&str, &str); 9] = [
    ("password", "s3cret-of-default"),
    ("peer", "s3cret-of-peers"),
    ("replication", "s3cret-of-replicas"),
    ("source", "s3cret-of-source"),
    ("header", "s3cret-of-header"),
    ("bucket", "s3cret-of-bucket"),
    ("user", "s3cret-of-a-user"),
    ("wrong", "s3cret-guessed"),
    ("set", "s3cret-set-later"),
];
fn secret(name: &str) -> &'static str {
    SECRETS.iter().find(|(known, _)| *known == name).unwrap().1
}

#[test]
fn secrets_show_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let redis = RedisServer::with(&["--requirepass", secret("source")]);
    for (file, of) in [("password", "password"), ("peer", "peer"), ("replication", "replication")] {
        fs::write(path(file), secret(of)).unwrap();
    }
    fs::write(path("users"), format!("user shop on >{} ~* &* +@all\n", secret("user"))).unwrap();
    fs::write(path("s3"), format!("[default]\naws_access_key_id = id\naws_secret_access_key = {}\n", secret("bucket")))
        .unwrap();
    let config = format!(
        "password = '@{}'\npeer-secret = '@{}'\nreplication-secret = '@{}'\nusers-file = '{}'\n\
         source = 'redis://:{}@127.0.0.1:{}'\nsnapshot-file = 's3://bucket/key?credentials={}&endpoint=http://127.0.0.1:1'\n\
         log-level = 'debug'\naccess-log = '100%'\n\
         [groups.api]\nmax-memory = '1MiB'\nsource = 'http://127.0.0.1:1/{{key}}'\nsource-headers = ['Authorization: Bearer {}']\n",
        path("password"),
        path("peer"),
        path("replication"),
        path("users"),
        secret("source"),
        redis.port(),
        path("s3"),
        secret("header"),
    );
    fs::write(path("larder.toml"), config).unwrap();
    let mut shown = String::new();
    // The commands of the configuration.
    for args in [&["config", "print"][..], &["config", "check"], &["serve", "--redis=nonsense"]] {
        let output = Command::new(binary()).env_clear().args(args).args(["--config", &path("larder.toml")]).output();
        let output = output.unwrap();
        shown += &format!("\n{args:?}\n{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
    // Debug logs fill an unread pipe.
    let mut larder = Larder::start(&["--config", &path("larder.toml"), "--log-level=info"]);
    let mut admin = larder.client();
    assert_eq!(admin.command(&["AUTH", secret("password")]), Reply::ok());
    let mut monitor = from(1, larder.redis);
    let log_in = encode(&[b"AUTH", b"shop", secret("user").as_bytes()]);
    monitor.write_all(&[log_in, encode(&[b"MONITOR"])].concat()).unwrap();
    super::larder::expect(&mut monitor, b"+OK\r\n+OK\r\n");
    for args in [
        &["AUTH", "shop", secret("wrong")][..],
        &["AUTH", secret("wrong")],
        &["AUTH", "shop", secret("user")],
        &["HELLO", "3", "AUTH", "shop", secret("user"), "SETNAME", "n"],
        &["HELLO", "3", "AUTH", "shop", secret("wrong")],
        &["HELLO", "9", "AUTH", "shop", secret("user")],
        &["AUTH", "shop", secret("user"), "extra"],
    ] {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        shown += &exchange(from(2, larder.redis), &[encode(&args), encode(&[b"QUIT"])].concat());
    }
    for args in [
        &["ACL", "SETUSER", "later", "on", &format!(">{}", secret("set")), "~*", "+@all"][..],
        &["CONFIG", "SET", "requirepass", secret("set")],
        &["CONFIG", "SET", "masterauth", secret("set")],
        &["ACL", "LIST"],
        &["ACL", "LOG"],
        &["CONFIG", "GET", "*"],
        &["CLIENT", "LIST"],
        &["CLIENT", "INFO"],
        &["INFO", "everything"],
        &["SLOWLOG", "GET", "128"],
        &["LATENCY", "DOCTOR"],
        &["ROLE"],
        &["COMMAND", "COUNT"],
        &["BGSAVE"],
    ] {
        shown += &format!("\n{args:?}\n").replace(secret("set"), "").replace(secret("wrong"), "");
        shown += &format!("{:?}", admin.command(args));
    }
    let basic = |user: &str, password: &str| {
        use base64::{Engine as _, prelude::BASE64_STANDARD};
        format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
    };
    let good = basic("default", secret("password"));
    let bearer = format!("Bearer {}", secret("wrong"));
    // An address has a number of failed logins: each request has its own.
    for (at, (port, line)) in (10..).zip([
        (larder.http, "GET /v1/kv/k"),
        (larder.http, "GET /v1/groups/api/kv/k"),
        (larder.http, "GET /v1/peers"),
        (larder.http, "GET /_groupcache/default/k"),
        (larder.http, "GET /stats"),
        (larder.admin, "GET /metrics"),
        (larder.admin, "GET /v1/stats"),
        (larder.admin, "GET /v1/snapshot"),
        (larder.admin, "GET /v1/config/reload"),
        (larder.admin, "POST /v1/config/reload"),
        (larder.admin, "POST /v1/snapshot"),
        (larder.admin, "GET /readyz"),
    ]) {
        for shows in [&good, &basic("shop", secret("wrong")), &bearer] {
            let request = format!(
                "{line} HTTP/1.1\r\nhost: x\r\nauthorization: {shows}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            );
            shown += &format!("\n{line}\n{}", exchange(from(at, port), request.as_bytes()));
        }
    }
    // Other secrets in the files: a reload says that they need a restart.
    fs::write(path("password"), secret("set")).unwrap();
    fs::write(path("larder.toml"), fs::read_to_string(path("larder.toml")).unwrap().replace("-of-header", "-of-later"))
        .unwrap();
    let diff = exchange(
        from(3, larder.admin),
        format!("GET /v1/config/reload HTTP/1.1\r\nhost: x\r\nauthorization: {good}\r\nconnection: close\r\n\r\n")
            .as_bytes(),
    );
    assert!(diff.contains("\"password\"") && diff.contains("source-headers"), "{diff}");
    shown += &diff;
    let process = larder.id();
    shown += &fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap();
    shown += &fs::read_to_string(format!("/proc/{process}/environ")).unwrap();
    larder.signal(Signal::TERM);
    larder.wait();
    let mut seen = String::new();
    let _ = std::io::Read::read_to_string(&mut monitor, &mut seen);
    assert!(seen.contains("\"CLIENT\"") || seen.to_lowercase().contains("\"client\""), "{seen}");
    let log = larder.stderr();
    assert!(log.contains("a login failed") && log.contains("a login over HTTP failed"), "{log}");
    shown += &(seen + &larder.rest_of_stdout() + &log);
    assert!(shown.contains("NOAUTH") || shown.contains("WRONGPASS"), "something was answered");
    for (name, text) in SECRETS {
        for form in [text.to_owned(), basic("shop", text)[6..].to_owned(), basic("default", text)[6..].to_owned()] {
            let at = shown.find(&form);
            let around = at.map(|at| &shown[shown.floor_char_boundary(at.saturating_sub(300))..at]);
            assert!(around.is_none(), "the secret {name} shows: {}", around.unwrap_or_default().escape_debug());
        }
    }
    assert!(!shown.contains("s3cret-of-later"), "a secret of the new file shows");
}
