//! What the limits on requests see of a command: its class and its keys, and whether it is for
//! entries.
use super::{
    command::Command,
    command_lookup::{FoundCommand, find_for},
};
use larder_base::lifecycle::throttle::{Caller, CommandClass, Scope, Throttled};
use larder_core::app::Worker;
use larder_proto::resp::Args;

/// Whether a command is refused while the core is overloaded: it is for entries. What is for the
/// connection or the server (PING, AUTH, INFO, EXEC of what was queued) is not.
#[cold]
pub fn is_for_entries(args: Args<'_>) -> bool {
    match find_for(args) {
        FoundCommand::Command(command) => command.is_data(),
        // Larder does not have it, a Redis behind it may.
        FoundCommand::Unknown | FoundCommand::UnknownSub(_) => true,
    }
}

/// Counts a command against the limits; an error if it must be refused. Call it only where there
/// are any.
///
/// # Errors
/// A budget is used up.
#[cold]
pub fn count_against_limits(worker: &Worker, caller: Caller<'_>, args: Args<'_>) -> Result<(), Throttled> {
    let throttle = &worker.app.throttle;
    let found = match find_for(args) {
        FoundCommand::Command(command) => Some(command),
        FoundCommand::Unknown | FoundCommand::UnknownSub(_) => None,
    };
    let rows = worker.app.users.catalog().rows();
    let class = found.map(|command: &Command| CommandClass {
        name: command.name,
        categories: rows[usize::from(command.index)].categories,
    });
    let keys = found.into_iter().flat_map(|command| command.keys.of(args));
    throttle.check(Scope::Data, caller, class, keys).map(drop)
}
