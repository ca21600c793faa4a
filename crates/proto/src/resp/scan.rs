//! Replies of an upstream server: where one ends, and what is in it. Streamed types (`$?`, `*?`)
//! are not spoken by any server in use and are refused.
use super::number::parse_i64;
use std::fmt;

/// Longest header line: simple strings and errors have theirs here, a big number too.
const MAX_LINE: usize = 64 * 1024;

/// The upstream server does not speak the protocol; the connection is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;
impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed reply; does the server speak the Redis protocol on this port?")
    }
}
impl std::error::Error for Malformed {}

/// Finds the end of the reply that the input begins with, across reads and without looking at any
/// byte twice. Nesting is counted, not recursed into, so its depth needs no limit.
#[derive(Debug)]
pub struct Scanner {
    /// Where to go on; beyond the input while a string is not all there.
    at: usize,
    /// Bytes from `at` on that are known to hold no line end.
    scanned: usize,
    /// A string ends at `at`.
    is_string: bool,
    /// Values still to come.
    left: u64,
    max_len: usize,
}

impl Scanner {
    /// For replies of at most `max_len` bytes.
    pub fn new(max_len: usize) -> Scanner {
        Scanner { at: 0, scanned: 0, is_string: false, left: 1, max_len }
    }

    /// The length of the reply that `input` begins with (attributes that precede it included), or
    /// `None` if it is not all there; then call again with the same bytes and more. After
    /// `Some` the next call begins the next reply.
    ///
    /// # Errors
    /// It is not a reply, or longer than allowed.
    pub fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        self.advance(input, self.max_len)?;
        if self.left > 0 || input.len() < self.at {
            return Ok(None);
        }
        let len = self.at;
        *self = Scanner::new(self.max_len);
        Ok(Some(len))
    }

    /// Did [`scan`](Scanner::scan) fail because the reply is too long? Then [`skip`](Scanner::skip)
    /// finds its end.
    pub fn is_too_long(&self) -> bool {
        self.at > self.max_len
    }

    /// How many bytes of `input` belong to the reply that it begins with, however long that is, and
    /// whether it ends with them. The next call is for what follows them.
    ///
    /// # Errors
    /// It is not a reply.
    pub fn skip(&mut self, input: &[u8]) -> Result<(usize, bool), Malformed> {
        self.advance(input, usize::MAX)?;
        if self.left == 0 && input.len() >= self.at {
            let len = self.at;
            *self = Scanner::new(self.max_len);
            return Ok((len, true));
        }
        let seen = self.at.min(input.len());
        self.at -= seen;
        // The end of a string may be gone in part.
        self.is_string &= self.at >= 2;
        Ok((seen, false))
    }

    /// Goes on to the reply's end, or as far as the heads of its parts are there.
    fn advance(&mut self, input: &[u8], max_len: usize) -> Result<(), Malformed> {
        self.check_string(input)?;
        while self.left > 0 {
            let rest = input.get(self.at..).unwrap_or(&[]);
            let Some(end) = line_end(rest, &mut self.scanned)? else {
                return Ok(());
            };
            let head = Head::parse(&rest[..end])?;
            let mut skip = end + 2;
            match head.body {
                Body::None => {}
                Body::Bytes(len) => skip = skip.checked_add(len + 2).ok_or(Malformed)?,
                Body::Values(count) => {
                    self.left = self.left.checked_add(count).ok_or(Malformed)?;
                }
            }
            if head.marker != b'|' {
                self.left -= 1;
            }
            // The whole of a string is skipped at once, seen or not.
            self.at = self.at.checked_add(skip).ok_or(Malformed)?;
            self.scanned = 0;
            self.is_string = matches!(head.body, Body::Bytes(_));
            self.check_string(input)?;
            if self.at > max_len {
                return Err(Malformed);
            }
        }
        Ok(())
    }

    /// A string ends with CRLF, once that is there.
    fn check_string(&mut self, input: &[u8]) -> Result<(), Malformed> {
        match input.get(..self.at) {
            Some(seen) if self.is_string => {
                self.is_string = false;
                if seen.ends_with(b"\r\n") { Ok(()) } else { Err(Malformed) }
            }
            _ => Ok(()),
        }
    }

    /// After `None` for an input of `have` bytes: how many more are needed at least.
    pub fn missing(&self, have: usize) -> usize {
        self.at.saturating_sub(have).max(1)
    }
}

