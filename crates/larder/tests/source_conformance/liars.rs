//! Sources that lie: whatever they answer, a read ends with an error or what was sent, memory stays
//! within the bounds, and other clients are served.
use crate::{
    common::{PATIENCE, Reply},
    larder::{Larder, connect},
    lies::{HTTP_LIES, Lie, REDIS_LIES, liar},
};
use std::{
    io::{Read as _, Write as _},
    time::Instant,
};

const MIB: usize = 1 << 20;
/// So much of an answer that has no end is read.
const READ: usize = 48 * MIB;

/// Status of a read over HTTP, and how many bytes of the answer came.
fn read(larder: &Larder, key: &str) -> (u16, usize) {
    let mut stream = connect(larder.http);
    write!(stream, "GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let (mut head, mut len, mut buffer) = (Vec::new(), 0, [0; 65536]);
    while let Ok(read @ 1..) = stream.read(&mut buffer)
        && len < READ
    {
        head.extend_from_slice(&buffer[..read.min(20_usize.saturating_sub(len))]);
        len += read;
    }
    (String::from_utf8_lossy(&head).split(' ').nth(1).map_or(0, |status| status.parse().unwrap()), len)
}

#[test]
fn a_source_that_lies_costs_no_memory() {
    let http = HTTP_LIES.map(|(what, lie)| ("http", what, lie));
    let redis = REDIS_LIES.map(|(what, lie)| ("redis", what, lie));
    let all: Vec<(&str, &str, Lie)> = http.into_iter().chain(redis).collect();
    for some in all.chunks(6) {
        std::thread::scope(|scope| {
            for (kind, what, lie) in some {
                scope.spawn(move || costs_no_memory(kind, what, *lie));
            }
        });
    }
}

fn costs_no_memory(kind: &str, what: &str, lie: Lie) {
    let port = liar(lie);
    let source = match kind {
        "http" => format!("http://127.0.0.1:{port}/{{key}}"),
        _ => format!("redis://127.0.0.1:{port}"),
    };
    let bounds = ["--max-memory=16MiB", "--max-buffers=16MiB", "--source-timeout=1s", "--threads=1"];
    let larder = Larder::start(&[&["--source", &source], &bounds[..]].concat());
    let before = larder.peak();
    let mut client = larder.client();
    for round in 0..3 {
        let begun = Instant::now();
        let (status, len) = read(&larder, &format!("key-{round}"));
        // A large value passes through to who reads it.
        assert!(status >= 400 || !(1000..READ).contains(&len), "{kind}, {what}: {status}, {len} bytes");
        let reply = client.command(&["GET", &format!("other-{round}")]);
        let is_small = matches!(&reply, Reply::Bulk(Some(value)) if value.len() < 1000);
        assert!(is_small || matches!(reply, Reply::Error(_)), "{kind}, {what}");
        assert!(begun.elapsed() < PATIENCE, "{kind}, {what}");
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()), "{kind}, {what}");
    }
    let grown = larder.peak() - before;
    // And what the allocator keeps.
    assert!(grown < (16 + 8) * MIB + 16 * MIB * 11 / 10, "{kind}, {what}: {} MiB more", grown / MIB);
}
