//! Settings as typed (flag, environment, file), then checked. One table feeds parser, help, documentation and `config print`.
use std::{net::SocketAddr, time::Duration};

/// The checked configuration.
#[derive(Debug, Clone)]
#[expect(missing_docs)]
pub struct Settings {
    pub http: Vec<SocketAddr>,
    pub redis: Vec<SocketAddr>,
    pub admin: Option<SocketAddr>,
    /// Group `default` first.
    pub groups: Vec<GroupSettings>,
    pub threads: usize,
    pub data_dir: Option<std::path::PathBuf>,
    pub password: Option<String>,
    pub max_key: usize,
    pub max_value: usize,
    pub max_body: usize,
    pub max_headers: usize,
    pub max_pipeline: usize,
    pub max_connections: usize,
    pub idle_timeout: Option<Duration>,
    pub header_timeout: Duration,
    pub grace: Duration,
    pub source_timeout: Duration,
    pub source_max_in_flight: usize,
    pub source_connections: usize,
    /// Requests per second: per client address and in total; `None` is off.
    pub throttle_client: Option<Rate>,
    pub throttle_total: Option<Rate>,
    pub throttle_admin: Option<Rate>,
    pub log_level: String,
    pub log_format: LogFormat,
}
/// Requests per second and burst.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs)]
pub struct Rate {
    pub per_second: u32,
    pub burst: u32,
}
/// Log format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs)]
pub enum LogFormat {
    Text,
    Json,
}
/// One group's settings.
#[derive(Debug, Clone)]
#[expect(missing_docs)]
pub struct GroupSettings {
    pub name: String,
    pub source: SourceUrl,
    pub max_memory: usize,
    pub max_keys: Option<usize>,
    pub ttl: Option<Duration>,
    pub ttl_jitter: u8,
    pub negative_ttl: Option<Duration>,
}
/// A parsed source URL.
#[derive(Debug, Clone)]
pub enum SourceUrl {
    /// `none:`
    None,
    /// `redis://`, `rediss://`, `unix://`
    Redis(RedisUrl),
}
/// A Redis source.
#[derive(Debug, Clone)]
#[expect(missing_docs)]
pub struct RedisUrl {
    pub address: RedisAddress,
    pub tls: Option<TlsUrl>,
    pub user: Option<String>,
    pub password: Option<String>,
    pub database: u32,
}
/// Where it listens.
#[derive(Debug, Clone)]
#[expect(missing_docs)]
pub enum RedisAddress {
    Tcp { host: String, port: u16 },
    Unix(std::path::PathBuf),
}
/// TLS: `rediss://host:port/db?ca=FILE&cert=FILE&key=FILE&insecure=true`.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs)]
pub struct TlsUrl {
    pub ca: Option<std::path::PathBuf>,
    pub cert: Option<std::path::PathBuf>,
    pub key: Option<std::path::PathBuf>,
    pub insecure: bool,
}
