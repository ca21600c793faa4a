//! A client's connection over the worker's ring.
use super::{
    kernel_ring::{BUFFER, KernelRing, Operation},
    placement::FirstKey,
    worker_ring::{Receiving, Sending, Slot, State, WorkerRing},
};
use larder_base::tls::ClientStream;
use std::{
    future::poll_fn,
    io::{self, IoSlice},
    net::{Shutdown, TcpStream},
    os::fd::AsFd,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Output up to this length is copied and sent with that of others; more is sent at once.
const SMALL: usize = 16 * 1024;
/// Reads of less than half a buffer before the kernel receives into its buffers again.
const SMALL_READS: u32 = 8;

/// The number of a stream that has left the ring.
const GONE: u32 = u32::MAX;

pub(in crate::net) struct RingStream {
    ring: WorkerRing,
    number: u32,
}

/// Whether a stream can leave the ring.
pub(super) enum Departure {
    /// It has: its socket, from which nothing was taken that the connection did not get.
    Ready(TcpStream),
    /// An operation has not ended yet. The reader is woken when it has.
    Waits,
    /// It has something to send, or waits for something else than input.
    Stays,
}

impl WorkerRing {
    /// A new connection of this ring.
    pub(super) fn stream(&self, socket: tokio::net::TcpStream, first_key: Option<FirstKey>) -> io::Result<RingStream> {
        // `into_std`: out of the runtime's epoll. One read before the kernel receives: the first
        // request may be there already.
        Ok(RingStream::new(self, socket.into_std()?, first_key, SMALL_READS - 1))
    }

    /// A connection that had nothing to read over epoll.
    pub(super) fn moved_stream(&self, socket: tokio::net::TcpStream, first_key: FirstKey) -> io::Result<RingStream> {
        let stream = RingStream::new(self, socket.into_std()?, Some(first_key), SMALL_READS);
        self.worker.counters.moves_to_io_uring.add(1);
        Ok(stream)
    }
}

impl RingStream {
    fn new(ring: &WorkerRing, socket: TcpStream, first_key: Option<FirstKey>, small_reads: u32) -> RingStream {
        let slot = Slot {
            socket,
            first_key,
            receiving: Receiving::Direct,
            chunk: None,
            spill: Vec::new(),
            spilled: 0,
            ended: false,
            error: None,
            small_reads,
            sending: Sending::default(),
            reader: None,
            writer: None,
            watches_room: false,
            watches_end: false,
            hung_up: false,
            end_waker: None,
            operations: 0,
            is_leaving: false,
            dropped: false,
        };
        let number = ring.state.borrow_mut().slots.insert(slot);
        ring.worker.counters.io_uring_connections_begun.add(1);
        RingStream { ring: ring.clone(), number: number as u32 }
    }

    #[inline]
    fn with<T>(&self, act: impl FnOnce(&mut State, u32) -> T) -> T {
        act(&mut self.ring.state.borrow_mut(), self.number)
    }

    /// Ends the operations that wait for the client. Does nothing if the client does not take its
    /// replies: that may last.
    pub(super) fn begin_to_leave(&mut self) -> bool {
        self.with(|state, number| {
            let slot = &mut state.slots[number as usize];
            if slot.sending.in_flight > 0 || slot.watches_room || state.is_broken {
                return false;
            }
            slot.is_leaving = true;
            state.end_waits(number);
            state.schedule();
            true
        })
    }

    /// After [`begin_to_leave`](RingStream::begin_to_leave), when there was nothing to read.
    pub(super) fn departure(&mut self) -> Departure {
        let departure = self.with(|state, number| {
            let slot = &mut state.slots[number as usize];
            if slot.receiving != Receiving::Direct {
                return Departure::Waits;
            }
            let has_output = slot.sending.in_flight > 0 || !slot.sending.pending.is_empty();
            if has_output || slot.watches_room || slot.watches_end || state.is_broken {
                slot.is_leaving = false;
                return Departure::Stays;
            }
            if slot.operations > 0 {
                return Departure::Waits;
            }
            Departure::Ready(state.remove(number).socket)
        });
        if matches!(departure, Departure::Ready(_)) {
            self.number = GONE;
            self.ring.worker.counters.io_uring_connections_ended.add(1);
        }
        departure
    }
}

impl State {
    fn read(&mut self, number: u32, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let slot = &mut self.slots[number as usize];
        if slot.spilled < slot.spill.len() {
            let len = free.remaining().min(slot.spill.len() - slot.spilled);
            free.put_slice(&slot.spill[slot.spilled..slot.spilled + len]);
            slot.spilled += len;
            if slot.spilled == slot.spill.len() {
                slot.spill = Vec::new();
                slot.spilled = 0;
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(mut chunk) = slot.chunk.take() {
            let len = free.remaining().min(chunk.len());
            free.put_slice(&self.kernel.bytes(&chunk)[..len]);
            chunk.advance(len);
            if chunk.len() > 0 {
                slot.chunk = Some(chunk);
            } else {
                self.kernel.give_back(chunk);
            }
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = slot.error.take() {
            return Poll::Ready(Err(error));
        }
        if slot.ended {
            return Poll::Ready(Ok(()));
        }
        if slot.receiving != Receiving::Direct || slot.is_leaving {
            return Poll::Pending;
        }
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if slot.small_reads >= SMALL_READS {
            return self.receive(number);
        }
        match KernelRing::read_now(slot.socket.as_fd(), free) {
            Ok(len) => {
                slot.ended |= len == 0;
                if len < BUFFER / 2 {
                    slot.small_reads += 1;
                } else {
                    slot.small_reads = 0;
                }
                Poll::Ready(Ok(()))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && slot.small_reads + 1 >= SMALL_READS => {
                self.receive(number)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                slot.receiving = Receiving::DirectArmed;
                slot.operations += 1;
                if let Err(error) = self.kernel.poll(slot.socket.as_fd(), Operation::Input, number) {
                    return Poll::Ready(Err(error));
                }
                self.schedule();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    /// Ends all operations but a send.
    fn end_waits(&mut self, number: u32) {
        let slot = &self.slots[number as usize];
        let receiving = match slot.receiving {
            Receiving::Armed => Some(Operation::Receive),
            Receiving::DirectArmed => Some(Operation::Input),
            Receiving::Direct | Receiving::Ending => None,
        };
        let room = slot.watches_room.then_some(Operation::Room);
        let end = slot.watches_end.then_some(Operation::End);
        for operation in [receiving, room, end].into_iter().flatten() {
            self.cancel(operation, number, 0);
        }
    }

    fn cancel(&mut self, operation: Operation, number: u32, send: usize) {
        // Fails when the ring is broken.
        if self.kernel.cancel(operation, number, send).is_ok() {
            self.slots[number as usize].operations += 1;
        }
    }

    /// From now on the kernel receives.
    fn receive(&mut self, number: u32) -> Poll<io::Result<()>> {
        let slot = &mut self.slots[number as usize];
        slot.receiving = Receiving::Armed;
        slot.operations += 1;
        if let Err(error) = self.kernel.receive(slot.socket.as_fd(), number) {
            return Poll::Ready(Err(error));
        }
        self.schedule();
        Poll::Pending
    }

    fn try_write(&mut self, number: u32, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let slot = &mut self.slots[number as usize];
        if let Some(error) = slot.error.take() {
            return Err(error);
        }
        if self.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let len = pieces.iter().map(|piece| piece.len()).sum::<usize>();
        if slot.sending.in_flight > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let waiting = slot.sending.pending.len();
        if waiting + len <= SMALL {
            self.accept(number, pieces);
            return Ok(len);
        }
        if waiting > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.write_directly(number, pieces)
    }

    fn write(&mut self, number: u32, pieces: &[IoSlice<'_>], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.try_write(number, pieces) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let slot = &mut self.slots[number as usize];
                slot.writer = Some(cx.waker().clone());
                if slot.sending.in_flight == 0 && slot.sending.pending.is_empty() && !slot.watches_room {
                    slot.watches_room = true;
                    slot.operations += 1;
                    self.kernel.poll(slot.socket.as_fd(), Operation::Room, number)?;
                    self.schedule();
                }
                Poll::Pending
            }
            other => Poll::Ready(other),
        }
    }

    fn sent(&mut self, number: u32, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &mut self.slots[number as usize];
        if slot.sending.in_flight == 0 && slot.sending.pending.is_empty() || self.is_broken {
            return Poll::Ready(());
        }
        slot.writer = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for RingStream {
    fn drop(&mut self) {
        if self.number == GONE {
            return;
        }
        self.ring.worker.counters.io_uring_connections_ended.add(1);
        self.with(|state, number| {
            let slot = &mut state.slots[number as usize];
            slot.dropped = true;
            if state.is_broken {
                // No completion will free the slot. Fails when the client has gone.
                let _ = slot.socket.shutdown(Shutdown::Both);
            }
            slot.reader = None;
            slot.writer = None;
            slot.end_waker = None;
            // It waits for room: the client does not read.
            let send = (slot.sending.in_flight > 0).then_some(slot.sending.number);
            state.end_waits(number);
            if let Some(send) = send {
                state.cancel(Operation::Send, number, send);
            }
            state.schedule();
            state.release(number);
        });
    }
}

impl AsyncRead for RingStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, free: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.with(|state, number| {
            let read = state.read(number, free);
            if read.is_pending() {
                let slot = &mut state.slots[number as usize];
                if !slot.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker())) {
                    slot.reader = Some(cx.waker().clone());
                }
            }
            read
        })
    }
}

impl AsyncWrite for RingStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.with(|state, number| state.write(number, &[IoSlice::new(bytes)], cx))
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|state, number| state.write(number, pieces, cx))
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    /// What was written is sent with the worker's next turn. To wait for that would wake each
    /// connection once more for each reply.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|state, number| {
            ready!(state.sent(number, cx));
            Poll::Ready(state.slots[number as usize].socket.shutdown(Shutdown::Write))
        })
    }
}

