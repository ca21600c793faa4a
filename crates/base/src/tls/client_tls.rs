//! TLS to a server (`rediss://`, `https://`, peers, a primary): which roots to trust, which certificate to show.
use super::pem_files::{add_roots, at, certificates, private_key};
use larder_config::TlsClientSettings;
use std::{io, path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        CertificateError, ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
        WantsVerifier,
        client::{
            WebPkiServerVerifier,
            danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        },
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{CertificateDer, ServerName, UnixTime},
        sign::{CertifiedKey, SingleCertAndKey},
    },
};

/// How a client makes TLS connections to one host. Built once at start, so that a missing file
/// stops the start.
#[derive(Clone)]
pub struct ClientTls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl ClientTls {
    /// Reads the files. `host` is the name that the server's certificate must have. `protocols` are
    /// offered to the server, the preferred one first (ALPN).
    ///
    /// # Errors
    /// A text that names the file or the host at fault.
    pub fn new(settings: &TlsClientSettings, host: &str, protocols: &[&[u8]]) -> Result<ClientTls, String> {
        let config = Arc::new(config(settings, protocols)?);
        Ok(ClientTls { connector: TlsConnector::from(config), name: server_name(host)? })
    }

    /// With a configuration that is there.
    ///
    /// # Errors
    /// A text that names the host.
    pub(super) fn of(config: Arc<ClientConfig>, host: &str) -> Result<ClientTls, String> {
        Ok(ClientTls { connector: TlsConnector::from(config), name: server_name(host)? })
    }

    /// These settings for another host.
    ///
    /// # Errors
    /// A text that names the host.
    pub fn towards(&self, host: &str) -> Result<ClientTls, String> {
        Ok(ClientTls { connector: self.connector.clone(), name: server_name(host)? })
    }

    /// The handshake.
    ///
    /// # Errors
    /// Those of the connection; [`io::ErrorKind::InvalidData`]: the server's certificate is not
    /// trusted, or it speaks no TLS.
    pub async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await.map_err(|error| {
            // Bytes that are no TLS record: an error reply of Redis, HTTP.
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
            match cause {
                Some(Error::InvalidMessage(_)) => {
                    io::Error::new(io::ErrorKind::InvalidData, "the server does not speak TLS on this port")
                }
                // Some servers close the connection without a word.
                _ if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
                    io::Error::new(error.kind(), format!("{error}; does the server speak TLS on this port?"))
                }
                _ => error,
            }
        })
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|_| format!("TLS: `{host}` is neither a host name nor an address"))
}

/// A node's, towards other nodes: it trusts the authorities in a file, and shows its own
/// certificate.
///
/// # Errors
/// A text that names the file.
pub(super) fn node_config(ca: &Path, own: &Arc<CertifiedKey>, protocol: &[u8]) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    add_roots(&mut roots, ca)?;
    let shown = SingleCertAndKey::from(own.clone());
    let builder = versions(&Arc::new(ring::default_provider()))?.with_root_certificates(roots);
    let mut config = builder.with_client_cert_resolver(Arc::new(shown));
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

fn versions(provider: &Arc<CryptoProvider>) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))
}

fn config(settings: &TlsClientSettings, protocols: &[&[u8]]) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let versions = versions(&provider)?;
    let unnamed = |authority| Arc::new(AnyName { authority, provider: provider.clone() });
    let trusting = if settings.insecure {
        versions.dangerous().with_custom_certificate_verifier(unnamed(None))
    } else {
        let mut roots = RootCertStore::empty();
        match &settings.ca {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(file) => add_roots(&mut roots, file)?,
        }
        match settings.any_name {
            false => versions.with_root_certificates(roots),
            true => {
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
                let verifier = verifier.map_err(|error| format!("TLS: {error}"))?;
                versions.dangerous().with_custom_certificate_verifier(unnamed(Some(verifier)))
            }
        }
    };
    let mut config = match (&settings.cert, &settings.key) {
        (Some(cert), Some(key)) => {
            let shown = certificates(cert)?;
            trusting.with_client_auth_cert(shown, private_key(key)?).map_err(|error| at(cert, error))?
        }
        (None, None) => trusting.with_no_client_auth(),
        (Some(_), None) => return Err("TLS: `cert` needs `key`, its private key".to_owned()),
        (None, Some(_)) => return Err("TLS: `key` needs `cert`, its certificate".to_owned()),
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

/// The certificate may be that of another host. Its holder must still prove to have its key.
#[derive(Debug)]
struct AnyName {
    /// `sslmode=verify-ca`: the certificate's authority is known. `None` (`insecure=true`): any
    /// certificate will do.
    authority: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}
impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is compared last, when the authority has been found.
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
