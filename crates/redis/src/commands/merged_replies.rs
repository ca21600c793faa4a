//! Commands whose replies merge Redis's and Larder's: INFO, CONFIG GET and CONFIG RESETSTAT.
//!
//! Facts about the data are Redis's, byte for byte. Larder's own facts have its name: the section
//! `Larder`, and parameters that begin with `larder-`. Within MULTI only Redis answers these
//! commands.
use super::{config, config_larder, info};
use crate::{
    command_context::CommandContext,
    command_error::CommandError,
    command_flow::{Flow, Later},
    upstream::{replies::is_error, requests},
};
use bytes::Bytes;
use larder_proto::resp::{View, encode, view};
use larder_source::SourceError;

/// INFO
pub(crate) fn info<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        write_info(call).await;
        Ok(Flow::Done)
    })
}
/// CONFIG GET
pub(crate) fn config_get<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move { write_config(call).await.map(|()| Flow::Done) })
}
/// CONFIG RESETSTAT
pub(crate) fn resetstat<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move { reset_both(call).await.map(|()| Flow::Done) })
}

/// Sends a command and returns the reply. The caller passes it on.
async fn ask(call: &mut CommandContext<'_>, command: Vec<u8>) -> Result<Bytes, SourceError> {
    let replies = requests::send(call, command, 1).await?;
    call.session.skip_replies(0, call.reply.output());
    Ok(replies.last())
}

async fn write_info(call: &mut CommandContext<'_>) {
    let parts: Vec<&[u8]> = call.args.from(0).filter(|part| !info::is_larder(part)).collect();
    let reply = ask(call, encode(&parts)).await;
    let mut text = match reply.as_deref().map(view) {
        Ok(Ok(View::Bulk(text))) => info::of_one_server(&info::without_own_sections(text)),
        // A client with its own user must not see more than Redis shows that user.
        Ok(Ok(View::Error(why))) if why.starts_with(b"NOPERM") && call.session.dedicated.is_none() => {
            info::last_known(call)
        }
        Err(_) => info::last_known(call),
        Ok(_) => {
            return call.session.pass_part(reply.unwrap_or_default(), call.reply.output());
        }
    };
    let own = info::own_sections(call, reply.is_ok());
    if !own.is_empty() && !text.is_empty() && !text.ends_with(b"\r\n\r\n") {
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(own.as_bytes());
    call.reply.verbatim(&text);
}

async fn write_config(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let reply = ask(call, requests::encoded(call.args)).await?;
    let (Ok(View::Map(theirs) | View::Array(theirs)), Some(head)) =
        (view(&reply), reply.iter().position(|b| *b == b'\n'))
    else {
        call.session.pass_part(reply, call.reply.output());
        return Ok(());
    };
    let ours = config_larder::asked(call);
    call.reply.map(theirs.count() / 2 + ours.len());
    call.reply.output().put_bytes(reply.slice(head + 1..));
    config_larder::put(call, &ours);
    Ok(())
}

/// Resets the counters of both.
async fn reset_both(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let reply = ask(call, requests::encoded(call.args)).await?;
    if !is_error(&reply) {
        config::reset(call);
    }
    call.session.pass_part(reply, call.reply.output());
    Ok(())
}
