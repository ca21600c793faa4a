//! From text to [`Settings`]: reads every value by its kind, works out the defaults, then fills the
//! checked settings.
use super::{
    check_jwt::{check_jwt, jwt},
    command_lists::{AccessSettings, CommandList},
    computed_defaults::computed,
    config_error::ConfigError,
    cross_checks::{
        check_memory, check_open_listeners, check_otlp, check_passthrough, check_snapshots, check_tls, compare,
        compare_prefixes, compare_shards, warnings,
    },
    effective_values::{EffectiveSettings, EffectiveValue, NamedTable, prefix},
    env_variables::env_warnings,
    eviction,
    load_config::ConfigInput,
    machine_limits::Machine,
    origin_options::OriginOptions,
    otlp_settings::{OtlpSettings, endpoint, resource_attribute},
    peer_settings::{PeerDiscovery, PeerHash, PeerName, PeerSettings, PeerTransport},
    raw_settings::{Layer, RawSettings, RawTable, RawValue, SettingOrigin},
    replication_settings::{ReplicaWrites, ReplicationMode, ReplicationSettings},
    secret_files::read_secret_files,
    setting_value::{SettingValue, is_off, parse},
    settings::{
        Coherence, FreshnessSettings, GroupSettings, ListenerSettings, LogFormat, LogLevel, PrefixSettings, Rate,
        Settings, TierMode,
    },
    settings_table::{Fallback, all_settings},
    snapshot_settings::{BucketSettings, SnapshotPlace, SnapshotSettings, object_of},
    source_url::SourceUrl,
    tls_settings::{CertificateFiles, PeerTls, TlsClientAuth, TlsClientUser, TlsSettings},
    transport::Transport,
    trusted_proxies::{ForwardedHeader, ProxyProtocol, ProxySettings},
};
use larder_store::{
    disk::{Compression, StoreSettings},
    snapshot::SnapshotCompression,
};

/// A configuration without problems.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedConfig {
    /// What the server reads.
    pub settings: Settings,
    /// What `config print` shows.
    pub scopes: Vec<EffectiveSettings>,
    /// What is allowed but looks wrong.
    pub warnings: Vec<String>,
    /// What all this was read from.
    pub input: ConfigInput,
}

/// Of settings that a program made: there is nothing that could be read again.
impl From<Settings> for CheckedConfig {
    fn from(settings: Settings) -> CheckedConfig {
        let input =
            ConfigInput { flags: Layer::new(), file: None, env: Default::default(), machine: Machine::detect() };
        CheckedConfig { settings, scopes: Vec::new(), warnings: Vec::new(), input }
    }
}

/// Checks everything; all problems are reported at once.
pub(super) fn check(
    raw: &RawSettings,
    input: ConfigInput,
    mut problems: Vec<String>,
) -> Result<CheckedConfig, ConfigError> {
    let machine = &input.machine;
    let mut scopes = vec![scope(None, &raw.top, machine, &mut problems)];
    prefix_scopes(None, &raw.top, &raw.prefixes, machine, &mut scopes, &mut problems);
    for group in &raw.groups {
        if !group.layer.contains_key("max-memory") {
            problems.push(format!(
                "{}: groups.{}.max-memory: must be set: each named group has a bound of its own",
                group.origin, group.name
            ));
        }
        scopes.push(scope(Some(NamedTable::Group(group.name.clone())), &group.layer, machine, &mut problems));
        prefix_scopes(Some(&group.name), &group.layer, &group.prefixes, machine, &mut scopes, &mut problems);
    }
    for listener in &raw.listeners {
        let (origin, name) = (&listener.origin, &listener.name);
        if !listener.layer.contains_key("redis") && !listener.layer.contains_key("rediss") {
            problems.push(format!(
                "{origin}: listeners.{name}.redis: must be set, or rediss: each listener has an address of its own"
            ));
        }
        // A setting that the listener leaves out has the value of the top level.
        let mut layer = raw.top.clone();
        for address in ["redis", "rediss"] {
            layer.insert(address, RawValue { texts: Vec::new(), origin: origin.clone() });
        }
        layer.extend(listener.layer.clone());
        scopes.push(scope(Some(NamedTable::Listener(name.clone())), &layer, machine, &mut problems));
    }
    read_secret_files(&mut scopes[0], &mut problems);
    compare(&scopes, &raw.top, &mut problems);
    check_tls(&scopes, &mut problems);
    check_open_listeners(&scopes, &mut problems);
    check_passthrough(&scopes[0], &mut problems);
    check_jwt(&scopes[0], &mut problems);
    scopes.iter().for_each(|scope| compare_prefixes(scope, &mut problems));
    scopes.iter().for_each(|scope| compare_shards(scope, &mut problems));
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let settings = settings(&scopes);
    check_snapshots(&settings, &scopes[0], &mut problems);
    check_otlp(&settings, &scopes[0], &mut problems);
    check_memory(&settings, machine, &mut problems);
    if !problems.is_empty() {
        return Err(ConfigError(problems));
    }
    let mut warnings = warnings(&settings, machine);
    warnings.extend(env_warnings(&input.env, &raw.top));
    Ok(CheckedConfig { settings, scopes, warnings, input })
}

