//! Lines of classic replies, and errors.
use larder_core::app::Worker;
use larder_engine::Value;
use larder_proto::output::{Output, UNCHECKED};
use larder_source::SourceError;

pub(crate) const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
pub(crate) const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";
pub(crate) const READ_ONLY: &str = "SERVER_ERROR this node is a read-only replica; write to its primary";

/// The longest text of an error.
const LONGEST_ERROR: usize = 512;

/// Writes a line.
#[inline]
pub(crate) fn line(out: &mut Output, text: &str) {
    out.put(text.as_bytes());
    out.put(b"\r\n");
}

/// Writes a number.
#[inline]
pub(crate) fn number(out: &mut Output, number: u64) {
    out.put(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes the value of a key, in the form of `get` or, with a version, of `gets`.
#[inline]
pub(crate) fn value(out: &mut Output, key: &[u8], flags: u32, version: Option<u64>, value: &Value<'_>) {
    let length = value.as_bytes().len();
    out.reserve(key.len() + 64);
    out.put(b"VALUE ");
    out.put(key);
    out.put(b" ");
    number(out, flags.into());
    out.put(b" ");
    number(out, length as u64);
    if let Some(version) = version {
        out.put(b" ");
        number(out, version);
    }
    out.put(b"\r\n");
    bytes(out, value);
}

/// Writes the bytes of a value. A large one is not copied.
#[inline]
pub(crate) fn bytes(out: &mut Output, value: &Value<'_>) {
    match value {
        Value::Inline(bytes) => out.put(bytes),
        large => out.put_bytes(large.to_bytes()),
    }
    out.put(b"\r\n");
}

/// Whether the reply of a command that goes on may grow, when it takes so many bytes. The connection
/// accounts for them only at the end of its turn.
#[inline]
pub(crate) fn may_grow(worker: &Worker, bytes: usize) -> bool {
    let buffers = &worker.app.buffers;
    bytes <= UNCHECKED || buffers.fits(bytes + buffers.reply_margin())
}

/// The end of a reply that may not grow.
#[cold]
pub(crate) fn no_room(worker: &Worker, out: &mut Output) {
    worker.counters.memcached_errors.add(1);
    let limit = worker.app.buffers.limit();
    let text =
        format!("SERVER_ERROR the reply does not fit into the buffers now, which may hold {limit} bytes (max-buffers)");
    line(out, &text);
}

/// The line for a source's error.
#[cold]
pub(crate) fn source_error(error: &SourceError) -> String {
    let mut text: String = format!("SERVER_ERROR {error}").chars().take(LONGEST_ERROR).collect();
    text.retain(|c| !c.is_control());
    text
}
