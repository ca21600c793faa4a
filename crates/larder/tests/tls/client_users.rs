//! A certificate that names a user (`tls-client-user`), and requests that name another one.
use super::{
    certificates::{Authority, Files, text},
    common::{RedisServer, Reply, wait_until},
    larder::Larder,
    programs::{curl_args, larder, output},
};
use std::fs;

/// What the server answers to a command that administers it, sent from the address 127.0.0.`host`: the
/// status, and the text.
fn administer(authority: &Authority, larder: &Larder, host: u8, more: &[&str], target: &str) -> (String, String) {
    let (ca, connect) = (authority.file(), format!("::127.0.0.1:{}", larder.https[0]));
    let url = format!("https://a.test:{}{target}", larder.https[0]);
    let from = format!("127.0.0.{host}");
    let own =
        ["--interface", &from, "--write-out", "\n%{http_code}", "--data", r#"["CONFIG","SET","slowlog-max-len","7"]"#];
    let said = output("curl", &[&curl_args(&ca, &connect)[..], &own, more, &[&url]].concat(), b"");
    let (text, status) = said.rsplit_once('\n').unwrap();
    (status.to_owned(), text.to_owned())
}

fn shown(files: &Files) -> [&str; 4] {
    ["--cert", text(&files.cert), "--key", text(&files.key)]
}

/// Failed logins make an address wait, so each case has an address of its own.
fn check(larder: &Larder, servers: &Authority, root: &Files, cases: &[(&[&str], &str, &str)]) {
    for (host, (arguments, target, status)) in (2..).zip(cases) {
        let more = [&shown(root)[..], &arguments[..]].concat();
        for round in 0..3 {
            let (got, text) = administer(servers, larder, host, &more, target);
            assert_eq!(got, *status, "{arguments:?} {target}, round {round}: {text}");
        }
    }
}

#[test]
fn a_certificate_is_no_login_for_the_user_of_another_name() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let (files, root) = (servers.issue("a", &["a.test"]), clients.issue("root", &["root.test"]));
    let ca = format!("--tls-client-ca={}", text(&clients.file()));
    let users = servers.dir().join("users.acl");
    let lines = "user default on nopass +@all ~*\nuser app on >a +@all -@admin ~*\nuser root on >r +@all ~*\n";
    fs::write(&users, lines).unwrap();
    let users = format!("--users-file={}", users.display());
    let larder = larder(&[&files], &[&ca, "--tls-client-user=cn", &users]);
    check(
        &larder,
        &servers,
        &root,
        &[
            (&[], "/redis", "200"),
            (&["--user", "root:r"], "/redis", "200"),
            // A user without a password has any, which proves nothing.
            (&["--user", "default:any"], "/redis", "403"),
            (&["--user", "app:a"], "/redis", "403"),
        ],
    );
    let (status, text) =
        administer(&servers, &larder, 20, &[&shown(&root)[..], &["--user", "app:wrong"]].concat(), "/redis");
    assert_eq!(status, "401", "{text}");
}

#[test]
fn with_passthrough_a_certificate_is_no_login_at_all() {
    let (servers, clients) = (Authority::new(), Authority::new());
    let (files, root) = (servers.issue("a", &["a.test"]), clients.issue("root", &["root.test"]));
    let ca = format!("--tls-client-ca={}", text(&clients.file()));
    let redis = RedisServer::start();
    for rules in ["larder on >l allkeys allchannels +@all", "root on >r allkeys allchannels +@all"] {
        let rules: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(rules.split(' ')).collect();
        assert_eq!(redis.command(&rules), Reply::ok());
    }
    let source = format!("--source=redis://larder:l@127.0.0.1:{}", redis.port());
    let larder = larder(&[&files], &[&ca, "--tls-client-user=cn", &source, "--auth=passthrough", "--forward-admin"]);
    wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    check(
        &larder,
        &servers,
        &root,
        &[
            (&["--user", "root:r"], "/redis", "200"),
            (&[], "/redis", "403"),
            (&["--user", "default:any"], "/redis", "403"),
        ],
    );
    let (status, text) =
        administer(&servers, &larder, 20, &[&shown(&root)[..], &["--user", "root:wrong"]].concat(), "/redis");
    assert_eq!(status, "401", "{text}");
}
