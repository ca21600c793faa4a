//! The sections of help and documentation.

/// Headings of help and documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingSection {
    Listening,
    Tls,
    Cache,
    Freshness,
    Source,
    Store,
    Snapshots,
    Peers,
    Replication,
    Limits,
    Throttle,
    Process,
}
impl SettingSection {
    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            SettingSection::Listening => "Listening",
            SettingSection::Tls => "TLS",
            SettingSection::Cache => "Memory tier",
            SettingSection::Freshness => "Freshness",
            SettingSection::Source => "Source",
            SettingSection::Store => "Disk store",
            SettingSection::Snapshots => "Snapshots",
            SettingSection::Peers => "Peers",
            SettingSection::Replication => "Replication",
            SettingSection::Limits => "Limits",
            SettingSection::Throttle => "Throttle",
            SettingSection::Process => "Process",
        }
    }
}
