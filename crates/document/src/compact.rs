//! Checks a text that a client sent and makes it compact: the form in which documents are kept.
//!
//! - White space between tokens goes. The order of members stays, and numbers and string values
//!   stay as they were sent.
//! - Keys lose escapes that they need not have, so that a key has one spelling. Of members with the
//!   same key the last one stays, like in JavaScript, Python and RedisJSON.
use crate::{
    error::JsonError,
    string::{push_key, unescaped},
};
use foldhash::fast::RandomState;
use hashbrown::HashSet;
use std::{borrow::Cow, ops::Range};

/// Deepest nesting of arrays and objects. It is also RedisJSON's.
pub const MAX_DEPTH: usize = 128;
/// An object with more members is checked for repeated keys with a hash set.
const FEW: usize = 8;

/// The text in compact form, appended to `out`.
///
/// # Errors
/// The text is not JSON, or is nested deeper than [`MAX_DEPTH`]. `out` may then have a part of it.
pub fn compact_into(text: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
    compact_below(text, 0, out)
}

/// The text in compact form.
///
/// # Errors
/// As [`compact_into`].
pub fn compact(text: &[u8]) -> Result<Vec<u8>, JsonError> {
    let mut out = Vec::with_capacity(text.len());
    compact_into(text, &mut out)?;
    Ok(out)
}

/// Like `compact_into`, for a text that will lie within `depth` containers.
pub(crate) fn compact_below(text: &[u8], depth: usize, out: &mut Vec<u8>) -> Result<(), JsonError> {
    if let Err(error) = std::str::from_utf8(text) {
        return Err(JsonError::Syntax { at: error.valid_up_to(), what: "bytes that are not UTF-8" });
    }
    out.reserve(text.len());
    let mut parser = Parser { text, at: 0, out, open: Vec::new(), members: Vec::new(), depth };
    parser.run()
}

/// A container that is not closed yet.
enum Open {
    Array,
    /// With the index of its first member in [`Parser::members`].
    Object(usize),
}

/// A member, by its place in the output.
struct Member {
    key: Range<usize>,
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    out: &'t mut Vec<u8>,
    open: Vec<Open>,
    members: Vec<Member>,
    depth: usize,
}

