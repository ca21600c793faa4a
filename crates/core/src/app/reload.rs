//! The configuration is read again while the server runs: what can change changes, all of it or,
//! where anything is wrong, nothing.
use super::{App, role_swap::RoleChange};
use crate::read::ProcessGroup;
use larder_base::telemetry::{EventKind, NewEvent};
use larder_config::{ConfigChange, ConfigChanges, ConfigError, GroupSettings, Settings, ShownSetting, shown_settings};

impl App {
    /// What a reload would change now.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn config_changes(&self) -> Result<ConfigChanges, ConfigError> {
        Ok(self.checked_changes()?.0)
    }

    fn checked_changes(&self) -> Result<(ConfigChanges, Vec<RoleChange<'_>>), ConfigError> {
        let changes = self.running.lock().changes()?;
        self.check_bounds(&changes)?;
        let roles = self.role_changes(&changes)?;
        Ok((changes, roles))
    }

    /// The values of the process's settings and of group `default`, by name, as they are now.
    /// Secrets are left out.
    pub fn shown_settings(&self) -> Vec<(&'static str, String)> {
        self.running.lock().settings.shown.clone()
    }

    /// All settings as they are now, each with where it comes from. Secrets are left out.
    pub fn settings_with_origins(&self) -> Vec<ShownSetting> {
        shown_settings(&self.running.lock())
    }

    /// Reads the configuration and the files of TLS again, and applies what can change. Settings
    /// that the new configuration does not change keep what CONFIG SET or an admin route gave
    /// them. It waits only where a source and its mirror trade places.
    ///
    /// # Errors
    /// What is wrong with the file. Nothing has changed then.
    pub async fn reload(&self) -> Result<ConfigChanges, ConfigError> {
        let outcome = self.read_again().await;
        log(&outcome);
        self.note_event(match &outcome {
            Ok(changes) => {
                let (changed, left) = (changes.live().count(), changes.restarts().count());
                let text = format!("the configuration was read again: {changed} changed, {left} need a restart");
                NewEvent::info(EventKind::Reload, None, text)
            }
            Err(error) => {
                let text = format!("the configuration was read again and nothing changed: {}", error.0.join("; "));
                NewEvent::warning(EventKind::Reload, None, text)
            }
        });
        outcome
    }

    async fn read_again(&self) -> Result<ConfigChanges, ConfigError> {
        // Held throughout: two reloads at the same time come one after the other.
        let _one = self.reloading.lock().await;
        let (changes, roles) = self.checked_changes()?;
        let mut paused = Vec::with_capacity(roles.len());
        for change in roles {
            let named = |problem: String| ConfigError(vec![format!("group {}: source: {problem}", change.name())]);
            let writers = change.pause().await.map_err(named)?;
            paused.push((change, writers));
        }
        self.reload_users()?;
        self.apply(&changes);
        paused.into_iter().for_each(|(change, writers)| change.apply(writers, self));
        self.groups.iter().filter_map(|group| group.source().table.as_ref()).for_each(|table| table.look_at_data());
        if let Some(tls) = &self.tls {
            tls.reload();
        }
        self.running.lock().clone_from(&changes.outcome);
        Ok(changes)
    }

    /// Like `reload`, with the outcome as a line for a service manager.
    pub async fn reload_and_say(&self) -> String {
        match self.reload().await {
            Ok(changes) => {
                let (changed, left) = (changes.live().count(), changes.restarts().count());
                format!("Serving; the configuration was read again: {changed} changed, {left} need a restart")
            }
            Err(error) => format!("Serving; the last reload changed nothing: {}", error.0.join("; ")),
        }
    }

    /// Reads the users file again. Without a file, users are what ACL SETUSER made of them.
    pub fn reload_users(&self) -> Result<(), ConfigError> {
        if self.users.file().is_some() {
            let users = self.users.load().map_err(ConfigError)?;
            self.users_changed(&users, 0);
        }
        Ok(())
    }

    /// The groups that run, with their new settings. Groups come and go only with a restart, but they
    /// may stand in another order.
    pub(super) fn groups_of<'a, 's>(
        &'a self,
        settings: &'s Settings,
    ) -> impl Iterator<Item = (&'a ProcessGroup, &'s GroupSettings)> {
        let new = move |own: &ProcessGroup| settings.groups.iter().find(|group| group.name == own.settings.name);
        self.groups.iter().filter_map(move |own| Some((own, new(own)?)))
    }

    /// Bounds on memory that cannot be without a restart.
    fn check_bounds(&self, changes: &ConfigChanges) -> Result<(), ConfigError> {
        let groups = self.groups_of(&changes.outcome.settings);
        let changed = groups.filter(|(group, _)| changes.is_live(&max_memory_path(group)));
        let problem = |(group, new): (&ProcessGroup, &GroupSettings)| {
            Some(format!("group {}: {}", new.name, group.bound_problem(new.max_memory)?))
        };
        let problems: Vec<String> = changed.filter_map(problem).collect();
        if problems.is_empty() { Ok(()) } else { Err(ConfigError(problems)) }
    }

    fn apply(&self, changes: &ConfigChanges) {
        let settings = &changes.outcome.settings;
        self.live.replace(settings);
        if changes.is_live("throttle") {
            self.gate.throttle.replace(settings);
        }
        if changes.is_live("log-level") {
            self.telemetry.logs.set_level(settings.log_level);
        }
        let slow = &self.telemetry.slow;
        if changes.is_live("slowlog-log-slower-than") {
            slow.log_from(settings.slowlog_log_slower_than);
        }
        if changes.is_live("tracking-table-max-keys") {
            self.tables.tracking.set_max_keys(settings.tracking_table_max_keys);
        }
        for (group, new) in self.groups_of(settings) {
            if changes.is_live(&max_memory_path(group)) {
                self.set_max_memory(group, new.max_memory);
            }
            group.reload(new);
        }
    }
}

/// The name of a group's `max-memory` among the changes.
fn max_memory_path(group: &ProcessGroup) -> String {
    match group.number {
        0 => "max-memory".to_owned(),
        _ => format!("groups.{}.max-memory", group.settings.name),
    }
}

/// Whether the setting says where the entries of a group are.
fn is_role(setting: &str) -> bool {
    matches!(setting, "source" | "mirror")
}

fn log(outcome: &Result<ConfigChanges, ConfigError>) {
    let list = |changes: &mut dyn Iterator<Item = &ConfigChange>| {
        changes.map(|change| &*change.setting).collect::<Vec<_>>().join(", ")
    };
    match outcome {
        Ok(changes) => {
            let (changed, needs_restart) = (list(&mut changes.live()), list(&mut changes.restarts()));
            let version = env!("CARGO_PKG_VERSION");
            tracing::warn!(version, changed, needs_restart, "the configuration was read again");
            let is_of_source = |change: &ConfigChange| change.setting.rsplit('.').next().is_some_and(is_role);
            if changes.restarts().any(is_of_source) {
                tracing::warn!(
                    "without a restart, a source can only trade places with its mirror: stores (disk:, cassandra://) with stores, one Redis with another, without peers; a mirror can only be left out"
                );
            }
        }
        Err(error) => {
            for problem in &error.0 {
                tracing::error!("the configuration was read again and nothing changed: {problem}");
            }
        }
    }
}
