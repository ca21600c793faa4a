//! A small HTTP/1.1 server in this process: a thread for each connection, which is kept. Requests
//! have no body.
use anyhow::Context;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    thread,
};

/// Longest head of a request; what is tested is not trusted.
const MAX_HEAD: usize = 16 * 1024;

/// An answer.
pub(crate) struct Answer {
    /// Code and reason.
    pub(crate) status: &'static str,
    /// Name and value of a header.
    pub(crate) header: (&'static str, String),
    pub(crate) body: Vec<u8>,
}

/// Listens until the process ends, and returns where. Port 0 is a free one. `each` makes the handler
/// of a connection, which gets the method and path of each request (`GET /a`). Without an answer,
/// the connection is closed.
pub(crate) fn listen<H>(port: u16, each: impl Fn() -> H + Send + 'static) -> anyhow::Result<SocketAddr>
where
    H: FnMut(&str) -> Option<Answer> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("cannot listen on port {port} of 127.0.0.1; choose another with --port"))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let handler = each();
            // A client that breaks off ends its thread.
            thread::spawn(move || drop(serve(stream, handler)));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream, mut handler: impl FnMut(&str) -> Option<Answer>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let end = loop {
            if let Some(at) = memchr::memmem::find(&input, b"\r\n\r\n") {
                break at + 4;
            }
            let read = stream.read(&mut buffer)?;
            if read == 0 || input.len() > MAX_HEAD {
                return Ok(());
            }
            input.extend_from_slice(&buffer[..read]);
        };
        let head: Vec<u8> = input.drain(..end).collect();
        let line = String::from_utf8_lossy(&head);
        let Some(answer) = line.split(" HTTP/").next().and_then(&mut handler) else { return Ok(()) };
        let (name, value) = &answer.header;
        let length = answer.body.len();
        let head = format!("HTTP/1.1 {}\r\nContent-Length: {length}\r\n{name}: {value}\r\n\r\n", answer.status);
        stream.write_all(&[head.as_bytes(), &answer.body].concat())?;
    }
}
