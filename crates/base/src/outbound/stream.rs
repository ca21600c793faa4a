//! A byte stream to a source, a peer or a primary: TCP, Unix socket or TLS.
use crate::tls::ClientTls;
use socket2::{SockRef, TcpKeepalive};
use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_postgres::tls::ChannelBinding;
use tokio_rustls::client::TlsStream;

/// After this idle time the kernel sends keep-alive probes, so that a firewall that forgot an idle
/// connection does not cost a request its deadline.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A byte stream to a server.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    // Boxed: its state is some hundred bytes, the others are a descriptor.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Opens a stream over TCP, with TLS if there is a configuration for it.
pub async fn connect_tcp(host: &str, port: u16, tls: Option<&ClientTls>) -> io::Result<Stream> {
    let tcp = TcpStream::connect((host, port)).await?;
    tcp.set_nodelay(true)?;
    SockRef::from(&tcp).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE))?;
    tcp.peer_addr().iter().for_each(|peer| stop_pacing(SockRef::from(&tcp), peer));
    match tls {
        None => Ok(Stream::Tcp(tcp)),
        Some(tls) => Ok(Stream::Tls(Box::new(tls.connect(tcp).await?))),
    }
}

/// Nothing congests the way to a neighbour on the same machine, but a default that paces (BBR)
/// would set a timer for what is written. Where another choice is refused, the default serves.
pub fn stop_pacing(socket: SockRef<'_>, peer: &SocketAddr) {
    #[cfg(target_os = "linux")]
    if peer.ip().is_loopback() {
        let _ = socket.set_tcp_congestion(b"reno");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (socket, peer);
}

impl Stream {
    /// Whether the server chose HTTP/2 in the TLS handshake.
    pub fn speaks_http2(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2"))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

/// For PostgreSQL's client: a password is not bound to the TLS connection.
impl tokio_postgres::tls::TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_goes_to_a_neighbour_on_the_same_machine_is_not_paced() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let Ok(Stream::Tcp(stream)) = connect_tcp("127.0.0.1", port, None).await else { panic!("no plain stream") };
        let control = SockRef::from(&stream).tcp_congestion().unwrap();
        assert!(control.starts_with(b"reno"), "{}", String::from_utf8_lossy(&control));
    }
}
