//! Rows of CSV (RFC 4180) and of tab-separated values, read strictly: a row whose quotes are wrong
//! is bad, and takes no other row with it.
use super::limits::{MAX_KEY, MAX_VALUE};
use std::io::{self, BufRead, Read as _};

/// Bytes of a row that is still open: a key and a value of quotes alone, each written twice.
const LONGEST: usize = 2 * (MAX_KEY + MAX_VALUE) + (1 << 20);
/// The most columns. Each takes more memory than the byte that may make it.
const MOST_COLUMNS: usize = 1 << 16;
/// Bytes that were read already, and may be dropped.
const STALE: usize = 1 << 20;

/// How the fields of a row are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// Commas; a field may have quotes.
    Comma,
    /// Tabs; a quote is a character like any other.
    Tab,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// At the beginning of a field.
    #[default]
    Begin,
    Unquoted,
    Quoted,
    /// Behind a quote in a quoted field: its end, or the first of two.
    Quote,
}

/// The fields of one row.
#[derive(Debug, Default)]
pub(super) struct Row {
    bytes: Vec<u8>,
    /// Where each field ends.
    ends: Vec<usize>,
    state: State,
}

impl Row {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
    pub(super) fn get(&self, field: usize) -> Option<&[u8]> {
        let begin = if field == 0 { 0 } else { *self.ends.get(field - 1)? };
        self.bytes.get(begin..*self.ends.get(field)?)
    }
    pub(super) fn fields(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).filter_map(|field| self.get(field))
    }
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.state = State::Begin;
    }
    fn end_field(&mut self) -> Result<(), String> {
        if self.ends.len() == MOST_COLUMNS {
            return Err(format!("it has more than {MOST_COLUMNS} columns"));
        }
        self.ends.push(self.bytes.len());
        self.state = State::Begin;
        Ok(())
    }

    /// Takes one more line, with its end if it has one: whether the row is whole.
    fn push_line(&mut self, line: &[u8], separator: Separator) -> Result<bool, String> {
        let text = without_end(line);
        match separator {
            Separator::Tab => {
                for field in text.split(|byte| *byte == b'\t') {
                    self.bytes.extend_from_slice(field);
                    self.end_field()?;
                }
                return Ok(true);
            }
            Separator::Comma => text.iter().try_for_each(|byte| self.push(*byte))?,
        }
        if self.state == State::Quoted {
            self.bytes.extend_from_slice(&line[text.len()..]);
            return Ok(false);
        }
        self.end_field()?;
        Ok(true)
    }

    fn push(&mut self, byte: u8) -> Result<(), String> {
        match (self.state, byte) {
            (State::Begin, b'"') => self.state = State::Quoted,
            (State::Quoted, b'"') => self.state = State::Quote,
            (State::Quoted, _) => self.bytes.push(byte),
            (State::Quote, b'"') => {
                self.bytes.push(byte);
                self.state = State::Quoted;
            }
            (_, b',') => return self.end_field(),
            (State::Quote, _) => return Err("it has text behind a closing quote".to_owned()),
            (State::Unquoted, b'"') => return Err("it has a quote inside a field without quotes around it".to_owned()),
            (_, b'\r') => return Err("it has a carriage return that ends no line".to_owned()),
            (State::Begin | State::Unquoted, _) => {
                self.bytes.push(byte);
                self.state = State::Unquoted;
            }
        }
        Ok(())
    }
}

/// The number of a row's first line, and what is wrong with the row.
pub(super) type RowLine = (u64, Result<(), String>);

/// Reads rows.
pub(super) struct Rows<'r> {
    from: &'r mut dyn BufRead,
    separator: Separator,
    /// The lines of the row that is being read, and those behind a bad row that are read again.
    buffer: Vec<u8>,
    /// Where the next row begins in it.
    at: usize,
    /// Lines before that.
    lines: u64,
}

impl<'r> Rows<'r> {
    pub(super) fn new(from: &'r mut dyn BufRead, separator: Separator) -> Rows<'r> {
        Rows { from, separator, buffer: Vec::new(), at: 0, lines: 0 }
    }

    /// The next row that is not empty. A row with wrong quotes ends with its first line: which
    /// quote is missing is not known, and the lines behind it are rows of their own more often than
    /// not. `None`: there are no more.
    pub(super) fn read(&mut self, row: &mut Row) -> io::Result<Option<RowLine>> {
        loop {
            row.clear();
            // At most as much is moved as was read.
            if self.at > STALE.max(self.buffer.len() / 2) || self.at == self.buffer.len() {
                self.buffer.drain(..self.at);
                self.at = 0;
            }
            let (number, begin) = (self.lines + 1, self.at);
            let Some(first_end) = self.line_end(begin)? else { return Ok(None) };
            let (mut end, mut lines) = (first_end, 1);
            let mut pushed = row.push_line(&self.buffer[begin..end], self.separator);
            while pushed == Ok(false) {
                pushed = match self.line_end(end)? {
                    None => Err(format!("its quote is not closed up to the end, in line {}", self.lines + lines)),
                    Some(next) if next - begin > LONGEST => Err("its quote is not closed within 1 GiB".to_owned()),
                    Some(next) => {
                        let pushed = row.push_line(&self.buffer[end..next], self.separator);
                        (end, lines) = (next, lines + 1);
                        pushed
                    }
                };
            }
            let bad = pushed.err();
            let is_empty = without_end(&self.buffer[begin..first_end]).is_empty();
            (self.at, self.lines) = if bad.is_some() { (first_end, number) } else { (end, self.lines + lines) };
            if !is_empty {
                return Ok(Some((number, bad.map_or(Ok(()), Err))));
            }
        }
    }

    /// The end of the line that begins at this place; `None`: there is none.
    fn line_end(&mut self, begin: usize) -> io::Result<Option<usize>> {
        if begin == self.buffer.len() {
            let read = (&mut *self.from).take(LONGEST as u64).read_until(b'\n', &mut self.buffer)?;
            return match read {
                LONGEST => Err(io::Error::other("a line has no end within 1 GiB")),
                read => Ok((read > 0).then_some(begin + read)),
            };
        }
        let rest = &self.buffer[begin..];
        Ok(Some(rest.iter().position(|byte| *byte == b'\n').map_or(self.buffer.len(), |end| begin + end + 1)))
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
