//! The load generator, as a library: a [`LoadPlan`] in, an [`LoadOutcome`] out, whole slices of time in between.
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
//! - The generator watches itself: [`GeneratorHealth::saturated`](measure::GeneratorHealth::saturated).
//! - One thread, one event loop; threads share nothing but the count of inserted keys.
mod client;
mod connection;
mod generator;
mod interrupt;
pub(crate) mod keys;
pub(crate) mod measure;
pub(crate) mod ops;
pub(crate) mod poll;
mod recorder;
pub(crate) mod schedule;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod values;
pub(crate) mod wire;
mod worker;
mod zipf;

pub(crate) use client::{GeneratorOptions, duration, rate};
pub(crate) use interrupt::Interrupt;

use crate::{
    machine,
    trace::{OperationKind, TraceFile},
};
use anyhow::{Context, bail, ensure};
use client::LONGEST;
use connection::{Connection, RunClock, ThreadState};
use generator::{DrawnOperation, Generator};
use keys::{Draw, KeySpace};
use measure::{LoadOutcome, Slice, ThreadEnd};
use ops::{Mix, Verb};
use poll::Poll;
use recorder::Recorder;
use schedule::{Pace, Replay, Schedule};
use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicU64, mpsc},
    time::{Duration, Instant},
};
use target::TargetUrl;
use values::{Sizes, ValueMaker};
use wire::Wire;
use worker::GeneratorThread;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RunEnd {
    /// So long after the warm-up no more requests are sent.
    After(Duration),
    /// After so many requests from the end of the warm-up on.
    Requests(u64),
}

/// What a run does.
#[derive(Debug, Clone)]
pub(crate) struct LoadPlan {
    /// The server.
    pub(crate) target: TargetUrl,
    /// The operations.
    pub(crate) mix: Mix,
    /// The keys.
    pub(crate) keys: KeySpace,
    /// How long values are.
    pub(crate) sizes: Sizes,
    /// Requests per second on a fixed schedule; absent for a closed loop.
    pub(crate) rate: Option<f64>,
    /// The end.
    pub(crate) stop: RunEnd,
    /// What happens in the first so long does not count.
    pub(crate) warm_up: Duration,
    /// A trace whose operations are played; then `mix` is [`Played::mix`], and `rate` and `stop` do not count.
    pub(crate) played: Option<Played>,
    /// Length of a slice of the results.
    pub(crate) slice: Duration,
    /// Ends it early.
    pub(crate) interrupt: Interrupt,
    /// Connections, threads and so on.
    pub(crate) client: GeneratorOptions,
}

/// A trace and how it is played.
#[derive(Debug, Clone)]
pub(crate) struct Played {
    /// The operations; read before from end to end without a fault.
    pub(crate) trace: TraceFile,
    /// How many times as fast as it was recorded.
    pub(crate) speed: f64,
    /// Operations per second at that speed, for results.
    pub(crate) rate: f64,
}

impl Played {
    /// The operations that a trace may have.
    pub(crate) fn mix() -> Mix {
        let verbs = [Verb::Get, Verb::Set, Verb::Del].map(|verb| (verb, 1.0));
        Mix::new(verbs.into()).expect("weights above 0")
    }

    /// The operations of a thread: of every key the same thread's, so that their order is kept as far as one connection's is.
    fn operations(&self, thread: usize, threads: usize) -> anyhow::Result<Replay> {
        let (thread, threads, speed) = (thread as u64, threads as u64, self.speed);
        let operations = self.trace.operations()?.map_while(Result::ok);
        let mine = operations.filter(move |operation| operation.key % threads == thread);
        Ok(Replay::new(Box::new(mine.map(move |operation| {
            let (verb, size) = match operation.kind {
                OperationKind::Get => (0, None),
                OperationKind::Set(size) => (1, Some(size)),
                OperationKind::Del => (2, None),
            };
            ((operation.at as f64 * 1e3 / speed) as u64, DrawnOperation { verb, key: operation.key, size })
        }))))
    }
}

impl LoadPlan {
    fn check(&self) -> anyhow::Result<()> {
        let &GeneratorOptions { connections, threads, pipeline, .. } = &self.client;
        ensure!(connections > 0 && threads > 0 && pipeline > 0, "--connections, --threads, --pipeline: from 1");
        ensure!(threads <= connections, "--threads {threads} is more than --connections {connections}");
        ensure!(self.keys.count > 0, "--keys is 0");
        if let Some(rate) = self.rate {
            // Before a Duration is made of it, which would panic.
            let seconds = match self.stop {
                RunEnd::Requests(count) => count as f64 / rate,
                RunEnd::After(duration) => duration.as_secs_f64(),
            };
            ensure!(
                seconds <= LONGEST.as_secs_f64(),
                "--requests at --rate {rate} take {seconds:.0} s, more than a year"
            );
        }
        Ok(())
    }

    fn schedule(&self, thread: usize) -> anyhow::Result<Schedule> {
        let threads = self.client.threads;
        if let Some(played) = &self.played {
            return Ok(Schedule::new(Pace::Replay(played.operations(thread, threads)?)));
        }
        let warm_up = self.warm_up.as_nanos() as u64;
        let Some(rate) = self.rate else {
            let (until, requests) = match self.stop {
                RunEnd::After(duration) => (warm_up + duration.as_nanos() as u64, u64::MAX),
                RunEnd::Requests(count) => (u64::MAX, count.saturating_sub(thread as u64).div_ceil(threads as u64)),
            };
            return Ok(Schedule::new(Pace::Closed { until, requests, warm_up }));
        };
        Ok(Schedule::open(rate, self.length(rate), thread, threads))
    }

