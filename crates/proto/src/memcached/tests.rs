//! The parser against a table of everything that is wrong, and against input in pieces.
use super::{Limits, Login, Parser, Request, Step, keys_ahead, request::StoreMode};
use proptest::prelude::*;

const LIMITS: Limits = Limits { max_value: 100 };

/// What a line is refused with; empty: it is a request.
fn refusal(line: &str) -> String {
    match Parser::default().parse(format!("{line}\r\n").as_bytes(), &LIMITS) {
        Step::Refused { line, is_quiet, .. } => format!("{}{line}", if is_quiet { "(quiet) " } else { "" }),
        Step::Request(..) => String::new(),
        Step::TooLarge { is_quiet, .. } => format!("{}(too large)", if is_quiet { "(quiet) " } else { "" }),
        Step::More(_) => "(more)".to_owned(),
        Step::Close => "(close)".to_owned(),
        Step::Skip(_) => "(skip)".to_owned(),
    }
}

const BAD: &str = "CLIENT_ERROR bad command line format";

/// Every command, right and wrong.
#[test]
fn commands_are_refused_like_in_memcached() {
    let long = "k".repeat(251);
    let most = "k".repeat(250);
    let flags = "O1 q k v t f s c h l u b T1 N1 R1 F1 C1 D1";
    for (line, expected) in [
        ("", "ERROR"),
        (" ", "ERROR"),
        ("x", "ERROR"),
        ("nonsense", "ERROR"),
        ("GET a", "ERROR"),
        ("get", "ERROR"),
        ("get a", ""),
        (" get  a  b ", ""),
        (&format!("get {most}"), ""),
        (&format!("get a {long}"), BAD),
        ("get a\tb", BAD),
        ("get a\x7f", BAD),
        ("gets", "ERROR"),
        ("gat", "ERROR"),
        ("gat x a", "CLIENT_ERROR invalid exptime argument"),
        ("gat 1 a b", ""),
        (&format!("gat 1 {long}"), BAD),
        ("gats 1 a", ""),
        ("set", "ERROR"),
        ("set a 0 0", "ERROR"),
        ("set a 0 0 1 noreply x", "ERROR"),
        ("set a 0 0 1", "(more)"),
        ("set a 0 0 1 noreply", "(more)"),
        ("set a x 0 1", BAD),
        ("set a -1 0 1", BAD),
        ("set a 4294967296 0 1", BAD),
        ("set a 4294967295 0 1", "(more)"),
        ("set a 0 x 1", BAD),
        ("set a 0 0 x", BAD),
        ("set a 0 0 -1", BAD),
        ("set a 0 0 x noreply", "(quiet) CLIENT_ERROR bad command line format"),
        ("set a 0 0 2147483646", BAD),
        ("set a 0 0 101", "(too large)"),
        ("set a 0 0 101 noreply", "(quiet) (too large)"),
        (&format!("set {long} 0 0 1"), BAD),
        ("add a 0 0 1", "(more)"),
        ("replace a 0 0 1", "(more)"),
        ("append a 0 0 1", "(more)"),
        ("prepend a 0 0 1", "(more)"),
        ("cas a 0 0 1", "ERROR"),
        ("cas a 0 0 1 x", BAD),
        ("cas a 0 0 1 1", "(more)"),
        ("cas a 0 0 1 1 noreply", "(more)"),
        ("cas a 0 0 1 1 noreply x", "ERROR"),
        ("incr", "ERROR"),
        ("incr a", "ERROR"),
        ("incr a 1", ""),
        ("incr a 1 noreply", ""),
        ("incr a -1", "CLIENT_ERROR invalid numeric delta argument"),
        ("incr a x noreply", "(quiet) CLIENT_ERROR invalid numeric delta argument"),
        ("incr a 18446744073709551616", "CLIENT_ERROR invalid numeric delta argument"),
        (&format!("incr {long} 1"), BAD),
        ("decr a", "ERROR"),
        ("decr a 1", ""),
        ("delete", "ERROR"),
        ("delete a", ""),
        ("delete a 0", ""),
        ("delete a noreply", ""),
        ("delete a 0 noreply", ""),
        ("delete a 1", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"),
        ("delete a 1 noreply", "(quiet) CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"),
        ("delete a 0 noreply x", "ERROR"),
        (&format!("delete {long}"), BAD),
        ("touch a", "ERROR"),
        ("touch a 1", ""),
        ("touch a x", "CLIENT_ERROR invalid exptime argument"),
        (&format!("touch {long} 1"), BAD),
        ("flush_all", ""),
        ("flush_all noreply", ""),
        ("flush_all 1", ""),
        ("flush_all 1 noreply", ""),
        ("flush_all x", "CLIENT_ERROR invalid exptime argument"),
        ("flush_all 1 noreply x", "ERROR"),
        ("version", ""),
        ("quit", ""),
        ("stats", ""),
        ("stats items", ""),
        ("verbosity", "ERROR"),
        ("verbosity 1", ""),
        ("verbosity 1 noreply", ""),
        ("verbosity x", BAD),
        ("shutdown", "ERROR: shutdown not enabled"),
        ("mn", ""),
        ("mx", "ERROR"),
        ("mg", "ERROR"),
        ("mg a", ""),
        ("mg a v k O123", ""),
        ("mg a v v", "CLIENT_ERROR duplicate flag"),
        ("mg a !", "CLIENT_ERROR invalid flag"),
        ("mg a Tx", "CLIENT_ERROR bad token in command line format"),
        ("mg a N", "CLIENT_ERROR bad token in command line format"),
        ("mg a O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"),
        (&format!("mg {long}"), BAD),
        (&format!("mg a {flags}"), "CLIENT_ERROR options flags are too long"),
        ("ms a", BAD),
        ("ms a x", BAD),
        ("ms a -1", BAD),
        ("ms a 1", "(more)"),
        ("ms a 101", "(too large)"),
        ("ms a 1 MX", "CLIENT_ERROR invalid mode for ms M token"),
        ("ms a 1 MEE", "CLIENT_ERROR incorrect length for M token"),
        ("ms a 1 Fx", BAD),
        ("ms a 1 Cx", "CLIENT_ERROR bad token in command line format"),
        ("md", "ERROR"),
        ("md a", ""),
        ("md a !", "CLIENT_ERROR invalid or duplicate flag"),
        ("ma a", ""),
        ("ma a D5 MD", ""),
        ("ma a Dx", "CLIENT_ERROR invalid or duplicate flag"),
        ("ma a MX", "CLIENT_ERROR invalid mode for ma M token"),
        ("me", BAD),
        ("me a", ""),
        ("GET / HTTP/1.1", "(close)"),
        ("POST /x HTTP/1.0", "(close)"),
        ("Host: localhost", "(close)"),
    ] {
        assert_eq!(refusal(line), expected, "{line:?}");
    }
}

#[test]
fn a_value_is_taken_with_its_end() {
    let mut parser = Parser::default();
    let whole = b"set a 5 -1 3\r\nv\r\n\r\nget b\n";
    let Step::Request(Request::Store(store), consumed) = parser.parse(whole, &LIMITS) else { panic!("a request") };
    assert_eq!((store.key, store.flags, store.exptime, store.value), (&b"a"[..], 5, -1, &b"v\r\n"[..]));
    assert_eq!((store.mode, consumed), (StoreMode::Set, whole.len() - 6));
    let wrong = b"set a 0 0 1\r\nvvv\r\nget b\r\n";
    let Step::Refused { line, consumed, .. } = parser.parse(wrong, &LIMITS) else { panic!("refused") };
    assert_eq!(line, "CLIENT_ERROR bad data chunk");
    assert_eq!(parser.parse(&wrong[consumed..], &LIMITS), Step::Skip(3));
}

#[test]
fn a_line_that_does_not_end_is_not_kept() {
    for (line, closes) in [("get ", false), ("gets ", false), ("set ", true), ("", true)] {
        let line = [line.as_bytes(), &[b'k'; 3000]].concat();
        let step = Parser::default().parse(&line, &LIMITS);
        assert_eq!(step == Step::Close, closes, "{step:?}");
    }
    assert_eq!(Parser::default().parse_login(&[b'x'; 3000]), Login::Close);
}

#[test]
fn a_login_is_a_set_of_a_name_and_a_password() {
    let login = |bytes: &'static [u8]| Parser::default().parse_login(bytes);
    assert_eq!(login(b"set x 0 0 4\r\nu pw\r\nget"), Login::Credentials(b"u", b"pw", 19));
    assert_eq!(login(b"set x 0 0 4\r\nu p"), Login::More(3));
    assert_eq!(login(b"get x\r\n"), Login::Refused("CLIENT_ERROR unauthenticated", 7));
    assert_eq!(login(b"set x 0 0 x\r\n"), Login::Refused("CLIENT_ERROR unauthenticated", 13));
    assert_eq!(login(b"set x 0 0 1\r\nvvv"), Login::Refused("CLIENT_ERROR bad command line termination", 16));
    assert_eq!(login(b"set x 0 0 1\r\nv\r\n"), Login::Refused("CLIENT_ERROR bad authentication token format", 16));
    assert_eq!(login(b"set x 0 0 99999999\r\n"), Login::Close);
}

#[test]
fn keys_are_seen_ahead() {
    let input = b"get a b\r\nset c 0 0 1\r\nv\r\nversion\r\nmg d v\r\nget e";
    let seen: Vec<_> = keys_ahead(input).collect();
    assert_eq!(seen, [Some(&b"a"[..]), Some(b"c"), None, Some(b"d")]);
}

/// The requests and refusals of some bytes that arrive in pieces of these lengths.
fn steps(bytes: &[u8], pieces: &[usize]) -> Vec<String> {
    let (mut parser, mut steps) = (Parser::default(), Vec::new());
    let (mut start, mut arrived) = (0, 0);
    let mut pieces = pieces.iter();
    loop {
        let consumed = match parser.parse(&bytes[start..arrived], &LIMITS) {
            Step::More(more) => {
                assert!(more > 0);
                if arrived == bytes.len() {
                    return steps;
                }
                arrived = (arrived + pieces.next().map_or(bytes.len(), |piece| *piece)).min(bytes.len());
                continue;
            }
            Step::Skip(bytes) => bytes,
            Step::Close => return steps,
            Step::Request(request, consumed) => {
                steps.push(format!("{request:?}"));
                consumed
            }
            Step::Refused { line, is_quiet, consumed } => {
                steps.push(format!("{line} {is_quiet}"));
                consumed
            }
            Step::TooLarge { request, is_quiet, consumed } => {
                steps.push(format!("{request:?} {is_quiet}"));
                consumed
            }
        };
        assert!(consumed > 0 && start + consumed <= arrived);
        start += consumed;
    }
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "(get|gets|gat|set|add|cas|append|incr|delete|touch|mg|ms|md|ma|me|mn|flush_all|noreply|stats)",
        "[0-9]{1,3}",
        "[kvtTNRqbcCMOFIE][0-9SEA]?",
        "[ -~]{0,12}",
        Just("\r\n".to_owned()),
    ]
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        words in proptest::collection::vec((word(), "[ \r\n]{1,2}"), 0..60),
        pieces in proptest::collection::vec(1usize..40, 0..40),
    ) {
        let bytes: Vec<u8> = words.into_iter().flat_map(|(word, space)| [word, space].concat().into_bytes()).collect();
        prop_assert_eq!(steps(&bytes, &[]), steps(&bytes, &pieces));
    }

    #[test]
    fn any_bytes_come_to_something(bytes in proptest::collection::vec(any::<u8>(), 0..300), pieces in proptest::collection::vec(1usize..40, 0..40)) {
        prop_assert_eq!(steps(&bytes, &[]), steps(&bytes, &pieces));
        keys_ahead(&bytes).take(100).for_each(drop);
        Parser::default().parse_login(&bytes);
    }
}
