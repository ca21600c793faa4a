//! The TCP stream under a client's TLS connection: what ends the handshake leaves with the first
//! reply.
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Holds back what the library writes during a handshake until the client is waited for.
///
/// The last that a server writes is a session ticket. A client seldom waits for that: it sends its
/// first request together with its part of the handshake. Ticket and reply then take one system
/// call and one packet.
pub(super) struct JoiningStream {
    tcp: TcpStream,
    held: Vec<u8>,
    /// While the handshake lasts.
    holds: bool,
}

/// No handshake has more to say: what exceeds this is not held.
const MOST_HELD: usize = 64 * 1024;

impl JoiningStream {
    pub(super) fn new(tcp: TcpStream) -> JoiningStream {
        JoiningStream { tcp, held: Vec::new(), holds: true }
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// The handshake is done: the next write is the first reply.
    pub(super) fn stop_holding(&mut self) {
        self.holds = false;
    }

    /// Sends what is held. Ready if nothing is left.
    fn poll_send_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(Pin::new(&mut self.tcp).poll_write(cx, &self.held))?;
            self.was_sent(sent);
        }
        Poll::Ready(Ok(()))
    }

    /// Drops the first bytes of what is held.
    fn was_sent(&mut self, bytes: usize) {
        match bytes == self.held.len() {
            // Idle connections keep no buffer.
            true => self.held = Vec::new(),
            false => drop(self.held.drain(..bytes)),
        }
    }

    /// Writes behind what is held, in one system call.
    fn poll_write_joined(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut all = Vec::with_capacity(pieces.len() + 1);
        all.push(IoSlice::new(&self.held));
        all.extend_from_slice(pieces);
        let sent = ready!(Pin::new(&mut self.tcp).poll_write_vectored(cx, &all))?;
        let held = self.held.len();
        self.was_sent(sent.min(held));
        match sent.checked_sub(held) {
            Some(written) if written > 0 => Poll::Ready(Ok(written)),
            // None of the new bytes: the socket may take them at once, or wakes the task.
            _ => self.poll_write_vectored_plain(cx, pieces),
        }
    }

    fn poll_write_vectored_plain(&mut self, cx: &mut Context<'_>, pieces: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        ready!(self.poll_send_held(cx))?;
        Pin::new(&mut self.tcp).poll_write_vectored(cx, pieces)
    }
}

/// An alert that refuses the client may still be held.
impl Drop for JoiningStream {
    fn drop(&mut self) {
        if !self.held.is_empty() {
            let _ = self.tcp.try_write(&self.held);
        }
    }
}

impl AsyncRead for JoiningStream {
    /// When there is nothing to read, the client may be waiting for what is held.
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.tcp).poll_read(cx, free);
        if read.is_pending()
            && let Poll::Ready(Err(error)) = self.poll_send_held(cx)
        {
            return Poll::Ready(Err(error));
        }
        read
    }
}

