//! A reload has the source and the mirror of a group trade places while clients read and write.
//!
//! ```text
//! all key locks are taken, and the gate in front of a Redis is closed: the last write has ended, and
//! none begins
//!   └► the mirror's task has copied what was written
//!        └► the new settings, the roles, an empty memory tier
//!             └► the locks are released: the writers that waited write to the new source
//! ```
use super::App;
use crate::read::{KeyGuard, ProcessGroup};
use larder_base::telemetry::{EventKind, NewEvent};
use larder_config::{ConfigChanges, ConfigError};
use larder_source::DrainedMirror;
use std::{cell::Cell, time::Duration};
use tokio::{
    sync::OwnedRwLockWriteGuard,
    time::{sleep, timeout},
};

/// How often writers are paused for it.
const TRIES: usize = 5;
/// A cluster orders writes by the clocks of its nodes. Writers wait until all of these are past the
/// last write of the mirror's task.
const CLOCKS: Duration = Duration::from_millis(20);

/// The problem of commands that do not end.
const BUSY: &str = "commands do not end, or clients have connections of their own to the source: a login, SELECT, WATCH, SUBSCRIBE, CLIENT TRACKING, or a command that blocks";

/// What a reload changes of a group's source and mirror.
pub(super) struct RoleChange<'a> {
    group: &'a ProcessGroup,
    /// The two trade places.
    swaps: bool,
    /// Nothing is mirrored from then on.
    drops: bool,
}

/// A group whose writers wait until this is dropped, and whose mirror has what they wrote.
pub(super) struct PausedWriters {
    drained: DrainedMirror,
    _held: KeyGuard,
    _closed: OwnedRwLockWriteGuard<()>,
}

impl App {
    /// What these changes change of sources and mirrors.
    ///
    /// # Errors
    /// It cannot be done now.
    pub(super) fn role_changes(&self, changes: &ConfigChanges) -> Result<Vec<RoleChange<'_>>, ConfigError> {
        let mut roles: Vec<RoleChange<'_>> = Vec::new();
        let mut problems = Vec::new();
        for (group, new) in self.groups_of(&changes.outcome.settings) {
            let Some((_, mirror)) = group.mirror() else { continue };
            let swaps = group.mirror_url() == Some(&new.source);
            let drops = new.mirror.is_none();
            let is_first = || roles.iter().all(|other| !other.swaps);
            let problem = match swaps {
                false => None,
                true if !is_first() => Some("the source of one group at a time can change".to_owned()),
                true => mirror.swap_problem(),
            };
            match problem {
                Some(problem) => problems.push(format!("group {}: source: {problem}", new.name)),
                None if swaps || drops => roles.push(RoleChange { group, swaps, drops }),
                None => {}
            }
        }
        if problems.is_empty() { Ok(roles) } else { Err(ConfigError(problems)) }
    }
}

impl RoleChange<'_> {
    pub(super) fn name(&self) -> &str {
        &self.group.settings.name
    }

    /// Has writers wait until the mirror has what was written; `None`: they need not.
    ///
    /// # Errors
    /// The mirror does not get there while clients wait. Writers go on.
    pub(super) async fn pause(&self) -> Result<Option<PausedWriters>, String> {
        let Some((_, mirror)) = self.group.mirror().filter(|_| self.swaps) else { return Ok(None) };
        // Writers that wait for longer would get an error.
        let patience = self.group.settings.freshness.source_timeout / 2;
        let is_cluster = self.group.mirror_url().is_some_and(|url| url.is_cluster());
        for _ in 0..TRIES {
            let has_ended = Cell::new(false);
            let pause = async {
                let held = self.group.writes.hold_all().await;
                let closed = mirror.close().await;
                has_ended.set(true);
                let drained = mirror.drain().await?;
                if is_cluster {
                    sleep(CLOCKS).await;
                }
                Some(PausedWriters { drained, _held: held, _closed: closed })
            };
            if let Ok(Some(paused)) = timeout(patience, pause).await {
                // The last of the writes may be one that the mirror cannot keep.
                return mirror.swap_problem().map_or(Ok(Some(paused)), Err);
            }
            if let Some(problem) = mirror.swap_problem() {
                return Err(problem);
            }
            if !has_ended.get() {
                return Err(BUSY.to_owned());
            }
            // They catch up.
            sleep(patience).await;
        }
        Err("the mirror lags behind the writers, who cannot wait longer: reload again".to_owned())
    }

    /// Changes the roles. The settings of the new source are in place already.
    pub(super) fn apply(&self, paused: Option<PausedWriters>, app: &App) {
        let RoleChange { group, drops, .. } = self;
        let Some((_, mirror)) = group.mirror() else { return };
        if let Some(paused) = &paused {
            mirror.swap(&paused.drained);
            // Copies had the lifetimes of the other source.
            group.cache.tier().clear();
            group.writes.source_changed();
            group.follow_events();
        }
        if *drops {
            mirror.drop_mirror();
        }
        let name = self.name();
        let source = group.source_url().to_string();
        let to = group.mirror_url().map_or_else(|| "none".to_owned(), ToString::to_string);
        tracing::warn!(group = name, source, mirror = to, "the source and its mirror changed");
        let text = format!("the source is {source} now, its mirror {to}");
        app.note_event(NewEvent::info(EventKind::Reload, Some(name), text));
    }
}
