//! A client's connection without TLS: over epoll, over the worker's ring, or now on the one and now
//! on the other.
//!
//! A connection moves where it is about to wait for input, when its place holds none of its bytes:
//! what the client has sent is in the socket, what was written is with the kernel.
use super::{
    placement::{FirstKey, Placement},
    ring_stream::{Departure, RingStream},
    worker_ring::WorkerRing,
};
use larder_base::tls::ClientStream;
use std::{
    io::{self, IoSlice},
    mem,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Reads between two moves at least. A move costs about as much as one request.
const LEAST_READS: u32 = 16;
/// The number doubles with each move up to this, for connections at the border.
const MOST_READS: u32 = LEAST_READS << 10;

pub(in crate::net) struct PlainStream {
    place: Place,
    moves: Option<Moves>,
}

enum Place {
    Epoll(TcpStream),
    Ring(RingStream),
    /// Between two places, or the move has failed: the connection ends.
    Nowhere,
}

/// What decides when a connection moves.
struct Moves {
    ring: WorkerRing,
    first_key: FirstKey,
    /// Reads at this place.
    reads: u32,
    /// Reads before the next move.
    due: u32,
    /// A write found no room in the socket, so epoll may have to say when there is some.
    is_blocked: bool,
    /// It has waited for input since its last read.
    has_waited: bool,
    /// It leaves the ring.
    is_leaving: bool,
}

impl Moves {
    fn note_read(&mut self) {
        self.reads = self.reads.saturating_add(1);
        // A connection that reads again in its turn is no crowd.
        if mem::take(&mut self.has_waited) {
            self.ring.note_read();
        }
    }

    fn moved(&mut self) {
        self.reads = 0;
        self.is_blocked = false;
        self.is_leaving = false;
        if self.ring.placement == Placement::Auto {
            self.due = (self.due * 2).min(MOST_READS);
        }
    }

    fn is_due(&self, is_on_ring: bool) -> bool {
        let fits = self.ring.placement == Placement::Auto && self.ring.meter.is_crowded() == is_on_ring;
        self.reads >= self.due && !fits
    }
}

/// The stream of a new connection. `ring`: the worker's, if it works; `first_key`: how
/// its protocol finds the key of the command at the start of its input, if it gains from moves.
///
/// # Errors
/// The runtime ends.
pub(in crate::net) fn plain_stream(
    stream: TcpStream,
    ring: Option<&WorkerRing>,
    first_key: Option<FirstKey>,
) -> io::Result<PlainStream> {
    let (place, moves) = match ring {
        Some(ring) if ring.placement == Placement::Ring => (Place::Ring(ring.stream(stream, first_key)?), None),
        Some(ring) if let Some(first_key) = first_key => {
            let due = if ring.placement == Placement::Auto { LEAST_READS } else { 1 };
            let moves = Moves {
                ring: ring.clone(),
                first_key,
                reads: 0,
                due,
                is_blocked: false,
                has_waited: true,
                is_leaving: false,
            };
            // A crowd grows: a move would follow.
            let begins_on_ring = ring.placement == Placement::Auto && ring.meter.is_crowded();
            let place =
                if begins_on_ring { Place::Ring(ring.stream(stream, Some(first_key))?) } else { Place::Epoll(stream) };
            (place, Some(moves))
        }
        _ => (Place::Epoll(stream), None),
    };
    Ok(PlainStream { place, moves })
}

impl PlainStream {
    /// There is nothing to read over epoll.
    #[cold]
    fn move_to_ring(&mut self, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(moves) = &mut self.moves else { return Poll::Pending };
        if !moves.ring.works() {
            moves.due = u32::MAX;
            return Poll::Pending;
        }
        let Place::Epoll(stream) = mem::replace(&mut self.place, Place::Nowhere) else { return Poll::Pending };
        self.place = Place::Ring(moves.ring.moved_stream(stream, moves.first_key)?);
        moves.moved();
        self.poll_read_at_place(cx, free)
    }

    /// There is nothing to read over the ring: leaves it, once the kernel receives and sends nothing.
    #[cold]
    fn leave_ring(&mut self, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (Place::Ring(stream), Some(moves)) = (&mut self.place, &mut self.moves) else { return Poll::Pending };
        if !moves.is_leaving {
            moves.is_leaving = stream.begin_to_leave();
            moves.reads = 0;
            return Poll::Pending;
        }
        match stream.departure() {
            Departure::Waits => Poll::Pending,
            // Later, perhaps.
            Departure::Stays => {
                moves.is_leaving = false;
                self.poll_read_at_place(cx, free)
            }
            Departure::Ready(socket) => {
                self.place = Place::Nowhere;
                self.place = Place::Epoll(TcpStream::from_std(socket)?);
                moves.moved();
                moves.ring.worker.counters.moves_to_epoll.add(1);
                self.poll_read_at_place(cx, free)
            }
        }
    }

    #[inline]
    fn poll_read_at_place(&mut self, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.place {
            Place::Epoll(stream) => Pin::new(stream).poll_read(cx, free),
            Place::Ring(stream) => Pin::new(stream).poll_read(cx, free),
            Place::Nowhere => Poll::Ready(Err(gone())),
        }
    }

    #[inline]
    fn note_write<T>(&mut self, is_blocked: bool, result: T) -> T {
        if let Some(moves) = &mut self.moves {
            moves.is_blocked = is_blocked;
        }
        result
    }
}

/// The error of a connection that was lost in a move.
fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

/// Calls the same function of whichever stream there is.
macro_rules! at_place {
    ($place:expr, $stream:ident => $call:expr, $nowhere:expr) => {
        match $place {
            Place::Epoll($stream) => $call,
            Place::Ring($stream) => $call,
            Place::Nowhere => $nowhere,
        }
    };
}

impl AsyncRead for PlainStream {
    #[inline]
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let read = this.poll_read_at_place(cx, free);
        let Some(moves) = &mut this.moves else { return read };
        if read.is_ready() {
            moves.note_read();
            return read;
        }
        moves.has_waited = true;
        match this.place {
            Place::Epoll(_) if moves.is_due(false) && !moves.is_blocked => this.move_to_ring(cx, free),
            Place::Ring(_) if moves.is_leaving || moves.is_due(true) => this.leave_ring(cx, free),
            _ => read,
        }
    }
}

