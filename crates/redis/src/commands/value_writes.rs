//! SET, MSET and DEL at a source that takes values: one write after the other. If one fails, those
//! before it stand and its error is the reply.
use crate::{
    command_context::CommandContext,
    command_error::{CommandError, arity},
    command_flow::{Flow, Later},
};
use bytes::Bytes;

const NO_OPTIONS: CommandError = CommandError::Static("ERR this source takes SET without options");

pub(crate) fn set<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        match call.args.len() {
            3 => store(call).await,
            _ => Err(NO_OPTIONS),
        }
    })
}

pub(crate) fn mset<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        match call.args.len() % 2 {
            1 => store(call).await,
            _ => Err(arity(call.command.name)),
        }
    })
}

pub(crate) fn del<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        let mut deleted = 0;
        for at in 1..call.args.len() {
            deleted += i64::from(call.group().delete(call.arg(at)).await?);
        }
        call.reply.integer(deleted);
        Ok(Flow::Done)
    })
}

/// Stores the values of a list of keys and values.
async fn store(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    for at in (2..call.args.len()).step_by(2) {
        call.check_len(call.arg(at).len())?;
    }
    for at in (1..call.args.len()).step_by(2) {
        let value = Bytes::copy_from_slice(call.arg(at + 1));
        call.group().put(call.arg(at), value, None).await?;
    }
    call.reply.simple("OK");
    Ok(Flow::Done)
}
