//! Why a source's answer is refused, or none came: the texts that all sources share.
use super::{
    source_error::{ONLY_STREAMED, SourceError},
    source_limits::SourceLimits,
};
use std::{sync::Arc, time::Duration};

/// The error for a value larger than `max-value`.
pub(super) fn too_large(size: usize, max: usize) -> SourceError {
    SourceError::OnlyStreamed(
        format!("{ONLY_STREAMED}of {size} bytes is larger than allowed: {max} (max-value)").into(),
    )
}

/// Like `too_large`, where only the beginning of the value is known, which has this many bytes.
pub(super) fn too_large_so_far(size: usize, max: usize) -> SourceError {
    SourceError::OnlyStreamed(
        format!("{ONLY_STREAMED}of {size} bytes or more is larger than allowed: {max} (max-value)").into(),
    )
}

/// The error for a value with a `Content-Encoding`.
pub(super) fn encoded(codings: &[u8]) -> SourceError {
    let codings = codings.escape_ascii();
    let only = "only HTTP clients can read it (Content-Encoding)";
    SourceError::OnlyStreamed(format!("{ONLY_STREAMED}is encoded as `{codings}`: {only}").into())
}

/// The error for a value that was one of both a moment ago.
pub(super) fn known_only_streamed(max: usize) -> SourceError {
    let either = "of this key is encoded (Content-Encoding), or larger than allowed";
    SourceError::OnlyStreamed(format!("{ONLY_STREAMED}{either}: {max} (max-value)").into())
}

/// The error for a value that does not fit into the rest of `max-buffers`.
pub(super) fn no_room(size: usize, limit: usize) -> SourceError {
    SourceError::Refused(
        format!("ERR the source's value of {size} bytes does not fit into the buffers now, which may hold {limit} (max-buffers)")
            .into(),
    )
}

/// The error for a fetch whose key does not fit into the rest of `max-buffers`.
pub fn no_room_for_key(size: usize, limit: usize) -> SourceError {
    SourceError::Refused(
        format!(
            "ERR a fetch of this key of {size} bytes does not fit into the buffers now, which may hold {limit} (max-buffers)"
        )
        .into(),
    )
}

/// The reason of a request that missed its deadline.
pub(super) fn timeout_reason(limit: Duration, limits: &SourceLimits) -> Arc<str> {
    let setting = if limit == limits.timeout { "source-timeout" } else { "source-slow-timeout" };
    format!("timed out after {limit:?} ({setting})").into()
}
