//! Unix sockets: every kind of listener, over both transports, with other people's clients; and what
//! becomes of the socket's file.
use super::{
    certificates::Authority,
    common::{RedisServer, wait_until},
    larder::{Larder, binary, connect, read_line},
    programs::{output, run},
};
use rustix::process::Signal;
use std::{
    fs,
    io::{Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    process::{Command, Stdio},
};
use tempfile::TempDir;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What comes back for these bytes until the connection ends.
fn exchange(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A connection may be reset after the answer.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// A start that fails: what it says.
fn refused(args: &[&str]) -> String {
    let others = ["--http=off", "--admin=off", "--redis=127.0.0.1:0", "--max-memory=16MiB"];
    let output = Command::new(binary()).env_clear().arg("serve").args(others).args(args).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_listener_over_both_transports() {
    for transport in ["epoll", "io-uring"] {
        let dir = TempDir::new().unwrap();
        let [redis, http, memcached] = ["r", "h", "m"].map(|name| dir.path().join(name));
        let [rediss, https, memcacheds] = ["rs", "hs", "ms"].map(|name| dir.path().join(name));
        let authority = Authority::new();
        let files = authority.issue("a", &["a.test"]);
        let plain = [("redis", &redis), ("http", &http), ("memcached", &memcached)];
        let tls = [("rediss", &rediss), ("https", &https), ("memcacheds", &memcacheds)];
        let mut args: Vec<String> =
            plain.iter().chain(&tls).map(|(name, path)| format!("--{name}=unix:{}", text(path))).collect();
        args.extend(files.flags());
        args.push(format!("--transport={transport}"));
        let larder = Larder::start(&args.iter().map(String::as_str).collect::<Vec<_>>());

        // redis-cli, curl, and the same value for all.
        assert_eq!(output("redis-cli", &["-s", text(&redis), "SET", "k", "over a socket"], b""), "OK\n");
        assert_eq!(output("redis-cli", &["-3", "-s", text(&redis), "GET", "k"], b""), "over a socket\n");
        let curl = |socket: &Path, url: &str, more: &[&str]| {
            let args = ["-sS", "--max-time", "60", "--unix-socket", text(socket), url];
            output("curl", &[&args[..], more].concat(), b"")
        };
        assert_eq!(curl(&http, "http://localhost/v1/kv/k", &[]), "over a socket");
        // A sidecar proxy may pass on any name: no page of another site reaches a Unix socket.
        assert_eq!(curl(&http, "http://larder.example.com/v1/kv/k", &[]), "over a socket");
        let ca = authority.file();
        assert_eq!(curl(&https, "https://a.test/v1/kv/k", &["--cacert", text(&ca)]), "over a socket");
        let answer = exchange(&memcached, b"get k\r\nstats settings\r\nquit\r\n");
        assert!(answer.starts_with("VALUE k 0 13\r\nover a socket\r\nEND\r\n"), "{answer}");
        assert!(
            answer
                .contains(&format!("STAT tcpport 0\r\nSTAT udpport 0\r\nSTAT domain_socket {}\r\n", text(&memcached))),
            "{answer}"
        );

        // Values larger than a socket takes at once, and many requests at once.
        let large = "x".repeat(3_000_000);
        let set = format!("SET large {}\r\n", "y".repeat(10_000));
        let many = [set.as_bytes(), b"GET large\r\n".repeat(500).as_slice(), b"QUIT\r\n"].concat();
        assert_eq!(exchange(&redis, &many).matches("$10000\r\n").count(), 500);
        let file = dir.path().join("value");
        fs::write(&file, &large).unwrap();
        curl(&http, "http://localhost/v1/kv/large", &["-T", text(&file)]);
        assert!(curl(&http, "http://localhost/v1/kv/large", &[]) == large);
        assert!(output("redis-cli", &["-s", text(&redis), "GET", "large"], b"").trim_end() == large);

        // As Redis shows such clients.
        let info = exchange(&redis, b"CLIENT INFO\r\nQUIT\r\n");
        let address = format!("{}:0", redis.display());
        assert!(info.contains(&format!(" addr={address} laddr={address} ")), "{info}");
        assert!(info.contains(" flags=U "), "{info}");
        let mut stream = UnixStream::connect(&redis).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        stream.read_exact(&mut [0; 7]).unwrap();
        let kill = exchange(&redis, format!("CLIENT KILL ADDR {address} SKIPME yes\r\nQUIT\r\n").as_bytes());
        assert_eq!(kill, ":1\r\n+OK\r\n");
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "it is closed");

        // Plain bytes to a TLS listener get an explanation here, too.
        assert!(exchange(&rediss, b"PING\r\n").starts_with("-ERR this port speaks TLS"));
        assert!(exchange(&memcacheds, b"version\r\n").contains("TLS"));
        drop(larder);
    }
}

#[test]
fn the_ready_line_the_client_and_the_admin_listener() {
    let dir = TempDir::new().unwrap();
    let [redis, admin] = ["r", "a"].map(|name| dir.path().join(name));
    let gid = fs::metadata(dir.path()).unwrap().gid();
    let mut child = Command::new(binary())
        .env_clear()
        .args(["serve", "--http=off", "--max-memory=16MiB"])
        .arg(format!("--redis=unix:{}?mode=0666&group={gid}", text(&redis)))
        .arg(format!("--admin=unix:{}", text(&admin)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line).unwrap();
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(ready["redis"], serde_json::json!([format!("unix:{}", text(&redis))]));
    assert_eq!(ready["admin"], format!("unix:{}", text(&admin)));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&redis), mode(&admin)), (0o666, 0o600));

    let url = format!("unix://{}", text(&redis));
    let client = |args: &[&str]| output(text(&binary()), &[args, &["--url", &url]].concat(), b"");
    assert_eq!(client(&["set", "k", "v"]), "");
    assert_eq!(client(&["get", "k"]), "v");
    let metrics = output("curl", &["-sS", "--unix-socket", text(&admin), "http://localhost/metrics"], b"");
    assert!(metrics.contains("larder_"), "{metrics}");

    // A clean stop removes the files.
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!redis.exists() && !admin.exists());
}

