//! Commands of a client: RESP arrays of bulk strings, and inline commands (a line of words, for
//! people and `nc`).
use super::{number::parse_i64, scan::Malformed};
use crate::output::Output;
use std::ops::Range;

/// Longest line: an inline command, or the header of an array or bulk string
/// (`PROTO_INLINE_MAX_SIZE` in Redis).
const MAX_LINE: usize = 64 * 1024;
/// Most arguments of one command, as in Redis 7 and Valkey. Their headers allocate nothing: the
/// slots grow with the arguments that arrive, and count as the connection's memory.
const MAX_ARGS: usize = i32::MAX as usize;
/// How much longer than `max-value` a bulk string may be before the connection is closed for it:
/// whatever is within this gets a polite error from its command.
const BULK_SLACK: usize = 64 * 1024;
/// What a client that has not authenticated may send (Redis: `unauthenticated multibulk length`, `…
/// bulk length`).
const UNAUTHENTICATED_ARGS: usize = 10;
const UNAUTHENTICATED_BULK: usize = 16 * 1024;
/// Argument slots that are kept from one command to the next.
const KEPT_ARGS: usize = 1024;

/// What a parser accepts.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest bulk string, bytes.
    max_bulk: usize,
    /// Longest command, bytes; at most `u32::MAX`.
    max_command: usize,
    /// The setting that this follows from.
    command_setting: &'static str,
    /// Whether the client has said who it is.
    pub authenticated: bool,
}
impl Limits {
    /// For values of at most `max_value` bytes (setting `max-value`). A whole command (MSET …) may
    /// be twice as long, or 256 MiB if that is more.
    pub fn new(max_value: usize) -> Limits {
        let max_bulk = max_value.saturating_add(BULK_SLACK);
        Limits {
            max_bulk,
            max_command: max_bulk.saturating_mul(2).max(256 * 1024 * 1024).min(u32::MAX as usize),
            command_setting: "max-value",
            authenticated: true,
        }
    }

    /// These limits, but no command is longer than all buffers together may be (setting
    /// `max-buffers`).
    #[must_use]
    pub fn within(self, max_buffers: usize) -> Limits {
        match max_buffers < self.max_command {
            true => Limits { max_command: max_buffers, command_setting: "max-buffers", ..self },
            false => self,
        }
    }
}

/// What [`Parser::parse`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A whole command, the first `consumed` bytes of the input; [`Parser::args`] has it. It has no
    /// arguments for an empty line or array, which ask for no reply.
    Command {
        /// Its length.
        consumed: usize,
    },
    /// At least `more` bytes are missing. Call again with the same bytes (wherever they are now)
    /// and more.
    Incomplete {
        /// At least 1.
        more: usize,
    },
}

/// The client does not speak the protocol: answer [`reply`](ProtocolError::reply) and close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// Not a number, or more arguments than allowed.
    MultibulkLength,
    /// Not a number, negative, or longer than `max-value` allows.
    BulkLength,
    /// Something else than a bulk string in a command.
    Expected(u8),
    /// No line end within 64 KiB of an inline command.
    BigInline,
    /// No line end within 64 KiB of an array header.
    BigMultibulkCount,
    /// No line end within 64 KiB of a bulk header.
    BigBulkCount,
    /// A quote that is not closed, or closed within a word.
    UnbalancedQuotes,
    /// More arguments than a client may send before it authenticated.
    UnauthenticatedMultibulk,
    /// A longer argument than a client may send before it authenticated.
    UnauthenticatedBulk,
    /// A command longer than this in total, which follows from this setting.
    BigCommand(usize, &'static str),
}
impl ProtocolError {
    /// Appends the error reply, in the words of Redis.
    pub fn reply(&self, out: &mut Output) {
        out.put(b"-ERR Protocol error: ");
        match self {
            ProtocolError::MultibulkLength => out.put(b"invalid multibulk length"),
            ProtocolError::BulkLength => out.put(b"invalid bulk length"),
            ProtocolError::Expected(got) => {
                let got = if matches!(got, b'\r' | b'\n') { b' ' } else { *got };
                out.put(b"expected '$', got '");
                out.put(&[got]);
                out.put(b"'");
            }
            ProtocolError::BigInline => out.put(b"too big inline request"),
            ProtocolError::BigMultibulkCount => out.put(b"too big mbulk count string"),
            ProtocolError::BigBulkCount => out.put(b"too big bulk count string"),
            ProtocolError::UnbalancedQuotes => out.put(b"unbalanced quotes in request"),
            ProtocolError::UnauthenticatedMultibulk => {
                out.put(b"unauthenticated multibulk length");
            }
            ProtocolError::UnauthenticatedBulk => out.put(b"unauthenticated bulk length"),
            ProtocolError::BigCommand(limit, setting) => {
                out.put(format!("command longer than {limit} bytes (follows from {setting})").as_bytes())
            }
        }
        out.put(b"\r\n");
    }
}

