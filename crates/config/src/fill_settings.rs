//! From values to [`Settings`]: fills the structs that the rest of the server reads.
use super::{
    allowed_hosts::AllowedHosts,
    check_jwt::jwt,
    command_lists::{AccessSettings, CommandList},
    effective_values::{EffectiveSettings, EffectiveValue, NamedTable},
    eviction,
    origin_options::OriginOptions,
    otlp_settings::{OtlpSettings, endpoint, resource_attribute},
    peer_settings::{PeerDiscovery, PeerHash, PeerSettings, PeerTransport},
    query_settings::postgres_options,
    replication_settings::{ReplicaWrites, ReplicationMode, ReplicationSettings},
    setting_value::SettingValue,
    settings::{
        Coherence, FreshnessSettings, GroupSettings, ListenerSettings, LogFormat, LogLevel, PrefixSettings, Settings,
        TierMode,
    },
    snapshot_settings::{BucketSettings, SnapshotPlace, SnapshotSettings},
    source_url::{SourceClass, SourceUrl},
    tls_settings::{CertificateFiles, PeerTls, TlsClientAuth, TlsClientUser, TlsSettings},
    transport::Transport,
    trusted_proxies::{ForwardedHeader, ProxyProtocol, ProxySettings},
};
use larder_store::{disk::StoreSettings, snapshot::SnapshotCompression};

/// Fills the checked settings. The values are those of a configuration without problems.
pub(super) fn settings(scopes: &[EffectiveSettings]) -> Settings {
    let top = &scopes[0];
    let groups: Vec<GroupSettings> = scopes.iter().filter_map(|scope| group(scope, scopes)).collect();
    let number = |name: &str| groups.iter().position(|group| group.name == name);
    Settings {
        http: top.addresses("http"),
        https: top.addresses("https"),
        redis: top.addresses("redis"),
        rediss: top.addresses("rediss"),
        memcached: top.addresses("memcached"),
        memcacheds: top.addresses("memcacheds"),
        admin_tls: top.is_on("admin-tls"),
        tls: tls(top),
        allowed_hosts: AllowedHosts::new(&top.texts("allowed-hosts")),
        proxies: ProxySettings {
            trusted: top.address_ranges("trusted-proxies"),
            header: ForwardedHeader::from_name(top.text("forwarded-header").unwrap_or_default()),
        },
        proxy_protocol: proxy_protocol(top),
        admin: top.addresses("admin").first().copied(),
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
        password: top.secret("password"),
        users_file: top.text("users-file").map(Into::into),
        jwt: jwt(top),
        passthrough: (top.text("auth") == Some("passthrough")).then(|| top.duration("auth-cache").unwrap_or_default()),
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
        item_min_ttl: top.duration("item-min-ttl").unwrap_or_default(),
        item_max_ttl: top.duration("item-max-ttl").unwrap_or_default(),
        idle_timeout: top.duration("idle-timeout"),
        header_timeout: top.duration("header-timeout").unwrap_or_default(),
        max_queue_delay: top.duration("max-queue-delay"),
        grace: top.duration("grace").unwrap_or_default(),
        moving_endpoint: top.text("moving-endpoint").map(Into::into),
        source_slow_timeout: top.duration("source-slow-timeout").unwrap_or_default(),
        source_max_in_flight: top.number("source-max-in-flight"),
        source_adaptive: top.is_on("source-adaptive"),
        source_breaker: top.count("source-breaker").map(|share| share as u8),
        source_connections: top.count("source-connections"),
        throttle_client: top.rate("throttle"),
        throttle_user: top.rate("throttle-user"),
        throttle_commands: top.rate_limits("throttle-commands"),
        throttle_prefixes: top.rate_limits("throttle-prefixes"),
        throttle_headers: top.is_on("throttle-headers"),
        otlp: otlp(top),
        allow_faults: top.is_on("allow-faults"),
        throttle_total: top.rate("throttle-total"),
        throttle_admin: top.rate("throttle-admin"),
        log_level: top.text("log-level").and_then(LogLevel::from_name).unwrap_or(LogLevel::Info),
        log_format: LogFormat::from_name(top.text("log-format").unwrap_or_default()),
        access_log: top.share("access-log"),
        access_log_slower_than: top.duration("access-log-slower-than"),
        slowlog_log_slower_than: top.duration("slowlog-log-slower-than"),
        shown: top.values.iter().filter_map(EffectiveValue::shown).collect(),
    }
}

