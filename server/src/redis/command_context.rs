//! One command being run.
use super::{
    command::{Command, Run},
    command_error::{CommandError, TOO_LONG},
    session::Session,
};
use crate::{app::Worker, read::Group};
use larder_engine::{Cache, Key, Millis, Tier};
use larder_proto::resp::{Args, Reply};
use std::{rc::Rc, sync::atomic::Ordering::Relaxed};

/// Everything that a command's function needs.
pub(super) struct CommandContext<'c> {
    pub(super) worker: &'c Worker,
    pub(super) session: &'c mut Session,
    pub(super) command: &'static Command,
    pub(super) args: Args<'c>,
    pub(super) now: Millis,
    /// Within EXEC.
    pub(super) nested: bool,
    pub(super) reply: Reply<'c>,
}

impl<'c> CommandContext<'c> {
    /// The group that the Redis protocol serves.
    #[inline]
    pub(super) fn group(&self) -> &'c Rc<Group> {
        &self.worker.groups[0]
    }
    /// Its memory tier.
    #[inline]
    pub(super) fn cache(&self) -> &'c Cache {
        &self.group().cache
    }
    /// An argument that the command's arity says is there.
    #[inline]
    pub(super) fn arg(&self, index: usize) -> &'c [u8] {
        self.args.get(index).expect("the arity was checked")
    }
    /// An argument, hashed as a key.
    #[inline]
    pub(super) fn key(&self, index: usize) -> Key<'c> {
        self.cache().key(self.arg(index))
    }

    /// Shows others a forwarded command as its client's last one (CLIENT LIST). One that blocks is shown once Redis has it: who sees it may
    /// unblock it.
    pub(super) fn show_forwarded(&self) {
        if matches!(self.command.run, Run::Forward) {
            let client = &self.session.client;
            client.forwarded.set(&self.args[0], self.args.get(1));
            client.command.store(self.command.index, Relaxed);
        }
    }

    /// Refuses keys that no entry can have.
    #[inline]
    pub(super) fn check_keys(&self) -> Result<(), CommandError> {
        let max = self.worker.app.settings.max_key;
        match self.command.keys.of(self.args).all(|key| (1..=max).contains(&key.len())) {
            true => Ok(()),
            false => Err(bad_key(max)),
        }
    }
    /// Refuses values longer than `max-value`.
    #[inline]
    pub(super) fn check_len(&self, len: usize) -> Result<(), CommandError> {
        match len <= self.worker.app.settings.max_value {
            true => Ok(()),
            false => Err(TOO_LONG),
        }
    }

    /// The tier, locked as this command needs it: what concerns several keys is atomic.
    pub(super) fn lock(&self) -> Tier<'c> {
        let keys = self.command.keys.of(self.args);
        match keys.len() {
            0 | 1 => self.cache().tier(),
            _ => self.cache().exclusive(keys.map(|key| self.cache().key(key))),
        }
    }
}

#[cold]
fn bad_key(max: usize) -> CommandError {
    CommandError::Told(format!("ERR a key has 1 to {max} bytes (max-key)").into_bytes())
}