#[test]
fn the_file_of_a_dead_process_is_replaced_and_that_of_a_living_one_stays() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("redis.sock");
    let arg = format!("--redis=unix:{}", text(&socket));
    let mut first = Larder::start(&[&arg]);
    let said = refused(&[&arg]);
    assert!(said.contains(&format!("cannot listen on unix:{} (--redis)", text(&socket))), "{said}");
    assert!(said.contains("another process listens on this socket"), "{said}");
    assert_eq!(exchange(&socket, b"QUIT\r\n"), "+OK\r\n", "the first still serves");

    first.signal(Signal::KILL);
    first.wait();
    assert!(socket.exists());
    let mut second = Larder::start(&[&arg]);
    assert_eq!(exchange(&socket, b"QUIT\r\n"), "+OK\r\n");

    // The file of the next process is not removed by the one before.
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    second.signal(Signal::TERM);
    assert!(second.wait().0.success());
    assert!(socket.exists());
}

#[test]
fn what_is_no_socket_stays_and_other_errors_say_what_to_do() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("data");
    fs::write(&file, "precious").unwrap();
    let said = refused(&[&format!("--redis=unix:{}", text(&file))]);
    assert!(said.contains("the file exists and is not a socket"), "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let said = refused(&[&format!("--redis=unix:{}/no/folder", text(dir.path()))]);
    assert!(said.contains("create the folder of"), "{said}");
    let socket = dir.path().join("s");
    let said = refused(&[&format!("--redis=unix:{}?group=no-such-group", text(&socket))]);
    assert!(said.contains("/etc/group has no group `no-such-group`"), "{said}");
    assert!(!socket.exists());
    let twice = format!("--redis=unix:{}", text(&socket));
    assert!(refused(&[&twice, &twice]).contains("is already taken by redis"));
    let long = format!("--memcached=unix:/{}", "x".repeat(120));
    assert!(refused(&[&long]).contains("has at most 103 bytes"));
}

