//! The ring of one worker: the states of its connections, and the task that submits and reaps.
use super::{
    kernel_ring::{Chunk, Completion, KernelRing, Operation},
    placement::{FirstKey, Placement},
    turn_meter::TurnMeter,
};
use larder_core::{app::Worker, read::KEYS_AHEAD};
use rustix::io::Errno;
use slab::Slab;
use std::{
    cell::RefCell,
    future::poll_fn,
    io::{self, Write},
    mem,
    net::TcpStream,
    ops::Deref,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    task::{Context, Poll, Waker},
};
use tokio::{
    io::unix::AsyncFd,
    runtime::{Handle, RuntimeMetrics},
};

/// Spare send buffers.
const SPARE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiving {
    /// No operation: reads ask the socket.
    Direct,
    /// Reads ask the socket; a poll waits for input.
    DirectArmed,
    /// The kernel receives into its buffers.
    Armed,
    /// The kernel receives into its buffers, but the operation is being ended.
    Ending,
}

#[derive(Debug, Default)]
pub(super) struct Sending {
    /// Accepted and not submitted.
    pub(super) pending: Vec<u8>,
    /// Bytes with the kernel.
    pub(super) in_flight: usize,
    /// The slot is listed to be submitted.
    pub(super) listed: bool,
    /// The number of their operation.
    pub(super) number: usize,
}

pub(super) struct Slot {
    pub(super) socket: TcpStream,
    /// How its protocol finds the key of the command at the start of its input.
    pub(super) first_key: Option<FirstKey>,
    pub(super) receiving: Receiving,
    pub(super) chunk: Option<Chunk>,
    /// Bytes of chunks that were not read in their turn.
    pub(super) spill: Vec<u8>,
    pub(super) spilled: usize,
    pub(super) ended: bool,
    pub(super) error: Option<io::Error>,
    pub(super) small_reads: u32,
    pub(super) sending: Sending,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    pub(super) watches_room: bool,
    pub(super) watches_end: bool,
    /// The client has closed its side. There may be input that came before.
    pub(super) hung_up: bool,
    pub(super) end_waker: Option<Waker>,
    pub(super) operations: u32,
    /// Its stream is to leave the ring: nothing is armed any more.
    pub(super) is_leaving: bool,
    pub(super) dropped: bool,
}

pub(super) struct State {
    pub(super) kernel: KernelRing,
    pub(super) slots: Slab<Slot>,
    /// Slots with bytes to submit.
    unsent: Vec<u32>,
    /// Slots that got a chunk in this turn.
    received: Vec<u32>,
    wakers: Vec<Waker>,
    spare: Vec<Vec<u8>>,
    scheduled: bool,
    driver: Option<Waker>,
    /// Waits until no stream is left.
    at_end: Option<Waker>,
    /// The ring does not work any more.
    pub(super) is_broken: bool,
}

/// What the streams of one worker share.
pub(in crate::net) struct RingShared {
    pub(super) state: RefCell<State>,
    pub(super) placement: Placement,
    pub(super) meter: TurnMeter,
    /// Of the runtime: how often it has waited.
    metrics: RuntimeMetrics,
    pub(super) worker: Rc<Worker>,
}

#[derive(Clone)]
pub(in crate::net) struct WorkerRing {
    shared: Rc<RingShared>,
}

impl Deref for WorkerRing {
    type Target = RingShared;
    #[inline]
    fn deref(&self) -> &RingShared {
        &self.shared
    }
}

impl RingShared {
    /// Input was read from a client that had been waited for, at either place.
    #[inline]
    pub(super) fn note_read(&self) {
        self.meter.note_read(self.metrics.worker_park_count(0));
    }
}

impl WorkerRing {
    pub(super) fn start(placement: Placement, worker: Rc<Worker>) -> io::Result<WorkerRing> {
        let kernel = KernelRing::new()?;
        let events = kernel.events()?;
        let state = State {
            kernel,
            slots: Slab::new(),
            unsent: Vec::new(),
            received: Vec::new(),
            wakers: Vec::new(),
            spare: Vec::new(),
            scheduled: false,
            driver: None,
            at_end: None,
            is_broken: false,
        };
        let metrics = Handle::current().metrics();
        let shared = RingShared { state: RefCell::new(state), placement, meter: TurnMeter::default(), metrics, worker };
        let ring = WorkerRing { shared: Rc::new(shared) };
        let driver = ring.clone();
        tokio::task::spawn_local(async move { poll_fn(|cx| driver.drive(&events, cx)).await });
        Ok(ring)
    }

