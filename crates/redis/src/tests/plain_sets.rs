//! A row of plain SETs does what its commands do one by one.
use super::support::{Client, Server};
use crate::{plain_gets::PlainRun, plain_sets};
use larder_proto::{output::Output, resp::encode};
use larder_store::clock;

/// What is begun of `input`, and answered, with room for `enough` bytes.
fn begin(server: &Server, client: &mut Client<'_>, input: &[u8], enough: usize) -> (PlainRun, String) {
    let mut out = Output::default();
    let sets = plain_sets::begin(&server.worker, &mut client.session, input, clock::now(), (&mut out, enough));
    (sets, String::from_utf8(out.to_vec()).expect("text"))
}

fn row(pairs: &[(&str, &str)]) -> Vec<u8> {
    pairs.iter().flat_map(|(key, value)| encode(&[b"set", key.as_bytes(), value.as_bytes()])).collect()
}

#[test]
fn what_is_set_is_stored_and_counted() {
    let server = Server::new(&[]);
    let mut client = server.client();
    let input = row(&[("a", "1"), ("bb", ""), ("a", "2")]);
    let more = [&input[..], b"*1\r\n$4\r\nPING\r\n"].concat();
    let (sets, out) = begin(&server, &mut client, &more, usize::MAX);
    assert_eq!((sets.commands, sets.consumed, out.as_str()), (3, input.len(), "+OK\r\n+OK\r\n+OK\r\n"));
    assert_eq!(client.say("MGET a bb"), "*2\r\n$1\r\n2\r\n$0\r\n\r\n");
    let sums = server.worker.app.commands.sums();
    assert_eq!(sums.iter().find(|of| of.name == "set").expect("it was called").calls, 3);
}

#[test]
fn a_row_ends_where_enough_is_due_and_before_what_is_too_long() {
    let server = Server::new(&["--max-key=3", "--max-value=4"]);
    let mut client = server.client();
    assert_eq!(begin(&server, &mut client, &row(&[("a", "1"); 5]), 6).0.commands, 2);
    assert_eq!(begin(&server, &mut client, &row(&[("a", "1"); 40]), usize::MAX).0.commands, 16);
    for long in [("long", "1"), ("b", "value")] {
        let (sets, _) = begin(&server, &mut client, &row(&[("a", "1"), long, ("c", "1")]), usize::MAX);
        assert_eq!(sets.commands, 1, "{long:?}");
    }
    assert_eq!(client.say("EXISTS b c"), ":0\r\n");
}

#[test]
fn what_needs_a_look_is_left_alone() {
    let input = row(&[("a", "1")]);
    let none = |server: &Server, client: &mut Client<'_>, why: &str| {
        assert_eq!(begin(server, client, &input, usize::MAX).0.commands, 0, "{why}");
        assert_eq!(server.client().say("EXISTS a"), ":0\r\n", "{why}");
    };
    for said in ["MULTI", "CLIENT REPLY OFF", "CLIENT TRACKING ON", "SUBSCRIBE channel"] {
        let server = Server::new(&[]);
        let mut client = server.client();
        client.say(said);
        none(&server, &mut client, said);
    }
    for rules in ["+@all ~b:*", "+get ~*", "+@all %R~*"] {
        let server = Server::new(&[]);
        server.client().say(&format!("ACL SETUSER u on nopass {rules}"));
        let mut client = server.client();
        client.say("AUTH u x");
        none(&server, &mut client, rules);
    }
    let server = Server::new(&[]);
    server.worker.app.telemetry.recorder.take(1.0);
    none(&server, &mut server.client(), "what is recorded is recorded one by one");
    for setting in ["--deny-commands=set", "--slowlog-log-slower-than=0"] {
        let server = Server::new(&[setting]);
        none(&server, &mut server.client(), setting);
    }
}
