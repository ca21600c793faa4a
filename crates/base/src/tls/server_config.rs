//! From files to what the listeners show and ask of clients.
use super::{
    certificate_facts::CertificateFacts,
    certificates_by_host::CertificatesByHost,
    client_tls::node_config,
    pem_files::{add_roots, at, certificates, private_key},
};
use larder_config::{PeerTls, TlsSettings};
use std::{path::Path, sync::Arc};
use tokio_rustls::rustls::{
    CipherSuite, ClientConfig, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::CertificateDer,
    server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};

/// Everything that the files say.
pub(super) struct LoadedFiles {
    certificates: Arc<CertificatesByHost>,
    pub(super) facts: Vec<CertificateFacts>,
    /// `None`: clients are not asked for a certificate.
    clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Whether a certificate is a node's.
    pub(super) nodes: Option<Arc<dyn ClientCertVerifier>>,
    /// Towards other nodes, for each [`NodeProtocol`].
    pub(super) to_nodes: Option<[Arc<ClientConfig>; 2]>,
    /// The authorities of clients and nodes: a session that began under others is not resumed.
    pub(super) authorities: Vec<CertificateDer<'static>>,
}

/// What nodes speak to each other inside of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeProtocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}
impl NodeProtocol {
    const ALL: [NodeProtocol; 2] = [NodeProtocol::Http1, NodeProtocol::Http2];
    /// Its name in ALPN (RFC 7301 section 6).
    fn name(self) -> &'static [u8] {
        match self {
            NodeProtocol::Http1 => b"http/1.1",
            NodeProtocol::Http2 => b"h2",
        }
    }
}

/// Reads and checks all files.
///
/// # Errors
/// A text that names the file and its setting.
pub(super) fn load(settings: &TlsSettings, peers: Option<&PeerTls>) -> Result<LoadedFiles, String> {
    let provider = ring::default_provider();
    let mut by_host = CertificatesByHost::default();
    let mut facts = Vec::new();
    for files in &settings.certificates {
        let named = |setting: &'static str| move |error: String| with_setting(setting, error);
        let chain = certificates(&files.cert).map_err(named("tls-cert"))?;
        let fact = CertificateFacts::read(files.cert.clone(), &chain[0])
            .map_err(|error| with_setting("tls-cert", at(&files.cert, error)))?;
        let key = private_key(&files.key).map_err(named("tls-key"))?;
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| {
            let what = format!("it is not a key of the certificate in {}: {error}", files.cert.display());
            with_setting("tls-key", at(&files.key, what))
        })?;
        by_host.add(Arc::new(certified), &fact.hosts);
        facts.push(fact);
    }
    let mut authorities = Vec::new();
    let nodes = match peers {
        Some(peers) => Some(verifier(&[(&peers.ca, "peer-tls-ca")], true, &provider, &mut Vec::new())?),
        None => None,
    };
    let files: Vec<(&Path, &str)> = settings
        .client_ca
        .iter()
        .map(|file| (file.as_path(), "tls-client-ca"))
        .chain(peers.map(|peers| (peers.ca.as_path(), "peer-tls-ca")))
        .collect();
    // Who is asked for a node's certificate alone may be no node.
    let must_show = settings.requires_certificates();
    let clients = match files.is_empty() {
        true => None,
        false => Some(verifier(&files, must_show, &provider, &mut authorities)?),
    };
    let to_nodes = match (peers, by_host.first()) {
        (Some(peers), Some(own)) => {
            let config = |protocol: NodeProtocol| node_config(&peers.ca, own, protocol.name()).map(Arc::new);
            let [http1, http2] = NodeProtocol::ALL.map(config);
            let named = |error| with_setting("peer-tls-ca", error);
            Some([http1.map_err(named)?, http2.map_err(named)?])
        }
        _ => None,
    };
    Ok(LoadedFiles { certificates: Arc::new(by_host), facts, clients, nodes, to_nodes, authorities })
}

/// What checks clients' certificates.
fn verifier(
    files: &[(&Path, &'static str)],
    must_show: bool,
    provider: &CryptoProvider,
    authorities: &mut Vec<CertificateDer<'static>>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for (file, setting) in files {
        add_roots(&mut roots, file).map_err(|error| with_setting(setting, error))?;
        authorities.extend(certificates(file).map_err(|error| with_setting(setting, error))?);
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider.clone()));
    let builder = if must_show { builder } else { builder.allow_unauthenticated() };
    let (file, setting) = files[0];
    builder.build().map_err(|error| with_setting(setting, at(file, error)))
}

fn with_setting(setting: &str, error: String) -> String {
    format!("{error} (setting `{setting}`)")
}

impl LoadedFiles {
    /// The configuration of listeners that offer these protocols (ALPN), the preferred one first;
    /// none: any client is taken.
    ///
    /// # Errors
    /// A text of the library.
    pub(super) fn server_config(
        &self,
        protocols: &[&[u8]],
        tickets: Arc<dyn ProducesTickets>,
    ) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(Arc::new(preferring_aes_128()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        let builder = match &self.clients {
            Some(clients) => builder.with_client_cert_verifier(clients.clone()),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(self.certificates.clone());
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config.ticketer = tickets;
        // Tickets hold the sessions: workers share no table.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // Each connection brings another one, and clients keep one for each host.
        config.send_tls13_tickets = 1;
        config.ignore_client_order = true;
        Ok(config)
    }
}

/// ring, with the cipher suites of AES-128 first. Those of AES-256 come with SHA-384, for which
/// ring uses no instructions of the CPU: they make a handshake a tenth more expensive.
fn preferring_aes_128() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        !matches!(
            suite.suite(),
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    });
    provider
}

/// Encrypts session tickets with a key of this process, which it changes every six hours (RFC 5077,
/// RFC 8446 section 4.6.1).
///
/// # Errors
/// The system gave no random bytes.
pub(super) fn tickets() -> Result<Arc<dyn ProducesTickets>, String> {
    ring::Ticketer::new().map_err(|error| format!("TLS: {error}"))
}
