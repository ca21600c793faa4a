//! Reads of clients that track. They are noted before another client can change the keys.
use super::{
    command::{Command, CommandKind, Flags, TransactionStep},
    command_context::CommandContext,
    forwarded_commands,
    session::Session,
};
use larder_engine::Tier;
use larder_proto::resp::Args;

/// Notes what a command will read, before the source answers it. Invalidations that arrive
/// meanwhile are delivered after the reply.
pub(super) fn note_first(call: &CommandContext<'_>) {
    let session = &call.session;
    match (&session.multi, call.command.kind) {
        (Some(multi), CommandKind::Transaction(TransactionStep::Exec)) => {
            multi.queue.iter().for_each(|(command, args)| note(call, command, args));
        }
        (Some(_), _) => {}
        (None, _) => note(call, call.command, call.args),
    }
}

fn note(call: &CommandContext<'_>, command: &Command, args: Args<'_>) {
    let known = match command.kind {
        CommandKind::Forward => call.known_commands(),
        _ => return call.session.note_read(command, args),
    };
    if let (Some(known), Some(tracker)) = (known, call.session.tracker.as_ref().filter(|tracker| tracker.notes())) {
        let mut read = Vec::new();
        let each = |key, written: bool| read.extend((!written).then_some(key));
        forwarded_commands::touched(command, Some(&known), args, each);
        tracker.tracking.remember(call.session.client.id, read.into_iter());
    }
}

impl Session {
    /// The client id that its changes carry, for NOLOOP. 0 means that no id is needed.
    pub(super) fn actor(&self) -> u64 {
        if self.tracker.is_some() { self.client.id } else { 0 }
    }

    /// Marks changes made through `tier` as this client's.
    pub(super) fn act(&self, tier: &mut Tier<'_>) {
        tier.act_as(self.actor());
    }

    /// If the client tracks, notes that it holds copies of what this command read.
    pub(super) fn note_read(&self, command: &Command, args: Args<'_>) {
        let Some(tracker) = self.tracker.as_ref().filter(|tracker| tracker.notes()) else { return };
        let keys = command.keys.of(args);
        if command.flags.has(Flags::READONLY) && keys.len() > 0 {
            tracker.tracking.remember(self.client.id, keys);
        }
    }

    /// Ends the effect of CLIENT CACHING, which lasts for one command or one transaction.
    pub(super) fn caching_over(&mut self, command: &Command) {
        if self.tracker.is_some() && self.multi.is_none() && !command.flags.has(Flags::KEEPS_CACHING) {
            self.change().tracker.iter_mut().for_each(|tracker| tracker.exception = false);
        }
    }
}
