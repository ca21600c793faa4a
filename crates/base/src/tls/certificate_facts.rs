//! What Larder reads out of a certificate: the hosts that it is for, and its lifetime.
use larder_config::TlsClientUser;
use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use x509_cert::{
    Certificate,
    der::Decode,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

/// Warnings begin so long before a certificate expires, or with the last third of its life if that
/// is later.
const WARNED_BEFORE: Duration = Duration::from_secs(14 * 86_400);

/// What Larder reads out of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CertificateFacts {
    pub(super) file: PathBuf,
    /// In lower case. One that begins with `*.` is for every host one label below.
    pub(super) hosts: Vec<String>,
    pub(super) begins: SystemTime,
    pub(super) ends: SystemTime,
}

/// How far a certificate is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CertificateAge {
    NotYetValid,
    Valid,
    /// It has so long left.
    EndsSoon(Duration),
    Expired,
}

/// The name of the user in a client's certificate. `None`: it has no such name, or no setting asks
/// for one.
pub(super) fn user_in(der: &[u8], which: TlsClientUser) -> Option<String> {
    if which == TlsClientUser::Off {
        return None;
    }
    let certificate = Certificate::from_der(der).ok()?;
    let fields = certificate.tbs_certificate();
    if which == TlsClientUser::CommonName {
        return Some(fields.subject().common_name().ok()??.value().into_owned());
    }
    let (_, names) = fields.get_extension::<SubjectAltName>().ok()??;
    names.0.into_iter().find_map(|name| match name {
        GeneralName::DnsName(name) | GeneralName::Rfc822Name(name) | GeneralName::UniformResourceIdentifier(name) => {
            Some(name.as_str().to_owned())
        }
        _ => None,
    })
}

impl CertificateFacts {
    /// Reads a certificate (RFC 5280). Only DNS names are read from its subject alternative names
    /// (section 4.2.1.6): a client names no address.
    ///
    /// # Errors
    /// A text that says what is wrong with it.
    pub(super) fn read(file: PathBuf, der: &[u8]) -> Result<CertificateFacts, String> {
        let certificate = Certificate::from_der(der).map_err(|error| format!("not a certificate: {error}"))?;
        let fields = certificate.tbs_certificate();
        let names = fields.get_extension::<SubjectAltName>().map_err(|error| format!("its names: {error}"))?;
        let hosts = names.into_iter().flat_map(|(_, names)| names.0).filter_map(|name| match name {
            GeneralName::DnsName(host) => Some(host.as_str().to_ascii_lowercase()),
            _ => None,
        });
        let validity = fields.validity();
        Ok(CertificateFacts {
            file,
            hosts: hosts.collect(),
            begins: validity.not_before.to_system_time(),
            ends: validity.not_after.to_system_time(),
        })
    }

    pub(super) fn age(&self, now: SystemTime) -> CertificateAge {
        let Ok(left) = self.ends.duration_since(now) else { return CertificateAge::Expired };
        if now < self.begins {
            return CertificateAge::NotYetValid;
        }
        let life = self.ends.duration_since(self.begins).unwrap_or_default();
        match left <= WARNED_BEFORE.min(life / 3) {
            true => CertificateAge::EndsSoon(left),
            false => CertificateAge::Valid,
        }
    }

    /// The end of its life, seconds since the Unix epoch.
    pub(super) fn ends_at(&self) -> u64 {
        self.ends.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
    }
}
