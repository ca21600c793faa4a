//! A row of the table of settings.
use super::{setting_section::SettingSection, value_kind::ValueKind};

/// One setting. Its flag is `--name`, its file key `name`, its variable [`SettingSpec::env`].
#[derive(Debug)]
pub struct SettingSpec {
    /// Lower case, words joined by hyphens.
    pub name: &'static str,
    /// Where help and documentation list it.
    pub section: SettingSection,
    /// How its text is read.
    pub kind: ValueKind,
    /// The value if it is not set.
    pub default: Fallback,
    /// Takes `none` or `off` (or nothing).
    pub optional: bool,
    /// Takes several values: a repeated flag, a comma-separated variable, an array in the file.
    pub many: bool,
    /// May also stand under `[groups.NAME]`; the flag and the variable set group `default`.
    pub per_group: bool,
    /// May also stand under `[listeners.NAME]`, for which else the top level's value holds; the
    /// flag and the variable set the top level.
    pub per_listener: bool,
    /// May also stand under `[prefixes."PREFIX"]` of a group, for which else the group's value
    /// holds.
    pub per_prefix: bool,
    /// A reload of the configuration changes it; what is not needs a restart.
    pub live: bool,
    /// Variables of other programs that mean the same, with less weight than our own.
    pub also: &'static [&'static str],
    /// A value other than the default, for the documentation and the tests.
    pub example: &'static str,
    /// One or two sentences.
    pub help: &'static str,
}

impl PartialEq for SettingSpec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A setting's default.
#[derive(Debug, Clone, Copy)]
pub enum Fallback {
    /// This text, read like any other.
    Is(&'static str),
    /// None.
    Off,
    /// Worked out when checked (`computed_defaults.rs`); the text says how.
    Computed(&'static str),
}

impl SettingSpec {
    /// What the rows of a section start from: a setting that is not optional, not live, and has one
    /// value for the whole process.
    pub(super) const fn in_section(section: SettingSection) -> SettingSpec {
        SettingSpec {
            name: "",
            section,
            kind: ValueKind::Path,
            default: Fallback::Off,
            optional: false,
            many: false,
            per_group: false,
            per_listener: false,
            per_prefix: false,
            live: false,
            also: &[],
            example: "",
            help: "",
        }
    }
    /// Its environment variable: `LARDER_MAX_MEMORY` for `max-memory`.
    pub fn env(&self) -> String {
        format!("LARDER_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }
}
