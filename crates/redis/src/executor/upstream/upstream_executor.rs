//! The executor of an upstream Redis.
use super::{single_command, transaction::exec};
use crate::{
    cached_replies,
    command::{CommandKind, Flags, TransactionStep},
    command_context::CommandContext,
    command_outcome::{Done, Flow, Later},
    executor::{executor_trait::Executor, tier_commands},
    session::{Outstanding, Watch},
    transaction,
    upstream::requests,
    waiting_replies::Waits,
};

pub(in crate::executor) struct UpstreamExecutor;

impl Executor for UpstreamExecutor {
    fn begin(&self, call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done {
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

    /// The upstream's table must be known, because it says which commands cannot be queued.
    fn multi(&self, call: &mut CommandContext<'_>) -> Done {
        if call.redis().is_some_and(|server| server.known_commands().is_none()) {
            Ok(Flow::Alone(call.command))
        } else {
            Ok(transaction::begin(call))
        }
    }

    fn run<'a>(&'a self, call: &'a mut CommandContext<'_>) -> Later<'a> {
        Box::pin(async move {
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
        })
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
