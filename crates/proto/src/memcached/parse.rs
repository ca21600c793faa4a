//! Finds the next request in the input.
use super::{
    meta::{MAX_TOKENS, Meta, MetaCommand, MetaFlags, MetaMode},
    number::{parse_i64, parse_u32, parse_u64},
    request::{Keys, MAX_KEY, Request, Store, StoreMode, Tokens, is_key},
};

/// Without the end of a line after so many bytes, the client does not speak this protocol. Only
/// `get` may have more.
const LONGEST_LINE: usize = 2048;
/// The longest line of a `get`. Its keys are read in one turn.
const LONGEST_GET: usize = 1 << 20;
/// The longest value that a login may have.
const LONGEST_LOGIN: u64 = 4096;

const ERROR: &str = "ERROR";
const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";

/// What clients may send.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest value.
    pub max_value: usize,
}

/// What the bytes at the front of the input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'i> {
    /// A part of a request, which lacks at least so many bytes.
    More(usize),
    /// A request, and its length.
    Request(Request<'i>, usize),
    /// A command that is not carried out: the line to answer, unless the client wants no reply; and
    /// the length of the command.
    Refused {
        /// The line.
        line: &'static str,
        /// The client wants no reply.
        is_quiet: bool,
        /// The length of the command.
        consumed: usize,
    },
    /// A command that stores a value, which is longer than the limit and is skipped.
    TooLarge {
        /// The command, with an empty value.
        request: Request<'i>,
        /// The client wants no reply.
        is_quiet: bool,
        /// The length of the command's line.
        consumed: usize,
    },
    /// Bytes of a value that no command wants.
    Skip(usize),
    /// Not this protocol, and nothing to answer.
    Close,
}

/// What a client that has to log in has sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login<'i> {
    /// A part of it, which lacks at least so many bytes.
    More(usize),
    /// A name, a password, and the length of the command.
    Credentials(&'i [u8], &'i [u8], usize),
    /// The line to answer, and the length of the command.
    Refused(&'static str, usize),
    /// Not this protocol.
    Close,
}

/// Finds requests in the input of one client.
#[derive(Debug, Default)]
pub struct Parser {
    /// The input has no end of a line before this position.
    scanned: usize,
    /// The request is complete with so many bytes.
    needs: usize,
    /// Bytes to come that no command wants.
    skips: usize,
}

/// What became of a line.
enum Line<'i> {
    Request(Request<'i>),
    /// A value of this length follows.
    Value(usize),
    Refused(&'static str, bool),
    /// Like `Refused`, and a value of this length follows, which is skipped.
    RefusedValue(&'static str, bool, usize),
    /// A value of this length follows, which is skipped: it is longer than the limit.
    TooLarge(Request<'i>, bool, usize),
    Close,
}

impl Parser {
    /// Whether nothing of the request at the front of the input was looked at.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.scanned | self.needs | self.skips == 0
    }

    /// Finds the next request. The caller removes what it has consumed before it asks again.
    #[inline]
    pub fn parse<'i>(&mut self, input: &'i [u8], limits: &Limits) -> Step<'i> {
        if !self.is_fresh() {
            if self.skips > 0 {
                let skipped = self.skips.min(input.len());
                self.skips -= skipped;
                return if skipped == 0 { Step::More(self.skips) } else { Step::Skip(skipped) };
            }
            if input.len() < self.needs {
                return Step::More(self.needs - input.len());
            }
        }
        let Some(end) = self.line_end(input) else { return self.unended(input) };
        let line = without_cr(&input[..end]);
        let after = end + 1;
        let step = match read_line(line, &input[after..], limits) {
            Line::Request(request) => {
                let value = match &request {
                    Request::Store(store) => store.value.len() + 2,
                    Request::Meta(Meta { command: MetaCommand::Set(value), .. }) => value.len() + 2,
                    _ => 0,
                };
                Step::Request(request, after + value)
            }
            Line::Value(length) => {
                self.scanned = end;
                self.needs = after + length + 2;
                return Step::More(self.needs - input.len());
            }
            Line::Refused(line, is_quiet) => Step::Refused { line, is_quiet, consumed: after },
            Line::RefusedValue(line, is_quiet, length) => {
                *self = Parser { skips: length + 2, ..Parser::default() };
                return Step::Refused { line, is_quiet, consumed: after };
            }
            Line::TooLarge(request, is_quiet, length) => {
                *self = Parser { skips: length + 2, ..Parser::default() };
                return Step::TooLarge { request, is_quiet, consumed: after };
            }
            Line::Close => Step::Close,
        };
        *self = Parser::default();
        step
    }

    /// Where the line at the front of the input ends.
    #[inline]
    fn line_end(&self, input: &[u8]) -> Option<usize> {
        let from = self.scanned.min(input.len());
        memchr::memchr(b'\n', &input[from..]).map(|at| from + at)
    }

    /// The input is the beginning of a line.
    #[cold]
    fn unended<'i>(&mut self, input: &'i [u8]) -> Step<'i> {
        self.scanned = input.len();
        if input.len() > LONGEST_LINE {
            let command = &input[input.iter().take_while(|byte| **byte == b' ').count().min(100)..];
            let is_get = command.starts_with(b"get ") || command.starts_with(b"gets ");
            if !is_get || input.len() > LONGEST_GET {
                return Step::Close;
            }
        }
        Step::More(1)
    }

    /// Finds the login of a client: a `set` whose value is a name and a password.
    pub fn parse_login<'i>(&mut self, input: &'i [u8]) -> Login<'i> {
        let Some(end) = self.line_end(input) else {
            self.scanned = input.len();
            return if input.len() > LONGEST_LINE { Login::Close } else { Login::More(1) };
        };
        let mut tokens = Tokens(without_cr(&input[..end]));
        let after = end + 1;
        let is_set = tokens.next() == Some(b"set");
        let length = tokens.nth(3).and_then(parse_u64).filter(|_| is_set);
        self.scanned = 0;
        let Some(length) = length else { return Login::Refused("CLIENT_ERROR unauthenticated", after) };
        if length > LONGEST_LOGIN {
            return Login::Close;
        }
        let whole = after + length as usize + 2;
        if input.len() < whole {
            return Login::More(whole - input.len());
        }
        let Some(value) = input[after..whole].strip_suffix(b"\r\n") else {
            return Login::Refused("CLIENT_ERROR bad command line termination", whole);
        };
        let mut words = Tokens(value);
        match (words.next(), words.next()) {
            (Some(name), Some(password)) => Login::Credentials(name, password, whole),
            _ => Login::Refused("CLIENT_ERROR bad authentication token format", whole),
        }
    }
}

