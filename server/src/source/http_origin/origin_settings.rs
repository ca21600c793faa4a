//! What all cores share of one origin: its URL, TLS, limits and health.
use crate::{
    buffers::Buffers,
    config::OriginUrl,
    source::{
        source_error::SourceError,
        source_health::SourceHealth,
        source_limits::SourceLimits,
        upstream_tls::{self, Tls},
    },
};
use http::HeaderValue;
use std::{fmt, sync::Arc};

/// The settings and shared state of the connections of all cores to one origin.
pub(super) struct OriginSettings {
    pub(super) url: OriginUrl,
    /// Scheme, host and port, for errors and logs.
    pub(super) origin: String,
    /// The header `Host`.
    pub(super) host: HeaderValue,
    pub(super) tls: Option<Tls>,
    pub(super) limits: SourceLimits,
    pub(super) health: Arc<SourceHealth>,
    pub(super) buffers: Arc<Buffers>,
}

impl OriginSettings {
    /// Reads the files that the URL names.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub(super) fn new(url: &OriginUrl, limits: SourceLimits, buffers: Arc<Buffers>) -> Result<OriginSettings, String> {
        let host = url.authority();
        Ok(OriginSettings {
            origin: url.origin(),
            host: HeaderValue::from_str(&host).map_err(|_| format!("`{host}` cannot be the name of a host"))?,
            tls: url.tls.as_ref().map(|tls| upstream_tls::build(tls, &url.host)).transpose()?,
            url: url.clone(),
            limits,
            health: Arc::default(),
            buffers,
        })
    }
    /// The error of an origin that gave no answer that can be used.
    pub(super) fn unavailable(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Unavailable(format!("{}: {reason}", self.origin).into())
    }
    /// The error of an origin, or of Larder, that will not answer this key however often it is asked.
    pub(super) fn refused(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Refused(format!("ERR {}: {reason}", self.origin).into())
    }
}
