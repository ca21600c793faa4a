//! A connection to an address of the origin, or a part of one, that carries one request.
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use larder_base::outbound::Http2Stream;
use std::error::Error;

/// What carries one request at a time.
pub(super) enum Connection {
    /// A connection of its own. hyper's task behind it ends when this is dropped.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// A place on a shared connection.
    Http2(Http2Stream),
}

/// Why there is no response.
pub(super) struct SendFailure {
    pub(super) error: hyper::Error,
    /// The origin has surely done nothing: the request did not leave, or the origin says so.
    pub(super) is_unprocessed: bool,
}

impl Connection {
    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Connection::Http2(_))
    }

    /// Sends a request and waits for the head of its response.
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, SendFailure> {
        match self {
            Connection::Http1(sender) => sender.try_send_request(request).await,
            Connection::Http2(stream) => stream.send(request).await,
        }
        .map_err(SendFailure::of)
    }
}

impl SendFailure {
    fn of(failed: TrySendError<Request<Full<Bytes>>>) -> SendFailure {
        let is_unsent = failed.message().is_some();
        let error = failed.into_error();
        let is_unprocessed = is_unsent || error.source().and_then(|cause| cause.downcast_ref()).is_some_and(refused);
        SendFailure { error, is_unprocessed }
    }
}

/// Whether the origin says that it has not looked at the request (RFC 9113, 8.7). h2 gives the
/// error of a GOAWAY only to those requests that the origin does not count among the ones it took.
fn refused(error: &h2::Error) -> bool {
    error.is_remote() && (error.is_go_away() || error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM))
}
