//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: checks the order of the commands, then calls the executor.
use crate::{
    command::TransactionStep,
    command_context::CommandContext,
    command_outcome::{CommandError, Done, EXEC_ABORT, Flow, NOT_IN_MULTI, READ_ONLY_REPLICA},
    emulated_cluster::check_transaction,
    executor,
    forwarded_writes::{WritesGo, of_transaction},
    session::{Backend, Session},
    transaction,
};

pub(super) fn step(call: &mut CommandContext<'_>, step: TransactionStep) -> Done {
    let within = call.session.multi.is_some();
    match step {
        TransactionStep::Multi | TransactionStep::Watch if within => Err(nested(call, step)),
        TransactionStep::Multi => executor::multi(call),
        TransactionStep::Discard if !within => Err(CommandError::Static("ERR DISCARD without MULTI")),
        TransactionStep::Discard => {
            call.session.end_transaction();
            call.ok()
        }
        TransactionStep::Watch => {
            call.check_keys()?;
            executor::watch(call)
        }
        TransactionStep::Unwatch => transaction::unwatch(call),
        TransactionStep::Exec => exec(call),
    }
}

/// Refuses MULTI or WATCH within a transaction. Redis lets EXEC run the other commands. Servers
/// whose command table says that these commands are not for transactions (Valkey 8 and later)
/// refuse EXEC too.
fn nested(call: &mut CommandContext<'_>, step: TransactionStep) -> CommandError {
    let known = match call.session.backend {
        Backend::Upstream => call.known_commands(),
        _ => None,
    };
    if let Some(multi) = &mut call.session.change().multi
        && known.is_some_and(|known| known.find(call.args).is_some_and(|row| row.no_multi))
    {
        multi.spoil();
        return NOT_IN_MULTI;
    }
    CommandError::Static(match step {
        TransactionStep::Multi => "ERR MULTI calls can not be nested",
        _ => "ERR WATCH inside MULTI is not allowed",
    })
}

fn exec(call: &mut CommandContext<'_>) -> Done {
    if let Some(refusal) = no_longer_allowed(call.session) {
        transaction::abort(call.session, &refusal, &mut call.reply);
        return Ok(Flow::Done);
    }
    match &call.session.multi {
        None => Err(CommandError::Static("ERR EXEC without MULTI")),
        Some(multi) if multi.spoiled => {
            call.session.end_transaction();
            Err(EXEC_ABORT)
        }
        Some(multi) if let Err(crossed) = check_transaction(call, &multi.queue) => {
            call.session.end_transaction();
            Err(crossed)
        }
        Some(_) => match of_transaction(call.worker, call.session) {
            WritesGo::Here => executor::exec(call),
            WritesGo::ToPrimary => Ok(Flow::Alone(call.command)),
            WritesGo::Nowhere => {
                // It has become a replica since.
                transaction::abort(call.session, &READ_ONLY_REPLICA, &mut call.reply);
                Ok(Flow::Done)
            }
        },
    }
}

/// Why the transaction cannot run any more: the rules of the user were changed since a command was
/// queued.
fn no_longer_allowed(session: &Session) -> Option<CommandError> {
    let multi = session.multi.as_ref().filter(|multi| !multi.spoiled)?;
    session.restricted_user()?;
    let refused = multi.queue.iter().any(|(command, args)| session.check_rules(command, args).is_err());
    refused.then_some(CommandError::Static(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call",
    ))
}
