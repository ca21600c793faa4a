//! Chains of certificates that do not hold, shown by a client and by a server.
use super::{
    certificates::{Authority, Files, text},
    common::wait_until,
    larder::{Larder, command},
    programs::{self, openssl},
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::fs;

/// What `openssl s_client` gets for a PING with these arguments.
fn ping(larder: &Larder, shown: &Files) -> String {
    let shown = ["-cert", text(&shown.cert), "-key", text(&shown.key), "-cert_chain", text(&shown.cert), "-quiet"];
    openssl(larder.rediss[0], &shown, b"PING\r\nQUIT\r\n")
}

/// A client's certificate at the end of so many authorities, the root's certificate not in it.
fn chain(authority: &Authority, links: usize) -> (Files, std::path::PathBuf) {
    let params = |name: &str, is_ca: bool| {
        let mut params = CertificateParams::new(vec![format!("{name}.test")]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    };
    let root_key = KeyPair::generate().unwrap();
    let root = params("root", true);
    let root_file = authority.dir().join(format!("root{links}.crt"));
    fs::write(&root_file, root.self_signed(&root_key).unwrap().pem()).unwrap();
    let mut issuer = Issuer::new(root, root_key);
    let mut pem = String::new();
    for link in 0..links {
        let (key, own) = (KeyPair::generate().unwrap(), params(&format!("link{link}"), true));
        pem = own.signed_by(&key, &issuer).unwrap().pem() + &pem;
        issuer = Issuer::new(own, key);
    }
    let key = KeyPair::generate().unwrap();
    let pem = params("client", false).signed_by(&key, &issuer).unwrap().pem() + &pem;
    let files = Files {
        cert: authority.dir().join(format!("chain{links}.crt")),
        key: authority.dir().join(format!("chain{links}.key")),
    };
    fs::write(&files.cert, pem).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    (files, root_file)
}

#[test]
fn clients_without_a_chain_to_the_authority_do_not_get_in() {
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let ca = format!("--tls-client-ca={}", text(&clients.file()));
    let larder = programs::larder(&[&servers.issue("a", &["a.test"])], &[&ca]);
    assert!(ping(&larder, &clients.issue("right", &["c.test"])).contains("+PONG"));
    // Signed by itself; with the authority's name but another key; out of date; not yet; another's.
    let key = KeyPair::generate().unwrap();
    let own = Files { cert: clients.dir().join("own.crt"), key: clients.dir().join("own.key") };
    fs::write(&own.cert, CertificateParams::new(vec!["c.test".into()]).unwrap().self_signed(&key).unwrap().pem())
        .unwrap();
    fs::write(&own.key, key.serialize_pem()).unwrap();
    let wrong = [
        own,
        strangers.issue("stranger", &["c.test"]),
        servers.issue("server", &["c.test"]),
        clients.issue_for("expired", &["c.test"], -7200, -3600),
        clients.issue_for("tomorrow", &["c.test"], 86_400, 172_800),
    ];
    for files in &wrong {
        let said = ping(&larder, files);
        assert!(!said.contains("+PONG"), "{}: {said}", files.cert.display());
    }
    wait_until("all to be counted", || {
        larder.metric("larder_tls_failed_handshakes_total{reason=\"failed\"}") == wrong.len() as f64
    });
    assert!(ping(&larder, &clients.issue("right", &["c.test"])).contains("+PONG"));
}

#[test]
fn chains_have_a_length_that_is_too_much() {
    let authority = Authority::new();
    for (links, gets_in) in [(0, true), (3, true), (40, false)] {
        let (files, root) = chain(&authority, links);
        let ca = format!("--tls-client-ca={}", text(&root));
        let larder = programs::larder(&[&authority.issue("a", &["a.test"])], &[&ca]);
        let said = ping(&larder, &files);
        assert_eq!(said.contains("+PONG"), gets_in, "{links} authorities between: {said}");
    }
}

#[test]
fn larder_as_a_client_trusts_no_wrong_server() {
    let (authority, strangers) = (Authority::new(), Authority::new());
    for (files, gets_in) in [
        (authority.issue("right", &["localhost"]), true),
        (strangers.issue("stranger", &["localhost"]), false),
        (authority.issue("name", &["other.test"]), false),
        (authority.issue_for("expired", &["localhost"], -7200, -3600), false),
    ] {
        let larder = programs::larder(&[&files], &[]);
        let url = format!("rediss://localhost:{}", larder.rediss[0]);
        let mut get = std::process::Command::new(command().get_program());
        let output = get.args(["set", "k", "v", "--url", &url, "--cacert", text(&authority.file())]).output().unwrap();
        assert_eq!(output.status.success(), gets_in, "{}: {output:?}", files.cert.display());
    }
}
