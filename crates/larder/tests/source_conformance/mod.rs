//! One suite for every source, and what only a Redis source promises, on real redis-servers.

use crate::common;

mod cassandra;
mod demo;
mod disk;
mod fake;
mod faults;
mod fixture;
mod http2_origin;
mod http_addresses;
mod http_copies;
mod http_origin;
mod http_writes;
mod liars;
mod overload;
mod postgres;
mod redis_only;
pub mod scripted_origin;

use common::{Port, RedisServer, Reply};
use fixture::{Fixture, open_with, reason, redis, redis_with, setup, tcp};
pub(crate) use fixture::{LIMITS, open, run, some};
use larder_config::{Coherence, RedisAddress, RedisUrl, SourceUrl, TlsClientSettings};
use larder_source::{FillPolicy, KeyPolicy, SourceError, SourceLimits, SourceSetup};
use larder_store::clock;
use std::path::PathBuf;

/// What every source promises, seen through a group. `behind`: it keeps values apart from the
/// memory tier.
async fn conformance(group: &Fixture, behind: bool) {
    let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
    let large: Vec<u8> = (0..8 * 1024 * 1024u32).map(|i| (i % 251) as u8).collect();
    // A disk store takes keys up to 65,535 bytes.
    let longest = vec![b'k'; 64 * 1024 - usize::from(group.source.as_local().is_some())];
    let values: [(&[u8], &[u8]); 8] = [
        (b"", b"of the empty key"),
        (b"\0", b"not of the empty key"),
        (b"text", b"value"),
        (b"empty", b""),
        (b"binary", &all),
        (b"\x00\r\n\xff key", b"\r\n$-1\r\n+OK\r\n"),
        (&longest, b"long key"),
        (b"large", &large),
    ];
    for (key, value) in values {
        assert_eq!(group.get(key).await, Ok(None), "before the put");
        let put = group.put(key, value.to_vec().into(), None).await;
        put.expect("the put");
        assert!(group.get(key).await == some(value), "from the tier");
        if behind {
            group.forget(key);
            assert!(group.get(key).await == some(value), "from the source");
        }
        // A shorter value over a longer one, then none.
        group.put(key, "new".into(), None).await.expect("the put");
        assert_eq!(group.get(key).await, some("new"));
        assert_eq!(group.delete(key).await, Ok(true));
        assert_eq!(group.get(key).await, Ok(None));
        assert_eq!(group.delete(key).await, Ok(false));
    }

    // Expiry: with the put, by `expire`, taken away, in the past.
    let soon = || Some(clock::now() + 40);
    group.put(b"e", "1".into(), soon()).await.expect("the put");
    let gone = async || group.get("e").await == Ok(None);
    group.until("the put's expiry", gone).await;
    assert_eq!(group.expire(b"e", soon()).await, Ok(false));
    assert_eq!(group.expire(b"e", None).await, Ok(false));
    group.put(b"e", "2".into(), None).await.expect("the put");
    assert_eq!(group.expire(b"e", soon()).await, Ok(true));
    group.until("the later expiry", gone).await;
    // Far off: a busy disk takes longer for the put than what is soon.
    group.put(b"e", "3".into(), Some(clock::now() + 60_000)).await.expect("the put");
    assert_eq!(group.expire(b"e", None).await, Ok(true));
    assert_eq!(group.expire(b"e", None).await, Ok(true), "once more");
    assert_eq!(group.get("e").await, some("3"));
    let past = Some(clock::now() - 1);
    assert_eq!(group.expire(b"e", past).await, Ok(true));
    assert_eq!(group.get("e").await, Ok(None));
    group.put(b"e", "4".into(), None).await.expect("the put");
    group.put(b"e", "5".into(), past).await.expect("the put");
    assert_eq!(group.get("e").await, Ok(None));

    assert!(group.source.ping().await.is_ok());
    assert!(group.health.is_up());
    assert_eq!(group.health.in_flight(), 0);
}

