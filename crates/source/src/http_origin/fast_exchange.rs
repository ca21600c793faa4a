//! A read over HTTP without TLS. The request is written at once, and if one read of the socket
//! gives the whole response, that is all: no task and no channel stand between the fetch and its
//! socket. Whatever else comes goes on with hyper, and so does its connection.
use super::{
    address_attempts::Failure,
    address_choice::AddressChoice,
    connection_pool::ConnectionPool,
    exchange::Read,
    origin_connection::{Connection, SendFailure},
    replayed_stream::ReplayedStream,
    request_deadline::RequestDeadline,
    send_request::{Effect, send},
    whole_response::whole_response,
};
use bytes::Bytes;
use http::{Response, Uri, response::Parts};
use hyper::body::Incoming;
use larder_base::outbound::{Stream, speak_http1, with_cause};
use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

/// Longest response that is read in one piece.
pub(super) const ONE_READ: usize = 16 * 1024;

/// The outcome of a request.
pub(super) enum Exchanged {
    /// The whole response.
    Whole(Parts, Vec<u8>),
    /// Its head. The body is read from hyper.
    Head(Connection, Response<Incoming>),
}

/// Why nothing came.
struct Broken {
    reason: String,
    /// Something came that is not HTTP.
    is_parse: bool,
}
impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken { reason: format!("connection error: {error}"), is_parse: false }
    }
}
impl From<hyper::Error> for Broken {
    fn from(error: hyper::Error) -> Broken {
        Broken { reason: with_cause(&error), is_parse: error.is_parse() }
    }
}

/// Sends the request on an idle connection; on a new one if there is none, or if it turns out that
/// the origin has closed it.
///
/// # Errors
/// `Unavailable`.
pub(super) async fn fast_exchange(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    read: &Read<'_>,
    target: &Uri,
    deadline: RequestDeadline,
) -> Result<Exchanged, Failure> {
    let address = pool.address();
    if let Some(stream) = pool.take_idle_stream() {
        match on_stream(origin, pool, stream, read, target).await {
            Ok(exchanged) => return Ok(exchanged),
            Err(broken) if broken.is_parse || !origin.settings.health.may_retry() => {
                return Err(address.unavailable(broken.reason).into());
            }
            Err(_) => {}
        }
    } else if pool.has_idle() {
        // Of an origin whose responses come in pieces.
        let sent = send(origin, pool, target, Effect::Read, deadline, |request| read.complete(request));
        let (connection, response) = Box::pin(sent).await?;
        return Ok(Exchanged::Head(connection, response));
    }
    let stream = Box::pin(origin.connect_stream(pool, deadline)).await.map_err(Failure::NotConnected)?;
    let exchanged = on_stream(origin, pool, stream, read, target).await;
    exchanged.map_err(|broken| address.unavailable(broken.reason).into())
}

/// One request and what one read gives. The connection goes back to the pool if that is the whole
/// response.
async fn on_stream(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    mut stream: Stream,
    read: &Read<'_>,
    target: &Uri,
) -> Result<Exchanged, Broken> {
    stream.write_all(&read.encoded(target, pool.address())).await?;
    let came = poll_fn(|cx| {
        let mut scratch = pool.scratch.borrow_mut();
        scratch.resize(ONE_READ, 0);
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(&mut stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok::<_, io::Error>(understood(origin, Bytes::copy_from_slice(buffer.filled()))))
    });
    let part = match came.await? {
        Ok((head, body)) => {
            pool.give_back_stream(stream);
            return Ok(Exchanged::Whole(head, body));
        }
        Err(part) if part.is_empty() => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        Err(part) => part,
    };
    let replayed = async {
        let mut connection = Connection::Http1(speak_http1(ReplayedStream::new(stream, part)).await?);
        let mut request = pool.address().request(target, false);
        read.complete(&mut request);
        let response = connection.send(request).await.map_err(|SendFailure { error, .. }| error)?;
        Ok(Exchanged::Head(connection, response))
    };
    Box::pin(replayed).await
}

/// The response, if it is whole and its value fits; otherwise the outcome.
fn understood(origin: &AddressChoice, came: Bytes) -> Result<(Parts, Vec<u8>), Bytes> {
    let settings = &origin.settings;
    match whole_response(&came) {
        Some((head, body)) if body.len() <= settings.limits.max_value && settings.buffers.fits(body.len()) => {
            Ok((head, body.to_vec()))
        }
        _ => Err(came),
    }
}
