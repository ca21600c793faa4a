//! Values larger than `max-value`, and encoded ones, pass through to the client who asks, as they come, and are not
//! kept.
use super::{
    address_attempts::at_some_address,
    address_choice::AddressChoice,
    exchange::{Answered, Read, read_head},
    origin_connection::Connection,
    origin_settings::SharedAddress,
    request_deadline::RequestDeadline,
};
use crate::{
    fetch_refusals::no_room,
    source_error::SourceError,
    value_stream::{ValueChunks, ValueStream},
};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use larder_base::{
    buffers::{BufferCharge, BufferKind},
    outbound::with_cause,
};
use larder_store::clock;
use std::{
    pin::Pin,
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// What a response that passes through may occupy here: hyper's buffer, or the window of an HTTP/2
/// stream.
const BUFFERED: usize = 512 * 1024;

/// The value of a key as it comes; `None`: the key does not exist.
///
/// # Errors
/// As for a fetch; `Refused` if `max-buffers` has no room for it.
pub(super) async fn pass_through(
    origin: Rc<AddressChoice>,
    key: &[u8],
    deadline: RequestDeadline,
) -> Result<Option<ValueStream>, SourceError> {
    let settings = origin.settings.clone();
    let mut charge = settings.buffers.charge(BufferKind::Fetched);
    if !charge.try_resize(BUFFERED) {
        return Err(no_room(BUFFERED, settings.buffers.limit()));
    }
    let place = Place::take(&origin)?;
    let read = Read { key, validators: None, trace: None };
    let no_answer = |address: &SharedAddress, reason| address.unavailable(reason);
    let (answered, index) = at_some_address(&origin, key, deadline, no_answer, async |pool, target| {
        Ok((read_head(&origin, pool, &read, target, deadline).await?, pool.index()))
    })
    .await?;
    let Answered { connection, value, codings, fresh, metadata } = answered;
    let Some(body) = value else {
        origin.pool(index).give_back(connection);
        settings.large_keys.forget(key);
        return Ok(None);
    };
    let len = body.size_hint().exact();
    let is_large = len.is_none_or(|len| len > settings.limits.max_value as u64);
    match is_large || codings.is_some() {
        true => settings.note_large(key, clock::now()),
        // The next read may keep it.
        false => settings.large_keys.forget(key),
    }
    let chunks = OriginChunks {
        key: key.into(),
        index,
        connection: Some(connection),
        body,
        read: 0,
        is_encoded: codings.is_some(),
        overdue: None,
        timeout: deadline.limit,
        place,
        _charge: charge,
    };
    Ok(Some(ValueStream { len, fresh, metadata, encoding: codings, chunks: Box::new(chunks) }))
}

/// One of the responses that pass through. `source-max-in-flight` bounds how many do.
struct Place(Rc<AddressChoice>);
impl Place {
    fn take(origin: &Rc<AddressChoice>) -> Result<Place, SourceError> {
        let (settings, max) = (&origin.settings, origin.settings.limits.max_in_flight);
        let place = Place(origin.clone());
        match settings.passing_through.fetch_add(1, Relaxed) < max {
            true => Ok(place),
            false => Err(SourceError::Unavailable(
                format!("more than {max} large values on their way to clients (source-max-in-flight)").into(),
            )),
        }
    }
}
impl Drop for Place {
    fn drop(&mut self) {
        self.0.settings.passing_through.fetch_sub(1, Relaxed);
    }
}

struct OriginChunks {
    key: Box<[u8]>,
    index: usize,
    /// Until the body is read.
    connection: Option<Connection>,
    body: Incoming,
    read: u64,
    is_encoded: bool,
    /// While the client waits for the origin. A client that is slow itself has its own deadlines.
    overdue: Option<Pin<Box<Sleep>>>,
    /// The longest wait for the origin.
    timeout: Duration,
    place: Place,
    _charge: BufferCharge,
}

impl ValueChunks for OriginChunks {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SourceError>>> {
        let origin = self.place.0.clone();
        let address = origin.pool(self.index).address();
        let timeout = self.timeout;
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                let overdue = self.overdue.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + timeout)));
                ready!(overdue.as_mut().poll(context));
                let reason = format!("the body stalled for {timeout:?} (source-timeout)");
                return Poll::Ready(Some(Err(address.unavailable(reason))));
            };
            self.overdue = None;
            match frame {
                // Trailers are no part of the value.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        self.read += data.len() as u64;
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(address.unavailable(with_cause(&error))))),
                None => {
                    if let Some(connection) = self.connection.take() {
                        origin.pool(self.index).give_back(connection);
                    }
                    if !self.is_encoded && self.read <= origin.settings.limits.max_value as u64 {
                        origin.settings.large_keys.forget(&self.key);
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }
}
