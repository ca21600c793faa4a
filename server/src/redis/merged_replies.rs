//! Commands in front of a Redis whose answer is Redis's and Larder's together: INFO, CONFIG GET and CONFIG RESETSTAT.
//!
//! What is said about the data is that Redis's, byte for byte. Larder's own facts carry its name: the section `Larder`, and parameters that
//! begin with `larder-`. Within MULTI these commands are Redis's alone.
use super::{
    Flow,
    command_context::CommandContext,
    command_error::CommandError,
    commands::{config, config_larder, info},
    upstream,
};
use crate::source::SourceError;
use bytes::Bytes;
use larder_proto::resp::{View, encode, view};

/// Runs one of these commands.
pub(super) async fn run(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    match call.command.name {
        "info" => info(call).await,
        "config|get" => config_get(call).await?,
        _ => reset(call).await?,
    }
    Ok(Flow::Done)
}

/// Sends a command, and returns the reply, which is then the caller's to pass on.
async fn ask(call: &mut CommandContext<'_>, command: Vec<u8>) -> Result<Bytes, SourceError> {
    let replies = upstream::send(call, command, 1).await?;
    call.session.skip_replies(0, call.reply.output());
    Ok(replies.last())
}

async fn info(call: &mut CommandContext<'_>) {
    let parts: Vec<&[u8]> = call.args.from(0).filter(|part| !info::is_larder(part)).collect();
    let reply = ask(call, encode(&parts)).await;
    let mut text = match reply.as_deref().map(view) {
        Ok(Ok(View::Bulk(text))) => info::of_one_server(text),
        // A user of the client's own is not to see more than Redis shows it.
        Ok(Ok(View::Error(why))) if why.starts_with(b"NOPERM") && call.session.pinned.is_none() => {
            info::last_known(call)
        }
        Err(_) => info::last_known(call),
        Ok(_) => {
            return upstream::pass_part(call.session, reply.unwrap_or_default(), call.reply.output());
        }
    };
    if reply.is_err() || info::wants_larder(call.args) {
        if !text.is_empty() {
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(info::larder_section(call).as_bytes());
    }
    call.reply.verbatim(&text);
}

async fn config_get(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let reply = ask(call, upstream::encoded(call.args)).await?;
    let (Ok(View::Map(theirs) | View::Array(theirs)), Some(head)) =
        (view(&reply), reply.iter().position(|b| *b == b'\n'))
    else {
        upstream::pass_part(call.session, reply, call.reply.output());
        return Ok(());
    };
    let ours = config_larder::asked(call);
    call.reply.map(theirs.count() / 2 + ours.len());
    call.reply.output().put_bytes(reply.slice(head + 1..));
    config_larder::put(call, &ours);
    Ok(())
}

/// The counters of both.
async fn reset(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let reply = ask(call, upstream::encoded(call.args)).await?;
    if !upstream::is_error(&reply) {
        config::reset(call);
    }
    upstream::pass_part(call.session, reply, call.reply.output());
    Ok(())
}
