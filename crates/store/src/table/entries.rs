//! The usable entries of an input. Lines that are not usable are counted, or end the reading.
use super::{
    error::TableError,
    format::Origin,
    input::{Format, Input, Line, NO_KEY},
    limits::MAX_VALUE,
    progress::Progress,
};

/// Bad lines that are described; the rest are counted.
const DESCRIBED: usize = 20;

/// What a line must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineRules {
    /// A bad line ends the reading.
    pub(crate) strict: bool,
    /// A line may say that a key is removed.
    pub(crate) removes: bool,
    /// Bytes of the longest key.
    pub(crate) max_key: usize,
}

/// Lines that could not be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BadLines {
    /// How many.
    pub count: u64,
    /// The first of them, and why.
    pub described: Vec<(u64, String)>,
}

/// Takes an entry: the number of its line, its key, and its value or `None` for a removal.
type EntrySink<'a> = dyn FnMut(u64, &[u8], Option<&[u8]>) -> Result<(), TableError> + 'a;

impl Input {
    /// Passes every usable entry to `sink`; what the file was.
    pub(crate) fn entries(
        &self,
        rules: LineRules,
        bad: &mut BadLines,
        progress: &mut dyn FnMut(Progress),
        sink: &mut EntrySink<'_>,
    ) -> Result<Origin, TableError> {
        self.read(progress, &mut |number, line| {
            let why = match line {
                // JSON writes out the empty key. Elsewhere a key was forgotten.
                Ok(Line { key: [], .. }) if !matches!(self.format, Format::Json | Format::Table) => NO_KEY.to_owned(),
                Ok(Line { key, .. }) if key.len() > rules.max_key => {
                    format!("its key has {} bytes, more than 64 KiB", key.len())
                }
                Ok(Line { value: Some(value), .. }) if value.len() > MAX_VALUE => {
                    format!("its value has {} bytes, more than 512 MiB", value.len())
                }
                Ok(Line { value: None, .. }) if !rules.removes => "it has no value".to_owned(),
                Ok(Line { key, value }) => return sink(number, key, value),
                Err(why) => why,
            };
            if rules.strict {
                return Err(TableError::Input(format!("{}: line {number}: {why}", self.name()).into()));
            }
            bad.count += 1;
            if bad.described.len() < DESCRIBED {
                bad.described.push((number, why));
            }
            Ok(())
        })
    }
}
