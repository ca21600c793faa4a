//! From values to [`Settings`]: fills the structs that the rest of the server reads.
use super::{
    allowed_hosts::AllowedHosts,
    auth_mode::AuthMode,
    check_jwt::jwt,
    command_lists::{AccessSettings, CommandList},
    effective_values::{EffectiveSettings, EffectiveValue, NamedTable},
    eviction,
    in_flight::InFlight,
    origin_options::OriginOptions,
    otlp_settings::{OtlpSettings, endpoint, resource_attribute},
    peer_settings::{PeerDiscovery, PeerHash, PeerSettings, PeerTransport},
    query_settings::postgres_options,
    replication_settings::ReplicationSettings,
    settings::{
        Coherence, FreshnessSettings, GroupSettings, ListenerSettings, LogFormat, LogLevel, PrefixSettings, Settings,
        TierMode,
    },
    snapshot_settings::{BucketSettings, SnapshotPlace, SnapshotSettings},
    source_url::{SourceClass, SourceUrl},
    tls_settings::{CertificateFiles, PeerTls, TlsClientAuth, TlsClientUser, TlsSettings},
    transport::Transport,
    trusted_proxies::{AddressRange, ForwardedHeader, ProxyProtocol, ProxySettings},
};
use larder_store::{disk::StoreSettings, snapshot::SnapshotCompression};
use std::time::Duration;

/// Fills the checked settings. The values are those of a configuration without problems.
pub(super) fn settings(scopes: &[EffectiveSettings]) -> Settings {
    let top = &scopes[0];
    let groups: Vec<GroupSettings> = scopes.iter().filter_map(|scope| group(scope, scopes)).collect();
    let number = |name: &str| groups.iter().position(|group| group.name == name);
    let in_flight: InFlight = *top.one("source-max-in-flight").expect("it is not optional");
    Settings {
        http: top.addresses("http"),
        https: top.addresses("https"),
        redis: top.addresses("redis"),
        rediss: top.addresses("rediss"),
        memcached: top.addresses("memcached"),
        memcacheds: top.addresses("memcacheds"),
        emulates_cluster: top.text("cluster") == Some("emulated"),
        admin_tls: top.is_on("admin-tls"),
        tls: tls(top),
        allowed_hosts: AllowedHosts::new(&top.texts("allowed-hosts")),
        proxies: ProxySettings {
            trusted: top.all::<AddressRange>("trusted-proxies").map(|range| range.0).collect(),
            header: ForwardedHeader::from_name(top.text("forwarded-header").unwrap_or_default()),
        },
        proxy_protocol: proxy_protocol(top),
        admin: top.addresses("admin").pop(),
        access: access(top),
        listeners: scopes.iter().filter_map(listener).collect(),
        http_group: number(top.text("http-group").unwrap_or_default()).unwrap_or(0),
        data_group: number("data").or_else(|| number(top.text("http-group").unwrap_or_default())).unwrap_or(0),
        groups,
        data_file: None,
        peers: peers(top),
        replication: replication(top),
        threads: top.number("threads"),
        pin: top.is_on("pin"),
        transport: Transport::from_name(top.text("transport").unwrap_or_default()),
        data_dir: top.text("data-dir").map(Into::into),
        snapshot: snapshot(top),
        password: top.one("password").cloned(),
        users_file: top.text("users-file").map(Into::into),
        jwt: jwt(top),
        passthrough: passthrough(top),
        max_key: top.number("max-key"),
        max_value: top.number("max-value"),
        max_body: top.number("max-body"),
        max_document_query: top.number("max-document-query"),
        max_headers: top.number("max-headers"),
        max_pipeline: top.number("max-pipeline"),
        max_buffers: top.number("max-buffers"),
        max_backlog: top.number("max-backlog"),
        tracking_table_max_keys: top.number("tracking-table-max-keys"),
        max_connections: top.number("max-connections"),
        item_prefix: top.text("item-prefix").map(Into::into),
        redis_http_prefix: top.text("redis-http-prefix").map(Into::into),
        idle_timeout: top.duration("idle-timeout"),
        header_timeout: top.duration("header-timeout").unwrap_or_default(),
        max_queue_delay: top.duration("max-queue-delay"),
        grace: top.duration("grace").unwrap_or_default(),
        moving_endpoint: top.text("moving-endpoint").map(Into::into),
        source_slow_timeout: top.duration("source-slow-timeout").unwrap_or_default(),
        source_max_in_flight: in_flight.limit,
        source_adaptive: in_flight.is_adaptive,
        source_breaker: top.count("source-breaker").map(|share| share as u8),
        source_connections: top.count("source-connections"),
        throttle_client: top.one("throttle").copied(),
        throttle_user: top.one("throttle-user").copied(),
        throttle_commands: top.all("throttle-commands").cloned().collect(),
        throttle_prefixes: top.all("throttle-prefixes").cloned().collect(),
        throttle_headers: top.is_on("throttle-headers"),
        otlp: otlp(top),
        allow_faults: top.is_on("allow-faults"),
        throttle_total: top.one("throttle-total").copied(),
        throttle_admin: top.one("throttle-admin").copied(),
        log_level: top.text("log-level").and_then(LogLevel::from_name).unwrap_or(LogLevel::Info),
        log_format: LogFormat::from_name(top.text("log-format").unwrap_or_default()),
        access_log: top.share("access-log"),
        access_log_slower_than: top.duration("access-log-slower-than"),
        slowlog_log_slower_than: top.duration("slowlog-log-slower-than"),
        shown: top.values.iter().filter_map(EffectiveValue::shown).collect(),
    }
}

