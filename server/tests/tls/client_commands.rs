//! `larder get|set|del|peers` over TLS.
use super::{
    certificates::{Authority, text},
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
        assert!(code == Some(3) && error.contains("UnknownIssuer"), "{error}");
        assert_eq!(larder_command(&[&["get", "k", "--url", url, "--insecure"][..], &own].concat()).0, Some(1));
        let (code, _, error) = larder_command(&["get", "k", "--url", url, "--cacert", text(&file)]);
        assert!(code == Some(3) && error.contains("CertificateRequired"), "{error}");
    }
    let (code, _, error) = larder_command(&["get", "k", "--insecure"]);
    assert_eq!(code, Some(2));
    assert_eq!(error, "larder: --insecure needs TLS: write https:// or rediss://\n");
    let args = ["peers", "--url", &https, "--cacert", text(&file)];
    let (_, _, error) = larder_command(&[&args[..], &own].concat());
    assert!(error.contains("404"), "{error}");
}