/// A setting that a prefix leaves out has the value of its group.
fn prefix_scopes(
    group: Option<&String>,
    of_group: &Layer,
    prefixes: &[RawTable],
    machine: &Machine,
    scopes: &mut Vec<EffectiveSettings>,
    problems: &mut Vec<String>,
) {
    // A bad value of the group is reported once, by the group.
    let mut inherited = Vec::new();
    for raw in prefixes {
        let table = NamedTable::Prefix(group.cloned(), raw.name.clone());
        scope(Some(table.clone()), &raw.layer, machine, problems);
        let mut layer = of_group.clone();
        layer.extend(raw.layer.clone());
        scopes.push(scope(Some(table), &layer, machine, &mut inherited));
    }
}

/// For a value that cannot be read: a shell and `docker compose` remove the quotes of a value, but
/// `docker run --env-file` does not.
fn quotes_advice(origin: &SettingOrigin, text: &str) -> &'static str {
    match origin {
        SettingOrigin::Env(_) if text.contains(['"', '\'']) => {
            "; the variable has quotes, which `docker run --env-file` keeps: write its value without them"
        }
        _ => "",
    }
}

fn scope(table: Option<NamedTable>, layer: &Layer, machine: &Machine, problems: &mut Vec<String>) -> EffectiveSettings {
    let prefix = prefix(table.as_ref());
    let mut scope = EffectiveSettings { table, values: Vec::new() };
    for setting in all_settings().filter(|setting| scope.table.as_ref().is_none_or(|table| table.takes(setting))) {
        let (texts, origin) = match (layer.get(setting.name), setting.default) {
            (Some(raw), _) => (raw.texts.clone(), raw.origin.clone()),
            (None, Fallback::Is(text)) => (vec![text.to_string()], SettingOrigin::Default),
            (None, _) => (Vec::new(), SettingOrigin::Default),
        };
        let off = setting.optional && matches!(texts.as_slice(), [text] if text.is_empty() || is_off(text));
        let mut values = Vec::new();
        for text in texts.iter().filter(|_| !off) {
            match parse(setting, text, machine) {
                Ok(value) => values.push(value),
                Err(error) => {
                    let advice = quotes_advice(&origin, text);
                    problems.push(format!("{origin}: {prefix}{}: {error}{advice}", setting.name));
                }
            }
        }
        scope.values.push(EffectiveValue { setting, values, origin });
    }
    // A second pass: these look at what others came out as.
    for at in 0..scope.values.len() {
        let EffectiveValue { setting, origin, .. } = &scope.values[at];
        if matches!(setting.default, Fallback::Computed(_)) && *origin == SettingOrigin::Default {
            scope.values[at].values = computed(setting.name, &scope, machine);
        }
    }
    scope
}