impl AsyncWrite for PlainStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written =
            at_place!(&mut self.place, stream => Pin::new(stream).poll_write(cx, bytes), Poll::Ready(Err(gone())));
        self.note_write(written.is_pending(), written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = at_place!(&mut self.place, stream => Pin::new(stream).poll_write_vectored(cx, pieces), Poll::Ready(Err(gone())));
        self.note_write(written.is_pending(), written)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        at_place!(&mut self.place, stream => Pin::new(stream).poll_flush(cx), Poll::Ready(Err(gone())))
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        at_place!(&mut self.place, stream => Pin::new(stream).poll_shutdown(cx), Poll::Ready(Err(gone())))
    }
}

impl ClientStream for PlainStream {
    async fn gone(&self) {
        at_place!(&self.place, stream => ClientStream::gone(stream).await, ());
    }
    async fn readable(&self) -> io::Result<()> {
        at_place!(&self.place, stream => ClientStream::readable(stream).await, Err(gone()))
    }
    #[inline]
    fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let written =
            at_place!(&mut self.place, stream => ClientStream::try_write_vectored(stream, pieces), Err(gone()));
        let is_blocked = written.is_err();
        self.note_write(is_blocked, written)
    }
    #[inline]
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        at_place!(&mut self.place, stream => ClientStream::try_read(stream, buffer), Err(gone()))
    }
    #[inline]
    fn is_unflushed(&self) -> bool {
        false
    }
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        at_place!(&mut self.place, stream => ClientStream::poll_sent(stream, cx), Poll::Ready(Err(gone())))
    }
    #[inline]
    fn buffered(&self) -> usize {
        at_place!(&self.place, stream => stream.buffered(), 0)
    }
    fn speaks_http2(&self) -> bool {
        false
    }
    fn is_node(&self) -> bool {
        false
    }
    fn certificate_user(&self) -> Option<&str> {
        None
    }
}
