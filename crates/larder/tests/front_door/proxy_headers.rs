//! Headers of the PROXY protocol that are right, wrong, half there, slow, or from a sender who may
//! send none.
use super::{
    certificates::Authority,
    larder::{Larder, expect, expect_end},
    programs,
    sockets::{exchange, from, shown_address},
};
use std::io::{Read, Write};

const TRUSTED: u8 = 61;
const STRANGER: u8 = 62;
const LINE: &str = "PROXY TCP4 192.0.2.1 198.51.100.1 56324 6379\r\n";

fn larder(protocol: &str, more: &[&str]) -> Larder {
    let protocol = format!("--proxy-protocol={protocol}");
    Larder::start(&[&["--trusted-proxies=127.0.0.61", &protocol][..], more].concat())
}

/// A header of version 2.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [&b"\r\n\r\n\0\r\nQUIT\n"[..], &[command, family], &len, rest].concat()
}

#[test]
fn a_header_may_come_in_pieces_and_with_the_first_commands() {
    for protocol in ["required", "optional"] {
        let larder = larder(protocol, &[]);
        let ipv4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 0x18, 0xeb];
        let long = binary(0x21, 0x11, &[&ipv4[..], &[4, 4, 0], &[0; 1024]].concat());
        for header in [LINE.as_bytes().to_vec(), binary(0x21, 0x11, &ipv4), long] {
            assert_eq!(shown_address(from(TRUSTED, larder.redis), &header), "192.0.2.1:56324");
            let mut stream = from(TRUSTED, larder.redis);
            for piece in header.chunks(header.len().div_ceil(20)) {
                stream.write_all(piece).unwrap();
                // The kernel hands on what came so far: the header is looked at more than once.
                std::thread::yield_now();
            }
            assert_eq!(shown_address(stream, b""), "192.0.2.1:56324");
        }
        let mut ipv6 = [0; 36];
        (ipv6[0], ipv6[1], ipv6[15], ipv6[33]) = (0x20, 1, 7, 9);
        assert_eq!(shown_address(from(TRUSTED, larder.redis), &binary(0x21, 0x21, &ipv6)), "[2001::7]:9");
        // The proxy itself, a Unix socket, unknown: the address of the connection counts.
        for header in [binary(0x20, 0, b""), binary(0x21, 0x31, &[b'/'; 216]), b"PROXY UNKNOWN\r\n".to_vec()] {
            let stream = from(TRUSTED, larder.redis);
            let own = stream.local_addr().unwrap().to_string();
            assert_eq!(shown_address(stream, &header), own);
        }
    }
}

#[test]
fn what_is_no_right_header_is_refused_and_told_why() {
    let required = larder("required", &[]);
    let too_long = binary(0x21, 0x11, &[0; 4096]);
    let mut refused = 0;
    for (header, why) in [
        (b"PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n".to_vec(), "an address is none of its family"),
        (b"PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n".to_vec(), "a port is not a number up to 65535"),
        (b"PROXY TCP4 192.0.2.1\r\n".to_vec(), "the line has too few parts"),
        (b"PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n".to_vec(), "the line has too many parts"),
        (b"PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n".to_vec(), "the family is none of TCP4, TCP6 and UNKNOWN"),
        (b"PROXY UNKNOWN\n".to_vec(), "the line does not end with CR LF"),
        ([&b"PROXY UNKNOWN "[..], &[b'x'; 107]].concat(), "the line is longer than 107 bytes"),
        (binary(0x11, 0x11, &[0; 12]), "the version is not 2"),
        (binary(0x2f, 0x11, &[0; 12]), "the command is none of LOCAL and PROXY"),
        (binary(0x21, 0x12, &[0; 12]), "the family is none of TCP over IPv4"),
        (binary(0x21, 0x21, &[0; 12]), "the header is too short for its addresses"),
        (too_long, "the header is longer than 4096 bytes"),
    ] {
        let answer = exchange(from(TRUSTED, required.redis), &[&header[..], b"SET bad 1\r\n"].concat());
        assert!(answer.starts_with(&format!("-ERR PROXY protocol: {why}")), "{answer:?}");
        let answer = exchange(from(TRUSTED, required.http), &[&header[..], b"PUT /v1/kv/bad HTTP/1.1\r\n"].concat());
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.contains(why), "{answer:?}");
        refused += 2;
    }
    for (port, says) in [(required.redis, "-ERR PROXY protocol: no PROXY header came"), (required.http, "HTTP/1.1 400")]
    {
        let answer = exchange(from(TRUSTED, port), b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(answer.starts_with(says) && answer.contains("`proxy-protocol` is `required`"), "{answer:?}");
    }
    assert_eq!(required.metric("larder_proxy_headers_total{result=\"malformed\"}"), f64::from(refused));
    assert_eq!(required.metric("larder_proxy_headers_total{result=\"missing\"}"), 2.0);
    // Nothing behind a wrong header was carried out, and who is no proxy is served as before.
    assert_eq!(exchange(from(STRANGER, required.redis), b"EXISTS bad\r\nQUIT\r\n"), ":0\r\n+OK\r\n");
    // Half a header and an end, or nothing at all, as load balancers do: no reason to say anything.
    for half in [&b""[..], b"PROX", b"PROXY TCP4 1", b"\r\n\r\n\0\r\nQU"] {
        let mut stream = from(TRUSTED, required.redis);
        stream.write_all(half).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        expect_end(&mut stream);
    }
}