pub(super) fn settings(scopes: &[EffectiveSettings]) -> Settings {
    let top = &scopes[0];
    let rate = |name: &str| {
        let burst = top.count(&format!("{name}-burst"));
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        top.rate(name).map(|per_second| Rate { per_second, burst: burst.map_or(per_second, clamp) })
    };
    Settings {
        http: top.addresses("http"),
        https: top.addresses("https"),
        redis: top.addresses("redis"),
        rediss: top.addresses("rediss"),
        admin_tls: top.one("admin-tls") == Some(&SettingValue::Switch(true)),
        tls: tls(top),
        proxies: ProxySettings {
            trusted: top.address_ranges("trusted-proxies"),
            header: ForwardedHeader::from_name(top.text("forwarded-header").unwrap_or_default()),
        },
        proxy_protocol: proxy_protocol(top),
        admin: top.addresses("admin").first().copied(),
        access: access(top),
        listeners: scopes.iter().filter_map(listener).collect(),
        groups: scopes.iter().filter_map(|scope| group(scope, scopes)).collect(),
        peers: peers(top),
        replication: replication(top),
        threads: top.number("threads"),
        pin: top.one("pin") == Some(&SettingValue::Switch(true)),
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
        source_adaptive: top.one("source-adaptive") == Some(&SettingValue::Switch(true)),
        source_breaker: top.count("source-breaker").map(|share| share as u8),
        source_breaker_window: top.duration("source-breaker-window").unwrap_or_default(),
        source_connections: top.number("source-connections"),
        throttle_client: rate("throttle"),
        throttle_user: rate("throttle-user"),
        throttle_commands: top.rate_limits("throttle-commands"),
        throttle_prefixes: top.rate_limits("throttle-prefixes"),
        throttle_headers: top.one("throttle-headers") == Some(&SettingValue::Switch(true)),
        throttle_table: top.number("throttle-table"),
        otlp: otlp(top),
        what_if: top.share("what-if"),
        allow_faults: top.one("allow-faults") == Some(&SettingValue::Switch(true)),
        throttle_total: rate("throttle-total"),
        throttle_admin: rate("throttle-admin"),
        log_level: top.text("log-level").and_then(LogLevel::from_name).unwrap_or(LogLevel::Info),
        log_format: LogFormat::from_name(top.text("log-format").unwrap_or_default()),
        access_log: top.share("access-log"),
        access_log_slower_than: top.duration("access-log-slower-than"),
        slowlog_log_slower_than: top.duration("slowlog-log-slower-than"),
        slowlog_max_len: top.number("slowlog-max-len"),
        latency_monitor_threshold: top.duration("latency-monitor-threshold"),
        shown: top.values.iter().filter_map(EffectiveValue::shown).collect(),
    }
}