impl AsyncWrite for JoiningStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.holds && this.held.len() < MOST_HELD {
            let before = this.held.len();
            for piece in pieces {
                this.held.extend_from_slice(piece);
            }
            return Poll::Ready(Ok(this.held.len() - before));
        }
        match this.held.is_empty() {
            true => Pin::new(&mut this.tcp).poll_write_vectored(cx, pieces),
            false => this.poll_write_joined(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The library flushes at the end of a handshake, when nothing has to leave yet.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.holds {
            true => Poll::Ready(Ok(())),
            false => self.poll_send_held(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_held(cx))?;
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;
    use std::{future::poll_fn, io::Read, net::TcpListener, task::Waker};
    use tokio::{io::AsyncWriteExt, runtime::Builder};

    /// A stream in a handshake, and its client.
    async fn pair() -> (JoiningStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (server, _) = listener.accept().expect("a client");
        server.set_nonblocking(true).expect("a socket");
        (JoiningStream::new(TcpStream::from_std(server).expect("a runtime")), client)
    }

    /// What the client finds in its socket.
    fn arrived(mut client: &std::net::TcpStream) -> Vec<u8> {
        client.set_nonblocking(true).expect("a socket");
        let mut buffer = [0; 1024];
        let read = client.read(&mut buffer).unwrap_or(0);
        client.set_nonblocking(false).expect("a socket");
        buffer[..read].to_vec()
    }

    fn run(test: impl Future<Output = ()>) {
        Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(test);
    }

    fn finds_nothing_to_read(stream: &mut JoiningStream) {
        let mut buffer = [0; 16];
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(stream).poll_read(&mut cx, &mut ReadBuf::new(&mut buffer)).is_pending());
    }

    #[test]
    fn the_end_of_a_handshake_leaves_with_the_first_reply() {
        run(async {
            let (mut stream, client) = pair().await;
            poll_fn(|cx| stream.tcp.poll_write_ready(cx)).await.expect("room");
            stream.write_all(b"hello, ").await.expect("it is held");
            stream.flush().await.expect("nothing to do");
            assert_eq!(arrived(&client), b"");
            finds_nothing_to_read(&mut stream);
            assert_eq!(arrived(&client), b"hello, ", "a client is waited for");
            stream.write_all(b"ticket, ").await.expect("it is held");
            stream.stop_holding();
            assert_eq!(arrived(&client), b"");
            assert_eq!(stream.write(b"reply").await.expect("room"), 5);
            assert_eq!(arrived(&client), b"ticket, reply");
            assert_eq!(stream.held.capacity(), 0);
        });
    }

    #[test]
    fn a_ticket_does_not_wait_for_a_client_that_says_nothing() {
        run(async {
            let (mut stream, client) = pair().await;
            poll_fn(|cx| stream.tcp.poll_write_ready(cx)).await.expect("room");
            stream.write_all(b"ticket").await.expect("it is held");
            stream.stop_holding();
            finds_nothing_to_read(&mut stream);
            assert_eq!(arrived(&client), b"ticket");
        });
    }

    #[test]
    fn an_alert_leaves_when_the_connection_is_dropped() {
        run(async {
            let (mut stream, mut client) = pair().await;
            poll_fn(|cx| stream.tcp.poll_write_ready(cx)).await.expect("room");
            stream.write_all(b"alert").await.expect("it is held");
            drop(stream);
            let mut all = Vec::new();
            client.read_to_end(&mut all).expect("an end");
            assert_eq!(all, b"alert");
        });
    }

    #[test]
    fn what_a_full_socket_does_not_take_keeps_its_order() {
        run(async {
            let (mut stream, mut client) = pair().await;
            SockRef::from(&stream.tcp).set_send_buffer_size(4096).expect("a socket");
            let all: Vec<u8> = (0..3_000_000_u32).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
            let (held, reply) = all.split_at(50_000);
            // Fills the socket, so that not even all of what is held leaves at once.
            stream.holds = false;
            let mut before = 0;
            let mut cx = Context::from_waker(Waker::noop());
            poll_fn(|cx| stream.tcp.poll_write_ready(cx)).await.expect("room");
            while let Poll::Ready(written) = Pin::new(&mut stream).poll_write(&mut cx, &[b'b'; 1 << 16]) {
                before += written.expect("a connection");
            }
            stream.holds = true;
            stream.write_all(held).await.expect("it is held");
            stream.stop_holding();
            finds_nothing_to_read(&mut stream);
            let reader = std::thread::spawn(move || {
                let mut got = Vec::new();
                client.read_to_end(&mut got).expect("an end");
                got
            });
            stream.write_all(reply).await.expect("a client that reads");
            stream.shutdown().await.expect("an end");
            drop(stream);
            let got = reader.join().expect("no panic");
            assert!(got[before..] == all, "{} bytes of {}", got.len() - before, all.len());
        });
    }
}
