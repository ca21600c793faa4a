//! Settings of the section “Replication”.
use super::{
    quantities::KIB,
    setting_section::SettingSection,
    setting_spec::{Fallback::Is, SettingSpec},
    value_kind::ValueKind,
};
use crate::replication_settings::ReplicaWrites;

const ROW: SettingSpec = SettingSpec::in_section(SettingSection::Replication);

pub(super) const REPLICATION: &[SettingSpec] = &[
    SettingSpec {
        name: "replica-of",
        kind: ValueKind::Primary,
        optional: true,
        example: "redis://10.0.0.1:6380",
        help: "Makes this process a replica of the Larder at this address of the Redis protocol: it \
               copies the entries of all groups without a source, follows their changes, and \
               refuses writes. `REPLICAOF` changes it at run time.",
        ..ROW
    },
    SettingSpec {
        name: "replication-secret",
        kind: ValueKind::Secret,
        optional: true,
        example: "correct horse",
        help: "Secret that a replica sends to its primary. Both need the same one. Without it, \
               every client that can authenticate at the Redis listener (`password`) can copy all \
               entries.",
        ..ROW
    },
    SettingSpec {
        name: "replication-secret-file",
        kind: ValueKind::Path,
        optional: true,
        example: "/run/secrets/larder-replication",
        help: "File with the `replication-secret`, in one line, like `password-file`.",
        ..ROW
    },
    SettingSpec {
        name: "replication-backlog",
        kind: ValueKind::Size { min: 64 * KIB, max: 16 << 30 },
        default: Is("16MiB"),
        example: "256MiB",
        help: "Size per group of a primary's log of changed keys (without values) for replicas that \
               are behind. A replica that is further behind gets a full copy. The log takes memory \
               once a replica has connected.",
        ..ROW
    },
    SettingSpec {
        name: "replication-mode",
        kind: ValueKind::ReplicationMode,
        default: Is("stream"),
        example: "pull:20s",
        help: "How a replica follows its primary: `stream` over one connection that stays, or `pull:20s` by fetching the changes every 20 seconds.",
        ..ROW
    },
    SettingSpec {
        name: "replica-writes",
        kind: ValueKind::Choice(ReplicaWrites::NAMES),
        default: Is("refuse"),
        example: "forward",
        help: "Handling of writes by a replica's clients. `refuse`: answers with an error. \
               `forward`: sends them to the primary and passes the reply on. Writes over HTTP are \
               forwarded if `primary-http` is set.",
        ..ROW
    },
    SettingSpec {
        name: "primary-http",
        kind: ValueKind::PrimaryHttp,
        optional: true,
        example: "https://10.0.0.1:8443?ca=/etc/larder/ca.pem",
        help: "HTTP address of the primary that `replica-of` names: `http://host:port`, or with TLS \
               `https://host:port?ca=FILE&cert=FILE&key=FILE`. With `replica-writes = \
               \"forward\"`, writes over HTTP are sent there. Without it, they are refused. The \
               replica sends its `password` over TLS only, and never its clients' credentials.",
        ..ROW
    },
];