/// How long what the source says of a user counts; `None`: this process checks users.
pub(super) fn passthrough(top: &EffectiveSettings) -> Option<Duration> {
    match top.one("auth")? {
        AuthMode::Passthrough(age) => Some(*age),
        AuthMode::Larder => None,
    }
}

fn otlp(scope: &EffectiveSettings) -> Option<OtlpSettings> {
    let (endpoint, ca) = scope.text("otlp-endpoint").and_then(endpoint)?;
    Some(OtlpSettings {
        endpoint,
        ca,
        sample: scope.share("otlp-sample").unwrap_or_default(),
        headers: scope.all("otlp-headers").cloned().collect(),
        attributes: scope
            .texts("otlp-resource-attributes")
            .into_iter()
            .filter_map(|text| resource_attribute(text).ok())
            .collect(),
    })
}

fn snapshot(scope: &EffectiveSettings) -> SnapshotSettings {
    SnapshotSettings {
        file: scope.text("snapshot-file").map(place),
        interval: scope.all("snapshot-interval").copied().collect(),
        compression: SnapshotCompression::from_name(scope.text("snapshot-compression").unwrap_or_default()),
        restore: scope.text("restore") != Some("false"),
        salvage: scope.text("restore") == Some("salvage"),
        verify_rate: u32::try_from(scope.number("restore-verify-rate")).unwrap_or(u32::MAX),
    }
}

fn tls(scope: &EffectiveSettings) -> TlsSettings {
    let files = scope.texts("tls-cert").into_iter().zip(scope.texts("tls-key"));
    TlsSettings {
        certificates: files.map(|(cert, key)| CertificateFiles { cert: cert.into(), key: key.into() }).collect(),
        client_ca: scope.text("tls-client-ca").map(Into::into),
        client_auth: TlsClientAuth::from_name(scope.text("tls-client-auth").unwrap_or_default()),
        client_user: TlsClientUser::from_name(scope.text("tls-client-user").unwrap_or_default()),
    }
}

fn peer_tls(scope: &EffectiveSettings) -> Option<PeerTls> {
    Some(PeerTls { ca: scope.text("peer-tls-ca")?.into(), name: scope.text("peer-tls-name").map(Into::into) })
}

/// A URL that names no object has been reported.
fn place(text: &str) -> SnapshotPlace {
    match BucketSettings::parse(text) {
        Ok(Some(bucket)) => SnapshotPlace::Bucket(bucket),
        _ => SnapshotPlace::File(text.into()),
    }
}

fn access(scope: &EffectiveSettings) -> AccessSettings {
    AccessSettings {
        forward_admin: scope.is_on("forward-admin"),
        deny_commands: CommandList::of(scope.texts("deny-commands")),
        allow_commands: CommandList::of(scope.texts("allow-commands")),
    }
}

fn listener(scope: &EffectiveSettings) -> Option<ListenerSettings> {
    let Some(NamedTable::Listener(name)) = &scope.table else { return None };
    let (redis, rediss) = (scope.addresses("redis"), scope.addresses("rediss"));
    let (proxy_protocol, access) = (proxy_protocol(scope), access(scope));
    Some(ListenerSettings { name: name.clone(), redis, rediss, proxy_protocol, access })
}

fn proxy_protocol(scope: &EffectiveSettings) -> ProxyProtocol {
    ProxyProtocol::from_name(scope.text("proxy-protocol").unwrap_or_default())
}

