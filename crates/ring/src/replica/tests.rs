//! Frames, as they are written and read.
use super::frames::{self, BadFrame, Frame, ParsedFrame, parse};
use larder_engine::{Attributes, Cache, Clear, Config, Expiry, PolicyState, Write};
use larder_proto::output::Output;
use proptest::prelude::*;

const LONGEST: usize = 1 << 20;

/// One frame, of which no shorter part is one.
fn read(bytes: &[u8]) -> Frame<'_> {
    for cut in 0..bytes.len() {
        let Ok(ParsedFrame::Incomplete { more }) = parse(&bytes[..cut], LONGEST) else {
            panic!("{cut} of {} bytes are a frame", bytes.len());
        };
        assert!(more > 0 && cut + more <= bytes.len());
    }
    match parse(bytes, LONGEST) {
        Ok(ParsedFrame::Frame(length, frame)) => {
            assert_eq!(length, bytes.len());
            frame
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_entry_travels_with_all_that_belongs_to_it() {
    let cache = Cache::new(Config::default());
    for len in [0, 100, 20_000, 300_000] {
        let (key, value) = (cache.key(b"key"), vec![7; len]);
        let attributes = Attributes { tags: &[b"one", b"two"], metadata: b"metadata" };
        let write = Write { expiry: Expiry::At(9000), attributes, ..Write::new(&value) };
        cache.tier().set(key, write, 1).expect("it fits");
        let mut out = Output::default();
        cache.tier().peek(key, 1, |entry| {
            frames::put_entry(&mut out, &mut Vec::new(), 3, &entry, PolicyState::default());
        });
        let bytes = out.to_vec();
        let Ok(ParsedFrame::Frame(_, Frame::Entry(3, entry))) = parse(&bytes, LONGEST) else { panic!("an entry") };
        assert_eq!((entry.key, entry.value, entry.metadata), (&b"key"[..], &value[..], &b"metadata"[..]));
        assert_eq!((entry.end.map(|end| end.at), &entry.tags[..]), (Some(9000), &[&b"one"[..], b"two"][..]));
    }
}

#[test]
fn other_frames_are_read_as_they_were_written() {
    let written = |write: &dyn Fn(&mut Output)| {
        let mut out = Output::default();
        write(&mut out);
        out.to_vec()
    };
    let hello = written(&|out| frames::put_hello(out, 77, true, ["default", "pages"].into_iter()));
    let Frame::Hello { id: 77, resumes: true, groups } = read(&hello) else { panic!("a hello") };
    assert!(groups.iter().eq([&b"default"[..], b"pages"]));
    assert_eq!(read(&written(&|out| frames::put_gone(out, 1, b"key"))), Frame::Gone(1, b"key"));
    for clear in [
        Clear::All,
        Clear::Prefix(b"p", true),
        Clear::Prefix(b"p", false),
        Clear::Tag(b"t", true),
        Clear::Tag(b"t", false),
    ] {
        let mut what = Vec::new();
        frames::write_clear(clear, &mut what);
        assert_eq!(read(&written(&|out| frames::put_clear(out, 2, &what))), Frame::Clear(2, clear));
    }
    let mark = written(&|out| frames::put_mark(out, 5, &[1, 2, u64::MAX]));
    let Frame::Mark { time: 5, records } = read(&mark) else { panic!("a mark") };
    assert!(records.iter().eq([1, 2, u64::MAX]));
    assert_eq!(read(&written(&frames::put_copy_begins)), Frame::CopyBegins);
    assert_eq!(read(&written(&frames::put_copy_ends)), Frame::CopyEnds);
    assert_eq!(read(&frames::ack(12)), Frame::Ack(12));
    assert_eq!(read(&frames::leave()), Frame::Leave);
}

#[test]
fn a_frame_that_is_too_long_is_refused_before_it_is_there() {
    assert_eq!(parse(&[0, 0, 0, 1], 1 << 20), Err(BadFrame::TooLong(1 << 24)));
}

proptest! {
    #[test]
    fn nothing_makes_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..9_u8) {
        let _ = parse(&bytes, 100);
        let framed = [&((1 + bytes.len()) as u32).to_le_bytes()[..], &[kind], &bytes].concat();
        if let Ok(ParsedFrame::Frame(length, frame)) = parse(&framed, 1000) {
            prop_assert_eq!(length, framed.len());
            if let Frame::Hello { groups, .. } = frame {
                prop_assert!(groups.iter().map(|name| 2 + name.len()).sum::<usize>() + 9 == bytes.len());
            }
        }
    }
}
