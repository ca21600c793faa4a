//! What a table is made of: text, CSV, JSON lines, another table.
use super::{
    error::TableError,
    format::Origin,
    limits::{MAX_KEY, MAX_VALUE},
    open::Table,
    progress::Progress,
    walk::Position,
};
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::HashMap,
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
}

/// What a line says.
pub(super) struct Line<'a> {
    pub(super) key: &'a [u8],
    /// `None`: the key must be removed.
    pub(super) value: Option<&'a [u8]>,
}
/// Takes the lines, numbered from 1; for one that cannot be read, the reason.
type Sink<'a> = dyn FnMut(u64, Result<Line<'_>, String>) -> Result<(), TableError> + 'a;

/// Takes the lines as they are.
type RawSink<'a> = dyn FnMut(u64, &[u8]) -> Result<(), TableError> + 'a;

/// Lines between two looks at the progress.
const LOOK: u64 = 1 << 14;

impl Input {
    /// An input with the usual names of columns, in the format that the file's name says.
    pub fn of(path: PathBuf) -> Input {
        Input { format: Format::of(&path), path, key: "key".into(), value: "value".into() }
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
        match self.format {
            Format::Csv => self.read_columns(b',', from, sink),
            Format::Tsv => self.read_columns(b'\t', from, sink),
            Format::Text => self.read_lines(from, &mut |number, line| sink(number, text(line))),
            Format::Keys => self.read_lines(from, &mut |number, key| sink(number, Ok(Line { key, value: None }))),
            Format::Json => self.read_lines(from, &mut |number, line| self.json(number, line, sink)),
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
    fn read_lines(&self, from: &mut dyn Read, sink: &mut RawSink<'_>) -> Result<(), TableError> {
        // Whatever is around key and value: JSON may write a byte in six.
        const LONGEST: u64 = 6 * (MAX_KEY + MAX_VALUE) as u64 + (1 << 20);
        let mut from = BufReader::with_capacity(1 << 18, from);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let read = from.by_ref().take(LONGEST).read_until(b'\n', &mut line);
            match read.map_err(|error| TableError::io(&self.path, error))? as u64 {
                0 => break,
                LONGEST => return Err(TableError::Input(format!("{}: line {number} has no end", self.name()).into())),
                _ => {}
            }
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            // What Windows programs begin UTF-8 with (a byte order mark) is no part of the first key.
            let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                sink(number, line)?;
            }
        }
        Ok(())
    }

    fn read_columns(&self, separator: u8, from: &mut dyn Read, sink: &mut Sink<'_>) -> Result<(), TableError> {
        let failed = |error: csv::Error| TableError::Input(format!("{}: {error}", self.name()).into());
        let mut reader =
            csv::ReaderBuilder::new().delimiter(separator).quoting(separator == b',').flexible(true).from_reader(from);
        let names = reader.byte_headers().map_err(failed)?.clone();
        let column = |wanted: &str| {
            names.iter().position(|name| name == wanted.as_bytes()).ok_or_else(|| {
                let names: Vec<_> = names.iter().map(String::from_utf8_lossy).collect();
                TableError::Input(
                    format!("{}: there is no column `{wanted}` among {}", self.name(), names.join(", ")).into(),
                )
            })
        };
        let (key, value) = (column(&self.key)?, column(&self.value)?);
        let mut record = csv::ByteRecord::new();
        while reader.read_byte_record(&mut record).map_err(failed)? {
            let number = record.position().map_or(0, csv::Position::line);
            let line = match (record.get(key), record.get(value)) {
                (Some(key), Some(value)) => Ok(Line { key, value: Some(value) }),
                _ => Err(format!("it has {} columns", record.len())),
            };
            sink(number, line)?;
        }
        Ok(())
    }

    /// Strings are their text, other values their JSON; null removes the key.
    fn json(&self, number: u64, line: &[u8], sink: &mut Sink<'_>) -> Result<(), TableError> {
        let object: HashMap<Cow<'_, str>, &RawValue> = match serde_json::from_slice(line) {
            Ok(object) => object,
            Err(error) => return sink(number, Err(format!("it is not a JSON object: {error}"))),
        };
        let field = |name: &str| -> Result<Option<Cow<'_, [u8]>>, String> {
            let Some(raw) = object.get(name) else { return Err(format!("it has no field `{name}`")) };
            match raw.get() {
                "null" => Ok(None),
                text if text.starts_with('"') => {
                    let text: String = serde_json::from_str(text).map_err(|error| format!("`{name}`: {error}"))?;
                    Ok(Some(Cow::Owned(text.into_bytes())))
                }
                other => Ok(Some(Cow::Borrowed(other.as_bytes()))),
            }
        };
        match (field(&self.key), field(&self.value)) {
            (Err(why), _) | (_, Err(why)) => sink(number, Err(why)),
            (Ok(key), Ok(value)) => sink(number, Ok(Line { key: &key.unwrap_or_default(), value: value.as_deref() })),
        }
    }
}

/// A line of text.
fn text(line: &[u8]) -> Result<Line<'_>, String> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(end) = line.iter().position(blank) else {
        return Err("there is no blank behind the key".into());
    };
    let value = line[end..].iter().position(|byte| !blank(byte)).map_or(&[][..], |skip| &line[end + skip..]);
    Ok(Line { key: &line[..end], value: Some(value) })
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
