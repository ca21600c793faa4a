//! Sends a request to one address, again where that is safe, and waits for the head of its
//! response.
use super::{
    address_attempts::Failure,
    address_choice::AddressChoice,
    connection_pool::ConnectionPool,
    origin_connection::{Connection, SendFailure},
    request_deadline::RequestDeadline,
};
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use larder_base::outbound::with_cause;

/// How often a request is sent at most. Origins end HTTP/2 connections after so many requests, and
/// name those that they did not take.
const MAX_SENDS: usize = 4;

/// What a request does at the origin.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing: it may be sent once more where it may have been taken.
    Read,
    /// A change: it is sent again only if it was surely not taken.
    Write,
}

/// Sends the request on an open connection; on a new one if there is none, or if it turns out that
/// the origin has ended it. `complete` turns a `GET` of the target into the request.
///
/// # Errors
/// `Unavailable`, or `Lost` for a write that may have been made.
pub(super) async fn send(
    origin: &AddressChoice,
    pool: &ConnectionPool,
    target: &Uri,
    effect: Effect,
    deadline: RequestDeadline,
    complete: impl Fn(&mut Request<Full<Bytes>>),
) -> Result<(Connection, Response<Incoming>), Failure> {
    let address = pool.address();
    let no_answer = |reason| match effect {
        Effect::Read => address.unavailable(reason),
        Effect::Write => address.lost(reason),
    };
    let (mut connection, mut is_new) = match pool.take_open().await {
        Some(connection) => (connection, false),
        None => (origin.connect(pool, deadline).await.map_err(Failure::NotConnected)?, true),
    };
    let mut sends = 0;
    loop {
        sends += 1;
        let mut request = address.request(target, connection.is_http2());
        complete(&mut request);
        let SendFailure { error, is_unprocessed } = match connection.send(request).await {
            Ok(response) => return Ok((connection, response)),
            Err(failure) => failure,
        };
        // An HTTP/2 connection can end at any moment, a new one too.
        let may_end = connection.is_http2() || !is_new;
        let again = match is_unprocessed {
            true => may_end && sends < MAX_SENDS,
            // What cannot be parsed is an answer, though not one of HTTP.
            false => effect == Effect::Read && !is_new && !error.is_parse() && origin.settings.health.may_retry(),
        };
        if !again {
            return Err(match is_unprocessed {
                true => address.unavailable(format_args!("the request was not taken: {}", with_cause(&error))),
                false => no_answer(with_cause(&error)),
            }
            .into());
        }
        // The one that failed takes no more requests.
        drop(connection);
        connection = origin.connect(pool, deadline).await.map_err(Failure::NotConnected)?;
        is_new = true;
    }
}
