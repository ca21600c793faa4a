//! An HTTP origin that speaks HTTP/2: nginx, and one that refuses requests, resets them or falls
//! silent.
use super::common::wait_until;
use super::{
    Certificates, Fixture, LIMITS, Port, certificates,
    http_origin::{Nginx, refused, unavailable},
    open, run, some,
};
use bytes::Bytes;
use h2::{Reason, SendStream, server::SendResponse};
use http::{Method, Request, Response};
use larder_config::{OriginOptions, OriginUrl, SentHeader, SentValue, SourceUrl};
use larder_source::{FillPolicy, SourceError, SourceLimits};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

fn at(port: u16, certificates: &Certificates, limits: SourceLimits, options: OriginOptions) -> Fixture {
    let text = format!("https://127.0.0.1:{port}/v/{{key}}#ca={}", certificates.ca.display());
    let Ok(SourceUrl::Http(url)) = text.parse() else { panic!("{text}") };
    open(&SourceUrl::Http(OriginUrl { options, ..url }), limits, FillPolicy::default())
}

async fn passed_through(group: &Fixture, key: &str) -> Vec<u8> {
    let value =
        group.source.stream(key.as_bytes(), &group.policy).expect("it can").await.expect("an answer").expect("a value");
    let mut chunks = value.chunks;
    let mut bytes = Vec::new();
    while let Some(chunk) = std::future::poll_fn(|context| chunks.poll_chunk(context)).await {
        bytes.extend_from_slice(&chunk.expect("no error"));
    }
    assert_eq!(value.len, Some(bytes.len() as u64));
    bytes
}

/// The lines of nginx's log: protocol, host and connection. It may write a line after the client
/// has the answer.
fn log(dir: &Path, lines: usize) -> Vec<[String; 3]> {
    let read = || fs::read_to_string(dir.join("protocol.log")).unwrap_or_default();
    wait_until("all lines of the log", || read().lines().count() >= lines);
    let text = read();
    let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>().try_into().expect("three fields");
    text.lines().map(fields).collect()
}
fn connections(log: &[[String; 3]]) -> usize {
    log.iter().map(|[.., connection]| connection).collect::<std::collections::BTreeSet<_>>().len()
}
fn nginx_files(dir: &Path) -> Vec<String> {
    fs::create_dir_all(dir.join("files")).expect("a directory");
    let keys: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    for key in &keys {
        fs::write(dir.join("files").join(key), format!("value {key}")).expect("a file");
    }
    keys
}

#[test]
fn many_requests_share_a_connection_to_nginx() {
    let dir = tempfile::tempdir().expect("a directory");
    let keys = nginx_files(dir.path());
    let large: Vec<u8> = (0..8 * 1024 * 1024u32).map(|i| (i % 251) as u8).collect();
    fs::write(dir.path().join("files/large"), &large).expect("a file");
    let tls = certificates(dir.path());
    let held = Port::free();
    let nginx = Nginx::with_http2(dir.path(), held.number, &tls, "");
    run(async {
        let group = at(held.number, &tls, LIMITS, OriginOptions::default());
        for batch in keys.chunks(90) {
            let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
            for (key, answer) in batch.iter().zip(group.get_all(&batch).await) {
                assert_eq!(answer, some(format!("value {key}")));
            }
        }
        assert!(group.get("large").await == some(&large));
        // Over HTTP/2 a value that passes through is a stream among others.
        let small = at(held.number, &tls, SourceLimits { max_value: 1000, ..LIMITS }, OriginOptions::default());
        let first =
            small.source.stream(b"large", &small.policy).expect("it can").await.expect("an answer").expect("a value");
        assert!(passed_through(&small, "large").await == large && passed_through(&small, "1").await == b"value 1");
        drop(first);
        let absent = small.source.stream(b"absent", &small.policy).expect("it can").await;
        assert!(absent.is_ok_and(|value| value.is_none()));
        assert_eq!(group.get("absent").await, Ok(None));
        drop(small);
        let log = log(dir.path(), 306);
        assert!(log.iter().all(|[protocol, ..]| protocol == "HTTP/2.0"), "{:?}", log[0]);
        assert_eq!((log.len(), connections(&log)), (306, 2));
        assert_eq!(group.health.errors(), 0);
    });
    fs::remove_file(dir.path().join("protocol.log")).expect("a log");
    drop(nginx);
    // More at once than one connection takes.
    let _nginx = Nginx::with_http2(dir.path(), held.number, &tls, "");
    run(async {
        let group = at(held.number, &tls, LIMITS, OriginOptions::default());
        let all: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert!(group.get_all(&all).await.iter().all(Result::is_ok));
        let log = log(dir.path(), 300);
        assert!(log.len() == 300 && (2..=5).contains(&connections(&log)), "{}", connections(&log));
    });
}

