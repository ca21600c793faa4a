//! HTTP/1.1 on one connection, by hyper.
use bytes::Bytes;
use hyper::{body::Body, client::conn::http1};
use hyper_util::rt::TokioIo;
use std::error::Error;
use tokio::io::{AsyncRead, AsyncWrite};

/// Speaks HTTP/1.1 on a stream. A task of this thread drives the connection until it ends.
///
/// # Errors
/// hyper's.
pub async fn speak_http1<B>(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> hyper::Result<http1::SendRequest<B>>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The request that is under way gets the error, too.
    tokio::spawn(connection);
    Ok(sender)
}

/// hyper's error with its cause, which its own text leaves out. The cause may be a TLS alert.
pub fn with_cause(error: &hyper::Error) -> String {
    match Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
