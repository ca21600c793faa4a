//! Replies of RESP2 and RESP3 as the tree that their bytes are. Written apart from Larder's own
//! parser, which is under test.
use std::io::{BufRead, Result};

/// A reply: its kind is the first byte on the wire.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reply {
    pub(crate) kind: u8,
    /// What the line says, or the string; empty for what contains others.
    pub(crate) text: Vec<u8>,
    /// Children of an array, a set, a push; of a map keys and values by turns.
    pub(crate) children: Vec<Reply>,
}

impl Reply {
    /// Reads one, and appends the bytes that it took to `raw`.
    pub(crate) fn read(from: &mut impl BufRead, raw: &mut Vec<u8>) -> Result<Reply> {
        let begin = raw.len();
        if from.read_until(b'\n', raw)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = raw[begin..].strip_suffix(b"\r\n").expect("a whole line");
        let (kind, line) = (line[0], line[1..].to_vec());
        let length = || std::str::from_utf8(&line).expect("digits").parse::<i64>().expect("a length");
        let (mut text, mut children) = (Vec::new(), Vec::new());
        match kind {
            b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(' => text = line,
            b'$' | b'=' | b'!' | b'*' if length() < 0 => text = line,
            b'$' | b'=' | b'!' => {
                let end = raw.len() + usize::try_from(length()).expect("a length") + 2;
                let begin = raw.len();
                raw.resize(end, 0);
                from.read_exact(&mut raw[begin..])?;
                text = raw[begin..end - 2].to_vec();
            }
            b'*' | b'~' | b'>' => children = (0..length()).map(|_| Reply::read(from, raw)).collect::<Result<_>>()?,
            b'%' => children = (0..length() * 2).map(|_| Reply::read(from, raw)).collect::<Result<_>>()?,
            other => panic!("no kind of reply: {:?}", other as char),
        }
        Ok(Reply { kind, text, children })
    }

    /// The number that it is.
    pub(crate) fn number(&self) -> Option<i64> {
        (self.kind == b':').then(|| std::str::from_utf8(&self.text).ok()?.parse().ok()).flatten()
    }
}
