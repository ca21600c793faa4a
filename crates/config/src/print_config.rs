//! `larder config print`: the effective values as a TOML file, each with where it comes from.
use super::{
    check_settings::CheckedConfig,
    effective_values::{EffectiveValue, NamedTable, quote},
    raw_settings::SettingOrigin,
    secret::Secret,
    sent_header::{SentHeader, SentValue},
    setting_value::SettingValue,
    settings_table::{Fallback, SettingSection},
    source_url::{Deployment, SourceUrl},
};
use std::fmt::Write as _;

impl CheckedConfig {
    /// Leaves only what was set for [`print_config`] and [`shown_settings`].
    pub fn leave_out_defaults(&mut self) {
        for scope in &mut self.scopes {
            scope.values.retain(|effective| effective.origin != SettingOrigin::Default);
        }
    }
}

/// The file. It reads back as the same settings, except for secrets, which are left out.
pub fn print_config(config: &CheckedConfig) -> String {
    let mut out = String::new();
    for scope in &config.scopes {
        let mut lines: Vec<(SettingSection, String, String)> = Vec::new();
        for effective in &scope.values {
            let (line, comment) = line(effective);
            lines.push((effective.setting.section, line, comment));
        }
        if let Some(table) = &scope.table {
            let _ = writeln!(out, "[{}]", table.heading());
        }
        let width = lines.iter().map(|(_, line, _)| line.len()).max().unwrap_or(0).min(40);
        let mut section = None;
        for (of, line, comment) in &lines {
            if scope.table.is_none() && section.replace(*of).is_some_and(|last| last != *of) {
                out.push('\n');
            }
            let _ = writeln!(out, "{line:width$}  # {comment}");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

/// A setting as it is now, for those who look at it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShownSetting {
    /// Its name.
    pub name: &'static str,
    /// The table in which it stands: `groups.NAME`; `None`: the top level.
    pub table: Option<String>,
    /// The heading under which the documentation lists it.
    pub section: &'static str,
    /// The value as in the file, secrets masked; `None`: it has none and can be given none.
    pub value: Option<String>,
    /// Where it comes from: `default`, `flag --NAME`, `env NAME`, `FILE:LINE`.
    pub origin: String,
    /// It was set, be it to the default.
    pub is_set: bool,
    /// A reload changes it.
    pub live: bool,
    /// One or two sentences.
    pub help: &'static str,
}

/// All settings, those of the process and of group `default` first.
pub fn shown_settings(config: &CheckedConfig) -> Vec<ShownSetting> {
    let shown = |table: Option<String>, effective: &EffectiveValue| ShownSetting {
        name: effective.setting.name,
        table,
        section: effective.setting.section.title(),
        value: value_text(effective),
        origin: origin_text(effective),
        is_set: effective.origin != SettingOrigin::Default,
        live: effective.setting.live,
        help: effective.setting.help,
    };
    let scopes = config.scopes.iter();
    scopes
        .flat_map(|scope| {
            let table = scope.table.as_ref().map(NamedTable::path);
            scope.values.iter().map(move |effective| shown(table.clone(), effective))
        })
        .collect()
}

fn line(effective: &EffectiveValue) -> (String, String) {
    let (name, comment) = (effective.setting.name, origin_text(effective));
    match value_text(effective) {
        Some(shown) if effective.values.iter().any(holds_secret) => {
            (format!("# {name} = {shown}"), format!("{comment}; the secret is not shown"))
        }
        Some(text) => (format!("{name} = {text}"), comment),
        None => (format!("# {name}"), comment),
    }
}

fn origin_text(effective: &EffectiveValue) -> String {
    match (&effective.origin, effective.setting.default) {
        (SettingOrigin::Default, Fallback::Computed(how)) => format!("default: {how}"),
        (origin, _) => origin.to_string(),
    }
}

/// As in the file, secrets masked.
fn value_text(effective: &EffectiveValue) -> Option<String> {
    match effective.values.as_slice() {
        [] if effective.setting.optional => Some("\"none\"".to_string()),
        // Only a burst without its rate: it cannot be set, so it is not shown as if it could.
        [] => None,
        [value] => Some(toml(value)),
        values => Some(array(values)),
    }
}

fn array(values: &[SettingValue]) -> String {
    format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", "))
}

fn holds_secret(value: &SettingValue) -> bool {
    let has_password = |url: &SourceUrl| match url {
        SourceUrl::Redis(url) => {
            url.password.is_some()
                || matches!(&url.deployment, Deployment::Sentinel(sentinels) if sentinels.password.is_some())
        }
        SourceUrl::Postgres(url) => url.password.is_some(),
        SourceUrl::Cassandra(url) => url.password.is_some(),
        _ => false,
    };
    value.get::<Secret>().is_some()
        || value.get::<SentHeader>().is_some_and(|header| matches!(header.value, SentValue::Text(_)))
        || value.get().is_some_and(has_password)
}

fn toml(value: &SettingValue) -> String {
    match value.get::<u64>().is_some() || value.get::<bool>().is_some() {
        true => value.to_string(),
        false => quote(&value.to_string()),
    }
}