    /// Requests per second that are asked for; absent for a closed loop.
    pub(crate) fn asked(&self) -> Option<f64> {
        self.played.as_ref().map(|played| played.rate).or(self.rate)
    }

    /// How long results are measured, if time tells.
    pub(crate) fn measured(&self) -> Option<Duration> {
        self.until().map(|until| Duration::from_nanos(until) - self.warm_up)
    }

    /// Length of an open schedule, warm-up included.
    fn length(&self, rate: f64) -> Duration {
        self.warm_up
            + match self.stop {
                RunEnd::After(duration) => duration,
                RunEnd::Requests(count) => Duration::from_secs_f64(count as f64 / rate),
            }
    }

    /// The end of the schedule, if time tells it.
    fn until(&self) -> Option<u64> {
        let length = match (self.rate, self.stop) {
            _ if self.played.is_some() => return None,
            (Some(rate), _) => self.length(rate),
            (None, RunEnd::After(duration)) => self.warm_up + duration,
            (None, RunEnd::Requests(_)) => return None,
        };
        Some(length.as_nanos() as u64)
    }

    fn worker(
        &self,
        thread: usize,
        wire: Wire,
        inserted: Arc<AtomicU64>,
        out: mpsc::Sender<(usize, Slice)>,
    ) -> anyhow::Result<GeneratorThread> {
        let warm_up = self.warm_up.as_nanos() as u64;
        let draw = Draw::new(&self.keys, inserted, thread, self.client.threads);
        let values = ValueMaker::new(self.sizes.clone(), self.client.seed);
        let seed = self.client.seed.wrapping_add(thread as u64);
        let share = self.client.connections / self.client.threads
            + usize::from(thread < self.client.connections % self.client.threads);
        Ok(GeneratorThread {
            connections: (0..share).map(Connection::new).collect(),
            shared: ThreadState {
                clock: RunClock(Instant::now()),
                schedule: self.schedule(thread)?,
                generator: Generator::new(self.mix.clone(), self.keys.names.clone(), draw, values, wire, seed),
                recorder: Recorder::new(warm_up, self.slice.as_nanos() as u64, thread, out),
                target: self.target.clone(),
                poll: Poll::new()?,
                pipeline: self.client.pipeline,
                timeout: self.client.timeout,
                input: vec![0; 64 * 1024].into(),
                in_flight: 0,
                up: 0,
                refused: None,
                started: false,
            },
            warm_up,
            until: self.until(),
            interrupt: self.interrupt.clone(),
            spin: self.client.spin,
        })
    }
}

/// Runs a plan to its end. `each` is shown every slice of time, all threads added up, once all have finished it.
pub(crate) fn run(plan: &LoadPlan, each: &mut dyn FnMut(&Slice)) -> anyhow::Result<LoadOutcome> {
    run_connected(plan, &mut || Ok(()), each)
}

/// The same; `connected` is called when all connections are made, shortly before the first request.
pub(crate) fn run_connected(
    plan: &LoadPlan,
    connected: &mut dyn FnMut() -> anyhow::Result<()>,
    each: &mut dyn FnMut(&Slice),
) -> anyhow::Result<LoadOutcome> {
    plan.check()?;
    let wire = Wire::new(&plan.target, plan.mix.verbs(), &plan.client.header, plan.client.error_status.clone())?;
    let inserted = Arc::new(AtomicU64::new(plan.keys.count));
    std::thread::scope(|scope| {
        let (ready, all_ready) = mpsc::channel();
        let (out, slices) = mpsc::channel();
        let mut receivers = Vec::new();
        let mut threads = Vec::new();
        for thread in 0..plan.client.threads {
            let (go, start) = mpsc::channel::<Instant>();
            let (wire, inserted, ready) = (wire.clone(), inserted.clone(), ready.clone());
            let out = out.clone();
            threads.push(scope.spawn(move || -> anyhow::Result<Option<ThreadEnd>> {
                if let Some(&core) = plan.client.pin.get(thread % plan.client.pin.len().max(1)) {
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
        let up = all_ready.iter().take(plan.client.threads).count() == plan.client.threads;
        let ready = if up { connected() } else { Ok(()) };
        let start = Instant::now() + Duration::from_millis(5);
        if up && ready.is_ok() {
            for go in receivers {
                go.send(start).context("a thread of the generator ended early")?;
            }
        } else {
            drop(receivers);
        }
        let mut outcome = LoadOutcome::new(plan.client.spin);
        merge(plan.client.threads, slices, &mut outcome, each);
        for thread in threads {
            match thread.join() {
                Ok(end) => end?.iter().for_each(|end| outcome.add(end)),
                Err(_) => bail!("a thread of the generator panicked"),
            }
        }
        ready?;
        ensure!(up, "not all connections could be made");
        Ok(outcome)
    })
}

/// Adds up the threads' slices as they come.
fn merge(
    threads: usize,
    slices: mpsc::Receiver<(usize, Slice)>,
    outcome: &mut LoadOutcome,
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
