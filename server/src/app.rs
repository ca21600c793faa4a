//! What is built once and passed down: [`App`] for the process, [`Worker`] for each core.
use crate::{
    config::Settings,
    read::Group,
    telemetry::{Counters, Telemetry},
};
use std::{rc::Rc, sync::Arc};

/// Shared by all cores; built in `main`.
pub struct App {
    /// The checked configuration, as at start.
    pub settings: Settings,
    /// Counters of every worker, log level handle, start time, source health per group.
    pub telemetry: Telemetry,
    /// The memory tiers, index 0 is group `default`; same order as `Settings::groups`.
    pub caches: Vec<Arc<larder_engine::Cache>>,
    // also: client registry (net), throttle (net), drain signal (net)
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
}