/// A line without the CR at its end. A line of CR alone keeps it, like in memcached.
fn without_cr(line: &[u8]) -> &[u8] {
    match line {
        [line @ .., b'\r'] if !line.is_empty() => line,
        line => line,
    }
}

#[inline]
fn read_line<'i>(line: &'i [u8], after: &'i [u8], limits: &Limits) -> Line<'i> {
    let mut tokens = Tokens(line);
    let Some(name) = tokens.next() else { return Line::Refused(ERROR, false) };
    let text = tokens.rest();
    match name {
        b"get" | b"bget" => read_get(text, false),
        b"set" => read_store(text, StoreMode::Set, after, limits),
        b"gets" => read_get(text, true),
        [b'm', letter] => read_meta(*letter, text, after, limits),
        b"gat" => read_get_and_touch(text, false),
        b"gats" => read_get_and_touch(text, true),
        b"add" => read_store(text, StoreMode::Add, after, limits),
        b"replace" => read_store(text, StoreMode::Replace, after, limits),
        b"append" => read_store(text, StoreMode::Append, after, limits),
        b"prepend" => read_store(text, StoreMode::Prepend, after, limits),
        b"cas" => read_store(text, StoreMode::Cas(0), after, limits),
        b"incr" => read_arithmetic(text, true),
        b"decr" => read_arithmetic(text, false),
        b"delete" => read_delete(text),
        b"touch" => read_touch(text),
        _ => read_other(name, text),
    }
}

/// Up to `N` tokens, and how many there are.
fn take<const N: usize>(text: &[u8]) -> ([&[u8]; N], usize) {
    let mut taken = [&b""[..]; N];
    let mut count = 0;
    for token in Tokens(text) {
        if let Some(place) = taken.get_mut(count) {
            *place = token;
        }
        count += 1;
    }
    (taken, count)
}

#[inline]
fn read_get(text: &[u8], with_version: bool) -> Line<'_> {
    match Keys::checked(text) {
        Some(keys) if keys.into_iter().next().is_some() => {
            Line::Request(Request::Get { keys, with_version, exptime: None })
        }
        Some(_) => Line::Refused(ERROR, false),
        None => Line::Refused(BAD_FORMAT, false),
    }
}

fn read_get_and_touch(text: &[u8], with_version: bool) -> Line<'_> {
    let mut tokens = Tokens(text);
    let Some(exptime) = tokens.next() else { return Line::Refused(ERROR, false) };
    let Some(exptime) = parse_i64(exptime) else {
        return Line::Refused("CLIENT_ERROR invalid exptime argument", false);
    };
    match Keys::checked(tokens.rest()) {
        // Without keys memcached answers END.
        Some(keys) => Line::Request(Request::Get { keys, with_version, exptime: Some(exptime) }),
        None => Line::Refused(BAD_FORMAT, false),
    }
}