/// Clients of a Unix socket count as 127.0.0.1: for trusted proxies, and for limits on connections.
#[test]
fn proxies_and_limits() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("redis.sock");
    let arg = format!("--redis=unix:{}", text(&socket));
    let larder = Larder::start(&[&arg, "--trusted-proxies=127.0.0.1", "--proxy-protocol=required"]);
    let header = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 6379\r\nCLIENT INFO\r\nQUIT\r\n";
    let info = exchange(&socket, header);
    assert!(info.contains(&format!(" addr=192.0.2.1:56324 laddr={}:0 ", text(&socket))), "{info}");
    assert!(exchange(&socket, b"PING\r\n").starts_with("-ERR PROXY protocol: "));
    drop(larder);

    let larder = Larder::start(&[&arg, "--max-connections=2"]);
    let held = [connect(larder.redis), connect(larder.redis)];
    wait_until("a refusal", || exchange(&socket, b"").contains("max number of clients reached"));
    drop(held);
    wait_until("a place", || exchange(&socket, b"QUIT\r\n") == "+OK\r\n");
}

/// Names in `Host` are checked where they are listed, and a PROXY header counts at HTTP, too.
#[test]
fn listed_hosts_and_proxies_of_http() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("http.sock");
    let arg = format!("--http=unix:{}", text(&socket));
    let larder = Larder::start(&[&arg, "--allowed-hosts=shop.example"]);
    let get = |host: &str| {
        exchange(&socket, format!("GET /v1/kv/k HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").as_bytes())
    };
    assert!(get("shop.example").starts_with("HTTP/1.1 404 "), "{}", get("shop.example"));
    assert!(get("other.example").starts_with("HTTP/1.1 403 "), "{}", get("other.example"));
    drop(larder);

    let _larder = Larder::start(&[&arg, "--trusted-proxies=127.0.0.1", "--proxy-protocol=required"]);
    assert!(get("a").starts_with("HTTP/1.1 400 "), "{}", get("a"));
    let header = "PROXY TCP4 192.0.2.1 198.51.100.1 56324 80\r\n";
    let request = format!("{header}GET /v1/kv/k HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    assert!(exchange(&socket, request.as_bytes()).starts_with("HTTP/1.1 404 "));
}

/// Redis shows a client of a Unix socket by the socket's path.
#[test]
fn monitor_and_slow_log_name_the_socket() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("redis.sock");
    let arg = format!("--redis=unix:{}", text(&socket));
    let redis = RedisServer::start();
    let larder = Larder::start(&[&arg, "--source", &redis.url()]);
    let mut monitor = connect(larder.redis);
    monitor.write_all(b"MONITOR\r\n").unwrap();
    assert_eq!(read_line(&mut monitor), b"+OK");
    // Redis shows what it gets, Larder adds the hit.
    for command in ["SET seen 1", "GET seen", "GET seen"] {
        exchange(&socket, format!("{command}\r\nQUIT\r\n").as_bytes());
    }
    let shown = || String::from_utf8(read_line(&mut monitor)).unwrap();
    let line = std::iter::repeat_with(shown).find(|line| line.contains("unix:")).unwrap();
    assert!(line.contains(&format!("[0 unix:{}] \"GET\" \"seen\"", text(&socket))), "{line}");
    drop(larder);

    let _larder = Larder::start(&[&arg, "--slowlog-log-slower-than=0ms"]);
    exchange(&socket, b"SET seen 1\r\nQUIT\r\n");
    let log = exchange(&socket, b"SLOWLOG GET 10\r\nQUIT\r\n");
    assert!(log.contains(&format!("{}:0\r\n", text(&socket))), "{log}");
}

#[test]
#[ignore = "make test-clients"]
fn redis_py_over_a_socket() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("redis.sock");
    let _larder = Larder::start(&[&format!("--redis=unix:{}", text(&socket))]);
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.deps/python/bin/python");
    let script = r#"
import redis, sys
for client in (redis.Redis(unix_socket_path=sys.argv[1]), redis.from_url("unix://" + sys.argv[1], protocol=3)):
    client.set("k", b"v" * 100000)
    assert client.get("k") == b"v" * 100000
    pipeline = client.pipeline()
    for at in range(2000):
        pipeline.set(f"key:{at}", at)
    assert all(pipeline.execute())
    assert client.client_info()["addr"] == sys.argv[1] + ":0"
print("done")
"#;
    let ran = run(text(&python), &["-c", script, text(&socket)], b"");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", String::from_utf8_lossy(&ran.stderr));
}
