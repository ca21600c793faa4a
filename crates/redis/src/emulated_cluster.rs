//! With `cluster = "emulated"`, all keys of a command, or of a transaction, must have one slot, as in
//! a Redis Cluster.
use crate::{
    command::{Command, CommandKind},
    command_context::CommandContext,
    command_outcome::CommandError,
    command_queue::CommandQueue,
};
use larder_core::app::Worker;
use larder_proto::resp::Args;
use larder_source::{UpstreamCommands, key_slot};

const CROSS_SLOT: CommandError = CommandError::Static("CROSSSLOT Keys in request don't hash to the same slot");

/// The server's mode, as INFO and HELLO say it.
pub(super) fn redis_mode(worker: &Worker) -> &'static str {
    if worker.app.settings.emulates_cluster { "cluster" } else { "standalone" }
}

/// Refuses a command whose keys have several slots.
#[inline]
pub(super) fn check_slots(call: &CommandContext<'_>) -> Result<(), CommandError> {
    if call.args.len() > 2 && call.worker.app.settings.emulates_cluster { check_command(call) } else { Ok(()) }
}

#[cold]
fn check_command(call: &CommandContext<'_>) -> Result<(), CommandError> {
    let mut slots = OneSlot::default();
    slots.add(call.known_commands().as_deref(), call.command, call.args);
    slots.checked()
}

/// Refuses a transaction whose keys have several slots.
pub(super) fn check_transaction(call: &CommandContext<'_>, queue: &CommandQueue) -> Result<(), CommandError> {
    if !call.worker.app.settings.emulates_cluster {
        return Ok(());
    }
    let (known, mut slots) = (call.known_commands(), OneSlot::default());
    queue.iter().for_each(|(command, args)| slots.add(known.as_deref(), command, args));
    slots.checked()
}

/// The slot of all keys so far.
#[derive(Default)]
struct OneSlot {
    slot: Option<u16>,
    is_crossed: bool,
}

impl OneSlot {
    /// Adds the keys of a command. Those of a forwarded one are in the source's table, `known`.
    fn add(&mut self, known: Option<&UpstreamCommands>, command: &Command, args: Args<'_>) {
        let mut add = |key: &[u8]| {
            let slot = key_slot(key);
            self.is_crossed |= *self.slot.get_or_insert(slot) != slot;
        };
        if command.kind != CommandKind::Forward {
            return command.keys.of(args).for_each(add);
        }
        if let Some(row) = known.and_then(|known| known.find(args)) {
            row.keys(args, |at, _| add(&args[at]));
        }
    }

    fn checked(&self) -> Result<(), CommandError> {
        if self.is_crossed { Err(CROSS_SLOT) } else { Ok(()) }
    }
}
