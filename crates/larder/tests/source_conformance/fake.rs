//! A server that says what the test wants, where a real one cannot be made to.
use super::fixture::{Fixture, open, tcp};
use larder_config::SourceUrl;
use larder_source::{FillPolicy, SourceLimits};
use std::{
    io::{Read, Write},
    net::TcpListener,
    thread::{JoinHandle, spawn},
};

pub(crate) enum Answer {
    Bytes(Vec<u8>),
    /// One byte per write.
    Trickle(Vec<u8>),
    /// Then closes the connection.
    Last(Vec<u8>),
}
/// Replies to a transaction of `count` reads, none of which finds its key.
pub(crate) fn absent(count: usize) -> Vec<u8> {
    values(&vec![("$-1\r\n", -2); count])
}
/// Replies to a transaction of reads: each key's value as a reply, and its time left.
pub(crate) fn values(values: &[(&str, i64)]) -> Vec<u8> {
    let mut replies = "+OK\r\n".to_owned() + &"+QUEUED\r\n".repeat(values.len() * 2);
    replies += &format!("*{}\r\n", values.len() * 2);
    for (value, left) in values {
        replies += &format!("{value}:{left}\r\n");
    }
    replies.into_bytes()
}
/// Serves connections one after the other until a client leaves of itself: shakes hands, then asks
/// `answer`, with the number of the connection (from 0) and the request, at each EXEC or SET.
pub(crate) fn serve(
    listener: TcpListener,
    mut answer: impl FnMut(usize, &[u8]) -> Answer + Send + 'static,
) -> JoinHandle<()> {
    spawn(move || {
        for number in 0.. {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.set_nodelay(true).expect("a socket");
            let mut request = Vec::new();
            let mut buffer = [0; 65536];
            loop {
                let Ok(read @ 1..) = stream.read(&mut buffer) else {
                    return;
                };
                request.extend_from_slice(&buffer[..read]);
                let has = |text: &[u8]| request.windows(text.len()).any(|part| part == text);
                if has(b"PING\r\n") {
                    // It does not say what it is.
                    let untold: &[u8] = if has(b"HELLO\r\n") { b"-ERR\r\n-ERR\r\n" } else { b"" };
                    stream.write_all(&[b"+OK\r\n", untold, b"$6\r\nlarder\r\n+PONG\r\n"].concat()).expect("a client");
                } else if has(b"EXEC\r\n") || has(b"\r\nSET\r\n") {
                    match answer(number, &request) {
                        Answer::Bytes(bytes) => stream.write_all(&bytes).expect("a client"),
                        Answer::Trickle(bytes) => {
                            for byte in bytes {
                                stream.write_all(&[byte]).expect("a client");
                            }
                        }
                        Answer::Last(bytes) => {
                            stream.write_all(&bytes).expect("a client");
                            break;
                        }
                    }
                } else {
                    continue;
                }
                request.clear();
            }
        }
    })
}

/// A group on a fake server.
pub(crate) fn faked(
    limits: SourceLimits,
    answer: impl FnMut(usize, &[u8]) -> Answer + Send + 'static,
) -> (Fixture, std::thread::JoinHandle<()>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = SourceUrl::Redis(tcp(listener.local_addr().expect("an address").port()));
    let fake = serve(listener, answer);
    (open(&url, limits, FillPolicy::default()), fake)
}
