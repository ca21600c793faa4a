//! TLS of the listeners: the current configurations, and their exchange when files change.
use super::{
    certificate_facts::{CertificateAge, CertificateFacts, user_in},
    client_tls::ClientTls,
    file_stamps::FileStamps,
    server_config::{LoadedFiles, NodeProtocol, load, tickets},
};
use crate::telemetry::{CertificateSnapshot, TlsSnapshot};
use arc_swap::ArcSwap;
use larder_config::{PeerTls, Settings, TlsSettings};
use larder_units::show_duration;
use parking_lot::Mutex;
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio_rustls::rustls::{
    ClientConfig, ServerConfig,
    pki_types::{CertificateDer, UnixTime},
    server::{ProducesTickets, danger::ClientCertVerifier},
};

/// How often the files are looked at: a new certificate is in use soon, and a look takes microseconds.
const LOOK_AT_FILES: Duration = Duration::from_secs(1);
/// How often the ages of certificates are looked at.
const LOOK_AT_AGES: Duration = Duration::from_secs(3600);
/// How often a warning is repeated.
const REPEAT: Duration = Duration::from_secs(86_400);

/// What is spoken inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsService {
    /// HTTP/2 or HTTP/1.1, as the client chooses (ALPN).
    Http,
    /// The Redis protocol. A client's ALPN is not looked at.
    Redis,
}
impl TlsService {
    const ALL: [TlsService; 2] = [TlsService::Http, TlsService::Redis];
    fn protocols(self) -> &'static [&'static [u8]] {
        match self {
            TlsService::Http => &[b"h2", b"http/1.1"],
            TlsService::Redis => &[],
        }
    }
}

/// TLS of the listeners, shared by all threads.
pub struct ServerTls {
    settings: TlsSettings,
    peers: Option<PeerTls>,
    current: ArcSwap<Current>,
    watch: Mutex<Watch>,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
}

/// What new connections get.
struct Current {
    /// In the order of [`TlsService::ALL`]. Each has tickets of its own: a session of one service
    /// is not resumed at the other.
    services: [Service; 2],
    facts: Vec<CertificateFacts>,
    nodes: Option<Arc<dyn ClientCertVerifier>>,
    to_nodes: Option<[Arc<ClientConfig>; 2]>,
    authorities: Vec<CertificateDer<'static>>,
}

struct Service {
    config: Arc<ServerConfig>,
    tickets: Arc<dyn ProducesTickets>,
}

/// The control thread's notes.
struct Watch {
    /// As the files were when they were read.
    stamps: FileStamps,
    looked: Instant,
    looked_at_ages: Option<Instant>,
    /// Why the files could not be used, so that it is logged once.
    refused: Option<String>,
    /// Of each certificate, what was said last, and when.
    said: Vec<(CertificateAge, Instant)>,
}

impl ServerTls {
    /// Reads the files; `None`: no listener needs TLS.
    ///
    /// # Errors
    /// A text that names the file and its setting.
    pub fn new(settings: &Settings) -> Result<Option<ServerTls>, String> {
        let is_used = !settings.https.is_empty()
            || !settings.rediss.is_empty()
            || !settings.memcacheds.is_empty()
            || settings.admin_tls
            || settings.listeners.iter().any(|listener| !listener.rediss.is_empty());
        if !is_used {
            return Ok(None);
        }
        let (peers, settings) = (settings.peers.tls.clone(), settings.tls.clone());
        // Before they are read: what changes meanwhile is read again.
        let stamps = FileStamps::of(files(&settings, peers.as_ref()));
        let current = Current::new(load(&settings, peers.as_ref())?, None)?;
        let watch = Watch { stamps, looked: Instant::now(), looked_at_ages: None, refused: None, said: Vec::new() };
        Ok(Some(ServerTls {
            settings,
            peers,
            current: ArcSwap::from_pointee(current),
            watch: Mutex::new(watch),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
        }))
    }

    /// What a new connection of a service gets.
    pub fn config(&self, service: TlsService) -> Arc<ServerConfig> {
        self.current.load().services[service as usize].config.clone()
    }

    /// How a node at this host is reached; `None`: without TLS.
    ///
    /// # Errors
    /// A text that names the host.
    pub fn towards_node(&self, host: &str, protocol: NodeProtocol) -> Result<Option<ClientTls>, String> {
        let current = self.current.load();
        let (Some(peers), Some(configs)) = (&self.peers, &current.to_nodes) else { return Ok(None) };
        let name = peers.name.as_deref().unwrap_or(host);
        ClientTls::of(configs[protocol as usize].clone(), name).map(Some)
    }