impl Parser<'_> {
    fn run(&mut self) -> Result<(), JsonError> {
        self.value()?;
        self.skip_blanks();
        if self.at < self.text.len() { Err(self.error("text after the value")) } else { Ok(()) }
    }

    /// One value with everything in it. It keeps its own stack: the depth of a text is the client's
    /// choice.
    fn value(&mut self) -> Result<(), JsonError> {
        loop {
            // Begins a value, which may be a container.
            self.skip_blanks();
            let begun = match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if self.depth + self.open.len() >= MAX_DEPTH {
                        return Err(JsonError::TooDeep);
                    }
                    self.take(open);
                    self.skip_blanks();
                    if self.peek() == Some(open + 2) {
                        self.take(open + 2);
                        false
                    } else if open == b'{' {
                        self.open.push(Open::Object(self.members.len()));
                        self.key()?;
                        true
                    } else {
                        self.open.push(Open::Array);
                        true
                    }
                }
                Some(b'"') => {
                    self.string()?;
                    false
                }
                Some(b'-' | b'0'..=b'9') => {
                    self.number()?;
                    false
                }
                Some(b't') => self.literal(b"true")?,
                Some(b'f') => self.literal(b"false")?,
                Some(b'n') => self.literal(b"null")?,
                Some(_) => return Err(self.error("no value begins like this")),
                None => return Err(self.error("the text ends where a value should be")),
            };
            if begun {
                continue;
            }
            // A value has ended: so may the containers around it.
            loop {
                let Some(open) = self.open.last() else { return Ok(()) };
                let is_object = matches!(open, Open::Object(_));
                self.skip_blanks();
                match self.peek() {
                    Some(b',') => {
                        self.take(b',');
                        if is_object {
                            self.skip_blanks();
                            self.key()?;
                        }
                        break;
                    }
                    Some(b'}') if is_object => {
                        self.end_object();
                        self.take(b'}');
                    }
                    Some(b']') if !is_object => {
                        self.open.pop();
                        self.take(b']');
                    }
                    Some(_) => return Err(self.error("a comma or the end of the container should be here")),
                    None => return Err(self.error("the text ends within a container")),
                }
            }
        }
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.error("a key should be here"));
        }
        let begin = self.out.len();
        self.string()?;
        if memchr::memchr(b'\\', &self.out[begin..]).is_some() {
            let inside = begin + 1..self.out.len() - 1;
            let key = unescaped(&self.out[inside]).into_owned();
            self.out.truncate(begin);
            push_key(self.out, &key);
        }
        self.members.push(Member { key: begin..self.out.len() });
        self.skip_blanks();
        if self.peek() != Some(b':') {
            return Err(self.error("a colon should be here"));
        }
        self.take(b':');
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        let begin = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..0x20) => return Err(self.error("a control character within a string")),
                Some(_) => self.at += plain(&self.text[self.at..]),
                None => return Err(self.error("the text ends within a string")),
            }
        }
        self.at += 1;
        self.out.extend_from_slice(&self.text[begin..self.at]);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let wrong = |parser: &Self| Err(parser.error("this is not an escape of JSON"));
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.unit(self.at) {
                Some(0xd800..0xdc00) => match self.unit(self.at + 6) {
                    Some(0xdc00..0xe000) if self.text.get(self.at + 6) == Some(&b'\\') => self.at += 12,
                    _ => return Err(self.error("half of a surrogate pair")),
                },
                Some(0xdc00..0xe000) => return Err(self.error("half of a surrogate pair")),
                Some(_) => self.at += 6,
                None => return wrong(self),
            },
            _ => return wrong(self),
        }
        Ok(())
    }

    /// The number in an escape `\uXXXX`.
    fn unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at + 2..at + 6).filter(|_| self.text.get(at + 1) == Some(&b'u'))?;
        crate::string::unit(digits)
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let begin = self.at;
        let digits = |parser: &mut Self| {
            let from = parser.at;
            while parser.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                parser.at += 1;
            }
            parser.at - from
        };
        self.at += usize::from(self.peek() == Some(b'-'));
        let leads_with_zero = self.peek() == Some(b'0');
        let whole = digits(self);
        if whole == 0 || leads_with_zero && whole > 1 {
            return Err(self.error("this is not a number of JSON"));
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if digits(self) == 0 {
                return Err(self.error("digits should be here"));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            if digits(self) == 0 {
                return Err(self.error("digits should be here"));
            }
        }
        self.out.extend_from_slice(&self.text[begin..self.at]);
        Ok(())
    }

    /// False: no container has begun.
    fn literal(&mut self, literal: &[u8]) -> Result<bool, JsonError> {
        if !self.text[self.at..].starts_with(literal) {
            return Err(self.error("no value begins like this"));
        }
        self.at += literal.len();
        self.out.extend_from_slice(literal);
        Ok(false)
    }

    /// Drops the members of the innermost object whose keys are repeated later.
    fn end_object(&mut self) {
        let Some(Open::Object(first)) = self.open.pop() else { return };
        let members = &self.members[first..];
        if has_repeated(self.out, members) {
            let mut seen: HashSet<&[u8], RandomState> = HashSet::default();
            let mut kept: Vec<Range<usize>> = Vec::new();
            for (index, member) in members.iter().enumerate().rev() {
                if seen.insert(&self.out[member.key.clone()]) {
                    let end = members.get(index + 1).map_or(self.out.len(), |next| next.key.start - 1);
                    kept.push(member.key.start..end);
                }
            }
            let mut object = Vec::with_capacity(self.out.len() - members[0].key.start);
            for range in kept.into_iter().rev() {
                if !object.is_empty() {
                    object.push(b',');
                }
                object.extend_from_slice(&self.out[range]);
            }
            let begin = members[0].key.start;
            drop(seen);
            self.out.truncate(begin);
            self.out.append(&mut object);
        }
        self.members.truncate(first);
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, token: u8) {
        self.out.push(token);
        self.at += 1;
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    #[cold]
    fn error(&self, what: &'static str) -> JsonError {
        JsonError::Syntax { at: self.at, what }
    }
}

