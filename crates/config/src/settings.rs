//! The checked configuration: what the rest of the server reads.
use super::{
    allowed_hosts::AllowedHosts,
    command_lists::AccessSettings,
    data_file::DataFile,
    jwt_settings::JwtSettings,
    listen_address::Address,
    nearest_name::usual_name,
    otlp_settings::OtlpSettings,
    peer_settings::PeerSettings,
    rate_limit::{Rate, RateLimit},
    replication_settings::ReplicationSettings,
    secret::Secret,
    snapshot_settings::SnapshotSettings,
    source_url::{SourceClass, SourceUrl},
    tls_settings::TlsSettings,
    transport::Transport,
    trusted_proxies::{ProxyProtocol, ProxySettings},
};
use larder_engine::Eviction;
use larder_store::disk::StoreSettings;
use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

/// The checked configuration. Every field is described in the table
/// ([`super::settings_table`]) under its name with hyphens.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub http: Vec<Address>,
    pub https: Vec<Address>,
    pub redis: Vec<Address>,
    pub rediss: Vec<Address>,
    pub memcached: Vec<Address>,
    pub memcacheds: Vec<Address>,
    /// What clients of `redis` and `rediss` may do.
    pub access: AccessSettings,
    /// The Redis listeners answer like the only node of a Redis Cluster.
    pub emulates_cluster: bool,
    /// Further listeners for the Redis protocol.
    pub listeners: Vec<ListenerSettings>,
    pub admin: Option<Address>,
    pub admin_tls: bool,
    pub tls: TlsSettings,
    pub allowed_hosts: AllowedHosts,
    pub proxies: ProxySettings,
    /// Of the listeners without a name.
    pub proxy_protocol: ProxyProtocol,
    /// Group `default` first.
    pub groups: Vec<GroupSettings>,
    /// Of `larder serve DATA`.
    pub data_file: Option<DataFile>,
    pub peers: PeerSettings,
    pub replication: ReplicationSettings,
    pub threads: usize,
    /// Each worker stays on a core of its own.
    pub pin: bool,
    pub transport: Transport,
    pub data_dir: Option<PathBuf>,
    pub snapshot: SnapshotSettings,
    pub password: Option<Secret>,
    pub users_file: Option<PathBuf>,
    /// `None`: tokens are no logins.
    pub jwt: Option<JwtSettings>,
    /// The source checks clients' credentials; how long its answers count. `None`: this process
    /// checks them.
    pub passthrough: Option<Duration>,
    pub max_key: usize,
    pub max_value: usize,
    pub max_body: usize,
    /// Largest document for which a tree is built, bytes.
    pub max_document_query: usize,
    /// Bytes of an HTTP request's head.
    pub max_headers: usize,
    pub max_pipeline: usize,
    /// Bytes of all buffers together.
    pub max_buffers: usize,
    /// Bytes of messages and invalidations.
    pub max_backlog: usize,
    /// 0: any number.
    pub tracking_table_max_keys: usize,
    pub max_connections: usize,
    /// The number of the group whose keys HTTP routes mean that name no group.
    pub http_group: usize,
    /// The number of the group whose keys `/data/{key}` means.
    pub data_group: usize,
    /// Begins with `/` and does not end so; `None`: no item API.
    pub item_prefix: Option<String>,
    /// Begins with a slash, and is nothing but one for the root.
    pub redis_http_prefix: Option<String>,
    pub idle_timeout: Option<Duration>,
    pub header_timeout: Duration,
    pub max_queue_delay: Option<Duration>,
    pub grace: Duration,
    /// Host and port.
    pub moving_endpoint: Option<String>,
    pub source_slow_timeout: Duration,
    pub source_max_in_flight: usize,
    pub source_adaptive: bool,
    /// Per cent of the fetches that fail; `None`: no breaker.
    pub source_breaker: Option<u8>,
    /// [`connections_to`](Settings::connections_to).
    pub source_connections: Option<usize>,
    /// Of one client address; `None` is off.
    pub throttle_client: Option<Rate>,
    /// Of one user.
    pub throttle_user: Option<Rate>,
    /// Of one client address, for some commands.
    pub throttle_commands: Vec<RateLimit>,
    /// Of all clients together, for keys with a prefix.
    pub throttle_prefixes: Vec<RateLimit>,
    /// Clients are told what is left.
    pub throttle_headers: bool,
    /// Administrators may order faults.
    pub allow_faults: bool,
    /// Of all clients together.
    pub throttle_total: Option<Rate>,
    /// Of one client address to the admin and stats routes.
    pub throttle_admin: Option<Rate>,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
    /// Share of requests that are logged, in millionths.
    pub access_log: Option<u32>,
    /// Requests that take this long, or fail, are logged, whether sampled or not.
    pub access_log_slower_than: Option<Duration>,
    /// Commands that take this long are in the slow log.
    pub slowlog_log_slower_than: Option<Duration>,
    /// The collector of metrics and spans.
    pub otlp: Option<OtlpSettings>,
    /// The settings of the process and of group `default` by name, as text, for people and tools.
    /// Secrets are not among them.
    pub shown: Vec<(&'static str, String)>,
}

