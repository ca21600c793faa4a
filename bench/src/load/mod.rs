//! The load generator, as a library: a [`Plan`] in, an [`Outcome`] out, whole slices of time in between.
//!
//! ```text
//! schedule ──due──> generator ──bytes──> connection ──> server
//!                       │                    │ reply
//!                       wire <───────────────┘──> recorder ──slices──> run() ──> Outcome
//! ```
//! What always holds:
//! - A request has an intended start: with a rate, its place on a fixed schedule; without one, the moment its turn came. Latency is counted from
//!   there, service time from the write. Nothing is skipped, thinned out or corrected afterwards.
//! - What cannot be sent yet waits as a number in the schedule and keeps its time.
//! - A request without a reply is an error by kind; one that timed out is in the percentiles with the time it had.
//! - The generator watches itself: [`Own::saturated`](measure::Own::saturated).
//! - One thread, one event loop; threads share nothing but the count of inserted keys.
mod connection;
mod generator;
pub(crate) mod keys;
pub(crate) mod measure;
pub(crate) mod ops;
mod poll;
mod recorder;
pub(crate) mod schedule;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod values;
pub(crate) mod wire;
mod worker;
mod zipf;

use crate::machine;
use anyhow::{Context, bail, ensure};
use connection::{Clock, Connection, Shared};
use generator::Generator;
use keys::{Draw, KeySpace};
use measure::{Outcome, Slice, ThreadEnd};
use ops::Mix;
use poll::Poll;
use recorder::Recorder;
use schedule::{Pace, Schedule};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64, mpsc},
    time::{Duration, Instant},
};
use target::Target;
use values::{Sizes, Values};
use wire::{Statuses, Wire};
use worker::Worker;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stop {
    /// So long after the warm-up no more requests are sent.
    After(Duration),
    /// After so many requests from the end of the warm-up on.
    Requests(u64),
}

/// What a run does.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The server.
    pub(crate) target: Target,
    /// The operations.
    pub(crate) mix: Mix,
    /// The keys.
    pub(crate) keys: KeySpace,
    /// How long values are.
    pub(crate) sizes: Sizes,
    /// HTTP: more headers, `Name: value`.
    pub(crate) headers: Vec<String>,
    /// HTTP: which answers are errors.
    pub(crate) statuses: Statuses,
    /// Requests per second on a fixed schedule; absent for a closed loop.
    pub(crate) rate: Option<f64>,
    /// Event loops.
    pub(crate) threads: usize,
    /// Connections, over all threads.
    pub(crate) connections: usize,
    /// Most requests in flight on a connection.
    pub(crate) pipeline: usize,
    /// The end.
    pub(crate) stop: Stop,
    /// What happens in the first so long does not count.
    pub(crate) warm_up: Duration,
    /// How long a reply may take, and how long is waited for the last ones.
    pub(crate) timeout: Duration,
    /// Length of a slice of the results.
    pub(crate) slice: Duration,
    /// Poll instead of sleeping: exact to a microsecond, at the price of a core for each thread.
    pub(crate) spin: bool,
    /// Cores for the threads, in turn; none: wherever the system puts them.
    pub(crate) pin: Vec<usize>,
    /// What the random choices grow from.
    pub(crate) seed: u64,
}