fn group(scope: &EffectiveSettings, scopes: &[EffectiveSettings]) -> Option<GroupSettings> {
    let name = match &scope.table {
        None => "default",
        Some(NamedTable::Group(name)) => name,
        Some(NamedTable::Listener(_) | NamedTable::Prefix(..)) => return None,
    };
    let own = |group: &Option<String>| group.as_deref().unwrap_or("default") == name;
    Some(GroupSettings {
        name: name.to_string(),
        source: source(scope, scopes),
        mirror: scope.one("mirror").cloned(),
        is_shared: is_shared(&scopes[0], scope),
        max_memory: scope.number("max-memory"),
        max_keys: scope.count("max-keys"),
        eviction: eviction::from_name(scope.text("eviction").unwrap_or_default()),
        freshness: freshness(scope),
        mode: mode(scope),
        inspect: scope.share("inspect"),
        ttl_jitter: scope.number("ttl-jitter") as u8,
        prefixes: scopes
            .iter()
            .filter_map(|scope| match &scope.table {
                Some(NamedTable::Prefix(group, prefix)) if own(group) => {
                    Some(PrefixSettings { prefix: prefix.clone(), freshness: freshness(scope), mode: mode(scope) })
                }
                _ => None,
            })
            .collect(),
        coherence: Coherence::from_name(scope.text("coherence").unwrap_or_default()),
        tracking_prefixes: scope.tracking_prefixes().into_iter().map(str::to_string).collect(),
        cache_replies: scope.count("cache-replies"),
        store: StoreSettings {
            durability: scope.one("durability").copied().unwrap_or(StoreSettings::DEFAULT.durability),
            // Small machines, which have a small cache, get small buffers.
            write_buffer: StoreSettings::DEFAULT.write_buffer.min(scope.number("store-block-cache") as u64),
            block_cache: scope.number("store-block-cache") as u64,
            // Readers wait for the disk most of the time.
            threads: (2 * scopes[0].number("threads")).min(16),
            ..StoreSettings::DEFAULT
        },
    })
}

fn freshness(scope: &EffectiveSettings) -> FreshnessSettings {
    let duration = |name| scope.duration(name).unwrap_or_default();
    FreshnessSettings {
        ttl: scope.duration("ttl"),
        negative_ttl: scope.duration("negative-ttl"),
        stale_while_revalidate: duration("stale-while-revalidate"),
        stale_if_error: duration("stale-if-error"),
        source_timeout: duration("source-timeout"),
        soft_timeout: scope.duration("soft-timeout"),
        refresh_ahead: scope.one("refresh-ahead").copied(),
        max_stale: scope.duration("max-stale"),
    }
}

fn mode(scope: &EffectiveSettings) -> TierMode {
    scope.text("mode").and_then(TierMode::from_name).unwrap_or_default()
}

fn peers(scope: &EffectiveSettings) -> PeerSettings {
    let mut settings = PeerSettings {
        peers: Vec::new(),
        discovery: PeerDiscovery::Fixed,
        refresh: scope.duration("peers-refresh").unwrap_or_default(),
        service_account: scope.text("peers-service-account").unwrap_or_default().into(),
        gossip: scope.one("peer-gossip").copied(),
        this: scope.one("peer-self").cloned(),
        zone: scope.one("peer-zone").cloned(),
        bounded_load: scope.one("peer-bounded-load").copied(),
        transport: if scope.text("peer-transport") == Some("grpc") { PeerTransport::Grpc } else { PeerTransport::Http },
        hash: PeerHash::from_name(scope.text("peer-hash").unwrap_or_default()),
        hot_copies: scope.one("hot-copy-ttl").copied().unwrap_or_default(),
        secret: scope.one("peer-secret").cloned(),
        tls: peer_tls(scope),
        handover: scope.number("peer-handover"),
        connect_timeout: scope.duration("source-timeout").unwrap_or_default() / 4,
    };
    scope.all("peers").cloned().for_each(|entry| settings.add(entry));
    settings
}

fn replication(scope: &EffectiveSettings) -> ReplicationSettings {
    ReplicationSettings {
        replica_of: scope.one("replica-of").cloned(),
        secret: scope.one("replication-secret").cloned(),
        backlog: scope.number("replication-backlog"),
        mode: scope.one("replication-mode").copied().unwrap_or_default(),
        writes: scope.one("replica-writes").cloned().unwrap_or_default(),
    }
}

/// What is on one machine alone is not shared. A cluster has its own way to share.
fn is_shared(top: &EffectiveSettings, scope: &EffectiveSettings) -> bool {
    let is_local =
        matches!(source(scope, &[]).class(), SourceClass::Store | SourceClass::SharedStore | SourceClass::Table);
    top.is_set("peers") && scope.is_on("peer-shared") && !is_local
}

fn source(scope: &EffectiveSettings, scopes: &[EffectiveSettings]) -> SourceUrl {
    let mut source = scope.one("source").cloned().unwrap_or(SourceUrl::None);
    if let SourceUrl::Http(origin) = &mut source {
        origin.options = OriginOptions {
            vary: std::mem::take(&mut origin.options.vary),
            // An address that does not answer leaves the other half for the next one.
            connect_timeout: scope.duration("source-timeout").map(|timeout| timeout / 2),
            headers: scope.all("source-headers").cloned().collect(),
            takes_writes: scope.text("source-writes") == Some("through"),
            http2: origin.options.http2,
        };
    }
    if let SourceUrl::Postgres(url) = &mut source {
        *url.options = postgres_options(scope, scopes);
    }
    source
}
