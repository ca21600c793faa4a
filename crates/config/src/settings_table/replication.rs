//! Settings of the section “Replication”.
use super::{
    quantities::KIB,
    setting_section::SettingSection,
    setting_spec::{
        Fallback::{Is, Off},
        SettingSpec,
    },
    value_kind::{
        PRIMARY, REPLICA_WRITES, REPLICATION_MODE,
        ValueKind::{Secret, Size},
    },
};

settings! { SettingSection::Replication;
    /// Makes this process a replica of the Larder at this address of the Redis protocol: it copies the
    /// entries of all groups without a source, follows their changes, and refuses writes. `REPLICAOF`
    /// changes it at run time.
    "replica-of": PRIMARY => Off, example("redis://10.0.0.1:6380"), optional;

    /// Secret that a replica sends to its primary. Both need the same one. Without it, every client
    /// that can authenticate at the Redis listener (`password`) can copy all entries. `@FILE` reads it
    /// from a file, like `password`.
    "replication-secret": Secret => Off, example("correct horse"), optional;

    /// Size per group of a primary's log of changed keys (without values) for replicas that are behind.
    /// A replica that is further behind gets a full copy. The log takes memory once a replica has
    /// connected.
    "replication-backlog": Size { min: 64 * KIB, max: 16 << 30 } => Is("16MiB"), example("256MiB");

    /// How a replica follows its primary: `stream` over one connection that stays, or `pull:20s` by
    /// fetching the changes every 20 seconds.
    "replication-mode": REPLICATION_MODE => Is("stream"), example("pull:20s");

    /// Handling of writes by a replica's clients. `refuse`: answers with an error. `forward`: sends
    /// those of the Redis protocol to the primary and passes the reply on. `forward:URL`: those over
    /// HTTP, too. The URL is the HTTP address of the primary that `replica-of` names:
    /// `http://host:port`, or with TLS `https://host:port?ca=FILE&cert=FILE&key=FILE`. The replica
    /// sends its `password` over TLS only, and never its clients' credentials.
    "replica-writes": REPLICA_WRITES => Is("refuse"), example("forward:https://10.0.0.1:8443?ca=/etc/larder/ca.pem");
}
