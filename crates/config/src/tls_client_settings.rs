//! What a client of TLS trusts and shows. In the URL of a source:
//! `ca=FILE&cert=FILE&key=FILE&insecure=true`.
use super::url_parts::RESERVED_IN_PATH;
use percent_encoding::utf8_percent_encode;
use std::path::PathBuf;

/// What a client of TLS trusts and shows:
/// `rediss://host:port/db?ca=FILE&cert=FILE&key=FILE&insecure=true`, or `https://host/{key}#ca=FILE&…`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsClientSettings {
    /// Certificates of the authorities to trust, PEM; without it those that Mozilla trusts.
    pub ca: Option<PathBuf>,
    /// Client certificate, PEM; goes with `key`.
    pub cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// Accept any certificate. For tests only.
    pub insecure: bool,
    /// Accept a certificate of another host, from an authority that is trusted. No parameter sets
    /// it: PostgreSQL has `sslmode=verify-ca`.
    pub any_name: bool,
}

impl TlsClientSettings {
    /// Sets one parameter; false if it is none of TLS's.
    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let file = || (!value.is_empty()).then(|| PathBuf::from(value));
        match name {
            "ca" => self.ca = file(),
            "cert" => self.cert = file(),
            "key" => self.key = file(),
            "insecure" => {
                self.insecure = match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err(format!("insecure is true or false, not `{value}`")),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks the parameters against each other.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.cert.is_some() == self.key.is_some() {
            true => Ok(()),
            false => Err("cert and key go together".to_string()),
        }
    }

    /// The parameters that are set, as they are written in a URL.
    pub(super) fn parameters(&self) -> impl Iterator<Item = String> {
        let files = [("ca", &self.ca), ("cert", &self.cert), ("key", &self.key)].into_iter();
        let files = files.filter_map(|(name, file)| {
            let file = file.as_ref()?.to_string_lossy();
            Some(format!("{name}={}", utf8_percent_encode(&file, RESERVED_IN_PATH)))
        });
        files.chain(self.insecure.then(|| "insecure=true".to_string()))
    }
}
