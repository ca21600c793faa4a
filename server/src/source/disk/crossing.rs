//! The way between a core and the store's threads.
//!
//! What is to cross waits until the core has gone through the tasks that were ready, and crosses together; answers gather until the core comes for
//! them. To wake a thread costs more than a look into the store: with 64 connections a `PUT` cost 0.4 to 0.6 wake-ups when each crossed alone, and 0.1 so.
use super::{DiskSetup, into_found};
use crate::{
    clock,
    read::Fetch,
    source::{Found, SourceError},
    store::disk::{Change, Replies, Tree, Work, WriteError, Written},
};
use parking_lot::Mutex;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    mem,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// What a reader found.
type Answer = Result<Option<Found>, SourceError>;

/// Keys of one job of a reader, at most.
const JOB: usize = 16;
/// How often fetches are looked at whose time may be over.
const SWEEP: Duration = Duration::from_millis(20);
/// Fetches that readers have the keys of. A reader answers a job's in their order; the core fails those whose time is over.
#[derive(Default)]
struct Jobs {
    /// Of the first; the others' follow.
    number: u64,
    /// When they began, and what they wait for.
    jobs: VecDeque<(Instant, VecDeque<Fetch>)>,
}
impl Jobs {
    fn begin(&mut self, fetches: VecDeque<Fetch>) -> u64 {
        self.jobs.push_back((Instant::now(), fetches));
        self.number + self.jobs.len() as u64 - 1
    }
    /// The next fetch of a job, and when it began; `None`: its time was over.
    fn answered(&mut self, job: u64) -> Option<(Instant, Fetch)> {
        let (begun, fetches) = self.jobs.get_mut(job.checked_sub(self.number)? as usize)?;
        let next = fetches.pop_front().map(|fetch| (*begun, fetch));
        self.forget_done();
        next
    }
    /// Those that began before.
    fn late(&mut self, begun: Instant) -> Vec<Fetch> {
        let late = self.jobs.iter_mut().take_while(|(at, _)| *at <= begun);
        let late = late.flat_map(|(_, fetches)| fetches.drain(..)).collect();
        self.forget_done();
        late
    }
    fn forget_done(&mut self) {
        while self.jobs.front().is_some_and(|(_, fetches)| fetches.is_empty()) {
            self.jobs.pop_front();
            self.number += 1;
        }
    }
}

/// One core's side of the way between it and the store's threads.
pub(super) struct Crossing {
    pub(super) setup: DiskSetup,
    /// To be fetched.
    fetches: RefCell<VecDeque<Fetch>>,
    /// To be written.
    writes: RefCell<Vec<Written>>,
    /// Answers to writes come here.
    replies: Arc<Replies>,
    /// Answers to fetches, with their jobs' numbers. They wake the core if they find nothing here.
    fetched: Arc<Mutex<Vec<(u64, Answer)>>>,
    jobs: RefCell<Jobs>,
    /// Cloned by each write that is under way.
    writing: Rc<()>,
    /// The task that watches over them runs.
    watched: Cell<bool>,
}

impl Crossing {
    pub(super) fn new(setup: DiskSetup) -> Crossing {
        Crossing {
            setup,
            fetches: RefCell::default(),
            writes: RefCell::default(),
            replies: Arc::default(),
            fetched: Arc::default(),
            jobs: RefCell::default(),
            writing: Rc::default(),
            watched: Cell::new(false),
        }
    }

    /// Hands over what is to cross, and hands on the answers, for ever. Woken by the first that comes, it runs behind the tasks that are
    /// ready then.
    pub(super) async fn run(self: Rc<Crossing>) {
        loop {
            self.replies.changed().await;
            let writes = mem::take(&mut *self.writes.borrow_mut());
            if !writes.is_empty() {
                self.setup.store.write(writes, &self.replies);
            }
            self.start();
            self.replies.deliver();
            let fetched = mem::take(&mut *self.fetched.lock());
            for (job, answer) in fetched {
                let answered = self.jobs.borrow_mut().answered(job);
                if let Some((begun, fetch)) = answered {
                    self.setup.health.finished(answer.is_err(), begun.elapsed());
                    fetch.finish(answer, clock::now());
                }
            }
        }
    }

