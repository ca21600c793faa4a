//! What a reply of an upstream Redis says of the command.
use crate::{
    redis::command::{Command, Kind},
    source::{SourceError, UNAVAILABLE},
};

/// An error, or nothing at all.
pub(in crate::redis) fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!') | None)
}
/// Is it done or not, and nothing between? A script that fails may have written before, and of several keys some may have been written (in a cluster).
pub(in crate::redis) fn is_whole(command: &Command, keys: usize) -> bool {
    !matches!(command.kind, Kind::Forward) && keys == 1
}
/// Does an error say that nobody knows: a node of several was lost, or the source of another Larder?
pub(in crate::redis) fn is_unknown(error: &[u8]) -> bool {
    error.strip_prefix(b"-ERR ").is_some_and(|text| text.starts_with(UNAVAILABLE.as_bytes()))
}
/// May it have been carried out, if only in part?
pub(in crate::redis) fn may_be_done<T>(sent: &Result<T, SourceError>) -> bool {
    matches!(sent, Ok(_) | Err(SourceError::Lost(_)))
}
