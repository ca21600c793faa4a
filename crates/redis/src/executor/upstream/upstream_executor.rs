//! The executor of an upstream Redis.
use super::{single_command, transaction::exec};
use crate::{
    cached_replies,
    command::{CommandKind, Flags, TransactionStep},
    command_context::CommandContext,
    command_outcome::{Done, Flow},
    executor::tier_commands,
    session::{Outstanding, Watch},
    transaction,
    upstream::requests,
    waiting_replies::Waits,
};

pub(in crate::executor) fn begin(call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done {
    if call.command.kind == CommandKind::Forward {
        return cached_replies::begin(call, waits);
    }
    call.check_keys()?;
    if tier_commands::answer(call)? {
        return Ok(Flow::Done);
    }
    match call.command.flags {
        flags if flags.has(Flags::FLUSH) => Ok(Flow::Alone(call.command)),
        flags if flags.has(Flags::READONLY) => cached_replies::begin(call, waits),
        _ => Ok(waits.forward(call, Outstanding::Forwarded)),
    }
}

pub(in crate::executor) async fn run(call: &mut CommandContext<'_>) -> Done {
    match call.command.kind {
        CommandKind::Transaction(TransactionStep::Exec) => exec(call).await,
        CommandKind::Transaction(TransactionStep::Multi) => {
            // If the upstream cannot answer now, the error appears when its table is needed.
            let _ = requests::own_server(call)?.commands().await;
            Ok(transaction::begin(call))
        }
        CommandKind::Transaction(_) => watch(call).await,
        _ => single_command::run(call).await,
    }
}

/// WATCH, on the client's dedicated connection.
async fn watch(call: &mut CommandContext<'_>) -> Done {
    requests::dedicate(call).await?;
    call.session.watch = Watch::Upstream;
    match requests::send(call, requests::encoded(call.args), 1).await {
        Ok(replies) => {
            call.pass_on(&replies);
            Ok(Flow::Done)
        }
        Err(error) => {
            call.session.unwatch();
            Err(error.into())
        }
    }
}
