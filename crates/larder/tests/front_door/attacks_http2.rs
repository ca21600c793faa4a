//! Attacks over HTTP/2, frame by frame (RFC 9113): rapid reset, CONTINUATION floods, and others
//! that ask for much and take nothing. In clear, and over TLS where clients are users.
use super::{
    certificates::Authority,
    established::{ARGS, Established},
    larder::{Larder, connect},
};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    ops::Deref,
    sync::Arc,
};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
/// `ENHANCE_YOUR_CALM`.
const CALM: u32 = 11;
/// `REFUSED_STREAM`.
const REFUSED: u32 = 7;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field that is not put into the table (RFC 7541 section 6.2.2).
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |len: usize| match len {
        0..127 => vec![u8::try_from(len).unwrap()],
        len => {
            let (mut rest, mut bytes) = (len - 127, vec![127]);
            while rest >= 128 {
                bytes.push(128 | (rest % 128) as u8);
                rest /= 128;
            }
            bytes.push(rest as u8);
            bytes
        }
    };
    [&[0][..], &length(name.len()), name.as_bytes(), &length(value.len()), value.as_bytes()].concat()
}

/// `GET` of a path.
pub(super) fn get(path: &str) -> Vec<u8> {
    [field(":method", "GET"), field(":scheme", "http"), field(":authority", "x"), field(":path", path)].concat()
}

/// The errors of all frames of a kind, RST_STREAM or GOAWAY.
fn errors(mut frames: &[u8], kind: u8) -> Vec<u32> {
    let mut errors = Vec::new();
    while frames.len() >= 9 {
        let len = usize::try_from(u32::from_be_bytes([0, frames[0], frames[1], frames[2]])).unwrap();
        let Some(payload) = frames.get(9..9 + len) else { break };
        if frames[3] == kind {
            let error = if kind == GOAWAY { &payload[4..8] } else { payload };
            errors.push(u32::from_be_bytes(error.try_into().unwrap()));
        }
        frames = &frames[9 + len..];
    }
    errors
}

/// How the attacker comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Clear,
    /// Who says no name may do almost all, so that each request is asked for its user.
    TlsWithUsers,
}
const DOORS: [Door; 2] = [Door::Clear, Door::TlsWithUsers];
const USERS: &str = "user default on nopass ~* &* +@all -flushall\nuser shop on >secret ~* &* +@all\n";

/// A server under attack through a door.
struct Attacked {
    larder: Larder,
    tls: Option<(Authority, Arc<ClientConfig>, TempDir)>,
}
impl Deref for Attacked {
    type Target = Larder;
    fn deref(&self) -> &Larder {
        &self.larder
    }
}

pub(super) enum Wire {
    Clear(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}
impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Clear(stream) => stream.read(into),
            Wire::Tls(stream) => stream.read(into),
        }
    }
}
impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Clear(stream) => stream.write(bytes),
            // It takes nothing when its buffer is full.
            Wire::Tls(stream) => match stream.write(bytes) {
                Ok(0) => Err(ErrorKind::WouldBlock.into()),
                written => written,
            },
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Wire::Clear(stream) => stream.flush(),
            Wire::Tls(stream) => stream.flush(),
        }
    }
}
impl Wire {
    fn socket(&self) -> &TcpStream {
        match self {
            Wire::Clear(stream) => stream,
            Wire::Tls(stream) => &stream.sock,
        }
    }
}

pub(super) struct Attacker(pub(super) Wire);
impl Attacker {
    pub(super) fn new(larder: &Larder) -> Attacker {
        Attacker::over(Wire::Clear(connect(larder.http)))
    }
    pub(super) fn over(mut wire: Wire) -> Attacker {
        wire.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
        wire.flush().unwrap();
        Attacker(wire)
    }
    fn at(attacked: &Attacked) -> Attacker {
        let Some((_, config, _)) = &attacked.tls else { return Attacker::new(attacked) };
        let session = ClientConnection::new(config.clone(), ServerName::try_from("a.test").unwrap()).unwrap();
        let mut stream = StreamOwned::new(session, connect(attacked.https[0]));
        stream.conn.complete_io(&mut stream.sock).unwrap();
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"h2"[..]));
        Attacker::over(Wire::Tls(Box::new(stream)))
    }
    /// Sends as long as Larder takes it; false once it does not.
    pub(super) fn send(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).and_then(|()| self.0.flush()).is_ok()
    }
    /// The error of the GOAWAY that ends the connection, if one came.
    fn ended_with(mut self) -> Option<u32> {
        let mut all = Vec::new();
        let _ = self.0.read_to_end(&mut all);
        errors(&all, GOAWAY).last().copied()
    }
}

fn larder(more: &[&str]) -> Larder {
    Larder::start(&[&ARGS[..], more].concat())
}

fn attacked(door: Door, more: &[&str]) -> Attacked {
    if door == Door::Clear {
        return Attacked { larder: larder(more), tls: None };
    }
    let authority = Authority::new();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config =
        builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users.acl");
    std::fs::write(&users, USERS).unwrap();
    let (files, users) = (authority.issue("a", &["a.test"]).flags(), format!("--users-file={}", users.display()));
    let larder = larder(&[&["--https=127.0.0.1:0", &files[0], &files[1], &users], more].concat());
    Attacked { larder, tls: Some((authority, Arc::new(config), dir)) }
}

