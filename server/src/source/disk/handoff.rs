//! The way between a core and the store's threads.
//!
//! What is to cross waits until the core has gone through the tasks that were ready, and crosses together; answers gather until the core comes for
//! them. To wake a thread costs more than a look into the store: with 64 connections a `PUT` cost 0.4 to 0.6 wake-ups when each crossed alone, and 0.1 so.
use super::{DiskSetup, into_found};
use crate::source::{Fetch, FetchedValue, SourceError, SourceHealth};
use larder_store::{
    clock,
    disk::{Change, Replies, Tree, Work, WriteError, Written},
};
use parking_lot::Mutex;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// What a reader found.
type Answer = Result<Option<FetchedValue>, SourceError>;

/// Keys of one job of a reader, at most.
const JOB: usize = 16;
/// How often reads are looked at whose time may be over.
const SWEEP: Duration = Duration::from_millis(20);

/// Who asks for a key.
enum Asked {
    Fetch(Fetch),
    /// Is there an entry?
    Existence(oneshot::Sender<Result<bool, SourceError>>),
}
impl Asked {
    fn answer(self, answer: Answer, took: Duration, health: &SourceHealth) {
        match self {
            Asked::Fetch(fetch) => {
                health.finished(answer.is_err(), took);
                fetch.finish(answer, clock::now());
            }
            // Nobody may be waiting any more.
            Asked::Existence(reply) => drop(reply.send(answer.map(|found| found.is_some()))),
        }
    }
}

/// Those who asked for keys that readers have. A reader answers a job's in their order; the core fails those whose time is over.
struct Jobs<A> {
    /// Of the first; the others' follow.
    number: u64,
    /// When they began, and who waits.
    jobs: VecDeque<(Instant, VecDeque<A>)>,
}
impl<A> Jobs<A> {
    fn begin(&mut self, now: Instant, asked: VecDeque<A>) -> u64 {
        self.jobs.push_back((now, asked));
        self.number + self.jobs.len() as u64 - 1
    }
    /// The next of a job, and when it began; `None`: its time was over.
    fn answered(&mut self, job: u64) -> Option<(Instant, A)> {
        let (begun, waiting) = self.jobs.get_mut(job.checked_sub(self.number)? as usize)?;
        let next = waiting.pop_front().map(|asked| (*begun, asked));
        self.forget_done();
        next
    }
    /// Those that began by then.
    fn late(&mut self, begun: Instant) -> Vec<A> {
        let late = self.jobs.iter_mut().take_while(|(at, _)| *at <= begun);
        let late = late.flat_map(|(_, waiting)| waiting.drain(..)).collect();
        self.forget_done();
        late
    }
    fn forget_done(&mut self) {
        while self.jobs.front().is_some_and(|(_, waiting)| waiting.is_empty()) {
            self.jobs.pop_front();
            self.number += 1;
        }
    }
}

/// One core's side of the way between it and the store's threads.
pub(super) struct Handoff {
    pub(super) setup: DiskSetup,
    /// To be read.
    asked: RefCell<Vec<(Box<[u8]>, Asked)>>,
    /// To be written.
    writes: RefCell<Vec<Written>>,
    /// Answers to writes come here.
    replies: Arc<Replies>,
    /// What was found, with its job's number. It wakes the core if it finds nothing here.
    found: Arc<Mutex<Vec<(u64, Answer)>>>,
    jobs: RefCell<Jobs<Asked>>,
    /// Cloned by each write that is under way.
    writing: Rc<()>,
    /// The task that watches over them runs.
    watched: Cell<bool>,
}

impl Handoff {
    pub(super) fn new(setup: DiskSetup) -> Handoff {
        Handoff {
            setup,
            asked: RefCell::default(),
            writes: RefCell::default(),
            replies: Arc::default(),
            found: Arc::default(),
            jobs: RefCell::new(Jobs { number: 0, jobs: VecDeque::new() }),
            writing: Rc::default(),
            watched: Cell::new(false),
        }
    }

    /// Crosses whenever there is something to, for ever. Woken by the first that comes, it runs behind the tasks that are ready then.
    pub(super) async fn run(self: Rc<Handoff>) {
        loop {
            self.replies.changed().await;
            // What panics has not answered; the others' reads and writes go on.
            let crossed = catch_unwind(AssertUnwindSafe(|| self.cross()));
            if crossed.is_err() {
                tracing::error!("an answer of disk store {} panicked", self.setup.store.dir().display());
            }
        }
    }

    /// Hands over what is to cross, and hands on the answers.
    fn cross(self: &Rc<Handoff>) {
        let writes = mem::take(&mut *self.writes.borrow_mut());
        if !writes.is_empty() {
            self.setup.store.write(writes, &self.replies);
        }
        self.start();
        self.replies.deliver();
        let found = mem::take(&mut *self.found.lock());
        for (job, answer) in found {
            let asked = self.jobs.borrow_mut().answered(job);
            if let Some((begun, asked)) = asked {
                asked.answer(answer, begun.elapsed(), &self.setup.health);
            }
        }
    }