impl ClientStream for RingStream {
    async fn gone(&self) {
        poll_fn(|cx| {
            self.with(|state, number| {
                let slot = &mut state.slots[number as usize];
                if slot.ended || slot.hung_up || slot.error.is_some() {
                    return Poll::Ready(());
                }
                slot.end_waker = Some(cx.waker().clone());
                if !slot.watches_end {
                    slot.watches_end = true;
                    slot.operations += 1;
                    let _ = state.kernel.poll(slot.socket.as_fd(), Operation::End, number);
                    state.schedule();
                }
                Poll::Pending
            })
        })
        .await
    }
    async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| {
            self.with(|state, number| {
                let slot = &mut state.slots[number as usize];
                slot.is_leaving = false;
                if !slot.spill.is_empty() || slot.chunk.is_some() || slot.ended || slot.error.is_some() {
                    return Poll::Ready(Ok(()));
                }
                slot.reader = Some(cx.waker().clone());
                if slot.receiving == Receiving::Direct {
                    slot.receiving = Receiving::DirectArmed;
                    slot.operations += 1;
                    state.kernel.poll(slot.socket.as_fd(), Operation::Input, number)?;
                    state.schedule();
                }
                Poll::Pending
            })
        })
        .await
    }
    fn try_write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.with(|state, number| state.try_write(number, pieces))
    }
    fn try_read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let read = self.with(|state, number| {
            state.slots[number as usize].is_leaving = false;
            state.read(number, &mut buffer)
        });
        match read {
            Poll::Ready(read) => read.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
    fn is_unflushed(&self) -> bool {
        false
    }
    fn poll_sent(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|state, number| state.sent(number, cx)).map(Ok)
    }
    fn buffered(&self) -> usize {
        self.with(|state, number| {
            let slot = &state.slots[number as usize];
            slot.sending.in_flight + slot.sending.pending.len() + slot.spill.capacity()
        })
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
