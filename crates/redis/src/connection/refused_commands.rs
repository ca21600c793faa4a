//! Refuses commands before they begin: by a rule of the gate, or without room in the buffers.
use larder_base::lifecycle::queue_delay::OVERLOADED;
use larder_core::{app::Worker, gate::Refused};
use larder_units::show_size;

/// Commands of at least this length are compared with the free room before they are copied for a
/// source.
const COPIED: usize = 64 * 1024;

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
pub(super) fn refused_error(refused: &Refused) -> String {
    match refused {
        Refused::Overloaded => format!("ERR {OVERLOADED}"),
        Refused::Throttled(throttled) => {
            let millis = throttled.retry_after.as_millis().max(1);
            format!("ERR throttled: limit of setting {} reached, retry after {millis} ms", throttled.setting())
        }
    }
}
