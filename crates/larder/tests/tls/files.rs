//! Files of certificates and keys: wrong at the start, replaced while Larder runs, at the end of
//! their lives.
use super::{
    certificates::{Authority, text},
    common::wait_until,
    larder::command,
    programs::{larder, openssl},
};
use rustix::process::Signal;
use std::{
    fs,
    io::{Read as _, Write as _},
};

/// The name of the certificate that a client is shown.
fn shown(port: u16) -> String {
    let said = openssl(port, &[], b"");
    let subject = said.lines().find_map(|line| line.trim().strip_prefix("subject=CN = "));
    subject.unwrap_or_else(|| panic!("no certificate: {said}")).to_owned()
}

#[test]
fn wrong_files_stop_the_start() {
    let authority = Authority::new();
    let (a, b) = (authority.issue("a", &["a.test"]), authority.issue("b", &["b.test"]));
    let empty = authority.dir().join("empty");
    fs::write(&empty, "").unwrap();
    let no_file = authority.dir().join("none");
    let (cert, key, ca) = (text(&a.cert), text(&a.key), authority.file());
    for (args, expected) in [
        (
            [cert, text(&b.key), text(&ca)],
            format!("TLS: {}: it is not a key of the certificate in {cert}: ", text(&b.key)),
        ),
        ([text(&empty), key, text(&ca)], format!("TLS: {}: no certificate in it", text(&empty))),
        ([cert, text(&empty), text(&ca)], format!("TLS: {}: ", text(&empty))),
        ([cert, key, text(&empty)], format!("TLS: {}: no certificate in it", text(&empty))),
        ([text(&no_file), key, text(&ca)], format!("TLS: {}: ", text(&no_file))),
        ([key, key, text(&ca)], format!("TLS: {key}: no certificate in it")),
    ] {
        let flags = ["tls-cert", "tls-key", "tls-client-ca"].iter().zip(args);
        let flags = flags.map(|(name, file)| format!("--{name}={file}"));
        let listeners = ["http", "redis", "admin", "https"].map(|name| format!("--{name}=127.0.0.1:0"));
        let done = command().args(listeners).args(flags).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{said}");
        assert!(said.contains(&expected) && said.contains("(setting `tls-"), "{said}");
    }
}

#[test]
fn replaced_files_count_for_new_connections() {
    let authority = Authority::new();
    let files = authority.issue("a", &["127.0.0.1"]);
    let larder = larder(&[&files], &[]);
    let port = larder.rediss[0];
    assert_eq!(shown(port), "a");
    // A client that stays.
    let mut child = std::process::Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "--tls", "--cacert", text(&authority.file())])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut ping = || {
        input.write_all(b"PING\n").unwrap();
        let mut pong = [0; 5];
        output.read_exact(&mut pong).unwrap();
        assert_eq!(&pong, b"PONG\n");
    };
    ping();
    let replace = |name: &str| {
        let new = authority.issue(name, &["127.0.0.1"]);
        // The certificate before its key: for a moment they do not belong together.
        fs::copy(&new.cert, &files.cert).unwrap();
        if name == "c" {
            wait_until("the mismatch to be seen", || {
                larder.metric("larder_tls_reloads_total{result=\"refused\"}") > 0.0
            });
            assert_eq!(shown(port), "b", "what was read before stays");
        }
        fs::copy(&new.key, &files.key).unwrap();
        wait_until("the new certificate", || shown(port) == name);
    };
    replace("b");
    replace("c");
    ping();
    assert_eq!(larder.metric("larder_tls_handshakes_total{session=\"resumed\"}"), 0.0);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn sighup_reads_files_again() {
    let authority = Authority::new();
    let files = authority.issue("a", &["127.0.0.1"]);
    let mut larder = larder(&[&files], &["--log-level=info"]);
    // Files that have not changed are read again by this signal alone.
    larder.signal(Signal::HUP);
    let reloads = || larder.metric("larder_tls_reloads_total{result=\"ok\"}");
    wait_until("the files", || reloads() > 0.0);
    assert_eq!(reloads(), 1.0);
    let new = authority.issue("b", &["127.0.0.1"]);
    fs::copy(&new.cert, &files.cert).unwrap();
    fs::copy(&new.key, &files.key).unwrap();
    larder.signal(Signal::HUP);
    wait_until("the new certificate", || shown(larder.https[0]) == "b");
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    let log = larder.stderr();
    assert!(log.contains("the configuration was read again") && log.contains("certificate read again"), "{log}");
}

#[test]
fn sessions_end_with_the_authorities_that_clients_were_checked_against() {
    let (servers, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let ca = clients.dir().join("trusted");
    fs::copy(clients.file(), &ca).unwrap();
    let flag = format!("--tls-client-ca={}", text(&ca));
    let larder = larder(&[&servers.issue("a", &["127.0.0.1"])], &[&flag]);
    let client = clients.issue("client", &["client.test"]);
    let session = clients.dir().join("session");
    let own = ["-cert", text(&client.cert), "-key", text(&client.key), "-ign_eof"];
    let request = b"GET /healthz HTTP/1.0\r\n\r\n";
    let with = |more: &[&str]| openssl(larder.https[0], &[&own[..], more].concat(), request);
    let out = with(&["-sess_out", text(&session)]);
    assert!(out.contains("200 OK"), "{out}");
    let out = with(&["-sess_in", text(&session)]);
    assert!(out.contains("Reused, ") && out.contains("200 OK"), "{out}");
    fs::copy(others.file(), &ca).unwrap();
    wait_until("the new authority", || larder.metric("larder_tls_reloads_total{result=\"ok\"}") == 1.0);
    let out = with(&["-sess_in", text(&session)]);
    assert!(!out.contains("200 OK"), "{out}");
}

#[test]
fn the_end_of_a_certificate_is_announced() {
    let authority = Authority::new();
    let soon = authority.issue_for("soon", &["a.test"], -60 * 86_400, 5 * 86_400 + 60);
    let over = authority.issue_for("over", &["b.test"], -7200, -3600);
    let early = authority.issue_for("early", &["c.test"], 3600, 86_400);
    let good = authority.issue("good", &["d.test"]);
    let mut larder = larder(&[&soon, &over, &early, &good], &[]);
    let ends = |of: &str| {
        let file = authority.dir().join(format!("{of}.crt"));
        larder.metric(&format!("larder_tls_certificate_expiry_timestamp_seconds{{file=\"{}\"}}", text(&file)))
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    for (name, left) in [("soon", 5.0 * 86_400.0), ("over", -3600.0), ("early", 86_400.0), ("good", 365.0 * 86_400.0)] {
        assert!((ends(name) - now - left).abs() < 300.0, "{name}");
    }
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    let log = larder.stderr();
    let line = |file: &str| {
        let mut of_file = log.lines().filter(|line| line.contains(&format!("/{file}.crt")));
        let line = of_file.next().unwrap_or_default();
        assert_eq!(of_file.next(), None, "{log}");
        line.to_owned()
    };
    assert!(line("soon").contains("expires soon") && line("soon").contains("expires_in=\"5d\""), "{log}");
    assert!(line("over").contains("has expired"), "{log}");
    assert!(line("early").contains("not valid yet"), "{log}");
    assert_eq!(line("good"), "");
}