impl Plan {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.connections > 0 && self.threads > 0 && self.pipeline > 0, "connections, threads, pipeline: from 1");
        ensure!(self.threads <= self.connections, "--threads {} exceeds --connections", self.threads);
        ensure!(self.keys.count > 0, "--keys is 0");
        if let Some(rate) = self.rate {
            ensure!(rate > 0.0 && rate.is_finite(), "--rate {rate} is not above 0");
        }
        Ok(())
    }

    fn schedule(&self, thread: usize) -> Schedule {
        let warm_up = self.warm_up.as_nanos() as u64;
        let Some(rate) = self.rate else {
            let (until, requests) = match self.stop {
                Stop::After(duration) => (warm_up + duration.as_nanos() as u64, u64::MAX),
                Stop::Requests(count) => {
                    (u64::MAX, count.saturating_sub(thread as u64).div_ceil(self.threads as u64))
                }
            };
            return Schedule::new(Pace::Closed { until, requests, warm_up });
        };
        Schedule::open(rate, self.length(rate), thread, self.threads)
    }

    /// How long results are measured, if time tells.
    pub(crate) fn measured(&self) -> Option<Duration> {
        self.until().map(|until| Duration::from_nanos(until) - self.warm_up)
    }

    /// Length of an open schedule, warm-up included.
    fn length(&self, rate: f64) -> Duration {
        self.warm_up
            + match self.stop {
                Stop::After(duration) => duration,
                Stop::Requests(count) => Duration::from_secs_f64(count as f64 / rate),
            }
    }

    /// The end of the schedule, if time tells it.
    fn until(&self) -> Option<u64> {
        let length = match (self.rate, self.stop) {
            (Some(rate), _) => self.length(rate),
            (None, Stop::After(duration)) => self.warm_up + duration,
            (None, Stop::Requests(_)) => return None,
        };
        Some(length.as_nanos() as u64)
    }

    fn worker(
        &self,
        thread: usize,
        wire: Wire,
        inserted: Arc<AtomicU64>,
        out: mpsc::Sender<(usize, Slice)>,
    ) -> anyhow::Result<Worker> {
        let warm_up = self.warm_up.as_nanos() as u64;
        let draw = Draw::new(&self.keys, inserted, thread, self.threads);
        let values = Values::new(self.sizes.clone(), self.seed);
        let seed = self.seed.wrapping_add(thread as u64);
        let share = self.connections / self.threads + usize::from(thread < self.connections % self.threads);
        Ok(Worker {
            connections: (0..share).map(Connection::new).collect(),
            shared: Shared {
                clock: Clock(Instant::now()),
                schedule: self.schedule(thread),
                generator: Generator::new(self.mix.clone(), self.keys.names.clone(), draw, values, wire, seed),
                recorder: Recorder::new(warm_up, self.slice.as_nanos() as u64, thread, out),
                target: self.target.clone(),
                poll: Poll::new()?,
                pipeline: self.pipeline,
                timeout: self.timeout,
                input: vec![0; 64 * 1024].into(),
                in_flight: 0,
                up: 0,
                started: false,
            },
            warm_up,
            until: self.until(),
            spin: self.spin,
        })
    }
}

/// Runs a plan to its end. `each` is shown every slice of time, all threads added up, once all have finished it.
pub(crate) fn run(plan: &Plan, each: &mut dyn FnMut(&Slice)) -> anyhow::Result<Outcome> {
    plan.check()?;
    let wire = Wire::new(&plan.target, plan.mix.verbs(), &plan.headers, plan.statuses.clone())?;
    let inserted = Arc::new(AtomicU64::new(plan.keys.count));
    std::thread::scope(|scope| {
        let (ready, all_ready) = mpsc::channel();
        let (out, slices) = mpsc::channel();
        let mut receivers = Vec::new();
        let mut threads = Vec::new();
        for thread in 0..plan.threads {
            let (go, start) = mpsc::channel::<Instant>();
            let (wire, inserted, ready) = (wire.clone(), inserted.clone(), ready.clone());
            let out = out.clone();
            threads.push(scope.spawn(move || -> anyhow::Result<Option<ThreadEnd>> {
                if let Some(&core) = plan.pin.get(thread % plan.pin.len().max(1)) {
                    machine::pin(core)?;
                }
                let mut worker = plan.worker(thread, wire, inserted, out)?;
                worker.establish()?;
                // Fails only if another thread did.
                let _ = ready.send(());
                drop(ready);
                start.recv().ok().map(|start| worker.run(start)).transpose()
            }));
            receivers.push(go);
        }
        drop((ready, out));
        let up = all_ready.iter().take(plan.threads).count() == plan.threads;
        let start = Instant::now() + Duration::from_millis(5);
        if up {
            for go in receivers {
                go.send(start).context("a thread of the generator ended early")?;
            }
        } else {
            drop(receivers);
        }
        let mut outcome = Outcome::new(plan.spin);
        merge(plan.threads, slices, &mut outcome, each);
        for thread in threads {
            match thread.join() {
                Ok(end) => end?.iter().for_each(|end| outcome.add(end)),
                Err(_) => bail!("a thread of the generator panicked"),
            }
        }
        ensure!(up, "not all connections could be made");
        Ok(outcome)
    })
}

/// Adds up the threads' slices as they come.
fn merge(
    threads: usize,
    slices: mpsc::Receiver<(usize, Slice)>,
    outcome: &mut Outcome,
    each: &mut dyn FnMut(&Slice),
) {
    let mut hand = |slice: Slice| {
        outcome.total.add(&slice);
        each(&slice);
    };
    let mut pending = BTreeMap::<u64, Slice>::new();
    // Each thread has handed out all slices before this one.
    let mut next = vec![0; threads];
    for (thread, slice) in slices {
        next[thread] = slice.index + 1;
        pending.entry(slice.index).or_insert_with(|| Slice::new(slice.index)).add(&slice);
        let done = next.iter().copied().min().unwrap_or(0);
        while let Some(first) = pending.first_entry().filter(|first| *first.key() < done) {
            hand(first.remove());
        }
    }
    pending.into_values().for_each(hand);
}
