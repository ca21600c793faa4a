//! What a table is made of: text, CSV, JSON lines, another table.
use super::{
    error::TableError,
    foreign_file::ForeignFile,
    format::Origin,
    json_line::JsonLine,
    limits::{MAX_KEY, MAX_VALUE},
    open::Table,
    progress::Progress,
    rows::{Row, Rows, Separator},
    walk::Position,
};
use serde::de::IgnoredAny;
use std::{
    borrow::Cow,
    fs::{File, Metadata},
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

/// How an input is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line per entry: the key, blanks (spaces or tabs), the value, which is the rest of the
    /// line.
    Text,
    /// Comma-separated values (RFC 4180), the names of the columns first.
    Csv,
    /// Tab-separated values (the IANA type: no quotes), the names of the columns first.
    Tsv,
    /// A JSON object per line.
    Json,
    /// A table.
    Table,
    /// A key per line.
    Keys,
}

impl Format {
    /// Their names.
    pub const NAMES: [(&str, Format); 5] = [
        ("text", Format::Text),
        ("csv", Format::Csv),
        ("tsv", Format::Tsv),
        ("json", Format::Json),
        ("table", Format::Table),
    ];
    /// By a file's name.
    pub fn of(path: &Path) -> Format {
        match path.extension().map(|extension| extension.to_ascii_lowercase()).as_deref().and_then(|name| name.to_str())
        {
            Some("csv") => Format::Csv,
            Some("tsv") => Format::Tsv,
            Some("json" | "jsonl" | "ndjson") => Format::Json,
            Some("ltab") => Format::Table,
            _ => Format::Text,
        }
    }
}

/// An input.
#[derive(Debug, Clone)]
pub struct Input {
    /// The file; `-` is standard input.
    pub path: PathBuf,
    /// How it is written.
    pub format: Format,
    /// The column or field that has the key.
    pub key: String,
    /// The one that has the value.
    pub value: String,
    /// Text: a line that is a key alone has an empty value.
    pub empty_values: bool,
}

/// What a line says.
pub(super) struct Line<'a> {
    pub(super) key: &'a [u8],
    /// `None`: the key must be removed.
    pub(super) value: Option<&'a [u8]>,
}
/// What is wrong with a line that has none.
pub(super) const NO_KEY: &str = "it has no key";
/// Takes the lines, numbered from 1; for one that cannot be read, the reason.
type Sink<'a> = dyn FnMut(u64, Result<Line<'_>, String>) -> Result<(), TableError> + 'a;

/// Takes the lines as they are.
type RawSink<'a> = dyn FnMut(u64, &[u8]) -> Result<(), TableError> + 'a;

/// Of the columns that a file has, an error shows so many names, and so many bytes of each.
const NAMES_SHOWN: usize = 32;
const NAME_SHOWN: usize = 64;

/// Lines between two looks at the progress.
const LOOK: u64 = 1 << 14;
/// First bytes from which a file of another kind is known.
const HEAD: u64 = 512;

