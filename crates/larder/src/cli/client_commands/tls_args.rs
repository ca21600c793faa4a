//! The client's TLS arguments: which authorities to trust, which certificate to show.
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use larder_config::TlsClientSettings;
use std::path::PathBuf;

/// `--cacert`, `--client-cert`, `--client-key`, `--insecure`
pub(super) fn args() -> [Arg; 4] {
    let file = |name: &'static str| Arg::new(name).long(name).value_name("FILE").value_parser(value_parser!(PathBuf));
    [
        file("cacert").help("File of certificate authorities to trust (PEM) [default: those that Mozilla trusts]"),
        file("client-cert").requires("client-key").help("Client certificate (PEM)"),
        file("client-key").requires("client-cert").help("Private key of the client certificate (PEM)"),
        Arg::new("insecure")
            .long("insecure")
            .action(ArgAction::SetTrue)
            .help("Accept any certificate of the server (for tests)"),
    ]
}

/// Adds what was given to the settings of a URL.
///
/// # Errors
/// The URL has no TLS, so the arguments would do nothing.
pub(super) fn apply(matches: &ArgMatches, tls: Option<&mut TlsClientSettings>) -> Result<(), String> {
    let file = |name| matches.get_one::<PathBuf>(name).cloned();
    let given = ["cacert", "client-cert", "client-key"].into_iter().find(|name| matches.contains_id(name));
    let given = given.or(matches.get_flag("insecure").then_some("insecure"));
    match (tls, given) {
        (Some(tls), _) => {
            tls.ca = file("cacert").or(tls.ca.take());
            if let (Some(cert), Some(key)) = (file("client-cert"), file("client-key")) {
                (tls.cert, tls.key) = (Some(cert), Some(key));
            }
            tls.insecure |= matches.get_flag("insecure");
            Ok(())
        }
        (None, Some(given)) => Err(format!("--{given} needs TLS: write https:// or rediss://")),
        (None, None) => Ok(()),
    }
}
