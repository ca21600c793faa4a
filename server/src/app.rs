//! What is built once and passed down: [`App`] for the process, [`Worker`] for each core.
use crate::{
    config::Settings,
    dispatch::Calls,
    http,
    net::{clients::Clients, drain::Drain, throttle::Throttle},
    read::{Group, Writes},
    source::SourceSetup,
    telemetry::{Counters, Telemetry},
};
use std::{net::SocketAddr, rc::Rc, sync::Arc};

/// Shared by all cores; built by `net::run`.
pub struct App {
    /// The checked configuration, as at start.
    pub settings: Settings,
    /// The addresses really bound (port 0 resolved).
    pub bound: Bound,
    /// Counters of every worker, log level handle, start time, source health per group.
    pub telemetry: Telemetry,
    /// The memory tiers, index 0 is group `default`; same order as `Settings::groups`.
    pub caches: Vec<Arc<larder_engine::Cache>>,
    /// What the workers' sources have in common, and how they are doing; same order.
    pub sources: Vec<SourceSetup>,
    /// Writes under way to the groups' sources; same order.
    pub writes: Vec<Arc<Writes>>,
    /// How often each Redis command was called.
    pub calls: Calls,
    /// Who is connected: CLIENT LIST, CLIENT KILL.
    pub clients: Arc<Clients>,
    /// The limiters, `None` when nothing is limited.
    pub throttle: Option<Throttle>,
    /// Whether the process is on its way out.
    pub drain: Drain,
    /// Drawn at random at the start: tells this life of the server from all others (entity tags).
    pub instance: u64,
}

/// Addresses that the process listens on.
#[derive(Debug, Clone, Default)]
pub struct Bound {
    /// HTTP listeners.
    pub http: Vec<SocketAddr>,
    /// Redis-protocol listeners.
    pub redis: Vec<SocketAddr>,
    /// The admin listener.
    pub admin: Option<SocketAddr>,
}

/// One core's view: not `Send`, never locked.
pub struct Worker {
    /// Its number, from 0.
    pub id: usize,
    /// The process.
    pub app: Arc<App>,
    /// This core's handle on every group, index 0 is `default`.
    pub groups: Vec<Rc<Group>>,
    /// This core's counters (single writer).
    pub counters: Arc<Counters>,
    /// What its HTTP connections share.
    pub http: http::PerWorker,
}
