//! What the connections of one thread share.
use super::{
    generator::Generator, latency_recorder::LatencyRecorder, poll::Poll, schedule::Schedule, target::TargetUrl,
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunClock(pub(super) Instant);

impl RunClock {
    pub(super) fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// What a thread's connections share.
pub(super) struct ThreadState {
    pub(super) clock: RunClock,
    pub(super) schedule: Schedule,
    pub(super) generator: Generator,
    pub(super) recorder: LatencyRecorder,
    pub(super) target: TargetUrl,
    pub(super) poll: Poll,
    /// Most requests in flight on a connection.
    pub(super) pipeline: usize,
    /// A connection sends again when all its requests are answered.
    pub(super) batches: bool,
    /// How long a reply may take.
    pub(super) timeout: Duration,
    /// How long a written request is held back, ns.
    pub(super) delay: u64,
    /// When a request is due to be sent after its delay, and on which connection; in order of time.
    /// The connection may have lost it since.
    pub(super) delayed: VecDeque<(u64, usize)>,
    /// Where replies are read to.
    pub(super) input: Box<[u8]>,
    /// Requests in flight, and connections that are up, over all.
    pub(super) in_flight: usize,
    pub(super) up: usize,
    /// Why a connection could not be made, the last time that the system said so.
    pub(super) refused: Option<std::io::Error>,
    /// The schedule has begun; before, connections are made and nothing is sent.
    pub(super) started: bool,
}
