//! What the limits on requests see of a command: its class and its keys.
use super::{
    command::Command,
    command_lookup::{FoundCommand, find_for},
};
use crate::{
    app::Worker,
    lifecycle::throttle::{Caller, CommandClass, Scope, Throttled},
};
use larder_proto::resp::Args;

/// Counts a command against the limits; an error if it must be refused. Call it only where there are any.
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
    let class = found.map(|command: &Command| CommandClass { name: command.name, categories: command.categories() });
    let keys = found.into_iter().flat_map(|command| command.keys.of(args));
    throttle.check(Scope::Data, caller, class, keys).map(drop)
}
