//! The table of settings: what feeds flags, environment, file, help, documentation and `config
//! print`. A file for each section.
//!
//! To add a setting: a row in the file of its section, a field in
//! [`Settings`](super::settings::Settings) and the line in `fill_settings.rs` that fills it. Tests
//! fail until all three agree.
mod disk_store;
mod freshness;
mod limits;
mod listening;
mod memory_tier;
mod peers;
mod process;
mod quantities;
mod replication;
mod setting_section;
mod setting_spec;
mod snapshots;
mod source;
mod throttle;
mod tls;
mod value_kind;

pub use setting_section::SettingSection;
pub use setting_spec::{Fallback, SettingSpec};
pub use value_kind::ValueKind;

/// The rows of each section, in the order of the documentation.
const SECTIONS: [&[SettingSpec]; 12] = [
    listening::LISTENING,
    tls::TLS,
    memory_tier::MEMORY_TIER,
    freshness::FRESHNESS,
    source::SOURCE,
    disk_store::DISK_STORE,
    snapshots::SNAPSHOTS,
    peers::PEERS,
    replication::REPLICATION,
    limits::LIMITS,
    throttle::THROTTLE,
    process::PROCESS,
];

/// The rows of each section after its heading, in the order of the documentation.
pub(super) fn sections() -> impl Iterator<Item = (&'static str, &'static [SettingSpec])> {
    SECTIONS.into_iter().filter_map(|rows| Some((rows.first()?.section.title(), rows)))
}

/// Every setting.
pub fn all_settings() -> impl Iterator<Item = &'static SettingSpec> {
    SECTIONS.into_iter().flatten()
}

/// The setting of that name.
pub(super) fn find(name: &str) -> Option<&'static SettingSpec> {
    all_settings().find(|setting| setting.name == name)
}
