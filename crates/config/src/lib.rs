//! Settings: read as text, then checked.
//!
//! ```text
//!  flags ──┐
//!  LARDER_…┤                    check_settings,                       cross_checks,
//!  PROXY_… ┼─> RawSettings ───> parse_setting  ─> EffectiveSettings ─> fill_settings ─> Settings (the rest of the server reads only this)
//!  file  ──┘   text + origin                      value + origin    └> config print
//! ```
//!
//! One table ([`settings_table`]) names every setting and feeds parser, help, documentation and `config
//! print`. Each value remembers where it comes from; all problems are reported at once, each with
//! its place. Nothing here reads the process's environment or arguments: they are arguments
//! ([`ConfigInput`]), and so is the machine.
mod allowed_hosts;
mod auth_mode;
mod cassandra_url;
mod check_jwt;
mod check_settings;
mod checked_texts;
mod command_line_flags;
mod command_lists;
mod computed_defaults;
mod config_changes;
mod config_error;
mod cross_checks;
mod data_file;
mod demo_url;
mod effective_values;
mod env_variables;
mod eviction;
mod fill_settings;
mod gcache_file;
mod in_flight;
mod jwt_settings;
mod key_length;
mod listen_address;
mod load_config;
mod machine_limits;
mod nearest_name;
mod origin_options;
mod origin_url;
mod otlp_settings;
mod parse_setting;
mod peer_checks;
mod peer_entry;
mod peer_settings;
mod postgres_url;
mod print_config;
mod query_settings;
mod rate_limit;
mod raw_settings;
mod reference_page;
mod removed_settings;
mod replication_settings;
mod sample_file;
mod save_point;
mod secret;
mod secret_files;
mod sent_header;
mod setting_value;
mod settings;
mod settings_table;
mod short_file;
mod snapshot_settings;
mod source_url;
mod source_url_parser;
mod tls_client_settings;
mod tls_settings;
mod toml_file;
mod transport;
mod trusted_proxies;
mod url_parts;

pub use allowed_hosts::AllowedHosts;
pub use cassandra_url::{CassandraConsistency, CassandraUrl};
pub use check_settings::CheckedConfig;
pub use checked_texts::RESERVED_SEGMENTS;
pub use command_line_flags::{flag_args, flag_layer, with_candidates};
pub use command_lists::{AccessSettings, Categories, CommandList};
pub use config_changes::{ConfigChange, ConfigChanges};
pub use config_error::ConfigError;
pub use data_file::DataFile;
pub use demo_url::DemoUrl;
pub use effective_values::{EffectiveSettings, EffectiveValue, NamedTable};
pub use env_variables::Env;
pub use eviction::eviction_name;
pub use gcache_file::convert_gcache;
pub use jwt_settings::JwtSettings;
pub use listen_address::{Address, UnixSocket};
pub use load_config::{ConfigInput, load_config};
pub use machine_limits::Machine;
pub use nearest_name::nearest;
pub use origin_options::OriginOptions;
pub use origin_url::{OriginAddress, OriginUrl};
pub use otlp_settings::OtlpSettings;
pub use peer_entry::{GOSSIP_PORT, PeerAddress, PeerEntry, PeerNode, PodSelector, SrvName, Zone, ZonedPeerEntry};
pub use peer_settings::{HotCopies, LoadFactor, PeerDiscovery, PeerHash, PeerSettings, PeerTransport};
pub use postgres_url::{PostgresChanges, PostgresOptions, PostgresQuery, PostgresTlsMode, PostgresUrl, TargetServer};
pub use print_config::{ShownSetting, print_config, shown_settings};
pub use rate_limit::{Rate, RateLimit};
pub use raw_settings::{Layer, RawValue, SettingOrigin};
pub use reference_page::reference_page;
pub use replication_settings::{PrimaryAddress, PrimaryHttp, ReplicaWrites, ReplicationMode, ReplicationSettings};
pub use sample_file::sample_file;
pub use save_point::SavePoint;
pub use secret::Secret;
pub use sent_header::{SentHeader, SentValue, read_headers};
pub use setting_value::SettingValue;
pub use settings::{
    Coherence, FreshnessSettings, GroupSettings, ListenerSettings, LogFormat, LogLevel, PrefixSettings, RefreshAhead,
    Settings, TierMode,
};
pub use settings_table::{Fallback, SettingSection, SettingSpec, ValueKind, all_settings};
pub use short_file::read_short_file;
pub use snapshot_settings::{BucketSettings, SnapshotPlace, SnapshotSettings};
pub use source_url::{Deployment, RedisAddress, RedisUrl, SentinelUrl, SourceClass, SourceUrl};
pub use tls_client_settings::TlsClientSettings;
pub use tls_settings::{CertificateFiles, PeerTls, TlsClientAuth, TlsClientUser, TlsSettings};
pub use transport::Transport;
pub use trusted_proxies::{ForwardedHeader, ProxyProtocol, ProxySettings};
pub use wrapped_text::wrapped;

#[cfg(test)]
mod tests;
mod wrapped_text;
