//! TLS on the listeners: certificates, keys, and what is asked of clients.
use std::path::PathBuf;

/// TLS on the listeners.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The first is for clients that name no host, or one that no certificate has.
    pub certificates: Vec<CertificateFiles>,
    /// Certificates of the authorities of clients, PEM. `None`: clients are not asked for a
    /// certificate.
    pub client_ca: Option<PathBuf>,
    pub client_auth: TlsClientAuth,
    pub client_user: TlsClientUser,
}

impl TlsSettings {
    /// Every client of a TLS listener shows a certificate.
    pub fn requires_certificates(&self) -> bool {
        self.client_ca.is_some() && self.client_auth == TlsClientAuth::Required
    }
}

/// The files of one certificate, PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of the authorities between it and the root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Whether a client must show a certificate of `tls-client-ca`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsClientAuth {
    /// It must.
    #[default]
    Required,
    /// It need not; one that it shows must be right.
    Optional,
}
impl TlsClientAuth {
    pub(super) const NAMES: &'static [&'static str] = &["required", "optional"];
    pub(super) fn from_name(name: &str) -> TlsClientAuth {
        if name == "optional" { TlsClientAuth::Optional } else { TlsClientAuth::Required }
    }
}

/// What of a client's certificate names its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsClientUser {
    /// Nothing.
    #[default]
    Off,
    /// The common name of the subject.
    CommonName,
    /// The first alternative name: a DNS name, e-mail address or URI.
    AlternativeName,
}
impl TlsClientUser {
    pub(super) const NAMES: &'static [&'static str] = &["off", "cn", "san"];
    pub(super) fn from_name(name: &str) -> TlsClientUser {
        match name {
            "cn" => TlsClientUser::CommonName,
            "san" => TlsClientUser::AlternativeName,
            _ => TlsClientUser::Off,
        }
    }
}

/// TLS between the nodes that share their caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerTls {
    /// Certificates of the nodes' authorities, PEM.
    pub ca: PathBuf,
    /// The name that every node's certificate has; `None`: the host of the node's address.
    pub name: Option<String>,
}
