//! What one connection holds.
use super::budget::{Buffers, KINDS, Kind, LITTLE, Protocol, STEP};
use std::{
    cell::Cell,
    marker::PhantomData,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Waker},
};

/// Bytes that a connection, or one request of it, holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holding {
    /// Of input, in buffers of its own.
    pub input: usize,
    /// Of output, in buffers of its own.
    pub output: usize,
    /// That it refers to and others count: they make it more likely to be cut.
    pub referred: usize,
}

/// What others see of a holder.
#[derive(Debug)]
pub struct Account {
    /// Written by the holder only.
    holds: AtomicUsize,
    /// Push messages that wait for it.
    pushes: AtomicUsize,
    /// 0; or what it held when it was told to end; or [`CLOSED`].
    cut: AtomicUsize,
    waker: Waker,
}
const CLOSED: usize = usize::MAX;

impl Account {
    /// What the holder would give back, and what it refers to.
    pub(super) fn holds(&self) -> usize {
        self.holds.load(Relaxed) + self.pushes.load(Relaxed)
    }

    /// Notes what the push messages that wait for it occupy, those that others count included.
    pub fn set_pushes(&self, bytes: usize) {
        self.pushes.store(bytes, Relaxed);
    }

    /// Tells the holder to end; false if it has been told or has ended.
    pub(super) fn cut(&self, holds: usize, ending: &AtomicUsize) -> bool {
        // Added first: once told, the holder takes it off again.
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

/// A connection's, or a request's, side of the account. What it holds is given back when this is dropped.
#[derive(Debug)]
pub struct Holder {
    buffers: Arc<Buffers>,
    account: Arc<Account>,
    worker: usize,
    protocol: Protocol,
    kinds: [Kind; 2],
    /// Where it is listed; `None`: it cannot be cut.
    key: Option<usize>,
    holding: Cell<Holding>,
    /// Growth since the bound was last looked at.
    grown: Cell<usize>,
    /// The worker's numbers have one writer: its thread.
    _stays: PhantomData<Rc<()>>,
}

impl Holder {
    /// For a client of `worker`, called on its thread; `waker` wakes the task that can end it.
    pub fn client(buffers: &Arc<Buffers>, worker: usize, protocol: Protocol, waker: Waker) -> Holder {
        let kinds = match protocol {
            Protocol::Redis => [Kind::RedisInput, Kind::RedisOutput],
            Protocol::Http => [Kind::HttpInput, Kind::HttpOutput],
        };
        let mut holder = Holder::new(buffers, worker, protocol, kinds, waker);
        let key = buffers.workers[worker].accounts.lock().insert(holder.account.clone());
        holder.key = Some(key);
        holder
    }

    fn new(buffers: &Arc<Buffers>, worker: usize, protocol: Protocol, kinds: [Kind; 2], waker: Waker) -> Holder {
        let account =
            Account { holds: AtomicUsize::new(0), pushes: AtomicUsize::new(0), cut: AtomicUsize::new(0), waker };
        Holder {
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

    /// What others see of it.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Says what is held now.
    #[inline]
    pub fn set(&self, now: Holding) {
        let was = self.holding.get();
        if now != was {
            self.change(was, now);
        }
    }

    fn change(&self, was: Holding, now: Holding) {
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

    /// May it take more input? One that holds little always may. If not, the task is woken when it should look again.
    #[inline]
    pub fn poll_room(&self, cx: &Context<'_>) -> bool {
        let holding = self.holding.get();
        holding.input + holding.output < LITTLE || self.buffers.poll_room(cx)
    }

    /// What it last said.
    pub fn holding(&self) -> Holding {
        self.holding.get()
    }

    /// Has it been told to end?
    #[inline]
    pub fn is_cut(&self) -> bool {
        self.account.cut.load(Relaxed) != 0
    }

    /// It ends because it was told to: counts and logs that.
    pub fn note_cut(&self, peer: SocketAddr) {
        self.buffers.note_cut(self.protocol, peer, self.account.holds());
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.set(Holding::default());
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
