//! The server's side of a handshake: with a deadline, in turns, and with a clear error for clients
//! that do not speak TLS.
use super::{
    client_stream::TlsClientStream,
    handshake_turns::{HandshakeTurns, Turn},
    server_tls::{ServerTls, TlsService},
};
use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    rc::Rc,
    task::Poll,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until},
};
use tokio_rustls::TlsAcceptor;

/// The first byte of a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// Whether input begins as a handshake of TLS 1.0 to 1.3 does (RFC 8446 section 5.1).
pub fn begins_handshake(input: &[u8]) -> bool {
    input.starts_with(&[HANDSHAKE, 3])
}

/// A fatal alert, in the clear (RFC 8446 section 6): `internal_error`. For a client whose handshake
/// does not even begin.
pub const REFUSAL: &[u8] = &[21, 3, 3, 0, 2, 2, 80];

/// Why there is no connection.
#[derive(Debug)]
pub enum HandshakeError {
    /// The client began to speak without TLS. Nothing was read.
    NotTls(TcpStream),
    /// The client took too long.
    TimedOut,
    /// The client went away before it said anything, as load balancers do to see whether a server
    /// listens.
    Gone,
    /// Something is wrong: with a certificate, a version, a message.
    Failed(io::Error),
}

/// Waits for a client's handshake, for `timeout` at most. The time that it waits for its turns does
/// not count.
///
/// # Errors
/// See [`HandshakeError`].
pub async fn handshake(
    tls: &ServerTls,
    service: TlsService,
    stream: TcpStream,
    turns: &Rc<HandshakeTurns>,
    timeout: Duration,
) -> Result<TlsClientStream, HandshakeError> {
    let mut deadline = Instant::now() + timeout;
    let mut first = [0];
    tokio::select! {
        peeked = stream.peek(&mut first) => match peeked {
            Ok(1) if first[0] == HANDSHAKE => {}
            Ok(1) => return Err(HandshakeError::NotTls(stream)),
            Ok(_) | Err(_) => return Err(HandshakeError::Gone),
        },
        () = sleep_until(deadline) => return Err(HandshakeError::TimedOut),
    }
    let accepting = TlsAcceptor::from(tls.config(service)).accept(stream);
    let mut accepting = pin!(accepting);
    let mut late = pin!(sleep_until(deadline));
    let (turn, mut waits_since) = (Turn::default(), None);
    let accepted = poll_fn(|cx| {
        if !turns.take(&turn, cx) {
            let _ = waits_since.get_or_insert_with(Instant::now);
            return Poll::Pending;
        }
        if let Some(since) = waits_since.take() {
            deadline += since.elapsed();
            late.as_mut().reset(deadline);
        }
        match accepting.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => late.as_mut().poll(cx).map(|()| None),
        }
    })
    .await;
    match accepted {
        None => Err(HandshakeError::TimedOut),
        Some(Err(error)) => Err(HandshakeError::Failed(error)),
        Some(Ok(stream)) => {
            let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let is_node = tls.is_node(shown);
            let user = tls.user_in(shown);
            Ok(TlsClientStream::new(stream, is_node, user))
        }
    }
}