#[inline]
fn read_store<'i>(text: &'i [u8], mode: StoreMode, after: &'i [u8], limits: &Limits) -> Line<'i> {
    let (tokens, count) = take::<6>(text);
    let least = 4 + usize::from(matches!(mode, StoreMode::Cas(_)));
    if count != least && count != least + 1 {
        return Line::Refused(ERROR, false);
    }
    let is_quiet = tokens[count - 1] == b"noreply";
    let [key, flags, exptime, length, version, _] = tokens;
    let mode = match mode {
        StoreMode::Cas(_) => parse_u64(version).map(StoreMode::Cas),
        mode => Some(mode),
    };
    let numbers = (parse_u32(flags), parse_i64(exptime), parse_i64(length), mode);
    let (Some(flags), Some(exptime), Some(length), Some(mode)) = numbers else {
        return Line::Refused(BAD_FORMAT, is_quiet);
    };
    if !is_key(key) || !(0..=i64::from(i32::MAX) - 2).contains(&length) {
        return Line::Refused(BAD_FORMAT, is_quiet);
    }
    let length = length as usize;
    let store = |value| Request::Store(Store { key, mode, flags, exptime, value, is_quiet });
    if length > limits.max_value {
        return Line::TooLarge(store(b""), is_quiet, length);
    }
    match value(after, length) {
        None => Line::Value(length),
        Some(None) => bad_chunk(is_quiet, length),
        Some(Some(value)) => Line::Request(store(value)),
    }
}

/// The value of this length; `None` if it is incomplete, `Some(None)` if it does not end there.
#[expect(clippy::option_option, reason = "incomplete, wrong, or a value")]
fn value(after: &[u8], length: usize) -> Option<Option<&[u8]>> {
    let whole = after.get(..length + 2)?;
    Some(whole.strip_suffix(b"\r\n"))
}

fn bad_chunk<'i>(is_quiet: bool, length: usize) -> Line<'i> {
    Line::RefusedValue("CLIENT_ERROR bad data chunk", is_quiet, length)
}

fn read_arithmetic(text: &[u8], is_increment: bool) -> Line<'_> {
    let ([key, delta, last], count) = take::<3>(text);
    if count != 2 && count != 3 {
        return Line::Refused(ERROR, false);
    }
    let is_quiet = ends_quietly(delta, last);
    if !is_key(key) {
        return Line::Refused(BAD_FORMAT, is_quiet);
    }
    match parse_u64(delta) {
        Some(delta) => Line::Request(Request::Arithmetic { key, delta, is_increment, is_quiet }),
        None => Line::Refused("CLIENT_ERROR invalid numeric delta argument", is_quiet),
    }
}

/// Whether the last of two tokens is `noreply`; the second may be missing.
fn ends_quietly(first: &[u8], second: &[u8]) -> bool {
    let last = if second.is_empty() { first } else { second };
    last == b"noreply"
}

fn read_delete(text: &[u8]) -> Line<'_> {
    let ([key, second, third], count) = take::<3>(text);
    if !(1..=3).contains(&count) {
        return Line::Refused(ERROR, false);
    }
    let is_quiet = count > 1 && ends_quietly(second, third);
    let is_valid = match count {
        1 => true,
        2 => second == b"0" || is_quiet,
        _ => second == b"0" && is_quiet,
    };
    if !is_valid {
        return Line::Refused("CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]", is_quiet);
    }
    match is_key(key) {
        true => Line::Request(Request::Delete { key, is_quiet }),
        false => Line::Refused(BAD_FORMAT, is_quiet),
    }
}

fn read_touch(text: &[u8]) -> Line<'_> {
    let ([key, exptime, last], count) = take::<3>(text);
    if count != 2 && count != 3 {
        return Line::Refused(ERROR, false);
    }
    let is_quiet = ends_quietly(exptime, last);
    if !is_key(key) {
        return Line::Refused(BAD_FORMAT, is_quiet);
    }
    match parse_i64(exptime) {
        Some(exptime) => Line::Request(Request::Touch { key, exptime, is_quiet }),
        None => Line::Refused("CLIENT_ERROR invalid exptime argument", is_quiet),
    }
}

