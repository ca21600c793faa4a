//! The checked configuration: what the rest of the server reads.
use super::{SourceUrl, parse_duration, show_duration};
use std::{fmt, net::SocketAddr, ops::Deref, path::PathBuf, time::Duration};

/// The checked configuration. Every field is described in the table ([`super::TABLE`]) under its name with hyphens.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs)]
pub struct Settings {
    pub http: Vec<SocketAddr>,
    pub redis: Vec<SocketAddr>,
    pub admin: Option<SocketAddr>,
    /// Group `default` first.
    pub groups: Vec<GroupSettings>,
    pub threads: usize,
    pub data_dir: Option<PathBuf>,
    pub password: Option<Secret>,
    pub max_key: usize,
    pub max_value: usize,
    pub max_body: usize,
    /// Bytes of an HTTP request's head.
    pub max_headers: usize,
    pub max_pipeline: usize,
    /// Bytes of all buffers together.
    pub max_buffers: usize,
    /// Bytes of messages and invalidations.
    pub max_backlog: usize,
    /// 0: any number.
    pub tracking_table_max_keys: usize,
    pub max_connections: usize,
    pub idle_timeout: Option<Duration>,
    pub header_timeout: Duration,
    pub grace: Duration,
    /// Host and port.
    pub moving_endpoint: Option<String>,
    pub source_timeout: Duration,
    pub source_slow_timeout: Duration,
    pub source_max_in_flight: usize,
    /// Per thread and source.
    pub source_connections: usize,
    /// Requests per second of one client address; `None` is off.
    pub throttle_client: Option<Rate>,
    /// Of all clients together.
    pub throttle_total: Option<Rate>,
    /// Of one client address to the admin and stats routes.
    pub throttle_admin: Option<Rate>,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
}

/// One group's settings.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs)]
pub struct GroupSettings {
    pub name: String,
    pub source: SourceUrl,
    pub max_memory: usize,
    pub max_keys: Option<usize>,
    pub ttl: Option<Duration>,
    /// Per cent, 0 to 50.
    pub ttl_jitter: u8,
    pub negative_ttl: Option<Duration>,
    pub coherence: Coherence,
    /// None: the source remembers what was read; else it announces every change under these, and only such keys are kept.
    pub tracking_prefixes: Vec<String>,
    /// Bytes of the largest reply; `None`: no replies.
    pub cache_replies: Option<usize>,
    /// Of a `disk:` source.
    pub store: StoreSettings,
}

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
    /// At most so long afterwards, and the time that the sync takes.
    Interval(Duration),
    /// When the operating system writes it back.
    Os,
}
impl Durability {
    /// `always`, `os`, or `interval:100ms`.
    pub(super) fn parse(text: &str) -> Result<Durability, String> {
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

/// What keeps copies of a Redis source's values from being older than they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coherence {
    /// The source announces changes (`CLIENT TRACKING`); what it would not announce is not kept.
    Coherent,
    /// The lifetimes alone.
    #[default]
    Ttl,
    /// Nothing is kept.
    Off,
}
impl Coherence {
    pub(super) const NAMES: &'static [&'static str] = &["coherent", "ttl", "off"];
    pub(super) fn from_name(name: &str) -> Coherence {
        match name {
            "ttl" => Coherence::Ttl,
            "off" => Coherence::Off,
            _ => Coherence::Coherent,
        }
    }
}

/// Requests per second and burst; neither is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object per line.
    Json,
}
impl LogFormat {
    pub(super) const NAMES: &'static [&'static str] = &["text", "json"];
    pub(super) fn from_name(name: &str) -> LogFormat {
        if name == "json" { LogFormat::Json } else { LogFormat::Text }
    }
}

/// The least severe event that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}
impl LogLevel {
    /// In the order of the variants.
    pub const NAMES: &'static [&'static str] = &["off", "error", "warn", "info", "debug", "trace"];
    const ALL: [LogLevel; 6] =
        [LogLevel::Off, LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];
    /// Its name, as in settings and in `PUT /v1/log-level`.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
    /// The level of that name, in any case.
    pub fn from_name(name: &str) -> Option<LogLevel> {
        let at = Self::NAMES.iter().position(|n| n.eq_ignore_ascii_case(name))?;
        Some(Self::ALL[at])
    }
}

/// Text that must not reach a log: its `Debug` is `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);
impl Deref for Secret {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
impl From<String> for Secret {
    fn from(text: String) -> Self {
        Secret(text)
    }
}
impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Secret(text.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_names_are_in_one_order() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_name(level.name()), Some(level));
            assert_eq!(format!("{level:?}").to_lowercase(), level.name());
        }
        assert_eq!(LogLevel::from_name("WARN"), Some(LogLevel::Warn));
        assert_eq!(LogLevel::from_name("warning"), None);
    }
}
