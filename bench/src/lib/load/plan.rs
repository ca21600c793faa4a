//! What a run does: a [`LoadPlan`], and the schedule of each thread that follows from it.
use super::{
    interrupt::Interrupt,
    keys::KeySpace,
    ops::{DrawnOperation, Mix, Verb},
    options::GeneratorOptions,
    schedule::{Pace, Replay, Schedule},
    target::TargetUrl,
    users::{LONGEST, Users},
    values::Sizes,
};
use crate::lib::trace::{OperationKind, TraceFile};
use anyhow::ensure;
use std::time::Duration;

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
    /// A trace whose operations are played; then `mix` is [`Played::mix`], and `rate` and `stop` do
    /// not count.
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

    /// The operations of a thread: of every key the same thread's, so that their order is kept as
    /// far as one connection's is.
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
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let &GeneratorOptions { connections, threads, pipeline, think_time, batches, .. } = &self.client;
        ensure!(connections > 0 && threads > 0 && pipeline > 0, "--connections, --threads, --pipeline: from 1");
        ensure!(threads <= connections, "--threads {threads} is more than --connections {connections}");
        ensure!(self.keys.count > 0, "--keys is 0");
        let closed = self.rate.is_none() && self.played.is_none();
        ensure!(
            closed || !batches,
            "--batches is for closed loops: with a rate or a trace, the schedule says when requests are sent"
        );
        if think_time.is_some() {
            ensure!(
                closed,
                "--think-time is for closed loops: with a rate or a trace, the schedule says when users send"
            );
            ensure!(pipeline == 1, "--think-time: a user waits for the reply, so --pipeline is 1");
        }
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

    pub(super) fn schedule(&self, thread: usize) -> anyhow::Result<Schedule> {
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
            let users = self.client.think_time.map(|think| {
                let seed = self.client.seed.wrapping_add(thread as u64);
                Users::new(self.client.connections_of(thread), think, seed)
            });
            return Ok(Schedule::new(Pace::Closed { until, requests, warm_up, users }));
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
    pub(super) fn until(&self) -> Option<u64> {
        let length = match (self.rate, self.stop) {
            _ if self.played.is_some() => return None,
            (Some(rate), _) => self.length(rate),
            (None, RunEnd::After(duration)) => self.warm_up + duration,
            (None, RunEnd::Requests(_)) => return None,
        };
        Some(length.as_nanos() as u64)
    }
}

/// A hundredth of the run, but from 100 ms to 1 s, and no more than a thousand of them.
pub(crate) fn slice(run: Duration) -> Duration {
    (run / 100).clamp(Duration::from_millis(100), Duration::from_secs(1)).max(run / 1000)
}