fn otlp(scope: &EffectiveSettings) -> Option<OtlpSettings> {
    let (endpoint, ca) = scope.text("otlp-endpoint").and_then(endpoint)?;
    Some(OtlpSettings {
        endpoint,
        ca,
        sample: scope.share("otlp-sample").unwrap_or_default(),
        headers: scope.headers("otlp-headers"),
        service_name: scope.text("otlp-service-name").map(str::to_owned),
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
        interval: scope.save_points("snapshot-interval"),
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
            durability: match scope.one("durability") {
                Some(SettingValue::Durability(durability)) => *durability,
                _ => StoreSettings::DEFAULT.durability,
            },
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
        refresh_ahead: scope.refresh_ahead("refresh-ahead"),
        max_stale: scope.duration("max-stale"),
    }
}

fn mode(scope: &EffectiveSettings) -> TierMode {
    scope.text("mode").and_then(TierMode::from_name).unwrap_or_default()
}

fn peers(scope: &EffectiveSettings) -> PeerSettings {
    let this = match scope.one("peer-self") {
        Some(SettingValue::Peer(peer)) => Some(peer.clone()),
        _ => None,
    };
    let address = |name| if let Some(SettingValue::Address(address)) = scope.one(name) { Some(*address) } else { None };
    let mut settings = PeerSettings {
        peers: Vec::new(),
        discovery: PeerDiscovery::Fixed,
        refresh: scope.duration("peers-refresh").unwrap_or_default(),
        dns_server: address("peers-dns-server"),
        service_account: scope.text("peers-service-account").unwrap_or_default().into(),
        gossip: address("peer-gossip"),
        this,
        zone: match scope.one("peer-zone") {
            Some(SettingValue::Zone(zone)) => Some(zone.clone()),
            _ => None,
        },
        bounded_load: match scope.one("peer-bounded-load") {
            Some(SettingValue::LoadFactor(factor)) => Some(*factor),
            _ => None,
        },
        transport: if scope.text("peer-transport") == Some("grpc") { PeerTransport::Grpc } else { PeerTransport::Http },
        hash: PeerHash::from_name(scope.text("peer-hash").unwrap_or_default()),
        hot_copy_ttl: scope.duration("hot-copy-ttl").unwrap_or_default(),
        hot_copy_after: scope.number("hot-copy-after") as u8,
        secret: scope.secret("peer-secret"),
        tls: peer_tls(scope),
        handover: scope.number("peer-handover"),
        connect_timeout: scope.duration("source-timeout").unwrap_or_default() / 4,
    };
    for value in &scope.effective("peers").values {
        if let SettingValue::PeerEntry(entry) = value {
            settings.add(entry.clone());
        }
    }
    settings
}

fn replication(scope: &EffectiveSettings) -> ReplicationSettings {
    ReplicationSettings {
        replica_of: match scope.one("replica-of") {
            Some(SettingValue::Primary(primary)) => Some(primary.clone()),
            _ => None,
        },
        secret: scope.secret("replication-secret"),
        backlog: scope.number("replication-backlog"),
        mode: match scope.one("replication-mode") {
            Some(SettingValue::ReplicationMode(mode)) => *mode,
            _ => ReplicationMode::default(),
        },
        writes: match scope.text("replica-writes") {
            Some("forward") => ReplicaWrites::Forward,
            _ => ReplicaWrites::Refuse,
        },
        primary_http: match scope.one("primary-http") {
            Some(SettingValue::PrimaryHttp(address)) => Some(address.clone()),
            _ => None,
        },
    }
}

/// What is on one machine alone is not shared. A cluster has its own way to share.
fn is_shared(top: &EffectiveSettings, scope: &EffectiveSettings) -> bool {
    let is_local =
        matches!(source(scope, &[]).class(), SourceClass::Store | SourceClass::SharedStore | SourceClass::Table);
    !top.effective("peers").values.is_empty() && scope.is_on("peer-shared") && !is_local
}

fn source(scope: &EffectiveSettings, scopes: &[EffectiveSettings]) -> SourceUrl {
    let mut source = match scope.one("source") {
        Some(SettingValue::Source(url)) => url.clone(),
        _ => SourceUrl::None,
    };
    if let SourceUrl::Http(origin) = &mut source {
        origin.options = OriginOptions {
            // An address that does not answer leaves the other half for the next one.
            connect_timeout: scope.duration("source-timeout").map(|timeout| timeout / 2),
            headers: scope.headers("source-headers"),
            vary: scope.texts("source-vary").into_iter().map(str::to_string).collect(),
            takes_writes: scope.text("source-writes") == Some("through"),
            http2: origin.options.http2,
        };
    }
    if let SourceUrl::Postgres(url) = &mut source {
        *url.options = postgres_options(scope, scopes);
    }
    source
}
