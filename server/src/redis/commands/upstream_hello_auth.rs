//! HELLO and AUTH that wait for an upstream Redis: to learn its identity, to log a user in, or to change the protocol
//! of a dedicated connection.
use super::connection::{self, Hello};
use crate::redis::{
    command_context::CommandContext,
    command_error::CommandError,
    command_flow::{Flow, Later},
    upstream::{replies::is_error, requests},
};
use larder_proto::resp::encode;

/// AUTH of a user that Redis knows.
pub(in crate::redis) fn auth<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        connection::login(call)?.log_in(call, call.session.resp3).await?;
        call.reply.ok();
        call.session.note_subscriptions();
        Ok(Flow::Done)
    })
}

/// HELLO that has to wait.
pub(in crate::redis) fn hello<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        greet(call).await?;
        call.session.settle();
        call.session.note_subscriptions();
        Ok(Flow::Done)
    })
}

async fn greet(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    requests::server(call)?.wait_identity().await;
    let hello = Hello::parse(call)?;
    let resp3 = hello.resp3.unwrap_or(call.session.resp3);
    if let Some(login) = hello.login.filter(|login| login.is_for_redis(call)) {
        login.log_in(call, resp3).await?;
    }
    hello.set_name(call);
    if resp3 == call.session.resp3 || call.session.dedicated.is_none() {
        connection::welcome(call, resp3);
        return Ok(());
    }
    let replies = requests::ask(call, encode(&[b"HELLO", if resp3 { b"3" } else { b"2" }])).await?;
    if is_error(&replies[0]) {
        call.pass_on(&replies);
        return Ok(());
    }
    call.session.skip_replies(0, call.reply.output());
    if let Some(dedicated) = &mut call.session.dedicated {
        dedicated.note_protocol(resp3);
    }
    connection::welcome(call, resp3);
    Ok(())
}
