//! Commands that block until something happens at an upstream Redis (BLPOP).
//!
//! Each one waits on a dedicated connection. `CLIENT ID` goes before it in the same write. Its
//! reply proves that Redis has the blocking command too, and it is the id by which Redis knows the
//! waiting client. Redis does not know Larder's own client ids.
use super::requests;
use crate::command_context::CommandContext;
use larder_core::clients::{Client, Waits};
use larder_proto::resp;
use larder_source::{DedicatedConnection, RawReplies, SourceError};
use std::sync::atomic::Ordering::Relaxed;

/// While it lives, other clients see that this client waits.
struct Blocked<'c>(&'c Client);
impl<'c> Blocked<'c> {
    fn on(client: &'c Client, connection: Option<i64>) -> Blocked<'c> {
        client.about.lock().waits = connection.map(|connection| Waits { connection, unblocked: false });
        client.blocked.store(true, Relaxed);
        Blocked(client)
    }
    /// Whether CLIENT UNBLOCK was sent to Redis for this client.
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

/// Sends a command that may block, and waits for its reply.
pub(crate) async fn block(call: &mut CommandContext<'_>, command: Vec<u8>) -> Result<RawReplies, SourceError> {
    let resp3 = call.session.resp3;
    let has_numbers = requests::own_server(call)?.has_client_ids();
    let own = match call.session.dedicated {
        Some(_) => None,
        None => Some(requests::server(call)?.get().open_dedicated(call.args, resp3).await?),
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
    // Redis may refuse to tell the id.
    let number =
        number[0].strip_prefix(b":").filter(|_| has_numbers).and_then(|text| resp::parse_i64(text.trim_ascii_end()));
    let until_it_ends = Blocked::on(&client, number);
    call.show_forwarded();
    let answer = answer.await;
    // The wait for something to happen is not the command's time.
    call.session.times.restart();
    match own {
        // A late CLIENT UNBLOCK must not reach the next user of the connection.
        Some(own) if answer.is_ok() && !until_it_ends.is_unblocked() => DedicatedConnection::release(own),
        Some(_) => {}
        None => call.session.skip_reply(),
    }
    answer
}
