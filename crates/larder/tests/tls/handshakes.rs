//! Handshakes that fail, take long, or come all at once.
use super::{
    certificates::{Authority, text},
    common::{PATIENCE, Reply, wait_until},
    larder::{Larder, connect, encode, expect},
    programs::{larder, openssl, redis_cli, run},
};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};

/// A client's configuration that resumes no session.
fn config(authority: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config =
        builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

fn client(config: &Arc<ClientConfig>, port: u16) -> StreamOwned<ClientConnection, TcpStream> {
    let session = ClientConnection::new(config.clone(), ServerName::try_from("a.test").unwrap()).unwrap();
    StreamOwned::new(session, connect(port))
}

/// What comes until the server ends the connection.
fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    // A reset is an end, too.
    let _ = stream.read_to_end(&mut all);
    all
}

fn failed(larder: &Larder, reason: &str) -> f64 {
    larder.metric(&format!("larder_tls_failed_handshakes_total{{reason=\"{reason}\"}}"))
}

#[test]
fn plain_clients_are_told() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &[]);
    let mut stream = connect(larder.https[0]);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let answer = String::from_utf8(rest(&stream)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.contains("write https://"), "{answer}");
    let mut stream = connect(larder.rediss[0]);
    stream.write_all(&encode(&[b"PING"])).unwrap();
    let answer = String::from_utf8(rest(&stream)).unwrap();
    assert!(answer.starts_with("-ERR this port speaks TLS"), "{answer}");
    wait_until("both to be counted", || failed(&larder, "not_tls") == 2.0);
}

#[test]
fn tls_clients_of_plain_listeners_are_counted() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &[]);
    assert!(!openssl(larder.redis, &[], b"").contains("Server certificate"));
    wait_until("it to be counted", || larder.metric("larder_cross_protocol_total{request=\"tls\"}") == 1.0);
    assert!(!openssl(larder.http, &[], b"").contains("Server certificate"));
    assert_eq!(larder.metric("larder_protocol_errors_total{protocol=\"http\"}"), 1.0);
    let mut larder = larder;
    larder.signal(rustix::process::Signal::TERM);
    assert!(larder.wait().0.success());
    let log = larder.stderr();
    assert!(log.contains("a request of TLS") && log.contains("TLS on a plain HTTP listener"), "{log}");
}

#[test]
fn garbage_and_slow_clients_are_dropped() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &["--header-timeout=300ms"]);
    for port in [larder.https[0], larder.rediss[0]] {
        // A record of a length that is too large, one of no known version, one that breaks off.
        for garbage in [
            &b"\x16\x03\x01\xff\xff\x01"[..],
            b"\x16\x09\x09\x00\x05hello",
            b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        ] {
            let mut stream = connect(port);
            stream.write_all(garbage).unwrap();
            // At most an alert comes back.
            assert!(rest(&stream).len() <= 7);
        }
        // Nothing at all, one byte, and half of a hello.
        for part in [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
            let mut stream = connect(port);
            stream.write_all(part).unwrap();
            assert_eq!(rest(&stream), b"");
        }
    }
    wait_until("all to be counted", || failed(&larder, "timeout") == 6.0 && failed(&larder, "failed") == 6.0);
    assert_eq!(redis_cli(&authority, larder.rediss[0], &["--sni", "a.test"], &["PING"]), "PONG\n");
}

#[test]
fn handshakes_count_as_connections() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &["--max-connections=3"]);
    let held: Vec<TcpStream> = (0..3).map(|_| connect(larder.rediss[0])).collect();
    let mut refused = connect(larder.rediss[0]);
    // An alert: a fatal internal error.
    expect(&mut refused, &[21, 3, 3, 0, 2, 2, 80]);
    assert_eq!(rest(&refused), b"");
    drop(held);
    wait_until("there to be room again", || {
        redis_cli_once(&authority, larder.rediss[0]).is_some_and(|said| said == "PONG\n")
    });
}

fn redis_cli_once(authority: &Authority, port: u16) -> Option<String> {
    let (ca, port) = (authority.file(), port.to_string());
    let args = ["-h", "127.0.0.1", "-p", &port, "--tls", "--cacert", text(&ca), "PING"];
    String::from_utf8(run("redis-cli", &args, b"").stdout).ok()
}

#[test]
fn a_crowd_of_newcomers_is_served_and_keeps_nobody_waiting() {
    const CROWD: usize = 300;
    let authority = Authority::new();
    // One worker, so that all of them meet.
    let files = authority.issue("a", &["a.test"]);
    let larder = larder(&[&files], &["--threads=1", "--max-connections=2000", "--header-timeout=2s"]);
    let (port, config) = (larder.rediss[0], config(&authority));
    let mut connected = client(&config, port);
    connected.write_all(&encode(&[b"PING"])).unwrap();
    expect(&mut connected, b"+PONG\r\n");
    let newcomers: Vec<_> = (0..CROWD)
        .map(|_| {
            let mut stream = client(&config, port);
            // The hello alone: all of them are there before anybody reads an answer.
            stream.conn.write_tls(&mut stream.sock).unwrap();
            stream
        })
        .collect();
    // While the server answers hellos: a peek sees an unread answer.
    let is_answered = |stream: &StreamOwned<ClientConnection, TcpStream>| {
        stream.sock.set_nonblocking(true).unwrap();
        let peeked = stream.sock.peek(&mut [0]);
        stream.sock.set_nonblocking(false).unwrap();
        matches!(peeked, Ok(1))
    };
    // On a busy machine the server is through with many before the last one came.
    let waiting = newcomers.iter().filter(|stream| !is_answered(stream)).count();
    let mut asked = 0;
    while !newcomers.iter().rev().all(is_answered) {
        connected.write_all(&encode(&[b"PING"])).unwrap();
        expect(&mut connected, b"+PONG\r\n");
        asked += 1;
    }
    for mut stream in newcomers {
        stream.write_all(&encode(&[b"PING"])).unwrap();
        expect(&mut stream, b"+PONG\r\n");
    }
    assert_eq!(larder.metric("larder_tls_handshakes_total{session=\"new\"}"), (CROWD + 1) as f64);
    // A runtime that runs what is ready in order looks for events after 61 tasks.
    assert!(asked >= waiting / 15, "{asked} answers while {waiting} of {CROWD} clients waited");
}