    /// Whether the chain of certificates that a client has shown is a node's (`peer-tls-ca`).
    pub(super) fn is_node(&self, shown: &[CertificateDer<'_>]) -> bool {
        let current = self.current.load();
        let (Some(nodes), Some((own, others))) = (&current.nodes, shown.split_first()) else { return false };
        nodes.verify_client_cert(own, others, UnixTime::now()).is_ok()
    }

    /// The name of the user in the certificate that a client has shown.
    pub(super) fn user_in(&self, shown: &[CertificateDer<'_>]) -> Option<Box<str>> {
        let user = user_in(shown.first()?, self.settings.client_user);
        user.map(String::into_boxed_str)
    }

    /// The numbers of the files.
    pub fn snapshot(&self) -> TlsSnapshot {
        let facts =
            |of: &CertificateFacts| CertificateSnapshot { file: of.file.display().to_string(), ends: of.ends_at() };
        TlsSnapshot {
            certificates: self.current.load().facts.iter().map(facts).collect(),
            reloads: self.reloads.load(Relaxed),
            failed_reloads: self.failed_reloads.load(Relaxed),
        }
    }

    /// Reads the files again if they have changed, and warns of certificates that end. For the
    /// control thread, again and again.
    pub fn tick(&self) {
        let now = Instant::now();
        let mut watch = self.watch.lock();
        if now.duration_since(watch.looked) >= LOOK_AT_FILES {
            watch.looked = now;
            let stamps = watch.stamps.now();
            if stamps != watch.stamps {
                self.read_again(&mut watch, stamps);
            }
        }
        if watch.looked_at_ages.is_none_or(|at| now.duration_since(at) >= LOOK_AT_AGES) {
            watch.looked_at_ages = Some(now);
            self.warn(&mut watch, now);
        }
    }

    /// Reads the files again, changed or not.
    pub fn reload(&self) {
        let mut watch = self.watch.lock();
        let stamps = watch.stamps.now();
        watch.refused = None;
        self.read_again(&mut watch, stamps);
    }

    /// What cannot be used leaves everything as it was, and is tried again: a key may be written
    /// after its certificate.
    fn read_again(&self, watch: &mut Watch, stamps: FileStamps) {
        let before = self.current.load();
        let loaded = load(&self.settings, self.peers.as_ref()).and_then(|loaded| Current::new(loaded, Some(&before)));
        match loaded {
            Ok(current) => {
                for of in &current.facts {
                    let left = of.ends.duration_since(SystemTime::now()).unwrap_or_default();
                    tracing::info!(file = %of.file.display(), expires_in = whole_hours(left), "TLS: certificate read again");
                }
                self.current.store(Arc::new(current));
                self.reloads.fetch_add(1, Relaxed);
                (watch.stamps, watch.refused, watch.looked_at_ages) = (stamps, None, None);
                watch.said.clear();
            }
            Err(error) => {
                if watch.refused.as_ref() != Some(&error) {
                    tracing::error!(error, "TLS: changed files cannot be used; those read before stay in use");
                    self.failed_reloads.fetch_add(1, Relaxed);
                }
                watch.refused = Some(error);
            }
        }
    }

    fn warn(&self, watch: &mut Watch, now: Instant) {
        let current = self.current.load();
        let unsaid = (CertificateAge::Valid, now);
        watch.said.resize(current.facts.len(), unsaid);
        for (of, said) in current.facts.iter().zip(&mut watch.said) {
            let age = of.age(SystemTime::now());
            let is_new = std::mem::discriminant(&age) != std::mem::discriminant(&said.0);
            if !is_new && now.duration_since(said.1) < REPEAT {
                continue;
            }
            *said = (age, now);
            let file = of.file.display();
            match age {
                CertificateAge::Valid => {}
                CertificateAge::NotYetValid => {
                    tracing::error!(%file, "TLS: certificate is not valid yet: clients will refuse it")
                }
                CertificateAge::EndsSoon(left) => {
                    tracing::warn!(%file, expires_in = whole_hours(left), "TLS: certificate expires soon");
                }
                CertificateAge::Expired => tracing::error!(%file, "TLS: certificate has expired: clients refuse it"),
            }
        }
    }
}

impl Current {
    /// Sessions that began under `before` can be resumed if clients are still checked against the
    /// same authorities.
    fn new(loaded: LoadedFiles, before: Option<&Current>) -> Result<Current, String> {
        let kept = before.filter(|before| before.authorities == loaded.authorities);
        let service = |of: TlsService| {
            let tickets = match kept {
                Some(kept) => kept.services[of as usize].tickets.clone(),
                None => tickets()?,
            };
            let config = Arc::new(loaded.server_config(of.protocols(), tickets.clone())?);
            Ok::<_, String>(Service { config, tickets })
        };
        let [http, redis] = TlsService::ALL.map(service);
        let LoadedFiles { facts, nodes, to_nodes, authorities, .. } = loaded;
        Ok(Current { services: [http?, redis?], facts, nodes, to_nodes, authorities })
    }
}

fn files<'f>(settings: &'f TlsSettings, peers: Option<&'f PeerTls>) -> impl Iterator<Item = &'f Path> {
    let own = settings.certificates.iter().flat_map(|of| [of.cert.as_path(), of.key.as_path()]);
    own.chain(settings.client_ca.as_deref()).chain(peers.map(|peers| peers.ca.as_path()))
}

fn whole_hours(left: Duration) -> String {
    show_duration(Duration::from_secs(left.as_secs() / 3600 * 3600))
}
