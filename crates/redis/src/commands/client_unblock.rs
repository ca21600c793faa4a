//! CLIENT UNBLOCK, which ends another client's blocking command.
use crate::{
    command_context::CommandContext,
    command_error::{CommandError, integer},
    command_flow::{Flow, Later},
    upstream::requests,
};
use larder_proto::resp;

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
pub(crate) fn unblock(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let reason = call.args.get(3).unwrap_or(b"timeout");
    if call.args.len() > 4 || !(reason.eq_ignore_ascii_case(b"timeout") || reason.eq_ignore_ascii_case(b"error")) {
        return Err(CommandError::Static("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    if waits_on(call)?.is_some() {
        return call.alone();
    }
    call.reply.integer(0);
    Ok(Flow::Done)
}

/// The upstream connection on which the named client waits.
fn waits_on(call: &CommandContext<'_>) -> Result<Option<i64>, CommandError> {
    let id = integer(call.arg(2))?;
    let client = u64::try_from(id).ok().and_then(|id| call.worker.app.clients.get(id));
    Ok(client.and_then(|client| {
        let mut about = client.about.lock();
        let waits = about.waits.as_mut()?;
        waits.unblocked = true;
        Some(waits.connection)
    }))
}

/// Asks the upstream to end the wait.
pub(crate) fn unblocked<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(at_upstream(call))
}

async fn at_upstream(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let Some(connection) = waits_on(call)? else {
        // The blocking command was answered meanwhile.
        call.reply.integer(0);
        return Ok(Flow::Done);
    };
    let connection = connection.to_string();
    let reason = call.args.get(3).unwrap_or(b"timeout");
    let command = resp::encode(&[b"CLIENT", b"UNBLOCK", connection.as_bytes(), reason]);
    let replies = requests::own_server(call)?.relay(command.into(), 1, call.session.resp3).await?;
    call.session.pass_part(replies.last(), call.reply.output());
    Ok(Flow::Done)
}
