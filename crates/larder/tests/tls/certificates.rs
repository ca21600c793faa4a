//! Authorities, certificates and keys of the tests' own.
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ServerConfig,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// An authority, with a directory for everything that it issues.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// Where a certificate and its key are.
#[derive(Debug, Clone)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { dir, issuer: Issuer::new(params, key) }
    }
    /// Its own certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
    /// Issues a certificate for these hosts; one that is there under this name is replaced.
    pub fn issue(&self, name: &str, hosts: &[&str]) -> Files {
        self.issue_for(name, hosts, -3600, 365 * 86_400)
    }
    /// The same for a time, seconds from now.
    pub fn issue_for(&self, name: &str, hosts: &[&str], begins: i64, ends: i64) -> Files {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap();
        let at = |seconds: i64| {
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now + seconds).unwrap())
        };
        (params.not_before, params.not_after) = (at(begins), at(ends));
        let key = KeyPair::generate().unwrap();
        let files = Files { cert: self.at(name, "crt"), key: self.at(name, "key") };
        fs::write(&files.cert, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&files.key, key.serialize_pem()).unwrap();
        files
    }
    fn at(&self, name: &str, kind: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.{kind}"))
    }
}

impl Files {
    /// A server of the test's own with this certificate.
    pub fn server(&self) -> Arc<ServerConfig> {
        let certificate = CertificateDer::from_pem_file(&self.cert).unwrap();
        let key = PrivateKeyDer::from_pem_file(&self.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        Arc::new(config.with_single_cert(vec![certificate], key).unwrap())
    }
    /// `--tls-cert=… --tls-key=…`
    pub fn flags(&self) -> [String; 2] {
        [format!("--tls-cert={}", self.cert.display()), format!("--tls-key={}", self.key.display())]
    }
}

/// A path in an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
