//! A node that refuses requests: a proxy before each node, of which one answers in the node's name.
use super::{server::CassandraNode, text};
use crate::{common::Port, larder::Larder};
use std::{
    collections::HashSet,
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
};

/// Codes of errors of the protocol.
const SERVER_ERROR: i32 = 0x0000;
const OVERLOADED: i32 = 0x1001;
const BOOTSTRAPPING: i32 = 0x1002;
/// Opcodes of the protocol.
const ERROR: u8 = 0x00;
const RESULT: u8 = 0x08;
const PREPARE: u8 = 0x09;
const EXECUTE: u8 = 0x0A;
/// The kind of a result that has the number of a prepared statement.
const PREPARED: &[u8] = &[0, 0, 0, 4];
/// Bytes before the body of a message.
const HEAD: usize = 9;

/// What the first proxy answers to prepared UPDATEs, instead of asking its node.
#[derive(Default)]
struct Refusals {
    code: Mutex<Option<i32>>,
    made: AtomicU64,
    /// Numbers of the statements.
    updates: Mutex<HashSet<Vec<u8>>>,
}

impl Refusals {
    /// The refusals that follow have this code.
    fn begin(&self, code: i32) {
        *self.code.lock().unwrap() = Some(code);
        self.made.store(0, SeqCst);
    }

    /// The code with which a request is refused.
    fn of(&self, request: &[u8]) -> Option<i32> {
        let is_update = request[4] == EXECUTE && self.updates.lock().unwrap().contains(number(&request[HEAD..]));
        self.code.lock().unwrap().filter(|_| is_update)
    }

    /// Serves one connection of the driver.
    fn serve(self: &Arc<Refusals>, mut client: TcpStream, mut node: TcpStream) {
        let to_client = Arc::new(Mutex::new(client.try_clone().unwrap()));
        // Streams on which an UPDATE is prepared.
        let preparing = Arc::new(Mutex::new(HashSet::<Vec<u8>>::new()));
        let (mut from_node, answers, streams, refusals) =
            (node.try_clone().unwrap(), to_client.clone(), preparing.clone(), self.clone());
        thread::spawn(move || {
            while let Ok(answer) = message(&mut from_node) {
                let is_prepared = answer[4] == RESULT && answer[HEAD..].starts_with(PREPARED);
                if is_prepared && streams.lock().unwrap().remove(&answer[2..4]) {
                    refusals.updates.lock().unwrap().insert(number(&answer[HEAD + PREPARED.len()..]).to_vec());
                }
                if answers.lock().unwrap().write_all(&answer).is_err() {
                    break;
                }
            }
            let _ = answers.lock().unwrap().shutdown(Shutdown::Both);
        });
        let refusals = self.clone();
        thread::spawn(move || {
            while let Ok(request) = message(&mut client) {
                if request[4] == PREPARE && request[HEAD + 4..].starts_with(b"UPDATE") {
                    preparing.lock().unwrap().insert(request[2..4].to_vec());
                }
                let sent = match refusals.of(&request) {
                    None => node.write_all(&request),
                    Some(code) => {
                        refusals.made.fetch_add(1, SeqCst);
                        to_client.lock().unwrap().write_all(&error(&request, code))
                    }
                };
                if sent.is_err() {
                    break;
                }
            }
            let _ = node.shutdown(Shutdown::Both);
        });
    }
}

/// The number of a statement at the start of these bytes.
fn number(bytes: &[u8]) -> &[u8] {
    &bytes[2..2 + usize::from(u16::from_be_bytes([bytes[0], bytes[1]]))]
}

/// One message with its head.
fn message(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; HEAD];
    from.read_exact(&mut message)?;
    let length = u32::from_be_bytes(*message.last_chunk().unwrap());
    message.resize(HEAD + length as usize, 0);
    from.read_exact(&mut message[HEAD..])?;
    Ok(message)
}

/// The answer to a request.
fn error(request: &[u8], code: i32) -> Vec<u8> {
    let text = b"refused";
    let body = [&code.to_be_bytes()[..], &(text.len() as u16).to_be_bytes(), text].concat();
    let head = [0x84, 0, request[2], request[3], ERROR];
    [&head[..], &(body.len() as u32).to_be_bytes(), &body].concat()
}

/// Proxies on the same port of each node's address: the driver takes it for the port of all nodes.
fn proxies(nodes: &[CassandraNode]) -> (Port, Arc<Refusals>) {
    let (port, listeners) = loop {
        let port = Port::free();
        let listeners: io::Result<Vec<_>> =
            nodes.iter().map(|node| TcpListener::bind((node.host(), port.number))).collect();
        // The port is free on 127.0.0.1; another process may have it on the other addresses.
        if let Ok(listeners) = listeners {
            break (port, listeners);
        }
    };
    let first = Arc::new(Refusals::default());
    for (number, listener) in listeners.into_iter().enumerate() {
        let refusals = if number == 0 { first.clone() } else { Arc::default() };
        let node = (nodes[number].host().to_owned(), nodes[number].port());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(node) = TcpStream::connect((&node.0[..], node.1)) {
                    refusals.serve(client, node);
                }
            }
        });
    }
    (port, first)
}

/// What one node refuses before it does anything, another node takes. A write that may have been made
/// is sent to no other node, and is an error.
pub fn refused_writes_go_to_another_node(nodes: &[CassandraNode]) {
    const WRITES: usize = 40;
    let url = CassandraNode::url_of(nodes, "refusals");
    let (port, refusals) = proxies(nodes);
    let url = url.replace(&format!(":{}", nodes[0].port()), &format!(":{}", port.number));
    let larder = Larder::start(&["--source", &url]);
    let mut client = larder.client();
    let retries = || larder.metric("larder_source_driver_retries_total");
    // The replies to plain writes of many keys, and how many of them were refused at the first node.
    let mut write = |value: &str| {
        let replies = (0..WRITES).map(|number| text(&mut client, &["SET", &format!("key:{number}"), value]));
        (replies.collect::<Vec<_>>(), refusals.made.load(SeqCst))
    };
    for (code, value) in [(OVERLOADED, "1"), (BOOTSTRAPPING, "2")] {
        refusals.begin(code);
        let before = retries();
        let (replies, refused) = write(value);
        assert!(replies.iter().all(|reply| reply == "OK"), "{code:x}: {replies:?}");
        assert!(refused > 0, "the first node coordinates some of the keys");
        assert_eq!(retries(), before + refused as f64, "{code:x}");
    }
    refusals.begin(SERVER_ERROR);
    let before = retries();
    let (replies, refused) = write("3");
    let errors = replies.iter().filter(|reply| reply.starts_with("ERR source unavailable: ")).count();
    assert!(refused > 0 && errors as u64 == refused, "{refused} refusals: {replies:?}");
    assert!(replies.iter().all(|reply| reply == "OK" || reply.ends_with(": refused")), "{replies:?}");
    assert_eq!(retries(), before, "it may have been made");
}