#[test]
fn a_slow_header_ends_the_connection_and_holds_up_nobody() {
    let larder = larder("required", &["--header-timeout=300ms"]);
    let mut established = from(STRANGER, larder.redis);
    let mut slow: Vec<_> = (0..200).map(|_| from(TRUSTED, larder.redis)).collect();
    for byte in LINE.as_bytes()[..20].iter() {
        slow.iter_mut().for_each(|stream| drop(stream.write_all(&[*byte])));
        established.write_all(b"PING\r\n").unwrap();
        expect(&mut established, b"+PONG\r\n");
    }
    for mut stream in slow {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "-ERR PROXY protocol: the PROXY header was not complete within `header-timeout`\r\n");
    }
    assert_eq!(larder.metric("larder_proxy_headers_total{result=\"timeout\"}"), 200.0);
}

#[test]
fn with_optional_headers_a_client_may_begin_as_it_likes_or_wait() {
    let larder = larder("optional", &["--header-timeout=300ms"]);
    let stream = from(TRUSTED, larder.redis);
    let own = stream.local_addr().unwrap().to_string();
    assert_eq!(shown_address(stream, b""), own);
    // `P` may become a header, until more comes.
    let mut stream = from(TRUSTED, larder.redis);
    stream.write_all(b"P").unwrap();
    stream.write_all(b"ING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n");
    // A pool opens connections long before it uses them.
    let mut waits = from(TRUSTED, larder.redis);
    let listed = || exchange(from(STRANGER, larder.redis), b"CLIENT LIST\r\nQUIT\r\n");
    let shown = format!("addr={} ", waits.local_addr().unwrap());
    super::common::wait_until("the silent client to be served", || listed().contains(&shown));
    waits.write_all(b"PING\r\n").unwrap();
    expect(&mut waits, b"+PONG\r\n");
    // Then it is too late to be someone else.
    let answer = exchange(waits, LINE.as_bytes());
    assert!(
        answer.starts_with("-ERR PROXY header refused: proxy-protocol is off for this listener, or this is not"),
        "{answer:?}"
    );
}

#[test]
fn a_strangers_header_is_refused_and_never_believed() {
    for protocol in ["off", "optional", "required"] {
        let larder = larder(protocol, &[]);
        for header in [LINE.as_bytes().to_vec(), binary(0x21, 0x11, &[9; 12])] {
            let answer = exchange(from(STRANGER, larder.redis), &[&header[..], b"SET bad 1\r\n"].concat());
            assert_eq!(answer, "-ERR PROXY header refused: 127.0.0.62 is not one of trusted-proxies\r\n");
            let answer =
                exchange(from(STRANGER, larder.http), &[&header[..], b"PUT /v1/kv/bad HTTP/1.1\r\n\r\n"].concat());
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer:?}");
            assert!(answer.contains("127.0.0.62 is not one of `trusted-proxies`"), "{answer:?}");
        }
        assert_eq!(larder.metric("larder_cross_protocol_total{request=\"proxy\"}"), 2.0);
        assert_eq!(exchange(from(STRANGER, larder.redis), b"EXISTS bad\r\nQUIT\r\n"), ":0\r\n+OK\r\n");
    }
    let off = larder("off", &[]);
    let answer = exchange(from(TRUSTED, off.http), LINE.as_bytes());
    assert!(answer.contains("`proxy-protocol` is `off` for this listener"), "{answer:?}");
}

#[test]
fn each_named_listener_has_its_own_rule() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("larder.toml");
    std::fs::write(
        &file,
        "trusted-proxies = ['127.0.0.61']\n[listeners.inner]\nredis = '127.0.0.1:0'\nproxy-protocol = 'required'\n",
    )
    .unwrap();
    let larder = Larder::start(&["--config", file.to_str().unwrap()]);
    assert_eq!(shown_address(from(TRUSTED, larder.listeners[0]), LINE.as_bytes()), "192.0.2.1:56324");
    assert!(exchange(from(TRUSTED, larder.redis), LINE.as_bytes()).starts_with("-ERR PROXY header refused"));
}

#[test]
fn tls_begins_behind_the_header() {
    let authority = Authority::new();
    let files = authority.issue("a", &["a.test"]);
    let larder = programs::larder(&[&files], &["--trusted-proxies=127.0.0.61", "--proxy-protocol=required"]);
    // A fatal alert is all that a client of TLS understands.
    for bytes in [&b"\x16\x03\x01\x02\x00"[..], b"PROXY nonsense\r\n", b"PING\r\n"] {
        let mut answer = Vec::new();
        let mut stream = from(TRUSTED, larder.rediss[0]);
        stream.write_all(bytes).unwrap();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, 80], "{bytes:?}");
    }
    assert_eq!(larder.metric("larder_proxy_headers_total{result=\"missing\"}"), 2.0);
}
