//! Closing a connection so that the last answer arrives.
//!
//! Closing a socket with unread input makes the kernel send RST, and a client that receives RST may throw away the error
//! that we had just sent it. So: end our half, read what still comes for a short while, then close.
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// What a client may still send us; after that it is cut off.
const MOST: usize = 1 << 20;

/// Ends our half, then discards input until the client ends its half, has sent too much, or takes longer than `patience`.
pub(crate) async fn linger(stream: &mut TcpStream, patience: Duration) {
    if stream.shutdown().await.is_err() {
        return;
    }
    // Either way the connection is closed next.
    let _ = timeout(patience, discard(stream)).await;
}

async fn discard(stream: &mut TcpStream) {
    let mut sink = [0; 4096];
    let mut seen = 0;
    while let Ok(n) = stream.read(&mut sink).await
        && n > 0
        && seen < MOST
    {
        seen += n;
    }
}
