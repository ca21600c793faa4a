//! Floods of logins: many with wrong credentials at once, and passwords that take long to compare.
use super::{
    attacks_http2::{
        Attacker, DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, WINDOW_UPDATE, Wire, field, frame, get,
    },
    common::wait_until,
    established::{ARGS, Established},
    larder::{Larder, encode},
    sockets::from,
};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::{Engine as _, prelude::BASE64_STANDARD, prelude::BASE64_STANDARD_NO_PAD};
use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
};
use tempfile::TempDir;

/// Failed logins that an address may have in a minute, and one more for each worker that was about to
/// count one.
const MOST: f64 = 20.0 + 2.0;

/// A server with a user whose password takes long to compare.
fn start() -> (Larder, TempDir) {
    let (memory, passes) = (16 << 10, 2);
    let mut hash = [0; 32];
    let params = Params::new(memory, passes, 1, Some(32)).unwrap();
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(b"right", b"somesalt", &mut hash).unwrap();
    let (salt, hash) = (BASE64_STANDARD_NO_PAD.encode("somesalt"), BASE64_STANDARD_NO_PAD.encode(hash));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("users.acl");
    let users = format!(
        "user default on nopass ~* &* +@all -flushall\n\
         user slow on #$argon2id$v=19$m={memory},t={passes},p=1${salt}${hash} ~* &* +@all\n\
         user fast on >right ~* &* +@all\n"
    );
    fs::write(&file, users).unwrap();
    (Larder::start(&[&ARGS[..], &[&format!("--users-file={}", file.display())]].concat()), dir)
}

fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}
fn failed(larder: &Larder) -> f64 {
    larder.metric("larder_refused_total{reason=\"login\"}")
}
/// Milliseconds of CPU that the process has used.
fn cpu(larder: &Larder) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", larder.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    ticks * 10
}

/// Sends a request with each of these on one HTTP/2 connection, all at once, and waits for the answers.
fn ask_at_once(stream: TcpStream, authorizations: &[String]) {
    let mut attacker = Attacker::over(Wire::Clear(stream));
    let mut bytes = frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000u32.to_be_bytes());
    for (at, authorization) in authorizations.iter().enumerate() {
        let head = [get("/v1/kv/none"), field("authorization", authorization)].concat();
        bytes.extend(frame(HEADERS, END_STREAM | END_HEADERS, 2 * at as u32 + 1, &head));
    }
    assert!(attacker.send(&bytes));
    let (mut came, mut answered) = (Vec::new(), 0);
    while answered < authorizations.len() {
        let mut part = [0; 1 << 16];
        let read = attacker.0.read(&mut part).unwrap();
        assert!(read > 0, "{answered} answers of {}", authorizations.len());
        came.extend_from_slice(&part[..read]);
        while came.len() >= 9 {
            let len = usize::try_from(u32::from_be_bytes([0, came[0], came[1], came[2]])).unwrap();
            if came.len() < 9 + len {
                break;
            }
            let is_end = matches!(came[3], DATA | HEADERS) && came[4] & END_STREAM != 0 || came[3] == RST_STREAM;
            answered += usize::from(is_end);
            came.drain(..9 + len);
        }
    }
}

