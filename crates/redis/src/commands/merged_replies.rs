//! Commands whose replies merge Redis's and Larder's: INFO, CONFIG GET and CONFIG RESETSTAT.
//!
//! Facts about the data are Redis's, byte for byte. Larder's own facts have its name: the section
//! `Larder`, and parameters that begin with `larder-`. Within MULTI only Redis answers these
//! commands.
use super::{config, config_larder, info};
use crate::{
    command_context::CommandContext,
    command_outcome::{Done, Flow},
    upstream::{replies::is_error, requests},
};
use bytes::Bytes;
use larder_proto::resp::{View, encode, view};
use larder_source::SourceError;

/// Sends a command and returns the reply. The caller passes it on.
async fn ask(call: &mut CommandContext<'_>, command: Vec<u8>) -> Result<Bytes, SourceError> {
    let replies = requests::send(call, command, 1).await?;
    call.session.skip_replies(0, call.reply.output());
    Ok(replies.last())
}

pub(crate) async fn info(call: &mut CommandContext<'_>) -> Done {
    let parts: Vec<&[u8]> = call.args.from(0).filter(|part| !info::is_larder(part)).collect();
    let reply = ask(call, encode(&parts)).await;
    let mut text = match reply.as_deref().map(view) {
        Ok(Ok(View::Bulk(text))) => info::of_one_server(call, &info::without_own_sections(text)),
        // A client with its own user must not see more than Redis shows that user.
        Ok(Ok(View::Error(why))) if why.starts_with(b"NOPERM") && call.session.dedicated.is_none() => {
            info::last_known(call)
        }
        Err(_) => info::last_known(call),
        Ok(_) => {
            call.session.pass_part(reply.unwrap_or_default(), call.reply.output());
            return Ok(Flow::Done);
        }
    };
    let own = info::own_sections(call, reply.is_ok());
    if !own.is_empty() && !text.is_empty() && !text.ends_with(b"\r\n\r\n") {
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(own.as_bytes());
    call.verbatim(&text)
}

pub(crate) async fn config_get(call: &mut CommandContext<'_>) -> Done {
    let reply = ask(call, requests::encoded(call.args)).await?;
    let (Ok(View::Map(theirs) | View::Array(theirs)), Some(head)) =
        (view(&reply), reply.iter().position(|b| *b == b'\n'))
    else {
        call.session.pass_part(reply, call.reply.output());
        return Ok(Flow::Done);
    };
    let ours = config_larder::asked(call);
    call.reply.map(theirs.count() / 2 + ours.len());
    call.reply.output().put_bytes(reply.slice(head + 1..));
    config_larder::put(call, &ours);
    Ok(Flow::Done)
}

/// CONFIG RESETSTAT: resets the counters of both.
pub(crate) async fn resetstat(call: &mut CommandContext<'_>) -> Done {
    let reply = ask(call, requests::encoded(call.args)).await?;
    if !is_error(&reply) {
        config::reset(call);
    }
    call.session.pass_part(reply, call.reply.output());
    Ok(Flow::Done)
}
