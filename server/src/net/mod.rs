//! (room being built)
use crate::config::Settings;

/// (stub until branch `net` arrives)
pub fn run(_settings: Settings) -> Result<(), String> {
    Err("this build has no server".to_string())
}