impl Settings {
    /// Connections of each thread to this source; to a PostgreSQL, of all threads together.
    pub fn connections_to(&self, source: &SourceUrl) -> usize {
        let default = if matches!(source, SourceUrl::Postgres(_)) { self.threads } else { 1 };
        self.source_connections.unwrap_or(default)
    }
}

/// One named listener's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerSettings {
    pub name: String,
    pub redis: Vec<Address>,
    pub rediss: Vec<Address>,
    pub proxy_protocol: ProxyProtocol,
    pub access: AccessSettings,
}

/// One group's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSettings {
    pub name: String,
    pub source: SourceUrl,
    /// Made equal to the source while clients write.
    pub mirror: Option<SourceUrl>,
    /// Its keys have owners among the peers.
    pub is_shared: bool,
    pub max_memory: usize,
    pub max_keys: Option<usize>,
    pub eviction: Eviction,
    /// Of all keys without a prefix of their own in `prefixes`.
    pub freshness: FreshnessSettings,
    pub mode: TierMode,
    /// Millionths of hits.
    pub inspect: Option<u32>,
    /// Per cent, 0 to 50.
    pub ttl_jitter: u8,
    /// In the order of the file; the longest prefix of a key counts.
    pub prefixes: Vec<PrefixSettings>,
    pub coherence: Coherence,
    /// None: the source remembers what was read; else it announces every change under these, and
    /// only such keys are kept.
    pub tracking_prefixes: Vec<String>,
    /// Bytes of the largest reply; `None`: no replies.
    pub cache_replies: Option<usize>,
    /// Of a `disk:` source.
    pub store: StoreSettings,
}

impl GroupSettings {
    /// Why the group's entries are in no snapshot; `None`: they are.
    pub fn outside_snapshots(&self) -> Option<&'static str> {
        match self.source.class() {
            SourceClass::Store => Some("its disk store has all entries, and newer ones after a crash"),
            SourceClass::Table => Some("its table is read where it lies"),
            SourceClass::Redis if self.coherence == Coherence::Off => Some("with coherence = off nothing is kept"),
            _ if self.is_shared => Some("its keys have owners among the peers, which may have changed them meanwhile"),
            _ => None,
        }
    }

    /// Whether source and mirror may trade places without a restart: two stores, or two Redis servers,
    /// whose keys have no owners among peers.
    pub fn may_swap(&self) -> bool {
        let is_store = |url: &SourceUrl| matches!(url.class(), SourceClass::Store | SourceClass::SharedStore);
        let is_server = |url: &SourceUrl| url.class() == SourceClass::Redis && !url.is_cluster();
        let Some(mirror) = self.mirror.as_ref().filter(|_| !self.is_shared) else { return false };
        let both = |are: fn(&SourceUrl) -> bool| are(&self.source) && are(mirror);
        both(is_store) || both(is_server)
    }

    /// Whether what a snapshot has of the group is read from its source again before it is served:
    /// a source that announces changes does not say what changed while Larder was away.
    pub fn is_verified(&self) -> bool {
        self.source.announces_changes() && self.coherence == Coherence::Coherent && self.outside_snapshots().is_none()
    }
}

/// How old copies may be, and when they are renewed. A zero is off.
#[derive(Debug, Clone, PartialEq)]
pub struct FreshnessSettings {
    pub ttl: Option<Duration>,
    pub negative_ttl: Option<Duration>,
    pub stale_while_revalidate: Duration,
    pub stale_if_error: Duration,
    /// Deadline of a fetch.
    pub source_timeout: Duration,
    pub soft_timeout: Option<Duration>,
    pub refresh_ahead: Option<RefreshAhead>,
    pub max_stale: Option<Duration>,
}

