//! CLIENT MAINT_NOTIFICATIONS, and what clients that have asked for it are told when the process drains: `MOVING`, as Redis Enterprise
//! tells it and redis-py, go-redis, node-redis and Lettuce read it.
//!
//! `moving-endpoint-type none` asks for a push without an address: the client connects again, half-way through the time that it is told, to the
//! address that it has. Any other type asks for an address, which only the setting `moving-endpoint` knows: without it such a client is told
//! nothing (node-redis ends its process at a push without an address that it did not ask for).
use crate::{
    app::{App, Worker},
    clients::{Client, Moves},
    redis::{
        Flow,
        command_context::CommandContext,
        command_error::{CommandError, SYNTAX},
        session::Session,
    },
};
use larder_proto::{output::Output, resp::Reply};
use larder_store::clock;

/// The types that ask for an address. Which it is, is the operator's to say.
const WITH_ADDRESS: [&[u8]; 4] = [b"internal-ip", b"internal-fqdn", b"external-ip", b"external-fqdn"];

/// `CLIENT MAINT_NOTIFICATIONS ON | OFF [moving-endpoint-type type]`
pub(in crate::redis) fn notifications(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let moves = match call.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => Moves::Elsewhere,
        b"off" => Moves::Untold,
        _ => return Err(SYNTAX),
    };
    let with_type = match call.args.get(3) {
        None => moves,
        Some(option) if call.args.len() == 5 && option.eq_ignore_ascii_case(b"moving-endpoint-type") => {
            match call.arg(4).to_ascii_lowercase().as_slice() {
                b"none" if moves != Moves::Untold => Moves::Back,
                name if name == b"none" || WITH_ADDRESS.contains(&name) => moves,
                _ => return Err(CommandError::Said("ERR Invalid moving-endpoint-type")),
            }
        }
        Some(_) => return Err(SYNTAX),
    };
    call.session.client.about.lock().moves = with_type;
    call.reply.ok();
    Ok(Flow::Done)
}

impl App {
    /// Is this client to be told that it has to move, now that the drain has begun?
    pub(crate) fn tells_to_move(&self, client: &Client) -> bool {
        let about = client.about.lock();
        let known = match about.moves {
            Moves::Untold => false,
            Moves::Elsewhere => self.settings.moving_endpoint.is_some(),
            Moves::Back => true,
        };
        // A push is RESP3's.
        known && about.protocol == 3 && self.drain.moving().is_some_and(|moving| moving.until > moving.sequence)
    }
}

impl Session {
    /// Tells the client to move.
    pub fn tell_to_move(&self, worker: &Worker, out: &mut Output) {
        let Some(moving) = worker.app.drain.moving() else { return };
        let endpoint = worker.app.settings.moving_endpoint.as_deref();
        let back = self.client.about.lock().moves == Moves::Back;
        let mut push = Reply::new(out, true);
        push.push(4);
        push.bulk(b"MOVING");
        push.integer(moving.sequence as i64);
        // Rounded up: a client that was busy meanwhile has no whole second less.
        push.integer(moving.until.saturating_sub(clock::now()).div_ceil(1000) as i64);
        match endpoint.filter(|_| !back) {
            Some(endpoint) => push.bulk(endpoint.as_bytes()),
            None => push.null(),
        }
    }
}
