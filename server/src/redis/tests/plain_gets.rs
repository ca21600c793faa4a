//! A row of plain GETs is answered as its commands are one by one.
use super::support::Server;
use crate::redis::plain_gets::{self, GetRun};
use larder_proto::{output::Output, resp::encode};
use larder_store::clock;

/// What is begun of `input`, and answered, with room for `enough` bytes.
fn begin(server: &Server, input: &[u8], enough: usize) -> (GetRun, String) {
    let (mut client, mut out) = (server.client(), Output::default());
    let gets = plain_gets::begin(
        &server.worker,
        &mut client.session,
        input,
        clock::now(),
        (&mut out, enough),
        &mut Vec::new(),
    );
    (gets, String::from_utf8(out.to_vec()).expect("text"))
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
        let (mut out, mut batch) = (Output::default(), Vec::new());
        let room = (&mut out, usize::MAX);
        let gets = plain_gets::begin(&server.worker, &mut client.session, input, clock::now(), room, &mut batch);
        (gets.commands, String::from_utf8(out.to_vec()).expect("text"))
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
    none(&server, &row(&[""]));
    none(&server, b"*2\r\n$3\r\nDEL\r\n$1\r\na\r\n");
    none(&Server::new(&["--password=secret"]), &row(&["a"]));
    // In a transaction it is queued.
    let mut client = server.client();
    client.say("MULTI");
    let mut out = Output::default();
    let gets = plain_gets::begin(
        &server.worker,
        &mut client.session,
        &row(&["a"]),
        clock::now(),
        (&mut out, 99),
        &mut Vec::new(),
    );
    assert_eq!((gets.commands, out.len()), (0, 0));
    // What is recorded is recorded one by one.
    server.worker.app.telemetry.recorder.take(1.0);
    none(&server, &row(&["a"]));
}