/// What every source promises that is only read. It has a value for every key but `absent`;
/// `is_value` tells whether one is the key's.
async fn conformance_read_only(group: &Fixture, absent: &[u8], is_value: impl Fn(&[u8], &[u8]) -> bool) {
    let longest = vec![b'k'; 16 * 1024];
    let keys: [&[u8]; 6] = [b"text", b"a/b?c=d&e#f%20", b"\x00\r\n\xff key", "ключ".as_bytes(), b"a..b", &longest];
    for key in keys {
        let value = group.get(key).await.expect("an answer").expect("a value");
        assert!(is_value(key, &value), "{}: {}", key.escape_ascii(), value.escape_ascii());
        assert!(group.get(key).await == some(&value), "from the tier");
        group.forget(key);
        let again = group.get(key).await.expect("an answer").expect("a value");
        assert!(is_value(key, &again), "from the source");
        for refused in [
            group.put(key, "v".into(), None).await.map(|_| ()),
            group.delete(key).await.map(|_| ()),
            group.expire(key, None).await.map(|_| ()),
        ] {
            assert!(matches!(refused, Err(SourceError::ReadOnly(_))), "{refused:?}");
        }
        assert!(group.get(key).await == some(&again), "a refused write changes nothing");
    }
    assert_eq!(group.get(absent).await, Ok(None));

    let batch: Vec<String> = (0..100).map(|number| format!("key {number}")).collect();
    let answers = group.get_all(&batch.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for (key, answer) in batch.iter().zip(answers) {
        let value = answer.expect("an answer").expect("a value");
        assert!(is_value(key.as_bytes(), &value), "{key}: {}", value.escape_ascii());
    }

    assert!(group.source.as_local().is_none() && group.source.as_redis().is_none());
    assert!(group.source.ping().await.is_ok());
    assert!(group.health.is_up());
    group.until("the fetches to end", async || group.health.in_flight() == 0).await;
}

#[test]
fn conformance_none() {
    run(async {
        let group = open(&SourceUrl::None, LIMITS, FillPolicy::default());
        conformance(&group, false).await;
        assert!(group.source.as_redis().is_none());
    });
}

#[test]
fn conformance_redis() {
    let server = RedisServer::start();
    run(async {
        conformance(&redis(&server), true).await;
        assert!(server.command(&["CLIENT", "LIST"]) != Reply::nil());
    });
}

#[test]
fn conformance_coherent() {
    let server = RedisServer::start();
    run(async {
        let own = KeyPolicy { negative_ttl: Some(60_000), ..KeyPolicy::default() };
        let policy = FillPolicy { coherence: Coherence::Coherent, ..own.into() };
        for prefixes in [&[][..], &["t", "e", "l"]] {
            for connections in [1, 3] {
                let (url, limits) = (SourceUrl::Redis(tcp(server.port())), SourceLimits { connections, ..LIMITS });
                conformance(&open_with(&url, limits, policy.clone(), prefixes), true).await;
            }
        }
    });
}

#[test]
fn conformance_several_connections() {
    let server = RedisServer::start();
    run(async {
        let limits = SourceLimits { connections: 3, ..LIMITS };
        conformance(&redis_with(&server, limits, FillPolicy::default()), true).await;
    });
}

#[test]
fn conformance_unix_socket() {
    let server = RedisServer::with(&["--unixsocket", "socket", "--unixsocketperm", "700"]);
    run(async {
        let url = RedisUrl { address: RedisAddress::Unix(server.dir().join("socket")), ..tcp(0) };
        conformance(&open(&SourceUrl::Redis(url), LIMITS, FillPolicy::default()), true).await;
    });
}

#[test]
fn conformance_password_and_database() {
    let server = RedisServer::with(&["--requirepass", "p@ss:word/"]);
    run(async {
        for user in [None, Some("default".to_owned())] {
            let url = RedisUrl { user, password: Some("p@ss:word/".into()), database: 7, ..tcp(server.port()) };
            let group = open(&SourceUrl::Redis(url), LIMITS, FillPolicy::default());
            conformance(&group, true).await;
            group.put(b"k", "v".into(), None).await.expect("the put");
        }
        let mut client = server.client();
        assert_eq!(client.command(&["GET", "k"]), Reply::nil());
        client.command(&["SELECT", "7"]);
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    });
}

/// A certificate authority, and a certificate of its making for 127.0.0.1.
struct Certificates {
    ca: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}
fn certificates(dir: &std::path::Path) -> Certificates {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    let mut ca = CertificateParams::default();
    // Certificates of one name would count as one that signed itself.
    ca.distinguished_name.push(DnType::CommonName, "authority");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_key = KeyPair::generate().expect("a key");
    let ca_pem = ca.self_signed(&ca_key).expect("a certificate").pem();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let leaf = CertificateParams::new(names).expect("names");
    let leaf_key = KeyPair::generate().expect("a key");
    let leaf_pem = leaf.signed_by(&leaf_key, &Issuer::new(ca, ca_key));
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    Certificates {
        ca: write("ca.pem", ca_pem),
        cert: write("cert.pem", leaf_pem.expect("a certificate").pem()),
        key: write("key.pem", leaf_key.serialize_pem()),
    }
}

#[test]
fn conformance_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let Certificates { ca, cert, key } = certificates(dir.path());
    let other = tempfile::tempdir().expect("a directory");
    let stranger = certificates(other.path());
    let held = Port::free();
    let port = held.number;
    let path = |path: &PathBuf| path.display().to_string();
    let server = RedisServer::in_dir(
        dir,
        &[
            "--tls-port",
            &port.to_string(),
            "--tls-ca-cert-file",
            &path(&ca),
            "--tls-cert-file",
            &path(&cert),
            "--tls-key-file",
            &path(&key),
            "--tls-auth-clients",
            "yes",
        ],
    );
    let with = |tls: TlsClientSettings| {
        let url = RedisUrl { tls: Some(tls), ..tcp(port) };
        open(&SourceUrl::Redis(url), LIMITS, FillPolicy::default())
    };
    run(async {
        let good = TlsClientSettings {
            ca: Some(ca.clone()),
            cert: Some(cert.clone()),
            key: Some(key.clone()),
            insecure: false,
            any_name: false,
        };
        conformance(&with(good.clone()), true).await;
        server.command(&["SET", "k", "v"]);
        let insecure = TlsClientSettings { ca: None, insecure: true, ..good.clone() };
        assert_eq!(with(insecure).get("k").await, some("v"));

        let wrong_ca = TlsClientSettings { ca: Some(stranger.ca), ..good.clone() };
        let text = reason(with(wrong_ca).get("k").await);
        assert!(text.contains("certificate"), "{text}");
        let no_cert = TlsClientSettings { cert: None, key: None, ..good.clone() };
        let text = reason(with(no_cert).get("k").await);
        assert!(text.starts_with("source unavailable: "), "{text}");

        let no_file = TlsClientSettings { ca: Some("/nowhere/ca.pem".into()), ..good };
        let url = SourceUrl::Redis(RedisUrl { tls: Some(no_file), ..tcp(port) });
        let error =
            SourceSetup::new(&url, LIMITS, &larder_base::buffers::Buffers::unbounded()).err().expect("an error");
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
    });
}