#[test]
fn ten_thousand_handshakes_that_do_not_end_keep_nobody_waiting() {
    const WAVES: usize = 25;
    const WAVE: usize = 400;
    let authority = Authority::new();
    let files = authority.issue("a", &["a.test"]);
    let larder = larder(&[&files], &["--threads=1", "--max-connections=2000", "--max-buffers=32MiB"]);
    let (port, config) = (larder.rediss[0], config(&authority));
    let mut connected = client(&config, port);
    let mut ping = || {
        connected.write_all(&encode(&[b"PING"])).unwrap();
        expect(&mut connected, b"+PONG\r\n");
    };
    ping();
    let before = larder.resident();
    for _ in 0..WAVES {
        let mut wave = Vec::new();
        for number in 0..WAVE {
            let mut stream = client(&config, port);
            stream.conn.write_tls(&mut stream.sock).unwrap();
            wave.push(stream);
            if number % 50 == 0 {
                ping();
            }
        }
        // All have a hello of the server that they never answer.
        for stream in &mut wave {
            assert_eq!(stream.sock.peek(&mut [0]).unwrap(), 1);
        }
        ping();
    }
    let grown = larder.resident().saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes more");
    wait_until("them to be gone", || larder.metric("larder_connections{protocol=\"redis\"}") <= 2.0);
    assert_eq!(redis_cli(&authority, port, &["--sni", "a.test"], &["PING"]), "PONG\n");
}

#[test]
fn the_last_bytes_are_sent_when_there_is_room_again() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &["--threads=1"]);
    let value: Vec<u8> = (0..16_000_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    let set = |key: &[u8], value: &[u8]| assert_eq!(larder.client().command(&[&b"SET"[..], key, value]), Reply::ok());
    set(b"large", &value);
    let config = config(&authority);
    let ask = |key: &str| {
        let mut client = client(&config, larder.rediss[0]);
        client.write_all(&encode(&[b"GET", key.as_bytes()])).unwrap();
        client
    };
    // What sockets and library take of an unread answer: until the count stands still.
    let taken = |before: f64| {
        let (mut last, mut same) = (before, 0);
        wait_until("the server to wait", || {
            let now = larder.metric("larder_sent_bytes_total{protocol=\"redis\"}");
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same >= 20 && now > before
        });
        last
    };
    let before = larder.metric("larder_sent_bytes_total{protocol=\"redis\"}");
    let _unread = ask("large");
    let mut sum = taken(before);
    let most = (sum - before) as usize;
    assert!(most < value.len(), "{most} bytes: all of it");
    // Of these answers the server takes all, and keeps the last part: its socket is full.
    for less in [1_000, 10_000, 20_000, 30_000, 40_000, 50_000, 60_000] {
        let fits = &value[..most - less];
        set(b"fits", fits);
        let mut slow = ask("fits");
        sum = taken(sum);
        let (mut got, mut buffer) = (Vec::new(), [0; 16_384]);
        while got.len() < fits.len() || !ends_with(&got, fits) {
            let read = slow.read(&mut buffer).unwrap();
            assert!(read > 0);
            got.extend_from_slice(&buffer[..read]);
        }
    }
}

/// Whether the value is the end of what was read, but for a line's end.
fn ends_with(got: &[u8], value: &[u8]) -> bool {
    got.strip_suffix(b"\r\n").unwrap_or(got).ends_with(value)
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    let authority = Authority::new();
    let larder = larder(&[&authority.issue("a", &["a.test"])], &["--threads=1"]);
    let value = vec![b'v'; 1 << 20];
    assert_eq!(larder.client().command(&[&b"SET"[..], b"k", &value]), Reply::ok());
    let mut greedy = client(&config(&authority), larder.rediss[0]);
    greedy.sock.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let get = encode(&[b"GET", b"k"]).repeat(1000);
    let start = Instant::now();
    // Until its requests are not taken any more.
    let mut sent = 0;
    while greedy.write_all(&get).and_then(|()| greedy.flush()).is_ok() {
        sent += 1;
        assert!(start.elapsed() < PATIENCE);
    }
    assert!(sent > 0);
    assert!(larder.metric("larder_buffers_bytes{kind=\"redis_output\"}") < (8 << 20) as f64);
    assert_eq!(larder.client().command(&["PING"]), Reply::Simple("PONG".into()));
}
