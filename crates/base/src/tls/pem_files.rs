//! Certificates and keys from PEM files. An error names the file.
use std::path::Path;
use tokio_rustls::rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

/// The certificates of a file, at least one.
///
/// # Errors
/// A text that names the file.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| at(file, error))?;
    if found.is_empty() {
        return Err(at(file, "no certificate in it (a PEM file has `-----BEGIN CERTIFICATE-----`)"));
    }
    Ok(found)
}

/// The private key of a file.
///
/// # Errors
/// A text that names the file.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| at(file, error))
}

/// Adds the authorities of a file.
///
/// # Errors
/// A text that names the file.
pub(super) fn add_roots(roots: &mut RootCertStore, file: &Path) -> Result<(), String> {
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| at(file, error))?;
    }
    Ok(())
}

pub(super) fn at(file: &Path, error: impl std::fmt::Display) -> String {
    format!("TLS: {}: {error}", file.display())
}
