//! What a memcached client sends: however it is cut into pieces, the same requests come out of it, and every step goes on.
#![no_main]

use arbitrary::Arbitrary;
use larder_proto::memcached::{Limits, Login, Parser, Step, keys_ahead};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Input {
    pieces: Vec<u8>,
    bytes: Vec<u8>,
}

/// What is said of `bytes`, which arrive in pieces.
fn steps(bytes: &[u8], pieces: &[u8]) -> Vec<String> {
    let (mut parser, mut steps, mut skipped) = (Parser::default(), Vec::new(), 0);
    let (mut start, mut arrived) = (0, 0);
    let mut pieces = pieces.iter();
    loop {
        let (said, consumed) = match parser.parse(&bytes[start..arrived], &Limits { max_value: 64 }) {
            Step::More(more) => {
                assert!(more > 0);
                if arrived == bytes.len() {
                    steps.push(format!("{skipped} skipped"));
                    return steps;
                }
                let piece = pieces.next().map_or(bytes.len(), |piece| usize::from(*piece) + 1);
                arrived = (arrived + piece).min(bytes.len());
                continue;
            }
            Step::Skip(bytes) => {
                skipped += bytes;
                start += bytes;
                continue;
            }
            Step::Close => return steps,
            Step::Request(request, consumed) => (format!("{request:?}"), consumed),
            Step::Refused { line, is_quiet, consumed } => (format!("{line} {is_quiet}"), consumed),
            Step::TooLarge { request, is_quiet, consumed } => (format!("{request:?} {is_quiet}"), consumed),
        };
        assert!(consumed > 0 && start + consumed <= arrived && !said.contains('\n'));
        steps.push(said);
        start += consumed;
    }
}

fuzz_target!(|input: Input| {
    // A line that does not end is refused by what has arrived of it.
    if input.bytes.len() <= 2048 {
        assert_eq!(steps(&input.bytes, &[]), steps(&input.bytes, &input.pieces));
    }
    assert!(keys_ahead(&input.bytes).take(64).flatten().all(|key| key.len() <= 250));
    if let Login::Credentials(_, _, consumed) | Login::Refused(_, consumed) = Parser::default().parse_login(&input.bytes) {
        assert!(consumed <= input.bytes.len());
    }
});
