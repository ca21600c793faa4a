//! What the gate sees of a command: who asks, its class and its keys, and whether it is for entries.
use super::{
    command::Command,
    command_lookup::{FoundCommand, find_for},
};
use larder_base::{
    identity::DEFAULT_USER,
    lifecycle::throttle::{Caller, CommandClass, Scope},
};
use larder_core::{
    app::Worker,
    clients::Client,
    gate::{self, Asked, Door, Refused},
};
use larder_proto::resp::Args;

/// Asks the gate whether a command may go on. Call it only where the gate has rules.
///
/// # Errors
/// It is refused.
#[cold]
pub fn enter(worker: &Worker, client: &Client, args: Args<'_>) -> Result<(), Refused> {
    let found = match find_for(args) {
        FoundCommand::Command(command) => Some(command),
        // Larder does not have it, a Redis behind it may.
        FoundCommand::Unknown | FoundCommand::UnknownSub(_) => None,
    };
    let rows = worker.app.users.catalog().rows();
    let class = found.map(|command: &Command| CommandClass {
        name: command.name,
        categories: rows[usize::from(command.index)].categories,
    });
    let user = client.about.lock().user.clone();
    // Clients that have not logged in are `default`.
    let user = Some(&*user).filter(|user| !user.is_empty() && *user != DEFAULT_USER);
    let mut keys = found.into_iter().flat_map(|command| command.keys.of(args));
    let asked = Asked {
        door: Door::Redis,
        scope: Scope::Data,
        caller: Caller { address: client.peer.ip(), user },
        class,
        keys: &mut keys,
        // What is for the connection or the server (PING, AUTH, INFO, EXEC of what was queued) is not.
        is_for_entries: found.is_none_or(Command::is_data),
    };
    gate::enter(worker, asked).map(drop)
}
