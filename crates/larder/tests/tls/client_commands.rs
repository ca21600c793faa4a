//! `larder get|set|del|peers` over TLS.
use super::{
    certificates::{Authority, Files, text},
    larder::binary,
    programs::{larder, run},
};

#[test]
fn the_client_speaks_tls() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let ca = format!("--tls-client-ca={}", text(&clients.file()));
    let larder = larder(&[&authority.issue("a", &["127.0.0.1"])], &[&ca]);
    let client = clients.issue("client", &["client.test"]);
    let (file, binary) = (authority.file(), binary());
    let larder_command = |args: &[&str]| {
        let done = run(text(&binary), args, b"");
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let own = ["--client-cert", text(&client.cert), "--client-key", text(&client.key)];
    let https = format!("https://127.0.0.1:{}", larder.https[0]);
    let rediss = format!("rediss://127.0.0.1:{}", larder.rediss[0]);
    for url in [&https, &rediss] {
        let with = |args: &[&str]| larder_command(&[args, &["--url", url, "--cacert", text(&file)], &own].concat());
        let done = |out: &str| (Some(0), out.to_owned(), String::new());
        assert_eq!(with(&["set", "k", "v"]), done(""));
        assert_eq!(with(&["get", "k"]), done("v"));
        assert_eq!(with(&["del", "k"]), done(""));
        assert_eq!(with(&["get", "k"]).0, Some(1));
        // No authority that the client knows, no certificate of the client's own.
        let (code, _, error) = larder_command(&[&["get", "k", "--url", url][..], &own].concat());
        assert!(code == Some(3) && error.contains("UnknownIssuer; name its authority with --cacert"), "{error}");
        assert_eq!(larder_command(&[&["get", "k", "--url", url, "--insecure"][..], &own].concat()).0, Some(1));
        let (code, _, error) = larder_command(&["get", "k", "--url", url, "--cacert", text(&file)]);
        assert!(code == Some(3) && error.contains("CertificateRequired"), "{error}");
        assert!(error.contains("; show yours with --client-cert"), "{error}");
    }
    let plain = format!("redis://127.0.0.1:{}", larder.rediss[0]);
    let (code, _, error) = larder_command(&["get", "k", "--url", &plain]);
    assert!(code == Some(3) && error.contains("if it speaks TLS on this port, write rediss://"), "{error}");
    // A certificate that signs itself, as `openssl req -x509` makes it.
    let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let itself = Files { cert: authority.dir().join("own.crt"), key: authority.dir().join("own.key") };
    std::fs::write(&itself.cert, params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&itself.key, key.serialize_pem()).unwrap();
    let signs_itself = self::larder(&[&itself], &[]);
    let its_url = format!("https://127.0.0.1:{}", signs_itself.https[0]);
    let (code, _, error) = larder_command(&["get", "k", "--url", &its_url, "--cacert", text(&itself.cert)]);
    assert!(code == Some(3) && error.contains("CA:TRUE"), "{error}");
    let (code, _, error) = larder_command(&["get", "k", "--insecure"]);
    assert_eq!(code, Some(2));
    assert_eq!(error, "larder: --insecure needs TLS: write https:// or rediss://\n");
    let args = ["peers", "--url", &https, "--cacert", text(&file)];
    let (_, _, error) = larder_command(&[&args[..], &own].concat());
    assert!(error.contains("404"), "{error}");
}
