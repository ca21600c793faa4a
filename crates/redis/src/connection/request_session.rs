//! The session of one request of another protocol (Redis over HTTP). It is a connection like any
//! other, whose client is in this process.
use super::{BufferPool, ClientConnection};
use crate::CommandAccess;
use larder_base::{identity::User, tls::ClientStream};
use larder_config::Address;
use larder_core::{app::Worker, connection};
use larder_engine::Millis;
use std::{
    convert::Infallible,
    io::{self, IoSlice},
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf},
    sync::mpsc,
};

/// Bytes on their way in each direction.
const PIPE: usize = 64 * 1024;

/// Who sends a request, and what it may do.
pub struct RequestClient {
    /// The addresses of the client and of our end.
    pub ends: (Address, Address),
    /// The user, and until when its login counts ([`Millis::MAX`]: for good). `None`: it has shown
    /// nothing, and is what a connection is before its login.
    pub user: Option<(Arc<User>, Millis)>,
    /// The name in its certificate (`tls-client-user`).
    pub certificate: Option<Box<str>>,
    pub access: Arc<CommandAccess>,
}

/// The client's end of a session. When it is dropped, the client is gone: a command that waits for
/// something to happen (BLPOP) ends, a write is finished.
pub struct RequestSession {
    /// Takes commands and gives replies (RESP2). It ends with the session.
    pub pipe: DuplexStream,
    _is_here: mpsc::Receiver<Infallible>,
}

impl RequestSession {
    /// Begins a session of its own.
    pub fn begin(worker: &Rc<Worker>, pool: &Rc<BufferPool>, client: RequestClient) -> RequestSession {
        let (pipe, theirs) = tokio::io::duplex(PIPE);
        let (gone, is_here) = mpsc::channel(1);
        let RequestClient { ends, user, certificate, access } = client;
        let stream = SessionStream { pipe: theirs, gone, certificate };
        let (worker, pool) = (worker.clone(), pool.clone());
        // A task of its own: a write must not stop between the source and the memory tier.
        tokio::task::spawn_local(async move {
            let of = worker.clone();
            let begin = |client, certificate: Option<&str>| {
                let mut connection = ClientConnection::with_certificate(&of, client, access, certificate);
                if let Some((user, ends)) = user {
                    connection.session.log_in(user);
                    connection.session.client.end_login_at(ends);
                }
                connection
            };
            connection::serve(worker, pool, stream, ends, begin).await;
        });
        RequestSession { pipe, _is_here: is_here }
    }
}

/// The session's end.
struct SessionStream {
    pipe: DuplexStream,
    /// Closed when the client is gone. A client that sends no more can still wait for replies.
    gone: mpsc::Sender<Infallible>,
    certificate: Option<Box<str>>,
}

impl ClientStream for SessionStream {
    fn gone(&self) -> impl Future<Output = ()> {
        self.gone.closed()
    }
    /// For replicas, which do not come this way.
    fn readable(&self) -> impl Future<Output = io::Result<()>> {
        std::future::pending()
    }
    fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(&mut self.pipe).poll_write_vectored(&mut cx, pieces) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    fn try_read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
    fn is_unflushed(&self) -> bool {
        false
    }
    fn buffered(&self) -> usize {
        PIPE
    }
    fn speaks_http2(&self) -> bool {
        false
    }
    fn is_node(&self) -> bool {
        false
    }
    fn certificate_user(&self) -> Option<&str> {
        self.certificate.as_deref()
    }
}

impl AsyncRead for SessionStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(cx, free)
    }
}

impl AsyncWrite for SessionStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(cx, bytes)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write_vectored(cx, pieces)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(cx)
    }
}