    /// Begins fetches with the next crossing.
    pub(super) fn fetch(&self, fetches: impl Iterator<Item = Fetch>) {
        self.asked.borrow_mut().extend(fetches.map(|fetch| (fetch.key().into(), Asked::Fetch(fetch))));
        self.replies.wake();
    }
    /// Is there an entry?
    pub(super) async fn exists(&self, key: &[u8]) -> Result<bool, SourceError> {
        let (reply, answer) = oneshot::channel();
        self.asked.borrow_mut().push((key.into(), Asked::Existence(reply)));
        self.replies.wake();
        answer.await.unwrap_or_else(|_| Err(self.setup.unavailable("the store was closed")))
    }

    /// Has the readers read, each a part.
    fn start(self: &Rc<Handoff>) {
        let mut asked = self.asked.borrow_mut();
        if asked.is_empty() {
            return;
        }
        let part = asked.len().div_ceil(self.setup.limits.store.threads).min(JOB);
        let mut asked = asked.drain(..);
        let jobs: Vec<Work> = (0..asked.len().div_ceil(part)).map(|_| self.job(asked.by_ref().take(part))).collect();
        self.setup.store.read(jobs);
        self.watch();
    }

    fn job(&self, asked: impl Iterator<Item = (Box<[u8]>, Asked)>) -> Work {
        let (keys, asked): (Vec<Box<[u8]>>, VecDeque<Asked>) = asked.unzip();
        let job = self.jobs.borrow_mut().begin(Instant::now(), asked);
        let (left, replies, buffers) = (self.found.clone(), self.replies.clone(), self.setup.buffers.clone());
        Box::new(move |tree| {
            for key in keys {
                let found = tree.get(&key, clock::now());
                let answer = found.map(|found| found.map(|found| into_found(found, &buffers))).map_err(unavailable);
                let first = {
                    let mut left = left.lock();
                    left.push((job, answer));
                    left.len() == 1
                };
                if first {
                    replies.wake();
                }
            }
        })
    }

    fn watch(self: &Rc<Handoff>) {
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
        self.answered(within, answer).await
    }
    pub(super) async fn answered<T>(
        &self,
        within: Duration,
        answer: oneshot::Receiver<Result<T, String>>,
    ) -> Result<T, SourceError> {
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(answer)) => answer.map_err(unavailable),
            Ok(Err(_)) => Err(self.setup.unavailable("a read ended without an answer")),
            Err(_) => Err(self.setup.late(within)),
        }
    }

    /// However long it takes: see [`LocalStore::apply`](super::LocalStore::apply).
    pub(super) async fn write(self: &Rc<Handoff>, change: Change) -> Result<(), SourceError> {
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

/// Fails the reads whose time is over, as long as any are under way. Writes have time limits elsewhere, but while this sleeps there is a
/// timer sooner than theirs: the runtime makes a system call for each that is to be the soonest.
async fn watch(crossing: Rc<Handoff>) {
    let setup = &crossing.setup;
    loop {
        tokio::time::sleep(SWEEP).await;
        let within = setup.limits.timeout;
        let late = Instant::now().checked_sub(within).map(|begun| crossing.jobs.borrow_mut().late(begun));
        for asked in late.into_iter().flatten() {
            asked.answer(Err(setup.late(within)), within, &setup.health);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(of: &[&[u8]], now: Instant) -> Jobs<u8> {
        let mut jobs = Jobs { number: 7, jobs: VecDeque::new() };
        for (at, job) in of.iter().enumerate() {
            assert_eq!(jobs.begin(now + SWEEP * at as u32, job.iter().copied().collect()), 7 + at as u64);
        }
        jobs
    }

    #[test]
    fn answers_find_what_they_are_for() {
        let now = Instant::now();
        let mut jobs = jobs(&[&[1, 2], &[3, 4], &[5]], now);
        let mut answered = |job| jobs.answered(job).map(|(_, fetch)| fetch);
        let got: Vec<_> = [8, 7, 9, 7, 8].into_iter().map(&mut answered).collect();
        assert_eq!(got, [3, 1, 5, 2, 4].map(Some));
        assert_eq!((jobs.number, jobs.jobs.len()), (10, 0), "forgotten once done");
        assert_eq!(jobs.begin(now, VecDeque::from([6])), 10);
    }

    #[test]
    fn an_answer_after_its_time_is_for_nobody() {
        let now = Instant::now();
        let mut jobs = jobs(&[&[1, 2], &[3]], now);
        assert_eq!(jobs.answered(7), Some((now, 1)));
        assert_eq!(jobs.late(now), [2]);
        assert_eq!(jobs.answered(7), None);
        assert_eq!(jobs.answered(8), Some((now + SWEEP, 3)));
        assert!(jobs.late(now + SWEEP).is_empty());
    }
}
