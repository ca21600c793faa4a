//! Settings of the section “TLS”.
use super::{
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Is, Off},
        SettingSpec,
    },
    value_kind::{
        LISTENER,
        ValueKind::{Choice, Path, Switch},
    },
};
use crate::tls_settings::{TlsClientAuth, TlsClientUser};

settings! { SettingSection::Tls;
    /// Address for HTTP over TLS; clients choose HTTP/2 or HTTP/1.1 in the handshake. See docs/tls.md.
    "https": LISTENER => Off, example(":8443"), optional, many;

    /// Address for the Redis protocol over TLS.
    "rediss": LISTENER => Off, example(":6390"), optional, many, per_listener;

    /// Address for memcached's text protocol over TLS.
    "memcacheds": LISTENER => Off, example(":11212"), optional, many;

    /// Serves the admin listener over TLS only.
    "admin-tls": Switch => Is("false"), example("true");

    /// Certificate of the TLS listeners, PEM, followed by its intermediate certificates. With several,
    /// Larder chooses by the host name of the client's handshake (SNI), otherwise the first. Changed
    /// files are read again within a second or two.
    "tls-cert": Path => Off, example("/etc/larder/tls.crt"), optional, many;

    /// Private key of the certificate, PEM. Give one per `tls-cert`, in the same order.
    "tls-key": Path => Off, example("/etc/larder/tls.key"), optional, many;

    /// Certificate authorities for clients' certificates, PEM. Clients of TLS listeners then need a
    /// certificate that one of them issued (`tls-client-auth`).
    "tls-client-ca": Path => Off, example("/etc/larder/clients-ca.crt"), optional;

    /// Whether a client must show a certificate of `tls-client-ca`. `optional`: it may connect without
    /// one, but one that it shows must be valid.
    "tls-client-auth": Choice(TlsClientAuth::NAMES) => Is("required"), example("optional");

    /// The field of a client's certificate that names its user (docs/users.md): `cn`, the common name
    /// of the subject, or `san`, the first alternative name (DNS name, e-mail address or URI). A client
    /// whose certificate names no user logs in like others.
    "tls-client-user": Choice(TlsClientUser::NAMES) => Is("off"), example("cn");
}