/// A command: its name and arguments, borrowed from the bytes that were read.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    input: &'a [u8],
    ranges: &'a [Range<u32>],
    inline: bool,
}
impl<'a> Args<'a> {
    /// The parts `ranges` of `input`.
    pub fn new(input: &'a [u8], ranges: &'a [Range<u32>]) -> Args<'a> {
        Args { input, ranges, inline: false }
    }
    /// Came as a line of words rather than as an array.
    #[inline]
    pub fn is_inline(&self) -> bool {
        self.inline
    }
    /// Number of parts, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
    /// An empty line or array.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// A part, if there are so many.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let range = self.ranges.get(index)?;
        Some(&self.input[range.start as usize..range.end as usize])
    }
    /// Bytes from the beginning of the first part to the end of the last one.
    #[inline]
    pub fn span(&self) -> usize {
        let (first, last) = (self.ranges.first(), self.ranges.last());
        first.zip(last).map_or(0, |(first, last)| (last.end - first.start) as usize)
    }
    /// All parts from `first` on.
    pub fn from(&self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let input = self.input;
        self.ranges[first.min(self.ranges.len())..]
            .iter()
            .map(move |range| &input[range.start as usize..range.end as usize])
    }
    /// The first `len` parts (all, if there are fewer).
    pub fn first(&self, len: usize) -> Args<'a> {
        Args { ranges: &self.ranges[..len.min(self.ranges.len())], ..*self }
    }
    /// The parts from `first` on, as a command of their own.
    pub fn skip(&self, first: usize) -> Args<'a> {
        Args { ranges: &self.ranges[first.min(self.ranges.len())..], ..*self }
    }
}
impl std::ops::Index<usize> for Args<'_> {
    type Output = [u8];
    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        let range = &self.ranges[index];
        &self.input[range.start as usize..range.end as usize]
    }
}

/// The plain `GET key` commands that `input` begins with, each as its key and its length: a glance
/// ahead that checks no limits. What it does not recognise ends it. The parser would see the same.
#[inline]
pub fn gets_ahead(mut input: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    std::iter::from_fn(move || {
        let whole = input.len();
        let (key, rest) = bulk_ahead(after_name(input, b"*2\r\n$3\r\n", b"get")?)?;
        input = rest;
        Some((key, whole - input.len()))
    })
}

/// The plain `SET key value` commands that `input` begins with, each as its key, its value and its
/// length: a glance ahead that checks no limits. What it does not recognise ends it. The parser
/// would see the same.
#[inline]
pub fn sets_ahead(mut input: &[u8]) -> impl Iterator<Item = (&[u8], &[u8], usize)> {
    std::iter::from_fn(move || {
        let whole = input.len();
        let (key, rest) = bulk_ahead(after_name(input, b"*3\r\n$3\r\n", b"set")?)?;
        let (value, rest) = bulk_ahead(rest)?;
        input = rest;
        Some((key, value, whole - input.len()))
    })
}

/// What follows a command's headers, its name in any case, and the end of that line.
#[inline]
fn after_name<'a>(input: &'a [u8], headers: &[u8; 8], name: &[u8; 3]) -> Option<&'a [u8]> {
    let (head, rest) = input.split_at_checked(13)?;
    let is_it = head.starts_with(headers) && head[8..11].eq_ignore_ascii_case(name) && head.ends_with(b"\r\n");
    is_it.then_some(rest)
}

