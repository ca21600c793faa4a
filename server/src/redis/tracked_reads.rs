//! Reads of clients that track: noted before anybody can change what was read.
use super::{
    command::{Command, Flags, Kind, TransactionStep},
    command_context::CommandContext,
    forwarded_commands,
    session::Session,
};
use crate::source::RedisServer;
use larder_engine::Tier;
use larder_proto::resp::Args;

/// Before a command whose reply comes from a source: what it will read is noted. What comes of that meanwhile is delivered behind the reply.
pub(super) fn note_first(call: &CommandContext<'_>) {
    let session = &call.session;
    match (&session.multi, call.command.kind) {
        (Some(multi), Kind::Transaction(TransactionStep::Exec)) => {
            multi.queue.iter().for_each(|(command, args)| note(call, command, args));
        }
        (Some(_), _) => {}
        (None, _) => note(call, call.command, call.args),
    }
}

fn note(call: &CommandContext<'_>, command: &Command, args: Args<'_>) {
    let known = match command.kind {
        Kind::Forward => call.group().source.as_redis().and_then(RedisServer::known_commands),
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
    /// Whose the changes are that it makes, as NOLOOP must know; 0: it does not matter.
    pub(super) fn actor(&self) -> u64 {
        if self.tracker.is_some() { self.client.id } else { 0 }
    }

    /// Changes made through `tier` are this client's.
    pub(super) fn act(&self, tier: &mut Tier<'_>) {
        tier.act_as(self.actor());
    }

    /// If the client tracks: it holds copies of what this command read.
    pub(super) fn note_read(&self, command: &Command, args: Args<'_>) {
        let Some(tracker) = self.tracker.as_ref().filter(|tracker| tracker.notes()) else { return };
        let keys = command.keys.of(args);
        if command.flags.has(Flags::READONLY) && keys.len() > 0 {
            tracker.tracking.remember(self.client.id, keys);
        }
    }

    /// A command is over: CLIENT CACHING is for one command, or for one transaction.
    pub(super) fn caching_over(&mut self, command: &Command) {
        if let Some(tracker) = &mut self.tracker
            && self.multi.is_none()
            && !command.flags.has(Flags::KEEPS_CACHING)
        {
            tracker.exception = false;
        }
    }
}