    /// Begins fetches with the next crossing.
    pub(super) fn fetch(&self, fetches: impl Iterator<Item = Fetch>) {
        self.fetches.borrow_mut().extend(fetches);
        self.replies.wake();
    }

    /// Has the readers fetch, each a part.
    fn start(self: &Rc<Crossing>) {
        let mut fetches = self.fetches.borrow_mut();
        let job = fetches.len().div_ceil(self.setup.limits.store.threads).min(JOB);
        let mut jobs = Vec::new();
        while !fetches.is_empty() {
            let part = job.min(fetches.len());
            jobs.push(self.job(fetches.drain(..part).collect()));
        }
        if !jobs.is_empty() {
            self.setup.store.read(jobs);
        }
    }

    fn job(self: &Rc<Crossing>, fetches: VecDeque<Fetch>) -> Work {
        let keys: Vec<Box<[u8]>> = fetches.iter().map(|fetch| fetch.key().into()).collect();
        let job = self.jobs.borrow_mut().begin(fetches);
        self.watch();
        let (fetched, replies) = (self.fetched.clone(), self.replies.clone());
        Box::new(move |tree| {
            for key in keys {
                let found = tree.get(&key, clock::now());
                let answer = found.map(|found| found.map(into_found)).map_err(unavailable);
                let first = {
                    let mut fetched = fetched.lock();
                    fetched.push((job, answer));
                    fetched.len() == 1
                };
                if first {
                    replies.wake();
                }
            }
        })
    }

    fn watch(self: &Rc<Crossing>) {
        if !self.watched.replace(true) {
            tokio::task::spawn_local(watch(self.clone()));
        }
    }

    /// Has a reader run this; a thread that dies or takes too long is an error.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        within: Duration,
        asked: impl FnOnce(&Tree) -> Result<T, String> + Send + 'static,
    ) -> Result<T, SourceError> {
        let (reply, answer) = oneshot::channel();
        let work: Work = Box::new(move |tree| {
            // Whoever asked may have gone meanwhile: nothing is read for nobody.
            if !reply.is_closed() {
                let _ = reply.send(asked(tree));
            }
        });
        self.setup.store.read([work]);
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => answer.map_err(unavailable),
            Ok(Err(_)) => Err(self.setup.unavailable("a read ended without an answer")),
            Err(_) => Err(self.setup.late(within)),
        }
    }

    /// However long it takes: see [`LocalStore::apply`].
    pub(super) async fn write(self: &Rc<Crossing>, change: Change) -> Result<bool, SourceError> {
        let (reply, answer) = oneshot::channel();
        self.writes.borrow_mut().push((change, reply));
        self.replies.wake();
        let _under_way = self.writing.clone();
        self.watch();
        match answer.await {
            Ok(answer) => answer.map_err(write_error),
            Err(_) => Err(self.setup.lost("the store was closed")),
        }
    }
}

/// Fails the fetches whose time is over, as long as any are under way. Writes have time limits elsewhere, but while this sleeps there is a
/// timer sooner than theirs: the runtime makes a system call for each that is to be the soonest.
async fn watch(crossing: Rc<Crossing>) {
    let setup = &crossing.setup;
    loop {
        tokio::time::sleep(SWEEP).await;
        let within = setup.limits.timeout;
        let late = Instant::now().checked_sub(within).map(|begun| crossing.jobs.borrow_mut().late(begun));
        for fetch in late.into_iter().flatten() {
            setup.health.finished(true, within);
            fetch.finish(Err(setup.late(within)), clock::now());
        }
        if crossing.jobs.borrow().jobs.is_empty() && Rc::strong_count(&crossing.writing) == 1 {
            crossing.watched.set(false);
            return;
        }
    }
}

fn unavailable(text: String) -> SourceError {
    SourceError::Unavailable(text.into())
}
fn write_error(error: WriteError) -> SourceError {
    match error {
        WriteError::Refused(text) => SourceError::Unavailable(text),
        WriteError::Invalid(text) => SourceError::Refused(text),
        WriteError::Lost(text) => SourceError::Lost(text),
    }
}
