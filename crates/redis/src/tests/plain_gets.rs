//! A row of plain GETs is answered as its commands are one by one.
use super::support::Server;
use crate::{
    Flow, PendingRead,
    connection::{BufferPool, ClientConnection, Protocol as _},
    plain_gets::{self, GetReplies, PlainRun},
};
use larder_engine::Write;
use larder_proto::{output::Output, resp::encode};
use larder_source::{Fetch, LocalFuture, Source, SourceError, SourceKind, ValueWrites};
use larder_store::{StoredValue, clock};
use std::{
    cell::RefCell,
    future::ready,
    rc::Rc,
    task::{Context, Waker},
};

/// Replies that need not wait, with room for so many bytes.
struct Room(Output, usize);
impl GetReplies for Room {
    fn output(&mut self) -> (&mut Output, usize) {
        (&mut self.0, self.1)
    }
    fn wait(&mut self, _read: PendingRead) -> bool {
        panic!("there is no source")
    }
}

/// What is begun of `input`, and answered, with room for `enough` bytes.
fn begin(server: &Server, input: &[u8], enough: usize) -> (PlainRun, String) {
    let (mut client, mut room) = (server.client(), Room(Output::default(), enough));
    let gets = plain_gets::begin(&server.worker, &mut client.session, input, clock::now(), &mut room, &mut Vec::new());
    (gets, String::from_utf8(room.0.to_vec()).expect("text"))
}

fn row(keys: &[&str]) -> Vec<u8> {
    keys.iter().flat_map(|key| encode(&[b"get", key.as_bytes()])).collect()
}

#[test]
fn hits_and_absences_are_answered_in_order_and_counted() {
    let server = Server::new(&[]);
    server.client().say("SET a 1");
    server.client().say("SET bb 22");
    let before = server.worker.app.commands.total();
    let input = row(&["a", "none", "bb"]);
    let (gets, out) = begin(&server, &[&input[..], b"*1\r\n$4\r\nPING\r\n"].concat(), usize::MAX);
    assert_eq!(out, "$1\r\n1\r\n$-1\r\n$2\r\n22\r\n");
    assert_eq!((gets.commands, gets.consumed), (3, input.len()));
    assert_eq!(server.worker.app.commands.total() - before, 3);
    let sums = server.worker.app.commands.sums();
    let get = sums.iter().find(|of| of.name == "get").expect("it was called");
    assert_eq!(get.calls, 3);
}

#[test]
fn a_row_ends_where_enough_is_due() {
    let server = Server::new(&[]);
    server.client().say("SET a 1");
    let (gets, out) = begin(&server, &row(&["a"; 5]), 8);
    assert_eq!((gets.commands, out.as_str()), (2, "$1\r\n1\r\n$1\r\n1\r\n"));
    assert_eq!(begin(&server, &row(&["a"; 40]), usize::MAX).0.commands, 16);
}

#[test]
fn a_row_ends_before_a_key_that_the_user_may_not_read() {
    let server = Server::new(&[]);
    server.client().say("MSET a:1 one b:1 two");
    server.client().say("ACL SETUSER u on nopass +get ~a:*");
    let mut client = server.client();
    client.say("AUTH u x");
    let mut begin = |input: &[u8]| {
        let (mut room, mut batch) = (Room(Output::default(), usize::MAX), Vec::new());
        let gets = plain_gets::begin(&server.worker, &mut client.session, input, clock::now(), &mut room, &mut batch);
        (gets.commands, String::from_utf8(room.0.to_vec()).expect("text"))
    };
    assert_eq!(begin(&row(&["a:1", "a:2", "b:1", "a:1"])), (2, "$3\r\none\r\n$-1\r\n".to_owned()));
    assert_eq!(begin(&row(&["b:1"])).0, 0);
    // Rules that have changed meanwhile are read first.
    server.client().say("ACL SETUSER u resetkeys");
    assert_eq!(begin(&row(&["a:1"])).0, 0);
}

#[test]
fn what_needs_a_look_is_left_alone() {
    let none = |server: &Server, input: &[u8]| assert_eq!(begin(server, input, usize::MAX).0.commands, 0);
    let server = Server::new(&["--max-key=3"]);
    none(&server, &row(&["long"]));
    assert_eq!(begin(&server, &row(&[""]), usize::MAX).0.commands, 1, "the empty key is one like others");
    none(&server, b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n");
    none(&Server::new(&["--password=secret"]), &row(&["a"]));
    // In a transaction it is queued.
    let mut client = server.client();
    client.say("MULTI");
    let (mut room, input) = (Room(Output::default(), 99), row(&["a"]));
    let gets = plain_gets::begin(&server.worker, &mut client.session, &input, clock::now(), &mut room, &mut Vec::new());
    assert_eq!((gets.commands, room.0.len()), (0, 0));
    // What is recorded is recorded one by one.
    server.worker.app.telemetry.recorder.take(1.0);
    none(&server, &row(&["a"]));
}

/// A source that answers when the test says so: the batches of fetches that it was given.
#[derive(Default)]
struct Held(RefCell<Vec<Vec<Fetch>>>);
impl Source for Held {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Values(ValueWrites::Refused("held"))
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        self.0.borrow_mut().push(std::mem::take(batch));
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(ready(Ok(())))
    }
}
impl Held {
    /// The keys of the batches.
    fn asked(&self) -> Vec<Vec<String>> {
        let text = |fetch: &Fetch| String::from_utf8_lossy(fetch.key()).into_owned();
        self.0.borrow().iter().map(|batch| batch.iter().map(text).collect()).collect()
    }
    /// Answers the fetch of this place in the first batch with its key, twice.
    fn answer(&self, at: usize) {
        let fetch = self.0.borrow_mut()[0].remove(at);
        let value = [fetch.key(), fetch.key()].concat();
        fetch.finish(Ok(Some(StoredValue::string(value, None))), clock::now());
    }
}

