//! Values as the string commands see them: a document is no string.
use super::command_error::{CommandError, WRONG_TYPE};
use larder_engine::Entry;
use larder_proto::resp::Reply;
use larder_source::is_document;

/// Replies with the value of a string, or with the error for another type.
#[inline]
pub(super) fn reply_value(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    // Without attributes this is one test of a word that is at hand.
    if entry.has_attributes() && is_document(entry.metadata()) {
        return WRONG_TYPE.reply(reply);
    }
    reply.value(entry.value);
}

/// The same for one of several values: what is no string is null.
#[inline]
pub(super) fn reply_value_or_null(reply: &mut Reply<'_>, entry: &Entry<'_>) {
    if entry.has_attributes() && is_document(entry.metadata()) {
        return reply.null();
    }
    reply.value(entry.value);
}

/// Refuses what is no string; a key without an entry is fine.
#[inline]
pub(super) fn check_string(entry: Option<&Entry<'_>>) -> Result<(), CommandError> {
    match entry {
        Some(entry) if is_document(entry.metadata()) => Err(WRONG_TYPE),
        _ => Ok(()),
    }
}
