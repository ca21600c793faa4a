//! Sends a client's commands to an upstream Redis: over its dedicated connection if it has one,
//! else over its worker's shared connection.
use crate::{
    command_context::CommandContext,
    command_outcome::CommandError,
    session::{Session, Watch},
};
use bytes::Bytes;
use larder_core::app::Worker;
use larder_proto::resp::{Args, encode};
use larder_source::{RawReplies, RedisServer, Relay, SourceError};
use std::rc::Rc;

/// Sends encoded commands over the dedicated connection if there is one, else over the shared
/// connection.
pub(crate) async fn send(
    call: &CommandContext<'_>,
    commands: impl Into<Bytes>,
    count: usize,
) -> Result<RawReplies, SourceError> {
    let resp3 = call.session.resp3;
    let relay = connection_for(call.worker, call.session).ok_or_else(no_redis)?;
    relay.relay(commands.into(), count, resp3).await
}
/// The connection for a client's commands: the dedicated one if there is one, else the shared one.
pub(crate) fn connection_for<'c>(worker: &'c Worker, session: &'c Session) -> Option<&'c dyn Relay> {
    match (&session.dedicated, &session.upstream.user) {
        (Some(dedicated), _) => Some(&**dedicated),
        (None, Some(user)) => Some(&*user.server as _),
        (None, None) => worker.groups.default().source.as_redis().map(|server| server as _),
    }
}

/// Gives the client a dedicated connection, unless it has one.
pub(crate) async fn dedicate(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    if call.session.dedicated.is_none() {
        let dedicated = server(call)?.get().open_dedicated(call.args, call.session.resp3).await?;
        call.session.dedicate(dedicated);
    }
    Ok(())
}

/// The upstream as the client's user, for commands of the client.
pub(crate) fn server<'c>(call: &CommandContext<'c>) -> Result<ServerOfClient<'c>, SourceError> {
    match &call.session.upstream.user {
        Some(user) => Ok(ServerOfClient::User(user.server.clone())),
        None => own_server(call).map(ServerOfClient::Own),
    }
}
/// The upstream as Larder's own user, for what Larder asks itself.
pub(crate) fn own_server<'c>(call: &CommandContext<'c>) -> Result<&'c dyn RedisServer, SourceError> {
    let group = call.group();
    group.source.as_redis().ok_or_else(no_redis)
}
/// Connections to the upstream as the user that a client has.
pub(crate) enum ServerOfClient<'c> {
    Own(&'c dyn RedisServer),
    User(Rc<dyn RedisServer>),
}
impl ServerOfClient<'_> {
    pub(crate) fn get(&self) -> &dyn RedisServer {
        match self {
            ServerOfClient::Own(server) => *server,
            ServerOfClient::User(server) => &**server,
        }
    }
}
pub(crate) fn no_redis() -> SourceError {
    SourceError::Unavailable("the source is not a Redis server".into())
}

/// Sends a command over the client's dedicated connection.
pub(crate) async fn ask(call: &mut CommandContext<'_>, command: Vec<u8>) -> Result<RawReplies, CommandError> {
    dedicate(call).await?;
    let sent = send(call, command, 1).await;
    if sent.is_err() && !call.session.has_upstream_state() && !matches!(call.session.watch, Watch::Upstream) {
        call.session.change().dedicated = None;
    }
    Ok(sent?)
}

pub(crate) fn encoded(args: Args<'_>) -> Vec<u8> {
    encode(&args.from(0).collect::<Vec<_>>())
}
