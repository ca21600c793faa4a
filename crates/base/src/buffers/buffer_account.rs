//! The buffer account of one connection.
use super::buffer_budget::{BufferKind, Buffers, ClientProtocol, KINDS, LITTLE, STEP};
use larder_config::Address;
use std::{
    cell::Cell,
    marker::PhantomData,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Waker},
};

/// Bytes that a connection, or one request of it, holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldBytes {
    /// Input in buffers of its own.
    pub input: usize,
    /// Output in buffers of its own.
    pub output: usize,
    /// Bytes that it refers to and others count: they make it more likely to be cut.
    pub referred: usize,
}

/// The part of an account that other threads see.
#[derive(Debug)]
pub struct SharedAccount {
    /// Written by the owner of the account only.
    holds: AtomicUsize,
    /// Push messages that wait for it.
    pushes: AtomicUsize,
    /// 0; or what it held when it was told to end; or [`CLOSED`].
    cut: AtomicUsize,
    waker: Waker,
}
const CLOSED: usize = usize::MAX;

impl SharedAccount {
    /// Bytes that the owner would give back, and bytes that it refers to.
    pub(super) fn holds(&self) -> usize {
        self.holds.load(Relaxed) + self.pushes.load(Relaxed)
    }

    /// Notes what the push messages that wait for it occupy, those that others count included.
    pub fn set_pushes(&self, bytes: usize) {
        self.pushes.store(bytes, Relaxed);
    }

    /// Tells the owner to end; false if it has been told or has ended.
    pub(super) fn cut(&self, holds: usize, ending: &AtomicUsize) -> bool {
        // Added first: once told, the owner takes it off again.
        ending.fetch_add(holds, Relaxed);
        if self.cut.compare_exchange(0, holds, Relaxed, Relaxed).is_err() {
            ending.fetch_sub(holds, Relaxed);
            return false;
        }
        // Waking a task synchronises with its next poll, which therefore sees it.
        self.waker.wake_by_ref();
        true
    }
}

/// The buffer account of a connection or of one request. Dropping it gives back what it holds.
#[derive(Debug)]
pub struct BufferAccount {
    buffers: Arc<Buffers>,
    account: Arc<SharedAccount>,
    worker: usize,
    protocol: ClientProtocol,
    kinds: [BufferKind; 2],
    /// Where it is listed; `None`: it cannot be cut.
    key: Option<usize>,
    holding: Cell<HeldBytes>,
    /// Growth since the bound was last looked at.
    grown: Cell<usize>,
    /// The worker's numbers have one writer: its thread.
    _stays: PhantomData<Rc<()>>,
}

impl BufferAccount {
    /// For a client of `worker`, called on its thread; `waker` wakes the task that can end it.
    pub fn client(buffers: &Arc<Buffers>, worker: usize, protocol: ClientProtocol, waker: Waker) -> BufferAccount {
        let kinds = match protocol {
            ClientProtocol::Redis => [BufferKind::RedisInput, BufferKind::RedisOutput],
            ClientProtocol::Http => [BufferKind::HttpInput, BufferKind::HttpOutput],
            ClientProtocol::Memcached => [BufferKind::MemcachedInput, BufferKind::MemcachedOutput],
        };
        let mut holder = BufferAccount::new(buffers, worker, protocol, kinds, waker);
        let key = buffers.workers[worker].accounts.lock().insert(holder.account.clone());
        holder.key = Some(key);
        holder
    }

    fn new(
        buffers: &Arc<Buffers>,
        worker: usize,
        protocol: ClientProtocol,
        kinds: [BufferKind; 2],
        waker: Waker,
    ) -> BufferAccount {
        let account =
            SharedAccount { holds: AtomicUsize::new(0), pushes: AtomicUsize::new(0), cut: AtomicUsize::new(0), waker };
        BufferAccount {
            buffers: buffers.clone(),
            account: Arc::new(account),
            worker,
            protocol,
            kinds,
            key: None,
            holding: Cell::default(),
            grown: Cell::new(0),
            _stays: PhantomData,
        }
    }

    /// The part that other threads see.
    pub fn account(&self) -> &Arc<SharedAccount> {
        &self.account
    }

    #[inline]
    pub fn set(&self, now: HeldBytes) {
        let was = self.holding.get();
        if now != was {
            self.change(was, now);
        }
    }

    fn change(&self, was: HeldBytes, now: HeldBytes) {
        self.holding.set(now);
        self.account.holds.store(now.input + now.output + now.referred, Relaxed);
        let counts: &[AtomicUsize; KINDS] = &self.buffers.workers[self.worker].bytes;
        for (kind, was, now) in [(self.kinds[0], was.input, now.input), (self.kinds[1], was.output, now.output)] {
            let count = &counts[kind as usize];
            // The worker's alone, so nothing comes between.
            count.store(count.load(Relaxed) + now - was, Relaxed);
        }
        let (was, now) = (was.input + was.output, now.input + now.output);
        if now <= was {
            // What is given back and taken again is no growth.
            self.grown.set(self.grown.get().saturating_sub(was - now));
            return;
        }
        let grown = self.grown.get() + now - was;
        self.grown.set(grown);
        if grown >= STEP {
            self.grown.set(0);
            self.buffers.check();
        }
    }

    /// May it take more input? One that holds little always may. If not, the task is woken when it
    /// should look again.
    #[inline]
    pub fn poll_room(&self, cx: &Context<'_>) -> bool {
        let holding = self.holding.get();
        holding.input + holding.output < LITTLE || self.buffers.poll_room(cx)
    }

    /// What was set last.
    pub fn holding(&self) -> HeldBytes {
        self.holding.get()
    }

    /// Has it been told to end?
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.account.cut.load(Relaxed) != 0
    }

    /// It ends because it was told to: counts and logs that.
    pub fn note_cut(&self, peer: &Address) {
        self.buffers.note_cut(self.protocol, peer, self.account.holds());
    }
}

impl Drop for BufferAccount {
    fn drop(&mut self) {
        self.set(HeldBytes::default());
        if let Some(key) = self.key {
            let account = self.buffers.workers[self.worker].accounts.lock().remove(key);
            drop(account);
        }
        match self.account.cut.swap(CLOSED, Relaxed) {
            0 | CLOSED => {}
            told => {
                self.buffers.ending.fetch_sub(told, Relaxed);
                self.buffers.wake_waiting();
            }
        }
    }
}
