//! A command that goes to an upstream Redis by itself.
use super::effects::Effects;
use crate::{
    command::{Command, CommandKind, Flags},
    command_context::CommandContext,
    command_lookup::{FoundCommand, find_for},
    command_outcome::{CommandError, Done, Flow},
    forwarded_commands::{self, Apart, Reach},
    upstream::{
        blocking,
        replies::{is_error, may_be_done},
        requests::{self, encoded},
    },
};
use bytes::Bytes;
use larder_proto::resp::Args;
use larder_source::{Pace, RawReplies, SourceError, UpstreamCommands};
use std::sync::Arc;

pub(super) async fn run(call: &mut CommandContext<'_>) -> Done {
    let known = checked(call, call.command.kind, call.args).await?;
    let mut effects = Effects::default();
    let reach =
        effects.note(call, (call.command, call.args), known.as_deref(), |_| true).ok_or_else(requests::no_redis)?;
    effects.note_stored(call);
    let encoded = encoded(call.args);
    let sent = match reach.blocks {
        true => blocking::block(call, encoded).await,
        false => {
            call.show_forwarded();
            send_in_order(call, encoded, 1, &reach).await
        }
    };
    if sent.as_ref().is_ok_and(|replies| *replies.last() == *b"+OK\r\n") {
        note_password(call);
    }
    note_changed_users(call, &sent);
    effects.settle(&sent);
    if reach.everything && may_be_done(&sent) {
        call.group().flushed();
    }
    call.pass_on(&sent?);
    Ok(Flow::Done)
}

/// Checks that a command may go to the upstream. Returns the upstream's table if the command needs
/// it.
pub(super) async fn checked(
    call: &CommandContext<'_>,
    kind: CommandKind,
    args: Args<'_>,
) -> Result<Option<Arc<UpstreamCommands>>, CommandError> {
    if kind != CommandKind::Forward {
        return Ok(None);
    }
    let known = requests::own_server(call)?.commands().await?;
    forwarded_commands::check(call.session, Some(&*known), args)?;
    Ok(Some(known))
}

/// Sends commands behind the subscriptions that were read before, if they publish. Their answer
/// comes behind the announcements of changes that they do not name.
pub(super) async fn send_in_order(
    call: &CommandContext<'_>,
    commands: Vec<u8>,
    count: usize,
    reach: &Reach,
) -> Result<RawReplies, SourceError> {
    let subscribes = &call.worker.app.tables.subscribes;
    if reach.publishes && subscribes.any() {
        subscribes.wait(call.worker.app.groups.default().settings.freshness.source_timeout).await;
    }
    let commands = Bytes::from(commands);
    let sent = send(call, commands.clone(), count, reach).await;
    if reach.touches_others {
        requests::own_server(call)?.announced(commands).await;
    }
    sent
}

/// Sends commands that may be slow, or that may not share a connection.
async fn send(
    call: &CommandContext<'_>,
    commands: Bytes,
    count: usize,
    reach: &Reach,
) -> Result<RawReplies, SourceError> {
    let resp3 = call.session.resp3;
    match (reach.apart, &call.session.dedicated) {
        (Some(_), Some(own)) => own.relay_at(Pace { slow: true, busy: reach.busy }, commands, count, resp3).await,
        (Some(apart), None) => {
            let server = requests::server(call)?;
            server.get().relay_isolated(commands, count, resp3, apart == Apart::Alone, reach.busy).await
        }
        (None, _) => {
            let relay = requests::connection_for(call.worker, call.session).ok_or_else(requests::no_redis)?;
            relay.relay_at(Pace { slow: reach.slow, busy: reach.busy }, commands, count, resp3).await
        }
    }
}

/// A client may have changed users of the upstream: what was known about them counts no more.
fn note_changed_users(call: &CommandContext<'_>, sent: &Result<RawReplies, SourceError>) {
    let Some(rights) = &call.worker.app.upstream_rights else { return };
    let is_about_users = |row: &Command| row.flags.has(Flags::USERS) && row.flags.has(Flags::ADMIN);
    let is_refused = sent.as_ref().is_ok_and(|replies| is_error(&replies.last()));
    if matches!(find_for(call.args), FoundCommand::Command(row) if is_about_users(row))
        && may_be_done(sent)
        && !is_refused
    {
        rights.forget();
    }
}

/// Notes a changed password of the upstream. With `forward-admin` a client may change it, and
/// Larder's next connection must use the new one.
fn note_password(call: &CommandContext<'_>) {
    let sets = matches!(find_for(call.args), FoundCommand::Command(row) if row.flags.has(Flags::SETS_PASSWORD));
    let Some(server) = call.redis().filter(|_| sets) else { return };
    let mut parts = call.args.from(2);
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        if name.eq_ignore_ascii_case(b"requirepass") {
            server.note_password(value);
        }
    }
}
