//! Reads the keys of an RDB file one after the other.
use super::{
    format::{DATABASE, END, EXPIRES_MS, MAGIC, RdbError, STRING},
    input::Input,
    skip,
};
use std::io::Read;

/// The versions that are read: up to that of Redis 8.6.
pub(super) const VERSIONS: std::ops::RangeInclusive<u32> = 1..=13;
/// The first version that ends with a checksum.
const SUMMED: u32 = 5;
const SUM: usize = 8;

const KEY_METADATA: u8 = 0xf3;
const SLOT_SIZES: u8 = 0xf4;
const FUNCTION: u8 = 0xf5;
const MODULE_DATA: u8 = 0xf7;
const IDLE: u8 = 0xf8;
const FREQUENCY: u8 = 0xf9;
const NOTE: u8 = 0xfa;
const SIZES: u8 = 0xfb;
const EXPIRES_S: u8 = 0xfd;

/// A key of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RdbItem<'r> {
    /// A string within the limits.
    String {
        /// Its database, from 0.
        database: u64,
        /// At most as long as the reader allows.
        key: &'r [u8],
        /// Likewise.
        value: &'r [u8],
        /// When it ends, milliseconds since the Unix epoch.
        expiry: Option<i64>,
    },
    /// A value that was skipped.
    Other {
        /// Its database, from 0.
        database: u64,
        /// Its type, or which limit it is over.
        kind: &'static str,
    },
}

/// Reads an RDB file from anything that gives bytes.
pub struct RdbReader<R: Read> {
    input: Input<R>,
    max_key: usize,
    max_value: usize,
    version: u32,
    database: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    has_sum: bool,
    is_over: bool,
}

impl<R: Read> RdbReader<R> {
    /// Reads the header. Strings over these limits, bytes, are skipped.
    ///
    /// # Errors
    /// The bytes cannot be read, or are not those of an RDB file that is known.
    pub fn new(input: R, max_key: usize, max_value: usize) -> Result<RdbReader<R>, RdbError> {
        let mut input = Input::new(input);
        let foreign = |what: &str| RdbError::Foreign(what.to_owned());
        let header: [u8; 9] = match input.array() {
            Err(RdbError::Damaged { .. }) => return Err(foreign("is not an RDB file: it is too short")),
            header => header?,
        };
        let version =
            header.strip_prefix(MAGIC).ok_or_else(|| foreign("is not an RDB file: it does not begin like one"))?;
        let version = version
            .iter()
            .try_fold(0, |number, digit| char::from(*digit).to_digit(10).map(|digit| number * 10 + digit));
        let version = version.ok_or_else(|| foreign("is not an RDB file: its version is not a number"))?;
        if !VERSIONS.contains(&version) {
            let what = format!("is an RDB file of version {version}, and this program reads 1 to {}", VERSIONS.end());
            return Err(RdbError::Foreign(what));
        }
        let (key, value) = (Vec::new(), Vec::new());
        Ok(RdbReader { input, max_key, max_value, version, database: 0, key, value, has_sum: false, is_over: false })
    }

    /// Whether the file had a checksum, which was right. Known at the end.
    pub fn has_sum(&self) -> bool {
        self.has_sum
    }

    /// The next key; `None` after the last, if the checksum is right and nothing follows it. Ask no
    /// more after an error.
    ///
    /// # Errors
    /// The input cannot be read, or is damaged.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the reader")]
    pub fn next(&mut self) -> Result<Option<RdbItem<'_>>, RdbError> {
        if self.is_over {
            return Ok(None);
        }
        let mut expiry = None;
        let kind = loop {
            match self.input.byte()? {
                DATABASE => self.database = self.input.length()?,
                EXPIRES_MS => expiry = Some(i64::from_le_bytes(self.input.array()?)),
                EXPIRES_S => expiry = Some(i64::from(i32::from_le_bytes(self.input.array()?)) * 1000),
                SIZES => {
                    self.input.length()?;
                    self.input.length()?;
                }
                NOTE => {
                    self.input.skip_string()?;
                    self.input.skip_string()?;
                }
                IDLE => self.input.length().map(drop)?,
                FREQUENCY => self.input.byte().map(drop)?,
                FUNCTION => self.input.skip_string()?,
                SLOT_SIZES => {
                    for _ in 0..3 {
                        self.input.length()?;
                    }
                }
                MODULE_DATA => skip::module_data(&mut self.input)?,
                KEY_METADATA => skip::key_metadata(&mut self.input)?,
                END => return self.end().map(|()| None),
                kind => break kind,
            }
        };
        let Some(name) = skip::type_name(kind) else {
            return Err(self.input.damaged("a value of an unknown type"));
        };
        let database = self.database;
        if !self.input.string(self.max_key, &mut self.key)? {
            skip::value(&mut self.input, kind)?;
            return Ok(Some(RdbItem::Other { database, kind: "key over the limit" }));
        }
        if kind != STRING {
            skip::value(&mut self.input, kind)?;
            return Ok(Some(RdbItem::Other { database, kind: name }));
        }
        if !self.input.string(self.max_value, &mut self.value)? {
            return Ok(Some(RdbItem::Other { database, kind: "string over the limit" }));
        }
        Ok(Some(RdbItem::String { database, key: &self.key, value: &self.value, expiry }))
    }

    /// Compares the checksum. It is all zeros if Redis was told to write none.
    fn end(&mut self) -> Result<(), RdbError> {
        if self.version >= SUMMED {
            self.has_sum = self.input.array::<SUM>()? != [0; SUM];
        }
        if !self.input.is_at_end()? {
            return Err(self.input.damaged("bytes follow the end"));
        }
        if self.has_sum && self.input.sum() != 0 {
            return Err(self.input.damaged("the file's checksum is another"));
        }
        self.is_over = true;
        Ok(())
    }
}