    /// Whether new connections can use it.
    pub(in crate::net) fn works(&self) -> bool {
        !self.state.borrow().is_broken
    }

    /// Waits until everything is sent and closed.
    pub(in crate::net) async fn emptied(&self) {
        poll_fn(|cx| {
            let state = &mut *self.state.borrow_mut();
            if state.slots.is_empty() || state.is_broken {
                return Poll::Ready(());
            }
            state.at_end = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// One turn: submits, reaps and wakes. Then waits for the ring's next event.
    fn drive(&self, events: &AsyncFd<OwnedFd>, cx: &mut Context<'_>) -> Poll<()> {
        // What this turn receives is read before the next.
        self.meter.end_turn();
        let mut wakers = {
            let state = &mut *self.state.borrow_mut();
            if !state.driver.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.driver = Some(cx.waker().clone());
            }
            state.scheduled = false;
            loop {
                if let Err(error) = state.turn() {
                    tracing::error!(%error, "io_uring does not work any more: its connections end, new ones use epoll");
                    state.break_all();
                    break;
                }
                if !state.wakers.is_empty() || !state.unsent.is_empty() || state.kernel.has_work() {
                    // Behind the tasks that are woken.
                    state.scheduled = true;
                    cx.waker().wake_by_ref();
                    break;
                }
                match events.poll_read_ready(cx) {
                    Poll::Pending => break,
                    Poll::Ready(guard) => guard.expect("the runtime runs").clear_ready(),
                }
            }
            state.prefetch(&self.worker);
            mem::take(&mut state.wakers)
        };
        for waker in wakers.drain(..) {
            waker.wake();
        }
        self.state.borrow_mut().wakers = wakers;
        Poll::Pending
    }
}

impl State {
    /// Has the driver run after the tasks that are ready now.
    pub(super) fn schedule(&mut self) {
        if !mem::replace(&mut self.scheduled, true)
            && let Some(driver) = &self.driver
        {
            driver.wake_by_ref();
        }
    }

    /// Accepts bytes to be sent.
    pub(super) fn accept(&mut self, number: u32, pieces: &[io::IoSlice<'_>]) {
        let slot = &mut self.slots[number as usize];
        if slot.sending.pending.capacity() == 0 {
            slot.sending.pending = self.spare.pop().unwrap_or_default();
        }
        for piece in pieces {
            slot.sending.pending.extend_from_slice(piece);
        }
        if !mem::replace(&mut slot.sending.listed, true) {
            self.unsent.push(number);
            self.schedule();
        }
    }

    /// Ends all streams.
    fn break_all(&mut self) {
        self.is_broken = true;
        self.wakers.extend(self.at_end.take());
        for (_, slot) in &mut self.slots {
            slot.error = Some(io::ErrorKind::BrokenPipe.into());
            self.wakers
                .extend([&mut slot.reader, &mut slot.writer, &mut slot.end_waker].into_iter().filter_map(Option::take));
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        self.spill()?;
        let mut unsent = mem::take(&mut self.unsent);
        for number in unsent.drain(..) {
            let Some(slot) = self.slots.get_mut(number as usize) else { continue };
            slot.sending.listed = false;
            if slot.sending.pending.is_empty() || slot.sending.in_flight > 0 {
                continue;
            }
            let bytes = mem::take(&mut slot.sending.pending);
            slot.sending.in_flight = bytes.len();
            slot.operations += 1;
            slot.sending.number = self.kernel.send(slot.socket.as_fd(), bytes, number, false)?;
        }
        self.unsent = unsent;
        if self.kernel.has_work() {
            self.kernel.enter()?;
        }
        while let Some(completion) = self.kernel.complete() {
            self.take(completion)?;
        }
        Ok(())
    }

    /// Moves what its connection has not read out of the kernel's buffers.
    fn spill(&mut self) -> io::Result<()> {
        let mut received = mem::take(&mut self.received);
        for number in received.drain(..) {
            let Some(slot) = self.slots.get_mut(number as usize) else { continue };
            let Some(chunk) = slot.chunk.take() else { continue };
            slot.spill.extend_from_slice(self.kernel.bytes(&chunk));
            self.kernel.give_back(chunk);
            if slot.receiving == Receiving::Armed {
                slot.receiving = Receiving::Ending;
                slot.operations += 1;
                slot.small_reads = 0;
                self.kernel.cancel(Operation::Receive, number, 0)?;
            }
        }
        self.received = received;
        Ok(())
    }

    /// Prefetches what the received commands will look up: their connections run one after the other,
    /// and each would wait for memory by itself.
    fn prefetch(&self, worker: &Worker) {
        let group = worker.groups.default();
        for row in self.received.chunks(KEYS_AHEAD) {
            group.prefetch_ahead(row.iter().map(|number| {
                let slot = self.slots.get(*number as usize)?;
                (slot.first_key?)(self.kernel.bytes(slot.chunk.as_ref()?))
            }));
        }
    }

    fn take(&mut self, completion: Completion) -> io::Result<()> {
        let Completion { token: number, operation, result, more, chunk, sent } = completion;
        let slot = &mut self.slots[number as usize];
        if !more {
            slot.operations -= 1;
        }
        match operation {
            Operation::Receive => {
                if let Some(chunk) = chunk {
                    if chunk.fills_buffer() && more && slot.receiving == Receiving::Armed {
                        slot.receiving = Receiving::Ending;
                        slot.small_reads = 0;
                        slot.operations += 1;
                        self.kernel.cancel(Operation::Receive, number, 0)?;
                    }
                    if slot.dropped || chunk.len() == 0 {
                        self.kernel.give_back(chunk);
                    } else if slot.chunk.is_some() || !slot.spill.is_empty() {
                        if let Some(first) = slot.chunk.take() {
                            slot.spill.extend_from_slice(self.kernel.bytes(&first));
                            self.kernel.give_back(first);
                        }
                        slot.spill.extend_from_slice(self.kernel.bytes(&chunk));
                        self.kernel.give_back(chunk);
                    } else {
                        slot.chunk = Some(chunk);
                        self.received.push(number);
                    }
                }
                match result {
                    Ok(0) => slot.ended = true,
                    Ok(_) => {}
                    // Reads ask the socket.
                    Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOBUFS | Errno::CANCELED)) => {
                        slot.small_reads = 0
                    }
                    Err(error) => slot.error = Some(error),
                }
                if !more {
                    slot.receiving = Receiving::Direct;
                }
                self.wakers.extend(slot.reader.take());
                if slot.ended {
                    self.wakers.extend(slot.end_waker.take());
                }
            }
            Operation::Send => {
                let mut bytes = sent.unwrap_or_default();
                slot.sending.in_flight = 0;
                let done = match result {
                    Ok(done) => done,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                    Err(error) => {
                        slot.error = Some(error);
                        self.wakers.extend(slot.reader.take());
                        bytes.len()
                    }
                };
                if done < bytes.len() && !slot.dropped {
                    bytes.drain(..done);
                    slot.sending.in_flight = bytes.len();
                    slot.operations += 1;
                    slot.sending.number = self.kernel.send(slot.socket.as_fd(), bytes, number, true)?;
                    self.kernel.enter()?;
                } else {
                    if slot.sending.pending.is_empty() {
                        self.wakers.extend(slot.writer.take());
                    } else if !mem::replace(&mut slot.sending.listed, true) {
                        self.unsent.push(number);
                    }
                    if self.spare.len() < SPARE {
                        bytes.clear();
                        self.spare.push(bytes);
                    }
                }
            }
            Operation::Input => {
                slot.receiving = Receiving::Direct;
                self.wakers.extend(slot.reader.take());
            }
            Operation::Room => {
                slot.watches_room = false;
                self.wakers.extend(slot.writer.take());
            }
            Operation::End => {
                slot.watches_end = false;
                slot.hung_up |= result.is_ok();
                self.wakers.extend(slot.end_waker.take());
            }
            Operation::Cancel => {}
        }
        if slot.is_leaving && slot.operations == 0 {
            self.wakers.extend(slot.reader.take());
        }
        self.release(number);
        Ok(())
    }

    /// Frees the slot of a stream that is gone, once nothing is under way.
    pub(super) fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        if slot.dropped && slot.operations == 0 && slot.sending.pending.is_empty() {
            if let Some(chunk) = slot.chunk.take() {
                self.kernel.give_back(chunk);
            }
            self.remove(number);
        }
    }

    /// Frees a slot under which nothing is under way.
    pub(super) fn remove(&mut self, number: u32) -> Slot {
        let slot = self.slots.remove(number as usize);
        if self.slots.is_empty()
            && let Some(waker) = self.at_end.take()
        {
            waker.wake();
        }
        slot
    }

    /// Writes to the socket.
    pub(super) fn write_directly(&mut self, number: u32, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
        (&self.slots[number as usize].socket).write_vectored(pieces)
    }
}
