//! Settings before they are checked: text, and where it comes from.
use super::{peer_entry::PODS, settings_table::SettingSpec};
use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
    Default,
    File {
        path: Arc<PathBuf>,
        line: usize,
    },
    /// The variables' names.
    Env(String),
    /// The flag's name without hyphens.
    Flag(&'static str),
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingOrigin::Default => f.write_str("default"),
            SettingOrigin::File { path, line } => write!(f, "{}:{line}", path.display()),
            SettingOrigin::Env(name) => write!(f, "env {name}"),
            SettingOrigin::Flag(name) => write!(f, "flag --{name}"),
        }
    }
}

/// A setting's text: several values for settings that take several, none for an empty list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawValue {
    /// As written.
    pub texts: Vec<String>,
    /// Where.
    pub origin: SettingOrigin,
}

/// What one layer (flags, environment, file) sets, by the setting's name.
pub type Layer = BTreeMap<&'static str, RawValue>;

/// A table `[groups.NAME]`, `[listeners.NAME]` or `[prefixes."PREFIX"]`.
#[derive(Debug)]
pub(super) struct RawTable {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub origin: SettingOrigin,
    /// What it sets.
    pub layer: Layer,
    /// A group's prefixes, in the order of the file.
    pub prefixes: Vec<RawTable>,
}

/// All layers on top of one another.
#[derive(Debug, Default)]
pub(super) struct RawSettings {
    /// The process and group `default`.
    pub top: Layer,
    /// The prefixes of group `default`, in the order of the file.
    pub prefixes: Vec<RawTable>,
    /// Named groups in the order of the file.
    pub groups: Vec<RawTable>,
    /// Named listeners, likewise.
    pub listeners: Vec<RawTable>,
}

impl RawSettings {
    /// Puts a layer under those given before.
    pub(super) fn add_below(&mut self, layer: Layer) {
        for (name, value) in layer {
            self.top.entry(name).or_insert(value);
        }
    }
}

/// Splits the text of a variable or flag: at commas if the setting takes several values; nothing at
/// all is no value.
pub(super) fn split(setting: &SettingSpec, text: &str) -> Vec<String> {
    if setting.name == "peers" && text.trim_start().starts_with(PODS) {
        // A label selector has commas of its own.
        vec![text.trim().to_string()]
    } else if setting.many {
        text.split(',').map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
    } else {
        vec![text.to_string()]
    }
}
