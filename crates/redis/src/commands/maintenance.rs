//! CLIENT MAINT_NOTIFICATIONS, and the push that these clients get when the process drains:
//! `MOVING`, in the form of Redis Enterprise, which redis-py, go-redis, node-redis and Lettuce
//! understand.
//!
//! With `moving-endpoint-type none` the push has no address. The client then connects again to the
//! same address after half of the time in the push. Any other type asks for an address, which the
//! setting `moving-endpoint` gives. Without that setting such a client gets no push, because
//! node-redis exits when it gets a push without an address that it did not ask for.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, SYNTAX},
    session::Session,
};
use larder_core::{
    app::{App, Worker},
    clients::{Client, Moves},
};
use larder_proto::{output::Output, resp::Reply};
use larder_store::clock;

/// The types that ask for an address. The operator chooses the address.
const WITH_ADDRESS: [&[u8]; 4] = [b"internal-ip", b"internal-fqdn", b"external-ip", b"external-fqdn"];

/// `CLIENT MAINT_NOTIFICATIONS ON | OFF [moving-endpoint-type type]`
pub(crate) fn notifications(call: &mut CommandContext<'_>) -> Done {
    let moves = match call.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => Moves::Elsewhere,
        b"off" => Moves::NotAsked,
        _ => return Err(SYNTAX),
    };
    let with_type = match call.args.get(3) {
        None => moves,
        Some(option) if call.args.len() == 5 && option.eq_ignore_ascii_case(b"moving-endpoint-type") => {
            match call.arg(4).to_ascii_lowercase().as_slice() {
                b"none" if moves != Moves::NotAsked => Moves::Back,
                name if name == b"none" || WITH_ADDRESS.contains(&name) => moves,
                _ => return Err(CommandError::Static("ERR Invalid moving-endpoint-type")),
            }
        }
        Some(_) => return Err(SYNTAX),
    };
    call.session.client.about.lock().moves = with_type;
    call.ok()
}

/// Whether the drain has begun and this client gets the push.
pub fn tells_to_move(app: &App, client: &Client) -> bool {
    let about = client.about.lock();
    let known = match about.moves {
        Moves::NotAsked => false,
        Moves::Elsewhere => app.settings.moving_endpoint.is_some(),
        Moves::Back => true,
    };
    // Only RESP3 has pushes.
    known && about.protocol == 3 && app.drain.moving().is_some_and(|moving| moving.until > moving.sequence)
}

impl Session {
    /// Writes the push that asks the client to move.
    pub fn tell_to_move(&self, worker: &Worker, out: &mut Output) {
        let Some(moving) = worker.app.drain.moving() else { return };
        let endpoint = worker.app.settings.moving_endpoint.as_deref();
        let back = self.client.about.lock().moves == Moves::Back;
        let mut push = Reply::new(out, true);
        push.push(4);
        push.bulk(b"MOVING");
        push.integer(moving.sequence as i64);
        // Rounded up: a client that was busy meanwhile must not lose a whole second.
        push.integer(moving.until.saturating_sub(clock::now()).div_ceil(1000) as i64);
        match endpoint.filter(|_| !back) {
            Some(endpoint) => push.bulk(endpoint.as_bytes()),
            None => push.null(),
        }
    }
}