fn otlp(scope: &EffectiveSettings) -> Option<OtlpSettings> {
    Some(OtlpSettings {
        endpoint: scope.text("otlp-endpoint").and_then(endpoint)?,
        sample: scope.share("otlp-sample").unwrap_or_default(),
        interval: scope.duration("otlp-interval").unwrap_or_default(),
        ca: scope.text("otlp-ca").map(Into::into),
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
        file: scope.text("snapshot-file").map(|text| place(text, scope)),
        interval: scope.duration("snapshot-interval"),
        compression: SnapshotCompression::from_name(scope.text("snapshot-compression").unwrap_or_default()),
        restore: scope.one("restore") == Some(&SettingValue::Switch(true)),
        salvage: scope.text("restore-damaged") == Some("salvage"),
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
        handshake_timeout: scope.duration("tls-handshake-timeout").unwrap_or_default(),
        reload_interval: scope.duration("tls-reload-interval"),
    }
}

fn peer_tls(scope: &EffectiveSettings) -> Option<PeerTls> {
    let is_on = scope.one("peer-tls") == Some(&SettingValue::Switch(true));
    let ca = scope.text("peer-tls-ca").or(scope.text("tls-client-ca")).filter(|_| is_on)?;
    Some(PeerTls { ca: ca.into(), name: scope.text("peer-tls-name").map(Into::into) })
}

/// A URL that names no object has been reported.
fn place(text: &str, scope: &EffectiveSettings) -> SnapshotPlace {
    let Ok(Some((bucket, key))) = object_of(text) else { return SnapshotPlace::File(text.into()) };
    SnapshotPlace::Bucket(BucketSettings {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        endpoint: scope.text("snapshot-s3-endpoint").map(str::to_owned),
        region: scope.text("snapshot-s3-region").map(str::to_owned),
        credentials: scope.text("snapshot-s3-credentials").map(Into::into),
        ca: scope.text("snapshot-s3-ca").map(Into::into),
    })
}

fn access(scope: &EffectiveSettings) -> AccessSettings {
    AccessSettings {
        forward_admin: scope.one("forward-admin") == Some(&SettingValue::Switch(true)),
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
        source: source(scope),
        is_shared: is_shared(&scopes[0], scope),
        max_memory: scope.number("max-memory"),
        max_keys: scope.count("max-keys"),
        eviction: eviction::from_name(scope.text("eviction").unwrap_or_default()),
        shards: scope.count("shards").map(usize::next_power_of_two),
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
            write_buffer: scope.number("store-write-buffer") as u64,
            block_cache: scope.number("store-block-cache") as u64,
            compression: Compression::from_name(scope.text("store-compression").unwrap_or_default()),
            threads: scope.number("store-threads"),
            max_waiting: scope.number("store-max-waiting"),
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
        retry_throttle: duration("retry-throttle"),
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
        api_server: scope.text("peers-api-server").map(str::to_owned),
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
        name: if scope.text("peer-name") == Some("url") { PeerName::Url } else { PeerName::Address },
        transport: if scope.text("peer-transport") == Some("grpc") { PeerTransport::Grpc } else { PeerTransport::Http },
        hash: if scope.text("peer-hash") == Some("crc32") { PeerHash::Crc32 } else { PeerHash::Fnv1 },
        hot_copy_ttl: scope.duration("hot-copy-ttl").unwrap_or_default(),
        hot_copy_after: scope.number("hot-copy-after") as u8,
        secret: scope.secret("peer-secret"),
        tls: peer_tls(scope),
        handover: scope.number("peer-handover"),
        connect_timeout: scope.duration("peer-connect-timeout").unwrap_or_default(),
        fallback_limit: scope.number("peer-fallback-limit"),
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
            Some(SettingValue::Peer(address)) => Some(address.clone()),
            _ => None,
        },
    }
}

/// What is on one machine alone is not shared.
fn is_shared(top: &EffectiveSettings, scope: &EffectiveSettings) -> bool {
    let is_local = matches!(scope.one("source"), Some(SettingValue::Source(SourceUrl::Disk(_) | SourceUrl::Table(_))));
    !top.effective("peers").values.is_empty()
        && scope.one("peer-shared") == Some(&SettingValue::Switch(true))
        && !is_local
}

fn source(scope: &EffectiveSettings) -> SourceUrl {
    let mut source = match scope.one("source") {
        Some(SettingValue::Source(url)) => url.clone(),
        _ => SourceUrl::None,
    };
    if let SourceUrl::Http(origin) = &mut source {
        origin.options = OriginOptions {
            connect_timeout: scope.duration("source-connect-timeout"),
            first_byte_timeout: scope.duration("source-first-byte-timeout"),
            headers: scope.headers("source-headers"),
            vary: scope.texts("source-vary").into_iter().map(str::to_string).collect(),
            takes_writes: scope.text("source-writes") == Some("through"),
            http2: scope.one("source-http2") == Some(&SettingValue::Switch(true)),
        };
    }
    source
}
