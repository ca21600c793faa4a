//! What a reply of an upstream Redis tells about the command.
use crate::command::{Command, CommandKind};
use larder_source::{SourceError, UNAVAILABLE};

/// Whether the reply is an error, or missing.
pub(crate) fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!') | None)
}
/// The text of an error reply, from its code on.
pub(crate) fn error_text(reply: &[u8]) -> &[u8] {
    match reply.split_first() {
        // A long error has its length first (RESP3).
        Some((b'!', rest)) => rest.splitn(2, |byte| *byte == b'\n').nth(1).unwrap_or_default(),
        Some((_, rest)) => rest,
        None => reply,
    }
}
/// Whether a failed command has changed nothing. A script may have written before it failed, and in
/// a cluster a command on several keys may have written some of them.
pub(crate) fn fails_whole(command: &Command, keys: usize) -> bool {
    !matches!(command.kind, CommandKind::Forward) && keys == 1
}
/// Whether an error leaves the outcome unknown: a cluster node was lost, or the source of another
/// Larder.
pub(crate) fn is_unknown(error: &[u8]) -> bool {
    error.strip_prefix(b"-ERR ").is_some_and(|text| text.starts_with(UNAVAILABLE.as_bytes()))
}
/// Whether the command may have run, at least in part.
pub(crate) fn may_be_done<T>(sent: &Result<T, SourceError>) -> bool {
    matches!(sent, Ok(_) | Err(SourceError::Lost(_)))
}
