//! The link of a replica over TLS.
use super::{
    certificates::{Authority, text},
    common::{Reply, wait_until},
    larder::{Larder, command},
    programs::larder,
};

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
