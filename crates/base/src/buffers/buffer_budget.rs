//! The bound on all buffers, and what is held against it.
use super::{buffer_account::SharedAccount, open_files::OpenFiles};
use larder_config::Address;
use larder_engine::Lent;
use larder_store::clock;
use parking_lot::Mutex;
use slab::Slab;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Waker},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferKind {
    /// What Redis clients have sent and Larder keeps: partial commands, queued transactions, watched
    /// keys, subscriptions, prefixes of CLIENT TRACKING, names.
    RedisInput,
    /// Replies that Redis clients have not taken.
    RedisOutput,
    /// Heads and bodies of HTTP requests.
    HttpInput,
    /// Responses that HTTP clients have not taken.
    HttpOutput,
    /// Partial commands and values of memcached clients.
    MemcachedInput,
    /// Replies that memcached clients have not taken.
    MemcachedOutput,
    /// Commands on their way to a source.
    Relayed,
    /// Values and replies of a source that have not been passed on.
    Fetched,
    /// Messages and invalidations that were not delivered.
    Pushes,
    /// Keys of which clients hold copies (CLIENT TRACKING).
    Tracking,
    /// Where the walks of SCAN go on.
    Cursors,
    /// Users that ACL SETUSER has made or changed.
    Users,
    /// Entries of the slow log.
    Logs,
}
pub(super) const KINDS: usize = 13;
impl BufferKind {
    /// In the order of the variants.
    const NAMES: [&'static str; KINDS] = [
        "redis_input",
        "redis_output",
        "http_input",
        "http_output",
        "memcached_input",
        "memcached_output",
        "relayed",
        "fetched",
        "pushes",
        "tracking",
        "cursors",
        "users",
        "logs",
    ];
}

/// Whose buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProtocol {
    /// A Redis client's.
    Redis,
    /// An HTTP client's.
    Http,
    /// A memcached client's.
    Memcached,
}
impl ClientProtocol {
    /// In the order of the variants.
    pub(super) const NAMES: [&'static str; 3] = ["redis", "http", "memcached"];
}

/// A connection may always be due this much, so that each goes on, if slowly.
pub(super) const LEAST_DUE: usize = 16 * 1024;
/// A connection may be due this part of what is free.
pub(super) const DUE_SHARE: usize = 16;
/// At the bound, connections are cut until this part of it is free.
pub(super) const MARGIN_SHARE: usize = 16;
/// Connections that hold less are not cut for it, unless they are so many that it matters.
pub(super) const WORTH_CUTTING: usize = 64 * 1024;
/// Milliseconds between two lines of log about connections that were cut.
const LOG_EVERY: u64 = 1000;
/// Who holds less may go on at the bound.
pub(super) const LITTLE: usize = 32 * 1024;
/// Growth that the bound is looked at for.
pub(super) const STEP: usize = 16 * 1024;

/// The bound, and what is held. See the room's page for who counts what.
#[derive(Debug)]
pub struct Buffers {
    pub(super) limit: usize,
    open_files: Arc<OpenFiles>,
    pub(super) workers: Box<[WorkerBuffers]>,
    /// What any thread may charge, by [`BufferKind`].
    pub(super) shared: [AtomicUsize; KINDS],
    pub(super) lent: Vec<Lent>,
    /// What those hold who have been told to end and have not.
    pub(super) ending: AtomicUsize,
    pub(super) relieving: Mutex<()>,
    /// Who waits for room.
    pub(super) waiting: Mutex<Vec<Waker>>,
    /// By [`ClientProtocol`].
    pub(super) cut: [AtomicU64; ClientProtocol::NAMES.len()],
    pub(super) refused: AtomicU64,
    pub(super) logged: AtomicU64,
}

/// What one worker's connections hold; the worker alone writes the numbers.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct WorkerBuffers {
    pub(super) bytes: [AtomicUsize; KINDS],
    /// What a connection may be due now.
    pub(super) allowance: AtomicUsize,
    pub(super) accounts: Mutex<Slab<Arc<SharedAccount>>>,
}

impl Buffers {
    /// At most `limit` bytes (`max-buffers`), for `workers` threads; values that outlive these
    /// memory tiers count.
    pub fn new(limit: usize, workers: usize, lent: Vec<Lent>) -> Arc<Buffers> {
        let buffers = Buffers {
            limit,
            open_files: Arc::default(),
            workers: (0..workers.max(1)).map(|_| WorkerBuffers::default()).collect(),
            shared: Default::default(),
            lent,
            ending: AtomicUsize::new(0),
            relieving: Mutex::default(),
            waiting: Mutex::default(),
            cut: Default::default(),
            refused: AtomicU64::new(0),
            logged: AtomicU64::new(0),
        };
        (0..buffers.workers.len()).for_each(|worker| buffers.note_allowance(worker, 0));
        Arc::new(buffers)
    }

    /// Without a bound, for one thread: where no clients are served.
    pub fn unbounded() -> Arc<Buffers> {
        Buffers::new(usize::MAX, 1, Vec::new())
    }