/// What the client gets now.
fn replies(server: &Server, conn: &mut ClientConnection) -> String {
    let _ = conn.poll_waiting(&server.worker, &mut Context::from_waker(Waker::noop()));
    let text = String::from_utf8(conn.out.to_vec()).expect("text");
    conn.out = Output::default();
    text
}

#[test]
fn a_row_goes_on_behind_misses_and_asks_the_source_once() {
    let source = Rc::new(Held::default());
    let server = Server::with_source(&[], source.clone());
    let (mut conn, pool) = (server.conn(), BufferPool::default());
    for hit in ["a", "b"] {
        let cache = &server.worker.groups.default().cache;
        cache.tier().set(cache.key(hit.as_bytes()), Write::new(hit.as_bytes()), clock::now()).expect("it fits");
    }
    let before = server.worker.app.commands.total();
    conn.input.feed(&row(&["a", "x", "b", "y", "x", "a", "a"]), &pool);
    assert_eq!(conn.process(&server.worker, &pool, clock::now()), Flow::Input { more: 1 });
    assert_eq!(source.asked(), [["x", "y"]]);
    assert_eq!(server.worker.app.commands.total() - before, 7);
    assert_eq!(replies(&server, &mut conn), "$1\r\na\r\n");
    // What comes first waits for no other, and what comes later waits for it.
    source.answer(1);
    assert_eq!(replies(&server, &mut conn), "");
    source.answer(0);
    let rest = "$2\r\nxx\r\n$1\r\nb\r\n$2\r\nyy\r\n$2\r\nxx\r\n$1\r\na\r\n$1\r\na\r\n";
    assert_eq!(replies(&server, &mut conn), rest);
    assert!(!conn.is_waiting() && conn.holding().output <= 64 * 1024);
    let gets = server.worker.app.commands.sums().into_iter().find(|of| of.name == "get").expect("it was called");
    assert_eq!(gets.calls, 7);
}

#[test]
fn a_row_stops_where_too_many_replies_wait() {
    let source = Rc::new(Held::default());
    let server = Server::with_source(&["--max-pipeline=2"], source.clone());
    let (mut conn, pool) = (server.conn(), BufferPool::default());
    conn.input.feed(&row(&["x", "y", "z"]), &pool);
    assert_eq!(conn.process(&server.worker, &pool, clock::now()), Flow::Full);
    assert_eq!(source.asked(), [["x", "y"]]);
    source.answer(0);
    assert_eq!(replies(&server, &mut conn), "$2\r\nxx\r\n");
    assert_eq!(conn.process(&server.worker, &pool, clock::now()), Flow::Full);
    assert_eq!(source.asked(), [vec!["y"], vec!["z"]]);
}

#[test]
fn a_row_stops_behind_a_miss_where_enough_bytes_are_due() {
    let source = Rc::new(Held::default());
    let server = Server::with_source(&[], source.clone());
    let (mut conn, pool) = (server.conn(), BufferPool::default());
    let big = "b".repeat(300 << 10);
    let cache = &server.worker.groups.default().cache;
    cache.tier().set(cache.key(b"big"), Write::new(big.as_bytes()), clock::now()).expect("it fits");
    let begun = || server.worker.app.commands.total();
    let before = begun();
    conn.input.feed(&row(&[&["x", "big", "big", "y"][..], &["big"; 6]].concat()), &pool);
    // Four of them are more than a MiB.
    assert_eq!(conn.process(&server.worker, &pool, clock::now()), Flow::Full);
    assert_eq!(begun() - before, 6);
    assert_eq!(replies(&server, &mut conn), "");
    source.answer(0);
    source.answer(0);
    let two = format!("${}\r\n{big}\r\n", big.len()).repeat(2);
    assert!(replies(&server, &mut conn) == format!("$2\r\nxx\r\n{two}$2\r\nyy\r\n{two}"));
    assert_eq!(conn.process(&server.worker, &pool, clock::now()), Flow::Full);
    assert_eq!(begun() - before, 10);
    assert!(replies(&server, &mut conn) == two.repeat(2));
    assert!(!conn.is_full());
}
