//! Certificates of clients: required, optional, and wrong.
use super::{
    certificates::{Authority, Files, text},
    common::wait_until,
    larder::Larder,
    programs::{curl, curl_args, larder, redis_cli, run},
};

/// How curl's attempt with this certificate ends: what the server says, or what curl does.
fn attempt(authority: &Authority, larder: &Larder, shown: Option<&Files>, more: &[&str]) -> Result<String, String> {
    let (ca, connect) = (authority.file(), format!("::127.0.0.1:{}", larder.https[0]));
    let url = format!("https://a.test:{}/healthz", larder.https[0]);
    let own: Vec<&str> = shown.map_or(Vec::new(), |of| vec!["--cert", text(&of.cert), "--key", text(&of.key)]);
    let done = run("curl", &[&curl_args(&ca, &connect)[..], &own, more, &[&url]].concat(), b"");
    match done.status.success() {
        true => Ok(String::from_utf8(done.stdout).unwrap()),
        false => Err(String::from_utf8(done.stderr).unwrap()),
    }
}

#[test]
fn required() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let files = servers.issue("a", &["a.test", "127.0.0.1"]);
    let ca = format!("--tls-client-ca={}", text(&clients.file()));
    let larder = larder(&[&files], &[&ca]);
    let client = clients.issue("client", &["client.test"]);
    for version in ["1.2", "1.3"] {
        let version = ["--tls-max", version];
        assert_eq!(attempt(&servers, &larder, Some(&client), &version).unwrap(), "ok\n");
        attempt(&servers, &larder, None, &version).unwrap_err();
        attempt(&servers, &larder, Some(&strangers.issue("client", &["client.test"])), &version).unwrap_err();
        let expired = clients.issue_for("expired", &["client.test"], -7200, -3600);
        attempt(&servers, &larder, Some(&expired), &version).unwrap_err();
    }
    wait_until("all to be counted", || larder.metric("larder_tls_failed_handshakes_total{reason=\"failed\"}") == 6.0);
    let shown = ["--cert", text(&client.cert), "--key", text(&client.key)];
    assert_eq!(redis_cli(&servers, larder.rediss[0], &shown, &["PING"]), "PONG\n");
}

#[test]
fn optional() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let ca = format!("--tls-client-ca={}", text(&clients.file()));
    let larder = larder(&[&servers.issue("a", &["a.test"])], &[&ca, "--tls-client-auth=optional"]);
    assert_eq!(attempt(&servers, &larder, None, &[]).unwrap(), "ok\n");
    assert_eq!(attempt(&servers, &larder, Some(&clients.issue("c", &["c.test"])), &[]).unwrap(), "ok\n");
    attempt(&servers, &larder, Some(&strangers.issue("c", &["c.test"])), &[]).unwrap_err();
    assert_eq!(curl(&servers, larder.https[0], "a.test", "/healthz", &[]), "ok\n");
}
