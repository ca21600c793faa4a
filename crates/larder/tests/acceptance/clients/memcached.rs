//! Released clients of memcached: against Debian's memcached, Larder alone and Larder in front of a
//! Redis, which keeps no client flags.
use super::{
    page::{row, rows},
    programs::{passed, run},
};
use crate::{
    common::{Port, RedisServer, wait_until},
    larder::Larder,
};
use std::{
    net::TcpStream,
    process::{Child, Command, Stdio},
};

/// Name, command line in `.deps`, and whether it is Debian's.
const CLIENTS: [(&str, &str, bool); 4] = [
    ("pymemcache (Python)", "python/bin/python ../tests/clients/python/memcached_client.py", false),
    ("gomemcache (Go)", "go-matrix/memcached", false),
    ("spymemcached (Java)", "java -cp java/memcached:java/memcached/* MemcachedChecks", false),
    ("php-memcached (PHP)", "php ../tests/clients/php/memcached_client.php", true),
];
const CHECKS: [&str; 12] = [
    "connect", "strings", "many", "expiry", "delete", "counters", "cas", "binary", "large", "errors", "parallel",
    "flush",
];

/// Debian's memcached on a port of its own, killed when dropped.
struct Memcached(Child);
impl Drop for Memcached {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Goes through the checks with all servers.
fn try_out(name: &str) {
    let (name, command, is_debians) = *CLIENTS.iter().find(|client| client.0 == name).unwrap();
    let port = Port::free();
    let _memcached = Memcached(
        Command::new("memcached")
            .args(["-u", "root", "-U", "0", "-l", "127.0.0.1", "-p", &port.number.to_string()])
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    wait_until("memcached to listen", || TcpStream::connect(("127.0.0.1", port.number)).is_ok());
    let report = run(command, port.number, &["c"]);
    let direct = passed(report.demands(&CHECKS));
    let larder = Larder::start(&["--threads", "2", "--memcached", "127.0.0.1:0"]);
    let alone = passed(run(command, larder.memcached[0], &["c"]).demands(&CHECKS));
    let redis = RedisServer::start();
    let larder = Larder::start(&["--threads", "2", "--memcached", "127.0.0.1:0", "--source", &redis.url()]);
    let before = passed(run(command, larder.memcached[0], &["c", "redis"]).demands(&CHECKS));
    assert!(redis.calls("set") > 100, "what it wrote is in Redis");
    row("memcached clients", &[name, &report.version, &direct, &alone, &before], is_debians);
}

#[test]
fn pymemcache() {
    try_out("pymemcache (Python)");
}
#[test]
fn gomemcache() {
    try_out("gomemcache (Go)");
}
#[test]
fn spymemcached() {
    try_out("spymemcached (Java)");
}
#[test]
fn php_memcached() {
    try_out("php-memcached (PHP)");
}

#[test]
fn the_table_has_each_client_and_no_other() {
    let output = Command::new("memcached").arg("-V").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    let head = ["client", "version", version.trim(), "Larder alone", "Larder in front of Redis"];
    rows("memcached clients", &head, &CLIENTS.map(|client| client.0));
}
