//! The effective values of settings: what holds after all layers and defaults, with where each
//! value comes from.
use super::{
    rate_limit::{Rate, RateLimit},
    raw_settings::SettingOrigin,
    save_point::SavePoint,
    secret::Secret,
    sent_header::SentHeader,
    setting_value::SettingValue,
    settings::RefreshAhead,
    settings_table::{SettingSpec, ValueKind},
};
use ipnet::IpNet;
use std::{net::SocketAddr, time::Duration};

/// One setting's effective value.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveValue {
    /// Its row.
    pub setting: &'static SettingSpec,
    /// None: off.
    pub values: Vec<SettingValue>,
    /// Where it was set.
    pub origin: SettingOrigin,
}
impl EffectiveValue {
    /// Its name, and its values as text: `none` if there are none. A secret is not shown; a
    /// password in a URL is left out by the URL.
    pub(super) fn shown(&self) -> Option<(&'static str, String)> {
        let is_secret = matches!(self.setting.kind, ValueKind::Secret);
        let values: Vec<String> = self.values.iter().map(SettingValue::to_string).collect();
        let text = if values.is_empty() { "none".to_owned() } else { values.join(",") };
        (!is_secret).then_some((self.setting.name, text))
    }
}
/// A table with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedTable {
    /// `[groups.NAME]`
    Group(String),
    /// `[listeners.NAME]`
    Listener(String),
    /// `[prefixes."PREFIX"]` of group `default` (`None`), or `[groups.NAME.prefixes."PREFIX"]`
    Prefix(Option<String>, String),
}
impl NamedTable {
    /// Its place in the file, as in messages: `groups.NAME`.
    pub(super) fn path(&self) -> String {
        match self {
            NamedTable::Group(name) => format!("groups.{name}"),
            NamedTable::Listener(name) => format!("listeners.{name}"),
            NamedTable::Prefix(None, prefix) => format!("prefixes.{}", quote(prefix)),
            NamedTable::Prefix(Some(group), prefix) => format!("groups.{group}.prefixes.{}", quote(prefix)),
        }
    }
    /// Its heading in the file, without brackets. Only a name with a dot needs quotes; a prefix may
    /// be any text.
    pub(super) fn heading(&self) -> String {
        let key = |name: &str| if name.contains('.') { quote(name) } else { name.to_string() };
        match self {
            NamedTable::Group(name) => format!("groups.{}", key(name)),
            NamedTable::Prefix(Some(group), prefix) => format!("groups.{}.prefixes.{}", key(group), quote(prefix)),
            NamedTable::Listener(name) => format!("listeners.{}", key(name)),
            NamedTable::Prefix(None, _) => self.path(),
        }
    }
    pub(super) fn takes(&self, setting: &SettingSpec) -> bool {
        match self {
            NamedTable::Group(_) => setting.per_group,
            NamedTable::Listener(_) => setting.per_listener,
            NamedTable::Prefix(..) => setting.per_prefix,
        }
    }
}

/// The effective values of the process with group `default`, of a named group, or of a named
/// listener.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveSettings {
    /// `None`: the process and group `default`.
    pub table: Option<NamedTable>,
    /// In the order of the table.
    pub values: Vec<EffectiveValue>,
}

/// What stands before a setting's name in a message.
pub(super) fn prefix(table: Option<&NamedTable>) -> String {
    table.map_or(String::new(), |table| format!("{}.", table.path()))
}

/// A TOML string. JSON's escapes are TOML's as well; TOML alone forbids DEL.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Reading values out by name. The names and kinds are the table's, so a mismatch is a mistake in
/// this room; tests read every setting.
impl EffectiveSettings {
    pub(super) fn effective(&self, name: &str) -> &EffectiveValue {
        let found = self.values.iter().find(|effective| effective.setting.name == name);
        found.expect("the name is in the table and in this scope")
    }
    pub(super) fn one(&self, name: &str) -> Option<&SettingValue> {
        self.effective(name).values.first()
    }
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.one(name) == Some(&SettingValue::Switch(true))
    }
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        match self.one(name) {
            Some(SettingValue::Size(n) | SettingValue::Count(n) | SettingValue::Percent(n)) => Some(*n as usize),
            _ => None,
        }
    }
    pub(super) fn number(&self, name: &str) -> usize {
        self.count(name).expect("a setting that is not optional has a number")
    }
    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        match self.one(name) {
            Some(SettingValue::Duration(duration)) => Some(*duration),
            _ => None,
        }
    }
    pub(super) fn refresh_ahead(&self, name: &str) -> Option<RefreshAhead> {
        match self.one(name) {
            Some(SettingValue::RefreshAhead(when)) => Some(*when),
            _ => None,
        }
    }
    pub(super) fn share(&self, name: &str) -> Option<u32> {
        match self.one(name) {
            Some(SettingValue::Share(millionths)) => Some(*millionths),
            _ => None,
        }
    }
    pub(super) fn rate(&self, name: &str) -> Option<Rate> {
        match self.one(name) {
            Some(SettingValue::Rate(n)) => Some(*n),
            _ => None,
        }
    }
    pub(super) fn save_points(&self, name: &str) -> Vec<SavePoint> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let SettingValue::SavePoint(point) = v { Some(*point) } else { None }).collect()
    }
    pub(super) fn rate_limits(&self, name: &str) -> Vec<RateLimit> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let SettingValue::RateLimit(limit) = v { Some(limit.clone()) } else { None }).collect()
    }
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.one(name) {
            Some(SettingValue::Text(text)) => Some(text),
            _ => None,
        }
    }
    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let SettingValue::Text(text) = v { Some(text.as_str()) } else { None }).collect()
    }
    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        match self.one(name) {
            Some(SettingValue::Secret(secret)) => Some(secret.clone()),
            _ => None,
        }
    }
    pub(super) fn addresses(&self, name: &str) -> Vec<SocketAddr> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let SettingValue::Address(a) = v { Some(*a) } else { None }).collect()
    }
    pub(super) fn address_ranges(&self, name: &str) -> Vec<IpNet> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let SettingValue::AddressRange(range) = v { Some(*range) } else { None }).collect()
    }
    pub(super) fn headers(&self, name: &str) -> Vec<SentHeader> {
        let values = self.effective(name).values.iter();
        values.filter_map(|v| if let SettingValue::Header(header) = v { Some(header.clone()) } else { None }).collect()
    }
    /// The prefixes of tracked keys. A prefix of every key is written `*`.
    pub(super) fn tracking_prefixes(&self) -> Vec<&str> {
        self.texts("tracking-prefixes").into_iter().map(|prefix| if prefix == "*" { "" } else { prefix }).collect()
    }
}