#[test]
fn connections_that_nginx_ends_cost_no_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let keys = nginx_files(dir.path());
    let tls = certificates(dir.path());
    let held = Port::free();
    // It says GOAWAY after so many requests, and takes none of those that are on their way.
    let _nginx = Nginx::with_http2(dir.path(), held.number, &tls, "keepalive_requests 70;");
    run(async {
        let group = at(held.number, &tls, LIMITS, OriginOptions::default());
        for batch in keys.chunks(100) {
            let batch: Vec<&str> = batch.iter().map(String::as_str).collect();
            for (key, answer) in batch.iter().zip(group.get_all(&batch).await) {
                assert_eq!(answer, some(format!("value {key}")));
            }
        }
        let log = log(dir.path(), 300);
        assert!(log.len() == 300 && (5..=12).contains(&connections(&log)), "{} {}", log.len(), connections(&log));
        assert_eq!(group.health.errors(), 0);
    });
}

#[test]
fn a_host_of_the_settings_and_http_1_by_setting() {
    let dir = tempfile::tempdir().expect("a directory");
    nginx_files(dir.path());
    let tls = certificates(dir.path());
    let held = Port::free();
    let _nginx = Nginx::with_http2(dir.path(), held.number, &tls, "");
    run(async {
        for (lines, http2, protocol) in [(1, true, "HTTP/2.0"), (2, false, "HTTP/1.1")] {
            let headers = vec![SentHeader { name: "host".into(), value: SentValue::Text("items.internal".into()) }];
            let group = at(held.number, &tls, LIMITS, OriginOptions { headers, http2, ..OriginOptions::default() });
            assert_eq!(group.get("1").await, some("value 1"));
            let [.., last] = &log(dir.path(), lines)[..] else { panic!("a log") };
            assert_eq!((&*last[0], &*last[1]), (protocol, "items.internal"));
        }
    });
}

/// What the origin does with a request.
enum Deed {
    Answer(&'static str),
    Reset(Reason),
    /// The beginning of a body, and a reset.
    BreakOff,
    Nothing,
}

/// An origin of the test's own, in a thread that lives as long as the process.
struct Http2Origin {
    port: u16,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}
impl Http2Origin {
    /// `script` gets the request, and the numbers of the connection and of the request, from 0.
    fn start(
        tls: &Certificates,
        script: impl Fn(&Request<h2::RecvStream>, usize, usize) -> Deed + Send + Sync + 'static,
    ) -> Http2Origin {
        let key = PrivateKeyDer::from_pem_file(&tls.key).expect("a key");
        let certificate = CertificateDer::from_pem_file(&tls.cert).expect("a certificate");
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config =
            config.expect("versions").with_no_client_auth().with_single_cert(vec![certificate], key).expect("a pair");
        config.alpn_protocols = vec![b"h2".to_vec()];
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let port = listener.local_addr().expect("an address").port();
        let (connections, requests) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (accepted, asked, script) = (connections.clone(), requests.clone(), Arc::new(script));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                let acceptor = TlsAcceptor::from(Arc::new(config));
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, asked, script) = (acceptor.clone(), asked.clone(), script.clone());
                    let number = accepted.fetch_add(1, Relaxed);
                    tokio::spawn(async move {
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
                        let mut unanswered = Vec::new();
                        while let Some(Ok((request, mut response))) = connection.accept().await {
                            match script(&request, number, asked.fetch_add(1, Relaxed)) {
                                Deed::Answer(text) => {
                                    head(&mut response).send_data(text.into(), true).expect("a stream")
                                }
                                Deed::Reset(reason) => response.send_reset(reason),
                                Deed::BreakOff => {
                                    let mut body = head(&mut response);
                                    body.send_data("some".into(), false).expect("a stream");
                                    tokio::spawn(async move {
                                        tokio::time::sleep(Duration::from_millis(20)).await;
                                        body.send_reset(Reason::INTERNAL_ERROR);
                                    });
                                }
                                Deed::Nothing => unanswered.push(response),
                            }
                        }
                    });
                }
            });
        });
        Http2Origin { port, connections, requests }
    }
}
fn head(response: &mut SendResponse<Bytes>) -> SendStream<Bytes> {
    response.send_response(Response::new(()), false).expect("a stream")
}