/// The bulk string that `input` begins with, and what follows it.
#[inline]
fn bulk_ahead(input: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = header_ahead(input, b'$')?;
    Some((rest.get(..len)?, rest.get(len + 2..)?))
}

/// The number of a header line, from behind its marker on, and how many digits it has. `None`: it has
/// more than nine, begins with a zero, or its line is not all there. The two bytes of the line's end
/// are not in the count.
#[inline]
fn short_number(input: &[u8]) -> Option<(usize, usize)> {
    let mut number = 0;
    let mut digits = 0;
    while let Some(digit @ b'0'..=b'9') = input.get(digits)
        && digits < 9
    {
        number = number * 10 + usize::from(digit - b'0');
        digits += 1;
    }
    let is_whole = digits > 0 && input.get(digits) == Some(&b'\r') && input.len() > digits + 1;
    (is_whole && (digits == 1 || input[0] != b'0')).then_some((number, digits))
}

/// The first argument of each command that `input` begins with, `None` for a command without one: a
/// glance ahead that checks no limits. The first command that is inline, or not all there, ends it.
pub fn first_arguments(mut input: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        let (count, mut rest) = header_ahead(input, b'*')?;
        let mut argument = None;
        for at in 0..count {
            let (len, value) = header_ahead(rest, b'$')?;
            if at == 1 {
                argument = value.get(..len);
            }
            rest = value.get(len + 2..)?;
        }
        input = rest;
        Some(argument)
    })
}

/// Name and first argument of each command that `input` consists of: a glance that checks no limits.
/// An error ends it: what follows is inline, incomplete, or has an argument of 1 GB or more.
pub fn commands_ahead(input: &[u8]) -> CommandsAhead<'_> {
    CommandsAhead { rest: Some(input) }
}
/// See [`commands_ahead`].
#[derive(Debug, Clone)]
pub struct CommandsAhead<'a> {
    /// `None` at the end.
    rest: Option<&'a [u8]>,
}
impl<'a> CommandsAhead<'a> {
    /// Takes a command from the beginning of `rest`.
    fn command(rest: &mut &'a [u8]) -> Option<NameAndArgument<'a>> {
        let (count, after) = header_ahead(rest, b'*')?;
        *rest = after;
        let name = CommandsAhead::argument(rest)?;
        let mut first = None;
        for _ in 1..count {
            let argument = CommandsAhead::argument(rest)?;
            first.get_or_insert(argument);
        }
        (count > 0).then_some((name, first))
    }
    fn argument(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let (len, value) = header_ahead(rest, b'$')?;
        *rest = value.get(len + 2..)?;
        value.get(..len)
    }
}
impl<'a> Iterator for CommandsAhead<'a> {
    type Item = Result<NameAndArgument<'a>, Malformed>;
    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.rest.take()?;
        let command = CommandsAhead::command(&mut rest);
        self.rest = Some(rest).filter(|rest| command.is_some() && !rest.is_empty());
        Some(command.ok_or(Malformed))
    }
}
/// Of a command; the argument if there is one.
type NameAndArgument<'a> = (&'a [u8], Option<&'a [u8]>);

/// The number after `mark`, and what follows its line.
#[inline]
fn header_ahead(input: &[u8], mark: u8) -> Option<(usize, &[u8])> {
    let (first, rest) = input.split_first()?;
    let (number, digits) = short_number(rest).filter(|_| *first == mark)?;
    Some((number, &rest[digits + 2..]))
}

/// An incremental parser of one connection's commands. It holds no bytes: it remembers how far it
/// came in the command that the input begins with, so that a large argument that arrives in pieces
/// is not looked at again for each of them.
#[derive(Debug, Default)]
pub struct Parser {
    /// The arguments so far; relative to the command's first byte, or to `words` for an inline
    /// command.
    ranges: Vec<Range<u32>>,
    /// Where to go on, relative to the command's first byte.
    at: usize,
    /// Bytes from `at` on that are known to hold no line end.
    scanned: usize,
    /// Arguments still to come; 0 before the array's header.
    left: usize,
    /// Length of the bulk string whose header is read, and which begins at `at`.
    bulk: Option<usize>,
    /// The words of an inline command, unquoted.
    words: Vec<u8>,
    inline: bool,
}

