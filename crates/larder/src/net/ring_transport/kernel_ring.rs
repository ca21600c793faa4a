//! The kernel's side of the transport: one io_uring with a ring of receive buffers, behind an
//! interface that no caller can use to touch memory wrongly. All `unsafe` of the server is in this
//! file.
//!
//! Who owns which memory:
//! - Bytes to send belong to `sends` from the push of their entry to its completion. A `Vec` in a
//!   slab is never resized while it is there, so the address that the kernel has stays right.
//! - A receive buffer is the kernel's from `give_back` (or the start) to the completion that names
//!   it, and then a [`Chunk`]'s, which exists once and is given back by value.
//! - When the ring is dropped with operations under way, the kernel may go on writing for a moment.
//!   All this memory is then leaked.
#![expect(unsafe_code, reason = "the kernel reads and writes memory whose addresses it was given")]
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use memmap2::MmapMut;
use rustix::{
    event::PollFlags,
    io::Errno,
    net::{self, RecvFlags, SendFlags},
};
use slab::Slab;
use std::{
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    slice,
    sync::atomic::{AtomicU16, Ordering::Release},
};
use tokio::io::{Interest, ReadBuf, unix::AsyncFd};

/// Entries of the submission queue. When it is full, what is there is submitted.
const ENTRIES: u32 = 512;
/// Room for completions. More are kept by the kernel until there is room (`IORING_FEAT_NODROP`).
const COMPLETIONS: u32 = 4096;
/// Receive buffers; a power of two. As many clients as this can be received from in one turn.
const BUFFERS: u16 = 1024;
/// Bytes of each.
pub(super) const BUFFER: usize = 2 * 1024;
/// The number of the only group of buffers.
const GROUP: u16 = 0;
/// `IORING_ENTER_GETEVENTS`: the kernel does what waits for this thread (io_uring_enter(2)).
const GET_EVENTS: u32 = 1;

/// What an operation does. In the low three bits of its user data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Operation {
    Receive,
    Send,
    /// Waits until the socket can be read.
    Input,
    /// Waits until the socket can be written.
    Room,
    /// Waits until the client has closed its side.
    End,
    Cancel,
}
impl Operation {
    const ALL: [Operation; 6] =
        [Operation::Receive, Operation::Send, Operation::Input, Operation::Room, Operation::End, Operation::Cancel];
}

/// Received bytes in a buffer of the ring.
#[derive(Debug)]
pub(super) struct Chunk {
    buffer: u16,
    start: usize,
    end: usize,
}
impl Chunk {
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }
    /// The first bytes were used.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.start = self.end.min(self.start + bytes);
    }
    pub(super) fn fills_buffer(&self) -> bool {
        self.end == BUFFER
    }
}

/// An event of an operation.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) token: u32,
    pub(super) operation: Operation,
    /// A count of bytes or the bits of a poll.
    pub(super) result: io::Result<usize>,
    /// It was not the last event of its operation.
    pub(super) more: bool,
    pub(super) chunk: Option<Chunk>,
    /// What was to be sent.
    pub(super) sent: Option<Vec<u8>>,
}

pub(super) struct KernelRing {
    ring: mem::ManuallyDrop<IoUring>,
    sends: mem::ManuallyDrop<Slab<Vec<u8>>>,
    entries: mem::ManuallyDrop<MmapMut>,
    buffers: mem::ManuallyDrop<MmapMut>,
    /// Of `entries`: how many buffers were given to the kernel, modulo 2^16.
    tail: u16,
    /// Operations whose last completion has not come.
    under_way: usize,
}

