//! The link of a replica over TLS, and its clients' writes.
use super::{
    certificates::{Authority, text},
    common::{Reply, wait_until},
    larder::{Larder, command},
    programs::larder,
};
use base64::{Engine as _, prelude::BASE64_STANDARD};

#[test]
fn a_replica_follows_over_tls() {
    let (servers, replicas) = (Authority::new(), Authority::new());
    let client_ca = format!("--tls-client-ca={}", text(&replicas.file()));
    let secret = "--replication-secret=s3cret";
    let primary = larder(&[&servers.issue("a", &["127.0.0.1"])], &[&client_ca, secret]);
    let value = "v".repeat(100_000);
    for key in 0..50 {
        primary.client().command(&["SET", &format!("before:{key}"), &value]);
    }
    let own = replicas.issue("replica", &["replica.test"]);
    let ca = servers.file();
    let url = |more: &str| format!("--replica-of=rediss://127.0.0.1:{}?ca={}{more}", primary.rediss[0], text(&ca));
    let shows = format!("&cert={}&key={}", text(&own.cert), text(&own.key));
    let replica = Larder::start(&[&url(&shows), secret]);
    let get = |key: &str| replica.client().command(&["GET", key]);
    wait_until("the full copy", || (0..50).all(|key| get(&format!("before:{key}")) == Reply::bulk(&value)));
    for key in 0..2000 {
        primary.client().command(&["SET", &format!("after:{key}"), "w"]);
    }
    wait_until("the changes", || get("after:1999") == Reply::bulk("w"));
    assert_eq!(primary.client().command(&["WAIT", "1", "20000"]), Reply::Int(1));

    // Without a certificate, and with an authority that did not issue the primary's.
    let stranger = Larder::start(&[&url(""), secret]);
    let wrong = url(&shows).replace(text(&ca), text(&replicas.file()));
    let misled = Larder::start(&[&wrong, secret]);
    for (replica, expected) in [(stranger, "CertificateRequired"), (misled, "invalid peer certificate")] {
        let says = || match replica.client().command(&["INFO", "replication"]) {
            Reply::Bulk(Some(info)) => String::from_utf8(info).unwrap(),
            other => panic!("{other:?}"),
        };
        wait_until("the link to be refused", || says().contains("master_link_error:"));
        let said = says();
        assert!(said.contains(expected) && said.contains("master_link_status:down"), "{said}");
        assert_eq!(replica.client().command(&["GET", "after:1999"]), Reply::Bulk(None));
    }
    let mut bad_file = command();
    bad_file.args(["--http=127.0.0.1:0", "--redis=127.0.0.1:0", "--admin=off", "--replica-of=rediss://a?ca=/no/file"]);
    let said = String::from_utf8(bad_file.output().unwrap().stderr).unwrap();
    assert!(said.contains("/no/file") && said.contains("(setting `replica-of`)"), "{said}");
}

/// A replica that forwards HTTP writes logs in at its primary as itself, over TLS only. The primary
/// does not know the replica's users, whose rights the replica has checked.
#[test]
fn http_writes_are_forwarded_over_tls_with_the_replicas_own_password() {
    let authority = Authority::new();
    let (password, secret) = ("--password=open", "--replication-secret=s3cret");
    let primary = larder(&[&authority.issue("a", &["127.0.0.1"])], &[password, secret]);
    let users = authority.dir().join("users.acl");
    std::fs::write(&users, "user ada on >pw ~a:* +@all\n").unwrap();
    let (users, ca) = (format!("--users-file={}", text(&users)), authority.file());
    let replica_of = format!("--replica-of=rediss://127.0.0.1:{}?ca={}", primary.rediss[0], text(&ca));
    let replica = |http: String, more: &[&str]| {
        let http = format!("--replica-writes=forward:{http}");
        let args = [&replica_of, secret, &users, &http];
        let replica = Larder::start(&[&args, more].concat());
        let is_up = || replica.get("/metrics").lines().any(|line| line == "larder_replication_link_up 1");
        wait_until("the replica to follow", is_up);
        replica
    };
    let basic = |user: &str| format!("authorization: Basic {}\r\n", BASE64_STANDARD.encode(user));
    let ada = basic("ada:pw");
    let ask = |of: &Larder, method: &str, target: &str, user: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: x\r\n{user}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let (status, _, body) = of.http(&request);
        (status, String::from_utf8(body).unwrap())
    };
    let over_tls = format!("https://127.0.0.1:{}?ca={}", primary.https[0], text(&ca));
    let own = replica(over_tls.clone(), &[password]);
    assert_eq!(ask(&own, "PUT", "/v1/kv/a:1", &ada, "v").0, 201);
    assert_eq!(ask(&own, "GET", "/v1/kv/a:1", &ada, ""), (200, "v".to_owned()), "one reads one's own write");
    assert_eq!(ask(&primary, "GET", "/v1/kv/a:1", &basic("default:open"), ""), (200, "v".to_owned()));
    assert_eq!(ask(&primary, "GET", "/v1/kv/a:1", &ada, "").0, 401, "the primary has no such user");
    // The replica checks its users, wherever the key is.
    let item = |key: &str| format!(r#"{{"key":"{key}","value":1,"ttl":60}}"#);
    assert_eq!(ask(&own, "POST", "/cache/v1/item", &ada, &item("a:2")).0, 201);
    for (method, target, body) in [
        ("PUT", "/v1/kv/b", "x"),
        ("DELETE", "/v1/kv/b", ""),
        ("PUT", "/v0/entity?id=b", "x"),
        ("DELETE", "/v0/entity?id=b", ""),
        ("POST", "/cache/v1/item", &item("b")),
        ("DELETE", "/cache/v1/item", r#"{"key":"b"}"#),
        ("DELETE", "/cache/v1/item?key=b", ""),
        ("DELETE", "/v1/keys?prefix=b", ""),
        ("DELETE", "/v1/keys?key=b", ""),
        ("DELETE", "/v1/groups/default", ""),
    ] {
        assert_eq!(ask(&own, method, target, &ada, body).0, 403, "{method} {target}");
    }
    assert_eq!(ask(&own, "PUT", "/v1/kv/a:1", "", "x").0, 401, "the replica asks for a login itself");

    // Without TLS, with a wrong password, or without one, the primary lets no client in: the client is told
    // so, and is not asked for another login.
    let clear = format!("http://127.0.0.1:{}", primary.http);
    for (http, more, says) in [
        (clear, &[password][..], "over TLS only: write replica-writes as forward:https://host:port?ca=FILE"),
        (over_tls.clone(), &["--password=other"], "it refuses the password of this replica"),
        (over_tls, &[], "this replica has none (setting `password`)"),
    ] {
        let other = replica(http, more);
        let (status, body) = ask(&other, "PUT", "/v1/kv/a:3", &ada, "x");
        assert_eq!(status, 503, "{body}");
        assert!(body.contains("primary-unavailable") && body.contains(says), "{body}");
        assert!(body.contains("nothing was written"), "{body}");
    }
    assert_eq!(ask(&primary, "GET", "/v1/kv/a:3", &basic("default:open"), "").0, 404);

    let mut bad_file = command();
    bad_file.args(["--http=127.0.0.1:0", "--redis=127.0.0.1:0", "--admin=off", "--replica-of=redis://127.0.0.1:1"]);
    let said =
        String::from_utf8(bad_file.arg("--replica-writes=forward:https://a?ca=/no/file").output().unwrap().stderr)
            .unwrap();
    assert!(said.contains("/no/file") && said.contains("(setting `replica-writes`)"), "{said}");
}
