//! An HTTP origin that does what the test says: it can answer, stall, truncate, reset and lie.
use socket2::SockRef;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread::{sleep, spawn},
    time::{Duration, Instant},
};

/// A request as the origin sees it.
pub(crate) struct Asked {
    pub(crate) target: String,
    /// The whole head, in lower case but for the first line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// The number of the connection, and of the request on it, from 0.
    pub(crate) connection: usize,
    pub(crate) request: usize,
}

/// One step of an answer.
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Waits until this is set, for at most a minute.
    Until(Arc<AtomicBool>),
    /// Says nothing more until the client leaves.
    Stall,
    /// Ends the connection.
    Close,
    /// Ends it with a reset.
    Reset,
}

/// An origin that listens until the process ends.
pub(crate) struct ScriptedOrigin {
    pub(crate) port: u16,
    /// The heads of all requests.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    pub(crate) connections: Arc<AtomicUsize>,
}

/// An answer with a body and further header lines (each with its line end).
pub(crate) fn answer(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<Step> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    vec![Step::Send(bytes)]
}
/// A chunked answer, in pieces of a size.
pub(crate) fn chunked(body: &[u8], size: usize) -> Vec<Step> {
    let mut bytes = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(size) {
        bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
        bytes.extend_from_slice(chunk);
        bytes.extend(b"\r\n");
    }
    bytes.extend(b"0\r\nx-trailer: 1\r\n\r\n");
    vec![Step::Send(bytes)]
}

impl ScriptedOrigin {
    pub(crate) fn start(script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> ScriptedOrigin {
        ScriptedOrigin::on(TcpListener::bind("127.0.0.1:0").expect("a port"), script)
    }
    pub(crate) fn on(
        listener: TcpListener,
        script: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static,
    ) -> ScriptedOrigin {
        let port = listener.local_addr().expect("an address").port();
        let (requests, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let (seen, count, script) = (requests.clone(), connections.clone(), Arc::new(script));
        spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, script, connection) = (seen.clone(), script.clone(), count.fetch_add(1, Relaxed));
                spawn(move || serve(stream, connection, &seen, &*script));
            }
        });
        ScriptedOrigin { port, requests, connections }
    }
    pub(crate) fn asked(&self) -> usize {
        self.requests.lock().expect("no panic").len()
    }
}

fn serve(mut stream: TcpStream, connection: usize, seen: &Mutex<Vec<String>>, script: &dyn Fn(&Asked) -> Vec<Step>) {
    stream.set_nodelay(true).expect("a socket");
    let mut input = Vec::new();
    let mut buffer = [0; 65536];
    for request in 0.. {
        let end = loop {
            if let Some(at) = input.windows(4).position(|part| part == b"\r\n\r\n") {
                break at + 4;
            }
            let Ok(read @ 1..) = stream.read(&mut buffer) else { return };
            input.extend_from_slice(&buffer[..read]);
        };
        let head = String::from_utf8(input.drain(..end).collect()).expect("ASCII");
        let (line, fields) = head.split_once("\r\n").expect("a first line");
        let lower = format!("{line}\r\n{}", fields.to_ascii_lowercase());
        let length = lower.split("\r\ncontent-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.map_or(0, |text| text.parse().expect("a length"));
        while input.len() < length {
            let Ok(read @ 1..) = stream.read(&mut buffer) else { return };
            input.extend_from_slice(&buffer[..read]);
        }
        let body = input.drain(..length).collect();
        let target = head.split(' ').nth(1).expect("a target").to_owned();
        seen.lock().expect("no panic").push(head);
        for step in script(&Asked { target, head: lower, body, connection, request }) {
            match step {
                Step::Send(bytes) => {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
                Step::Wait(time) => sleep(time),
                Step::Until(is_set) => {
                    let begun = Instant::now();
                    while !is_set.load(Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                        sleep(Duration::from_millis(1));
                    }
                }
                Step::Stall => {
                    let _ = stream.read(&mut buffer);
                    return;
                }
                Step::Close => return,
                Step::Reset => {
                    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket");
                    return;
                }
            }
        }
    }
}
