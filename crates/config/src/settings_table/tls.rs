//! Settings of the section “TLS”.
use super::{
    setting_section::SettingSection,
    setting_spec::{Fallback::Is, SettingSpec},
    value_kind::ValueKind,
};
use crate::tls_settings::{TlsClientAuth, TlsClientUser};

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Tls);

pub(super) const TLS: &[SettingSpec] = &[
    SettingSpec {
        name: "https",
        kind: ValueKind::Address,
        optional: true,
        many: true,
        example: ":8443",
        help: "Address for HTTP over TLS; clients choose HTTP/2 or HTTP/1.1 in the handshake. See docs/tls.md.",
        ..ROW
    },
    SettingSpec {
        name: "rediss",
        kind: ValueKind::Address,
        optional: true,
        many: true,
        per_listener: true,
        example: ":6390",
        help: "Address for the Redis protocol over TLS.",
        ..ROW
    },
    SettingSpec {
        name: "memcacheds",
        kind: ValueKind::Address,
        optional: true,
        many: true,
        example: ":11212",
        help: "Address for memcached's text protocol over TLS.",
        ..ROW
    },
    SettingSpec {
        name: "admin-tls",
        kind: ValueKind::Switch,
        default: Is("false"),
        example: "true",
        help: "Serves the admin listener over TLS only.",
        ..ROW
    },
    SettingSpec {
        name: "tls-cert",
        kind: ValueKind::Path,
        optional: true,
        many: true,
        example: "/etc/larder/tls.crt",
        help: "Certificate of the TLS listeners, PEM, followed by its intermediate certificates. \
               With several, Larder chooses by the host name of the client's handshake (SNI), \
               otherwise the first. Changed files are read again within a second or two.",
        ..ROW
    },
    SettingSpec {
        name: "tls-key",
        kind: ValueKind::Path,
        optional: true,
        many: true,
        example: "/etc/larder/tls.key",
        help: "Private key of the certificate, PEM. Give one per `tls-cert`, in the same order.",
        ..ROW
    },
    SettingSpec {
        name: "tls-client-ca",
        kind: ValueKind::Path,
        optional: true,
        example: "/etc/larder/clients-ca.crt",
        help: "Certificate authorities for clients' certificates, PEM. Clients of TLS listeners \
               then need a certificate that one of them issued (`tls-client-auth`).",
        ..ROW
    },
    SettingSpec {
        name: "tls-client-auth",
        kind: ValueKind::Choice(TlsClientAuth::NAMES),
        default: Is("required"),
        example: "optional",
        help: "Whether a client must show a certificate of `tls-client-ca`. `optional`: it may \
               connect without one, but one that it shows must be valid.",
        ..ROW
    },
    SettingSpec {
        name: "tls-client-user",
        kind: ValueKind::Choice(TlsClientUser::NAMES),
        default: Is("off"),
        example: "cn",
        help: "The field of a client's certificate that names its user (docs/users.md): `cn`, the \
               common name of the subject, or `san`, the first alternative name (DNS name, e-mail \
               address or URI). A client whose certificate names no user logs in like others.",
        ..ROW
    },
];