impl Input {
    /// An input with the usual names of columns, in the format that the file's name says.
    pub fn of(path: PathBuf) -> Input {
        Input { format: Format::of(&path), path, key: "key".into(), value: "value".into(), empty_values: false }
    }
    pub(super) fn keys(path: PathBuf) -> Input {
        Input { format: Format::Keys, ..Input::of(path) }
    }
    /// Its name in messages.
    pub fn name(&self) -> Cow<'_, str> {
        self.path.to_string_lossy()
    }

    /// Is it read from this file?
    pub(super) fn is_file(&self, path: &Path) -> bool {
        matches!((self.path.canonicalize(), path.canonicalize()), (Ok(input), Ok(path)) if input == path)
    }

    /// What the file is now.
    ///
    /// # Errors
    /// It is not there.
    pub fn origin(path: &Path) -> Result<Origin, TableError> {
        std::fs::metadata(path).map(|file| origin(&file)).map_err(|error| TableError::io(path, error))
    }

    /// Passes every line to `sink`; what the file was.
    pub(super) fn read(&self, progress: &mut dyn FnMut(Progress), sink: &mut Sink<'_>) -> Result<Origin, TableError> {
        if self.format == Format::Table {
            return self.read_table(progress, sink);
        }
        let failed = |error| TableError::io(&self.path, error);
        if self.path.as_os_str() == "-" {
            let mut counted = Counted { inner: io::stdin().lock(), read: 0, total: None, progress };
            self.read_from(&mut counted, sink)?;
            return Ok(Origin::default());
        }
        let file = File::open(&self.path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        let total = found.is_file().then_some(found.len());
        let mut counted = Counted { inner: file, read: 0, total, progress };
        self.read_from(&mut counted, sink)?;
        Ok(if found.is_file() { origin(&found) } else { Origin::default() })
    }

    fn read_from(&self, from: &mut dyn Read, sink: &mut Sink<'_>) -> Result<(), TableError> {
        let failed = |error| TableError::io(&self.path, error);
        let mut head = Vec::new();
        from.take(HEAD).read_to_end(&mut head).map_err(failed)?;
        // Lines of a compressed file would be read as keys and values.
        if let Some(advice) = ForeignFile::of(&head).is_no_input(&self.path) {
            return Err(TableError::Input(format!("{}: {advice}", self.name()).into()));
        }
        // What Windows programs begin UTF-8 with (a byte order mark) is no part of the first key.
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
        let mut from = BufReader::with_capacity(1 << 18, text.chain(from));
        match self.format {
            Format::Csv => self.read_columns(Separator::Comma, &mut from, sink),
            Format::Tsv => self.read_columns(Separator::Tab, &mut from, sink),
            Format::Text => self.read_lines(&mut from, &mut |number, line| sink(number, self.text(line))),
            Format::Keys => self.read_lines(&mut from, &mut |number, key| sink(number, Ok(Line { key, value: None }))),
            Format::Json => self.read_json(&mut from, sink),
            Format::Table => unreachable!("a table is not read in order"),
        }
    }

    fn read_table(&self, progress: &mut dyn FnMut(Progress), sink: &mut Sink<'_>) -> Result<Origin, TableError> {
        let table = Table::open(&self.path)?;
        for (number, entry) in (1..).zip(table.entries(Position::default())) {
            let (key, value) = entry?;
            sink(number, Ok(Line { key, value: Some(&value) }))?;
            if number % LOOK == 0 {
                progress(Progress::Reading(number, Some(table.len())));
            }
        }
        Input::origin(&self.path)
    }

    /// Lines that are not empty, without their ends.
    fn read_lines(&self, from: &mut dyn BufRead, sink: &mut RawSink<'_>) -> Result<(), TableError> {
        // Whatever is around key and value: JSON may write a byte in six.
        const LONGEST: u64 = 6 * (MAX_KEY + MAX_VALUE) as u64 + (1 << 20);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = (&mut *from).take(LONGEST).read_until(b'\n', &mut line);
            match read.map_err(|error| TableError::io(&self.path, error))? as u64 {
                0 => break,
                LONGEST => return Err(TableError::Input(format!("{}: line {number} has no end", self.name()).into())),
                _ => {}
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                sink(number, line)?;
            }
        }
        Ok(())
    }

    fn read_columns(
        &self,
        separator: Separator,
        from: &mut dyn BufRead,
        sink: &mut Sink<'_>,
    ) -> Result<(), TableError> {
        let failed = |error| TableError::io(&self.path, error);
        let refused = |why: String| TableError::Input(format!("{}: {why}", self.name()).into());
        let (mut rows, mut row) = (Rows::new(from, separator), Row::default());
        if let Some((number, Err(why))) = rows.read(&mut row).map_err(failed)? {
            return Err(refused(format!("line {number}: {why}")));
        }
        let column = |wanted: &str| {
            let mut named = row.fields().enumerate().filter(|(_, name)| *name == wanted.as_bytes());
            match (named.next(), named.next()) {
                (Some((column, _)), None) => Ok(column),
                (Some(_), Some(_)) => Err(refused(format!("there are two columns `{wanted}`"))),
                (None, _) => {
                    let shown = |name: &[u8]| String::from_utf8_lossy(&name[..name.len().min(NAME_SHOWN)]).into_owned();
                    let names: Vec<_> = row.fields().take(NAMES_SHOWN).map(shown).collect();
                    let more = if row.len() > NAMES_SHOWN { ", …" } else { "" };
                    Err(refused(format!("there is no column `{wanted}` among {}{more}", names.join(", "))))
                }
            }
        };
        let (key, value, columns) = (column(&self.key)?, column(&self.value)?, row.len());
        while let Some((number, found)) = rows.read(&mut row).map_err(failed)? {
            let line = match (found, row.get(key), row.get(value)) {
                (Err(why), ..) => Err(why),
                (Ok(()), Some(key), Some(value)) if row.len() == columns => Ok(Line { key, value: Some(value) }),
                _ => Err(format!("it has {} columns", row.len())),
            };
            sink(number, line)?;
        }
        Ok(())
    }

    /// A field that is null removes the key. Lines of an array that the file begins with are all
    /// bad: its last element looks like a line of its own.
    fn read_json(&self, from: &mut dyn BufRead, sink: &mut Sink<'_>) -> Result<(), TableError> {
        let fields = JsonLine { key: &self.key, value: &self.value };
        let (mut is_first, mut array) = (true, None);
        self.read_lines(from, &mut |number, line| {
            let begin = line.trim_ascii_start();
            if !begin.is_empty() && std::mem::take(&mut is_first) && begin.starts_with(b"[") {
                let is_whole = serde_json::from_slice::<IgnoredAny>(line).is_ok();
                array = (!is_whole).then_some(number);
                let why = "it is not a JSON object: it is an array, of which `jq -c .[]` makes lines";
                return sink(number, Err(why.to_owned()));
            }
            if let Some(begin) = array {
                return sink(number, Err(format!("it is a part of the JSON array that begins in line {begin}")));
            }
            match fields.read(line) {
                Ok((None, _)) => sink(number, Err(NO_KEY.to_owned())),
                Ok((Some(key), value)) => sink(number, Ok(Line { key: &key, value: value.as_deref() })),
                Err(why) => sink(number, Err(why)),
            }
        })
    }

    /// A line of text.
    fn text<'l>(&self, line: &'l [u8]) -> Result<Line<'l>, String> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let Some(end) = line.iter().position(blank) else {
            return match self.empty_values {
                true => Ok(Line { key: line, value: Some(&[]) }),
                false => Err("there is no blank behind the key".into()),
            };
        };
        let value = line[end..].iter().position(|byte| !blank(byte)).map_or(&[][..], |skip| &line[end + skip..]);
        Ok(Line { key: &line[..end], value: Some(value) })
    }
}

fn origin(file: &Metadata) -> Origin {
    let modified = file.mtime().wrapping_mul(1_000_000_000).wrapping_add(file.mtime_nsec());
    Origin { len: file.len(), modified: modified as u64 }
}

/// A reader that says how far it is.
struct Counted<'p, R> {
    inner: R,
    read: u64,
    total: Option<u64>,
    progress: &'p mut dyn FnMut(Progress),
}
impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(to)?;
        self.read += read as u64;
        (self.progress)(Progress::Reading(self.read, self.total));
        Ok(read)
    }
}
