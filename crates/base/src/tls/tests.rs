//! What certificates say, and which one a client gets.
use super::{
    certificate_facts::{CertificateAge, CertificateFacts},
    server_config::load,
};
use larder_config::{CertificateFiles, TlsSettings};
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};
use std::time::{Duration, UNIX_EPOCH};

fn self_signed(hosts: &[&str], begins: u64, ends: u64) -> (rcgen::Certificate, KeyPair) {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("names");
    let at = |seconds| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    (params.not_before, params.not_after) = (at(begins), at(ends));
    let key = KeyPair::generate().expect("a key");
    (params.self_signed(&key).expect("a certificate"), key)
}

const DAY: u64 = 86_400;

#[test]
fn hosts_and_lifetime() {
    // Beyond 2049 a certificate writes years in another form (RFC 5280 section 4.1.2.5).
    for ends in [20_000 * DAY, 40_000 * DAY] {
        let (certificate, _) = self_signed(&["A.test", "*.b.test", "127.0.0.1"], 19_000 * DAY, ends);
        let facts = CertificateFacts::read("a.crt".into(), certificate.der()).expect("a certificate");
        assert_eq!(facts.hosts, ["a.test", "*.b.test"]);
        assert_eq!(facts.ends_at(), ends);
        let age = |day: u64| facts.age(UNIX_EPOCH + Duration::from_secs(day * DAY));
        assert_eq!(age(18_999), CertificateAge::NotYetValid);
        assert_eq!(age(19_001), CertificateAge::Valid);
        assert_eq!(age(ends / DAY - 15), CertificateAge::Valid);
        assert_eq!(age(ends / DAY - 13), CertificateAge::EndsSoon(Duration::from_secs(13 * DAY)));
        assert_eq!(age(ends / DAY + 1), CertificateAge::Expired);
    }
}

#[test]
fn a_short_life_is_announced_in_its_last_third() {
    let (certificate, _) = self_signed(&["a.test"], 19_000 * DAY, 19_006 * DAY);
    let facts = CertificateFacts::read("a.crt".into(), certificate.der()).expect("a certificate");
    let age = |hour: u64| facts.age(UNIX_EPOCH + Duration::from_secs(19_000 * DAY + hour * 3600));
    assert_eq!(age(4 * 24 - 1), CertificateAge::Valid);
    assert!(matches!(age(4 * 24 + 1), CertificateAge::EndsSoon(_)));
}

#[test]
fn an_error_names_file_and_setting() {
    let dir = tempfile::tempdir().expect("a directory");
    let (certificate, key) = self_signed(&["a.test"], 0, 40_000 * DAY);
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let files = CertificateFiles { cert: file("a.crt", &certificate.pem()), key: file("a.key", &key.serialize_pem()) };
    let settings = |cert: &std::path::Path| TlsSettings {
        certificates: vec![CertificateFiles { cert: cert.to_owned(), ..files.clone() }],
        ..TlsSettings::default()
    };
    assert!(load(&settings(&files.cert), None).is_ok());
    let damaged = file("damaged.crt", damaged);
    let error = load(&settings(&damaged), None).err().expect("an error");
    assert!(error.contains("damaged.crt: not a certificate: ") && error.ends_with("(setting `tls-cert`)"), "{error}");
}

proptest! {
    #[test]
    fn any_bytes_are_a_certificate_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = CertificateFacts::read("a.crt".into(), &bytes);
    }

    #[test]
    fn a_damaged_certificate_is_a_certificate_or_an_error(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (certificate, _) = self_signed(&["a.test", "*.b.test"], 0, 40_000 * DAY);
        let mut bytes = certificate.der().to_vec();
        bytes[at.index(certificate.der().len())] = byte;
        if let Ok(facts) = CertificateFacts::read("a.crt".into(), &bytes) {
            facts.age(UNIX_EPOCH + Duration::from_secs(DAY));
        }
    }
}