/// The settings of the keys that begin with a prefix. What the prefix's table does not set has the
/// group's value.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixSettings {
    pub prefix: String,
    pub freshness: FreshnessSettings,
    pub mode: TierMode,
}

/// When a copy is renewed before the end of its lifetime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefreshAhead {
    /// When it is read in the last share of its lifetime; per cent, 1 to 99.
    Share(u8),
    /// At a random time near the end, earlier the longer its fetch took (XFetch: Vattani,
    /// Chierichetti, Lowenstein, VLDB 2015).
    XFetch,
}
impl RefreshAhead {
    const XFETCH: &'static str = "xfetch";
}
impl FromStr for RefreshAhead {
    type Err = String;
    fn from_str(text: &str) -> Result<RefreshAhead, String> {
        if text.eq_ignore_ascii_case(Self::XFETCH) {
            return Ok(RefreshAhead::XFetch);
        }
        let share = text.strip_suffix('%').map(str::trim_end).and_then(|number| number.parse().ok());
        match share {
            Some(share @ 1..=99) => Ok(RefreshAhead::Share(share)),
            _ => Err(format!("`{text}` is not a share of the lifetime: write 1% to 99%, or {}", Self::XFETCH)),
        }
    }
}
impl fmt::Display for RefreshAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefreshAhead::Share(share) => write!(f, "{share}%"),
            RefreshAhead::XFetch => f.write_str(Self::XFETCH),
        }
    }
}

/// What the memory tier does with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TierMode {
    /// Keeps and serves them.
    #[default]
    Cache,
    /// Keeps them and counts hits and misses, but each read is answered by the source.
    Observe,
    /// Neither keeps nor serves them.
    Deny,
}
impl TierMode {
    /// In the order of the variants.
    pub const NAMES: &'static [&'static str] = &["cache", "observe", "deny"];
    const ALL: [TierMode; 3] = [TierMode::Cache, TierMode::Observe, TierMode::Deny];
    /// Its name, as in settings.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
    /// The mode of that name, in any case.
    pub fn from_name(name: &str) -> Option<TierMode> {
        let at = Self::NAMES.iter().position(|n| n.eq_ignore_ascii_case(name))?;
        Some(Self::ALL[at])
    }
}

/// What keeps copies of a Redis source's values from being older than they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coherence {
    /// The source announces changes (`CLIENT TRACKING`); what it would not announce is not kept.
    Coherent,
    /// The lifetimes alone.
    #[default]
    Ttl,
    /// Nothing is kept.
    Off,
}
impl Coherence {
    pub(super) const NAMES: &'static [&'static str] = &["coherent", "ttl", "off"];
    pub(super) fn from_name(name: &str) -> Coherence {
        match name {
            "ttl" => Coherence::Ttl,
            "off" => Coherence::Off,
            _ => Coherence::Coherent,
        }
    }
}

/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// A line for people.
    Text,
    /// A JSON object per line.
    Json,
}
impl LogFormat {
    pub(super) const NAMES: &'static [&'static str] = &["text", "json"];
    pub(super) fn from_name(name: &str) -> LogFormat {
        if name == "json" { LogFormat::Json } else { LogFormat::Text }
    }
}

/// The least severe event that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}
impl LogLevel {
    /// In the order of the variants.
    pub const NAMES: &'static [&'static str] = &["off", "error", "warn", "info", "debug", "trace"];
    const ALL: [LogLevel; 6] =
        [LogLevel::Off, LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];
    /// Its name, as in settings and in `PUT /v1/log-level`.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
    /// The level of that name, in any case. `warning` is `warn`, as in many other programs.
    pub fn from_name(name: &str) -> Option<LogLevel> {
        let name = usual_name(name);
        let at = Self::NAMES.iter().position(|n| n.eq_ignore_ascii_case(name))?;
        Some(Self::ALL[at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_names_are_in_one_order() {
        for level in LogLevel::ALL {
            assert_eq!(LogLevel::from_name(level.name()), Some(level));
            assert_eq!(format!("{level:?}").to_lowercase(), level.name());
        }
        for mode in TierMode::ALL {
            assert_eq!(TierMode::from_name(mode.name()), Some(mode));
            assert_eq!(format!("{mode:?}").to_lowercase(), mode.name());
        }
        assert_eq!(LogLevel::from_name("WARN"), Some(LogLevel::Warn));
        assert_eq!(LogLevel::from_name("warning"), Some(LogLevel::Warn));
    }
}
