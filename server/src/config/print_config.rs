//! `larder config print`: the effective values as a TOML file, each with where it comes from.
use super::{
    check_settings::CheckedConfig,
    effective_values::{EffectiveValue, quote},
    raw_settings::SettingOrigin,
    sent_header::SentValue,
    setting_value::SettingValue,
    settings_table::{Fallback, SettingSection},
    source_url::{Deployment, SourceUrl},
};
use std::fmt::Write as _;

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

fn line(effective: &EffectiveValue) -> (String, String) {
    let EffectiveValue { setting, values, origin } = effective;
    let comment = match (origin, setting.default) {
        (SettingOrigin::Default, Fallback::Computed(how)) => format!("default: {how}"),
        _ => origin.to_string(),
    };
    if values.iter().any(holds_secret) {
        let shown = match values.as_slice() {
            [value] => toml(value),
            values => array(values),
        };
        return (format!("# {} = {shown}", setting.name), format!("{comment}; the secret is not shown"));
    }
    let text = match values.as_slice() {
        [] if setting.optional => "\"none\"".to_string(),
        // Only a burst without its rate: it cannot be set, so it is not shown as if it could.
        [] => return (format!("# {}", setting.name), comment),
        [value] => toml(value),
        values => array(values),
    };
    (format!("{} = {text}", setting.name), comment)
}

fn array(values: &[SettingValue]) -> String {
    format!("[{}]", values.iter().map(toml).collect::<Vec<_>>().join(", "))
}

fn holds_secret(value: &SettingValue) -> bool {
    match value {
        SettingValue::Secret(_) => true,
        SettingValue::Header(header) => matches!(header.value, SentValue::Text(_)),
        SettingValue::Source(SourceUrl::Redis(url)) => {
            url.password.is_some()
                || matches!(&url.deployment, Deployment::Sentinel(sentinels) if sentinels.password.is_some())
        }
        _ => false,
    }
}

fn toml(value: &SettingValue) -> String {
    match value {
        SettingValue::Count(n) => n.to_string(),
        SettingValue::Switch(on) => on.to_string(),
        other => quote(&other.to_string()),
    }
}