    /// The account of open files, which belongs to the same connections.
    pub fn open_files(&self) -> &Arc<OpenFiles> {
        &self.open_files
    }

    /// The bound (`max-buffers`).
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes held now. The counts are read one after the other, so what moves meanwhile may be
    /// missed or seen twice.
    pub fn used(&self) -> usize {
        let lent: usize = self.lent.iter().map(Lent::bytes).sum();
        (0..KINDS).fold(lent, |sum, kind| sum.saturating_add(self.of_kind(kind)))
    }

    /// Bytes by kind, for metrics.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let lent: usize = self.lent.iter().map(Lent::bytes).sum();
        let kinds = BufferKind::NAMES.iter().enumerate().map(|(kind, name)| (*name, self.of_kind(kind) as u64));
        kinds.chain([("lent", lent as u64)])
    }

    pub(super) fn of_kind(&self, kind: usize) -> usize {
        self.workers.iter().fold(self.shared[kind].load(Relaxed), |sum, worker| sum + worker.bytes[kind].load(Relaxed))
    }

    /// Bytes that are free.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.used())
    }

    /// What stays free beside a reply that grows, so that its connection is not closed for it in the end.
    pub fn reply_margin(&self) -> usize {
        self.limit / 8
    }

    /// Is there room for something of this size, which has only been announced? A small one passes
    /// without a look. What does not fit counts as refused.
    pub fn fits(&self, bytes: usize) -> bool {
        let fits = bytes < STEP || bytes <= self.room();
        if !fits {
            self.note_refused();
        }
        fits
    }

    /// What a connection of this worker may be due before its commands wait.
    #[inline]
    pub fn allowance(&self, worker: usize) -> usize {
        self.workers[worker].allowance.load(Relaxed)
    }

    pub(super) fn note_allowance(&self, worker: usize, used: usize) {
        let allowance = (self.limit.saturating_sub(used) / DUE_SHARE).max(LEAST_DUE);
        self.workers[worker].allowance.store(allowance, Relaxed);
    }

    /// Something has grown: looks at the bound.
    #[cold]
    pub(super) fn check(&self) {
        let used = self.used();
        (0..self.workers.len()).for_each(|worker| self.note_allowance(worker, used));
        if used > self.limit.saturating_add(self.ending.load(Relaxed)) {
            self.relieve(used);
        }
    }

    /// Looks at the bound, which values that leave the tier may have passed, and wakes those who
    /// wait for room. Call it every 100 ms or so.
    pub fn tick(&self) {
        self.check();
        self.wake_waiting();
    }

    /// Tells those that hold the most to end, until enough is, or will be, free.
    pub(super) fn relieve(&self, used: usize) {
        // The thread that has this is doing it.
        let Some(_alone) = self.relieving.try_lock() else { return };
        let enough = self.limit - self.limit / MARGIN_SHARE;
        let mut excess = used.saturating_sub(enough).saturating_sub(self.ending.load(Relaxed));
        let (mut open, mut largest) = (0, Vec::new());
        for worker in &self.workers {
            let accounts = worker.accounts.lock();
            open += accounts.len();
            largest.extend(accounts.iter().map(|(_, account)| (account.holds(), account.clone())));
        }
        let worth = WORTH_CUTTING.min(self.limit / (2 * open).max(1)).max(1);
        largest.retain(|(holds, _)| *holds >= worth);
        largest.sort_unstable_by_key(|(holds, _)| std::cmp::Reverse(*holds));
        for (holds, account) in largest {
            if excess == 0 {
                break;
            }
            if account.cut(holds, &self.ending) {
                excess = excess.saturating_sub(holds);
            }
        }
    }

    /// Is there room for more input? If not, the task is woken when it should look again.
    pub fn poll_room(&self, cx: &Context<'_>) -> bool {
        if self.used() <= self.limit {
            return true;
        }
        self.check();
        self.waiting.lock().push(cx.waker().clone());
        false
    }

    pub(super) fn wake_waiting(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Counts, and logs now and then, a connection that was cut.
    #[cold]
    pub fn note_cut(&self, protocol: ClientProtocol, peer: &Address, holds: usize) {
        self.cut[protocol as usize].fetch_add(1, Relaxed);
        let (now, last) = (clock::now(), self.logged.load(Relaxed));
        if now >= last + LOG_EVERY && self.logged.compare_exchange(last, now, Relaxed, Relaxed).is_ok() {
            tracing::warn!(
                %peer, holds, max_buffers = self.limit, cut_so_far = self.cut().map(|(_, cut)| cut).sum::<u64>(),
                "connection cut: it held the most when all buffers together reached max-buffers"
            );
        }
    }

    /// Counts something that was refused because it does not fit.
    pub fn note_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Connections that were cut, by protocol.
    pub fn cut(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        ClientProtocol::NAMES.into_iter().zip(self.cut.iter().map(|cut| cut.load(Relaxed)))
    }

    /// Commands, bodies, replies and values that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }
}