#[test]
fn rapid_reset_ends_the_connection() {
    for door in DOORS {
        // CVE-2023-44487: streams that are opened and reset at once, so that none counts as open.
        let larder = attacked(door, &[]);
        let mut established = Established::of(&larder);
        let mut attacker = Attacker::at(&larder);
        let mut reset = 0;
        while attacker.send(
            &(0..100)
                .flat_map(|at| {
                    let stream = 2 * (reset + at) + 1;
                    [
                        frame(HEADERS, END_STREAM | END_HEADERS, stream, &get("/v1/kv/none")),
                        frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]),
                    ]
                    .concat()
                })
                .collect::<Vec<u8>>(),
        ) {
            reset += 100;
            established.is_served();
            assert!(reset < 100_000, "it goes on for ever");
        }
        assert_eq!(attacker.ended_with().unwrap_or(CALM), CALM);
        established.is_served();
    }
}

#[test]
fn streams_that_larder_has_to_reset_end_the_connection() {
    for door in DOORS {
        // CVE-2025-8671: mistakes that make the server reset each stream.
        let larder = attacked(door, &[]);
        let mut established = Established::of(&larder);
        let mut attacker = Attacker::at(&larder);
        let mut opened = 0;
        while attacker.send(
            &(0..100)
                .flat_map(|at| {
                    // A field of HTTP/1.1 is a mistake of the stream (RFC 9113 section 8.2.2).
                    let head = [get("/v1/kv/none"), field("connection", "close")].concat();
                    frame(HEADERS, END_STREAM | END_HEADERS, 2 * (opened + at) + 1, &head)
                })
                .collect::<Vec<u8>>(),
        ) {
            opened += 100;
            established.is_served();
            assert!(opened < 20_000, "it goes on for ever");
        }
        assert_eq!(attacker.ended_with().unwrap_or(CALM), CALM);
        established.is_served();
    }
}

#[test]
fn a_head_of_endless_continuations_ends_the_connection() {
    for door in DOORS {
        // CVE-2024-27983 and others: frames of a head that never ends.
        let larder = attacked(door, &[]);
        let mut established = Established::of(&larder);
        let before = larder.resident();
        for piece in [field("x", &"y".repeat(1000)), Vec::new()] {
            let mut attacker = Attacker::at(&larder);
            attacker.send(&frame(HEADERS, END_STREAM, 1, &get("/v1/kv/none")));
            let mut frames = 0;
            while attacker.send(&frame(CONTINUATION, 0, 1, &piece)) {
                frames += 1;
                assert!(frames < 1_000_000, "it goes on for ever");
            }
            let ended = attacker.ended_with();
            assert!(matches!(ended, None | Some(1 | CALM)), "{ended:?}");
            established.is_served();
        }
        let grown = larder.resident().saturating_sub(before);
        assert!(grown < 16 << 20, "{grown} bytes more");
    }
}

#[test]
fn more_streams_than_allowed_are_refused() {
    let larder = larder(&[]);
    let mut established = Established::of(&larder);
    let mut attacker = Attacker::new(&larder);
    // Requests with bodies that never come.
    let opens: Vec<u8> = (0..2000u32)
        .flat_map(|at| {
            let head = [
                field(":method", "PUT"),
                field(":scheme", "http"),
                field(":authority", "x"),
                field(":path", "/v1/kv/none"),
            ]
            .concat();
            frame(HEADERS, END_HEADERS, 2 * at + 1, &head)
        })
        .collect();
    attacker.send(&opens);
    super::common::wait_until("the streams that are too many to be refused", || {
        established.is_served();
        let mut came = vec![0; 1 << 20];
        let read = attacker.0.socket().peek(&mut came).unwrap();
        let refused = errors(&came[..read], RST_STREAM);
        assert!(refused.iter().all(|error| *error == REFUSED), "{refused:?}");
        !refused.is_empty() || !errors(&came[..read], GOAWAY).is_empty()
    });
    // None of them has stored anything.
    assert_eq!(larder.client().command(&["EXISTS", "none"]), super::common::Reply::Int(0));
}

#[test]
fn answers_that_nobody_takes_are_bounded() {
    let larder = larder(&["--idle-timeout=60s"]);
    larder.client().command(&["SET", "big", &"v".repeat(1 << 20)]);
    let mut established = Established::of(&larder);
    let mut attackers: Vec<Attacker> = (0..20).map(|_| Attacker::new(&larder)).collect();
    for attacker in &mut attackers {
        // The window of the connection is as large as can be, and nothing is read.
        let mut bytes = frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000u32.to_be_bytes());
        for at in 0..100u32 {
            bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, 2 * at + 1, &get("/v1/kv/big")));
            bytes.extend(frame(WINDOW_UPDATE, 0, 2 * at + 1, &0x7fff_0000u32.to_be_bytes()));
        }
        attacker.send(&bytes);
    }
    for _ in 0..50 {
        established.is_served();
    }
}

#[test]
fn floods_of_small_frames_are_not_answered_without_bound() {
    for door in DOORS {
        let larder = attacked(door, &["--idle-timeout=60s"]);
        let mut established = Established::of(&larder);
        let before = larder.resident();
        for flood in [
            frame(PING, 0, 0, &[0; 8]),
            frame(SETTINGS, 0, 0, &[]),
            frame(DATA, 0, 1, &[]),
            frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 0]),
        ] {
            let mut attacker = Attacker::at(&larder);
            attacker.0.socket().set_nonblocking(true).unwrap();
            let many = flood.repeat(1000);
            let (mut idle, mut sent) = (0, 0);
            // Its answers are not read: it is not read from for ever, either.
            while idle < 20 && sent < 256 << 20 {
                match attacker.0.write(&many) {
                    Ok(bytes) => (sent, idle) = (sent + bytes, 0),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => idle += 1,
                    Err(_ended) => break,
                }
                if sent % 100 == 0 || idle > 0 {
                    established.is_served();
                }
            }
            assert!(sent < 256 << 20, "{sent} bytes of kind {} were taken", flood[3]);
            let grown = larder.resident().saturating_sub(before);
            assert!(grown < 48 << 20, "{grown} bytes more");
        }
    }
}
