//! (room being built)
use crate::{config::Settings, telemetry::Logs};

/// (stub until branch `net` arrives)
pub fn run(_settings: Settings, _logs: Logs) -> Result<(), String> {
    Err("this build has no server".to_string())
}
