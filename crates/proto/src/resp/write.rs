//! Replies to a client, and commands to an upstream server.
use crate::output::{Output, SHARED_FROM};
use bytes::Bytes;
use larder_engine::Value;

/// Writes one client's replies in the protocol that it chose.
#[derive(Debug)]
pub struct Reply<'o> {
    out: &'o mut Output,
    resp3: bool,
}

impl<'o> Reply<'o> {
    /// Replies into `out`, in RESP3 or RESP2.
    #[inline]
    pub fn new(out: &'o mut Output, resp3: bool) -> Reply<'o> {
        Reply { out, resp3 }
    }
    /// Is it RESP3?
    #[inline]
    pub fn is_resp3(&self) -> bool {
        self.resp3
    }
    /// Switches protocol (HELLO).
    pub fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
    }
    /// What is written goes here.
    pub fn output(&mut self) -> &mut Output {
        self.out
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.put(b"+OK\r\n");
    }
    /// A simple string, of which the caller knows that it holds no line end.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }
    /// An error: a code in capitals, a blank and words. Line ends within it become blanks.
    pub fn error(&mut self, text: &[u8]) {
        self.out.put(b"-");
        for (index, part) in text.split(|b| matches!(b, b'\r' | b'\n')).enumerate() {
            if index > 0 {
                self.out.put(b" ");
            }
            self.out.put(part);
        }
        self.out.put(b"\r\n");
    }
    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        self.line(b':', itoa::Buffer::new().format(value).as_bytes());
    }
    /// A bulk string, copied.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 24);
        self.header(b'$', bytes.len());
        self.out.put(bytes);
        self.out.put(b"\r\n");
    }
    /// A name, behind which its value stands.
    pub fn named(&mut self, name: &str) -> &mut Reply<'o> {
        self.bulk(name.as_bytes());
        self
    }
    /// A bulk string, linked if it is large.
    pub fn shared(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_FROM {
            return self.bulk(&bytes);
        }
        self.header(b'$', bytes.len());
        self.out.put_shared(bytes);
        self.out.put(b"\r\n");
    }
    /// An entry's value: copied, or linked if it is large.
    #[inline]
    pub fn value(&mut self, value: Value<'_>) {
        match value {
            Value::Inline(bytes) => self.bulk(bytes),
            large => self.shared(large.to_bytes()),
        }
    }
    /// An integer as a bulk string.
    pub fn bulk_integer(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }
    /// An unsigned integer as a bulk string.
    pub fn bulk_unsigned(&mut self, value: u64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }
    /// No value.
    #[inline]
    pub fn null(&mut self) {
        self.out.put(if self.resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }
    /// No array (EXEC that a watched key called off).
    pub fn null_array(&mut self) {
        self.out.put(if self.resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }
    /// The head of an array of `len` replies.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }
    /// The head of a map of `pairs` times two replies (RESP2: a flat array).
    pub fn map(&mut self, pairs: usize) {
        match self.resp3 {
            true => self.header(b'%', pairs),
            false => self.header(b'*', pairs * 2),
        }
    }
    /// The head of a set of `len` replies (RESP2: an array).
    pub fn set(&mut self, len: usize) {
        self.header(if self.resp3 { b'~' } else { b'*' }, len);
    }
    /// The head of an out-of-band message of `len` replies (RESP2: an array).
    pub fn push(&mut self, len: usize) {
        self.header(if self.resp3 { b'>' } else { b'*' }, len);
    }
    /// A decimal number as text (RESP2: a bulk string).
    pub fn decimal(&mut self, text: &str) {
        match self.resp3 {
            true => self.line(b',', text.as_bytes()),
            false => self.bulk(text.as_bytes()),
        }
    }
    /// A floating-point number (RESP2: a bulk string).
    pub fn double(&mut self, value: f64) {
        let text = if value.is_nan() {
            "nan".to_owned()
        } else if value.is_infinite() {
            if value > 0.0 { "inf" } else { "-inf" }.to_owned()
        } else if value == 0.0 || (1e-5..1e17).contains(&value.abs()) {
            format!("{value}")
        } else {
            format!("{value:e}")
        };
        match self.resp3 {
            true => self.line(b',', text.as_bytes()),
            false => self.bulk(text.as_bytes()),
        }
    }
    /// A truth value (RESP2: 1 or 0).
    pub fn boolean(&mut self, value: bool) {
        self.out.put(match (self.resp3, value) {
            (true, true) => b"#t\r\n",
            (true, false) => b"#f\r\n",
            (false, true) => b":1\r\n",
            (false, false) => b":0\r\n",
        });
    }
    /// An integer of any size, as decimal digits (RESP2: a bulk string).
    pub fn big_number(&mut self, digits: &str) {
        match self.resp3 {
            true => self.line(b'(', digits.as_bytes()),
            false => self.bulk(digits.as_bytes()),
        }
    }
    /// Text for people, of the format `txt` (RESP2: a bulk string).
    pub fn verbatim(&mut self, text: &[u8]) {
        if !self.resp3 {
            return self.bulk(text);
        }
        self.header(b'=', text.len() + 4);
        self.out.put(b"txt:");
        self.out.put(text);
        self.out.put(b"\r\n");
    }

    /// Like `verbatim`, for a long text, which need not be copied.
    pub fn verbatim_of(&mut self, text: &mut Output) {
        match self.resp3 {
            true => {
                self.header(b'=', text.len() + 4);
                self.out.put(b"txt:");
            }
            false => self.header(b'$', text.len()),
        }
        self.out.append(text);
        self.out.put(b"\r\n");
    }

    #[inline]
    fn line(&mut self, marker: u8, text: &[u8]) {
        self.out.put(&[marker]);
        self.out.put(text);
        self.out.put(b"\r\n");
    }
    #[inline]
    fn header(&mut self, marker: u8, len: usize) {
        header(marker, len, |bytes| self.out.put(bytes));
    }
}

/// Hands `marker`, `len` and CRLF to `put`, in one piece.
#[inline]
fn header(marker: u8, len: usize, put: impl FnOnce(&[u8])) {
    // A marker, up to 20 digits, CRLF.
    let mut line = [0; 24];
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(len).as_bytes();
    line[0] = marker;
    line[1..=digits.len()].copy_from_slice(digits);
    line[digits.len() + 1..digits.len() + 3].copy_from_slice(b"\r\n");
    put(&line[..digits.len() + 3]);
}

/// Appends a command as an array of bulk strings.
pub fn write_command<'a>(out: &mut Vec<u8>, parts: impl ExactSizeIterator<Item = &'a [u8]>) {
    header(b'*', parts.len(), |bytes| out.extend_from_slice(bytes));
    for part in parts {
        header(b'$', part.len(), |bytes| out.extend_from_slice(bytes));
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

/// A command as an array of bulk strings.
pub fn encode(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(|p| p.len() + 24).sum::<usize>() + 24);
    write_command(&mut out, parts.iter().copied());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Limits, Parsed, Parser};
    use proptest::prelude::*;

    fn both(write: impl Fn(&mut Reply<'_>)) -> (String, String) {
        let one = |resp3| {
            let mut out = Output::default();
            write(&mut Reply::new(&mut out, resp3));
            String::from_utf8(out.to_vec()).expect("ASCII")
        };
        (one(false), one(true))
    }

    #[test]
    fn every_type_in_both_protocols() {
        type Case = (fn(&mut Reply<'_>), &'static str, &'static str);
        let cases: &[Case] = &[
            (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
            (|r| r.simple("QUEUED"), "+QUEUED\r\n", "+QUEUED\r\n"),
            (|r| r.error(b"ERR a\r\nb\nc "), "-ERR a  b c \r\n", "-ERR a  b c \r\n"),
            (|r| r.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|r| r.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
            (|r| r.bulk(b"0123456789"), "$10\r\n0123456789\r\n", "$10\r\n0123456789\r\n"),
            (|r| r.bulk_integer(-7), "$2\r\n-7\r\n", "$2\r\n-7\r\n"),
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.array(3), "*3\r\n", "*3\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.push(2), "*2\r\n", ">2\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.double(1e300), "$5\r\n1e300\r\n", ",1e300\r\n"),
            (|r| r.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
            (|r| r.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
            (|r| r.boolean(true), ":1\r\n", "#t\r\n"),
            (|r| r.boolean(false), ":0\r\n", "#f\r\n"),
            (|r| r.big_number("12"), "$2\r\n12\r\n", "(12\r\n"),
            (|r| r.verbatim(b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(both(write), (resp2.to_string(), resp3.to_string()));
        }
    }

    #[test]
    fn large_values_are_linked() {
        let value = Bytes::from(vec![b'x'; SHARED_FROM]);
        let mut out = Output::default();
        Reply::new(&mut out, false).shared(value.clone());
        assert!(!value.is_unique());
        assert_eq!(out.len(), format!("${SHARED_FROM}\r\n\r\n").len() + SHARED_FROM);
        out.clear();
        Reply::new(&mut out, false).shared(value.slice(1..));
        assert!(value.is_unique());
    }

    proptest! {
        #[test]
        fn commands_come_back(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..20)) {
            let mut bytes = Vec::new();
            write_command(&mut bytes, parts.iter().map(Vec::as_slice));
            let mut parser = Parser::default();
            let parsed = parser.parse(&bytes, &Limits::new(1024));
            prop_assert_eq!(parsed, Ok(Parsed::Command { consumed: bytes.len() }));
            let back: Vec<Vec<u8>> = parser.args(&bytes).from(0).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(back, parts);
        }
    }
}
