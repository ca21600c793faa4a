//! How a disk store is kept: what its owner may choose.
use larder_units::{parse_duration, show_duration};
use std::{fmt, time::Duration};

/// How a disk store is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct StoreSettings {
    pub durability: Durability,
    /// Bytes of the memtable that is written to; up to three more may wait to be flushed.
    pub write_buffer: u64,
    /// Bytes.
    pub block_cache: u64,
    /// Of a store that is made now.
    pub compression: Compression,
    /// That read.
    pub threads: usize,
    /// Bytes of writes that wait for the disk.
    pub max_waiting: usize,
}
impl StoreSettings {
    /// What holds where nothing is set, on a small machine.
    pub const DEFAULT: StoreSettings = StoreSettings {
        durability: Durability::Interval(Duration::from_millis(100)),
        write_buffer: 64 << 20,
        block_cache: 32 << 20,
        compression: Compression::Lz4,
        threads: 2,
        max_waiting: 64 << 20,
    };
}

/// When a write that was acknowledged is on stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    Always,
    /// At most this long afterwards, plus the time that the sync takes.
    Interval(Duration),
    /// When the operating system writes it back.
    Os,
}
impl Durability {
    /// `always`, `os`, or `interval:100ms`.
    pub fn parse(text: &str) -> Result<Durability, String> {
        const VALID: &str = "write always, os, or interval:100ms (1ms to 1m)";
        let lower = text.to_ascii_lowercase();
        match (lower.as_str(), lower.strip_prefix("interval:")) {
            ("always", _) => Ok(Durability::Always),
            ("os", _) => Ok(Durability::Os),
            (_, Some(interval)) => {
                let interval = parse_duration(interval).map_err(|error| format!("{error}; {VALID}"))?;
                match (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&interval) {
                    true => Ok(Durability::Interval(interval)),
                    false => Err(format!("{} is not an interval: {VALID}", show_duration(interval))),
                }
            }
            _ => Err(format!("`{text}` is not a durability: {VALID}")),
        }
    }
}
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Always => f.write_str("always"),
            Durability::Interval(interval) => write!(f, "interval:{}", show_duration(*interval)),
            Durability::Os => f.write_str("os"),
        }
    }
}

/// How a store's older levels are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum Compression {
    Lz4,
    None,
}
impl Compression {
    /// What the setting may be; the first unless told otherwise.
    pub const NAMES: &'static [&'static str] = &["lz4", "none"];
    /// By one of these names.
    pub fn from_name(name: &str) -> Compression {
        if name == "none" { Compression::None } else { Compression::Lz4 }
    }
}