#[test]
fn what_the_origin_did_not_take_is_sent_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let tls = certificates(dir.path());
    let origin = Http2Origin::start(&tls, |request, _, number| match (request.method(), request.uri().path()) {
        (_, "/v/refused") if number % 2 == 0 => Deed::Reset(Reason::REFUSED_STREAM),
        (_, "/v/never") => Deed::Reset(Reason::REFUSED_STREAM),
        (_, "/v/resets") => Deed::Reset(Reason::INTERNAL_ERROR),
        (_, "/v/breaks-off") => Deed::BreakOff,
        (&Method::PUT, _) => Deed::Answer(""),
        _ => Deed::Answer("v"),
    });
    run(async {
        let options = OriginOptions { takes_writes: true, ..OriginOptions::default() };
        let group = at(origin.port, &tls, LIMITS, options);
        group.until_up().await;
        let asked = || origin.requests.load(Relaxed);
        assert_eq!(group.get("refused").await, some("v"));
        assert_eq!(asked(), 2);
        assert!(group.put(b"refused", "v".into(), None).await.is_ok());
        assert_eq!(asked(), 4);
        let said = unavailable(group.get("never").await);
        assert!(said.contains("the request was not taken: ") && asked() == 8, "{said} {}", asked());
        // It may have been taken: a read is sent once more, as on an idle connection of HTTP/1.1, a write
        // is not.
        assert_eq!(group.get("calm").await, some("v"));
        unavailable(group.get("resets").await);
        assert_eq!(asked(), 11);
        assert_eq!(group.get("calm 2").await, some("v"));
        let put = group.put(b"resets", "v".into(), None).await;
        assert!(matches!(put, Err(SourceError::Lost(_))), "{put:?}");
        assert_eq!(asked(), 13);
        let said = unavailable(group.get("breaks-off").await);
        assert!(group.cached("breaks-off").is_none() && asked() == 14, "{said} {}", asked());
        let said = refused(group.get("..").await);
        assert!(said.contains("would be a step within the path"), "{said}");
    });
}

#[test]
fn a_connection_that_falls_silent_gets_no_more_requests() {
    let dir = tempfile::tempdir().expect("a directory");
    let tls = certificates(dir.path());
    let origin = Http2Origin::start(&tls, |_, connection, number| match (connection, number) {
        (0, 1..) => Deed::Nothing,
        _ => Deed::Answer("v"),
    });
    run(async {
        let group = at(
            origin.port,
            &tls,
            SourceLimits { timeout: Duration::from_millis(300), ..LIMITS },
            OriginOptions::default(),
        );
        group.until_up().await;
        assert_eq!(group.get("a").await, some("v"));
        let said = unavailable(group.get("b").await);
        assert!(said.ends_with("timed out after 300ms (source-timeout)"), "{said}");
        for key in ["c", "d", "e"] {
            assert_eq!(group.get(key).await, some("v"));
        }
        assert_eq!(origin.connections.load(Relaxed), 2);
    });
}
