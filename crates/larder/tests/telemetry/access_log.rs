//! The time that a response needs to reach its client, in the line of the access log.
use crate::larder;
use larder::{Larder, connect, skip_until};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

/// More than all buffers between the processes hold for a client that reads nothing.
const LARGE: usize = 16 << 20;
/// What a client of HTTP/2 gets before it allows more (RFC 9113 section 6.9.2).
const WINDOW: usize = 65_535;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn ask(larder: &Larder, request: &str) -> TcpStream {
    let mut stream = connect(larder.http);
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A `GET` over HTTP/2, whose client allows no more than the window.
fn ask_http2(larder: &Larder, path: &str, id: &str) -> TcpStream {
    // Not put into the table (RFC 7541 section 6.2.2).
    let field = |name: &str, value: &str| {
        let of = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [vec![0], of(name), of(value)].concat()
    };
    let named = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", path), ("x-request-id", id)];
    let head: Vec<u8> = named.iter().flat_map(|(name, value)| field(name, value)).collect();
    let mut stream = connect(larder.http);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let head = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head);
    stream.write_all(&[&preface[..], &frame(SETTINGS, 0, 0, &[]), &head].concat()).unwrap();
    stream
}

/// Reads so many bytes.
fn read(stream: &mut TcpStream, bytes: usize) {
    assert_eq!(std::io::copy(&mut stream.take(bytes as u64), &mut std::io::sink()).unwrap(), bytes as u64);
}

/// The lines of the log.
fn lines(larder: &mut Larder) -> Vec<Value> {
    larder.signal(Signal::TERM);
    assert!(larder.wait().0.success());
    larder.stderr().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The whole time of a request, and that of the writing.
fn times(lines: &[Value], id: &str) -> [u64; 2] {
    let of: Vec<&Value> = lines.iter().filter(|line| line["request_id"] == id).collect();
    assert_eq!(of.len(), 1, "{id}: {lines:?}");
    assert_eq!(of[0]["status"], 200, "{id}: {lines:?}");
    assert!(of[0]["uri"].as_str().unwrap().starts_with("/v1/kv/"), "{id}: {lines:?}");
    ["micros", "write_micros"].map(|name| of[0][name].as_u64().unwrap())
}

#[test]
fn a_slow_reader_shows_in_the_access_log() {
    let mut larder = Larder::start(&[
        "--allow-faults",
        "--access-log=100%",
        "--log-level=info",
        "--log-format=json",
        "--max-memory=256MiB",
    ]);
    let put = |key: &str, len: usize| {
        let head =
            format!("PUT /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {len}\r\n\r\n");
        assert_eq!(larder.http(&(head + &"v".repeat(len))).0, 201);
    };
    put("large", LARGE);
    put("small", 10);
    let get = |key: &str, id: &str, close: &str| {
        format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nx-request-id: {id}\r\n{close}\r\n")
    };
    let mut readers = [
        ask(&larder, &get("large", "fast", "")),
        ask(&larder, &get("large", "general", "connection: close\r\n")),
        ask_http2(&larder, "/v1/kv/large", "http2"),
    ];
    for reader in &mut readers {
        assert_eq!(reader.peek(&mut [0]).unwrap(), 1, "the answer has begun");
    }
    // The first byte of HTTP/2 is one of the settings.
    read(&mut readers[2], WINDOW);
    let begun = Instant::now();
    // Another request takes a while. Until then, no client reads.
    let body = r#"{"at":"http","kind":"delay","delay":"200ms","duration":"10m"}"#;
    let head = format!("POST /v1/faults HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}", body.len());
    assert!(larder.admin(&format!("{head}\r\n\r\n{body}")).0 < 300);
    assert_eq!(larder.http(&get("small", "other", "connection: close\r\n")).0, 200);
    let waited = begun.elapsed().as_micros() as u64;
    let [fast, general, http2] = &mut readers;
    skip_until(fast, b"\r\n\r\n");
    read(fast, LARGE);
    general.read_to_end(&mut Vec::new()).unwrap();
    let more = (LARGE as u32).to_be_bytes();
    http2.write_all(&[0, 1].map(|stream| frame(WINDOW_UPDATE, 0, stream, &more)).concat()).unwrap();
    read(http2, LARGE - WINDOW);
    drop(readers);

    let lines = lines(&mut larder);
    assert!(waited >= 200_000);
    for id in ["fast", "general", "http2"] {
        let [micros, write] = times(&lines, id);
        assert!(micros >= write && write >= waited, "{id}: {write} of {micros} µs, {waited}");
    }
    let [micros, write] = times(&lines, "other");
    assert!(write < waited && micros >= write, "{write} of {micros} µs, {waited}");
}

#[test]
fn a_hit_behind_a_miss_waits_to_be_written() {
    let log = ["--access-log=100%", "--log-level=info", "--log-format=json"];
    let mut larder =
        Larder::start(&[&["--source=demo:?delay=500ms", "--ttl=1h", "--source-timeout=60s"], &log[..]].concat());
    let get = |key: &str, id: &str| format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nx-request-id: {id}\r\n\r\n");
    let mut stream = ask(&larder, &get("there", "first"));
    skip_until(&mut stream, b"\r\n\r\n");
    stream.write_all((get("absent", "miss") + &get("there", "hit")).as_bytes()).unwrap();
    skip_until(&mut stream, b"\r\n\r\n");
    skip_until(&mut stream, b"\r\n\r\n");
    let lines = lines(&mut larder);
    let [micros, write] = times(&lines, "miss");
    assert!(micros >= write + 500_000, "{write} of {micros} µs");
    let [_, write] = times(&lines, "hit");
    assert!(write >= 100_000, "{write} µs");
}
