//! HELLO and AUTH that wait for an upstream Redis: to learn its identity, to log a user in, or to
//! change the protocol of a dedicated connection.
use super::connection::{self, Hello};
use crate::{
    auth,
    command_context::CommandContext,
    command_error::CommandError,
    command_flow::{Flow, Later},
    upstream::{login::Login, replies::is_error, requests},
};
use larder_proto::resp::encode;

/// AUTH of a user that Redis knows.
pub(crate) fn auth<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        let login = connection::login(call)?;
        match login.is_for_redis(call) {
            true => login.log_in(call).await?,
            false => compare(call, login).await?,
        }
        call.reply.ok();
        call.session.note_subscriptions();
        Ok(Flow::Done)
    })
}

/// HELLO that has to wait.
pub(crate) fn hello<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        greet(call).await?;
        call.session.settle();
        call.session.note_subscriptions();
        Ok(Flow::Done)
    })
}

/// Logs in a user of Larder's own whose password takes long to compare.
async fn compare(call: &mut CommandContext<'_>, login: Login<'_>) -> Result<(), CommandError> {
    match connection::check(call, login)? {
        Some(user) => auth::compare(call, user, login.password).await,
        None => Ok(()),
    }
}

async fn greet(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    if let Some(server) = call.group().source.as_redis() {
        server.wait_identity().await;
    }
    let hello = Hello::parse(call)?;
    let resp3 = hello.resp3.unwrap_or(call.session.resp3);
    match hello.login {
        Some(login) if login.is_for_redis(call) => login.log_in(call).await?,
        Some(login) if !call.session.authenticated() || call.worker.app.users.are_own() => compare(call, login).await?,
        Some(_) | None => {}
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
