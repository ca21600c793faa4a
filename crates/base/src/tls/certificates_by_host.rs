//! Which certificate a client gets: by the host that it names (SNI, RFC 6066 section 3), and by
//! what it can verify.
use std::{collections::HashMap, sync::Arc};
use tokio_rustls::rustls::{
    SignatureScheme,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

#[derive(Debug, Default)]
pub(super) struct CertificatesByHost {
    /// In the order of the settings. The first is for a client that names no host, or an unknown
    /// one.
    all: Vec<Arc<CertifiedKey>>,
    /// By host in lower case; `*.example.com` is every host one label below.
    hosts: HashMap<String, Vec<Arc<CertifiedKey>>>,
}

impl CertificatesByHost {
    pub(super) fn add(&mut self, certificate: Arc<CertifiedKey>, hosts: &[String]) {
        for host in hosts {
            self.hosts.entry(host.clone()).or_default().push(certificate.clone());
        }
        self.all.push(certificate);
    }

    /// The one of a client that names no host.
    pub(super) fn first(&self) -> Option<&Arc<CertifiedKey>> {
        self.all.first()
    }

    /// The certificate for a host, of a key that the client can verify.
    fn find(&self, host: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Arc<CertifiedKey>> {
        let exact = || self.hosts.get(&host?.to_ascii_lowercase());
        let wildcard = || self.hosts.get(&format!("*.{}", host?.split_once('.')?.1.to_ascii_lowercase()));
        let named = exact().or_else(wildcard).into_iter().flatten();
        let can_verify = |certificate: &&Arc<CertifiedKey>| certificate.key.choose_scheme(schemes).is_some();
        named.chain(&self.all).find(can_verify)
    }
}

impl ResolvesServerCert for CertificatesByHost {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.find(hello.server_name(), hello.signature_schemes()).cloned()
    }
}
