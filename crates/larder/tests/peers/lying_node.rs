//! A node of the list that is none: whatever it answers, reads end with the source's value or an error,
//! and memory stays bounded.
use super::{
    common::{PATIENCE, Port, Reply},
    larder::Larder,
    scripted_origin::{ScriptedOrigin, answer},
};
use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    thread::spawn,
    time::Instant,
};

type Lie = fn(&mut TcpStream);

fn send(stream: &mut TcpStream, bytes: &[u8]) {
    // The other side may be gone.
    let _ = stream.write_all(bytes);
}
/// As long as it is read, up to 1 GiB.
fn endless(stream: &mut TcpStream, part: &[u8]) {
    for _ in 0..(1 << 30) / part.len() {
        if stream.write_all(part).is_err() {
            break;
        }
    }
}

const LIES: [(&str, Lie); 13] = [
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
];

#[test]
fn a_node_that_lies_costs_neither_memory_nor_right_answers() {
    let origin = ScriptedOrigin::start(|_| answer("200 OK", "", "right"));
    let source = format!("http://127.0.0.1:{}/{{key}}", origin.port);
    let source = source.as_str();
    std::thread::scope(|scope| {
        for (what, lie) in LIES {
            scope.spawn(move || {
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
                let this = Port::free();
                let peers = format!("127.0.0.1:{},127.0.0.1:{port}", this.number);
                let own = format!("127.0.0.1:{}", this.number);
                let args = ["--peers", &peers, "--peer-self", &own, "--source", source, "--threads=1"];
                let bounds = ["--max-memory=16MiB", "--max-buffers=16MiB", "--source-timeout=1s"];
                let larder = Larder::with_http_on(this.number, &[&args[..], &bounds].concat());
                let mut right = 0;
                for key in 0..20 {
                    let begun = Instant::now();
                    let head = format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
                    let (status, _, body) = larder.http(&head);
                    assert!(begun.elapsed() < PATIENCE, "{what}");
                    let is_right = status == 200 && body == b"right";
                    assert!(is_right || matches!(status, 502 | 503), "{what}: {status}");
                    right += usize::from(status == 200);
                }
                assert!(right > 0, "{what}: the keys of this node are read");
                assert_eq!(larder.client().command(&["PING"]), Reply::Simple("PONG".into()));
                assert!(larder.resident() < 160 << 20, "{what}: {}", larder.resident());
            });
        }
    });
}