#[cold]
fn read_other<'i>(name: &[u8], text: &'i [u8]) -> Line<'i> {
    let ([first, second], count) = take::<2>(text);
    let last = if count == 0 { name } else { Tokens(text).last().unwrap_or_default() };
    match name {
        b"flush_all" if count <= 2 => {
            let is_quiet = last == b"noreply";
            if count == usize::from(is_quiet) {
                return Line::Request(Request::Flush { delay: 0, is_quiet });
            }
            match parse_i64(first) {
                Some(delay) => Line::Request(Request::Flush { delay, is_quiet }),
                None => Line::Refused("CLIENT_ERROR invalid exptime argument", is_quiet),
            }
        }
        b"version" => Line::Request(Request::Version),
        b"quit" => Line::Request(Request::Quit),
        b"stats" => Line::Request(Request::Stats(first)),
        b"verbosity" if count == 1 || count == 2 => {
            let is_quiet = ends_quietly(first, second);
            match parse_u64(first) {
                Some(_) => Line::Request(Request::Verbosity { is_quiet }),
                None => Line::Refused(BAD_FORMAT, is_quiet),
            }
        }
        b"shutdown" => Line::Refused("ERROR: shutdown not enabled", false),
        // A web page may have made a browser send this: what follows is not of who sent it.
        _ if name.eq_ignore_ascii_case(b"host:") || last.starts_with(b"HTTP/") => Line::Close,
        _ => Line::Refused(ERROR, false),
    }
}

fn read_meta<'i>(letter: u8, text: &'i [u8], after: &'i [u8], limits: &Limits) -> Line<'i> {
    if letter == b'n' {
        return Line::Request(Request::MetaNothing);
    }
    if !matches!(letter, b'g' | b's' | b'd' | b'a' | b'e') {
        return Line::Refused(ERROR, false);
    }
    let mut tokens = Tokens(text);
    let key = tokens.next();
    let Some(key) = key.filter(|_| letter != b'e' || key.is_some_and(|key| key.len() <= MAX_KEY)) else {
        return Line::Refused(if letter == b'e' { BAD_FORMAT } else { ERROR }, false);
    };
    if !is_key(key) {
        return Line::Refused(BAD_FORMAT, false);
    }
    let mut length = None;
    if letter == b's' {
        let wanted = tokens.next().and_then(parse_i64);
        match wanted.filter(|length| (0..=i64::from(i32::MAX) - 2).contains(length)) {
            Some(wanted) => length = Some(wanted as usize),
            None => return Line::Refused(BAD_FORMAT, false),
        }
    }
    let refused = |line| match length {
        None => Line::Refused(line, false),
        Some(length) => Line::RefusedValue(line, false, length),
    };
    if letter != b'e' && Tokens(text).count() + 1 > MAX_TOKENS {
        let line = match letter {
            b'g' => "CLIENT_ERROR options flags are too long",
            _ => "CLIENT_ERROR options flags too long",
        };
        return Line::Refused(line, false);
    }
    let flags = match MetaFlags::parse(tokens.rest()) {
        Ok(flags) if flags.removes_value && letter != b'd' => return refused("CLIENT_ERROR invalid flag"),
        Ok(flags) => flags,
        Err(_) if letter == b'e' => MetaFlags::default(),
        Err(line) if line.ends_with("opaque token too long") => return refused(line),
        Err(_) if letter == b'd' || letter == b'a' => {
            return Line::Refused("CLIENT_ERROR invalid or duplicate flag", false);
        }
        Err(line) => return refused(line),
    };
    let command = match (letter, length) {
        (b's', Some(length)) => {
            if !matches!(flags.mode, None | Some(MetaMode::Store(_))) {
                return refused("CLIENT_ERROR invalid mode for ms M token");
            }
            if length > limits.max_value {
                let request = Request::Meta(Meta { command: MetaCommand::Set(b""), key, flags });
                return Line::TooLarge(request, false, length);
            }
            match value(after, length) {
                None => return Line::Value(length),
                Some(None) => return bad_chunk(false, length),
                Some(Some(value)) => MetaCommand::Set(value),
            }
        }
        (b'g', _) => MetaCommand::Get,
        (b'd', _) => MetaCommand::Delete,
        (b'a', _) if matches!(flags.mode, Some(MetaMode::Store(_) | MetaMode::Unknown)) => {
            return Line::Refused("CLIENT_ERROR invalid mode for ma M token", false);
        }
        (b'a', _) => MetaCommand::Arithmetic,
        _ => MetaCommand::Debug,
    };
    Line::Request(Request::Meta(Meta { command, key, flags }))
}

/// The first keys of the commands at the start of the input, as far as they are `get` or `set`:
/// `None` for any other command. Ends at a command that is incomplete. What comes of it are guesses:
/// the parser decides.
pub fn keys_ahead(input: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let end = memchr::memchr(b'\n', rest)?;
        let line = without_cr(&rest[..end]);
        let mut next = end + 1;
        let key = match line {
            [b'g', b'e', b't', b' ', text @ ..] | [b'm', b'g', b' ', text @ ..] => Tokens(text).next(),
            [b's', b'e', b't', b' ', text @ ..] => {
                let ([key, _, _, length], _) = take::<4>(text);
                next += parse_u32(length)? as usize + 2;
                Some(key)
            }
            _ => None,
        };
        rest = rest.get(next..).unwrap_or_default();
        Some(key.filter(|key| key.len() <= MAX_KEY))
    })
}
