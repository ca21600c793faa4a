//! What a reply of an upstream Redis tells about the command.
use crate::{
    redis::command::{Command, CommandKind},
    source::{SourceError, UNAVAILABLE},
};

/// Whether the reply is an error, or missing.
pub(in crate::redis) fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!') | None)
}
/// Whether a failed command has changed nothing. A script may have written before it failed, and in
/// a cluster a command on several keys may have written some of them.
pub(in crate::redis) fn fails_whole(command: &Command, keys: usize) -> bool {
    !matches!(command.kind, CommandKind::Forward) && keys == 1
}
/// Whether an error leaves the outcome unknown: a cluster node was lost, or the source of another
/// Larder.
pub(in crate::redis) fn is_unknown(error: &[u8]) -> bool {
    error.strip_prefix(b"-ERR ").is_some_and(|text| text.starts_with(UNAVAILABLE.as_bytes()))
}
/// Whether the command may have run, at least in part.
pub(in crate::redis) fn may_be_done<T>(sent: &Result<T, SourceError>) -> bool {
    matches!(sent, Ok(_) | Err(SourceError::Lost(_)))
}
