//! What a replica gets from something that says it is its primary: a frame ends at the same byte however it is cut into pieces, nothing is
//! read beyond it, and nothing makes the reader panic.
#![no_main]

#[allow(dead_code, reason = "only the reader is fuzzed")]
#[path = "../../crates/ring/src/replica/frames.rs"]
mod frames;

use frames::{Frame, ParsedFrame, parse};
use libfuzzer_sys::fuzz_target;

/// Longest frame that is accepted.
const LONGEST: usize = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    loop {
        match parse(rest, LONGEST) {
            Err(_) => return,
            Ok(ParsedFrame::Incomplete { more }) => {
                assert!(more > 0 && more <= LONGEST + 4);
                return;
            }
            Ok(ParsedFrame::Frame(length, frame)) => {
                assert!(length > 4 && length <= LONGEST + 4);
                // The same bytes, alone, are the same frame; one less is none.
                assert_eq!(parse(&rest[..length], LONGEST), Ok(ParsedFrame::Frame(length, frame.clone())));
                assert!(matches!(parse(&rest[..length - 1], LONGEST), Ok(ParsedFrame::Incomplete { more: 1 })));
                match frame {
                    Frame::Hello { groups, .. } => assert!(groups.iter().count() <= length),
                    Frame::Mark { records, .. } => assert!(8 * records.iter().count() <= length),
                    _ => {}
                }
                rest = &rest[length..];
            }
        }
    }
});
