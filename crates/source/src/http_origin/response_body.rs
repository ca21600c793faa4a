//! Reads the body of a response, within `max-value` and `max-buffers`.
use super::origin_settings::{OriginSettings, SharedAddress};
use crate::{
    fetch_refusals::{no_room, too_large, too_large_so_far},
    source_error::SourceError,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use larder_base::{
    buffers::{BufferKind, GrowingBuffer},
    outbound::with_cause,
};
use std::time::Duration;

/// The whole body, counted in the buffers.
///
/// # Errors
/// `Refused` if it is too large, `Unavailable` if it breaks off.
pub(super) async fn read_body(
    mut body: Incoming,
    settings: &OriginSettings,
    address: &SharedAddress,
) -> Result<Bytes, SourceError> {
    let (max, buffers) = (settings.limits.max_value, &settings.buffers);
    // What Content-Length says; a chunked body says nothing.
    let announced = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    if let Some(size) = announced {
        if size > max {
            return Err(too_large(size, max));
        }
        if !buffers.fits(size) {
            return Err(no_room(size, buffers.limit()));
        }
    }
    let mut value = GrowingBuffer::default();
    let mut charge = buffers.charge(BufferKind::Fetched);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| address.unavailable(with_cause(&error)))?;
        // Trailers are no part of the value.
        let Ok(data) = frame.into_data() else { continue };
        let size = value.len() + data.len();
        if size > max {
            return Err(too_large_so_far(size, max));
        }
        if !charge.try_resize(size) {
            return Err(no_room(size, buffers.limit()));
        }
        value.extend(&data, announced.unwrap_or(size));
    }
    drop(charge);
    Ok(buffers.count(BufferKind::Fetched, value))
}

/// Gives up a body that is of no interest. hyper reads what has come of it, and closes an HTTP/1.1
/// connection if that is not all. Over HTTP/2 it would reset the stream, and servers end
/// connections with many resets: a short rest is read instead.
pub(super) fn discard_body(mut body: Incoming, over_http2: bool) {
    const LONGEST: usize = 64 * 1024;
    const PATIENCE: Duration = Duration::from_secs(1);
    if !over_http2 || body.is_end_stream() {
        return;
    }
    tokio::task::spawn_local(tokio::time::timeout(PATIENCE, async move {
        let mut read = 0;
        while read < LONGEST
            && let Some(Ok(frame)) = body.frame().await
        {
            read += frame.data_ref().map_or(0, Bytes::len);
        }
    }));
}

/// The beginning of a body that explains an error, as one line of text; empty if there is none.
pub(super) async fn read_explanation(mut body: Incoming) -> String {
    const LONGEST: usize = 256;
    let mut text = Vec::new();
    while text.len() < LONGEST
        && let Some(Ok(frame)) = body.frame().await
    {
        text.extend(frame.data_ref().into_iter().flatten().take(LONGEST - text.len()));
    }
    let text = String::from_utf8_lossy(&text);
    text.split(|letter: char| letter.is_control())
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
