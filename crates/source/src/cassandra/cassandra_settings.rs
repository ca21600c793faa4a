//! What all cores share of one cluster: its URL, limits and health.
use super::{
    cql_error::{Fate, describe, fate},
    driver_sessions::DriverSessions,
};
use crate::{
    fetch_refusals::timeout_reason, source_error::SourceError, source_health::SourceHealth, source_limits::SourceLimits,
};
use larder_base::buffers::Buffers;
use larder_config::{CassandraConsistency, CassandraUrl, Secret, read_short_file};
use scylla::{
    errors::ExecutionError,
    statement::{Consistency, SerialConsistency},
};
use std::{fmt, sync::Arc};

/// Maximum size of a password file.
const LONGEST_PASSWORD: u64 = 64 * 1024;

/// The settings and shared state of the sessions of all cores.
pub(super) struct CassandraSettings {
    pub(super) url: CassandraUrl,
    pub(super) limits: SourceLimits,
    pub(super) health: Arc<SourceHealth>,
    pub(super) buffers: Arc<Buffers>,
    pub(super) sessions: Arc<DriverSessions>,
}

impl CassandraSettings {
    /// # Errors
    /// The password file cannot be read; it is named.
    pub(super) fn new(
        url: &CassandraUrl,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<CassandraSettings, String> {
        password(url)?;
        let health = Arc::new(health);
        Ok(CassandraSettings { url: url.clone(), limits, health, buffers, sessions: Arc::default() })
    }

    fn named(&self, reason: impl fmt::Display) -> String {
        format!("cassandra://{}: {reason}", self.url.origin())
    }
    /// The error of a cluster that will not do this however often it is asked.
    pub(super) fn refused(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Refused(format!("ERR {}", self.named(reason)).into())
    }
    /// The error of a cluster that gave no answer, and did nothing.
    pub(super) fn unavailable(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Unavailable(self.named(reason).into())
    }
    /// The error of a write that may have been made.
    pub(super) fn lost(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Lost(self.named(reason).into())
    }
    /// The error of a read.
    pub(super) fn read_error(&self, error: &ExecutionError) -> SourceError {
        match (fate(error), error) {
            (Fate::Refused, _) => self.refused(describe(error)),
            (_, ExecutionError::RequestTimeout(limit)) => self.unavailable(timeout_reason(*limit, &self.limits)),
            _ => self.unavailable(describe(error)),
        }
    }
    /// The error of a plain write.
    pub(super) fn write_error(&self, error: &ExecutionError) -> SourceError {
        match (fate(error), error) {
            (Fate::Refused, _) => self.refused(describe(error)),
            (Fate::NotSent, _) => self.unavailable(describe(error)),
            (_, ExecutionError::RequestTimeout(limit)) => self.lost(timeout_reason(*limit, &self.limits)),
            _ => self.lost(describe(error)),
        }
    }

    /// The table, as CQL names it.
    pub(super) fn table(&self) -> String {
        table(&self.url)
    }
}

/// The table, as CQL names it.
pub(super) fn table(url: &CassandraUrl) -> String {
    format!("{}.{}", quoted(&url.keyspace), quoted(&url.table))
}

/// A name in CQL, whatever characters it has.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The password of the URL, or of its file, which is read now.
///
/// # Errors
/// The file cannot be read; it is named.
pub(super) fn password(url: &CassandraUrl) -> Result<Option<Secret>, String> {
    let Some(file) = &url.password_file else { return Ok(url.password.clone()) };
    let named = |why: &dyn fmt::Display| format!("password-file {}: {why}", file.display());
    let bytes = read_short_file(file, LONGEST_PASSWORD).map_err(|error| named(&error))?;
    let bytes = bytes.ok_or_else(|| named(&"is longer than 64 KiB"))?;
    let text = String::from_utf8(bytes).map_err(|_| named(&"is not UTF-8"))?;
    Ok(Some(Secret::from(text.trim_end_matches(['\r', '\n']).to_owned())))
}

/// The driver's name of a consistency.
pub(super) fn consistency(of: CassandraConsistency) -> Consistency {
    match of {
        CassandraConsistency::One => Consistency::One,
        CassandraConsistency::LocalOne => Consistency::LocalOne,
        CassandraConsistency::Two => Consistency::Two,
        CassandraConsistency::Three => Consistency::Three,
        CassandraConsistency::Quorum => Consistency::Quorum,
        CassandraConsistency::LocalQuorum => Consistency::LocalQuorum,
        CassandraConsistency::EachQuorum => Consistency::EachQuorum,
        CassandraConsistency::All => Consistency::All,
    }
}

/// The consistency of transactions, among the same data centres as that of writes.
pub(super) fn serial_consistency(of: CassandraConsistency) -> SerialConsistency {
    match of {
        CassandraConsistency::LocalOne | CassandraConsistency::LocalQuorum => SerialConsistency::LocalSerial,
        _ => SerialConsistency::Serial,
    }
}