/// Position of the first CRLF of `rest`, of which `scanned` bytes are known to hold none. CR and LF
/// stand nowhere else in a line: clients disagree about where such a line would end.
fn line_end(rest: &[u8], scanned: &mut usize) -> Result<Option<usize>, Malformed> {
    let end = rest.iter().skip(*scanned).position(|&b| matches!(b, b'\r' | b'\n')).map(|found| *scanned + found);
    match end {
        Some(end) if end > 0 && rest[end..].starts_with(b"\r\n") => Ok(Some(end)),
        Some(end) if rest[end..] != *b"\r" => Err(Malformed),
        _ if rest.len() > MAX_LINE => Err(Malformed),
        end => {
            *scanned = end.unwrap_or(rest.len());
            Ok(None)
        }
    }
}

/// A header line: what follows it.
struct Head<'a> {
    marker: u8,
    /// The line without its marker.
    text: &'a [u8],
    body: Body,
}
enum Body {
    None,
    /// A string of so many bytes, and CRLF.
    Bytes(usize),
    /// So many values.
    Values(u64),
}
impl<'a> Head<'a> {
    fn parse(line: &'a [u8]) -> Result<Head<'a>, Malformed> {
        let (&marker, text) = line.split_first().ok_or(Malformed)?;
        // Lengths fit 32 bits with room to spare, so sums of two cannot overflow.
        let count = || match parse_i64(text) {
            Some(count) if (-1..=i64::from(u32::MAX)).contains(&count) => Ok(count),
            _ => Err(Malformed),
        };
        let body = match marker {
            b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Body::None,
            b'$' | b'=' | b'!' => match count()? {
                -1 => Body::None,
                len => Body::Bytes(len as usize),
            },
            b'*' | b'~' | b'>' => Body::Values(count()?.max(0) as u64),
            b'%' | b'|' => Body::Values(count()?.max(0) as u64 * 2),
            _ => return Err(Malformed),
        };
        Ok(Head { marker, text, body })
    }
    /// RESP2's `$-1` and `*-1`.
    fn is_null(&self) -> bool {
        self.marker == b'_' || (matches!(self.marker, b'$' | b'*') && self.text == b"-1")
    }
}

/// A reply, seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum View<'a> {
    /// `+`
    Simple(&'a [u8]),
    /// `-` or `!`
    Error(&'a [u8]),
    /// `:`
    Integer(i64),
    /// `$`, or `=` without its format
    Bulk(&'a [u8]),
    /// `_`, `$-1` or `*-1`
    Null,
    /// `*`
    Array(Values<'a>),
    /// `%`: keys and values in turn
    Map(Values<'a>),
    /// `~`
    Set(Values<'a>),
    /// `>`: not a reply but a message that comes between them
    Push(Values<'a>),
    /// `#`
    Boolean(bool),
    /// `,`: as text
    Double(&'a [u8]),
    /// `(`: as text
    BigNumber(&'a [u8]),
}

/// Looks into a reply whose end a [`Scanner`] found. Attributes are skipped.
///
/// # Errors
/// It is not a reply.
pub fn view(frame: &[u8]) -> Result<View<'_>, Malformed> {
    Ok(split(frame)?.0)
}

/// The first reply of `frame`, and its length.
fn split(frame: &[u8]) -> Result<(View<'_>, usize), Malformed> {
    let mut at = 0;
    loop {
        let rest = frame.get(at..).ok_or(Malformed)?;
        let end = line_end(rest, &mut 0)?.ok_or(Malformed)?;
        let head = Head::parse(&rest[..end])?;
        let body = end + 2;
        if head.marker == b'|' {
            let Body::Values(count) = head.body else {
                return Err(Malformed);
            };
            let inside = Values::new(rest.get(body..).ok_or(Malformed)?, count);
            at += body + inside.skip_all()?;
            continue;
        }
        let (view, len) = match head.body {
            _ if head.is_null() => (View::Null, body),
            Body::None => (head.scalar()?, body),
            Body::Bytes(len) => {
                let bytes = rest.get(body..body + len).ok_or(Malformed)?;
                let view = match head.marker {
                    b'!' => View::Error(bytes),
                    b'=' => View::Bulk(bytes.get(4..).ok_or(Malformed)?),
                    _ => View::Bulk(bytes),
                };
                (view, body + len + 2)
            }
            Body::Values(count) => {
                let values = Values::new(rest.get(body..).ok_or(Malformed)?, count);
                let view = match head.marker {
                    b'*' => View::Array(values),
                    b'%' => View::Map(values),
                    b'~' => View::Set(values),
                    _ => View::Push(values),
                };
                (view, body + values.skip_all()?)
            }
        };
        return Ok((view, at + len));
    }
}

impl<'a> Head<'a> {
    fn scalar(&self) -> Result<View<'a>, Malformed> {
        Ok(match self.marker {
            b'+' => View::Simple(self.text),
            b'-' => View::Error(self.text),
            b':' => View::Integer(parse_i64(self.text.strip_prefix(b"+").unwrap_or(self.text)).ok_or(Malformed)?),
            b',' => View::Double(self.text),
            b'(' => View::BigNumber(self.text),
            b'#' => View::Boolean(match self.text {
                b"t" => true,
                b"f" => false,
                _ => return Err(Malformed),
            }),
            _ => return Err(Malformed),
        })
    }
}

/// The values of an aggregate reply, in order. Iteration ends early if they are malformed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Values<'a> {
    bytes: &'a [u8],
    left: u64,
}
impl<'a> Values<'a> {
    fn new(bytes: &'a [u8], left: u64) -> Values<'a> {
        Values { bytes, left }
    }
    /// How many are left (a map has two for each pair).
    pub fn len(&self) -> usize {
        self.left as usize
    }
    /// None left?
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
    /// Takes the next value as it is on the wire, attributes before it included.
    pub fn next_raw(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let len = Scanner::new(usize::MAX).scan(self.bytes).ok()??;
        let (raw, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        Some(raw)
    }
    /// The length of all that is left.
    fn skip_all(&self) -> Result<usize, Malformed> {
        if self.left == 0 {
            return Ok(0);
        }
        let mut scanner = Scanner::new(usize::MAX);
        scanner.left = self.left;
        scanner.scan(self.bytes)?.ok_or(Malformed)
    }
}
impl<'a> Iterator for Values<'a> {
    type Item = View<'a>;
    fn next(&mut self) -> Option<View<'a>> {
        view(self.next_raw()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, PartialEq)]
    enum Tree {
        Leaf(Vec<u8>),
        Many(u8, Vec<Tree>),
        Attributed(Vec<Tree>, Box<Tree>),
    }
    impl Tree {
        fn write(&self, out: &mut Vec<u8>) {
            match self {
                Tree::Leaf(raw) => out.extend_from_slice(raw),
                Tree::Many(marker, children) => {
                    let pairs = if *marker == b'%' { children.len() / 2 } else { children.len() };
                    let children = if *marker == b'%' { &children[..pairs * 2] } else { children };
                    out.extend_from_slice(format!("{}{pairs}\r\n", *marker as char).as_bytes());
                    children.iter().for_each(|c| c.write(out));
                }
                Tree::Attributed(attributes, value) => {
                    out.extend_from_slice(format!("|{}\r\n", attributes.len() / 2).as_bytes());
                    let even = attributes.len() / 2 * 2;
                    attributes[..even].iter().for_each(|c| c.write(out));
                    value.write(out);
                }
            }
        }
    }
    fn tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| {
                let mut raw = format!("${}\r\n", bytes.len()).into_bytes();
                raw.extend(bytes);
                raw.extend(b"\r\n");
                raw
            }),
            any::<i64>().prop_map(|v| format!(":{v}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            Just(b"*-1\r\n".to_vec()),
            Just(b"_\r\n".to_vec()),
            Just(b"#t\r\n".to_vec()),
            Just(b",1.5\r\n".to_vec()),
            Just(b"(123\r\n".to_vec()),
            Just(b"=7\r\ntxt:abc\r\n".to_vec()),
            Just(b"!5\r\nERR x\r\n".to_vec()),
            "[a-zA-Z ]{0,12}".prop_map(|t| format!("+{t}\r\n").into_bytes()),
            "[a-zA-Z ]{0,12}".prop_map(|t| format!("-ERR {t}\r\n").into_bytes()),
        ];
        leaf.prop_map(Tree::Leaf).prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                4 => (prop_oneof![Just(b'*'), Just(b'%'), Just(b'~'), Just(b'>')], proptest::collection::vec(inner.clone(), 0..5))
                    .prop_map(|(marker, children)| Tree::Many(marker, children)),
                1 => (proptest::collection::vec(inner.clone(), 0..4), inner)
                    .prop_map(|(attributes, value)| Tree::Attributed(attributes, Box::new(value))),
            ]
        })
    }

    proptest! {
        #[test]
        fn finds_the_end_at_every_split(trees in proptest::collection::vec(tree(), 1..4)) {
            let mut input = Vec::new();
            let mut ends = Vec::new();
            for tree in &trees {
                tree.write(&mut input);
                ends.push(input.len());
            }
            for step in [1, 2, 3, 7, input.len()] {
                let mut scanner = Scanner::new(1 << 20);
                let (mut from, mut have, mut found) = (0, 0, Vec::new());
                loop {
                    match scanner.scan(&input[from..have]).expect("well-formed") {
                        Some(len) => {
                            view(&input[from..from + len]).expect("well-formed");
                            from += len;
                            found.push(from);
                        }
                        None if have == input.len() => break,
                        None => {
                            prop_assert!(have - from + scanner.missing(have - from) <= input.len() - from);
                            have = (have + step).min(input.len());
                        }
                    }
                }
                prop_assert_eq!(&found, &ends);
            }
        }

        #[test]
        fn skips_what_is_too_long_in_any_pieces(trees in proptest::collection::vec(tree(), 1..4), step in 1usize..40) {
            let mut input = Vec::new();
            let mut ends = Vec::new();
            for tree in &trees {
                tree.write(&mut input);
                ends.push(input.len());
            }
            let mut scanner = Scanner::new(2);
            let (mut from, mut have, mut found) = (0, 0, Vec::new());
            while found.len() < ends.len() {
                // Some of it may have been scanned before it was too long.
                let skips = scanner.is_too_long() || scanner.scan(&input[from..have]).is_err();
                if skips {
                    prop_assert!(scanner.is_too_long());
                    let (len, ended) = scanner.skip(&input[from..have]).expect("well-formed");
                    from += len;
                    if ended {
                        found.push(from);
                        continue;
                    }
                    loop {
                        have = (have + step).min(input.len());
                        let (len, ended) = scanner.skip(&input[from..have]).expect("well-formed");
                        from += len;
                        if ended {
                            break;
                        }
                        prop_assert!(have < input.len());
                    }
                    found.push(from);
                    continue;
                }
                prop_assert!(have < input.len());
                have = (have + step).min(input.len());
            }
            prop_assert_eq!(found, ends);
        }

        #[test]
        fn damage_is_refused_or_read_but_never_panics(tree in tree(), at: prop::sample::Index, byte: u8) {
            let mut input = Vec::new();
            tree.write(&mut input);
            let at = at.index(input.len());
            input[at] = byte;
            if let Ok(Some(len)) = Scanner::new(1 << 20).scan(&input) {
                prop_assert!(len <= input.len());
                let _ = view(&input[..len]);
            }
            let _ = view(&input);
        }
    }

    #[test]
    fn views() {
        assert_eq!(view(b"$3\r\nabc\r\n"), Ok(View::Bulk(b"abc")));
        assert_eq!(view(b"=7\r\ntxt:abc\r\n"), Ok(View::Bulk(b"abc")));
        assert_eq!(view(b"$-1\r\n"), Ok(View::Null));
        assert_eq!(view(b"*-1\r\n"), Ok(View::Null));
        assert_eq!(view(b"_\r\n"), Ok(View::Null));
        assert_eq!(view(b":-5\r\n"), Ok(View::Integer(-5)));
        assert_eq!(view(b"-ERR x\r\n"), Ok(View::Error(b"ERR x")));
        assert_eq!(view(b"#f\r\n"), Ok(View::Boolean(false)));
        assert_eq!(view(b"|1\r\n+a\r\n*1\r\n:1\r\n+OK\r\n"), Ok(View::Simple(b"OK")));
        let Ok(View::Array(mut values)) = view(b"*3\r\n$1\r\na\r\n*1\r\n:1\r\n_\r\n") else {
            panic!("an array");
        };
        assert_eq!(values.len(), 3);
        assert_eq!(values.next(), Some(View::Bulk(b"a")));
        assert_eq!(values.next_raw(), Some(&b"*1\r\n:1\r\n"[..]));
        assert_eq!(values.next(), Some(View::Null));
        assert_eq!(values.next(), None);
    }

    #[test]
    fn refuses_what_is_no_reply() {
        for bad in [
            "x\r\n",
            "\r\n",
            "$x\r\n",
            "$-2\r\n",
            "*99999999999\r\n",
            "+a\n",
            "$?\r\n",
            "+\n",
            "+a\rb\r\n",
            "$1\r\nabc",
            "*2\r\n$0\r\n:1\r\n",
        ] {
            assert_eq!(Scanner::new(1000).scan(bad.as_bytes()), Err(Malformed), "{bad:?}");
        }
        assert_eq!(Scanner::new(1000).scan(b"$1001\r\n"), Err(Malformed), "too long");
        assert_eq!(Scanner::new(1000).scan(b"$900\r\n"), Ok(None));
        assert_eq!(Scanner::new(1 << 20).scan(&[b'+'; MAX_LINE + 2]), Err(Malformed));
    }

    #[test]
    fn depth_costs_nothing() {
        let mut input = b"*1\r\n".repeat(1_000_000);
        input.extend(b":1\r\n");
        assert_eq!(Scanner::new(usize::MAX).scan(&input), Ok(Some(input.len())));
        let Ok(View::Array(values)) = view(&input) else { panic!("an array") };
        assert_eq!(values.len(), 1);
    }
}
