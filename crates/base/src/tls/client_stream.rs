//! A client's connection as the protocols see it: a socket, or TLS over it.
//!
//! A `TcpStream` may hold a Unix socket: all that is called here is the same for both (decision 0185).
use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{rustls::HandshakeKind, server::TlsStream};

/// A client's connection. What is only true of TLS is a constant for TCP, so that the code for
/// plain connections does not have it.
pub trait ClientStream: AsyncRead + AsyncWrite + Unpin + 'static {
    /// Ends when the client has closed the connection, even if there is unread input before that.
    fn gone(&self) -> impl Future<Output = ()>;

    /// Ends when the socket has input, or the connection has ended.
    ///
    /// # Errors
    /// The connection is broken.
    fn readable(&self) -> impl Future<Output = io::Result<()>>;

    /// Writes what the stream takes at once.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: it takes nothing now.
    fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Reads what there is.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: there is nothing now.
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Whether bytes that were written are still here: a flush sends them.
    fn is_unflushed(&self) -> bool;

    /// Ready when the kernel has all that was written. A flush begins that, and need not wait for it:
    /// closing the stream earlier may lose what the socket has no room for.
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self).poll_flush(cx)
    }

    /// Bytes of its own buffers, about.
    fn buffered(&self) -> usize;

    /// The client has chosen HTTP/2 in the handshake.
    fn speaks_http2(&self) -> bool;

    /// The client has shown a node's certificate (`peer-tls-ca`).
    fn is_node(&self) -> bool;

    /// The name of the user in the certificate that the client has shown (`tls-client-user`).
    fn certificate_user(&self) -> Option<&str>;
}

impl ClientStream for TcpStream {
    /// Interest in input would report the input first. This interest reports nothing else, because
    /// no urgent data is requested.
    #[cfg(target_os = "linux")]
    async fn gone(&self) {
        match self.ready(Interest::PRIORITY).await {
            Ok(ready) if !ready.is_read_closed() => std::future::pending().await,
            Ok(_) | Err(_) => {}
        }
    }
    #[cfg(not(target_os = "linux"))]
    fn gone(&self) -> impl Future<Output = ()> {
        gone_by_looking(self)
    }
    fn readable(&self) -> impl Future<Output = io::Result<()>> {
        TcpStream::readable(self)
    }
    #[inline]
    fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match pieces {
            [one] => self.try_write(one),
            pieces => TcpStream::try_write_vectored(self, pieces),
        }
    }
    #[inline]
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        TcpStream::try_read(self, buffer)
    }
    #[inline]
    fn is_unflushed(&self) -> bool {
        false
    }
    #[inline]
    fn buffered(&self) -> usize {
        0
    }
    #[inline]
    fn speaks_http2(&self) -> bool {
        false
    }
    #[inline]
    fn is_node(&self) -> bool {
        false
    }
    #[inline]
    fn certificate_user(&self) -> Option<&str> {
        None
    }
}

/// [`ClientStream::gone`] for systems that report the end only together with input.
#[cfg(any(test, not(target_os = "linux")))]
async fn gone_by_looking(stream: &TcpStream) {
    loop {
        match stream.ready(Interest::READABLE).await {
            // Input that is not taken is reported again at once.
            Ok(ready) if !ready.is_read_closed() => tokio::time::sleep(LOOK).await,
            Ok(_) | Err(_) => return,
        }
    }
}

/// Between two looks for the end of a connection.
#[cfg(any(test, not(target_os = "linux")))]
const LOOK: std::time::Duration = std::time::Duration::from_millis(100);

/// What the library keeps of unsent output at most, bytes (its default buffer limit).
pub(super) const MAX_UNSENT: usize = 64 * 1024;
/// What it keeps for an idle connection: keys, transcripts, one read's worth of input.
const IDLE: usize = 8 * 1024;

pub struct TlsClientStream {
    stream: TlsStream<TcpStream>,
    is_node: bool,
    user: Option<Box<str>>,
}

impl TlsClientStream {
    pub(super) fn new(stream: TlsStream<TcpStream>, is_node: bool, user: Option<Box<str>>) -> TlsClientStream {
        TlsClientStream { stream, is_node, user }
    }

    /// Whether a session was resumed.
    pub fn handshake_kind(&self) -> Option<HandshakeKind> {
        self.stream.get_ref().1.handshake_kind()
    }
}

/// What would wait is an error. The caller waits with a waker of its own before it rests, so that
/// this one is never the last that was left.
fn at_once<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl ClientStream for TlsClientStream {
    fn gone(&self) -> impl Future<Output = ()> {
        ClientStream::gone(self.stream.get_ref().0)
    }
    fn readable(&self) -> impl Future<Output = io::Result<()>> {
        self.stream.get_ref().0.readable()
    }
    fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        at_once(Pin::new(&mut self.stream).poll_write_vectored(&mut cx, pieces))
    }
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let mut cx = Context::from_waker(Waker::noop());
        at_once(Pin::new(&mut self.stream).poll_read(&mut cx, &mut buffer))?;
        Ok(buffer.filled().len())
    }
    fn is_unflushed(&self) -> bool {
        self.stream.get_ref().1.wants_write()
    }
    fn buffered(&self) -> usize {
        IDLE + if self.is_unflushed() { MAX_UNSENT } else { 0 }
    }
    fn speaks_http2(&self) -> bool {
        self.stream.get_ref().1.alpn_protocol() == Some(b"h2")
    }
    fn is_node(&self) -> bool {
        self.is_node
    }
    fn certificate_user(&self) -> Option<&str> {
        self.user.as_deref()
    }
}

impl AsyncRead for TlsClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, free)
    }
}

impl AsyncWrite for TlsClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{pin::pin, time::Duration};
    use tokio::{io::AsyncWriteExt as _, net::TcpListener, time::timeout};

    #[tokio::test]
    async fn the_end_behind_unread_input_is_seen_by_looking() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        client.write_all(b"unread").await.unwrap();
        stream.readable().await.unwrap();
        let mut gone = pin!(gone_by_looking(&stream));
        let is_gone = std::future::poll_fn(|cx| Poll::Ready(gone.as_mut().poll(cx).is_ready())).await;
        assert!(!is_gone);
        drop(client);
        timeout(Duration::from_secs(60), gone).await.expect("it is seen");
    }
}
