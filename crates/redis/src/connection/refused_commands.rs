//! Refuses commands before they begin: over the rate limit, or no room in the buffers.
use larder_base::{
    identity::DEFAULT_USER,
    lifecycle::{
        queue_delay::OVERLOADED,
        throttle::{Caller, Throttled},
    },
};
use larder_core::{app::Worker, clients::Client};
use larder_proto::resp::Args;
use larder_units::show_size;

/// Commands of at least this length are compared with the free room before they are copied for a
/// source.
const COPIED: usize = 64 * 1024;
/// The throttle's refusal, if there is one.
#[inline]
pub(super) fn throttled(worker: &Worker, client: &Client, args: Args<'_>) -> Option<Throttled> {
    if !worker.app.throttle.is_on() {
        return None;
    }
    let user = client.about.lock().user.clone();
    // Clients that have not logged in are `default`.
    let user = Some(&*user).filter(|user| !user.is_empty() && *user != DEFAULT_USER);
    let caller = Caller { address: client.peer.ip(), user };
    crate::count_against_limits(worker, caller, args).err()
}

/// Whether the buffers have room for a command of this length. It is copied on its way to a source.
#[inline]
pub(super) fn has_room(worker: &Worker, command: usize) -> bool {
    command < COPIED || !worker.groups.default().source.reads_through() || worker.app.buffers.fits(command)
}

#[cold]
pub(super) fn no_room_error(worker: &Worker, command: usize) -> String {
    let limit = show_size(worker.app.buffers.limit() as u64);
    format!(
        "ERR this command of {command} bytes does not fit into the buffers now, which may hold {limit} (max-buffers)"
    )
}

#[cold]
pub(super) fn overloaded_error() -> String {
    format!("ERR {OVERLOADED}")
}

#[cold]
pub(super) fn throttled_error(throttled: &Throttled) -> String {
    let millis = throttled.retry_after.as_millis().max(1);
    format!("ERR throttled: limit of setting {} reached, retry after {millis} ms", throttled.setting())
}