fn has_repeated(out: &[u8], members: &[Member]) -> bool {
    let key = |member: &Member| &out[member.key.clone()];
    if members.len() <= FEW {
        return members
            .iter()
            .enumerate()
            .any(|(at, member)| members[..at].iter().any(|other| key(other) == key(member)));
    }
    let mut seen: HashSet<&[u8], RandomState> =
        HashSet::with_capacity_and_hasher(members.len(), RandomState::default());
    !members.iter().all(|member| seen.insert(key(member)))
}

/// How many bytes of a string begin `text` that stand for themselves; at least one is.
fn plain(text: &[u8]) -> usize {
    let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    // No early exit within a chunk, so that the compiler can use vector instructions.
    let clean = text
        .chunks_exact(16)
        .take_while(|chunk| !chunk.iter().fold(false, |dirty, &b| dirty | (b < 0x20) | (b == b'"') | (b == b'\\')));
    let skipped = clean.count() * 16;
    skipped + text[skipped..].iter().position(ends).unwrap_or(text.len() - skipped)
}

/// Whether this is a whole JSON text, in any form.
pub fn is_json(text: &[u8]) -> bool {
    compact(text).is_ok()
}

/// The text itself if it is compact already, else its compact form.
///
/// # Errors
/// As [`compact_into`].
pub fn compacted(text: &[u8]) -> Result<Cow<'_, [u8]>, JsonError> {
    let compact = compact(text)?;
    Ok(if compact == text { Cow::Borrowed(text) } else { Cow::Owned(compact) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compacted_text(text: &str) -> String {
        String::from_utf8(compact(text.as_bytes()).expect(text)).expect("UTF-8")
    }

    #[test]
    fn of_members_with_the_same_key_the_last_stays() {
        assert_eq!(compacted_text(r#"{"a":1,"b":{"c":1,"c":2},"a":3}"#), r#"{"b":{"c":2},"a":3}"#);
        assert_eq!(compacted_text(r#"[{"a":1,"\u0061":2},{"/":1,"\/":2}]"#), r#"[{"a":2},{"/":2}]"#);
        let many: Vec<String> = (0..100).map(|number| format!("\"{}\":{number}", number % 20)).collect();
        let last: Vec<String> = (80..100).map(|number| format!("\"{}\":{number}", number % 20)).collect();
        assert_eq!(compacted_text(&format!("{{{}}}", many.join(","))), format!("{{{}}}", last.join(",")));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, at) in
            [("", 0), ("[1,]", 3), ("{\"a\"}", 4), ("\"\n\"", 1), ("1 2", 2), ("[\"\\ud800\"]", 2), ("nul", 0)]
        {
            assert!(
                matches!(compact(text.as_bytes()), Err(JsonError::Syntax { at: place, .. }) if place == at),
                "{text}"
            );
        }
        assert!(matches!(compact(b"\"\xff\""), Err(JsonError::Syntax { at: 1, .. })));
        let nested = |depth: usize| compact(format!("{}{}", "[".repeat(depth), "]".repeat(depth)).as_bytes());
        assert!(nested(MAX_DEPTH).is_ok());
        assert_eq!(nested(MAX_DEPTH + 1), Err(JsonError::TooDeep));
        assert_eq!(nested(1_000_000), Err(JsonError::TooDeep), "without a deep stack");
    }
}
