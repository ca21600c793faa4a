//! Runs commands on a memory tier: all commands where the tier has all entries, else those that a
//! copy can answer.
use crate::{
    command::{CommandKind, Flags},
    command_context::CommandContext,
    command_handlers::{TierFn, functions},
    command_outcome::{CommandError, Done, arity},
    commands::get,
};
use larder_engine::Tier;

/// The command's function on the memory tier.
pub(super) fn on_tier(call: &CommandContext<'_>) -> Result<TierFn, CommandError> {
    functions(call.command).tier.ok_or_else(|| arity(call.command.name))
}

/// Runs a command on entries. The caller holds the locks.
pub(super) fn run_on(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    match (call.command.kind, functions(call.command).tier) {
        (CommandKind::Get, _) => get::get_in(call, tier),
        (CommandKind::MultiGet, _) => get::mget_in(call, tier),
        (_, Some(run)) => run(call, tier),
        (_, None) => Err(arity(call.command.name)),
    }
}

/// Answers from the memory tier, if the command reads one string and the tier has a copy. Returns
/// whether it did.
pub(super) fn answer(call: &mut CommandContext<'_>) -> Result<bool, CommandError> {
    if !call.command.flags.has(Flags::COPY_WILL_DO) {
        return Ok(false);
    }
    let run = on_tier(call)?;
    let key = call.key(1);
    let mut tier = call.cache().exclusive([key]);
    let there = tier.peek(key, call.now, |_| ()).is_some();
    if there {
        run(call, &mut tier)?;
    }
    Ok(there)
}

/// Answers a command that concerns no entry (COMMAND). Returns whether it did.
pub(super) fn answer_without_entries(call: &mut CommandContext<'_>) -> Result<bool, CommandError> {
    let concerns_none = !call.command.flags.has(Flags::KEYSPACE) && call.command.keys.first == 0;
    if concerns_none {
        on_tier(call)?(call, &mut call.lock())?;
    }
    Ok(concerns_none)
}