/// A header line.
enum Line {
    Number { value: i64, next: usize },
    NotANumber,
    Incomplete,
    TooLong,
}

impl Parser {
    /// Nothing of the command at the front of the input has been looked at.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.at == 0 && self.scanned == 0
    }

    /// Bytes of memory that it occupies.
    #[inline]
    pub fn owned(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<u32>>() + self.words.capacity()
    }

    /// Parses the command that `input` begins with. After `Incomplete`, `input` must begin with the
    /// same bytes again.
    ///
    /// # Errors
    /// The input is not a command and what follows cannot be understood: the connection must end.
    #[inline]
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        if self.at == 0 {
            match input.first() {
                None => return Ok(Parsed::Incomplete { more: 1 }),
                Some(b'*') => {
                    self.begin();
                    if !self.array_header(input, limits)? {
                        return Ok(Parsed::Incomplete { more: 1 });
                    }
                }
                Some(_) => return self.parse_inline(input),
            }
        }
        while self.left > 0 {
            let length = match self.bulk {
                Some(length) => length,
                None => match self.bulk_header(input, limits)? {
                    Some(length) => length,
                    None => return Ok(Parsed::Incomplete { more: 1 }),
                },
            };
            // The two bytes after a bulk string are skipped unread, as in Redis.
            let end = self.at + length;
            if input.len() < end + 2 {
                self.bulk = Some(length);
                return Ok(Parsed::Incomplete { more: end + 2 - input.len() });
            }
            self.ranges.push(self.at as u32..end as u32);
            self.bulk = None;
            self.at = end + 2;
            self.left -= 1;
        }
        let consumed = self.at;
        self.at = 0;
        Ok(Parsed::Command { consumed })
    }

    /// The command that [`parse`](Parser::parse) found at the start of `input`.
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        Args { input: if self.inline { &self.words } else { input }, ranges: &self.ranges, inline: self.inline }
    }

    fn begin(&mut self) {
        self.ranges.clear();
        if self.ranges.capacity() > KEPT_ARGS {
            self.ranges.shrink_to(KEPT_ARGS);
        }
        self.inline = false;
    }

    /// Reads `*COUNT`; false if it is not all there.
    #[inline]
    fn array_header(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let (count, next) = match self.line(input) {
            Line::Number { value, next } => (value, next),
            Line::NotANumber => return Err(ProtocolError::MultibulkLength),
            Line::TooLong => return Err(ProtocolError::BigMultibulkCount),
            Line::Incomplete => return Ok(false),
        };
        // A negative count is an empty command, as in Redis.
        let count = usize::try_from(count).unwrap_or(0);
        if count > MAX_ARGS {
            return Err(ProtocolError::MultibulkLength);
        }
        if count > UNAUTHENTICATED_ARGS && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulk);
        }
        self.left = count;
        self.at = next;
        self.scanned = 0;
        Ok(true)
    }

    /// Reads `$LENGTH`; `None` if it is not all there.
    #[inline]
    fn bulk_header(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let line = self.line(input);
        if !matches!(line, Line::Incomplete | Line::TooLong) && input[self.at] != b'$' {
            return Err(ProtocolError::Expected(input[self.at]));
        }
        let (length, next) = match line {
            Line::Number { value, next } => (value, next),
            Line::NotANumber => return Err(ProtocolError::BulkLength),
            Line::TooLong => return Err(ProtocolError::BigBulkCount),
            Line::Incomplete => return Ok(None),
        };
        let length = usize::try_from(length).map_err(|_| ProtocolError::BulkLength)?;
        if length > limits.max_bulk {
            return Err(ProtocolError::BulkLength);
        }
        if length > UNAUTHENTICATED_BULK && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedBulk);
        }
        if next + length + 2 > limits.max_command {
            return Err(ProtocolError::BigCommand(limits.max_command, limits.command_setting));
        }
        self.at = next;
        self.scanned = 0;
        Ok(Some(length))
    }

    /// Reads a marker, a number and CRLF from `at` on (the marker is the caller's to check).
    #[inline]
    fn line(&mut self, input: &[u8]) -> Line {
        // The usual case: a few digits, all there.
        match short_number(input.get(self.at + 1..).unwrap_or(&[])) {
            Some((number, digits)) => Line::Number { value: number as i64, next: self.at + 1 + digits + 2 },
            None => self.unusual_line(input),
        }
    }

    #[cold]
    fn unusual_line(&mut self, input: &[u8]) -> Line {
        let rest = input.get(self.at..).unwrap_or(&[]);
        match rest.iter().skip(self.scanned).position(|&b| b == b'\r') {
            None if rest.len() > MAX_LINE => Line::TooLong,
            None => {
                self.scanned = rest.len();
                Line::Incomplete
            }
            Some(found) => {
                let end = self.scanned + found;
                self.scanned = end;
                if end + 2 > rest.len() {
                    return Line::Incomplete;
                }
                // `rest` begins with the marker, unless the line is empty.
                match rest.get(1..end).and_then(parse_i64) {
                    Some(value) => Line::Number { value, next: self.at + end + 2 },
                    None => Line::NotANumber,
                }
            }
        }
    }

    #[cold]
    fn parse_inline(&mut self, input: &[u8]) -> Result<Parsed, ProtocolError> {
        let Some(found) = input.iter().skip(self.scanned).position(|&b| b == b'\n') else {
            if input.len() > MAX_LINE {
                return Err(ProtocolError::BigInline);
            }
            self.scanned = input.len();
            return Ok(Parsed::Incomplete { more: 1 });
        };
        let end = self.scanned + found;
        self.scanned = 0;
        self.begin();
        self.inline = true;
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        self.split_words(line)?;
        Ok(Parsed::Command { consumed: end + 1 })
    }

    /// Splits a line into words: separated by blanks, optionally within `"…"` (with the escapes of
    /// C and `\xHH`) or `'…'` (with `\'`), as `sdssplitargs` in Redis does.
    fn split_words(&mut self, line: &[u8]) -> Result<(), ProtocolError> {
        self.words.clear();
        let at = |index: usize| line.get(index).copied();
        let mut i = 0;
        loop {
            while at(i).is_some_and(is_space) {
                i += 1;
            }
            if i >= line.len() {
                return Ok(());
            }
            let start = self.words.len() as u32;
            let mut quote = None;
            loop {
                let Some(byte) = at(i) else {
                    if quote.is_some() {
                        return Err(ProtocolError::UnbalancedQuotes);
                    }
                    break;
                };
                match (quote, byte) {
                    (Some(open), close) if open == close => {
                        if at(i + 1).is_some_and(|next| !is_space(next)) {
                            return Err(ProtocolError::UnbalancedQuotes);
                        }
                        i += 1;
                        break;
                    }
                    (Some(b'"'), b'\\') if at(i + 1).is_some() => {
                        let hex = |index| at(index).and_then(|b| (b as char).to_digit(16));
                        let escape = line[i + 1];
                        if let (b'x', Some(high), Some(low)) = (escape, hex(i + 2), hex(i + 3)) {
                            self.words.push((high * 16 + low) as u8);
                            i += 4;
                        } else {
                            self.words.push(match escape {
                                b'n' => b'\n',
                                b'r' => b'\r',
                                b't' => b'\t',
                                b'b' => 8,
                                b'a' => 7,
                                other => other,
                            });
                            i += 2;
                        }
                    }
                    (Some(b'\''), b'\\') if at(i + 1) == Some(b'\'') => {
                        self.words.push(b'\'');
                        i += 2;
                    }
                    (None, b' ' | b'\n' | b'\r' | b'\t' | 0) => {
                        i += 1;
                        break;
                    }
                    (None, b'"' | b'\'') => {
                        quote = Some(byte);
                        i += 1;
                    }
                    _ => {
                        self.words.push(byte);
                        i += 1;
                    }
                }
            }
            self.ranges.push(start..self.words.len() as u32);
        }
    }
}

/// `isspace` of the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests;