#[test]
fn a_flood_of_wrong_credentials_is_compared_only_a_few_times() {
    const MANY: usize = 100;
    let wrong = |number: usize| format!("wrong{number}");
    let token = |number: usize| format!("Bearer eyJhbGciOiJFUzI1NiJ9.e30.{number:086}");
    type Flood = Box<dyn Fn(usize) -> String>;
    let http: [(&str, Flood); 4] = [
        ("Basic, argon2", Box::new(move |number| basic("slow", &wrong(number)))),
        ("Basic, SHA-256", Box::new(move |number| basic("fast", &wrong(number)))),
        ("Bearer", Box::new(move |number| format!("Bearer {}", wrong(number)))),
        ("Bearer, a token", Box::new(token)),
    ];
    let (larder, _dir) = start();
    let mut established = Established::of(&larder);
    for (at, (what, flood)) in http.iter().enumerate() {
        let headers: Vec<String> = (0..MANY).map(flood).collect();
        // On one connection of HTTP/2, then on many of HTTP/1.1.
        let before = failed(&larder);
        ask_at_once(from(10 + at as u8, larder.http), &headers);
        let now = failed(&larder);
        assert!((20.0..=MOST).contains(&(now - before)), "{what}, HTTP/2: {}", now - before);
        established.is_served();
        let mut connections: Vec<TcpStream> = headers
            .iter()
            .map(|header| {
                let mut stream = from(20 + at as u8, larder.http);
                let head = format!(
                    "GET /v1/kv/none HTTP/1.1\r\nhost: x\r\nauthorization: {header}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
                stream
            })
            .collect();
        established.is_served();
        for stream in &mut connections {
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let last = failed(&larder);
        assert!((20.0..=MOST).contains(&(last - now)), "{what}, HTTP/1.1: {}", last - now);
    }
    for (at, user) in ["slow", "fast"].into_iter().enumerate() {
        let before = failed(&larder);
        let mut connections: Vec<TcpStream> = (0..MANY)
            .map(|number| {
                let mut stream = from(30 + at as u8, larder.redis);
                let password = wrong(number);
                let login = [encode(&[b"AUTH", user.as_bytes(), password.as_bytes()]), encode(&[b"QUIT"])].concat();
                stream.write_all(&login).unwrap();
                stream
            })
            .collect();
        established.is_served();
        for stream in &mut connections {
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let now = failed(&larder);
        assert!((20.0..=MOST).contains(&(now - before)), "{user}, Redis: {}", now - before);
    }
    // Others still log in.
    ask_at_once(from(40, larder.http), &[basic("slow", "right")]);
}

#[test]
fn logins_that_their_clients_leave_are_compared_only_a_few_times() {
    const MANY: usize = 100;
    let (larder, _dir) = start();
    let begun = cpu(&larder);
    for host in 1..=10 {
        ask_at_once(from(host, larder.http), &[basic("slow", "right")]);
    }
    let one = (cpu(&larder) - begun) / 10;
    let begun = cpu(&larder);
    for number in 0..MANY {
        let mut attacker = Attacker::over(Wire::Clear(from(50, larder.http)));
        let authorization = basic("slow", &format!("wrong{number}"));
        let head = [get("/v1/kv/none"), field("authorization", &authorization)].concat();
        assert!(attacker.send(&frame(HEADERS, END_STREAM | END_HEADERS, 1, &head)));
        // The answer to this comes when the request has begun.
        assert!(attacker.send(&frame(PING, 0, 0, b"has been")));
        let mut came = Vec::new();
        while !came.windows(8).any(|part| part == b"has been") {
            let mut part = [0; 4096];
            let read = attacker.0.read(&mut part).unwrap();
            assert!(read > 0, "{number}");
            came.extend_from_slice(&part[..read]);
        }
        attacker.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    }
    let (mut last, mut same) = (begun, 0);
    wait_until("the comparisons to end", || {
        let now = cpu(&larder);
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 20
    });
    assert!(last - begun < 50 * one.max(10), "{MANY} left logins took {} ms of CPU, one takes {one}", last - begun);
    ask_at_once(from(1, larder.http), &[basic("slow", "right")]);
}

#[test]
fn one_password_on_many_streams_is_compared_once() {
    const STREAMS: usize = 100;
    let (larder, _dir) = start();
    let right = basic("slow", "right");
    let begun = cpu(&larder);
    for host in 1..=10 {
        ask_at_once(from(host, larder.http), std::slice::from_ref(&right));
    }
    let one = (cpu(&larder) - begun) / 10;
    let begun = cpu(&larder);
    ask_at_once(from(11, larder.http), &vec![right; STREAMS]);
    let many = cpu(&larder) - begun;
    assert!(many < 20 * one.max(10), "{STREAMS} streams took {many} ms of CPU, one takes {one}");
    assert_eq!(failed(&larder), 0.0);
}
