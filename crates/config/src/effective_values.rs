//! The effective values of settings: what holds after all layers and defaults, with where each
//! value comes from.
use super::{
    listen_address::Address,
    raw_settings::SettingOrigin,
    setting_value::{Percent, SettingValue, Share, Size, Span},
    settings_table::{SettingSpec, ValueKind},
};
use std::{any::Any, time::Duration};

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
    /// The only or first value; `None`: the setting is off.
    pub(super) fn one<T: Any>(&self, name: &str) -> Option<&T> {
        self.effective(name).values.first()?.get()
    }
    pub(super) fn all<T: Any>(&self, name: &str) -> impl Iterator<Item = &T> {
        self.effective(name).values.iter().filter_map(SettingValue::get)
    }
    pub(super) fn is_set(&self, name: &str) -> bool {
        !self.effective(name).values.is_empty()
    }
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.one(name) == Some(&true)
    }
    pub(super) fn count(&self, name: &str) -> Option<usize> {
        let value = self.effective(name).values.first()?;
        let number = value.get::<Size>().map(|size| size.0).or_else(|| value.get::<Percent>().map(|of| of.0));
        number.or_else(|| value.get().copied()).map(|number| number as usize)
    }
    pub(super) fn number(&self, name: &str) -> usize {
        self.count(name).expect("a setting that is not optional has a number")
    }
    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        self.one::<Span>(name).map(|span| span.0)
    }
    pub(super) fn share(&self, name: &str) -> Option<u32> {
        self.one::<Share>(name).map(|share| share.0)
    }
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.one::<String>(name).map(String::as_str)
    }
    pub(super) fn texts(&self, name: &str) -> Vec<&str> {
        self.all::<String>(name).map(String::as_str).collect()
    }
    pub(super) fn addresses(&self, name: &str) -> Vec<Address> {
        self.all(name).cloned().collect()
    }
    /// The prefixes of tracked keys. A prefix of every key is written `*`.
    pub(super) fn tracking_prefixes(&self) -> Vec<&str> {
        self.texts("tracking-prefixes").into_iter().map(|prefix| if prefix == "*" { "" } else { prefix }).collect()
    }
}
