//! What all cores share of one database: its URL, files, limits and health.
use super::lookup::Plan;
use crate::{source_error::SourceError, source_health::SourceHealth, source_limits::SourceLimits};
use larder_base::{buffers::Buffers, tls::ClientTls};
use larder_config::{PostgresTlsMode, PostgresUrl, RedisAddress, Secret, read_short_file};
use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Maximum size of a password file.
const LONGEST_PASSWORD: u64 = 64 * 1024;

/// The settings and shared state of the connections of all cores to one database.
pub(super) struct PostgresSettings {
    pub(super) url: PostgresUrl,
    pub(super) limits: SourceLimits,
    pub(super) health: Arc<SourceHealth>,
    pub(super) buffers: Arc<Buffers>,
    /// For each address of the URL; `None`: TLS is not spoken there.
    pub(super) tls: Vec<Option<ClientTls>>,
    /// `PGPASSWORD`, which counts if the URL has neither a password nor a file of it.
    password_of_environment: Option<Secret>,
    /// What is asked for; not set until the database has checked it.
    pub(super) plan: OnceLock<Arc<Plan>>,
}

impl PostgresSettings {
    /// Reads the files that the URL names.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub(super) fn new(
        url: &PostgresUrl,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<PostgresSettings, String> {
        let tls = url.addresses.iter().map(|address| match address {
            RedisAddress::Tcp { host, .. } if url.tls_mode != PostgresTlsMode::Disable => {
                ClientTls::new(&url.tls, host, &[]).map(Some)
            }
            RedisAddress::Tcp { .. } | RedisAddress::Unix(_) => Ok(None),
        });
        let password = std::env::var("PGPASSWORD").ok().filter(|password| !password.is_empty());
        let settings = PostgresSettings {
            tls: tls.collect::<Result<_, String>>()?,
            url: url.clone(),
            limits,
            health: Arc::new(health),
            buffers,
            password_of_environment: password.map(Secret::from),
            plan: OnceLock::new(),
        };
        settings.read_password()?;
        Ok(settings)
    }

    /// The password of the URL, of its file, which is read now, or of the environment.
    ///
    /// # Errors
    /// The file cannot be read; it is named.
    fn read_password(&self) -> Result<Option<Secret>, String> {
        let Some(file) = &self.url.password_file else {
            return Ok(self.url.password.clone().or_else(|| self.password_of_environment.clone()));
        };
        let named = |why: &dyn fmt::Display| format!("password-file {}: {why}", file.display());
        let bytes = read_short_file(file, LONGEST_PASSWORD).map_err(|error| named(&error))?;
        let bytes = bytes.ok_or_else(|| named(&"is longer than 64 KiB"))?;
        let text = String::from_utf8(bytes).map_err(|_| named(&"is not UTF-8"))?;
        Ok(Some(Secret::from(text.trim_end_matches(['\r', '\n']).to_owned())))
    }

    /// The password for a new connection. The file may be on a slow disk, and this thread serves
    /// clients, so another thread reads it.
    ///
    /// # Errors
    /// The file cannot be read; it is named.
    pub(super) async fn password(self: &Arc<Self>) -> Result<Option<Secret>, String> {
        if self.url.password_file.is_none() {
            return self.read_password();
        }
        let settings = self.clone();
        let read = tokio::task::spawn_blocking(move || settings.read_password());
        read.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// After this many milliseconds the database ends a statement: before the fetch ends, so that the
    /// connection is of use again.
    pub(super) fn statement_timeout(&self) -> u128 {
        (self.limits.timeout.as_millis() * 9 / 10).max(1)
    }

    /// How long one attempt to connect may take.
    pub(super) fn connect_timeout(&self) -> Duration {
        self.url.options.connect_timeout.unwrap_or(self.limits.timeout).min(self.limits.timeout)
    }

    /// The error of a database that will not answer this key however often it is asked.
    pub(super) fn refused(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Refused(format!("ERR postgres://{}: {reason}", self.url.origin()).into())
    }
    /// The error of a database that gave no answer.
    pub(super) fn unavailable(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Unavailable(format!("postgres://{}: {reason}", self.url.origin()).into())
    }
}
