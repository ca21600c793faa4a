//! TLS to a source (`rediss://`, `https://`): which roots to trust, which certificate to show.
use crate::config::TlsUrl;
use std::{path::Path, sync::Arc};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    },
};

/// The TLS configuration of a source. Built once at start, so that a missing file stops the start.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) connector: TlsConnector,
    pub(super) name: ServerName<'static>,
}

impl Tls {
    /// The same configuration for another host.
    ///
    /// # Errors
    /// A text that names the host.
    pub(super) fn towards(&self, host: &str) -> Result<Tls, String> {
        Ok(Tls { connector: self.connector.clone(), name: name(host)? })
    }
}

fn name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|_| format!("TLS: `{host}` is neither a host name nor an address"))
}

/// Reads the files that the URL names. `protocols` are offered to the server, the preferred one first (ALPN).
///
/// # Errors
/// A text that names the file or the host at fault.
pub(super) fn build(url: &TlsUrl, host: &str, protocols: &[&[u8]]) -> Result<Tls, String> {
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    let trusting = if url.insecure {
        versions.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    } else {
        versions.with_root_certificates(roots(url.ca.as_deref())?)
    };
    let mut config = match (&url.cert, &url.key) {
        (Some(cert), Some(key)) => {
            let private = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, error))?;
            trusting.with_client_auth_cert(certificates(cert)?, private).map_err(|error| at(cert, error))?
        }
        (None, None) => trusting.with_no_client_auth(),
        (Some(_), None) => return Err("TLS: `cert` needs `key`, its private key".to_owned()),
        (None, Some(_)) => return Err("TLS: `key` needs `cert`, its certificate".to_owned()),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Tls { connector: TlsConnector::from(Arc::new(config)), name: name(host)? })
}

/// The authorities in `ca`, or those of the Mozilla list that is compiled in.
fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| at(file, error))?;
            }
        }
    }
    Ok(roots)
}

/// The certificates of a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| at(file, error))?;
    if found.is_empty() {
        return Err(at(file, "no certificate in it"));
    }
    Ok(found)
}

fn at(file: &Path, error: impl std::fmt::Display) -> String {
    format!("TLS: {}: {error}", file.display())
}

/// `insecure=true`: any certificate will do, though its holder must still prove to have its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);
impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