impl KernelRing {
    /// A ring for this thread only.
    pub(super) fn new() -> io::Result<KernelRing> {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS).setup_submit_all().setup_single_issuer();
        // Not DEFER_TASKRUN: work that waits for this thread would not wake its epoll.
        builder.setup_coop_taskrun().setup_taskrun_flag();
        let ring = builder.build(ENTRIES)?;
        let mut entries = MmapMut::map_anon(usize::from(BUFFERS) * size_of::<types::BufRingEntry>())?;
        let buffers = MmapMut::map_anon(usize::from(BUFFERS) * BUFFER)?;
        // SAFETY: `entries` is page-aligned, has room for BUFFERS entries, and outlives the ring (`drop`).
        unsafe { ring.submitter().register_buf_ring_with_flags(entries.as_mut_ptr() as u64, BUFFERS, GROUP, 0)? };
        let mut ring = KernelRing {
            ring: mem::ManuallyDrop::new(ring),
            sends: mem::ManuallyDrop::new(Slab::new()),
            entries: mem::ManuallyDrop::new(entries),
            buffers: mem::ManuallyDrop::new(buffers),
            tail: 0,
            under_way: 0,
        };
        for buffer in 0..BUFFERS {
            ring.put(buffer);
        }
        ring.publish();
        Ok(ring)
    }

    /// The ring as the runtime waits for it: readable when there are completions.
    pub(super) fn events(&self) -> io::Result<AsyncFd<OwnedFd>> {
        // SAFETY: the ring has its file open.
        let fd = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) }.try_clone_to_owned()?;
        // SAFETY: the result owns the file and keeps it open.
        let events = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        events.map_err(Into::into)
    }

    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>, token: u32) -> io::Result<()> {
        let fd = types::Fd(socket.as_raw_fd());
        self.push(opcode::RecvMulti::new(fd, GROUP).build(), Operation::Receive, token, 0)
    }

    /// Sends at once what the socket has room for, or with `wait` all, once there is room. Returns the
    /// number of the operation.
    pub(super) fn send(&mut self, socket: BorrowedFd<'_>, bytes: Vec<u8>, token: u32, wait: bool) -> io::Result<usize> {
        let len = u32::try_from(bytes.len()).expect("a send buffer is small");
        let at = bytes.as_ptr();
        let number = self.sends.insert(bytes);
        let how = if wait { RecvFlags::WAITALL.bits() } else { SendFlags::DONTWAIT.bits() };
        let flags = SendFlags::NOSIGNAL.bits() | how;
        let entry = opcode::Send::new(types::Fd(socket.as_raw_fd()), at, len).flags(flags as i32).build();
        self.push(entry, Operation::Send, token, number)?;
        Ok(number)
    }

    pub(super) fn poll(&mut self, socket: BorrowedFd<'_>, operation: Operation, token: u32) -> io::Result<()> {
        let events = match operation {
            Operation::Input => PollFlags::IN | PollFlags::RDHUP,
            Operation::Room => PollFlags::OUT,
            _ => PollFlags::RDHUP,
        };
        let entry = opcode::PollAdd::new(types::Fd(socket.as_raw_fd()), u32::from(events.bits())).build();
        self.push(entry, operation, token, 0)
    }

    /// Ends an operation, which completes in any case. `number` is that of a send, else 0.
    pub(super) fn cancel(&mut self, operation: Operation, token: u32, number: usize) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(user_data(operation, token, number)).build();
        self.push(entry, Operation::Cancel, token, 0)
    }

    fn push(&mut self, entry: squeue::Entry, operation: Operation, token: u32, number: usize) -> io::Result<()> {
        let entry = entry.user_data(user_data(operation, token, number));
        if self.ring.submission().is_full() {
            self.enter()?;
        }
        // SAFETY: the entry points to no memory, or to bytes that `sends` owns until its completion.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::Error::other("the queue is full"))?;
        self.under_way += 1;
        Ok(())
    }

    /// Submits everything and lets the kernel do what waits for this thread.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        let len = self.ring.submission().len();
        // SAFETY: no argument is passed.
        let entered = unsafe { self.ring.submitter().enter::<u8>(len as u32, 0, GET_EVENTS, None) };
        match entered {
            Ok(_) => Ok(()),
            // What is still in the queue is submitted with the next.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether `enter` would do anything.
    pub(super) fn has_work(&mut self) -> bool {
        let queue = self.ring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    pub(super) fn complete(&mut self) -> Option<Completion> {
        let entry: cqueue::Entry = self.ring.completion().next()?;
        let data = entry.user_data();
        let (result, flags) = (entry.result(), entry.flags());
        let operation = Operation::ALL[(data & 7) as usize];
        let more = cqueue::more(flags);
        if !more {
            self.under_way -= 1;
        }
        let result = match result {
            0.. => Ok(result as usize),
            _ => Err(io::Error::from_raw_os_error(-result)),
        };
        let chunk =
            cqueue::buffer_select(flags).map(|buffer| Chunk { buffer, start: 0, end: *result.as_ref().unwrap_or(&0) });
        let sent = (operation == Operation::Send).then(|| self.sends.remove((data >> 32) as usize));
        Some(Completion { token: (data as u32) >> 3, operation, result, more, chunk, sent })
    }

    /// Reads what the socket has now, without the ring.
    pub(super) fn read_now(socket: BorrowedFd<'_>, free: &mut ReadBuf<'_>) -> io::Result<usize> {
        // SAFETY: nothing that is initialised is made uninitialised: only the kernel writes there.
        let ((read, _), _) = net::recv(socket, unsafe { free.unfilled_mut() }, RecvFlags::DONTWAIT)?;
        let len = read.len();
        // SAFETY: the kernel has written this many bytes.
        unsafe { free.assume_init(len) };
        free.advance(len);
        Ok(len)
    }

    /// The received bytes.
    pub(super) fn bytes<'r>(&'r self, chunk: &'r Chunk) -> &'r [u8] {
        assert!(chunk.start <= chunk.end && chunk.end <= BUFFER && chunk.buffer < BUFFERS);
        // SAFETY: within `buffers` by the check; the buffer is the chunk's, so the kernel does not write to it.
        unsafe {
            let at = self.buffers.as_ptr().add(usize::from(chunk.buffer) * BUFFER + chunk.start);
            slice::from_raw_parts(at, chunk.end - chunk.start)
        }
    }

    pub(super) fn give_back(&mut self, chunk: Chunk) {
        self.put(chunk.buffer);
        self.publish();
    }

    fn put(&mut self, buffer: u16) {
        let at = usize::from(self.tail & (BUFFERS - 1));
        let address = self.buffers.as_ptr() as u64 + (usize::from(buffer) * BUFFER) as u64;
        // SAFETY: `at` is less than BUFFERS. The kernel does not read this entry before the tail passes it. Written field by
        // field: the last field of entry 0 is the tail.
        unsafe {
            let entry = self.entries.as_mut_ptr().cast::<types::BufRingEntry>().add(at);
            (*entry).set_addr(address);
            (*entry).set_len(BUFFER as u32);
            (*entry).set_bid(buffer);
        }
        self.tail = self.tail.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: the address of the tail within `entries`, which is aligned; only this thread writes it.
        unsafe {
            let tail = types::BufRingEntry::tail(self.entries.as_ptr().cast()).cast::<AtomicU16>();
            (*tail).store(self.tail, Release);
        }
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        // SAFETY: nothing is used after this; dropped once.
        unsafe {
            mem::ManuallyDrop::drop(&mut self.ring);
            if self.under_way == 0 {
                mem::ManuallyDrop::drop(&mut self.sends);
                mem::ManuallyDrop::drop(&mut self.entries);
                mem::ManuallyDrop::drop(&mut self.buffers);
            }
        }
    }
}

fn user_data(operation: Operation, token: u32, number: usize) -> u64 {
    operation as u64 | u64::from(token) << 3 | (number as u64) << 32
}
