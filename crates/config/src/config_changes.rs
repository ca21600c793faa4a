//! What a new configuration changes of the one that runs, and what of it holds without a restart.
use super::{
    check_settings::CheckedConfig,
    config_error::ConfigError,
    effective_values::{EffectiveSettings, EffectiveValue, NamedTable, prefix},
    fill_settings::settings,
    load_config::load_config,
    source_url::SourceUrl,
};

/// A setting, or a whole table of the file, that differs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ConfigChange {
    /// As in messages: `groups.NAME.ttl`; a table: `groups.NAME`.
    pub setting: String,
    /// The value that runs; `None`: it is a secret, or the table is new.
    pub from: Option<String>,
    /// The value of the new configuration; `None`: it is a secret, or the table is gone.
    pub to: Option<String>,
    /// Holds only after a restart.
    #[serde(skip)]
    pub needs_restart: bool,
}

/// All differences, and the configuration that runs once those without a restart are made.
#[derive(Debug)]
pub struct ConfigChanges {
    /// In the order of the configuration.
    pub all: Vec<ConfigChange>,
    /// What runs from then on.
    pub outcome: CheckedConfig,
}

impl CheckedConfig {
    /// Reads the file again and says what is different; the flags and the environment are those of
    /// the start.
    ///
    /// # Errors
    /// All problems of the new configuration, or of what would run: some of the old settings and
    /// some of the new may not fit together.
    pub fn changes(&self) -> Result<ConfigChanges, ConfigError> {
        if self.scopes.is_empty() {
            return Ok(ConfigChanges { all: Vec::new(), outcome: self.clone() });
        }
        let new = load_config(self.input.clone())?;
        let mut all = Vec::new();
        let mut scopes: Vec<EffectiveSettings> = Vec::new();
        for scope in &new.scopes {
            match self.scopes.iter().find(|old| old.table == scope.table) {
                Some(old) => {
                    let trades = self.trades_places(old, scope);
                    scopes.push(merged(old, scope, trades, &mut all));
                }
                None => {
                    let change = ConfigChange { from: None, ..table_change(scope) };
                    // A prefix of a group that is new comes with that group.
                    let comes = !change.needs_restart && self.has_group_of(scope);
                    all.push(ConfigChange { needs_restart: !comes, ..change });
                    scopes.extend(comes.then(|| scope.clone()));
                }
            }
        }
        for scope in self.scopes.iter().filter(|scope| new.scopes.iter().all(|other| other.table != scope.table)) {
            let change = ConfigChange { to: None, ..table_change(scope) };
            let stays = change.needs_restart || !new.has_group_of(scope);
            all.push(ConfigChange { needs_restart: stays, ..change });
            scopes.extend(stays.then(|| scope.clone()));
        }
        let outcome =
            CheckedConfig { settings: settings(&scopes), scopes, warnings: new.warnings, input: self.input.clone() };
        Ok(ConfigChanges { all, outcome })
    }

    /// Whether source and mirror of a group trade places, or its mirror is left out, or both.
    fn trades_places(&self, old: &EffectiveSettings, new: &EffectiveSettings) -> bool {
        let name = match &old.table {
            None => "default",
            Some(NamedTable::Group(name)) => name,
            Some(NamedTable::Listener(_) | NamedTable::Prefix(..)) => return false,
        };
        let Some(group) = self.settings.groups.iter().find(|group| group.name == name) else { return false };
        let (source, mirror) = (new.one::<SourceUrl>("source"), new.one::<SourceUrl>("mirror"));
        let keeps_source = source == Some(&group.source);
        let takes_mirror = source == group.mirror.as_ref() && group.may_swap();
        match mirror {
            None => keeps_source || takes_mirror,
            Some(mirror) => takes_mirror && *mirror == group.source,
        }
    }

    /// Whether the group of a prefix's table exists.
    fn has_group_of(&self, scope: &EffectiveSettings) -> bool {
        let Some(NamedTable::Prefix(group, _)) = &scope.table else { return false };
        let group = group.clone().map(NamedTable::Group);
        self.scopes.iter().any(|scope| scope.table == group)
    }
}

impl ConfigChanges {
    /// Those that hold without a restart.
    pub fn live(&self) -> impl Iterator<Item = &ConfigChange> {
        self.all.iter().filter(|change| !change.needs_restart)
    }
    /// Those that do not.
    pub fn restarts(&self) -> impl Iterator<Item = &ConfigChange> {
        self.all.iter().filter(|change| change.needs_restart)
    }
    /// Whether a setting of the process changes without a restart whose name begins so.
    pub fn is_live(&self, name: &str) -> bool {
        self.live().any(|change| change.setting.starts_with(name))
    }
}

/// The change of a whole table, which only that of a prefix makes without a restart.
fn table_change(scope: &EffectiveSettings) -> ConfigChange {
    let name = scope.table.as_ref().map(NamedTable::path).unwrap_or_default();
    let needs_restart = !matches!(scope.table, Some(NamedTable::Prefix(..)));
    let text = || Some("a table".to_owned());
    ConfigChange { setting: name, from: text(), to: text(), needs_restart }
}

/// The table as it runs once what can change has changed. Both have the values of the same
/// settings. `trades`: source and mirror change too.
fn merged(
    old: &EffectiveSettings,
    new: &EffectiveSettings,
    trades: bool,
    all: &mut Vec<ConfigChange>,
) -> EffectiveSettings {
    let text = |value: &EffectiveValue| value.shown().map(|(_, text)| text);
    let values = old.values.iter().zip(&new.values).map(|(old_value, new_value)| {
        let setting = old_value.setting;
        let is_live = setting.live || trades && matches!(setting.name, "source" | "mirror");
        if old_value.values != new_value.values {
            all.push(ConfigChange {
                setting: format!("{}{}", prefix(old.table.as_ref()), setting.name),
                from: text(old_value),
                to: text(new_value),
                needs_restart: !is_live,
            });
        }
        if is_live { new_value.clone() } else { old_value.clone() }
    });
    EffectiveSettings { table: old.table.clone(), values: values.collect() }
}
