//! Settings of earlier versions. A start that still sets one must be told what holds now.
use super::raw_settings::{Layer, SettingOrigin};

const FOLLOWS_MEMORY: &str = "it follows from the memory and the keys that a tier may have";
const MINUTES: &str =
    "a client may send at once what its limit allows in a second: write a limit per minute, such as 300/m, for more";
const IN_SNAPSHOT_FILE: &str =
    "write it in snapshot-file: s3://BUCKET/KEY?endpoint=URL&region=NAME&credentials=FILE&ca=FILE";
const BY_CONFIG_SET: &str = "change it at run time with CONFIG SET";

/// The names, each with what holds now.
const REMOVED: [(&str, &str); 44] = [
    ("auth-cache", "write auth = \"passthrough:1s\""),
    ("hot-copy-after", "write it behind the time: hot-copy-ttl = \"10s:5\""),
    ("item-max-ttl", "it is 217d, as in GCache"),
    ("item-min-ttl", "it is 5s, as in GCache"),
    ("latency-monitor-threshold", BY_CONFIG_SET),
    ("otlp-ca", "write it in otlp-endpoint: https://HOST:4318?ca=FILE"),
    ("otlp-interval", "it is 10s"),
    ("otlp-service-name", "write otlp-resource-attributes = service.name=NAME"),
    ("password-file", "write password = \"@FILE\""),
    ("peer-connect-timeout", "it is a quarter of source-timeout"),
    ("peer-fallback-limit", "it is 64"),
    ("peer-name", "peer-hash decides: nodes have URLs as names with fnv1-url and crc32, addresses with fnv1 and xxh3"),
    ("peer-secret-file", "write peer-secret = \"@FILE\""),
    ("peer-tls", "peer-tls-ca switches TLS between nodes on"),
    ("peers-api-server", "the variables KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT name it"),
    ("peers-dns-server", "write it in peers: dns+srv:NAME@127.0.0.1:8600"),
    ("primary-http", "write replica-writes = \"forward:URL\""),
    ("replication-secret-file", "write replication-secret = \"@FILE\""),
    ("restore-damaged", "write restore = \"salvage\" to load what is before the damage"),
    ("retry-throttle", "it is 1s"),
    ("shards", FOLLOWS_MEMORY),
    ("slowlog-max-len", BY_CONFIG_SET),
    ("snapshot-s3-ca", IN_SNAPSHOT_FILE),
    ("snapshot-s3-credentials", IN_SNAPSHOT_FILE),
    ("snapshot-s3-endpoint", IN_SNAPSHOT_FILE),
    ("snapshot-s3-region", IN_SNAPSHOT_FILE),
    ("source-adaptive", "write source-max-in-flight = \"fixed:4096\" for false"),
    ("source-breaker-window", "it is 10s"),
    ("source-connect-timeout", "it is half of source-timeout"),
    ("source-first-byte-timeout", "source-timeout bounds the whole answer"),
    ("source-http2", "write it behind the URL of the source: https://HOST/{key}#http2=false"),
    ("source-vary", "write it behind the URL of the source: http://HOST/{key}#vary=accept,x-tenant"),
    ("store-compression", "the older levels are compressed with lz4; `larder store restore` takes --compression"),
    ("store-max-waiting", "it is 64MiB"),
    ("store-threads", "they are twice threads, at most 16"),
    ("store-write-buffer", "it is 64MiB, or store-block-cache if that is less"),
    ("throttle-admin-burst", MINUTES),
    ("throttle-burst", MINUTES),
    ("throttle-table", "it has 65536 entries"),
    ("throttle-total-burst", MINUTES),
    ("throttle-user-burst", MINUTES),
    ("tls-handshake-timeout", "header-timeout bounds the handshake"),
    ("tls-reload-interval", "it is 1s"),
    ("what-if", "Larder chooses the share by the number of keys and reads"),
];

/// The names, for flags that must be understood to be refused.
pub(super) fn removed_names() -> impl Iterator<Item = &'static str> {
    REMOVED.into_iter().map(|(name, _)| name)
}

/// What is wrong with a setting of this name; `None`: there never was such a setting.
pub(super) fn removed(name: &str) -> Option<String> {
    let (name, now) = REMOVED.into_iter().find(|(removed, _)| *removed == name)?;
    Some(format!("{name} is no longer a setting: {now}"))
}

/// The problems of flags that name such settings.
pub(super) fn removed_flags(flags: &Layer, problems: &mut Vec<String>) {
    let found = flags.keys().filter_map(|name| Some((name, removed(name)?)));
    problems.extend(found.map(|(name, problem)| format!("{}: {problem}", SettingOrigin::Flag(name))));
}
