//! Commands that wait for something to happen at an upstream Redis (BLPOP).
//!
//! Each waits on a connection of its own. The first reply there is the connection's number: it says that Redis has the command, which came with
//! the question, and it is what Redis knows the waiting client by, as Larder's clients do not know.
use super::requests;
use crate::{
    clients::{Client, Waits},
    redis::command_context::CommandContext,
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
pub(in crate::redis) async fn block(
    call: &mut CommandContext<'_>,
    command: Vec<u8>,
) -> Result<RawReplies, SourceError> {
    let resp3 = call.session.resp3;
    let has_numbers = requests::server(call)?.has_client_ids();
    let own = match call.session.dedicated {
        Some(_) => None,
        None => Some(requests::server(call)?.open_dedicated(call.args, resp3).await?),
    };
    let Some(dedicated) = own.as_deref().or(call.session.dedicated.as_deref()) else {
        return Err(requests::no_redis());
    };
    let number = dedicated.relay(resp::encode(&[b"CLIENT", b"ID"]).into(), 1, resp3);
    let mut answer = dedicated.relay_blocking(command.into());
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
