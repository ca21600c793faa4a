//! What a client sends: however it is cut into pieces, the same commands come out of it, and a command that is written again
//! is the same command.
#![no_main]

use arbitrary::Arbitrary;
use larder_proto::{output::Output, resp::Limits, resp::Parsed, resp::Parser, resp::ProtocolError, resp::write_command};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    authenticated: bool,
    pieces: Vec<u8>,
    bytes: Vec<u8>,
}

type Commands = Vec<Vec<Vec<u8>>>;

/// The commands of `bytes`, which arrive in pieces, and the error that ends them.
fn commands(bytes: &[u8], pieces: &[u8], limits: &Limits) -> (Commands, Option<ProtocolError>) {
    let (mut parser, mut commands) = (Parser::default(), Vec::new());
    let (mut start, mut arrived) = (0, 0);
    let mut pieces = pieces.iter();
    loop {
        match parser.parse(&bytes[start..arrived], limits) {
            Err(error) => return (commands, Some(error)),
            Ok(Parsed::Command { consumed }) => {
                assert!(consumed > 0 && start + consumed <= arrived);
                let args = parser.args(&bytes[start..arrived]);
                commands.push(args.from(0).map(<[u8]>::to_vec).collect());
                start += consumed;
            }
            Ok(Parsed::Incomplete { more }) => {
                assert!(more > 0);
                if arrived == bytes.len() {
                    return (commands, None);
                }
                // When the pieces are used up, the rest comes at once.
                let piece = pieces.next().map_or(bytes.len(), |piece| usize::from(*piece) + 1);
                arrived = (arrived + piece).min(bytes.len());
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let mut limits = Limits::new(1 << 16);
    limits.authenticated = input.authenticated;
    let (whole, error) = commands(&input.bytes, &[], &limits);
    let cut = commands(&input.bytes, &input.pieces, &limits);
    assert_eq!((&whole, error), (&cut.0, cut.1));
    if let Some(error) = error {
        let mut out = Output::default();
        error.reply(&mut out);
        let reply = out.to_vec();
        assert!(reply.starts_with(b"-ERR Protocol error: ") && reply.ends_with(b"\r\n"));
        assert_eq!(reply.iter().filter(|b| matches!(b, b'\r' | b'\n')).count(), 2);
    }
    let mut again = Vec::new();
    for command in &whole {
        write_command(&mut again, command.iter().map(Vec::as_slice));
    }
    assert_eq!(commands(&again, &input.pieces, &Limits::new(1 << 16)), (whole, None));
});
