//! What an upstream server sends: a reply ends at the same byte however it is cut into pieces, and looking into it never
//! reaches beyond it.
#![no_main]

use arbitrary::Arbitrary;
use larder_proto::{resp::Malformed, resp::Scanner, resp::Values, resp::View, resp::view};
use libfuzzer_sys::fuzz_target;

/// Longest reply that is accepted.
const MAX: usize = 1 << 16;

#[derive(Debug, Arbitrary)]
struct Input {
    pieces: Vec<u8>,
    bytes: Vec<u8>,
}

/// Where the replies of `bytes`, which arrive in pieces, end; and whether something that is no reply follows.
fn ends(bytes: &[u8], pieces: &[u8]) -> (Vec<usize>, Result<(), Malformed>) {
    let (mut scanner, mut ends) = (Scanner::new(MAX), Vec::new());
    let (mut start, mut arrived) = (0, 0);
    let mut pieces = pieces.iter();
    loop {
        match scanner.scan(&bytes[start..arrived]) {
            Err(error) => return (ends, Err(error)),
            Ok(Some(len)) => {
                assert!(len > 0 && len <= MAX && start + len <= arrived);
                start += len;
                ends.push(start);
            }
            Ok(None) if arrived == bytes.len() => return (ends, Ok(())),
            Ok(None) => {
                assert!(scanner.missing(arrived - start) > 0);
                let piece = pieces.next().map_or(bytes.len(), |piece| usize::from(*piece) + 1);
                arrived = (arrived + piece).min(bytes.len());
            }
        }
    }
}

/// Looks at everything, a level at a time.
fn look(reply: &[u8]) {
    let mut inside: Vec<&[u8]> = vec![reply];
    while let Some(raw) = inside.pop() {
        let Ok(seen) = view(raw) else { continue };
        let values: Values<'_> = match seen {
            View::Array(values) | View::Map(values) | View::Set(values) | View::Push(values) => values,
            _ => continue,
        };
        assert!(values.count() <= values.len());
        let mut rest = values;
        while let Some(raw) = rest.next_raw() {
            inside.push(raw);
        }
    }
}

fuzz_target!(|input: Input| {
    let whole = ends(&input.bytes, &[]);
    assert_eq!(whole, ends(&input.bytes, &input.pieces));
    let mut start = 0;
    for end in whole.0 {
        look(&input.bytes[start..end]);
        start = end;
    }
    // Unscanned bytes are no promise of anything, but must be safe to look at.
    let _ = view(&input.bytes);
});
