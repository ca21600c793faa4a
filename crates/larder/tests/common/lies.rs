//! Servers that lie: what they answer has no end, or another length than they say.
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread::spawn,
};

/// A server that tells this lie to each who has asked something. Its port.
pub(crate) fn liar(lie: Lie) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                lie(&mut stream);
            });
        }
    });
    port
}

pub(crate) type Lie = fn(&mut TcpStream);

pub(crate) fn send(stream: &mut TcpStream, bytes: &[u8]) {
    // The other side may be gone.
    let _ = stream.write_all(bytes);
}
/// As long as it is read, up to 1 GiB.
pub(crate) fn endless(stream: &mut TcpStream, part: &[u8]) {
    for _ in 0..(1 << 30) / part.len() {
        if stream.write_all(part).is_err() {
            break;
        }
    }
}

pub(crate) const HTTP_LIES: [(&str, Lie); 17] = [
    ("closes", |_| ()),
    ("no HTTP", |stream| send(stream, b"SSH-2.0-OpenSSH\r\n\r\n")),
    ("half a head", |stream| send(stream, b"HTTP/1.1 200 OK\r\ncontent-le")),
    ("an endless head", |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\nx: ");
        endless(stream, &[b'x'; 65536]);
    }),
    ("endless hints", |stream| endless(stream, &b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000))),
    ("a length of 2^60", |stream| {
        send(
            stream,
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: {}\r\n\r\n",
                1u64 << 60
            )
            .as_bytes(),
        );
        endless(stream, &[0; 65536]);
    }),
    ("an endless body", |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ntransfer-encoding: chunked\r\n\r\n");
        endless(stream, &[b"10000\r\n", &[0; 65536][..], b"\r\n"].concat());
    }),
    ("an endless error", |stream| {
        send(stream, b"HTTP/1.1 500 x\r\ntransfer-encoding: chunked\r\n\r\n");
        endless(stream, &[b"10000\r\n", &[b' '; 65536][..], b"\r\n"].concat());
    }),
    ("less than it says", |stream| send(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n\n\x05v")),
    ("no message", |stream| {
        send(
            stream,
            b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 4\r\n\r\n\xff\xff\xff\xff",
        )
    }),
    ("a field longer than the message", |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 11\r\n\r\n\n\xff\xff\xff\xff\xff\xff\xff\xff\x7fv");
    }),
    ("two lengths", |stream| send(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n12")),
    ("moved", |stream| send(stream, b"HTTP/1.1 302 x\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")),
    ("endless trailers", |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nv\r\n0\r\n");
        endless(stream, &b"x: y\r\n".repeat(10_000));
    }),
    ("very many small chunks", |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        endless(stream, &b"1\r\nv\r\n".repeat(10_000));
    }),
    ("a chunk of 2^60", |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1000000000000000\r\n");
        endless(stream, &[0; 65536]);
    }),
    ("a chunk size without end", |stream| {
        send(stream, b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;");
        endless(stream, &[b'x'; 65536]);
    }),
];

/// Says that it is a Redis until a key is read.
fn redis(stream: &mut TcpStream, lie: Lie) {
    let (mut asked, mut buffer) = (Vec::new(), [0; 65536]);
    // The first bytes are read: they ask for what a server is.
    send(stream, b"+OK\r\n-ERR\r\n-ERR\r\n$6\r\nlarder\r\n+PONG\r\n");
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        asked.extend_from_slice(&buffer[..read]);
        if asked.windows(6).any(|part| part == b"EXEC\r\n") {
            return lie(stream);
        }
    }
}

/// What precedes the reply to a read of one key.
const QUEUED: &str = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n";

fn endless_reply(stream: &mut TcpStream, begin: &str, part: &[u8]) {
    send(stream, format!("{QUEUED}{begin}").as_bytes());
    endless(stream, part);
}

pub(crate) const REDIS_LIES: [(&str, Lie); 6] = [
    ("a value of 2^60 bytes", |stream| {
        redis(stream, |stream| endless_reply(stream, "$1152921504606846976\r\n", &[b'x'; 65536]))
    }),
    ("a value of 512 MB", |stream| redis(stream, |stream| endless_reply(stream, "$536870911\r\n", &[b'x'; 65536]))),
    ("an endless line", |stream| redis(stream, |stream| endless_reply(stream, "+", &[b'x'; 65536]))),
    ("an array of 2^30", |stream| {
        redis(stream, |stream| endless_reply(stream, "*1073741824\r\n", &b"$1\r\nx\r\n".repeat(10_000)))
    }),
    ("endless depth", |stream| redis(stream, |stream| endless_reply(stream, "", &b"*1\r\n".repeat(10_000)))),
    ("endless messages", |stream| {
        redis(stream, |stream| {
            send(stream, QUEUED.as_bytes());
            endless(stream, &b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n".repeat(2_000));
        })
    }),
];
