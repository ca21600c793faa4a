//! Commands that wait for something to happen at a Redis source (BLPOP), and CLIENT UNBLOCK, which ends the wait of another client.
//!
//! Each waits on a connection of its own. The first reply there is the connection's number: it says that Redis has the command, which came with
//! the question, and it is what Redis knows the waiting client by, as Larder's clients do not know.
use super::{
    Flow,
    command_context::CommandContext,
    command_error::{CommandError, integer},
    dedicated, upstream,
};
use crate::{
    clients::{Client, Waits},
    source::{DedicatedConnection, RawReplies, SourceError},
};
use larder_proto::resp;
use std::sync::atomic::Ordering::Relaxed;

/// While it lives, others see that the client waits.
struct Blocked<'c>(&'c Client);
impl<'c> Blocked<'c> {
    fn on(client: &'c Client, connection: Option<i64>) -> Blocked<'c> {
        client.about.lock().waits = connection.map(|connection| Waits { connection, unblocked: false });
        client.blocked.store(true, Relaxed);
        Blocked(client)
    }
    /// Has somebody asked Redis to end the wait?
    fn is_unblocked(&self) -> bool {
        self.0.about.lock().waits.is_some_and(|waits| waits.unblocked)
    }
}
impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        self.0.blocked.store(false, Relaxed);
        self.0.about.lock().waits = None;
    }
}

/// Sends a command that may wait, and waits with it.
pub(super) async fn block(call: &mut CommandContext<'_>, command: Vec<u8>) -> Result<RawReplies, SourceError> {
    let resp3 = call.session.resp3;
    let has_numbers = upstream::shared(call)?.has_client_ids();
    let own = match call.session.pinned {
        Some(_) => None,
        None => Some(upstream::shared(call)?.open_dedicated(call.args, resp3).await?),
    };
    let Some(pinned) = own.as_deref().or(call.session.pinned.as_deref()) else { return Err(upstream::no_redis()) };
    let number = pinned.relay(resp::encode(&[b"CLIENT", b"ID"]).into(), 1, resp3);
    let mut answer = pinned.relay_blocking(command.into());
    let number = tokio::select! {
        biased;
        number = number => number,
        answer = &mut answer => return answer,
    }?;
    let client = call.session.client.clone();
    // Redis may not want to tell it.
    let number =
        number[0].strip_prefix(b":").filter(|_| has_numbers).and_then(|text| resp::parse_i64(text.trim_ascii_end()));
    let until_it_ends = Blocked::on(&client, number);
    call.show_forwarded();
    let answer = answer.await;
    match own {
        // Whoever has it next is not to be unblocked in this client's place.
        Some(own) if answer.is_ok() && !until_it_ends.is_unblocked() => DedicatedConnection::release(own),
        Some(_) => {}
        None => call.session.skip_reply(),
    }
    answer
}

/// `CLIENT UNBLOCK id [TIMEOUT | ERROR]`
pub(super) fn unblock(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let reason = call.args.get(3).unwrap_or(b"timeout");
    if call.args.len() > 4 || !(reason.eq_ignore_ascii_case(b"timeout") || reason.eq_ignore_ascii_case(b"error")) {
        return Err(CommandError::Said("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
    }
    if waits_on(call)?.is_some() {
        return dedicated::later(call);
    }
    call.reply.integer(0);
    Ok(Flow::Done)
}

/// The connection that the named client waits on.
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

/// Runs it.
pub(super) async fn unblocked(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let Some(connection) = waits_on(call)? else {
        // It has been answered meanwhile.
        call.reply.integer(0);
        return Ok(Flow::Done);
    };
    let connection = connection.to_string();
    let reason = call.args.get(3).unwrap_or(b"timeout");
    let command = resp::encode(&[b"CLIENT", b"UNBLOCK", connection.as_bytes(), reason]);
    let replies = upstream::shared(call)?.relay(command.into(), 1, call.session.resp3).await?;
    upstream::pass_part(call.session, replies.last(), call.reply.output());
    Ok(Flow::Done)
}
